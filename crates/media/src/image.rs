//! Wire images: ready-made packets of an asset in a file, with the times at which they depart. An index is
//! the same without the packets, whose payload is sent from the asset.
//!
//! This is the format as bytes and values; `docs/wire-image.md` describes it byte by byte. A file is a
//! [`Header`] page, segments of packets and [`TrainRecord`] records, and a [`Table`] of segments. Nothing
//! read from a file is believed before it has been checked against its checksum and against everything else
//! in the file.

mod error;
mod fields;
mod header;
mod plan;
mod segment;
mod table;
mod writer;

pub use error::{Error, Part};
pub use header::{Header, TableExtent};
pub use plan::{
    Identity, MAX_BURST_US, MAX_STREAMS, MAX_TS_PER_PACKET, PathLimits, PayloadRecipe, Plan, PlanError,
    Recipe, StreamPlan, Streams, USUAL_BURST_US,
};
pub(crate) use segment::after;
pub use segment::{SegmentEntry, TRAIN_RECORD_LENGTH, TrainRecord};
pub use table::{Description, MovieDescription, Start, Table, TransportStreamDescription};
pub use writer::{
    End, Layout, NewSegment, PacketRun, PayloadRun, Summary, Writer, WrittenSegment, copy_payload,
};

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 3;

/// Alignment of everything in the file, and length of the header, in bytes.
pub const PAGE: u64 = 4096;

/// The most bytes of packets in one segment.
pub const MAX_SEGMENT_DATA: u32 = 1 << 20;

/// The most bytes of packets in the first segment: a client that begins there waits until it is packed. Each
/// of the next ones may have twice the bytes of the one before, up to [`MAX_SEGMENT_DATA`].
const FIRST_SEGMENT_DATA: u32 = 1 << 16;

/// The most bytes of packets that a packer puts into segment `number`, counted from 0.
pub(crate) fn segment_limit(number: usize) -> u32 {
    FIRST_SEGMENT_DATA.checked_shl(number as u32).map_or(MAX_SEGMENT_DATA, |limit| match limit {
        0 => MAX_SEGMENT_DATA,
        limit => limit.min(MAX_SEGMENT_DATA),
    })
}

/// The most packets in one train: Linux before 6.9 takes 64 in one call, and 48 of full size fill a datagram.
pub const MAX_TRAIN_PACKETS: u32 = 48;

/// The most bytes in one train: what one UDP send over IPv4 takes.
pub const MAX_TRAIN_BYTES: u32 = 65_507;

/// `length` rounded up to whole pages.
pub fn padded(length: u64) -> u64 {
    length.next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests;
