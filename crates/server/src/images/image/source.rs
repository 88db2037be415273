//! An image in the form for playbacks and page memory.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use wirepath_engine::Waker;
use wirepath_playback::{At, Cursor, Load, TrainSource};

use super::Image;
use super::state::State;
use crate::images::page_memory::{SegmentHolder, SegmentUse};
use crate::images::progress::Progress;
use crate::images::slot::Slot;

/// Largest distance between two playbacks at which the second one finds the packets that the first one sent
/// in memory.
const FOLLOWING_US: u64 = 4_000_000;

impl TrainSource for Image {
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
        let mut state = self.state.lock();
        if matches!(*self.progress.borrow(), Progress::Growing { .. }) {
            self.note_request(&mut state, number, waker.is_none());
        }
        let State { slots, waiters, .. } = &mut *state;
        let mut wait = || {
            waiters.extend(waker.map(|waker| (waker.clone(), number)));
            Load::Pending
        };
        let Some(slot) = slots.get_mut(number as usize) else {
            return match &*self.progress.borrow() {
                Progress::Growing { .. } => wait(),
                Progress::Complete => Load::End,
                Progress::Failed(failure) => Load::Failed(Arc::clone(&failure.reason)),
            };
        };
        let load = if let Some(segment) = slot.take() {
            if slot.entry.asset_offset.is_some() {
                self.asset_bytes_played.fetch_add(slot.entry.data_length.into(), Relaxed);
            }
            Load::Ready(segment)
        } else if let Some(reason) = slot.failed() {
            Load::Failed(reason)
        } else if self.has_loaded(slot, number) {
            wait()
        } else {
            Load::Busy
        };
        if waker.is_none() {
            self.load_further(&mut state, number, self.readers.memory.read_ahead_us());
        }
        load
    }

    fn read_ahead_us(&self) -> u64 {
        self.readers.memory.read_ahead_us()
    }

    fn read_further(&self, number: u32, time_us: u64) {
        self.load_further(&mut self.state.lock(), number, time_us);
    }

    /// Without random access points, every packet is a start position.
    fn next_start(&self, at_us: u64) -> Option<Cursor> {
        let state = self.state.lock();
        let before = state.starts.partition_point(|start| start.departure_us < at_us);
        match state.starts.get(before) {
            Some(start) => {
                let at = At::Packet { train: start.train, packet: 0, skip: start.skip as u16 };
                Some(Cursor { segment: start.segment, at })
            }
            None if state.starts.is_empty() => {
                let after = state.slots.partition_point(|slot| slot.entry.first_departure_us <= at_us);
                Some(Cursor { segment: after.checked_sub(1)? as u32, at: At::Time(at_us) })
            }
            None => None,
        }
    }

    fn start_before(&self, at_us: u64) -> Option<Cursor> {
        let state = self.state.lock();
        let before = state.starts.partition_point(|start| start.departure_us <= at_us);
        let start = state.starts.get(before.checked_sub(1)?)?;
        let at = At::Packet { train: start.train, packet: 0, skip: start.skip as u16 };
        Some(Cursor { segment: start.segment, at })
    }

    fn is_growing(&self) -> bool {
        matches!(*self.progress.borrow(), Progress::Growing { .. })
    }

    fn is_at_edge(&self, segment: u32) -> bool {
        Image::is_at_edge(self, segment)
    }

    fn end_us(&self) -> Option<u64> {
        self.state.lock().summary.duration_us
    }

    fn forget(&self, waker: &Waker) {
        self.state.lock().waiters.remove(waker);
    }
}

impl SegmentHolder for Image {
    fn segment_use(&self, number: u32, edition: u64, is_untaken: bool) -> SegmentUse {
        let mut state = self.state.lock();
        let index = number as usize;
        if state.edition != edition || index >= state.slots.len() {
            return SegmentUse::Unused { is_behind_unused: false };
        }
        let (behind, rest) = state.slots.split_at_mut(index);
        let slot = &mut rest[0];
        if is_untaken {
            slot.forget_untaken();
        }
        let from_us = slot.entry.first_departure_us.saturating_sub(FOLLOWING_US);
        let mut following = behind.iter().rev().take_while(|slot| slot.entry.first_departure_us >= from_us);
        if slot.is_needed() || following.any(Slot::is_shared) {
            return SegmentUse::Needed;
        }
        if slot.is_popular() {
            return SegmentUse::Popular;
        }
        slot.held = false;
        SegmentUse::Unused { is_behind_unused: !behind.last().is_some_and(Slot::is_needed) }
    }
}
