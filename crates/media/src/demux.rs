//! Demultiplexes a transport stream (ISO/IEC 13818-1) into tracks: access units of H.264 and H.265, frames of
//! AAC, MPEG audio, AC-3 and Opus, with the times of their PES packets.
//!
//! A transport stream divides a sample into parts of at most 184 bytes, so samples are not extents of the
//! file. [`Samples`] stores their bytes until they are packed. The extents of its samples count the bytes of
//! their track; [`Samples::stored`] returns these bytes. NAL units follow lengths of four bytes, as in MP4.

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

/// Most bytes at the beginning of a file in which the first frames of its tracks are searched.
pub const PROBED_BYTES: u64 = 8 << 20;

/// Longest sample. Pictures of the largest format at 200 Mb/s are shorter.
pub const MAX_SAMPLE: usize = 16 << 20;

/// Most bytes of stored samples that wait to be packed.
pub const MAX_STORED: usize = 64 << 20;

/// Longest time in seconds by which samples can precede time 0: decode times count from this long before time
/// 0, and the `shift` of a track compensates for it.
const LEAD_S: i64 = 60;

/// Ticks of PTS and DTS per second.
const TICKS_PER_SECOND: u32 = 90_000;

/// Error of a transport stream, or of one of its tracks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// File that is not a transport stream.
    #[error(transparent)]
    NotTransportStream(#[from] NotTransportStream),
    /// No programme map.
    #[error("no programme map (PMT) in the first {PROBED_BYTES} bytes: without one the tracks are not known")]
    NoProgramme,
    /// A track without frames.
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
    /// A track that the programme no longer has.
    #[error("the programme map does not have it any more at byte {offset}")]
    Gone {
        /// File offset of the programme map.
        offset: u64,
    },
    /// Frames with other parameters than the first frame.
    #[error(
        "its frames have another sample rate or number of channels from byte {offset} on: they are left out"
    )]
    Changed {
        /// File offset.
        offset: u64,
    },
    /// A sample that exceeds the limit.
    #[error("an access unit before byte {offset} is longer than {MAX_SAMPLE} bytes and is left out")]
    TooLong {
        /// File offset.
        offset: u64,
    },
    /// Too many bytes wait to be packed.
    #[error("its tracks are so far apart that more than {MAX_STORED} bytes would have to wait")]
    TooFarApart,
}

#[cfg(test)]
mod tests;
