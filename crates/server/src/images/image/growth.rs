//! Growth of an image: segments are added during packing.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use wirepath_engine::Waker;
use wirepath_media::image::{SegmentEntry, Start};

use super::Image;
use super::state::State;
use crate::images::progress::{Failure, Progress};
use crate::images::segment::Files;
use crate::images::slot::Slot;
use crate::images::summary::Summary;
use crate::images::work_queue::{Due, UrgencySignal};

/// Time before a playback needs more of an asset from which packing is urgent.
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

    /// Time at which more of the asset must be packed for a playback that waits or will wait; without one, a
    /// time for ordering it among other assets.
    pub(in crate::images) fn packing_due(&self, last_turn: Instant, now: Instant) -> Due {
        let state = self.state.lock();
        let end = state.slots.len() as u32;
        let seeks = self.waiting_seeks.load(Relaxed);
        if state.waiters.values().any(|segment| *segment >= end) || seeks > 0 {
            return Due::Playback(last_turn);
        }
        if let Some(until) = state.played_until(now) {
            return Due::Playback(until.checked_sub(LEAD).unwrap_or(last_turn));
        }
        let Some(begun) = state.begun else { return Due::Nobody(last_turn) };
        let until_us = state.slots.last().map_or(0, |slot| slot.entry.first_departure_us);
        Due::Nobody(begun + Duration::from_micros(until_us).saturating_sub(LEAD))
    }

    /// Registers the signal that playbacks notify when they need more of the asset sooner.
    pub(in crate::images) fn signal_urgency(&self, signal: Arc<UrgencySignal>) {
        self.urgency_signal.get_or_init(|| signal);
    }

    /// Notifies the packer that a playback needs the image.
    pub(super) fn notify_urgency(&self) {
        if let Some(signal) = self.urgency_signal.get() {
            signal.notify();
        }
    }

    /// Notes the segment that a playback requests while the image grows: in advance if it is not needed yet.
    pub(super) fn note_request(&self, state: &mut State, number: u32, in_advance: bool) {
        if number as usize >= state.slots.len() {
            if !in_advance {
                self.notify_urgency();
            }
            return;
        }
        let now = Instant::now();
        let before = number.checked_sub(1).filter(|_| in_advance).and_then(|before| state.departure(before));
        let ahead = before.zip(state.departure(number)).map_or(Duration::ZERO, |(from, to)| {
            to.saturating_sub(from).min(Duration::from_micros(self.readers.memory.read_ahead_us()))
        });
        if state.note_playback(number, now + ahead, now) {
            self.notify_urgency();
        }
    }

    /// Requests packing of a generation. Returns whether the caller has to pack it: only one packer works on
    /// the image at a time, and continues with this generation after its own.
    pub(in crate::images) fn want_packed(&self, generation: u32) -> bool {
        let mut packing = self.packing.lock();
        packing.wanted = generation;
        !std::mem::replace(&mut packing.busy, true)
    }

    /// Ends the packing of a generation. Returns the generation to continue with, if another one was
    /// requested meanwhile.
    pub(in crate::images) fn packing_over(&self, generation: u32) -> Option<u32> {
        let mut packing = self.packing.lock();
        packing.busy = packing.wanted != generation;
        packing.busy.then_some(packing.wanted)
    }

    /// From now on, stores the image in these empty files. Returns whether the image is still of this
    /// generation. [`Image::grow`] and [`Image::end`] return the same. If it is not, they change nothing.
    pub(in crate::images) fn begin(&self, generation: u32, files: Files) -> bool {
        let mut state = self.state.lock();
        let current = state.generation == generation;
        if current {
            state.files = Some(files);
        }
        current
    }

    /// Adds segments that were written to the file. If their checksums were computed from the written bytes,
    /// the segments count as verified.
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

    /// Ends the growth: all segments exist, or packing failed. The file of a failed image is closed, which
    /// frees its space.
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
