//! Where a playback's trains come from.

use std::sync::Arc;

use wirepath_datapath::{MappedFile, Train};

/// A train and when it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Microseconds from the start of the source.
    pub at_us: u64,
    /// What leaves.
    pub train: Train,
}

/// Consecutive departures whose bytes were checked and brought into memory not long before they are due.
#[derive(Debug)]
pub struct Segment {
    /// What the trains are stored in.
    pub medium: Arc<MappedFile>,
    /// In order of departure; never empty.
    pub departures: Box<[Departure]>,
}

/// Answer to asking for a segment.
#[derive(Debug)]
pub enum Load {
    /// Here it is.
    Ready(Arc<Segment>),
    /// It is being brought in, or is not packed yet: ask again later.
    Pending,
    /// The source ends before it.
    End,
    /// It cannot be had; the words say why.
    Failed(Arc<str>),
}

/// A list of segments, numbered from 0, that may still be growing.
pub trait TrainSource: Send + Sync {
    /// Asks for a segment, and has it brought in if it is not there. Never blocks: it is called on engine threads.
    fn segment(&self, number: u32) -> Load;
}

/// A place in a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Number of the segment.
    pub segment: u32,
    /// Where in the segment.
    pub at: At,
}

/// A place in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// A packet of a train, and how many of its payload bytes to leave out.
    Packet {
        /// Number of the train in the segment.
        train: u32,
        /// Number of the packet in the train.
        packet: u32,
        /// Payload bytes of the packet that are left out.
        skip: u16,
    },
    /// The packet that leaves last at or before a time, in microseconds from the start of the source; the segment's first if
    /// all leave later.
    Time(u64),
}

impl Cursor {
    /// The start of the source.
    pub const START: Cursor = Cursor { segment: 0, at: At::Packet { train: 0, packet: 0, skip: 0 } };
}
