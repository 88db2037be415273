//! Running programs as the first process: also the one that buries whoever is left behind.

use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};

/// Folders of programs.
const PATH: &str = "/bin:/sbin:/usr/bin:/usr/sbin";

/// Runs a program to its end. Its files go to the disk, so that they are files of a real file system.
pub(crate) fn run(command: &mut Command, variables: &[(String, String)]) -> Result<(), String> {
    let command = command.env_clear().env("PATH", PATH).env("HOME", "/tmp").env("TMPDIR", "/disk");
    let command = command.envs(variables.iter().map(|(name, value)| (name, value)));
    let child = command.stdin(Stdio::null()).spawn().map_err(|error| format!("cannot be run: {error}"))?;
    match end_of(child.id()) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("ended with {status}")),
        Err(error) => Err(format!("{error:#}")),
    }
}

/// A shell on a serial port, until it ends.
pub(crate) fn shell(port: &Path) -> Result<()> {
    let open = || OpenOptions::new().read(true).write(true).open(port).context("opening the terminal");
    let mut command = Command::new("/bin/busybox");
    // `setsid -c` makes it the terminal of the shell's session, so that Ctrl-C is for programs in it.
    command
        .args(["setsid", "-c", "/bin/busybox", "sh", "-l"])
        .env("PATH", PATH)
        .env("HOME", "/tmp")
        .env("TERM", "linux");
    let child = command.stdin(open()?).stdout(open()?).stderr(open()?).spawn().context("starting a shell")?;
    end_of(child.id()).map(drop)
}

/// Waits for one process; all others that end meanwhile are orphans, and nobody else will.
fn end_of(process: u32) -> Result<ExitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended.as_raw_nonzero().get().unsigned_abs() == process => {
                return Ok(ExitStatus::from_raw(status.as_raw()));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for a program"),
        }
    }
}
