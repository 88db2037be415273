//! Datagrams with their arrival times, and related calls for a measuring receiver.

use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::net::SocketAddrAny;
use rustix::net::addr::SocketAddrStorage;

use crate::checked;
use crate::control::{Control, empty_message, find, space};
use crate::send::FLAGS;
use crate::socket::{UDP_GRO, set};

/// Datagrams of one call: one datagram, or several of equal size that the kernel coalesced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Bytes of all datagrams, which are consecutive in the buffer.
    pub bytes: usize,
    /// Bytes of each datagram except the last, which may be shorter. `None` for a single datagram.
    pub datagram_bytes: Option<usize>,
    /// Sender.
    pub from: Option<SocketAddr>,
    /// Local address that the datagrams were sent to; see [`enable_destinations`]. Not available over IPv6.
    pub to: Option<IpAddr>,
    /// Time since 1970 when the kernel received the first datagram; see [`enable_timestamps`].
    pub since_1970: Option<Duration>,
    /// True if datagrams were longer than the buffer; the rest is lost.
    pub is_cut: bool,
}

/// Room for a size (`UDP_GRO`), a time (`SO_TIMESTAMPNS`) and a destination (`IP_PKTINFO`).
const CONTROL: usize = space::<libc::c_int>() + space::<libc::timespec>() + space::<libc::in_pktinfo>();

/// Makes the kernel record the arrival time of each datagram (`SO_TIMESTAMPNS`).
pub fn enable_timestamps(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// Makes the kernel report the IPv4 address that each datagram was sent to (`IP_PKTINFO`).
pub fn enable_destinations(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)
}

/// Sends a datagram from this local address, by a socket that is bound to all addresses. Never blocks.
///
/// # Errors
/// `EAGAIN` if there is no room; `EINVAL` for an address that is not local.
pub fn send_from(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    to: SocketAddrV4,
    from: Ipv4Addr,
) -> io::Result<usize> {
    let to = SocketAddrAny::from(to);
    let mut control = Control::<{ space::<libc::in_pktinfo>() }>::new();
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut message = empty_message();
    message.msg_name = to.as_ptr().cast_mut().cast();
    message.msg_namelen = to.addr_len() as _;
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    control.attach(&mut message, space::<libc::in_pktinfo>());
    let spec_dst = libc::in_addr { s_addr: u32::from(from).to_be() };
    let source =
        libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: spec_dst, ipi_addr: libc::in_addr { s_addr: 0 } };
    // SAFETY: the control buffer is aligned and has room for a header and an `in_pktinfo`; so there is a first
    // header in it, and behind that the value's place.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::IPPROTO_IP;
        (*header).cmsg_type = libc::IP_PKTINFO;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<libc::in_pktinfo>() as u32) as _;
        libc::CMSG_DATA(header).cast::<libc::in_pktinfo>().write_unaligned(source);
    }
    // SAFETY: name, vector, bytes and control buffer live until the call is over and are as long as the message
    // says; the kernel only reads them.
    checked(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, FLAGS) })
}

/// Reads the next datagrams into the beginning of `buffer`. Never blocks.
///
/// # Errors
/// `EAGAIN` if there are none; `ECONNREFUSED` and other ICMP errors of earlier sends.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Arrival> {
    let mut name = std::mem::MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut control = Control::<CONTROL>::new();
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut message = empty_message();
    message.msg_name = name.as_mut_ptr().cast();
    message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    control.attach(&mut message, CONTROL);
    // SAFETY: name, buffer and control buffer are as long as the message says and live until the call is
    // over.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let bytes = checked(received)?;
    // SAFETY: `recvmsg` has just filled in the message; behind these headers are an int (`udp_cmsg_recv` of
    // the kernel), a timespec (`__sock_recv_timestamp`) and an in_pktinfo (`ip_cmsg_recv_pktinfo`), of which any
    // bytes are a value.
    let (size, time, destination) = unsafe {
        let size: Option<libc::c_int> = find(&message, &[(libc::SOL_UDP, UDP_GRO)]);
        let time: Option<libc::timespec> = find(&message, &[(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)]);
        let destination: Option<libc::in_pktinfo> = find(&message, &[(libc::IPPROTO_IP, libc::IP_PKTINFO)]);
        (size, time, destination)
    };
    Ok(Arrival {
        bytes,
        datagram_bytes: size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0),
        from: sender(&name, message.msg_namelen),
        to: destination.map(|info| Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into()),
        since_1970: time.map(|time| Duration::new(time.tv_sec as u64, time.tv_nsec as u32)),
        is_cut: message.msg_flags & libc::MSG_TRUNC != 0,
    })
}

/// Address that `recvmsg` wrote to `name`, which was zeroed before.
pub(crate) fn sender(
    name: &std::mem::MaybeUninit<libc::sockaddr_storage>,
    length: libc::socklen_t,
) -> Option<SocketAddr> {
    if usize::try_from(length).ok()? < size_of::<libc::sockaddr_in>() {
        return None;
    }
    // SAFETY: the storage is as large and as aligned as rustix's (both are the kernel's `sockaddr_storage`),
    // zeroed where the kernel did not write, and `length` is what the kernel says it wrote.
    let address = unsafe { SocketAddrAny::read(name.as_ptr().cast::<SocketAddrStorage>(), length as _) };
    SocketAddr::try_from(address).ok()
}

/// Datagrams and coalesced trains that this socket dropped: no room, or rejected by its filter (`SO_MEMINFO`,
/// Linux 4.12). Wraps at 2^32.
pub fn drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    /// `SO_MEMINFO` of `asm-generic/socket.h`.
    const SO_MEMINFO: libc::c_int = 55;
    /// `SK_MEMINFO_DROPS` of `linux/sock_diag.h`.
    const DROPS: usize = 8;
    let mut values = [0u32; DROPS + 1];
    let mut length = size_of::<[u32; DROPS + 1]>() as libc::socklen_t;
    // SAFETY: `values` and `length` outlive the call, and `length` says how much room `values` has.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    checked(result as isize)?;
    Ok(values[DROPS])
}

/// Makes the kernel discard up to `bytes` bytes that a TCP connection received, without copying (`MSG_TRUNC`,
/// tcp(7)). Returns the number of bytes; 0 at the end of the stream. Never blocks.
pub fn discard(stream: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing to the buffer, so a null pointer is never followed.
    let dropped = unsafe {
        libc::recv(stream.as_raw_fd(), std::ptr::null_mut(), bytes, libc::MSG_TRUNC | libc::MSG_DONTWAIT)
    };
    checked(dropped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagrams::{self, set_receive_offload};
    use std::io::{IoSlice, Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::time::SystemTime;

    fn pair(address: &str) -> (UdpSocket, UdpSocket) {
        let receiver = UdpSocket::bind(address).unwrap();
        let sender = UdpSocket::bind(address).unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        (sender, receiver)
    }

    #[test]
    fn a_train_arrives_with_its_time_and_its_sender() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (sender, receiver) = pair(address);
            set_receive_offload(receiver.as_fd(), true).unwrap();
            enable_timestamps(receiver.as_fd()).unwrap();
            let before = SystemTime::UNIX_EPOCH.elapsed().unwrap();
            datagrams::send(sender.as_fd(), &[IoSlice::new(&[7; 2500])], Some(1000), None).unwrap();
            let mut buffer = vec![0; datagrams::MAXIMUM_TRAIN];
            let arrival = receive(receiver.as_fd(), &mut buffer).unwrap();
            let after = SystemTime::UNIX_EPOCH.elapsed().unwrap();
            assert_eq!((arrival.bytes, arrival.datagram_bytes, arrival.is_cut), (2500, Some(1000), false));
            assert_eq!(arrival.from, Some(sender.local_addr().unwrap()));
            let time = arrival.since_1970.unwrap();
            // A clock that is being adjusted may be read a little earlier by the kernel.
            let slack = Duration::from_millis(5);
            assert!(time + slack >= before && time <= after + slack, "{before:?} {time:?} {after:?}");
            let empty = receive(receiver.as_fd(), &mut buffer).unwrap_err();
            assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn what_a_buffer_has_no_room_for_is_counted() {
        let (sender, receiver) = pair("127.0.0.1:0");
        assert_eq!(drops(receiver.as_fd()).unwrap(), 0);
        for _ in 0..2000 {
            sender.send(&[0; 1000]).unwrap();
        }
        assert!(drops(receiver.as_fd()).unwrap() > 0);
    }

    #[test]
    fn bytes_of_a_stream_are_thrown_away_and_the_rest_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        sender.write_all(b"0123456789").unwrap();
        receiver.peek(&mut [0; 10]).unwrap();
        assert_eq!(discard(receiver.as_fd(), 6).unwrap(), 6);
        let mut rest = [0; 4];
        receiver.read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"6789");
        assert_eq!(discard(receiver.as_fd(), 6).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(sender);
        receiver.peek(&mut [0; 1]).unwrap();
        assert_eq!(discard(receiver.as_fd(), 6).unwrap(), 0);
    }
}
