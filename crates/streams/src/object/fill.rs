//! Reading from an object.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use wirepath_datapath::append::{self, append};
use wirepath_datapath::{Mapping, PageCache, datagrams};

use super::{Connection, Datagrams, Kind, Object, ObjectError, StoredFile};
use crate::write_progress::WriteProgress;

/// Result of a read.
#[derive(Debug)]
pub(crate) enum Fill {
    /// Bytes of a stream, behind those in the buffer.
    Bytes(usize),
    /// Datagrams, behind those in the buffer.
    Datagrams {
        /// Their bytes.
        bytes: usize,
        /// Bytes of each but the last, which may be shorter.
        datagram_bytes: usize,
    },
    /// Datagrams that cannot be used.
    Unusable {
        /// Their bytes.
        bytes: usize,
        /// Why.
        why: &'static str,
    },
    /// Nothing now.
    Nothing,
    /// The end.
    End,
    /// These pages must be read first, on a storage thread.
    Cold(Cold),
    /// No more than this many bytes of the file are written yet.
    Unwritten(Arc<WriteProgress>, u64),
}

#[derive(Debug)]
pub(crate) enum Available {
    Bytes(usize),
    Cold(Cold),
    Unwritten(Arc<WriteProgress>, u64),
}

/// Pages that may not be in memory.
#[derive(Debug)]
pub(crate) enum Cold {
    File(Arc<File>, Range<u64>),
    Mapping(Arc<Mapping>, Range<usize>),
}

impl Cold {
    /// Brings the pages into memory; returns up to where. May block.
    pub(crate) fn bring_in(self) -> (u64, std::io::Result<()>) {
        match self {
            Cold::File(file, range) => (range.end, warm(&file, range)),
            Cold::Mapping(mapping, range) => (range.end as u64, mapping.prefault(range)),
        }
    }
}

/// Reads a range of a file into the page cache; ends early where the file does. May block.
fn warm(file: &File, range: Range<u64>) -> std::io::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    let mut offset = range.start;
    while offset < range.end {
        let wanted = buffer.len().min((range.end - offset) as usize);
        match file.read_at(&mut buffer[..wanted], offset)? {
            0 => break,
            read => offset += read as u64,
        }
    }
    Ok(())
}

/// Bytes of a file that are looked up in the page cache, or read ahead, at a time.
pub(super) const WINDOW: u64 = 2 * 1024 * 1024;

impl Object {
    /// Appends up to `room` bytes (of datagrams: those that came together) to `buffer`.
    pub(crate) fn fill(&mut self, buffer: &mut BytesMut, room: usize) -> Result<Fill, ObjectError> {
        if !self.unread.is_empty() {
            let bytes = self.unread.len();
            buffer.unsplit(self.unread.split());
            return Ok(Fill::Bytes(bytes));
        }
        let filled = match &mut self.kind {
            Kind::File(file) => file.fill(buffer, room),
            Kind::Stream(connection) => connection.fill(buffer, room),
            Kind::Datagrams(datagrams) => datagrams.fill(buffer),
            Kind::Mapping(mapped) => mapped.fill(buffer, room),
            Kind::Listening(_) => Ok(Fill::Nothing),
            Kind::Memory(bytes) => {
                let length = room.min(bytes.len());
                buffer.extend_from_slice(&bytes[..length]);
                bytes.advance(length);
                Ok(if length == 0 { Fill::End } else { Fill::Bytes(length) })
            }
            Kind::Parts(parts) => parts.fill(buffer, room),
            Kind::Collected(_) => Err(("reading", Errno::OPNOTSUPP)),
        };
        filled.map_err(|(call, errno)| self.error(call, errno))
    }

    /// Notes that a cold range is in memory, up to this byte.
    pub(crate) fn warmed(&mut self, until: u64) {
        match &mut self.kind {
            Kind::File(file) => file.warm_until = until,
            Kind::Parts(parts) => {
                if let Some(file) = parts.next_file() {
                    file.warm_until = until;
                }
            }
            Kind::Mapping(mapped) => mapped.warm_until = until as usize,
            _ => {}
        }
    }
}

pub(super) type Filled = Result<Fill, (&'static str, Errno)>;

impl StoredFile {
    pub(super) fn fill(&mut self, buffer: &mut BytesMut, room: usize) -> Filled {
        if self.shares_place {
            self.offset = seek(&self.file, SeekFrom::Current(0)).map_err(|errno| ("lseek", errno))?;
        }
        let room = match self.available(room)? {
            Available::Bytes(room) => room,
            Available::Cold(cold) => return Ok(Fill::Cold(cold)),
            Available::Unwritten(progress, known) => return Ok(Fill::Unwritten(progress, known)),
        };
        let (from, call) = if self.shares_place {
            (append::From::Stream, "read")
        } else {
            (append::From::File(self.offset), "pread")
        };
        let read = append(from, self.file.as_fd(), buffer, room);
        let read = read.map_err(|error| (call, errno_of(&error)))?;
        self.offset += read as u64;
        Ok(if read == 0 { Fill::End } else { Fill::Bytes(read) })
    }

    /// Number of `room` bytes that can be read without blocking.
    pub(crate) fn available(&mut self, room: usize) -> Result<Available, (&'static str, Errno)> {
        let mut end = self.end;
        if let Some(progress) = self.follows.as_ref().filter(|_| self.offset < self.end) {
            if progress.has_failed() {
                return Err(("waiting for the writer", Errno::CANCELED));
            }
            end = end.min(progress.bytes());
            if end <= self.offset {
                return Ok(Available::Unwritten(Arc::clone(progress), end));
            }
        }
        if self.warm_until <= self.offset && self.offset < end {
            let window = self.offset..end.min((self.offset / WINDOW + 1) * WINDOW);
            match PageCache::of(&self.file, window.clone()) {
                PageCache::Warm => self.warm_until = window.end,
                PageCache::Cold => return Ok(Available::Cold(Cold::File(Arc::clone(&self.file), window))),
            }
        }
        let there = self.warm_until.min(end).saturating_sub(self.offset);
        Ok(Available::Bytes(room.min(usize::try_from(there).unwrap_or(room))))
    }
}

impl Connection {
    /// Number of `room` bytes that are still to be read.
    pub(crate) fn room(&self, room: usize) -> usize {
        room.min(usize::try_from(self.left).unwrap_or(room))
    }

    fn fill(&mut self, buffer: &mut BytesMut, room: usize) -> Filled {
        let (from, call) =
            if self.is_socket { (append::From::Socket, "recv") } else { (append::From::Stream, "read") };
        let room = self.room(room);
        if room == 0 {
            return Ok(Fill::End);
        }
        match append(from, self.descriptor.as_fd(), buffer, room) {
            Ok(0) => Ok(Fill::End),
            Ok(read) => {
                self.left -= read as u64;
                Ok(Fill::Bytes(read))
            }
            Err(error) => match errno_of(&error) {
                Errno::AGAIN => Ok(Fill::Nothing),
                errno => Err((call, errno)),
            },
        }
    }
}

impl Datagrams {
    fn fill(&mut self, buffer: &mut BytesMut) -> Filled {
        loop {
            let received = datagrams::receive(self.socket.as_fd(), buffer, datagrams::MAXIMUM_TRAIN);
            match received.map_err(|error| errno_of(&error)) {
                // The boundaries of the datagrams are unknown.
                Ok(received) if received.is_cut => {
                    buffer.truncate(buffer.len() - received.bytes);
                    let why = "there was no room for all that the kernel says of a datagram";
                    return Ok(Fill::Unusable { bytes: received.bytes, why });
                }
                Ok(received) => {
                    let datagram_bytes = received.datagram_bytes.unwrap_or(received.bytes).max(1);
                    return Ok(Fill::Datagrams { bytes: received.bytes, datagram_bytes });
                }
                Err(Errno::AGAIN) => return Ok(Fill::Nothing),
                // An ICMP error for datagrams that were sent before, reported once.
                Err(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH) => {}
                Err(errno) => return Err(("recvmsg", errno)),
            }
        }
    }
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
