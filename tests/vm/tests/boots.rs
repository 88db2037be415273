//! Guests that do well and guests that do not: the machine must tell them apart.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use libtest_mimic::Arguments;

use wirepath_tests::{require, trial, trials};
use wirepath_vm::guest::{self, Guest};
use wirepath_vm::kernels::Kernel;
use wirepath_vm::qemu::Qemu;
use wirepath_vm::report::Report;
use wirepath_vm::{cache, module, package, suite, workspace};

fn main() -> ExitCode {
    let boots = trials![
        a_silent_guest_passes,
        a_warning_fails_a_guest_whose_program_passes,
        a_crash_fails_a_guest,
        a_program_that_fails_fails_its_guest,
        a_guest_that_hangs_is_ended,
        a_module_that_does_no_harm_passes,
        a_module_that_warns_fails,
        a_module_that_leaks_memory_fails,
        a_module_that_loses_count_of_its_users_fails,
        the_package_brings_a_module_that_works_and_takes_it_away,
    ];
    let mut arguments = Arguments::from_args();
    // Each takes a processor.
    arguments.test_threads.get_or_insert(2);
    trial::run_as(arguments, boots, Vec::new())
}

/// Promise: A guest without faults passes, with one verdict for all its tests.
fn a_silent_guest_passes() -> Result<()> {
    let line = "grep -q ' /disk ext4 ' /proc/mounts && touch $TMPDIR/x && test \"$VARIABLE\" = value";
    let ready = guest("silent", line)?;
    let report = Ready { guest: ready.guest.variable("VARIABLE", "value"), ..ready }.boot()?;
    ensure!(report.counts() == [2, 0, 0], "{}", report.text());
    Ok(())
}

/// Promise: A kernel warning, oops, panic or debugging report fails the guest even if its tests pass.
fn a_warning_fails_a_guest_whose_program_passes() -> Result<()> {
    let report = guest("warning", "echo 'WARNING: CPU: 0 PID: 1 at nowhere.c:1' > /dev/kmsg")?.boot()?;
    ensure!(report.counts() == [1, 1, 0], "{}", report.text());
    ensure!(report.text().contains("nowhere.c:1"), "{}", report.text());
    Ok(())
}

/// Promise: A kernel warning, oops, panic or debugging report fails the guest even if its tests pass.
fn a_crash_fails_a_guest() -> Result<()> {
    let report = guest("crash", "echo c > /proc/sysrq-trigger")?.boot()?;
    ensure!(report.counts() == [0, 2, 0], "{}", report.text());
    ensure!(report.text().contains("Kernel panic"), "{}", report.text());
    Ok(())
}

/// Promise: A failed test, a runner without tests or a guest that does not end fails the guest.
fn a_program_that_fails_fails_its_guest() -> Result<()> {
    let report = guest("failing", "echo this is why; exit 3")?.boot()?;
    ensure!(report.counts() == [1, 1, 0], "{}", report.text());
    ensure!(report.text().contains("exit status: 3; it printed:\nthis is why"), "{}", report.text());
    Ok(())
}

/// Promise: A failed test, a runner without tests or a guest that does not end fails the guest.
fn a_guest_that_hangs_is_ended() -> Result<()> {
    let report = guest("hanging", "while :; do :; done")?.limited(1).boot()?;
    ensure!(report.counts()[1] >= 1, "{}", report.text());
    ensure!(report.text().contains("still running after 1 s"), "{}", report.text());
    Ok(())
}

/// Promise: A guest without faults passes, with one verdict for all its tests.
fn a_module_that_does_no_harm_passes() -> Result<()> {
    let report = planted("harmless", "test -e /sys/module/planted")?.boot()?;
    ensure!(report.counts() == [2, 0, 0], "{}", report.text());
    Ok(())
}

/// Promise: A kernel warning, oops, panic or debugging report fails the guest even if its tests pass.
fn a_module_that_warns_fails() -> Result<()> {
    fails("warn", &["WARNING: ", "a planted warning", "the kernel is tainted"])
}

/// Promise: A module that leaks memory or keeps a use count fails its guest.
fn a_module_that_leaks_memory_fails() -> Result<()> {
    fails("leak", &["memory leaks"])
}

/// Promise: A module that leaks memory or keeps a use count fails its guest.
fn a_module_that_loses_count_of_its_users_fails() -> Result<()> {
    fails("hold", &["planted is still in use (1 times)"])
}

/// Promise: The package installs, DKMS builds a working module, and removal leaves nothing behind.
///
/// Installed on this machine's system, but for its kernels, built by DKMS for each kernel that is tested, and
/// purged.
fn the_package_brings_a_module_that_works_and_takes_it_away() -> Result<()> {
    for series in suite::chosen(None).unwrap_or_default() {
        let kernel = Kernel::of(series, &cache());
        require!(kernel.is_ok(), "no kernel: {kernel:?}");
        let kernel = kernel?;
        let folder = tempfile::tempdir()?;
        let module = package::installed(workspace::folder(), &kernel, folder.path())?;
        let name = format!("{} package", series.number);
        let ready = guest_of(&kernel, &name)?;
        let planned = module::plan_smoke_test(
            ready.guest.for_tests()?.module(&module, "")?,
            &workspace::folder().join("kernel/module"),
            &PACKAGED,
        )?;
        // First uses of eBPF and of control groups fill caches of the kernel, which stay.
        let report = Ready { guest: planned.rehearse(), ..ready }.limited(1200).boot()?;
        ensure!(report.counts()[..2] == [2, 0], "{}", report.text());
    }
    Ok(())
}

/// Groups of the smoke test that show that a module built by DKMS works: its calls, runs and handlers. The guest
/// `module` runs all groups.
const PACKAGED: [&str; 6] = ["--only", "packets", "--only", "runs_of_packets", "--only", "handlers"];

/// Plants a fault; the program that does it passes, and the guest must not.
fn fails(fault: &str, complaints: &[&str]) -> Result<()> {
    let report = planted(fault, &format!("echo {fault} > /sys/module/planted/parameters/fault"))?.boot()?;
    ensure!(report.counts() == [1, 1, 0], "{}", report.text());
    for complaint in complaints {
        ensure!(report.text().contains(complaint), "no {complaint:?} in\n{}", report.text());
    }
    Ok(())
}

/// A guest that is ready to boot.
struct Ready {
    qemu: Qemu,
    guest: Guest,
}

impl Ready {
    fn limited(self, seconds: u64) -> Self {
        Self { guest: self.guest.size(256, 1, Duration::from_secs(seconds)), ..self }
    }

    fn boot(self) -> Result<Report> {
        self.guest.boot(&self.qemu, &guest::logs(&cache()))
    }
}

/// A guest that runs one line of shell, on the newest kernel.
fn guest(name: &str, line: &str) -> Result<Ready> {
    let ready = guest_of(&kernel()?, name)?;
    Ok(Ready { guest: ready.guest.script(name, line)?, ..ready })
}

/// A guest with nothing to run.
fn guest_of(kernel: &Kernel, name: &str) -> Result<Ready> {
    let qemu = Qemu::find()?;
    require!(qemu.is_some(), "QEMU is not installed");
    let qemu = qemu.expect("it is required");
    let machine = Path::new(env!("CARGO_BIN_EXE_wirepath-vm"));
    let guest = Guest::new(&format!("boots {name}"), kernel, machine)?;
    // Emulated and behind other programs, a guest that does nothing may take minutes.
    Ok(Ready { qemu, guest }.limited(1200))
}

/// The same with the module of faults.
fn planted(name: &str, line: &str) -> Result<Ready> {
    let ready = guest(name, line)?;
    let folder = tempfile::tempdir()?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("planted");
    let module = module::build(&sources, &kernel()?, folder.path())?;
    Ok(Ready { guest: ready.guest.module(&module, "")?, ..ready })
}

fn kernel() -> Result<Kernel> {
    let kernel = suite::chosen(None).and_then(|series| Kernel::of(series[0], &cache()));
    require!(kernel.is_ok(), "no kernel: {kernel:?}");
    kernel
}
