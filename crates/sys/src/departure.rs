//! Departure times honoured by the queueing discipline: `SO_TXTIME` (Linux 4.19), for `fq` and `etf`.
//!
//! Without such a discipline the kernel accepts the times and ignores them; [`crate::qdisc`] reports the
//! discipline. A train has one time for all its packets. Only messages carry a time: neither `sendfile` nor
//! io_uring's SEND_ZC does.

use std::io::{self, IoSlice};
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::checked;
use crate::control::{Control, empty_message, space};
use crate::send::FLAGS;

/// Clock of a socket's departure times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepartureClock {
    /// `CLOCK_MONOTONIC`, used by `fq`.
    Monotonic,
    /// `CLOCK_TAI`, used by `etf`. Requires `CAP_NET_ADMIN`.
    Tai,
}

impl DepartureClock {
    fn id(self) -> libc::clockid_t {
        match self {
            DepartureClock::Monotonic => libc::CLOCK_MONOTONIC,
            DepartureClock::Tai => libc::CLOCK_TAI,
        }
    }

    /// Current time.
    pub fn now(self) -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` outlives the call, which writes it.
        unsafe { libc::clock_gettime(self.id(), &raw mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

/// Enables departure times for messages of a socket.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 4.19, `EPERM` for [`DepartureClock::Tai`] without `CAP_NET_ADMIN`, else errors
/// of `setsockopt`.
pub fn enable(socket: BorrowedFd<'_>, clock: DepartureClock) -> io::Result<()> {
    let value = libc::sock_txtime { clockid: clock.id(), flags: 0 };
    // SAFETY: the value lives until the call is over and its length is that of its type.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TXTIME,
            (&raw const value).cast(),
            size_of::<libc::sock_txtime>() as libc::socklen_t,
        )
    };
    checked(result as isize).map(drop)
}

/// Sends a datagram, or a train that the socket segments ([`crate::socket::set_segment`]), with a departure
/// time of the socket's clock. Never blocks.
///
/// # Errors
/// `EINVAL` if departure times were not [enabled](enable); `EAGAIN` if there is no room.
pub fn send_at(socket: BorrowedFd<'_>, bytes: &[u8], at: Duration) -> io::Result<usize> {
    let mut control = Control::<{ space::<u64>() }>::new();
    let mut vector = IoSlice::new(bytes);
    let mut message = empty_message();
    message.msg_iov = (&raw mut vector).cast(); // an IoSlice is an iovec, by its documentation
    message.msg_iovlen = 1;
    control.attach(&mut message, space::<u64>());
    let at = u64::try_from(at.as_nanos()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the control buffer is aligned and has room for a header and a time; so there is a first header in it,
    // and behind that the value's place.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_TXTIME;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<u64>() as u32) as _;
        libc::CMSG_DATA(header).cast::<u64>().write_unaligned(at);
    }
    // SAFETY: vector, bytes and control buffer live until the call is over and are as long as the message says; the
    // kernel only reads them.
    checked(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, FLAGS) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::set_segment;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    /// The loopback device ignores the times: a train with a departure in an hour arrives immediately.
    #[test]
    fn a_train_takes_a_time_along() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        set_segment(sender.as_fd(), 1000).unwrap();
        let at = DepartureClock::Monotonic.now() + Duration::from_secs(3600);
        let early = send_at(sender.as_fd(), &[7; 2500], at).unwrap_err();
        assert_eq!(early.raw_os_error(), Some(libc::EINVAL));
        enable(sender.as_fd(), DepartureClock::Monotonic).unwrap();
        assert_eq!(send_at(sender.as_fd(), &[7; 2500], at).unwrap(), 2500);
        let lengths = [(); 3].map(|()| receiver.recv(&mut [0; 2000]).unwrap());
        assert_eq!(lengths, [1000, 1000, 500]);
    }
}
