//! The ways to take packets from storage to a socket, one file each, and the choice between them.
//!
//! For streaming, a data path takes a [`Train`] of a [`MappedFile`] and a [`UdpSink`], and answers how many packets it sent;
//! [`DataPath::send`] is the one name to call them by. For download, without headers, it takes an [`Extent`] of a medium and a
//! [`BlockSink`], UDP or TCP, and answers how many bytes it sent: [`BlockPath::send`]. None blocks, sends part of a datagram
//! or allocates; each says which call failed. Whoever has many trains to send at once uses `enqueue` and [`SendContext::flush`]:
//! paths that can, then send them in one call.

mod block;
mod block_sink;
pub mod calibration;
mod calls;
mod choice;
mod cork;
mod enhanced;
mod gso_writev;
mod gso_zerocopy;
mod kmsend;
mod krtpmsend;
mod krtpsendfile;
mod ksendfile;
mod loan;
mod loan_policy;
mod loans;
mod mapped_file;
pub mod measure;
mod mmap_msend;
mod mmap_rtpmsend;
mod mmap_send;
mod mmap_send_msend;
mod mmap_send_rtp;
mod mmap_writev;
mod mmap_zerocopy;
mod path;
mod probe;
mod read_send_rtp;
mod read_write;
mod read_writev;
mod rtp_sendfile;
mod rtpsendfile;
mod send_context;
pub mod sendfile;
mod sendfilew;
mod sendmmsg;
mod sink;
mod splice;
mod train;
mod uring;
mod uring_send;
mod wire_sendfile;
mod wire_uring;

pub use block::{BlockPath, UnknownBlockPath};
pub use block_sink::BlockSink;
pub use calls::LOANS_FOR_A_READING;
pub use choice::{Choice, Support};
pub use loan_policy::{LoanPolicy, LoanSwitch};
pub use loans::LoanCounts;
pub use mapped_file::{Extent, MappedFile, PageCache};
pub use path::{DataPath, UnknownDataPath};
pub use probe::{Trial, release, try_on_loopback};
pub use send_context::{SendContext, SendOutcome};
pub use sink::{UdpSink, path_mtu};
pub use splice::Pipe;
pub use train::{Headers, Train};
pub use uring::{RegisterError, RegistrationProgress};
/// The packet type that trains are made of.
pub use wirepath_media::rtp;
/// Reading into the spare capacity of a buffer.
pub use wirepath_sys::append;
/// A hint, for whoever has many sinks to send to.
pub use wirepath_sys::cpu::prefetch;
/// Datagrams of one size, many in a call.
pub use wirepath_sys::datagrams;
/// Files and memory that only the kernel looks into.
pub use wirepath_sys::mapping::Mapping;
/// Why the kernel module cannot be asked.
pub use wirepath_sys::module::OpenError;
/// Memory of a caller's own that can be lent.
pub use wirepath_sys::pages::{PageBuffer, ReclaimError, SharedPages};
/// Memory that a ring sends from.
pub use wirepath_sys::region::Region;
/// What sockets have been set to and say.
pub use wirepath_sys::socket;

use rustix::io::Errno;

/// Why a train, or the rest of it, was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The socket has no room now, or the kernel no memory; the same train can be sent a little later.
    #[error("{call}: the socket is full")]
    Full {
        /// The call that said so.
        call: &'static str,
    },
    /// This route cannot do what the path needs; another path can. See [`DataPath::next`].
    #[error("{call}: {errno}; this route needs another data path")]
    Unsupported {
        /// The call that said so.
        call: &'static str,
        /// `EIO`, `EINVAL` or `EMSGSIZE`.
        errno: Errno,
    },
    /// The receiver answered that nobody listens on its port (ICMP port unreachable).
    #[error("{call}: nobody listens on the client's port")]
    Refused {
        /// The call that said so.
        call: &'static str,
    },
    /// The network is not there at the moment; these packets are lost, later ones may arrive.
    #[error("{call}: {errno}; packets are lost until the network is back")]
    NetworkDown {
        /// The call that said so.
        call: &'static str,
        /// `ENETDOWN`, `ENETUNREACH`, `EHOSTUNREACH`, `EPERM` (a packet filter) or `ENOBUFS`.
        errno: Errno,
    },
    /// The stored file could not be read where the train should be: it was truncated, or the storage is damaged.
    #[error("{call}: {errno}; the stored file was truncated or its storage fails")]
    Storage {
        /// The call that said so.
        call: &'static str,
        /// What it said; `ENODATA` if the file ends too early.
        errno: Errno,
    },
    /// A call failed in a way that has no remedy here.
    #[error("{call}: {errno}")]
    Other {
        /// The call that failed.
        call: &'static str,
        /// What it said.
        errno: Errno,
    },
}

impl SendError {
    /// Sorts what a send to a UDP socket answers. Which errors mean "this route cannot segment" differs between kernels
    /// (EIO without checksum offload before 6.12 and with IPsec, EINVAL before 6.1.129 and 6.12.14 where EMSGSIZE is said
    /// today), so they are treated alike.
    fn of_udp(call: &'static str, errno: Errno) -> SendError {
        match errno {
            errno if is_full(errno) => SendError::Full { call },
            Errno::IO | Errno::INVAL | Errno::MSGSIZE | Errno::OPNOTSUPP => {
                SendError::Unsupported { call, errno }
            }
            Errno::CONNREFUSED => SendError::Refused { call },
            Errno::NETDOWN | Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::PERM | Errno::NOBUFS => {
                SendError::NetworkDown { call, errno }
            }
            Errno::FAULT => SendError::Storage { call, errno },
            _ => SendError::Other { call, errno },
        }
    }

    /// As [`SendError::of_udp`], for calls that `std` made.
    fn of_udp_io(call: &'static str, error: &std::io::Error) -> SendError {
        SendError::of_udp(call, Errno::from_io_error(error).unwrap_or(Errno::INVAL))
    }
}

/// Whether a call's answer passes by itself: no room in the socket, or no memory for the moment. An io_uring says the latter when
/// it has none for a send's second answer.
fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::AGAIN | Errno::NOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_memory_passes() {
        for errno in [Errno::AGAIN, Errno::NOMEM] {
            assert_eq!(SendError::of_udp("send", errno), SendError::Full { call: "send" });
        }
        let gone = SendError::of_udp("send", Errno::NOTCONN);
        assert_eq!(gone, SendError::Other { call: "send", errno: Errno::NOTCONN });
    }
}
