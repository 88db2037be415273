//! MP4 and QuickTime files (ISO/IEC 14496-12): tracks, and their samples as extents of the file.
//!
//! This module does not read files. Its readers return the next [`Extent`] that they want, and take its
//! bytes: [`MovieReader`] finds the `moov` box and makes a [`Movie`]; [`Samples`] returns the samples of all
//! tracks, interleaved by decode time, from tables and fragments. Readers request only boxes, never media.
//! Tables are kept encoded, so memory is that of the `moov` box, or of a few `moof` boxes. The cost of a
//! hostile file is bounded by the bytes of its tables, its length, and the limit of samples.
//! ```
//! use wirepath_media::mp4::{Extent, MovieReader, Next, synthetic};
//!
//! # fn main() -> Result<(), wirepath_media::mp4::Error> {
//! let file = synthetic::File::default().bytes();
//! let read = |wanted: Extent| file[wanted.offset as usize..wanted.end() as usize].to_vec();
//!
//! let mut reader = MovieReader::new(file.len() as u64);
//! while let Some(wanted) = reader.wanted() {
//!     reader.take(read(wanted))?;
//! }
//! let movie = reader.finish()?;
//! let mut samples = movie.samples();
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

mod boxes;
mod descriptor;
mod duration;
mod edits;
mod entry;
mod fragment;
mod mark;
mod movie;
mod reader;
mod samples;
pub mod synthetic;
mod table;
mod track;

pub use crate::track::{
    AudioConfig, Avc, Codec, Extent, FourCc, Hevc, Next, Pcm, PcmKind, Sample, Sound, Track, TrackKind,
};
pub use duration::DurationReader;
pub use mark::Mark;
pub use movie::{Movie, MovieReader};
pub use samples::{Fragments, Samples};

/// Error of a track, which is left out. Other tracks are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackFault {
    /// Identifier of the track; 0 if it cannot be read.
    pub track: u32,
    /// Error.
    pub error: Error,
}

/// Error of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// File that is not an MP4 file.
    #[error("not an MP4 file: it does not begin with a box of one")]
    NotMp4,
    /// No `moov` box.
    #[error("no moov box in this MP4 file: it was cut, or its recording was not finished")]
    NoMovie,
    /// A box that cannot be read.
    #[error("MP4 box {kind} at byte {offset}: {reason}")]
    Box {
        /// Name of the box.
        kind: FourCc,
        /// Offset of the box in the file.
        offset: u64,
        /// Reason.
        reason: &'static str,
    },
    /// A sample that contradicts the tables or limits. The text does not name the track, which the
    /// [`TrackFault`] names.
    #[error("sample {sample}: {reason}")]
    Sample {
        /// Identifier of the track.
        track: u32,
        /// Number of the sample in the track, counted from 1.
        sample: u64,
        /// Reason.
        reason: &'static str,
    },
    /// A sample beyond the end of the file.
    #[error("sample {sample}: its end, byte {end}, is beyond the file, which has {size} bytes")]
    BeyondFile {
        /// Identifier of the track.
        track: u32,
        /// Number of the sample in the track, counted from 1.
        sample: u64,
        /// Offset of the sample's end in the file.
        end: u64,
        /// Length of the file.
        size: u64,
    },
    /// More of something than is read, although it may be valid.
    #[error("this MP4 file has {what}: at most {limit} are read")]
    Limit {
        /// Name of the thing that exceeds the limit.
        what: &'static str,
        /// Limit.
        limit: u64,
    },
}

/// Returns whether a file that begins with `head`, at least 12 bytes, is an MP4 or QuickTime file.
pub fn is_mp4(head: &[u8]) -> bool {
    const FIRST: [&[u8; 4]; 9] =
        [b"ftyp", b"styp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"uuid"];
    head.get(4..8).is_some_and(|kind| FIRST.iter().any(|first| kind == *first))
}

/// Returns whether a file with these last 16 bytes ends with an index of all of its fragments (`mfra`), as finished
/// recordings often do.
pub fn has_fragment_index(tail: &[u8]) -> bool {
    duration::access_index_length(tail).is_some()
}

#[cfg(test)]
mod duration_tests;
#[cfg(test)]
mod edit_tests;
#[cfg(test)]
mod tests;
