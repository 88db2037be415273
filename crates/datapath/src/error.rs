//! Errors of sending.

use rustix::io::Errno;
use wirepath_sys::errno_of;

/// Error of sending a train or the rest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The socket is full, or the kernel has no memory. Sending the same train a little later may succeed.
    #[error("{call}: the socket is full")]
    Full {
        /// The call that failed.
        call: &'static str,
    },
    /// This route does not support the path; another path may work. See [`crate::DataPath::next`].
    #[error("{call}: {errno}; this route needs another data path")]
    Unsupported {
        /// The call that failed.
        call: &'static str,
        /// `EIO`, `EINVAL` or `EMSGSIZE`.
        errno: Errno,
    },
    /// The receiver's port is closed (ICMP port unreachable).
    #[error("{call}: port unreachable: the client's port is closed")]
    Refused {
        /// The call that failed.
        call: &'static str,
    },
    /// The network is unavailable at the moment. These packets are lost; later ones may arrive.
    #[error("{call}: {errno}; packets are lost until the network is back")]
    NetworkDown {
        /// The call that failed.
        call: &'static str,
        /// `ENETDOWN`, `ENETUNREACH`, `EHOSTUNREACH`, `EPERM` (a packet filter) or `ENOBUFS`.
        errno: Errno,
    },
    /// The stored file cannot be read: it was truncated, or the storage is damaged.
    #[error("{call}: {errno}; the stored file was truncated or its storage fails")]
    Storage {
        /// The call that failed.
        call: &'static str,
        /// The errno; `ENODATA` if the file ends too early.
        errno: Errno,
    },
    /// A call failed without a remedy.
    #[error("{call}: {errno}")]
    Other {
        /// The call that failed.
        call: &'static str,
        /// Its errno.
        errno: Errno,
    },
}

impl SendError {
    /// Error number of the system.
    pub fn errno(&self) -> Errno {
        match *self {
            SendError::Full { .. } => Errno::AGAIN,
            SendError::Refused { .. } => Errno::CONNREFUSED,
            SendError::Unsupported { errno, .. }
            | SendError::NetworkDown { errno, .. }
            | SendError::Storage { errno, .. }
            | SendError::Other { errno, .. } => errno,
        }
    }

    /// Classifies errors of sends to a UDP socket. The errors for "this route cannot segment" differ between
    /// kernels (EIO without checksum offload before 6.12 and with IPsec, EINVAL before 6.1.129 and 6.12.14
    /// where EMSGSIZE is said today), so they are treated alike.
    pub(crate) fn of_udp(call: &'static str, errno: Errno) -> SendError {
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

    /// Like [`SendError::of_udp`], for errors of `std`.
    pub(crate) fn of_udp_io(call: &'static str, error: &std::io::Error) -> SendError {
        SendError::of_udp(call, errno_of(error))
    }
}

/// Returns whether an error is temporary: a full socket, or a temporary lack of memory (an io_uring without
/// memory for the notification of a send).
pub(crate) fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::AGAIN | Errno::NOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: A train that a full socket refuses is sent later; no train is lost or sent twice.
    #[test]
    fn a_lack_of_memory_passes() {
        for errno in [Errno::AGAIN, Errno::NOMEM] {
            assert_eq!(SendError::of_udp("send", errno), SendError::Full { call: "send" });
        }
        let gone = SendError::of_udp("send", Errno::NOTCONN);
        assert_eq!(gone, SendError::Other { call: "send", errno: Errno::NOTCONN });
    }
}
