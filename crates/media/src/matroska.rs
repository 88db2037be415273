//! Matroska and WebM files (RFC 9559, with EBML, RFC 8794): tracks, and their samples as extents of the file.
//!
//! The structure is that of [`mp4`](crate::mp4): this module does not read files. [`SegmentReader`] finds the
//! tracks and makes a [`Segment`]; [`Samples`] reads its clusters. Of media, readers request only block
//! headers: a few bytes at each element, and more only if the frame sizes of a lace need them. Memory is that
//! of the track description and of the places of blocks of at most a minute, because tracks are interleaved
//! by decode time.
//!
//! Blocks are in decode order and have presentation times; `matroska/order.rs` explains how decode times are
//! derived.
//! ```
//! use wirepath_media::matroska::{SegmentReader, synthetic};
//! use wirepath_media::track::{Extent, Next};
//!
//! # fn main() -> Result<(), wirepath_media::matroska::Error> {
//! let file = synthetic::File::default().bytes();
//! let read = |wanted: Extent| file[wanted.offset as usize..wanted.end() as usize].to_vec();
//!
//! let mut reader = SegmentReader::new(file.len() as u64);
//! while let Some(wanted) = reader.wanted() {
//!     reader.take(read(wanted))?;
//! }
//! let segment = reader.finish()?;
//! let mut samples = segment.samples();
//! let mut lengths = Vec::new();
//! loop {
//!     match samples.next()? {
//!         Next::Read(wanted) => samples.take(read(wanted))?,
//!         Next::Sample(sample) => lengths.push(sample.extent.length),
//!         Next::Growth | Next::End => break,
//!     }
//! }
//! assert_eq!(lengths, [10, 20, 30]);
//! # Ok(())
//! # }
//! ```

mod block;
mod clusters;
mod codec;
mod cue;
mod depth;
mod duration;
mod ebml;
mod entry;
mod id;
mod order;
mod profile;
mod reader;
mod samples;
mod segment;
pub mod synthetic;
mod timeline;
mod track;

pub use duration::DurationReader;
pub use id::Id;
pub use reader::SegmentReader;
pub use samples::Samples;
pub use segment::{Cue, DocumentType, Segment};

/// Error of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// File that is not a Matroska or WebM file.
    #[error("not a Matroska or WebM file: it does not begin with an EBML header of one")]
    NotMatroska,
    /// No description of tracks.
    #[error("no Tracks element in this Matroska file: it was cut, or its recording was not finished")]
    NoTracks,
    /// An element that cannot be read.
    #[error("Matroska element {id} at byte {offset}: {reason}")]
    Element {
        /// Identifier of the element.
        id: Id,
        /// Offset of the element in the file.
        offset: u64,
        /// Reason.
        reason: &'static str,
    },
    /// Bytes that are not an element.
    #[error("byte {offset} of this Matroska file is not the beginning of an element: {reason}")]
    Bytes {
        /// Offset in the file.
        offset: u64,
        /// Reason.
        reason: &'static str,
    },
    /// More of something than is read, although it may be valid.
    #[error("too many {what} in this Matroska file: limit {limit}")]
    Limit {
        /// Name of the thing that exceeds the limit.
        what: &'static str,
        /// Limit.
        limit: u64,
    },
}

/// Returns whether a file that begins with `head`, at least 4 bytes, is an EBML file: Matroska, WebM, or
/// another document type.
pub fn is_matroska(head: &[u8]) -> bool {
    head.starts_with(&[0x1a, 0x45, 0xdf, 0xa3])
}

#[cfg(test)]
mod duration_tests;
#[cfg(test)]
mod tests;
