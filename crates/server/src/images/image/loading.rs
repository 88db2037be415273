//! Reading of segments, on threads of the pool.

use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::MutexGuard;
use wirepath_engine::Waker;
use wirepath_media::image::{Layout, SegmentEntry};
use wirepath_playback::Segment;

use super::state::State;
use super::{Damage, Image};
use crate::images::page_memory::{HeldSegment, SegmentHolder};
use crate::images::progress::Progress;
use crate::images::read::ReadImageError;
use crate::images::segment::{self, Files};
use crate::images::slot::{Loaded, Slot};

/// A segment to be read, with the state at the time of that decision.
struct LoadJob {
    edition: u64,
    files: Files,
    entry: SegmentEntry,
    until_us: u64,
    verified: bool,
}

impl Image {
    /// Reads a segment, on a thread of the pool.
    fn load(&self, number: u32) {
        let index = number as usize;
        let Some(job) = self.to_load(index) else { return };
        let result = segment::read(&job.files, &self.plan, &job.entry, job.until_us, job.verified);
        let mut state = self.state.lock();
        // The image may have started over or switched files meanwhile; then this segment is not needed.
        if state.edition != job.edition {
            return;
        }
        let Some(slot) = state.slots.get_mut(index) else { return };
        slot.loading = false;
        let mut held = None;
        let failure = match result {
            Ok(segment) => {
                slot.verified = true;
                let segment = Arc::new(segment);
                if !std::mem::replace(&mut slot.held, true) {
                    held = Some(self.held_segment(number, &job, &segment));
                }
                slot.loaded = Loaded::Fresh(segment);
                None
            }
            Err(error) if error.is_damage() => {
                self.leave_damaged(state, job.files, format!("segment {number}: {error}"));
                return;
            }
            Err(error) => {
                let reason = match error {
                    ReadImageError::AssetChanged | ReadImageError::Asset(_) => error.to_string(),
                    _ => format!("segment {number} of the wire image {}: {error}", self.path.display()),
                };
                slot.loaded = Loaded::Failed { at: Instant::now(), reason: reason.into() };
                Some(error)
            }
        };
        let wakers = state.take_wakers(number..=number);
        drop(state);
        wakers.iter().for_each(Waker::wake);
        if let Some(held) = held {
            self.readers.memory.note_read(held);
        }
        if let Some(error) = failure {
            tracing::warn!(asset = self.name, image = %self.path.display(), segment = number, %error,
                "cannot read a segment of a wire image; its playbacks end");
        }
    }

    /// A segment in the form for page memory.
    fn held_segment(&self, number: u32, job: &LoadJob, segment: &Arc<Segment>) -> HeldSegment {
        let entry = &job.entry;
        let range = match entry.asset_offset {
            Some(offset) => offset..offset + entry.payload_length(),
            None => entry.offset..entry.offset + entry.length(),
        };
        HeldSegment {
            image: self.this.clone() as Weak<dyn SegmentHolder>,
            number,
            edition: job.edition,
            segment: Arc::downgrade(segment),
            file: Arc::downgrade(&segment.mapped_file),
            range,
            read_at: Instant::now(),
        }
    }

    /// Starts reading further segments that are needed within a time after a segment that is requested in
    /// advance.
    pub(super) fn load_further(&self, state: &mut State, number: u32, read_ahead_us: u64) {
        let start_us =
            |slots: &[Slot], index: usize| slots.get(index).map(|slot| slot.entry.first_departure_us);
        let mut index = number as usize + 1;
        let (Some(from_us), Some(next_us)) =
            (start_us(&state.slots, index - 1), start_us(&state.slots, index))
        else {
            return;
        };
        let until_us = from_us.saturating_add(read_ahead_us).saturating_sub(next_us - from_us);
        while let Some(slot) =
            state.slots.get_mut(index).filter(|slot| slot.entry.first_departure_us < until_us)
        {
            if !self.has_loaded(slot, index as u32) {
                return;
            }
            index += 1;
        }
    }

    /// Starts reading a segment unless it is loaded or being read. Returns false if the readers' queue is
    /// full.
    pub(super) fn has_loaded(&self, slot: &mut Slot, number: u32) -> bool {
        if slot.loading || slot.is_there() {
            return true;
        }
        if let Some(this) = self.this.upgrade() {
            slot.loading = self.readers.pool.submit(move || this.load(number));
        }
        slot.loading
    }

    /// Continues without a damaged file: from the index if there is one. Otherwise the image is emptied and
    /// packed again, and playbacks that wait for a segment are woken when it exists again.
    fn leave_damaged(&self, mut state: MutexGuard<'_, State>, damaged: Files, error: String) {
        let index = state.index.take();
        let is_replaced = index.is_some();
        let (gone, wakers) = match index {
            Some((files, entries)) => {
                let before = state.replace(files, &entries, false);
                (before.map(|(files, _)| (Some(files), Vec::new())), state.take_wakers(..))
            }
            None => (Some(self.start_over(&mut state)), Vec::new()),
        };
        let generation = state.generation;
        drop(state);
        drop(gone);
        wakers.iter().for_each(Waker::wake);
        if let Some(this) = self.this.upgrade() {
            let layout = if damaged.asset.is_some() { Layout::Index } else { Layout::Image };
            let mapped_file = damaged.stored;
            (self.on_damage)(this, Damage { mapped_file, layout, generation, is_replaced, error });
        }
    }

    /// Empties the image for the next generation. `state` stays locked meanwhile: if a playback requested a
    /// segment that is missing in an image still marked complete, it would take that for the end.
    fn start_over(&self, state: &mut State) -> (Option<Files>, Vec<Slot>) {
        state.generation += 1;
        state.edition += 1;
        (state.begun, state.places) = (None, Vec::new());
        self.progress.send_replace(Progress::Growing { until_us: 0 });
        state.empty()
    }

    fn to_load(&self, index: usize) -> Option<LoadJob> {
        let state = self.state.lock();
        let slot = state.slots.get(index)?;
        Some(LoadJob {
            edition: state.edition,
            files: state.files.clone()?,
            entry: slot.entry,
            until_us: state.slots.get(index + 1).map_or(u64::MAX, |next| next.entry.first_departure_us),
            verified: slot.verified,
        })
    }
}
