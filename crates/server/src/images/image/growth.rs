//! Growth of an image: segments are added while it is packed.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use wirepath_engine::Waker;
use wirepath_media::image::{SegmentEntry, Start};

use super::Image;
use crate::images::progress::{Failure, Progress};
use crate::images::segment::Files;
use crate::images::slot::Slot;
use crate::images::summary::Summary;

/// Time before a playback needs more of an asset, at which that is packed with urgency.
const LEAD: Duration = Duration::from_millis(50);

impl Image {
    /// Notes how much of the asset has been packed.
    pub(in crate::images) fn note_packed(&self, asset_bytes: u64) {
        let before = self.asset_bytes_packed.swap(asset_bytes, Relaxed);
        let asset = self.state.lock().files.as_ref().and_then(|files| files.asset.clone());
        if let Some(asset) = asset.filter(|_| before < asset_bytes) {
            self.readers.memory.note_packed(&asset, before..asset_bytes);
        }
    }

    /// Time at which more of the asset has to be packed, lest a playback wait: in the past if one waits.
    pub(in crate::images) fn needed_at(&self, last_turn: Instant) -> Instant {
        let state = self.state.lock();
        let end = state.slots.len() as u32;
        let Some(begun) = state.begun.filter(|_| !state.waiters.values().any(|segment| *segment >= end))
        else {
            return last_turn;
        };
        let until_us = state.slots.last().map_or(0, |slot| slot.entry.first_departure_us);
        begun + Duration::from_micros(until_us).saturating_sub(LEAD)
    }

    /// Requests that a generation be packed. Returns whether the caller has to do it: one packs the image at
    /// a time, and goes on with this generation after its own.
    pub(in crate::images) fn want_packed(&self, generation: u32) -> bool {
        let mut packing = self.packing.lock();
        packing.wanted = generation;
        !std::mem::replace(&mut packing.busy, true)
    }

    /// Ends the packing of a generation. Returns the generation to go on with, if another is wanted by now.
    pub(in crate::images) fn packing_over(&self, generation: u32) -> Option<u32> {
        let mut packing = self.packing.lock();
        packing.busy = packing.wanted != generation;
        packing.busy.then_some(packing.wanted)
    }

    /// Keeps the image in empty files from now on. Returns whether the image still is of this generation,
    /// as do [`Image::grow`] and [`Image::end`], which otherwise change nothing.
    pub(in crate::images) fn begin(&self, generation: u32, files: Files) -> bool {
        let mut state = self.state.lock();
        let current = state.generation == generation;
        if current {
            state.files = Some(files);
        }
        current
    }

    /// Adds segments that are in the file now. If their checksums were computed from the bytes that were
    /// written, they count as verified.
    pub(in crate::images) fn grow(
        &self,
        generation: u32,
        entries: &[SegmentEntry],
        starts: &[Start],
        verified: bool,
    ) -> bool {
        let mut state = self.state.lock();
        if state.generation != generation {
            return false;
        }
        let first = state.slots.len() as u32;
        state.slots.extend(entries.iter().map(|entry| Slot::new(*entry, verified)));
        state.begun.get_or_insert_with(Instant::now);
        state.starts.extend_from_slice(starts);
        let until_us = state.slots.last().map_or(0, |slot| slot.entry.first_departure_us);
        self.progress.send_replace(Progress::Growing { until_us });
        let end = state.slots.len() as u32;
        let wakers = state.take_wakers(first..end);
        drop(state);
        wakers.iter().for_each(Waker::wake);
        true
    }

    /// Ends the growth: all segments are there, or packing failed. The file of a failed image is closed,
    /// which frees its space.
    pub(in crate::images) fn end(&self, generation: u32, result: Result<Summary, Failure>) -> bool {
        let mut state = self.state.lock();
        if state.generation != generation {
            return false;
        }
        let (waiting, gone) = match result {
            Ok(summary) => {
                state.summary = summary;
                self.progress.send_replace(Progress::Complete);
                (state.slots.len() as u32, None)
            }
            Err(failure) => {
                self.progress.send_replace(Progress::Failed(failure));
                (0, Some(state.empty()))
            }
        };
        let wakers = state.take_wakers(waiting..);
        drop(state); // engine threads must not wait until a file is closed
        drop(gone);
        wakers.iter().for_each(Waker::wake);
        true
    }
}
