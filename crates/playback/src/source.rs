//! The source of a playback's trains.

use std::sync::Arc;

use wirepath_datapath::{MappedFile, Train};
use wirepath_engine::Waker;

use crate::numbering::Numbers;

/// A train and when it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Microseconds from the start of the source.
    pub at_us: u64,
    /// The train.
    pub train: Train,
}

/// Consecutive departures whose bytes were verified and read into memory shortly before they are due.
#[derive(Debug)]
pub struct Segment {
    /// The file that has the trains.
    pub mapped_file: Arc<MappedFile>,
    /// In order of departure; never empty.
    pub departures: Box<[Departure]>,
    /// The segment that has these departures with other numbers. It is kept, so that other playbacks find it while
    /// this one is used.
    pub original: Option<Arc<Segment>>,
    /// Wall clock of recordings, if packets may have header extensions of ONVIF replay.
    pub clock: Option<Box<SegmentClock>>,
}

/// Wall clock of a segment, and the end of its recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentClock {
    /// Time 0 of the source, in microseconds since 1970, in this segment's recording.
    pub zero_us: i64,
    /// Number of the recordings that follow each other without a gap, which have this segment.
    pub part: u32,
    /// Timestamps of the last access unit of each stream, if a gap or the end follows this segment; empty
    /// otherwise. None for a stream of which the segment has nothing.
    pub ends: Box<[Option<u32>]>,
    /// True if nothing follows these access units.
    pub is_terminal: bool,
}

/// Answer to a request for a segment.
#[derive(Debug)]
pub enum Load {
    /// The segment.
    Ready(Arc<Segment>),
    /// The segment is being read, or is not packed yet. The source keeps the waker and wakes it.
    Pending,
    /// The reading threads are busy. The source wakes nobody: the request should be repeated soon.
    Busy,
    /// The source ends before the segment.
    End,
    /// The segment cannot be read; the text is the reason.
    Failed(Arc<str>),
}

/// Default time before a segment is needed at which it is requested.
const READ_AHEAD_US: u64 = 2_000_000;

/// Numbered segments from 0; more may still be added.
pub trait TrainSource: Send + Sync {
    /// Requests a segment, and starts reading it if it is not in memory. Never blocks, since it is called on
    /// engine threads.
    ///
    /// After [`Load::Pending`] the source wakes `waker` as soon as the result of the same request has
    /// changed: the segment was read, or failed, or the source ends before it. A playback waits for one
    /// segment at a time, so a source keeps at most one of equal wakers: that of the last request. Additional
    /// wake-ups do no harm.
    ///
    /// Without a waker the request is made in advance, and nobody waits for the result.
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load;

    /// Time in microseconds before the first departure of a segment at which a playback requests it in
    /// advance. Never blocks.
    fn read_ahead_us(&self) -> u64 {
        READ_AHEAD_US
    }

    /// Starts reading segments in advance for a playback that is faster than recorded: the segments after
    /// this one that depart within a time, in microseconds, after it. Never blocks.
    fn read_further(&self, _number: u32, _time_us: u64) {}

    /// The first position at or after a time, in microseconds from the start, where a decoder can begin, for
    /// a client that was too slow for the packets before it. None if none is known. Never blocks.
    fn next_start(&self, _at_us: u64) -> Option<Cursor> {
        None
    }

    /// The last position at or before a time where a decoder can begin, for rewinding. None if none is known.
    /// Never blocks.
    fn start_before(&self, _at_us: u64) -> Option<Cursor> {
        None
    }

    /// Returns whether more segments may come. Never blocks.
    fn is_growing(&self) -> bool {
        matches!(self.segment(u32::MAX, None), Load::Pending | Load::Busy)
    }

    /// Returns whether a segment is still to be recorded. Waiting for it is then no stall, and is not made up. Never
    /// blocks.
    fn is_at_edge(&self, _segment: u32) -> bool {
        false
    }

    /// End of the last sample or packet, in microseconds from the start, if known. When the source is
    /// repeated, its start follows there. Never blocks.
    fn end_us(&self) -> Option<u64> {
        None
    }

    /// Returns whether packets have other numbers than the stored ones, so that no stored header is sent.
    fn has_own_numbers(&self) -> bool {
        false
    }

    /// End of the played range, if the source and not the request to play defines it: the departure after the
    /// start of the source of the first packet that is not sent, in the times of a segment. Never blocks.
    fn until_us(&self, _number: u32) -> Option<u64> {
        None
    }

    /// Drops a stored waker: its playback has moved elsewhere or ended. Never blocks.
    fn forget(&self, _waker: &Waker) {}
}

/// A place in a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Number of the segment.
    pub segment: u32,
    /// Place in the segment.
    pub at: At,
}

/// A place in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// A packet of a train, possibly without its first payload bytes.
    Packet {
        /// Number of the train in the segment.
        train: u32,
        /// Number of the packet in the train.
        packet: u32,
        /// Payload bytes of the packet to leave out.
        skip: u16,
    },
    /// The last packet that leaves at or before a time, in microseconds from the start of the source; the
    /// first packet of the segment if all leave later.
    Time(u64),
}

impl Cursor {
    /// The start of the source.
    pub const START: Cursor = Cursor { segment: 0, at: At::Packet { train: 0, packet: 0, skip: 0 } };
}

/// Stored numbers of the first packet of a departure.
pub(crate) fn numbers(departure: &Departure) -> Numbers {
    let stored = departure.train.run.header(departure.train.first);
    (stored.sequence, stored.timestamp)
}
