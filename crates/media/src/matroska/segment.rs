//! Segment: properties of a file that are known before its clusters are read.

use super::track::Plan;
use crate::track::{Extent, Track};

/// Segment of a file: its tracks, and the place of its clusters.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Document type.
    pub document: DocumentType,
    /// Extent of the `Tracks` element.
    pub extent: Extent,
    /// Tracks in the order of the file.
    pub tracks: Vec<Track>,
    /// Random access points listed in the file, in its order. There may be key frames without a cue.
    pub cues: Vec<Cue>,
    /// Duration in microseconds, if the file contains it.
    pub duration_us: Option<u64>,
    /// Length of the file.
    pub size: u64,
    /// Nanoseconds per tick.
    pub(super) tick_ns: u64,
    pub(super) plans: Vec<Plan>,
    /// Offset of the first cluster.
    pub(super) cluster: Option<u64>,
    /// End of the segment, or of the file if that is earlier.
    pub(super) end: u64,
    /// True if the file ends within the segment.
    pub(super) cut: bool,
}

/// Random access point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cue {
    /// Presentation time in microseconds.
    pub time_us: u64,
    /// Index of the track in [`Segment::tracks`].
    pub track: usize,
    /// Offset of the cluster in the file.
    pub cluster: u64,
}

/// Document type (RFC 8794 section 11.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentType {
    /// Matroska.
    Matroska,
    /// WebM, a subset of Matroska.
    Webm,
}

impl DocumentType {
    /// Name in lower case, as in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Matroska => "matroska",
            Self::Webm => "webm",
        }
    }
}

impl Segment {
    /// Keeps the tracks for which `keep` returns `true`.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Track) -> bool) {
        let kept: Vec<bool> = self.tracks.iter().map(&mut keep).collect();
        let all = std::mem::take(&mut self.tracks).into_iter().zip(std::mem::take(&mut self.plans));
        let all = all.zip(&kept).filter_map(|(track, kept)| kept.then_some(track));
        (self.tracks, self.plans) = all.unzip();
        self.cues.retain(|cue| kept[cue.track]);
        for cue in &mut self.cues {
            cue.track = kept[..cue.track].iter().filter(|kept| **kept).count();
        }
    }

    /// Index of the track with this number in blocks and cues.
    pub(super) fn track(&self, number: u64) -> Option<usize> {
        self.plans.iter().position(|plan| plan.number == number)
    }
}
