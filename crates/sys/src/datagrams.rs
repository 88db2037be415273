//! Datagrams of equal size, many per call, in both directions: coalesced by the kernel on receive (UDP_GRO,
//! Linux 5.0) and segmented by the kernel on send (UDP_SEGMENT, Linux 4.18).

use std::io::{self, IoSlice};
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use bytes::{BufMut, BytesMut};
use rustix::net::SocketAddrAny;

use crate::checked;
use crate::control::{Control, empty_message, find, space};
use crate::send::FLAGS;
use crate::socket::{UDP_GRO, UDP_SEGMENT};

pub use crate::socket::set_receive_offload;

/// Bytes of the longest train: the longest IP packet.
pub const MAXIMUM_TRAIN: usize = 65_535;

/// Bytes of the longest payload of a datagram over IPv4.
pub const MAXIMUM_PAYLOAD: usize = 65_507;

/// Bytes of the headers of UDP and IPv4 (RFC 791, without options).
pub const HEADERS_IPV4: u32 = 8 + 20;

/// Bytes of the headers of UDP and IPv6 (RFC 8200, without extensions).
pub const HEADERS_IPV6: u32 = 8 + 40;

/// Payload bytes that fill a packet of this MTU, to or from this address.
pub fn payload_room(mtu: u32, address: SocketAddr) -> u32 {
    mtu.saturating_sub(if address.is_ipv4() { HEADERS_IPV4 } else { HEADERS_IPV6 })
}

/// Datagrams of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of all datagrams, which are consecutive in the buffer.
    pub bytes: usize,
    /// Bytes of each datagram except the last, which may be shorter. `None` for a single datagram.
    pub datagram_bytes: Option<usize>,
    /// True if there were more bytes than `room`, or more control messages than fit; they are lost, and with
    /// them perhaps the size of the datagrams.
    pub is_cut: bool,
}

/// Size of the control buffer: for the datagram size, and for messages that the socket's owner enabled. All
/// control messages of `recvmsg` together take less.
const CONTROL_RECEIVED: usize = 1024;

/// Number of receive buffers reserved at once.
const BLOCK: usize = 4;

/// Appends the next datagrams, up to `room` bytes, to `buffer`. Never blocks. An empty datagram has 0 bytes.
///
/// # Errors
/// `EAGAIN` if there are none; `ECONNREFUSED` and other ICMP errors of earlier sends.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut BytesMut, room: usize) -> io::Result<Received> {
    receive_with::<CONTROL_RECEIVED>(socket, buffer, room)
}

fn receive_with<const CONTROL: usize>(
    socket: BorrowedFd<'_>,
    buffer: &mut BytesMut,
    room: usize,
) -> io::Result<Received> {
    if buffer.capacity() - buffer.len() < room {
        buffer.reserve(BLOCK * room); // small datagrams share a block
    }
    let mut control = Control::<CONTROL>::new();
    let mut vector = libc::iovec { iov_base: buffer.chunk_mut().as_mut_ptr().cast(), iov_len: room };
    let mut message = empty_message();
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    control.attach(&mut message, CONTROL);
    // SAFETY: the vector is `room` bytes of the buffer's spare capacity, which `reserve` made sure of; the
    // control buffer is as long as it says; both live until the call is over.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let bytes = checked(received)?;
    // SAFETY: the kernel wrote this many bytes, at most `room`, to the front of the spare capacity.
    unsafe { buffer.advance_mut(bytes) };
    Ok(Received {
        bytes,
        datagram_bytes: gathered(&message),
        is_cut: message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0,
    })
}

/// Size of coalesced datagrams, if the kernel coalesced them.
fn gathered(message: &libc::msghdr) -> Option<usize> {
    // SAFETY: the message is one that `recvmsg` has just filled in; its control buffer still lives. Behind a
    // header of this kind is a number (`udp_cmsg_recv` of the kernel).
    let size: libc::c_int = unsafe { find(message, &[(libc::SOL_UDP, UDP_GRO)]) }?;
    usize::try_from(size).ok().filter(|size| *size > 0)
}

/// Sends the concatenated `parts` as datagrams of `datagram_bytes` (the last may be shorter; `None`: as a
/// single datagram), to `to`, or to the connected peer. Returns the number of bytes sent, which is always all
/// of them. Never blocks, never raises SIGPIPE.
///
/// # Errors
/// `EAGAIN` if there is no room; `EMSGSIZE` if the data is too long; `EIO`, `EINVAL` or `EMSGSIZE` if the
/// route does not support segmentation; else errors of `sendmsg` or `sendto`.
pub fn send(
    socket: BorrowedFd<'_>,
    parts: &[IoSlice<'_>],
    datagram_bytes: Option<u16>,
    to: Option<&SocketAddrAny>,
) -> io::Result<usize> {
    if let ([part], None) = (parts, datagram_bytes) {
        return send_one(socket, part, to);
    }
    let mut control = Control::<{ space::<u16>() }>::new();
    let mut message = empty_message();
    // `IoSlice` is laid out as `iovec` (std says so); the kernel only reads.
    message.msg_iov = parts.as_ptr().cast::<libc::iovec>().cast_mut();
    message.msg_iovlen = parts.len() as _;
    if let Some(to) = to {
        message.msg_name = to.as_ptr().cast_mut().cast();
        message.msg_namelen = to.addr_len() as _;
    }
    if let Some(datagram_bytes) = datagram_bytes {
        control.attach(&mut message, space::<u16>());
        // SAFETY: the control buffer is aligned and has room for a header and a number; so there is a first
        // header in it, and behind that the number's place.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_UDP;
            (*header).cmsg_type = UDP_SEGMENT;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
            libc::CMSG_DATA(header).cast::<u16>().write_unaligned(datagram_bytes);
        }
    }
    // SAFETY: name, vectors and control buffer live until the call is over and are as long as the message
    // says.
    checked(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, FLAGS) })
}

/// Sends a contiguous datagram: `sendmsg` costs a twentieth more.
fn send_one(socket: BorrowedFd<'_>, part: &[u8], to: Option<&SocketAddrAny>) -> io::Result<usize> {
    let (name, length) = to.map_or((std::ptr::null(), 0), |to| (to.as_ptr().cast(), to.addr_len()));
    // SAFETY: the bytes and the name live until the call is over and are as long as it is told; without a
    // name there is null.
    checked(unsafe {
        libc::sendto(socket.as_raw_fd(), part.as_ptr().cast(), part.len(), FLAGS, name, length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    /// Promise: Datagrams keep their boundaries; byte streams are divided into datagrams.
    #[test]
    fn a_train_arrives_as_it_left_and_single_datagrams_too() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = SocketAddrAny::from(receiver.local_addr().unwrap());
        let bytes: Vec<u8> = (0..=255).cycle().take(2500).collect();
        let parts = [IoSlice::new(&bytes[..700]), IoSlice::new(&bytes[700..])];
        for offload in [true, false] {
            set_receive_offload(receiver.as_fd(), offload).unwrap();
            assert_eq!(send(sender.as_fd(), &parts, Some(1000), Some(&to)).unwrap(), 2500);
            let (mut buffer, mut sizes) = (BytesMut::new(), Vec::new());
            while buffer.len() < 2500 {
                let received = receive(receiver.as_fd(), &mut buffer, MAXIMUM_TRAIN).unwrap();
                assert!(!received.is_cut);
                sizes.push((received.bytes, received.datagram_bytes));
            }
            assert_eq!(buffer, bytes);
            let expected: &[(usize, Option<usize>)] =
                if offload { &[(2500, Some(1000))] } else { &[(1000, None), (1000, None), (500, None)] };
            assert_eq!(sizes, expected);
        }
    }

    #[test]
    fn what_does_not_fit_is_cut_and_said_to_be_and_nothing_is_not_waited_for() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        assert_eq!(send(sender.as_fd(), &[IoSlice::new(b"0123456789")], None, None).unwrap(), 10);
        let mut buffer = BytesMut::from(&b"before"[..]);
        let received = receive(receiver.as_fd(), &mut buffer, 4).unwrap();
        assert_eq!(received, Received { bytes: 4, datagram_bytes: None, is_cut: true });
        assert_eq!(buffer, &b"before0123"[..]);
        let error = receive(receiver.as_fd(), &mut buffer, 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    /// Promise: A datagram that does not match its framing, or is not a share, is dropped and counted.
    ///
    /// A passed socket may have more control messages enabled than this crate needs.
    #[test]
    fn the_size_of_datagrams_is_found_among_what_else_the_kernel_says() {
        use crate::socket::set;
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        set_receive_offload(receiver.as_fd(), true).unwrap();
        for (level, option) in [
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
            (libc::IPPROTO_IP, libc::IP_PKTINFO),
            (libc::IPPROTO_IP, libc::IP_RECVTTL),
            (libc::IPPROTO_IP, libc::IP_RECVTOS),
        ] {
            set(receiver.as_fd(), level, option, 1).unwrap();
        }
        let send =
            || assert_eq!(send(sender.as_fd(), &[IoSlice::new(&[7; 900])], Some(300), None).unwrap(), 900);
        send();
        let received = receive(receiver.as_fd(), &mut BytesMut::new(), MAXIMUM_TRAIN).unwrap();
        assert_eq!(received, Received { bytes: 900, datagram_bytes: Some(300), is_cut: false });
        send();
        let received =
            receive_with::<{ space::<libc::c_int>() }>(receiver.as_fd(), &mut BytesMut::new(), MAXIMUM_TRAIN)
                .unwrap();
        assert!(received.is_cut, "{received:?}");
    }
}
