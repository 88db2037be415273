//! What an input has: runs of records, made of what its object gives.

use std::fmt;

use bytes::{Buf, Bytes};
use rustix::io::Errno;
use wirepath_datapath::datagrams;
use wirepath_engine::Watcher;

use super::storage::{Job, Storage};
use super::{Input, StreamError, Supply};
use crate::object::{Fill, ObjectError};
use crate::record::Run;
use crate::write_progress::WriteProgress;

/// Bytes that are asked for at a time: a few calls a megabyte, and still within the processor's caches.
const READ: usize = 128 * 1024;

/// Most bytes, of a record that is as long. Each call that reads from a connection has it tell its peer of the room there is now, so a
/// few large calls cost the network less than many that stay within the processor's nearest cache.
const MOST_READ: usize = 1024 * 1024;

/// Calls that take waiting datagrams in a row: as many as the kernel lets leave in one (UDP_MAX_SEGMENTS).
const MOST_DATAGRAM_CALLS: usize = 64;

/// What an input has.
pub(super) enum Pulled {
    Run(Run),
    /// Nothing but datagrams that cannot be used; there may be more.
    Dropped,
    /// Nothing now.
    Nothing,
    /// Nothing any more.
    Gone,
}

impl Input {
    /// Whether it is a stream of bytes without framing: one record without end.
    pub(super) fn is_endless(&self) -> bool {
        self.splitter.is_whole() && !self.object.has_records()
    }

    /// Ends the record without end, if that is what goes by.
    pub(super) fn cut(&mut self) {
        if self.is_endless() {
            self.ready.extend(self.splitter.cut());
        }
    }

    /// Bytes that were read and not handed on.
    pub(super) fn kept(&self) -> usize {
        self.buffer.len() + self.ready.iter().map(|run| run.bytes.len()).sum::<usize>()
    }

    /// Whether nothing of a record was handed on that is not whole, and nothing whole waits.
    pub(super) fn is_between_records(&self) -> bool {
        self.ready.is_empty() && self.splitter.at_boundary() && !self.busy
    }

    /// Whether the beginning of a record was handed on and its end was not.
    pub(super) fn is_within_record(&self) -> bool {
        !self.splitter.at_boundary() && !self.is_endless()
    }

    /// Whether it has ended and all of it was handed on.
    pub(super) fn is_used_up(&self) -> bool {
        self.supply != Supply::Open && self.buffer.is_empty() && self.is_between_records()
    }

    /// The next run; of what its object has, about `room` bytes are taken.
    pub(super) fn next_run(
        &mut self,
        room: usize,
        storage: &mut Vec<Storage>,
        watch: Option<&Watcher>,
    ) -> Result<Pulled, StreamError> {
        loop {
            if let Some(run) = self.ready.pop_front() {
                return Ok(Pulled::Run(run));
            }
            if self.detach.is_some() && self.splitter.at_boundary() || self.busy {
                return Ok(Pulled::Nothing);
            }
            // Nor may a framing that is wrong whatever comes say so again.
            if self.supply == Supply::Cut && self.buffer.is_empty() {
                return Ok(Pulled::Gone);
            }
            let next = self.splitter.next(&mut self.buffer, self.supply == Supply::Ended);
            let name = &self.object.name;
            if let Some(run) = next.map_err(|error| StreamError::Framing { name: name.clone(), error })? {
                self.records += run.begun();
                self.ready.push_back(run);
                continue;
            }
            if self.supply != Supply::Open {
                return Ok(Pulled::Gone);
            }
            if !self.readable {
                return Ok(Pulled::Nothing);
            }
            let before = self.malformed.records;
            self.fill(room, storage, watch)?;
            if self.malformed.records > before && self.ready.is_empty() {
                return Ok(Pulled::Dropped);
            }
        }
    }

    /// The file is to be read as far as it is written: waits until more is.
    pub(super) fn await_writer(
        &mut self,
        progress: &WriteProgress,
        known: u64,
        watch: Option<&Watcher>,
    ) -> Result<(), ObjectError> {
        let Some(watch) = watch else {
            return Err(self.object.error("waiting for the writer without an engine", Errno::OPNOTSUPP));
        };
        self.readable = !progress.wake_beyond(known, watch.waker(self.port.0));
        Ok(())
    }

    fn fill(
        &mut self,
        room: usize,
        storage: &mut Vec<Storage>,
        watch: Option<&Watcher>,
    ) -> Result<(), StreamError> {
        match self.take(room)? {
            Fill::Datagrams { bytes, datagram_bytes } => self.gather(bytes, datagram_bytes, room)?,
            Fill::Nothing => self.readable = false,
            Fill::End => self.supply = Supply::Ended,
            Fill::Cold(cold) => {
                self.busy = true;
                storage.push(Storage { port: self.port, job: Job::Warm(cold) });
            }
            Fill::Unwritten(progress, known) => self.await_writer(&progress, known, watch)?,
            Fill::Bytes(_) | Fill::Unusable { .. } => {} // counted
        }
        Ok(())
    }

    /// What one call gives, counted.
    fn take(&mut self, room: usize) -> Result<Fill, StreamError> {
        let asked = self.splitter.awaited().min(room).clamp(READ, MOST_READ);
        let fill = self.object.fill(&mut self.buffer, asked)?;
        match &fill {
            Fill::Bytes(bytes) | Fill::Datagrams { bytes, .. } => self.bytes += *bytes as u64,
            Fill::Unusable { bytes, why } => {
                self.bytes += *bytes as u64;
                self.note_malformed(*bytes, why);
            }
            Fill::Nothing | Fill::End | Fill::Cold(..) | Fill::Unwritten(..) => {}
        }
        Ok(fill)
    }

    /// Makes records of the datagrams in the buffer, all of `size` but the last, and of those that wait behind them, up to about `room`
    /// bytes. What is of one size becomes one run, which an output sends in one call, whether the kernel gathered it or not.
    fn gather(&mut self, bytes: usize, mut size: usize, room: usize) -> Result<(), StreamError> {
        let room = room.min(datagrams::MAXIMUM_PAYLOAD);
        let is_full = |bytes: usize, size: usize| bytes > 0 && bytes.is_multiple_of(size);
        let mut may_grow = is_full(bytes, size);
        let (mut taken, mut calls) = (bytes, 1);
        // By what was taken and not by what joined: datagrams of many sizes, or empty ones, may come as fast as they are read.
        while taken + size <= room && calls < MOST_DATAGRAM_CALLS {
            let before = self.buffer.len();
            let took = self.take(room);
            if took.is_err() {
                let last = self.buffer.split().freeze();
                self.divide(last, size);
            }
            match took? {
                Fill::Datagrams { bytes, datagram_bytes } => {
                    (taken, calls) = (taken + bytes, calls + 1);
                    let is_one = bytes <= datagram_bytes;
                    let joins = may_grow && bytes > 0 && (datagram_bytes == size || is_one && bytes < size);
                    if !joins {
                        let first = self.buffer.split_to(before).freeze();
                        self.divide(first, size);
                        size = datagram_bytes;
                    }
                    may_grow = is_full(bytes, size);
                }
                Fill::Nothing => {
                    self.readable = false;
                    break;
                }
                _ => break, // one that cannot be used, and is counted
            }
        }
        let last = self.buffer.split().freeze();
        self.divide(last, size);
        Ok(())
    }

    /// Makes records of datagrams that lie together: each is one, or is divided into some.
    fn divide(&mut self, mut datagrams: Bytes, datagram_bytes: usize) {
        if self.splitter.is_whole() {
            let run = Run { bytes: datagrams, record_bytes: datagram_bytes, begins: true, ends: true };
            self.records += run.begun();
            return self.ready.push_back(run);
        }
        while datagrams.has_remaining() {
            self.divide_one(datagrams.split_to(datagram_bytes.min(datagrams.len())));
        }
    }

    /// Makes records of one datagram: all of it, or, if it does not fit the framing, nothing. Anybody may send one.
    fn divide_one(&mut self, mut datagram: Bytes) {
        let (bytes, before, mut records) = (datagram.len(), self.ready.len(), 0);
        loop {
            match self.splitter.next(&mut datagram, true) {
                Ok(Some(run)) => {
                    records += run.begun();
                    self.ready.push_back(run);
                }
                Ok(None) => {
                    self.records += records;
                    return;
                }
                Err(error) => {
                    self.ready.truncate(before);
                    return self.note_malformed(bytes, &error);
                }
            }
        }
    }

    /// A datagram is dropped, for a reason that is told if it is the first.
    pub(super) fn note_malformed(&mut self, bytes: usize, why: &dyn fmt::Display) {
        if self.malformed.records == 0 {
            self.misfit = Some(why.to_string());
        }
        self.malformed.records += 1;
        self.malformed.bytes += bytes as u64;
    }
}
