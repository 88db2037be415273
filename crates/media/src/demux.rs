//! Tracks of a transport stream (ISO/IEC 13818-1): access units of H.264 and H.265, frames of AAC, MPEG audio,
//! AC-3 and Opus, with the times of their PES packets.
//!
//! A transport stream cuts a sample into parts of at most 184 bytes, so samples are no extents of the file.
//! [`Samples`] keeps their bytes until they are packed, and their extents count the bytes of their track:
//! [`Samples::stored`] has them. NAL units come after lengths of four bytes, as in MP4.

mod ac3;
mod adts;
mod audio;
mod elementary;
mod frame;
mod mpeg_audio;
mod nal_unit;
mod opus;
mod order;
mod parameter_sets;
mod pes;
mod reader;
mod samples;
mod store;
pub mod synthetic;
mod timeline;
mod track;
mod video;

pub use reader::{Movie, TracksReader};
pub use samples::Samples;

use crate::ts::NotTransportStream;

/// Most bytes at the beginning of a file in which the first frames of its tracks are looked for.
pub const PROBED_BYTES: u64 = 8 << 20;

/// Longest sample. Pictures of the largest format at 200 Mb/s have less.
pub const MAX_SAMPLE: usize = 16 << 20;

/// Most bytes of samples that wait to be packed.
pub const MAX_STORED: usize = 64 << 20;

/// Seconds before time 0 that samples can be: their decode times count from there, and `shift` of a track is
/// as much.
const LEAD_S: i64 = 60;

/// Ticks of PTS and DTS in a second.
const TICKS_PER_SECOND: u32 = 90_000;

/// Fault of a transport stream, or of one of its tracks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another kind of file.
    #[error(transparent)]
    NotTransportStream(#[from] NotTransportStream),
    /// No programme map.
    #[error("no programme map (PMT) in the first {PROBED_BYTES} bytes: without one the tracks are not known")]
    NoProgramme,
    /// A track without a frame.
    #[error("no {codec} frame with a PTS in the first {PROBED_BYTES} bytes")]
    NoFrames {
        /// Name of the codec.
        codec: &'static str,
    },
    /// A track that is encrypted.
    #[error("its packets are scrambled")]
    Scrambled,
    /// AAC without a channel configuration in its headers.
    #[error("AAC with a channel configuration of its own (program_config_element) is not supported")]
    Channels,
    /// A track that is not in the programme any more.
    #[error("the programme map does not have it any more at byte {offset}")]
    Gone {
        /// Place of the map in the file.
        offset: u64,
    },
    /// Frames of another kind than the first one's.
    #[error(
        "its frames have another sample rate or number of channels from byte {offset} on: they are left out"
    )]
    Changed {
        /// Place in the file.
        offset: u64,
    },
    /// A sample without an end.
    #[error("an access unit before byte {offset} is longer than {MAX_SAMPLE} bytes and is left out")]
    TooLong {
        /// Place in the file.
        offset: u64,
    },
    /// Too much waits to be packed.
    #[error("its tracks are so far apart that more than {MAX_STORED} bytes would have to wait")]
    TooFarApart,
}

#[cfg(test)]
mod tests;
