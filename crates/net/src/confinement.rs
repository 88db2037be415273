//! Confinement of a server to its folders (Landlock, Linux 5.13) and to its system calls (seccomp): an
//! attacker who exploits a fault of the server cannot open other files or start programs. The network stays
//! open.

mod calls;
mod files;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

/// Folders and files that a confined server can access. Missing files are left out.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Readable folders and files.
    pub readable: Vec<PathBuf>,
    /// Writable folders and files; files may be created and removed in the folders.
    pub writable: Vec<PathBuf>,
    /// Socket of the service manager (`NOTIFY_SOCKET` of sd_notify(3)), if there is one: then datagrams may
    /// be sent over Unix sockets.
    pub notify_socket: Option<OsString>,
}

/// Extent of file confinement by the kernel; system calls are confined in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything that the server requests.
    Whole,
    /// The part that this kernel supports.
    Part,
    /// Nothing: the kernel has no Landlock, or has it disabled.
    Nothing,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Extent::Whole => "to its folders by Landlock, to its system calls by seccomp",
            Extent::Part => {
                "to its folders by Landlock as far as this kernel can, to its system calls by seccomp"
            }
            Extent::Nothing => {
                "to its system calls by seccomp, not to its folders: this kernel has no Landlock, or does not let it be used"
            }
        })
    }
}

/// Confinement failed. The process may be partly confined.
#[derive(Debug, Error)]
pub enum ConfinementError {
    /// Landlock failed.
    #[error("cannot confine to folders: {0}")]
    Files(#[from] landlock::RulesetError),
    /// A folder cannot be opened.
    #[error("cannot confine to folders: {0}")]
    Folder(#[from] landlock::PathFdError),
    /// seccomp failed.
    #[error("cannot confine to system calls: {0}")]
    Calls(#[from] seccompiler::Error),
    /// The system call filter cannot be built.
    #[error("cannot confine to system calls: {0}")]
    Filter(#[from] seccompiler::BackendError),
}

/// Confines the calling thread, and threads that it starts from now on, permanently. Must be called before
/// the process has other threads.
pub fn confine(reach: &Reach) -> Result<Extent, ConfinementError> {
    let extent = files::confine(reach)?;
    calls::confine(reach)?;
    Ok(extent)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
    use std::path::Path;
    use std::process::Command;
    use std::thread;

    use rustix::process::{Resource, getppid, getrlimit, prlimit, test_kill_process};
    use socket2::{Domain, Protocol, Socket, Type};

    use super::*;

    /// Promise: A confined server accesses only its folders and starts no program.
    #[test]
    fn a_confined_thread_reaches_its_folders_only() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        for folder in ["media", "cache", "secret"] {
            fs::create_dir(path(folder)).unwrap();
            fs::write(path(folder).join("file"), "x").unwrap();
        }
        std::os::unix::fs::symlink("../secret/file", path("media/link")).unwrap();
        let reach = Reach {
            readable: vec![path("media"), path("missing")],
            writable: vec![path("cache"), Path::new("/dev/null").to_owned()],
            notify_socket: None,
        };
        let fails = |result: std::io::Result<()>| result.err().map(|error| error.kind());
        thread::scope(|scope| {
            scope.spawn(|| {
                let extent = confine(&reach).unwrap();
                // The kernel of a guest may lack Landlock; system calls are confined everywhere.
                assert!(Command::new("/bin/true").status().is_err(), "a program started");
                if extent == Extent::Nothing {
                    return println!("this kernel has no Landlock");
                }
                let inherits = thread::spawn({
                    let secret = path("secret/file");
                    move || fs::read(secret).map(drop).map_err(|error| error.kind())
                });
                let denied = Some(ErrorKind::PermissionDenied);
                assert_eq!(inherits.join().unwrap().err(), denied);
                assert_eq!(fs::read(path("media/file")).unwrap(), b"x");
                assert_eq!(fails(fs::read(path("media/link")).map(drop)), denied);
                assert_eq!(fails(fs::read("/etc/passwd").map(drop)), denied);
                assert_eq!(fails(fs::write(path("media/new"), "x")), denied);
                assert_eq!(fails(fs::remove_file(path("media/file"))), denied);
                fs::write(path("cache/new"), "x").unwrap();
                fs::rename(path("cache/new"), path("cache/old")).unwrap();
                fs::write("/dev/null", "x").unwrap();
            });
        });
    }

    /// Promise: A confined server opens no Unix, packet or raw socket, and signals no other process.
    #[test]
    fn a_confined_thread_reaches_no_other_process() {
        let home = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(home.path().join("socket")).unwrap();
        let readable = vec![PathBuf::from("/proc")];
        let reach = Reach { readable, writable: vec![home.path().to_owned()], notify_socket: None };
        let memory = format!("/proc/{}/mem", getppid().unwrap().as_raw_nonzero());
        thread::scope(|scope| {
            scope.spawn(|| {
                let extent = confine(&reach).unwrap();
                assert!(extent == Extent::Nothing || fs::File::open(&memory).is_err());
                let refused = |error: std::io::Error| assert_eq!(error.raw_os_error(), Some(libc::ENOSYS));
                refused(UnixStream::connect(home.path().join("socket")).unwrap_err());
                refused(UnixDatagram::unbound().unwrap_err());
                refused(UnixDatagram::pair().unwrap_err());
                refused(Socket::new(Domain::PACKET, Type::DGRAM, None).unwrap_err());
                refused(Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap_err());
                refused(test_kill_process(getppid().unwrap()).unwrap_err().into());
                refused(prlimit(getppid(), Resource::Core, getrlimit(Resource::Core)).unwrap_err().into());

                thread::spawn(|| UnixStream::pair().unwrap()).join().unwrap();
                let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
                TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
            });
        });
        drop(listener);
    }

    /// Promise: A confined server can notify systemd that it is ready.
    #[test]
    fn a_confined_thread_reaches_its_service_manager() {
        for name in ["@wirepath-test", "socket"] {
            let home = tempfile::tempdir().unwrap();
            let unique = home.path().file_name().unwrap().to_str().unwrap().to_owned();
            let address = match name.strip_prefix('@') {
                Some(name) => SocketAddr::from_abstract_name(format!("{name}{unique}")).unwrap(),
                None => SocketAddr::from_pathname(home.path().join(name)).unwrap(),
            };
            let manager = UnixDatagram::bind_addr(&address).unwrap();
            let reach = Reach { notify_socket: Some(name.into()), ..Reach::default() };
            thread::scope(|scope| {
                scope.spawn(|| {
                    confine(&reach).unwrap();
                    UnixDatagram::unbound().unwrap().send_to_addr(b"READY=1", &address).unwrap();
                    let stream = UnixStream::connect(home.path().join("socket")).unwrap_err();
                    assert_eq!(stream.raw_os_error(), Some(libc::ENOSYS));
                });
            });
            let mut received = [0; 16];
            assert_eq!(manager.recv(&mut received).unwrap(), 7);
        }
    }
}
