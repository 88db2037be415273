//! Batched receive (`recvmmsg`, Linux 2.6.33): datagrams with their senders and arrival times.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::arrivals::sender;
use crate::control::{Control, empty_message, find, space};

pub use crate::arrivals::enable_timestamps;

/// Maximum number of datagrams per call.
pub const MOST: usize = 32;

/// Datagram of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Sender.
    pub from: Option<SocketAddr>,
    /// Time since 1970 when the kernel received the datagram; see [`enable_timestamps`].
    pub since_1970: Option<Duration>,
    /// Bytes of the datagram, as far as there was room.
    pub bytes: &'a [u8],
}

/// Buffers for the datagrams of a call.
#[derive(Debug)]
pub struct Batch {
    bytes: Box<[u8]>,
    room: usize,
}

/// Room for a time (`SO_TIMESTAMPNS`).
const CONTROL: usize = space::<libc::timespec>();

impl Batch {
    /// Buffers for datagrams of up to `room` bytes (at least one); the rest of longer datagrams is lost.
    pub fn new(room: usize) -> Batch {
        let room = room.max(1);
        Batch { bytes: vec![0; MOST * room].into(), room }
    }

    /// Receives the waiting datagrams, at most [`MOST`], and passes each on. Returns their number. Never
    /// blocks.
    ///
    /// # Errors
    /// Errors of `recvmmsg`, except `EAGAIN`, which is an empty batch.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        mut handle: impl FnMut(Datagram<'_>),
    ) -> io::Result<usize> {
        let mut names = [const { MaybeUninit::<libc::sockaddr_storage>::zeroed() }; MOST];
        let mut controls: [Control<CONTROL>; MOST] = std::array::from_fn(|_| Control::new());
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut vectors = [empty; MOST];
        let mut messages = [libc::mmsghdr { msg_hdr: empty_message(), msg_len: 0 }; MOST];
        let rooms = self.bytes.chunks_exact_mut(self.room);
        let places = names.iter_mut().zip(&mut controls).zip(&mut vectors).zip(rooms);
        for (message, (((name, control), vector), room)) in messages.iter_mut().zip(places) {
            *vector = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
            message.msg_hdr.msg_name = name.as_mut_ptr().cast();
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            control.attach(&mut message.msg_hdr, CONTROL);
        }
        // SAFETY: there are MOST messages; names, vectors, rooms and control buffers are as long as these
        // say, are used by one message each, and live until the call is over. Without a timeout there is
        // null.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                MOST as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        let received = match crate::checked(received as isize) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            other => other?,
        };
        let rooms = self.bytes.chunks_exact(self.room);
        for ((message, name), room) in messages[..received].iter().zip(&names).zip(rooms) {
            // SAFETY: `recvmmsg` has just filled in the message, whose control buffer still lives; behind
            // this header is a timespec (`__sock_recv_timestamp` of the kernel), of which any bytes are a
            // value.
            let time: Option<libc::timespec> =
                unsafe { find(&message.msg_hdr, &[(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)]) };
            let length = (message.msg_len as usize).min(room.len());
            handle(Datagram {
                from: sender(name, message.msg_hdr.msg_namelen),
                since_1970: time.map(|time| Duration::new(time.tv_sec as u64, time.tv_nsec as u32)),
                bytes: &room[..length],
            });
        }
        Ok(received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::SystemTime;

    #[test]
    fn datagrams_come_with_their_senders_and_times_in_as_few_calls_as_they_need() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let receiver = UdpSocket::bind(address).unwrap();
            enable_timestamps(receiver.as_fd()).unwrap();
            let senders = [UdpSocket::bind(address).unwrap(), UdpSocket::bind(address).unwrap()];
            let before = SystemTime::UNIX_EPOCH.elapsed().unwrap();
            for number in 0..40u8 {
                let bytes = vec![number; usize::from(number)];
                let sender = &senders[usize::from(number % 2)];
                sender.send_to(&bytes, receiver.local_addr().unwrap()).unwrap();
            }
            let (mut batch, mut number, mut calls) = (Batch::new(30), 0u8, Vec::new());
            while number < 40 && calls.len() < 40 {
                let received = batch.receive(receiver.as_fd(), |datagram| {
                    let length = usize::from(number).min(30); // longer datagrams are cut
                    assert_eq!(datagram.bytes, vec![number; length]);
                    assert_eq!(datagram.from, senders[usize::from(number % 2)].local_addr().ok());
                    // A clock that is being adjusted may be read a little earlier by the kernel.
                    assert!(datagram.since_1970.unwrap() + Duration::from_millis(5) >= before);
                    number += 1;
                });
                calls.push(received.unwrap());
            }
            assert_eq!(calls, [32, 8]);
            assert_eq!(batch.receive(receiver.as_fd(), |_| panic!("nothing waits")).unwrap(), 0);
        }
    }
}
