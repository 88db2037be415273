//! Growth of an image, and where playbacks can begin in it.

use std::sync::Arc;

use wirepath_playback::Cursor;

/// Contents of an image by now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// RTP packets.
    pub packets: u64,
    /// Trains of packets.
    pub trains: u64,
    /// Bytes of the image on the disk; while it is not complete, the reserved bytes.
    pub stored_bytes: u64,
}

/// Progress of packing an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Everything that departs before this time, in microseconds from the start, can be played; the image
    /// still grows.
    Growing {
        /// The time in microseconds.
        until_us: u64,
    },
    /// The whole image can be played.
    Complete,
    /// The image will not be completed. Playbacks keep the segments that they have, and get no more.
    Failed(Failure),
}

/// Reason for which an image will not be completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Text for the log and the operator; it may name folders of this machine.
    pub reason: Arc<str>,
    /// For clients: names no folder.
    pub public: Arc<str>,
    /// True if the asset is at fault, and trying again would not help.
    pub is_asset: bool,
}

/// Result of seeking a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeekResult {
    /// The place to begin.
    At(Cursor),
    /// The image has not grown so far; see `Image::progress`.
    NotYet,
    /// The image ends before.
    BeyondEnd,
}
