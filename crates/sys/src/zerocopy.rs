//! MSG_ZEROCOPY: sends that lend pages to the kernel instead of copying, and the notifications of the end of
//! loans (`Documentation/networking/msg_zerocopy.rst`; TCP from Linux 4.14, UDP from 5.0).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::checked;
use crate::control::{Control, empty_message, find, space};
use crate::socket::set;

/// Enables lending for sends on `socket`. Only sends that request it lend.
///
/// # Errors
/// `ENOTSUPP` (524) for sockets that do not support it, else errors of `setsockopt`.
pub fn enable(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1)
}

/// Ended loans. The kernel numbers the sends of a socket that lend, from 0; failed sends are not numbered,
/// unless they fail after their packet was built (a packet filter, an MTU).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Number of the first loan.
    pub first: u32,
    /// Number of the last loan.
    pub last: u32,
    /// True if the kernel copied (SO_EE_CODE_ZEROCOPY_COPIED): the device lacks scatter-gather or checksum
    /// offload, or the packet stayed on this host or was captured. Merged notifications carry the value of
    /// the first.
    pub copied: bool,
}

/// Takes the next notification from the socket's error queue, or `None` if there is none now. Never blocks.
pub fn returned(socket: BorrowedFd<'_>) -> io::Result<Option<Returned>> {
    loop {
        match next_error(socket) {
            Ok(Some(error)) => {
                if let Some(returned) = as_returned(&error) {
                    return Ok(Some(returned));
                }
                // An ICMP error on a socket that enabled these (IP_RECVERR) is skipped here.
            }
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

fn as_returned(error: &libc::sock_extended_err) -> Option<Returned> {
    let is_loan = error.ee_errno == 0 && error.ee_origin == SO_EE_ORIGIN_ZEROCOPY;
    is_loan.then_some(Returned {
        first: error.ee_info,
        last: error.ee_data,
        copied: error.ee_code == SO_EE_CODE_ZEROCOPY_COPIED,
    })
}

/// `linux/errqueue.h`; `libc` has neither.
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
/// As above.
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

/// Takes one entry from the error queue; `None` if it has no known message.
fn next_error(socket: BorrowedFd<'_>) -> io::Result<Option<libc::sock_extended_err>> {
    // The error and the address of its origin, of either family.
    const LENGTH: usize = space::<(libc::sock_extended_err, libc::sockaddr_in6)>();
    const KINDS: [(libc::c_int, libc::c_int); 2] =
        [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)];
    let mut control = Control::<LENGTH>::new();
    let mut message = empty_message();
    control.attach(&mut message, LENGTH);
    // SAFETY: the message asks for no data, and its control buffer lives and is as long as it says.
    checked(unsafe {
        libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
    })?;
    // SAFETY: the kernel has just filled the message; those of this type begin with a `sock_extended_err`, of
    // which any bytes are a value.
    Ok(unsafe { find(&message, &KINDS) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Mapping;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    /// On loopback the kernel gives the receiver a copy, and reports that.
    #[test]
    fn loans_are_numbered_and_come_back_copied_from_loopback() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let receiver = UdpSocket::bind(address).unwrap();
            let sender = UdpSocket::bind(address).unwrap();
            sender.connect(receiver.local_addr().unwrap()).unwrap();
            enable(sender.as_fd()).unwrap();
            assert_eq!(returned(sender.as_fd()).unwrap(), None);
            let mapping = Mapping::new(std::fs::File::open("/proc/self/exe").unwrap(), 4096).unwrap();
            for number in 0..3 {
                assert_eq!(mapping.lend(sender.as_fd(), 1..1000).unwrap(), 999);
                let expected = Returned { first: number, last: number, copied: true };
                assert_eq!(returned(sender.as_fd()).unwrap(), Some(expected));
            }
            assert_eq!(returned(sender.as_fd()).unwrap(), None);
        }
    }
}
