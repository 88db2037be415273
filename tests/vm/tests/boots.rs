//! Guests that do well and guests that do not: the machine must tell them apart.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};

use wirepath_tests::{require, trials};
use wirepath_vm::guest::{self, Guest};
use wirepath_vm::kernels::Kernel;
use wirepath_vm::qemu::Qemu;
use wirepath_vm::report::Report;
use wirepath_vm::suite;

fn main() -> ExitCode {
    let boots = trials![
        a_silent_guest_passes,
        a_warning_fails_a_guest_whose_program_passes,
        a_crash_fails_a_guest,
        a_program_that_fails_fails_its_guest,
        a_guest_that_hangs_is_ended,
    ];
    wirepath_tests::trial::run(boots, Vec::new())
}

fn a_silent_guest_passes() -> Result<()> {
    let report = report("silent", "test -e /dev/vda && grep -q ' /disk ext4 ' /proc/mounts", 120)?;
    ensure!(report.counts() == [2, 0, 0], "{}", report.text());
    Ok(())
}

fn a_warning_fails_a_guest_whose_program_passes() -> Result<()> {
    let report = report("warning", "echo 'WARNING: CPU: 0 PID: 1 at nowhere.c:1' > /dev/kmsg", 120)?;
    ensure!(report.counts() == [1, 1, 0], "{}", report.text());
    ensure!(report.text().contains("nowhere.c:1"), "{}", report.text());
    Ok(())
}

fn a_crash_fails_a_guest() -> Result<()> {
    let report = report("crash", "echo c > /proc/sysrq-trigger", 120)?;
    ensure!(report.counts() == [0, 2, 0], "{}", report.text());
    ensure!(report.text().contains("Kernel panic"), "{}", report.text());
    Ok(())
}

fn a_program_that_fails_fails_its_guest() -> Result<()> {
    let report = report("failing", "echo this is why; exit 3", 120)?;
    ensure!(report.counts() == [1, 1, 0], "{}", report.text());
    ensure!(report.text().contains("exit status: 3; it printed:\nthis is why"), "{}", report.text());
    Ok(())
}

fn a_guest_that_hangs_is_ended() -> Result<()> {
    let report = report("hanging", "while :; do :; done", 1)?;
    ensure!(report.counts()[1] >= 1, "{}", report.text());
    ensure!(report.text().contains("still running after 1 s"), "{}", report.text());
    Ok(())
}

/// What comes of a guest that runs one line of shell, on the newest kernel.
fn report(name: &str, line: &str, limit_seconds: u64) -> Result<Report> {
    let qemu = Qemu::find()?;
    require!(qemu.is_some(), "QEMU is not installed");
    let kernel = suite::chosen(None).and_then(|series| Kernel::of(series[0], &wirepath_vm::cache()));
    require!(kernel.is_ok(), "no kernel: {:#}", kernel.as_ref().unwrap_err());
    let logs: PathBuf = guest::logs(&wirepath_vm::cache());
    let guest =
        Guest::new(&format!("boots {name}"), &kernel?, Path::new(env!("CARGO_BIN_EXE_wirepath-vm-init")))?;
    let guest = guest.script(name, line)?.size(256, 1, Duration::from_secs(limit_seconds));
    guest.boot(&qemu.expect("required"), &logs)
}
