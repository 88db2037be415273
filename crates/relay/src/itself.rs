//! Whether what is relayed would come back: a relay before itself takes connections from itself until there are no descriptors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether whoever connects to `target` comes out at one of these doors.
pub(crate) fn is_reached(target: SocketAddr, doors: &[SocketAddr]) -> bool {
    let address = meant(target.ip());
    doors.iter().any(|door| {
        let ip = door.ip().to_canonical();
        // A socket on :: takes IPv4, too: doors are made so.
        let takes = || ip.is_unspecified() && (ip.is_ipv6() || address.is_ipv4()) && is_ours(address);
        door.port() == target.port() && (ip == address || takes())
    })
}

/// Whether both are names of one socket.
pub(crate) fn is_same_socket(path: &Path, other: &Path) -> bool {
    let of = |path: &Path| std::fs::metadata(path).map(|there| (there.dev(), there.ino())).ok();
    of(path).is_some_and(|one| of(other) == Some(one))
}

/// Who connects to no address in particular comes to this machine.
fn meant(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

/// Whether this machine has the address: what it sends there comes from there. (To be bound to it, it need not have it: see
/// `ip_nonlocal_bind` in ip(7).) Nothing is sent.
fn is_ours(address: IpAddr) -> bool {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let source = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((address, 9))?; // discard; any port would do
        socket.local_addr()
    };
    address.is_loopback() || source().is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: A proxy or cache in front of itself is refused; own addresses of a backend's name are
    /// skipped.
    #[test]
    fn what_comes_back_is_told_from_what_does_not() {
        let reached =
            |target: &str, door: &str| is_reached(target.parse().unwrap(), &[door.parse().unwrap()]);
        assert!(reached("127.0.0.1:80", "127.0.0.1:80"));
        assert!(reached("127.0.0.1:80", "[::]:80"));
        assert!(reached("127.0.0.1:80", "0.0.0.0:80"));
        assert!(reached("0.0.0.0:80", "127.0.0.1:80"));
        assert!(reached("[::ffff:127.0.0.1]:80", "127.0.0.1:80"));
        assert!(!reached("127.0.0.1:81", "127.0.0.1:80"));
        assert!(!reached("127.0.0.2:80", "127.0.0.1:80"));
        assert!(!reached("192.0.2.1:80", "[::]:80"), "an address for documents (RFC 5737) is nobody's");
        assert!(!reached("[::1]:80", "0.0.0.0:80"));
    }
    /// Promise: A proxy or cache in front of itself is refused; own addresses of a backend's name are
    /// skipped.
    #[test]
    fn a_socket_has_many_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("door");
        let _door = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(is_same_socket(&path, &folder.path().join("./door")));
        assert!(!is_same_socket(&path, &folder.path().join("other")));
        assert!(!is_same_socket(&path, folder.path()));
    }
}
