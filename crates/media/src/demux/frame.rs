//! Frames of elementary streams, and headers of frames of sound.

use super::pes::Stamp;
use crate::track::{Codec, Sound};

/// Access unit or frame of sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its bytes as they are sent: NAL units after lengths of four bytes.
    pub(super) bytes: Vec<u8>,
    pub(super) stamp: Option<Stamp>,
    pub(super) sync: bool,
    /// Samples of sound.
    pub(super) samples: u32,
    /// True if it may be the second field of the picture before.
    pub(super) second_field: bool,
}

/// Properties that all frames of a track share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrameKind {
    pub(super) codec: Codec,
    pub(super) sound: Sound,
}

/// Header of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) kind: FrameKind,
    /// Bytes that are not sent, and bytes of the frame with these.
    pub(super) skipped: usize,
    pub(super) length: usize,
    /// Samples of each channel, at the rate of the kind.
    pub(super) samples: u32,
}

/// Result of reading a header.
pub(super) enum Read {
    Header(FrameHeader),
    /// More bytes are needed.
    Incomplete,
    /// There is none.
    Invalid,
}
