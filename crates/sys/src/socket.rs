//! Socket options missing in `socket2`.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::{checked, ioctl};

/// `UDP_SEGMENT` of `linux/udp.h` (Linux 4.18).
pub(crate) const UDP_SEGMENT: libc::c_int = 103;

/// `UDP_GRO` of `linux/udp.h` (Linux 5.0).
pub(crate) const UDP_GRO: libc::c_int = 104;

/// Makes the kernel cut each send into datagrams of `size` bytes; 0 disables this.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 4.18, else errors of `setsockopt`.
pub fn set_segment(socket: BorrowedFd<'_>, size: u16) -> io::Result<()> {
    set(socket, libc::SOL_UDP, UDP_SEGMENT, size.into())
}

/// Lets the kernel deliver several datagrams of equal size together.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 5.0, else errors of `setsockopt`.
pub fn set_receive_offload(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    set(socket, libc::SOL_UDP, UDP_GRO, on.into())
}

/// Wakes readers of a stream only when this many bytes have arrived, or the buffer is full (`SO_RCVLOWAT`).
pub fn set_receive_low_watermark(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, i32::try_from(bytes).unwrap_or(i32::MAX))
}

/// Makes a stream socket report itself as full while it has this many unsent bytes (`TCP_NOTSENT_LOWAT`), so
/// that lateness is noticed before the data is in the kernel's buffer.
pub fn set_unsent_limit(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, i32::try_from(bytes).unwrap_or(i32::MAX))
}

/// Limits the packets that a socket sends over IPv6 to `bytes` (at least 1280; `IPV6_MTU`).
pub fn set_ipv6_mtu(socket: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    set(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU, bytes.into())
}

/// Bytes of a stream that are unsent or unacknowledged (`SIOCOUTQ`).
///
/// # Errors
/// `EINVAL` for a listening socket, else errors of `ioctl`.
pub fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut value: libc::c_int = 0;
    // SAFETY: SIOCOUTQ, which is TIOCOUTQ by another name (linux/sockios.h), writes one int.
    unsafe { ioctl(socket, libc::TIOCOUTQ as u32, &raw mut value)? };
    u32::try_from(value).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Returns whether a TCP connection is closed in both directions, or was reset: `TCP_CLOSE`.
///
/// # Errors
/// `EOPNOTSUPP` for other sockets, else errors of `getsockopt`.
pub fn is_closed(socket: BorrowedFd<'_>) -> io::Result<bool> {
    /// `TCP_CLOSE` of `net/tcp_states.h`.
    const CLOSE: u8 = 7;
    // The state is the first byte of `struct tcp_info`.
    let mut state = [0u8; 1];
    tcp_info(socket, &mut state)?;
    Ok(state[0] == CLOSE)
}

/// Sequence numbers of a TCP connection so far, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpProgress {
    /// Acknowledged bytes; the opening and the end of the connection count as one each.
    pub acknowledged: u64,
    /// Bytes sent again.
    pub repeated: u64,
}

/// Progress of what a connection sends (`TCP_INFO`).
///
/// # Errors
/// `EOPNOTSUPP` for other sockets, `InvalidData` before Linux 4.19, else errors of `getsockopt`.
pub fn tcp_progress(socket: BorrowedFd<'_>) -> io::Result<TcpProgress> {
    /// Places of `tcpi_bytes_acked` and `tcpi_bytes_retrans` in `struct tcp_info` of `linux/tcp.h`.
    const ACKNOWLEDGED: usize = 120;
    const REPEATED: usize = 208;
    let mut info = [0u8; REPEATED + size_of::<u64>()];
    if tcp_info(socket, &mut info)? < info.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let number = |place| info[place..].first_chunk().copied().map(u64::from_ne_bytes).unwrap_or_default();
    Ok(TcpProgress { acknowledged: number(ACKNOWLEDGED), repeated: number(REPEATED) })
}

/// Reads the beginning of `struct tcp_info`; returns how many bytes the kernel wrote, which are only as many as fit.
fn tcp_info(socket: BorrowedFd<'_>, info: &mut [u8]) -> io::Result<usize> {
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: `info` and `length` outlive the call, and `length` says how much room `info` has.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut length,
        )
    };
    checked(result as isize)?;
    Ok(length as usize)
}

/// Process at the other end of a Unix socket, at the time of its `connect` or `listen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process id; `None` if the process is not visible from the PID namespace of this process.
    pub process: Option<u32>,
    /// Effective user.
    pub user: u32,
}

/// Peer of a connected Unix socket (`SO_PEERCRED`).
///
/// # Errors
/// Errors of `getsockopt`.
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<Peer> {
    // rustix requires a process id above 0.
    let mut peer = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` and `length` outlive the call, and `length` says how much room `peer` has.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &mut length,
        )
    };
    checked(result as isize)?;
    let process = u32::try_from(peer.pid).ok().filter(|process| *process != 0);
    Ok(Peer { process, user: peer.uid })
}

/// Makes sends of a UDP socket over IPv4 fail with `ENOBUFS` if the queue of the device drops their packet
/// (`IP_RECVERR`); otherwise such a send succeeds.
pub fn report_full_queues(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::SOL_IP, libc::IP_RECVERR, 1)
}

/// Identity of the network namespace of a socket (`SO_NETNS_COOKIE`), unique until the next boot.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 5.14, else errors of `getsockopt`.
pub fn namespace(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: `cookie` and `length` outlive the call, and `length` says how much room `cookie` has.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &mut length,
        )
    };
    checked(result as isize).map(|_| cookie)
}

pub(crate) fn set(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the value lives until the call is over and its length is that of its type.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    checked(result as isize).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    /// Promise: The time of a run over TCP ends when the receiver has acknowledged all bytes.
    #[test]
    fn what_a_receiver_has_no_room_for_is_not_acknowledged() {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        assert_eq!(unacknowledged(sender.as_fd()).unwrap(), 0);
        sender.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(bytes) = sender.write(&[0; 1 << 16]) {
            written += bytes;
        }
        assert!(unacknowledged(sender.as_fd()).unwrap() > 0);
        receiver.read_exact(&mut vec![0; written]).unwrap();
        // All data arrived, so an acknowledgement of all of it is in flight: a receiver that has read sends
        // it by itself.
        let start = std::time::Instant::now();
        while unacknowledged(sender.as_fd()).unwrap() > 0 && start.elapsed().as_secs() < 20 {
            std::thread::yield_now();
        }
        assert_eq!(unacknowledged(sender.as_fd()).unwrap(), 0);
    }

    #[test]
    fn acknowledged_bytes_are_those_that_arrived() {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let before = tcp_progress(sender.as_fd()).unwrap();
        assert_eq!(before, TcpProgress { acknowledged: 1, repeated: 0 });
        sender.write_all(&[1; 5000]).unwrap();
        receiver.read_exact(&mut [0; 5000]).unwrap();
        let start = std::time::Instant::now();
        while unacknowledged(sender.as_fd()).unwrap() > 0 && start.elapsed().as_secs() < 20 {
            std::thread::yield_now();
        }
        let after = tcp_progress(sender.as_fd()).unwrap();
        assert_eq!(after.acknowledged, 5001);
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(tcp_progress(datagrams.as_fd()).is_err());
    }

    #[test]
    fn a_connection_that_was_reset_is_closed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        assert!(!is_closed(sender.as_fd()).unwrap());
        // Closing with unread bytes is a reset.
        std::io::Write::write_all(&mut &sender, b"x").unwrap();
        receiver.peek(&mut [0]).unwrap();
        drop(receiver);
        let start = std::time::Instant::now();
        while !is_closed(sender.as_fd()).unwrap() && start.elapsed().as_secs() < 20 {
            std::thread::yield_now();
        }
        assert!(is_closed(sender.as_fd()).unwrap());
    }

    #[test]
    fn a_unix_socket_knows_its_peer() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(peer(one.as_fd()).unwrap(), Peer { process: Some(std::process::id()), user });
    }

    #[test]
    fn sockets_of_one_namespace_have_one_cookie() {
        let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let cookie = namespace(one.as_fd()).unwrap();
        assert!(cookie != 0);
        assert_eq!(namespace(other.as_fd()).unwrap(), cookie);
    }

    #[test]
    fn options_are_taken() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let socket = UdpSocket::bind(address).unwrap();
            set_segment(socket.as_fd(), 1328).unwrap();
            set_segment(socket.as_fd(), 0).unwrap();
            set_receive_low_watermark(socket.as_fd(), 1 << 18).unwrap();
        }
    }
}
