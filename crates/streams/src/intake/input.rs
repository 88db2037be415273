//! One input: divides the bytes of its object into runs of records.

use std::collections::VecDeque;
use std::fmt;

use bytes::BytesMut;
use rustix::io::Errno;
use wirepath_datapath::{MAXIMUM_DATAGRAMS, datagrams};

use crate::error::StreamError;
use crate::framing::Splitter;
use crate::hot_blocks;
use crate::object::{Awaited, Object, ObjectError, ReadOutcome};
use crate::outbox::Dropped;
use crate::port::Port;
use crate::record::Run;
use crate::shared::{OnDetached, Shared};
use crate::storage::{Job, StorageJob};

/// Most bytes requested by a read of a long record. Each read from a connection announces the free room to
/// the peer, so a few large reads cost the network less than many reads that fit the nearest cache.
const MOST_READ: usize = 1024 * 1024;

pub(crate) struct Input {
    pub(crate) port: Port,
    pub(crate) object: Object,
    pub(crate) splitter: Splitter,
    /// Bytes that were read and not divided yet.
    pub(super) buffer: BytesMut,
    /// Runs that were divided and not taken yet.
    pub(crate) ready: VecDeque<Run<BytesMut>>,
    /// A read may find bytes: no read has found the input empty since it became ready.
    pub(crate) readable: bool,
    /// By arrival: the input is in the queue of inputs that may have something.
    pub(super) is_queued: bool,
    /// The input waits for storage.
    pub(crate) busy: bool,
    /// The next bytes have to be copied, because their record is small or too few have arrived to peek at.
    /// The next read takes at most this many.
    pub(super) must_copy: Option<usize>,
    pub(super) supply: Supply,
    /// Callback of a detach; the input leaves when it is between two records.
    pub(super) detach: Option<OnDetached>,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    /// Of shares: lowest record number that the next share of a byte stream may have.
    pub(super) next_share: u64,
    pub(crate) malformed: Dropped,
    /// Reason of the first malformed datagram, until it is reported.
    pub(super) first_error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supply {
    /// More bytes may come.
    Open,
    /// The object has ended.
    Ended,
    /// Nothing more is read.
    Cut,
}

/// Status of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputStatus {
    /// Port of the input.
    pub port: Port,
    /// Name of the input.
    pub name: String,
    /// Bytes that were read.
    pub bytes: u64,
    /// Records that have begun, as in [`StreamStatus::records_in`](crate::StreamStatus::records_in).
    pub records: u64,
    /// Datagrams that were dropped: they do not match the framing, are not shares, or came without the
    /// control message that divides them.
    pub malformed: Dropped,
}

impl InputStatus {
    pub(crate) fn new(port: Port, object: &Object) -> InputStatus {
        let name = object.name.clone();
        InputStatus { port, name, bytes: 0, records: 0, malformed: Dropped::default() }
    }
}

/// Result of reading an input.
pub(crate) enum Pulled {
    Run(Run<BytesMut>),
    /// Only unusable datagrams; more may come.
    Dropped,
    Nothing,
    /// The input has ended.
    Gone,
}

impl Input {
    pub(super) fn new(port: Port, object: Object, splitter: Splitter, supply: Supply) -> Input {
        Input {
            port,
            object,
            splitter,
            buffer: BytesMut::new(),
            ready: VecDeque::new(),
            readable: true,
            is_queued: false,
            busy: false,
            must_copy: None,
            supply,
            detach: None,
            bytes: 0,
            records: 0,
            next_share: 0,
            malformed: Dropped::default(),
            first_error: None,
        }
    }

    pub(crate) fn status(&self) -> InputStatus {
        let Input { bytes, records, malformed, .. } = *self;
        InputStatus { bytes, records, malformed, ..InputStatus::new(self.port, &self.object) }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.supply == Supply::Open
    }

    /// Returns whether a read may find bytes.
    pub(super) fn may_be_read(&self) -> bool {
        self.readable && !self.busy && self.is_open()
    }

    /// Returns whether the input is a byte stream without framing: one endless record.
    pub(crate) fn is_unframed(&self) -> bool {
        self.splitter.is_whole() && !self.object.has_records()
    }

    /// Ends the endless record, if it is the current one.
    pub(super) fn cut(&mut self) {
        if self.is_unframed() {
            self.ready.extend(self.splitter.cut());
        }
    }

    pub(super) fn kept(&self) -> usize {
        self.buffer.len() + self.ready.iter().map(|run| run.bytes.len()).sum::<usize>()
    }

    /// Returns whether the last record was handed on completely and no other record waits.
    pub(super) fn is_between_records(&self) -> bool {
        self.ready.is_empty() && self.splitter.at_boundary() && !self.busy
    }

    /// Returns whether the beginning of a record was handed on, but not its end.
    pub(super) fn is_within_record(&self) -> bool {
        !self.splitter.at_boundary() && !self.is_unframed()
    }

    /// Returns whether the input has ended and all of its bytes were handed on.
    pub(super) fn is_used_up(&self) -> bool {
        self.supply != Supply::Open && self.buffer.is_empty() && self.is_between_records()
    }

    /// The next run. A read requests about as many bytes as the turn allows.
    pub(crate) fn next_run(&mut self, shared: &mut Shared) -> Result<Pulled, StreamError> {
        loop {
            if let Some(run) = self.ready.pop_front() {
                return Ok(Pulled::Run(run));
            }
            if self.detach.is_some() && self.splitter.at_boundary() || self.busy {
                return Ok(Pulled::Nothing);
            }
            // A framing that always fails must not be called again.
            if self.supply == Supply::Cut && self.buffer.is_empty() {
                return Ok(Pulled::Gone);
            }
            let next = self.splitter.next(&mut self.buffer, self.supply == Supply::Ended);
            let name = &self.object.name;
            if let Some(run) = next.map_err(|error| StreamError::Framing { name: name.clone(), error })? {
                self.records += run.begun();
                self.give_block_back(run.bytes.len());
                self.ready.push_back(run);
                continue;
            }
            if !self.is_open() {
                return Ok(Pulled::Gone);
            }
            if !self.readable {
                return Ok(Pulled::Nothing);
            }
            let before = self.malformed.records;
            self.fill(shared)?;
            if self.malformed.records > before && self.ready.is_empty() {
                return Ok(Pulled::Dropped);
            }
        }
    }

    fn fill(&mut self, shared: &mut Shared) -> Result<(), StreamError> {
        let room = shared.turn.room();
        match self.read(room)? {
            ReadOutcome::Datagrams { bytes, datagram_bytes } => self.gather(bytes, datagram_bytes, room)?,
            ReadOutcome::Nothing => self.readable = false,
            ReadOutcome::End => self.supply = Supply::Ended,
            ReadOutcome::Blocked(awaited) => self.wait_for(awaited, shared)?,
            ReadOutcome::Bytes(_) | ReadOutcome::Unusable { .. } => {} // counted
        }
        Ok(())
    }

    /// Waits for storage, or for the writer of a file. An error without an engine, which would wake the
    /// stream.
    pub(crate) fn wait_for(&mut self, awaited: Awaited, shared: &mut Shared) -> Result<(), ObjectError> {
        match (awaited, &shared.watcher) {
            (Awaited::Pages(cold), _) => {
                self.busy = true;
                shared.storage.push(StorageJob { port: self.port, job: Job::Warm(cold) });
            }
            (Awaited::Writer(progress, known), Some(watcher)) => {
                self.readable = !progress.wake_beyond(known, watcher.waker(self.port.0));
            }
            (Awaited::Writer(..), None) => {
                let call = "waiting for the writer without an engine";
                return Err(self.object.error(call, Errno::OPNOTSUPP));
            }
        }
        Ok(())
    }

    /// Gives the block to other inputs when all of its bytes were split off, the last `bytes` of them just
    /// now; unless these are so small a part of the block that the next bytes should share it.
    fn give_block_back(&mut self, bytes: usize) {
        if self.buffer.is_empty() && bytes >= self.buffer.capacity() / 3 {
            hot_blocks::put(std::mem::take(&mut self.buffer));
        }
    }

    /// Reads by one call, and counts the bytes.
    fn read(&mut self, room: usize) -> Result<ReadOutcome, StreamError> {
        let most = self.must_copy.take().unwrap_or(usize::MAX);
        let asked = self.splitter.awaited().min(room).clamp(hot_blocks::piece(), MOST_READ).min(most);
        if self.buffer.capacity() == 0 && !self.object.has_records() {
            self.buffer = hot_blocks::take(asked);
        }
        let outcome = self.object.read_into(&mut self.buffer, asked)?;
        if self.buffer.is_empty() && !self.object.has_records() {
            hot_blocks::put(std::mem::take(&mut self.buffer)); // an idle input keeps no block
        }
        match &outcome {
            ReadOutcome::Bytes(bytes) | ReadOutcome::Datagrams { bytes, .. } => self.bytes += *bytes as u64,
            ReadOutcome::Unusable { bytes, why } => {
                self.bytes += *bytes as u64;
                self.note_malformed(*bytes, why);
            }
            ReadOutcome::Nothing | ReadOutcome::End | ReadOutcome::Blocked(_) => {}
        }
        Ok(outcome)
    }

    /// Makes records of the datagrams in the buffer, all of length `size` except the last, and of the
    /// datagrams waiting in the socket after them, up to about `room` bytes. Datagrams of one size form one
    /// run, which an output sends in one call, whether the kernel gathered them or not.
    fn gather(&mut self, bytes: usize, mut size: usize, room: usize) -> Result<(), StreamError> {
        let room = room.min(datagrams::MAXIMUM_PAYLOAD);
        let is_full = |bytes: usize, size: usize| bytes > 0 && bytes.is_multiple_of(size);
        let mut may_grow = is_full(bytes, size);
        let (mut taken, mut calls) = (bytes, 1);
        // Limited by what was read and not by what was joined: datagrams of many sizes, or empty datagrams,
        // may arrive as fast as they are read.
        while taken + size <= room && calls < MAXIMUM_DATAGRAMS {
            let before = self.buffer.len();
            let outcome = self.read(room);
            if outcome.is_err() {
                let last = self.buffer.split();
                self.divide(last, size);
            }
            match outcome? {
                ReadOutcome::Datagrams { bytes, datagram_bytes } => {
                    (taken, calls) = (taken + bytes, calls + 1);
                    let is_one = bytes <= datagram_bytes;
                    let joins = may_grow && bytes > 0 && (datagram_bytes == size || is_one && bytes < size);
                    if !joins {
                        let first = self.buffer.split_to(before);
                        self.divide(first, size);
                        size = datagram_bytes;
                    }
                    may_grow = is_full(bytes, size);
                }
                ReadOutcome::Nothing => {
                    self.readable = false;
                    break;
                }
                _ => break, // an unusable datagram, which is counted
            }
        }
        let last = self.buffer.split();
        self.divide(last, size);
        Ok(())
    }

    /// Makes records of contiguous datagrams: each datagram is one record, or is divided into several.
    fn divide(&mut self, mut datagrams: BytesMut, datagram_bytes: usize) {
        if self.splitter.is_whole() {
            let run = Run { bytes: datagrams, record_bytes: datagram_bytes, begins: true, ends: true };
            self.records += run.begun();
            return self.ready.push_back(run);
        }
        while !datagrams.is_empty() {
            self.divide_one(datagrams.split_to(datagram_bytes.min(datagrams.len())));
        }
    }

    /// Makes records of one datagram: of the whole datagram, or none if the datagram does not match the
    /// framing.
    fn divide_one(&mut self, mut datagram: BytesMut) {
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

    /// Counts a malformed datagram and keeps the first reason.
    pub(super) fn note_malformed(&mut self, bytes: usize, why: &dyn fmt::Display) {
        if self.malformed.records == 0 {
            self.first_error = Some(why.to_string());
        }
        self.malformed.records += 1;
        self.malformed.bytes += bytes as u64;
    }
}
