//! A range of a mapping of a file or of memory.
//!
//! The program itself never reads or writes the pages: another process may truncate the file, and an access
//! after its end raises `SIGBUS`. The kernel moves the bytes, by reference to a pipe or by a copy, and
//! returns an error instead. The kernel may wait for storage, so storage threads bring pages in before they
//! are read, and do the writes.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::BytesMut;
use rustix::io::Errno;
use wirepath_datapath::{Mapping, errno_of};

use super::cold::{Cold, WINDOW};
use super::outcome::{Awaited, ReadOutcome, ReadResult, Unread};
use super::{Kind, Object};

pub(crate) struct Mapped {
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) offset: usize,
    pub(crate) end: usize,
    /// Offset up to which the range was brought into memory.
    pub(crate) warm_until: usize,
}

impl Object {
    /// A range of a mapping, of a file or of shared memory: read from its beginning to its end, or written.
    ///
    /// On the zero-copy route bytes leave as references to the pages, so the pages must not be changed until
    /// the last reader has read them; neither the end of the stream nor an acknowledgement by a peer on this
    /// machine indicates this. If a handler sees the bytes, or if records are not of a fixed size of at least
    /// 32 KiB, the bytes are copied, and the pages may be changed after they have been read. More bytes than
    /// fit are an error (`ENOSPC`), and so are bytes after the end of a file that was truncated (`EFAULT`).
    /// For writing, the mapping has to be [writable](Mapping::writable).
    ///
    /// For a file that no other process has mapped, a [file object](Object::file) is better: it goes to a
    /// connection in one call, and may grow.
    ///
    /// # Errors
    /// `EINVAL` if the range does not lie in the mapping.
    pub fn mapping(name: &str, mapping: Arc<Mapping>, range: Range<usize>) -> io::Result<Object> {
        if range.start > range.end || range.end > mapping.length() {
            return Err(Errno::INVAL.into());
        }
        let Range { start, end } = range;
        Ok(Object::new(name, Kind::Mapping(Mapped { mapping, offset: start, end, warm_until: start })))
    }
}

impl Mapped {
    pub(crate) fn rest(&self) -> Range<usize> {
        self.offset..self.end
    }

    /// Number of `room` bytes that can be read without blocking, 0 at the end. Pages are brought in first,
    /// for each window, because no call reports which pages of a mapping are in memory.
    pub(crate) fn available(&mut self, room: usize) -> Result<usize, Unread> {
        if self.warm_until <= self.offset && self.offset < self.end {
            let until = self.end.min((self.offset / WINDOW as usize + 1) * WINDOW as usize);
            let cold = Cold::Mapping(Arc::clone(&self.mapping), self.offset..until);
            return Err(Unread::Blocked(Awaited::Pages(cold)));
        }
        Ok(room.min(self.warm_until.min(self.end).saturating_sub(self.offset)))
    }

    pub(super) fn read_into(&mut self, buffer: &mut BytesMut, room: usize) -> ReadResult {
        let room = self.available(room)?;
        if room == 0 {
            return Ok(ReadOutcome::End);
        }
        let read = self.mapping.read(self.offset..self.offset + room, buffer);
        let read = read.map_err(|error| ("process_vm_readv", errno_of(&error)))?;
        self.offset += read;
        Ok(ReadOutcome::Bytes(read))
    }
}
