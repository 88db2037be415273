//! Environment of programs: file systems, devices, a loopback device, a folder for files.

use std::fs::OpenOptions;
use std::os::unix::fs::symlink;

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount as mount_at};
use rustix::stdio::{dup2_stderr, dup2_stdout};

use crate::command::{Command, output};

/// The serial port that carries the report; the first is the kernel's.
const REPORT: &str = "/dev/ttyS1";

/// Mounts what the kernel itself offers.
pub(crate) fn mount() -> Result<()> {
    for (kind, folder) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("tmpfs", "/tmp"),
        ("tmpfs", "/run"),
        ("debugfs", "/sys/kernel/debug"),
        ("tracefs", "/sys/kernel/tracing"),
    ] {
        mount_at("none", folder, kind, MountFlags::empty(), None).with_context(|| folder.to_owned())?;
    }
    // Without CONFIG_SECURITYFS, sysfs has no folder for it.
    let security = "/sys/kernel/security";
    if std::fs::exists(security).context(security)? {
        mount_at("none", security, "securityfs", MountFlags::empty(), None).context(security)?;
    }
    for (kind, folder) in [("tmpfs", "/dev/shm"), ("devpts", "/dev/pts")] {
        std::fs::create_dir_all(folder).with_context(|| folder.to_owned())?;
        mount_at("none", folder, kind, MountFlags::empty(), None).with_context(|| folder.to_owned())?;
    }
    for (link, file) in
        [("fd", "self/fd"), ("stdin", "self/fd/0"), ("stdout", "self/fd/1"), ("stderr", "self/fd/2")]
    {
        symlink(format!("/proc/{file}"), format!("/dev/{link}")).context("linking /dev/fd")?;
    }
    Ok(())
}

/// Makes the second serial port standard output and standard error.
pub(crate) fn speak_on_the_second_port() -> Result<()> {
    let port = OpenOptions::new().write(true).open(REPORT).context(REPORT)?;
    dup2_stdout(&port).context("standard output")?;
    dup2_stderr(&port).context("standard error")?;
    Ok(())
}

/// Does what needs modules and programs: the disk, the loopback device, and links that tools expect.
pub(crate) fn finish() -> Result<()> {
    output(Command::new("/bin/ip").args(["link", "set", "lo", "up"])).context("the loopback device")?;
    mount_at("/dev/vda", "/disk", "ext4", MountFlags::empty(), None).context("mounting the disk")?;
    if std::fs::exists("/bin/busybox").context("/bin")? {
        // A program that has the name of a tool stays.
        output(Command::new("/bin/busybox").args(["--install", "-s", "/bin"]))
            .context("making a shell's tools")?;
    }
    Ok(())
}
