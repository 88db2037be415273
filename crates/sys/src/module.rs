//! Device of the kernel module, `/dev/wirepath`: from storage to the network in one call, by reference.
//!
//! `kernel/module/Documentation/wirepath.rst` describes the protocol. A [`Run`] is one packet or any
//! number of packets, with payload from a file or from memory, and with given headers, headers of the
//! kernel's RTP engine, or none; a [`Vector`] is the `sendfilew` of the papers. Both keep their progress, so
//! that a call that ended early is continued by calling again. A [`Started`] run is paced by the kernel.
//!
//! By reference means that pages of files and of mappings are not copied: later writes to the file may change
//! packets that have not left yet. Memory that this process can write is copied.

pub mod arena;
pub mod layout;
mod run;
mod started;
mod vector;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;

pub use layout::{Query, RtpTime};
use run::address;
pub use run::{Marker, Rtp, Run, Sent, Timestamps};
pub use started::{Started, State, Status};
pub use vector::{Part, Vector};

use crate::{errno_of, ioctl};

/// Path of the device.
pub const DEVICE: &str = "/dev/wirepath";

/// How to install and load the module.
const INSTALL: &str = "install the package wirepath-dkms, then run modprobe wirepath";

/// Open device. Any number of threads may share one; a separate one per thread avoids a shared counter.
#[derive(Debug)]
pub struct Module {
    device: File,
}

/// Error of opening the device.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The device does not exist.
    #[error("needs the kernel module: {INSTALL}")]
    Missing,
    /// This user may not open the device.
    #[error("cannot open {DEVICE}: permission denied: join the group wirepath, and log in again")]
    Forbidden,
    /// No user may open the device in this environment.
    #[error(
        "cannot open {DEVICE}: not permitted here: allow it in the container (--device) or the unit (DeviceAllow=)"
    )]
    Barred,
    /// Other interface version.
    #[error(
        "the loaded kernel module has interface version {loaded}, this program needs version {known}: load the module of this program's sources or package",
        known = layout::VERSION
    )]
    Version {
        /// Version of the module.
        loaded: u32,
    },
    /// Other error.
    #[error("{DEVICE}: {0}; {remedy}", remedy = remedy(.0))]
    Other(#[source] io::Error),
}

impl Module {
    /// Opens the device and queries its version.
    pub fn open() -> Result<Module, OpenError> {
        Module::open_at(DEVICE.as_ref())
    }

    fn open_at(path: &Path) -> Result<Module, OpenError> {
        let device = OpenOptions::new().read(true).write(true).open(path).map_err(OpenError::of)?;
        let module = Module { device };
        match module.query().map_err(OpenError::Other)?.version {
            layout::VERSION => Ok(module),
            loaded => Err(OpenError::Version { loaded }),
        }
    }

    /// Version, features and limits of the module on this kernel.
    pub fn query(&self) -> io::Result<Query> {
        let mut query = Query { size: size_of::<Query>() as u32, ..Query::default() };
        // SAFETY: the kernel writes as many bytes as `size` says, all of which are numbers.
        unsafe { ioctl(&self.device, layout::QUERY, &raw mut query)? };
        Ok(query)
    }

    /// Sends the run, or the rest of it; [`Run::sent`] has the progress, also after an error. Waits for
    /// storage; waits for room in the socket unless the socket is non-blocking.
    ///
    /// # Errors
    /// See the header, under SEND: `EAGAIN`, `ENODATA`, `EINTR`, `EOPNOTSUPP` and errors of `send`. `EINVAL`
    /// for too few given headers.
    #[inline]
    pub fn send(&self, socket: BorrowedFd<'_>, run: &mut Run<'_>) -> io::Result<()> {
        let raw = run.prepare(socket)?;
        // SAFETY: the kernel reads and writes the run and the RTP state it points to, which is the run's own
        // and borrowed with it. It reads headers, table, address and memory that the run borrows, as far as
        // they are long.
        unsafe { ioctl(&self.device, layout::SEND, raw) }.map(drop)
    }

    /// Sends the vector, or the rest of it; see [`Vector::bytes`]. Waits like [`Module::send`].
    ///
    /// # Errors
    /// See the header, under SEND and SENDFILEW.
    #[inline]
    pub fn sendfilew(&self, socket: BorrowedFd<'_>, vector: &mut Vector<'_>) -> io::Result<()> {
        let raw = vector.prepare(socket);
        // SAFETY: the kernel reads and writes the vector, and reads the parts, the address and the memory
        // that it borrows.
        unsafe { ioctl(&self.device, layout::SENDFILEW, raw) }.map(drop)
    }

    /// Lets the kernel send the run, from its current position, at a rate that counts headers and payload.
    /// The kernel keeps what it needs: the run and everything that it borrows are free after the call.
    ///
    /// # Errors
    /// See the header, under SEND and START; `EINVAL` for a run of bytes that this process can write, since
    /// they would have to stay unchanged.
    pub fn start(
        &self,
        socket: BorrowedFd<'_>,
        run: &mut Run<'_>,
        bytes_per_second: u64,
    ) -> io::Result<Started> {
        if run.is_of_bytes() {
            return Err(Errno::INVAL.into());
        }
        let mut raw = layout::Start {
            size: size_of::<layout::Start>() as u32,
            send: address(run.prepare(socket)?),
            rate_bytes_per_second: bytes_per_second,
            ..layout::Start::default()
        };
        // SAFETY: the kernel reads the structure, the run and what it points to, and writes
        // none of them. Pages that it goes on to send are those of a file or of a mapping of a file, which it
        // holds itself.
        let descriptor = unsafe { ioctl(&self.device, layout::START, &raw mut raw)? };
        // SAFETY: the kernel has just made this descriptor for this call.
        Ok(Started::new(unsafe { OwnedFd::from_raw_fd(descriptor as i32) }))
    }
}

impl OpenError {
    fn of(error: io::Error) -> OpenError {
        match errno_of(&error) {
            Errno::NOENT | Errno::NODEV | Errno::NXIO => OpenError::Missing,
            Errno::ACCESS => OpenError::Forbidden,
            Errno::PERM => OpenError::Barred,
            _ => OpenError::Other(error),
        }
    }

    /// Errno of the error; `EPROTO` for another version.
    pub fn errno(&self) -> Errno {
        match self {
            OpenError::Missing => Errno::NODEV,
            OpenError::Forbidden => Errno::ACCESS,
            OpenError::Barred => Errno::PERM,
            OpenError::Version { .. } => Errno::PROTO,
            OpenError::Other(error) => errno_of(error),
        }
    }
}

/// Remedy for another error.
fn remedy(error: &io::Error) -> &'static str {
    match errno_of(error) {
        Errno::MFILE => "raise the limit of open files (ulimit -n, or LimitNOFILE= of a systemd unit)",
        Errno::NFILE => "the machine has too many open files: raise fs.file-max",
        Errno::NOMEM | Errno::BUSY | Errno::INTR => "try again",
        Errno::NOTTY => "not a device of the kernel module: remove it, and run modprobe wirepath",
        _ => "the kernel's log may say more",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Without the kernel module, its data paths report that it is missing and how to load it.
    #[test]
    fn what_is_no_device_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Module::open_at(&folder.path().join("wirepath")).unwrap_err();
        assert!(matches!(missing, OpenError::Missing));
        assert!(missing.to_string().contains("modprobe wirepath"));
        let other = Module::open_at("/dev/null".as_ref()).unwrap_err();
        assert!(matches!(other, OpenError::Other(_)), "{other}");
        assert!(other.to_string().contains("modprobe wirepath"), "{other}");
    }

    #[test]
    fn what_keeps_the_device_from_being_opened_is_said_with_what_to_do() {
        for (errno, words) in [
            (Errno::NODEV, "install the package wirepath-dkms"),
            (Errno::ACCESS, "join the group wirepath"),
            (Errno::PERM, "DeviceAllow="),
            (Errno::MFILE, "LimitNOFILE="),
            (Errno::NFILE, "fs.file-max"),
            (Errno::BUSY, "try again"),
            (Errno::IO, "kernel's log"),
        ] {
            let error = OpenError::of(errno.into());
            assert_eq!(error.errno(), errno);
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn bytes_that_can_be_written_are_not_left_to_the_kernel() {
        let module = Module { device: File::open("/dev/null").unwrap() };
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = std::os::fd::AsFd::as_fd(&socket);
        let mut run = Run::of_bytes(b"payload");
        let error = module.start(socket, &mut run, 1).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        // Other devices fail with another error.
        assert_eq!(module.send(socket, &mut run).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
    }
}
