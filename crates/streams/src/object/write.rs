//! Writing to an object.

use std::io::IoSlice;
use std::os::fd::AsFd;

use bytes::BytesMut;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use wirepath_datapath::to_many::{self, LEAST_LENT};
use wirepath_datapath::{MAXIMUM_DATAGRAMS, datagrams, errno_of};

use super::target::{Batch, MOST_SLICES};
use super::{Connection, Datagrams, Kind, Object, ObjectError};
use crate::outbox::Outbox;
use crate::record::Run;

/// Most slices of a datagram (`UIO_MAXIOV`).
const DATAGRAM_SLICES: usize = 1024;

/// Most bytes of a storage job.
const BATCH: usize = 1024 * 1024;

/// Result of a write.
#[derive(Debug)]
pub(crate) enum WriteOutcome {
    /// Bytes written: at least one record or one byte.
    Written(usize),
    /// Bytes of datagrams that are lost: no route, or too long.
    Lost(usize),
    /// No room now.
    Full,
    /// The outbox has no whole datagram yet.
    Incomplete,
    /// A batch to be written by a storage job.
    Write(Batch),
}

impl Object {
    /// Writes from the front of `outbox`, which is not empty, as much as one call takes.
    pub(crate) fn write_from(&mut self, outbox: &mut Outbox) -> Result<WriteOutcome, ObjectError> {
        if let Some(target) = self.target() {
            return Ok(WriteOutcome::Write(Batch::new(target, outbox.take(BATCH))));
        }
        let written = match &mut self.kind {
            Kind::Stream(connection) => connection.write_from(outbox),
            Kind::Datagrams(datagrams) => datagrams.write_from(outbox),
            Kind::Collected(collected) => {
                collected.take(outbox).map(WriteOutcome::Written).map_err(|errno| ("memory", errno))
            }
            _ => Err(("writing", Errno::OPNOTSUPP)),
        };
        written.map_err(|(call, errno)| self.error(call, errno))
    }
}

type WriteResult = Result<WriteOutcome, (&'static str, Errno)>;

impl Connection {
    fn write_from(&mut self, outbox: &mut Outbox) -> WriteResult {
        let mut slices = [IoSlice::new(&[]); MOST_SLICES];
        let count = outbox.slices(&mut slices);
        let slices = &slices[..count];
        if slices.is_empty() {
            outbox.consume(0);
            return Ok(WriteOutcome::Written(0));
        }
        let (call, written) = if self.is_socket {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            ("sendmsg", sendmsg(&self.descriptor, slices, &mut SendAncillaryBuffer::default(), flags))
        } else {
            ("writev", rustix::io::writev(&self.descriptor, slices))
        };
        match written {
            Ok(bytes) => {
                outbox.consume(bytes);
                Ok(WriteOutcome::Written(bytes))
            }
            Err(Errno::AGAIN) => Ok(WriteOutcome::Full),
            Err(errno) => Err((call, errno)),
        }
    }
}

impl Datagrams {
    fn write_from(&mut self, outbox: &mut Outbox) -> WriteResult {
        let is_full = outbox.is_full();
        let Some(run) = outbox.pop() else { return Ok(WriteOutcome::Written(0)) };
        self.is_losing &= !run.begins;
        if self.is_losing {
            self.is_losing = !run.ends;
            return Ok(WriteOutcome::Lost(run.bytes.len()));
        }
        if !(run.begins && run.ends) {
            return self.write_record(run, outbox, is_full);
        }
        self.write_train(run, outbox)
    }

    /// Sends one record in pieces as one datagram.
    fn write_record(&mut self, first: Run, outbox: &mut Outbox, is_full: bool) -> WriteResult {
        // If the outbox is full, the rest of the record would wait for room for ever.
        if !(first.ends || outbox.has_end() || is_full) {
            outbox.push_front(first);
            return Ok(WriteOutcome::Incomplete);
        }
        let mut ends = first.ends;
        let mut parts = vec![first];
        while !ends && let Some(part) = outbox.pop() {
            ends = part.ends;
            parts.push(part);
        }
        let length = parts.iter().map(|part| part.bytes.len()).sum();
        if parts.len() > DATAGRAM_SLICES && length <= datagrams::MAXIMUM_TRAIN {
            parts = vec![joined(&parts, length)];
        }
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(&part.bytes)).collect();
        match self.send(&slices, None) {
            Ok(_) => Ok(WriteOutcome::Written(length)),
            Err(Errno::MSGSIZE) => {
                self.is_losing = !ends;
                Ok(self.too_long(length))
            }
            Err(errno) if is_loss(errno) => Ok(WriteOutcome::Lost(length)),
            Err(errno) => {
                parts.into_iter().rev().for_each(|part| outbox.push_front(part));
                not_sent(errno)
            }
        }
    }

    /// Sends datagrams, segmented into datagrams of `cut` bytes if given. An ICMP error for earlier
    /// datagrams, which the socket reports once in place of sending, is counted, and the datagrams are sent
    /// again.
    fn send(&mut self, slices: &[IoSlice<'_>], cut: Option<u16>) -> Result<usize, Errno> {
        if cut.is_none() {
            self.cut_all(0)?;
        }
        let send = || {
            let sent = datagrams::send(self.socket.as_fd(), slices, cut, self.to.as_ref());
            sent.map_err(|error| errno_of(&error))
        };
        let first = self.reported.take().map_or_else(send, Err);
        if !first.is_err_and(may_be_of_earlier) {
            return first;
        }
        let second = send();
        self.icmp_errors += u64::from(second != first || second == Err(Errno::CONNREFUSED));
        second
    }

    /// Sends a train of records.
    fn write_train(&mut self, mut run: Run, outbox: &mut Outbox) -> WriteResult {
        let (datagram_bytes, records) = self.next_train(&run);
        let train = run.take_records(records);
        let is_train = train.bytes.len() > datagram_bytes;
        let cut = is_train.then(|| u16::try_from(datagram_bytes).unwrap_or(u16::MAX));
        let sent = self.send(&[IoSlice::new(&train.bytes)], cut);
        outbox.put_rest(run);
        match sent {
            Ok(_) => {
                if train.bytes.len() >= LEAST_LENT {
                    to_many::note_copied(self.id);
                }
                Ok(WriteOutcome::Written(train.bytes.len()))
            }
            Err(errno) if is_loss(errno) => Ok(WriteOutcome::Lost(train.bytes.len())),
            Err(Errno::MSGSIZE) if !is_train => Ok(self.too_long(train.bytes.len())),
            Err(errno) => {
                outbox.push_front(train);
                if is_train && cannot_cut(errno) {
                    self.longest_cut = longest_cut(errno, datagram_bytes);
                    return Ok(WriteOutcome::Written(0));
                }
                not_sent(errno)
            }
        }
    }

    /// Length of each datagram of the next train of a run, and the largest number of records of the train.
    pub(super) fn next_train(&self, run: &Run) -> (usize, usize) {
        let per_datagram = if self.keeps_records { 1 } else { (self.packet_bytes / run.record_bytes).max(1) };
        let datagram_bytes = run.record_bytes * per_datagram;
        let datagrams = if datagram_bytes <= self.longest_cut {
            MAXIMUM_DATAGRAMS.min(datagrams::MAXIMUM_PAYLOAD / datagram_bytes).max(1)
        } else {
            1
        };
        (datagram_bytes, datagrams * per_datagram)
    }

    /// Drops a datagram that is longer than the path or any datagram allows; the first is reported. The
    /// output stays, because the input may come from anyone.
    fn too_long(&mut self, bytes: usize) -> WriteOutcome {
        if !std::mem::replace(&mut self.had_too_long, true) {
            self.first_error = Some(format!("a datagram of {bytes} bytes is longer than the path takes"));
        }
        WriteOutcome::Lost(bytes)
    }
}

/// Result for datagrams that were neither sent nor lost.
fn not_sent(errno: Errno) -> WriteResult {
    match errno {
        Errno::AGAIN => Ok(WriteOutcome::Full),
        // Never an error of these datagrams: another ICMP error for earlier ones.
        Errno::CONNREFUSED => Ok(WriteOutcome::Written(0)),
        errno => Err(("sendmsg", errno)),
    }
}

/// Returns whether a socket may report this error for datagrams that were sent before: the ICMP errors of
/// Linux (`icmp_err_convert`, and `icmpv6_err_convert`).
pub(super) fn may_be_of_earlier(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::CONNREFUSED
            | Errno::NETUNREACH
            | Errno::HOSTUNREACH
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::NOPROTOOPT
            | Errno::OPNOTSUPP
            | Errno::PROTO
            | Errno::ACCESS
            | Errno::MSGSIZE
    )
}

/// Joins runs by one copy.
fn joined(parts: &[Run], length: usize) -> Run {
    let mut bytes = BytesMut::with_capacity(length);
    parts.iter().for_each(|part| bytes.extend_from_slice(&part.bytes));
    let begins = parts.first().is_some_and(|part| part.begins);
    Run::single(bytes.freeze(), begins, parts.last().is_some_and(|part| part.ends))
}

/// Largest datagram that a route may still segment after segmentation failed for `datagram_bytes`. Two errors
/// may be due to the length.
fn longest_cut(errno: Errno, datagram_bytes: usize) -> usize {
    if matches!(errno, Errno::MSGSIZE | Errno::INVAL) { datagram_bytes - 1 } else { 0 }
}

/// Returns whether this error may mean that a route does not segment trains; kernels differ.
fn cannot_cut(errno: Errno) -> bool {
    matches!(errno, Errno::IO | Errno::INVAL | Errno::MSGSIZE | Errno::OPNOTSUPP)
}

/// Returns whether a datagram is lost by this error.
fn is_loss(errno: Errno) -> bool {
    matches!(errno, Errno::NETDOWN | Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::PERM | Errno::NOBUFS)
}
