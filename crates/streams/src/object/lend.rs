//! Lends long trains to datagram sockets, from memory that is shared with other sockets.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use wirepath_datapath::to_many::{self, LEAST_LENT, SocketId};
use wirepath_datapath::{errno_of, socket};

use super::write::may_be_of_earlier;
use super::{Datagrams, Kind, Object};
use crate::record::Run;

/// A train at the front of an outbox, identified by its address while it waits there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongTrain {
    address: usize,
    pub(crate) bytes: usize,
    pub(crate) records: usize,
    datagram_bytes: u16,
}

impl Datagrams {
    /// The train at the front of a run, if it is long enough to be lent.
    pub(crate) fn long_train(&self, run: &Run) -> Option<LongTrain> {
        if self.to.is_some() || self.is_losing || !(run.begins && run.ends) || run.bytes.len() < LEAST_LENT {
            return None;
        }
        let (datagram_bytes, records) = self.next_train(run);
        let bytes = run.bytes_of(records);
        let train = LongTrain {
            address: run.bytes.as_ptr().addr(),
            bytes,
            records,
            datagram_bytes: datagram_bytes.try_into().ok()?,
        };
        (bytes >= LEAST_LENT && bytes > datagram_bytes).then_some(train)
    }

    /// Configures the socket to cut the bytes it sends. Returns whether a train may be lent to it.
    pub(crate) fn prepare_to_lend(&mut self, train: LongTrain) -> bool {
        to_many::may_lend(self.id) && self.cut_all(train.datagram_bytes).is_ok()
    }

    /// The socket, and its identity.
    pub(crate) fn to_lend(&self) -> Option<(BorrowedFd<'_>, SocketId)> {
        Some((self.socket.as_fd(), self.id))
    }

    /// Keeps the error of a train that was not sent and is to be sent by a copy. Returns whether the socket
    /// is full.
    pub(crate) fn note_not_lent(&mut self, errno: Errno) -> bool {
        self.reported = Some(errno).filter(|errno| may_be_of_earlier(*errno));
        errno == Errno::AGAIN
    }

    /// Configures the socket to cut all sent bytes into datagrams of this length; with 0, only those that
    /// request segmentation.
    pub(super) fn cut_all(&mut self, datagram_bytes: u16) -> Result<(), Errno> {
        if self.cut_bytes != datagram_bytes {
            socket::set_segment(self.socket.as_fd(), datagram_bytes).map_err(|error| errno_of(&error))?;
            self.cut_bytes = datagram_bytes;
        }
        Ok(())
    }
}

impl Object {
    /// Restores the socket's configuration for its next owner.
    pub(crate) fn restore(&mut self) {
        if let Kind::Datagrams(datagrams) = &mut self.kind
            && let Err(errno) = datagrams.cut_all(0)
        {
            tracing::warn!("{}: it still cuts datagrams: setsockopt: {errno}", self.name);
        }
    }
}
