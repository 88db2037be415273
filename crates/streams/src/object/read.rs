//! Reading from an object.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, BytesMut};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use wirepath_datapath::append::{self, append};
use wirepath_datapath::{PageCache, datagrams, errno_of};

use super::cold::{Cold, TRUST, WINDOW};
use super::outcome::{Awaited, ReadOutcome, ReadResult, Unread};
use super::{Connection, Datagrams, Kind, Object, ObjectError, Source, StoredFile};

impl Object {
    /// Appends up to `room` bytes to `buffer`; of datagrams, those that came together.
    pub(crate) fn read_into(
        &mut self,
        buffer: &mut BytesMut,
        room: usize,
    ) -> Result<ReadOutcome, ObjectError> {
        if !self.unread.is_empty() {
            let bytes = self.unread.len();
            buffer.unsplit(self.unread.split());
            return Ok(ReadOutcome::Bytes(bytes));
        }
        let read = match &mut self.kind {
            Kind::File(file) => file.read_into(buffer, room),
            Kind::Stream(connection) => connection.read_into(buffer, room),
            Kind::Datagrams(datagrams) => datagrams.read_into(buffer),
            Kind::Mapping(mapped) => mapped.read_into(buffer, room),
            Kind::Memory(bytes) => {
                let length = room.min(bytes.len());
                buffer.extend_from_slice(&bytes[..length]);
                bytes.advance(length);
                Ok(if length == 0 { ReadOutcome::End } else { ReadOutcome::Bytes(length) })
            }
            Kind::Parts(parts) => parts.read_into(buffer, room),
            Kind::Listening(_) | Kind::Collected(_) => Err(Unread::Failed("reading", Errno::OPNOTSUPP)),
        };
        match read {
            Err(Unread::Blocked(awaited)) => Ok(ReadOutcome::Blocked(awaited)),
            Err(Unread::Failed(call, errno)) => Err(self.error(call, errno)),
            Ok(outcome) => Ok(outcome),
        }
    }

    /// Marks a cold range as in memory, up to this byte.
    pub(crate) fn warmed(&mut self, until: u64) {
        match &mut self.kind {
            Kind::File(file) => file.note_warm(until),
            Kind::Parts(parts) => match parts.next() {
                Some((Source::File(file), _)) => file.note_warm(until),
                Some((Source::Extents(extents), _)) => extents.note_warm(),
                _ => {}
            },
            Kind::Mapping(mapped) => mapped.warm_until = until as usize,
            _ => {}
        }
    }
}

impl StoredFile {
    pub(super) fn read_into(&mut self, buffer: &mut BytesMut, room: usize) -> ReadResult {
        if self.shares_place {
            self.offset = seek(&self.file, SeekFrom::Current(0)).map_err(|errno| ("lseek", errno))?;
        }
        let room = self.available(room)?;
        let (from, call) = if self.shares_place {
            (append::From::Stream, "read")
        } else {
            (append::From::File(self.offset), "pread")
        };
        let read = append(from, self.file.as_fd(), buffer, room);
        let read = read.map_err(|error| (call, errno_of(&error)))?;
        self.offset += read as u64;
        Ok(if read == 0 { ReadOutcome::End } else { ReadOutcome::Bytes(read) })
    }

    /// Number of `room` bytes that can be read without blocking.
    pub(crate) fn available(&mut self, room: usize) -> Result<usize, Unread> {
        let mut end = self.end;
        if let Some(progress) = self.follows.as_ref().filter(|_| self.offset < self.end) {
            if progress.has_failed() {
                return Err(Unread::Failed("the writer ended too early", Errno::CANCELED));
            }
            end = end.min(progress.bytes());
            if end <= self.offset {
                return Err(Unread::Blocked(Awaited::Writer(Arc::clone(progress), end)));
            }
        }
        if self.offset < end && !self.is_warm() {
            let window = self.offset..end.min((self.offset / WINDOW + 1) * WINDOW);
            match PageCache::of(&self.file, window.clone()) {
                PageCache::Warm => self.note_warm(window.end),
                PageCache::Cold => {
                    let cold = Cold::File(Arc::clone(&self.file), window);
                    return Err(Unread::Blocked(Awaited::Pages(cold)));
                }
            }
        }
        let there = self.warm_until.min(end).saturating_sub(self.offset);
        Ok(room.min(usize::try_from(there).unwrap_or(room)))
    }

    /// Marks the file as in the page cache, up to this byte.
    fn note_warm(&mut self, until: u64) {
        (self.warm_until, self.warm_at) = (until, Instant::now());
    }

    /// Returns whether the page cache had the next byte a moment ago. Makes no system call: the clock is in
    /// the vDSO.
    fn is_warm(&self) -> bool {
        self.offset < self.warm_until && self.warm_at.elapsed() < TRUST
    }
}

impl Connection {
    /// Number of `room` bytes that remain to be read.
    pub(crate) fn room(&self, room: usize) -> usize {
        room.min(usize::try_from(self.left).unwrap_or(room))
    }

    fn read_into(&mut self, buffer: &mut BytesMut, room: usize) -> ReadResult {
        let (from, call) =
            if self.is_socket { (append::From::Socket, "recv") } else { (append::From::Stream, "read") };
        let room = self.room(room);
        if room == 0 {
            return Ok(ReadOutcome::End);
        }
        match append(from, self.descriptor.as_fd(), buffer, room) {
            Ok(0) => Ok(ReadOutcome::End),
            Ok(read) => {
                self.left -= read as u64;
                Ok(ReadOutcome::Bytes(read))
            }
            Err(error) => match errno_of(&error) {
                Errno::AGAIN => Ok(ReadOutcome::Nothing),
                errno => Err(Unread::Failed(call, errno)),
            },
        }
    }
}

impl Datagrams {
    fn read_into(&mut self, buffer: &mut BytesMut) -> ReadResult {
        loop {
            let received = datagrams::receive(self.socket.as_fd(), buffer, datagrams::MAXIMUM_TRAIN);
            match received.map_err(|error| errno_of(&error)) {
                // The boundaries of the datagrams are unknown.
                Ok(received) if received.is_cut => {
                    buffer.truncate(buffer.len() - received.bytes);
                    let why = "there was no room for all that the kernel says of a datagram";
                    return Ok(ReadOutcome::Unusable { bytes: received.bytes, why });
                }
                Ok(received) => {
                    let datagram_bytes = received.datagram_bytes.unwrap_or(received.bytes).max(1);
                    return Ok(ReadOutcome::Datagrams { bytes: received.bytes, datagram_bytes });
                }
                Err(Errno::AGAIN) => return Ok(ReadOutcome::Nothing),
                // An ICMP error for datagrams that were sent before; the socket reports it once.
                Err(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH) => {}
                Err(errno) => return Err(Unread::Failed("recvmsg", errno)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
