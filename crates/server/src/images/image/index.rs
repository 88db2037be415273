//! An index that was replaced by an image made from it.

use std::sync::Arc;

use wirepath_datapath::MappedFile;
use wirepath_engine::Waker;
use wirepath_media::image::{SegmentEntry, Start};

use super::Image;
use crate::images::progress::Progress;
use crate::images::segment::Files;
use crate::images::summary::Summary;

/// A complete index, with the data for making an image.
pub(in crate::images) struct WholeIndex {
    pub(in crate::images) generation: u32,
    pub(in crate::images) files: Files,
    pub(in crate::images) segments: Vec<SegmentEntry>,
    pub(in crate::images) starts: Vec<Start>,
    pub(in crate::images) summary: Summary,
}

impl Image {
    /// The complete index, for making an image from it.
    pub(in crate::images) fn whole_index(&self) -> Option<WholeIndex> {
        let state = self.state.lock();
        let complete = *self.progress.borrow() == Progress::Complete;
        let files = state.files.as_ref().filter(|files| complete && files.asset.is_some())?;
        Some(WholeIndex {
            generation: state.generation,
            files: files.clone(),
            segments: state.slots.iter().map(|slot| slot.entry).collect(),
            starts: state.starts.clone(),
            summary: state.summary.clone(),
        })
    }

    /// Switches to an image that was made from the index: each playback continues from it at its next
    /// segment. Returns whether the index is still of this generation.
    pub(in crate::images) fn adopt(
        &self,
        generation: u32,
        image: Arc<MappedFile>,
        entries: &[SegmentEntry],
    ) -> bool {
        let mut state = self.state.lock();
        if state.generation != generation || state.slots.len() != entries.len() {
            return false;
        }
        let files = Files { stored: image, asset: None };
        let before = state.replace(files, entries, true);
        state.index = before;
        let wakers = state.take_wakers(..);
        drop(state);
        wakers.iter().for_each(Waker::wake);
        true
    }

    /// Keeps an index of the same plan, from which playbacks continue if the image is found damaged. An index
    /// with other segments is ignored.
    pub(in crate::images) fn set_index(&self, files: Files, entries: &[SegmentEntry]) {
        let mut state = self.state.lock();
        let place = |entry: &SegmentEntry| (entry.first_packet, entry.first_departure_us, entry.records);
        if state.slots.iter().map(|slot| place(&slot.entry)).eq(entries.iter().map(place)) {
            state.index = Some((files, entries.to_vec()));
        }
    }
}
