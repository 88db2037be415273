//! Frames of elementary streams, and headers of audio frames.

use super::pes::Stamp;
use crate::track::{Codec, Sound};

/// Access unit or audio frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Bytes as they are sent: NAL units follow lengths of four bytes.
    pub(super) bytes: Vec<u8>,
    pub(super) stamp: Option<Stamp>,
    pub(super) sync: bool,
    /// Number of audio samples.
    pub(super) samples: u32,
    /// True if the access unit may be the second field of the picture before.
    pub(super) second_field: bool,
}

/// Properties that are the same for all frames of a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrameKind {
    pub(super) codec: Codec,
    pub(super) sound: Sound,
}

/// Header of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) kind: FrameKind,
    /// Bytes that are not sent, and length of the frame including these.
    pub(super) skipped: usize,
    pub(super) length: usize,
    /// Samples of each channel, at the sample rate of `kind`.
    pub(super) samples: u32,
}

/// Result of reading a header.
pub(super) enum Read {
    Header(FrameHeader),
    /// More bytes are needed.
    Incomplete,
    /// No header begins here.
    Invalid,
}
