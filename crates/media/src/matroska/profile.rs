//! Profiles of VP9 tracks whose track entry has none: WebM without `CodecPrivate`. SDP without a profile
//! would mean profile 0 (RFC 9628 section 6), so the profile is read from the first byte of a frame.

use super::clusters::Clusters;
use super::ebml::Elements;
use super::entry::Entry;
use super::id::TRACK_ENTRY;
use super::track::Plan;
use crate::track::{Codec, Extent, Track};

/// Most elements of clusters that are read: the first frames of all tracks precede this limit.
const MAX_ELEMENTS: usize = 1000;

/// Search of the first frame of each track.
#[derive(Debug)]
pub(super) struct Profiles {
    clusters: Clusters,
    /// Numbers of the tracks whose first frame is not found yet.
    left: Vec<u64>,
    /// Number of a track, and its first frame.
    frame: Option<(u64, Extent)>,
    elements: usize,
    found: Vec<(u64, u8)>,
}

impl Profiles {
    /// Search from the cluster at `cluster`, for tracks in the data of a `Tracks` element.
    pub(super) fn new(tracks: &[u8], cluster: Option<u64>, end: u64) -> Self {
        let entries = Elements::new(tracks, 0).map_while(Result::ok);
        let entries = entries.filter(|found| found.header.id == TRACK_ENTRY);
        let entries = entries.filter_map(|found| Entry::read(&found).ok());
        let lacks = |entry: &Entry<'_>| {
            entry.codec == "V_VP9" && entry.private.is_empty() && entry.encoding.is_none()
        };
        let left = entries.filter(lacks).map(|entry| entry.number).collect();
        let clusters = Clusters::new(cluster, end);
        Self { clusters, left, frame: None, elements: 0, found: Vec::new() }
    }

    /// Bytes to read next; `None` at the end.
    pub(super) fn wanted(&self) -> Option<Extent> {
        match self.frame {
            Some((_, frame)) => Some(Extent { length: 1, ..frame }),
            None if self.left.is_empty() || self.elements >= MAX_ELEMENTS => None,
            None => self.clusters.wanted(),
        }
    }

    /// Takes the requested bytes.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        if let Some((number, _)) = self.frame.take() {
            self.left.retain(|left| *left != number);
            self.found.extend(bytes.first().copied().and_then(profile).map(|profile| (number, profile)));
            return;
        }
        self.elements += 1;
        match self.clusters.take(bytes) {
            Ok(Some(block)) if self.left.contains(&block.track) => {
                self.frame = self.clusters.frames.first().map(|frame| (block.track, *frame));
            }
            Ok(_) => {}
            // Reading the samples will report the damage.
            Err(_) => self.left.clear(),
        }
    }

    /// Sets the profiles of the tracks.
    pub(super) fn add_to(&self, tracks: &mut [Track], plans: &[Plan]) {
        for (track, plan) in tracks.iter_mut().zip(plans) {
            let found = self.found.iter().find(|(number, _)| *number == plan.number);
            if let (Codec::Vp9(profile @ None), Some((_, found))) = (&mut track.codec, found) {
                *profile = Some(*found);
            }
        }
    }
}

/// Profile from the first byte of a frame (VP9 specification section 6.2): after a marker of two bits, the
/// low and the high bit of the profile.
fn profile(first: u8) -> Option<u8> {
    (first >> 6 == 2).then_some((first >> 4 & 1) << 1 | first >> 5 & 1)
}
