//! Peeking at the next bytes of an object without consuming them.

use std::os::fd::AsFd;

use bytes::BytesMut;
use rustix::io::Errno;
use wirepath_datapath::append::{From, append};
use wirepath_datapath::errno_of;

use super::outcome::{ReadOutcome, Unread};
use super::{Kind, Object, ObjectError};
use crate::chain::PeekScope;

impl Object {
    /// Returns whether peeking at the next bytes, at least at the beginning of records, costs less than reading
    /// them. All bytes of a file may be peeked at: they are then sent from the page cache, without the copy
    /// that sending from memory needs. Bytes of a connection are copied once either way.
    pub(crate) fn can_peek(&self, scope: PeekScope) -> bool {
        match &self.kind {
            Kind::File(file) => !file.shares_place,
            Kind::Stream(connection) => connection.is_socket && scope != PeekScope::All,
            _ => false,
        }
    }

    /// Appends up to `room` of the next bytes to `buffer`, without consuming them.
    pub(crate) fn peek(&mut self, buffer: &mut BytesMut, room: usize) -> Result<ReadOutcome, ObjectError> {
        let (read, call) = match &mut self.kind {
            Kind::File(file) => match file.available(room) {
                Ok(room) => (append(From::File(file.offset), file.file.as_fd(), buffer, room), "pread"),
                Err(Unread::Blocked(awaited)) => return Ok(ReadOutcome::Blocked(awaited)),
                Err(Unread::Failed(call, errno)) => return Err(self.error(call, errno)),
            },
            Kind::Stream(connection) => match connection.room(room) {
                0 => return Ok(ReadOutcome::End),
                room => (append(From::Peeked, connection.descriptor.as_fd(), buffer, room), "recv"),
            },
            _ => return Err(self.error("peeking", Errno::OPNOTSUPP)),
        };
        match read.map_err(|error| errno_of(&error)) {
            Ok(0) => Ok(ReadOutcome::End),
            Ok(read) => Ok(ReadOutcome::Bytes(read)),
            Err(Errno::AGAIN) => Ok(ReadOutcome::Nothing),
            Err(errno) => Err(self.error(call, errno)),
        }
    }
}
