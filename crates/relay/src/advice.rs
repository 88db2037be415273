//! What to do about what the system says of a place that people named.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// Most bytes that the name of a Unix socket can have: `sun_path` has 108, and the last is a zero (unix(7)).
pub(crate) const MOST_SOCKET_BYTES: usize = 107;

/// First port that anybody may have, unless `net.ipv4.ip_unprivileged_port_start` says otherwise (ip(7)).
const FIRST_FREE_PORT: u16 = 1024;

/// Of a port that is to be listened at.
pub(crate) fn on_port(port: u16, error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied || !(1..FIRST_FREE_PORT).contains(&port) {
        return error;
    }
    let what =
        "a port below 1024 takes root or the capability CAP_NET_BIND_SERVICE; or choose one from 1024 on";
    io::Error::new(error.kind(), format!("{error}: {what}"))
}

/// Of a name that a Unix socket is to get.
pub(crate) fn on_socket(path: &Path, error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::AddrInUse => taken(path, error.kind()),
        _ => on_length(path, on_new(path, error)),
    }
}

/// Of the name of a Unix socket: that it is too long is the only thing for which the standard library finds it invalid.
pub(crate) fn on_length(path: &Path, error: io::Error) -> io::Error {
    let is_invalid =
        error.kind() == io::ErrorKind::InvalidInput && path.as_os_str().len() > MOST_SOCKET_BYTES;
    if is_invalid { io::Error::new(error.kind(), too_long(path)) } else { error }
}

/// Of a file or name that is to be made.
pub(crate) fn on_new(path: &Path, error: io::Error) -> io::Error {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if error.kind() == io::ErrorKind::NotFound && !folder.exists() => io::Error::new(
            error.kind(),
            format!("the folder {} is not there; make it first", folder.display()),
        ),
        _ => error,
    }
}

/// That a name is too long for a Unix socket.
pub(crate) fn too_long(path: &Path) -> String {
    let bytes = path.as_os_str().len();
    format!(
        "the name of a Unix socket has at most {MOST_SOCKET_BYTES} bytes, and this one has {bytes}; choose a shorter one"
    )
}

/// A process that was killed leaves the name of its socket behind.
fn taken(path: &Path, kind: io::ErrorKind) -> io::Error {
    let what = match listens_there(path) {
        None => "a file or folder has it; choose another",
        Some(false) => "nobody listens there any more: remove it",
        Some(true) => "it is in use; choose another",
    };
    io::Error::new(kind, format!("the name is taken: {what}"))
}

/// Whether anybody listens there; None of what is no socket. Asked by a socket of datagrams, which does not fit: one that fits would
/// be the connection that is waited for.
fn listens_there(path: &Path) -> Option<bool> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket());
    let asked = || UnixDatagram::unbound().and_then(|socket| socket.connect(path));
    is_socket.then(|| !asked().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: System errors come with what to do.
    #[test]
    fn what_to_do_is_said_where_it_helps() {
        let denied = || io::Error::from_raw_os_error(13);
        assert!(on_port(80, denied()).to_string().contains("CAP_NET_BIND_SERVICE"));
        assert_eq!(on_port(1024, denied()).to_string(), denied().to_string());
        let missing = || io::Error::from_raw_os_error(2);
        let said = on_new(Path::new("/no/such/file"), missing()).to_string();
        assert_eq!(said, "the folder /no/such is not there; make it first");
        for there in ["/no", "no"] {
            assert_eq!(on_new(Path::new(there), missing()).to_string(), missing().to_string());
        }
        let long = format!("/{}", "n".repeat(MOST_SOCKET_BYTES));
        let error = std::os::unix::net::UnixStream::connect(&long).unwrap_err();
        let said = on_socket(Path::new(&long), error).to_string();
        assert!(said.contains("at most 107 bytes, and this one has 108"), "{said}");
        assert!(
            on_socket(Path::new("/"), std::os::unix::net::UnixListener::bind("/").unwrap_err())
                .to_string()
                .contains("a file or folder has it")
        );
    }
}
