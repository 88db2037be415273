//! QEMU: what it is called with.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::command::{Command, find, output};

/// The program.
const QEMU: &str = "qemu-system-x86_64";

/// QEMU of this machine.
#[derive(Clone, Debug)]
pub struct Qemu {
    version: (u32, u32),
    /// True if the machine's own processor runs the guest.
    pub kvm: bool,
    /// Features that an emulated processor lacks.
    without: &'static str,
}

/// Parts of a machine.
pub struct Machine<'a> {
    /// The kernel's image.
    pub kernel: &'a Path,
    /// Kernel command line options beside those of all guests.
    pub options: &'a str,
    /// The first file system.
    pub archive: &'a Path,
    /// A disk, written to as long as the guest runs.
    pub disk: &'a Path,
    /// File for the kernel's messages; the terminal if none.
    pub console: Option<&'a Path>,
    /// File for the guest's reports.
    pub report: &'a Path,
    /// MiB.
    pub memory: u32,
    /// Processors.
    pub processors: u32,
    /// When a guest that hangs is ended.
    pub limit: Duration,
}

impl Qemu {
    /// QEMU, if it is installed, with software emulation.
    ///
    /// # Errors
    /// If it does not say its version.
    pub fn find() -> Result<Option<Self>> {
        if find(QEMU).is_none() {
            return Ok(None);
        }
        let text = output(Command::new(QEMU).arg("--version"))?;
        let version = version(&text).with_context(|| format!("{QEMU} says no version, but {text:?}"))?;
        Ok(Some(Self { version, kvm: false, without: "" }))
    }

    /// The same with a processor that lacks features, in QEMU's words: `,-erms,-fsrm`.
    #[must_use]
    pub fn without(&self, features: &'static str) -> Self {
        Self { without: features, ..self.clone() }
    }

    /// Description of the emulator and accelerator.
    pub fn description(&self) -> String {
        let (major, minor) = self.version;
        let how = if self.kvm { "KVM" } else { "emulation in software" };
        format!("QEMU {major}.{minor}, {how}")
    }

    /// The command that runs `machine` to its end. A guest that is still there at its limit is ended, with
    /// exit code 124; whoever ends this process ends the guest.
    pub fn command(&self, machine: &Machine<'_>) -> Command {
        let limit = machine.limit.as_secs().to_string();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "timeout", "--foreground", "--kill-after=10", &limit, QEMU]);
        command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
        command.args(self.processor(machine.console.is_none()));
        command.args(["-m", &machine.memory.to_string(), "-smp", &machine.processors.to_string()]);
        command.arg("-kernel").arg(machine.kernel).arg("-initrd").arg(machine.archive);
        command.args(["-append", format!("{COMMAND_LINE} {}", machine.options).trim_end()]);
        let disk = format!("file={},if=virtio,format=raw,cache=unsafe", machine.disk.display());
        command.args(["-drive", &disk]);
        command.args(["-serial", &machine.console.map_or("mon:stdio".into(), file)]);
        command.args(["-serial", &file(machine.report)]);
        command
    }

    fn processor(&self, interactive: bool) -> Vec<String> {
        let cpu = format!("{}{}", cpu(self.version), self.without);
        let mut arguments = match self.kvm {
            true => vec!["-machine", "pc,accel=kvm", "-cpu", "host"],
            false => vec!["-machine", "pc,accel=tcg", "-cpu", &cpu],
        };
        if !self.kvm && !interactive {
            // The guest's clock counts instructions and passes over idle time: a loaded host changes no
            // result.
            arguments.extend(["-icount", "shift=0,sleep=off", "-rtc", "clock=vm"]);
        }
        arguments.into_iter().map(str::to_owned).collect()
    }
}

/// A warning, an oops or a panic ends the guest; nothing in it is secret from itself.
const COMMAND_LINE: &str =
    "console=ttyS0 ignore_loglevel panic=-1 oops=panic mitigations=off nokaslr rootfstype=ramfs";

/// Debian 12's QEMU 7.2 now and then crashes guests that use `cmpxchg16b`; 10.0 does not. Between, nobody has
/// looked.
fn cpu(version: (u32, u32)) -> &'static str {
    if version < (10, 0) { "max,-cx16" } else { "max" }
}

fn file(path: &Path) -> String {
    format!("file:{}", path.display())
}

/// 7 and 2 of `QEMU emulator version 7.2.22 (Debian …)`.
fn version(text: &str) -> Option<(u32, u32)> {
    let (_, rest) = text.split_once("version ")?;
    let mut numbers = rest.split(|character: char| !character.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// A disk without content, made anew for each guest.
///
/// # Errors
/// If it cannot be made.
pub fn disk(folder: &Path, mebibytes: u32) -> Result<PathBuf> {
    let path = folder.join("disk");
    let mkfs = find("mkfs.ext4").context("mkfs.ext4 is not installed (package e2fsprogs)")?;
    output(Command::new(mkfs).args(["-q", "-O", "^has_journal"]).arg(&path).arg(format!("{mebibytes}M")))
        .context("making a disk")?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: QEMU is started without options that crash guests in its older versions.
    #[test]
    fn old_versions_do_without_what_crashes_them() {
        for (text, expected) in [
            ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright", "max,-cx16"),
            ("QEMU emulator version 8.2.2 (Debian 1:8.2.2+ds-0ubuntu1.10)", "max,-cx16"),
            ("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)", "max"),
        ] {
            assert_eq!(cpu(version(text).unwrap()), expected, "{text}");
        }
        assert_eq!(version("something else"), None);
    }

    #[test]
    fn a_processor_is_without_what_was_asked_for() {
        let plain = Qemu { version: (7, 2), kvm: false, without: ",-erms,-fsrm" };
        assert!(plain.processor(false).contains(&"max,-cx16,-erms,-fsrm".to_owned()));
    }

    #[test]
    fn a_kernel_is_told_what_is_added() {
        let nothing = Path::new("/nothing");
        let told = |options| {
            let machine = Machine {
                kernel: nothing,
                options,
                archive: nothing,
                disk: nothing,
                console: None,
                report: nothing,
                memory: 1,
                processors: 1,
                limit: Duration::ZERO,
            };
            let command = Qemu { version: (7, 2), kvm: false, without: "" }.command(&machine);
            let arguments: Vec<_> =
                command.get_args().map(|one| one.to_string_lossy().into_owned()).collect();
            arguments[arguments.iter().position(|one| one == "-append").unwrap() + 1].clone()
        };
        assert_eq!(told(""), COMMAND_LINE);
        assert_eq!(told("slub_debug=FZPU"), format!("{COMMAND_LINE} slub_debug=FZPU"));
    }

    #[test]
    fn guests_count_time_in_instructions_where_they_are_emulated() {
        let emulated = Qemu { version: (7, 2), kvm: false, without: "" };
        let counts = |qemu: &Qemu, interactive| qemu.processor(interactive).contains(&"-icount".to_owned());
        assert!(counts(&emulated, false));
        assert!(!counts(&emulated, true));
        assert!(!counts(&Qemu { kvm: true, ..emulated }, false));
    }
}
