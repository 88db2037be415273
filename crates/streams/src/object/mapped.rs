//! A range of a mapping, of a file or of memory.
//!
//! The program never looks into it: a file may be cut by others, and whoever looks behind its end is killed.
//! The kernel moves the bytes, by reference to a pipe or by copying them, and answers an error there. It may
//! wait for storage while it does, so what is to be read is brought in before by who may wait, and what is
//! written is written by them. What is reclaimed between is waited for.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::BytesMut;
use rustix::io::Errno;
use wirepath_datapath::Mapping;

use super::fill::{Available, Fill, Filled, WINDOW};
use super::{Cold, Kind, Object};

/// A range, and where in it to read or write next.
pub(crate) struct Mapped {
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) offset: usize,
    pub(crate) end: usize,
    /// Up to where it was brought in.
    pub(crate) warm_until: usize,
}

impl Object {
    /// A range of a mapping: read from its beginning to its end, or written. It is of a file or of memory
    /// that other processes may have as well. Bytes leave it as references to its pages where nobody looks at
    /// them, so they must not be changed until the last reader has read them: the end of the stream does not
    /// say so, nor a peer that has acknowledged them, if it is of this machine. Where a handler sees them, or
    /// records that are not of a fixed size from 32 KiB on, they are copied, and may be changed when they
    /// have been read. Bytes come into it from the input with no buffer of the program between. What does not
    /// fit is an error (`ENOSPC`) when the range is full, and so is what is behind the end of a file that has
    /// become shorter (`EFAULT`). To write, the mapping has to be
    /// [writable](Mapping::writable).
    ///
    /// A file that nobody else has mapped is better an [object of its own](Object::file): it goes to a
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
    /// What is left of the range.
    pub(crate) fn rest(&self) -> Range<usize> {
        self.offset..self.end
    }

    /// How many of `room` bytes can be read without waiting, 0 at the end; or what must be brought in first.
    /// That is asked for each part, because nobody tells which pages of a mapping are in memory: not of a
    /// file that others own.
    pub(crate) fn available(&mut self, room: usize) -> Available {
        if self.warm_until <= self.offset && self.offset < self.end {
            let until = self.end.min((self.offset / WINDOW as usize + 1) * WINDOW as usize);
            return Available::Cold(Cold::Mapping(Arc::clone(&self.mapping), self.offset..until));
        }
        Available::Bytes(room.min(self.warm_until.min(self.end).saturating_sub(self.offset)))
    }

    pub(super) fn fill(&mut self, buffer: &mut BytesMut, room: usize) -> Filled {
        let room = match self.available(room) {
            Available::Bytes(0) | Available::Unwritten(..) => return Ok(Fill::End), // nobody follows a mapping
            Available::Bytes(room) => room,
            Available::Cold(cold) => return Ok(Fill::Cold(cold)),
        };
        let read = self.mapping.read(self.offset..self.offset + room, buffer);
        let read =
            read.map_err(|error| ("process_vm_readv", Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        self.offset += read;
        Ok(Fill::Bytes(read))
    }
}
