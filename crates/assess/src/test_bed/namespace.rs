//! Unnamed network namespaces, and `ip` inside them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Doing, Error};
use crate::programs;

/// Network namespace. It lives as long as this value, a thread or process in it, or a socket of it.
#[derive(Debug)]
pub(super) struct Namespace(File);

impl Namespace {
    /// Moves the calling thread to a new namespace; `None` if that is not permitted.
    pub(super) fn unshare() -> Result<Option<Namespace>, Error> {
        match wirepath_sys::namespace::leave_network() {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
            Err(error) => return Err(error).doing("making a network namespace"),
        }
        disable_ipv6()?;
        Namespace::here().map(Some)
    }

    /// Namespace of the calling thread.
    pub(super) fn here() -> Result<Namespace, Error> {
        File::open("/proc/thread-self/ns/net").doing("opening the network namespace").map(Namespace)
    }

    /// Creates another namespace. The calling thread, which is in this one, returns to it.
    pub(super) fn create(&self) -> Result<Namespace, Error> {
        let made = wirepath_sys::namespace::leave_network().doing("making a network namespace");
        let other = made.and_then(|()| disable_ipv6()).and_then(|()| Namespace::here());
        self.enter()?;
        other
    }

    /// Calls `act` in this namespace; the calling thread then returns to `home`.
    pub(super) fn run_in<T>(
        &self,
        home: &Namespace,
        act: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.enter()?;
        let result = act();
        home.enter()?;
        result
    }

    /// Path by which `ip` can open the namespace while this value lives.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Moves the calling thread to this namespace.
    pub(super) fn enter(&self) -> Result<(), Error> {
        move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
            .doing("going into a network namespace")
    }
}

/// Disables IPv6, which would send packets of its own that a device would count.
fn disable_ipv6() -> Result<(), Error> {
    for devices in ["all", "default"] {
        match std::fs::write(format!("/proc/sys/net/ipv6/conf/{devices}/disable_ipv6"), "1") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {} // a kernel without IPv6
            written => written.doing("turning IPv6 off in the network namespace")?,
        }
    }
    Ok(())
}

/// Runs `ip` in the namespace of the calling thread; fails if `ip` fails.
pub(super) fn ip(arguments: &str) -> Result<(), Error> {
    run("ip", arguments).map(drop)
}

/// Runs a program of iproute2, or `nft`, in the namespace of the calling thread, and returns what it prints; fails
/// if the program fails.
pub(super) fn run(program: &str, arguments: &str) -> Result<Vec<u8>, Error> {
    let Some(file) = programs::find(program) else {
        let package = if program == "nft" { "nftables" } else { "iproute2" };
        return Err(Error::Input(format!(
            "`{program}`, which sets up the devices of the test bed, is not installed: install the package {package}"
        )));
    };
    let mut command = Command::new(file);
    command.args(arguments.split_whitespace()).stdin(Stdio::null());
    // Ctrl-C at the terminal is handled by this process: a partly built test bed is useless.
    command.process_group(0);
    match command.output() {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(Error::System {
            doing: format!("{program} {arguments}"),
            source: io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }),
        Err(error) => Err(error).doing(&format!("starting `{program}`")),
    }
}
