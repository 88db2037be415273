//! Wire images: ready-made packets of an asset in a file, with their departure times. An index is a wire
//! image without packets; their payload is sent from the asset.
//!
//! This module encodes and decodes the format; `docs/wire-image.md` describes it byte by byte. A file
//! consists of a [`Header`] page, segments of packets and [`TrainRecord`] records, and a [`Table`] of
//! segments. Everything that is read from a file is checked before use, against its checksum and against the
//! rest of the file.

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
    fill_padding,
};

/// Version of the format: written, and the only version read.
pub const VERSION: u32 = 7;

/// Alignment of all parts of the file, and length of the header, in bytes.
pub const PAGE: u64 = 4096;

/// Most bytes of packets in a segment.
pub const MAX_SEGMENT_DATA: u32 = 1 << 20;

/// Most bytes of packets in the first segment. It is short because a client that begins there waits until it
/// is packed. The limit doubles with each further segment, up to [`MAX_SEGMENT_DATA`].
const FIRST_SEGMENT_DATA: u32 = 1 << 16;

/// Most bytes of packets that a packer puts into segment `number`, counted from 0.
pub(crate) fn segment_limit(number: usize) -> u32 {
    FIRST_SEGMENT_DATA.checked_shl(number as u32).map_or(MAX_SEGMENT_DATA, |limit| match limit {
        0 => MAX_SEGMENT_DATA,
        limit => limit.min(MAX_SEGMENT_DATA),
    })
}

/// Most packets in a train. Linux before 6.9 accepts 64 in a call, and 48 of full size fill a datagram.
pub const MAX_TRAIN_PACKETS: u32 = 48;

/// Most bytes in a train: the limit of a UDP send over IPv4.
pub const MAX_TRAIN_BYTES: u32 = 65_507;

/// Rounds `length` up to whole pages.
pub fn padded(length: u64) -> u64 {
    length.next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests;
