//! Loop detection: a relay that connects to itself accepts its own connections until it has no descriptors
//! left.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

use crate::file_identity::FileIdentity;

/// Returns whether a connection to `target` reaches one of these listeners.
pub(crate) fn is_reached(target: SocketAddr, listeners: &[SocketAddr]) -> bool {
    let address = destination(target.ip());
    listeners.iter().any(|listener| {
        let ip = listener.ip().to_canonical();
        // Listeners on :: also accept IPv4.
        let accepts = || ip.is_unspecified() && (ip.is_ipv6() || address.is_ipv4()) && is_local(address);
        listener.port() == target.port() && (ip == address || accepts())
    })
}

/// Returns whether both paths name the same Unix socket.
pub(crate) fn is_same_socket(path: &Path, other: &Path) -> bool {
    let identity = |path: &Path| FileIdentity::of(path, |_| true);
    path.exists() && identity(path) == identity(other)
}

/// Destination of a connection. An unspecified address means this machine.
fn destination(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

/// Returns whether this machine has the address, by the source address of a route to it. Binding to the
/// address would not prove it (`ip_nonlocal_bind` in ip(7)). No packet is sent.
fn is_local(address: IpAddr) -> bool {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let source = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((address, 9))?; // discard service; any port works
        socket.local_addr()
    };
    address.is_loopback() || source().is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: A proxy or cache that would connect to itself is refused; own addresses of a backend's name
    /// are skipped.
    #[test]
    fn loops_are_detected() {
        let reached =
            |target: &str, listener: &str| is_reached(target.parse().unwrap(), &[listener.parse().unwrap()]);
        assert!(reached("127.0.0.1:80", "127.0.0.1:80"));
        assert!(reached("127.0.0.1:80", "[::]:80"));
        assert!(reached("127.0.0.1:80", "0.0.0.0:80"));
        assert!(reached("0.0.0.0:80", "127.0.0.1:80"));
        assert!(reached("[::ffff:127.0.0.1]:80", "127.0.0.1:80"));
        assert!(!reached("127.0.0.1:81", "127.0.0.1:80"));
        assert!(!reached("127.0.0.2:80", "127.0.0.1:80"));
        assert!(!reached("192.0.2.1:80", "[::]:80"), "a documentation address (RFC 5737) is not local");
        assert!(!reached("[::1]:80", "0.0.0.0:80"));
    }

    /// Promise: A proxy or cache that would connect to itself is refused; own addresses of a backend's name
    /// are skipped.
    #[test]
    fn a_socket_has_many_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(is_same_socket(&path, &folder.path().join("./socket")));
        assert!(!is_same_socket(&path, &folder.path().join("other")));
        assert!(!is_same_socket(&path, folder.path()));
    }
}
