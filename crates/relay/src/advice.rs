//! System errors about addresses, with the remedy.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use wirepath_net::{explain_bind_error, is_privileged};

/// Maximum length of the path of a Unix socket: `sun_path` has 108 bytes, and the last byte is zero
/// (unix(7)).
pub(crate) const MAX_SOCKET_PATH: usize = 107;

/// Error of binding a port.
pub(crate) fn on_port(port: u16, error: io::Error) -> io::Error {
    on_explained_port(port, explain_bind_error(port, error))
}

/// Error of binding a port that [`explain_bind_error`] has explained.
pub(crate) fn on_explained_port(port: u16, error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied if is_privileged(port) => {}
        io::ErrorKind::AddrInUse => {}
        _ => return error,
    }
    io::Error::new(error.kind(), format!("{error}; use another port"))
}

pub(crate) fn on_socket(path: &Path, error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::AddrInUse => taken(path, error.kind()),
        _ => on_length(path, on_new(path, error)),
    }
}

/// Error about the path of a Unix socket. The standard library reports `InvalidInput` for paths that are too
/// long.
pub(crate) fn on_length(path: &Path, error: io::Error) -> io::Error {
    let is_invalid = error.kind() == io::ErrorKind::InvalidInput && path.as_os_str().len() > MAX_SOCKET_PATH;
    if is_invalid { io::Error::new(error.kind(), too_long(path)) } else { error }
}

/// Error of creating a file or socket.
pub(crate) fn on_new(path: &Path, error: io::Error) -> io::Error {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if error.kind() == io::ErrorKind::NotFound && !folder.exists() => {
            io::Error::new(error.kind(), format!("no folder {}; create it first", folder.display()))
        }
        _ => error,
    }
}

/// Message about a path that is too long for a Unix socket.
pub(crate) fn too_long(path: &Path) -> String {
    let bytes = path.as_os_str().len();
    format!(
        "path of {bytes} bytes is too long for a Unix socket: at most {MAX_SOCKET_PATH} bytes; choose a shorter path"
    )
}

/// Error about a path that exists. A killed process leaves the path of its socket behind.
fn taken(path: &Path, kind: io::ErrorKind) -> io::Error {
    let what = match has_listener(path) {
        None => "a file or folder exists there; choose another path",
        Some(false) => "the socket has no listener; remove it",
        Some(true) => "the socket is in use; choose another path",
    };
    io::Error::new(kind, format!("path is taken: {what}"))
}

/// Returns whether a Unix socket has a listener; None for other files. The check connects a datagram socket,
/// whose type does not match: a stream socket would become the connection that the listener waits for.
fn has_listener(path: &Path) -> Option<bool> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let asked = || UnixDatagram::unbound().and_then(|socket| socket.connect(path));
    is_socket.then(|| !asked().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Errors of system calls say what to do.
    #[test]
    fn errors_say_what_to_do() {
        let denied = || io::Error::from_raw_os_error(13);
        assert!(on_port(80, denied()).to_string().contains("CAP_NET_BIND_SERVICE"));
        assert_eq!(on_port(1024, denied()).to_string(), denied().to_string());
        let taken = io::Error::from_raw_os_error(98);
        let expected = format!("{taken}: another process uses this port; use another port");
        assert_eq!(on_port(9701, taken).to_string(), expected);
        let missing = || io::Error::from_raw_os_error(2);
        let said = on_new(Path::new("/no/such/file"), missing()).to_string();
        assert_eq!(said, "no folder /no/such; create it first");
        for there in ["/no", "no"] {
            assert_eq!(on_new(Path::new(there), missing()).to_string(), missing().to_string());
        }
        let long = format!("/{}", "n".repeat(MAX_SOCKET_PATH));
        let error = std::os::unix::net::UnixStream::connect(&long).unwrap_err();
        let said = on_socket(Path::new(&long), error).to_string();
        assert!(said.contains("path of 108 bytes is too long for a Unix socket: at most 107"), "{said}");
        assert!(
            on_socket(Path::new("/"), std::os::unix::net::UnixListener::bind("/").unwrap_err())
                .to_string()
                .contains("a file or folder exists there")
        );
    }
}
