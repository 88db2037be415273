//! Seeing the next bytes of an object, which stay where they are.

use std::os::fd::AsFd;

use bytes::BytesMut;
use rustix::io::Errno;
use wirepath_datapath::append::{From, append};
use wirepath_datapath::errno_of;

use super::read::{ReadOutcome, Unread};
use super::{Kind, Object, ObjectError};
use crate::chain::Look;

impl Object {
    /// Returns whether its next bytes can be seen at less cost than reading them. All bytes of a file are read
    /// and then sent from the page cache, without the copy that sending from memory takes; those of a
    /// connection are copied once either way.
    pub(crate) fn can_be_seen(&self, look: Look) -> bool {
        match &self.kind {
            Kind::File(file) => !file.shares_place,
            Kind::Stream(connection) => connection.is_socket && look == Look::Heads,
            _ => false,
        }
    }

    /// Appends up to `room` of the next bytes to `view`.
    pub(crate) fn view(&mut self, view: &mut BytesMut, room: usize) -> Result<ReadOutcome, ObjectError> {
        let (read, call) = match &mut self.kind {
            Kind::File(file) => match file.available(room) {
                Ok(room) => (append(From::File(file.offset), file.file.as_fd(), view, room), "pread"),
                Err(Unread::Blocked(awaited)) => return Ok(ReadOutcome::Blocked(awaited)),
                Err(Unread::Failed(call, errno)) => return Err(self.error(call, errno)),
            },
            Kind::Stream(connection) => match connection.room(room) {
                0 => return Ok(ReadOutcome::End),
                room => (append(From::Peeked, connection.descriptor.as_fd(), view, room), "recv"),
            },
            _ => return Err(self.error("reading ahead", Errno::OPNOTSUPP)),
        };
        match read.map_err(|error| errno_of(&error)) {
            Ok(0) => Ok(ReadOutcome::End),
            Ok(read) => Ok(ReadOutcome::Bytes(read)),
            Err(Errno::AGAIN) => Ok(ReadOutcome::Nothing),
            Err(errno) => Err(self.error(call, errno)),
        }
    }
}
