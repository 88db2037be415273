//! An image of a file to which a recorder appends while it is packed and played.

use std::time::Duration;

use wirepath_media::image::Identity;
use wirepath_media::pack::Packed;

use super::Image;
use super::state::Recording;
use crate::images::follow::{age, quiet, quiet_before_successor};
use crate::images::progress::Progress;

impl Image {
    /// From now on, follows a file that grows. Called before the image is packed.
    pub(in crate::images) fn follow(&self) {
        self.state.lock().recording = Some(Recording {
            identity: self.plan.identity,
            packed: None,
            is_behind: false,
            has_successor: false,
        });
    }

    /// Returns whether the image was packed while its asset was written.
    pub(crate) fn is_recorded(&self) -> bool {
        self.state.lock().recording.is_some()
    }

    /// Returns whether the image still grows with its asset.
    pub(crate) fn grows_with_recording(&self) -> bool {
        self.is_recorded() && matches!(*self.progress.borrow(), Progress::Growing { .. })
    }

    /// Returns whether the recorder may begin another file behind this one: it wrote this one lately.
    pub(crate) fn may_be_continued(&self) -> bool {
        let Some(recording) = self.state.lock().recording else { return false };
        match *self.progress.borrow() {
            Progress::Growing { .. } => true,
            Progress::Complete => age(recording.identity) < recording.quiet(),
            Progress::Failed(_) => false,
        }
    }

    /// Notes that the recorder has begun another file: nothing is awaited behind the last fragment of this one.
    pub(crate) fn note_successor(&self) {
        if let Some(recording) = &mut self.state.lock().recording {
            recording.has_successor = true;
        }
    }

    /// Time without a change of the file after which the recording is finished.
    pub(in crate::images) fn quiet(&self) -> Duration {
        let recording = self.state.lock().recording;
        recording.map_or(Duration::ZERO, |recording| recording.quiet())
    }

    /// Version of the asset: of a recording, the last one of which the packer knows.
    pub(in crate::images) fn identity(&self) -> Identity {
        self.state.lock().recording.map_or(self.plan.identity, |recording| recording.identity)
    }

    /// Returns whether the image is one of this version of its asset, or follows the asset to this version.
    pub(in crate::images) fn is_of(&self, identity: Identity) -> bool {
        let Some(recording) = self.state.lock().recording else { return self.plan.identity == identity };
        let Identity { size, mtime_ns, inode, device } = recording.identity;
        let grows = matches!(*self.progress.borrow(), Progress::Growing { .. });
        let is_later = grows && identity.size >= size && identity.mtime_ns >= mtime_ns;
        identity == recording.identity || is_later && (identity.inode, identity.device) == (inode, device)
    }

    /// Notes a version of which the packer knows from now on.
    pub(in crate::images) fn note_version(&self, identity: Identity) {
        if let Some(recording) = &mut self.state.lock().recording {
            recording.identity = identity;
        }
    }

    /// Notes that the file has changed since all of it was packed.
    pub(in crate::images) fn note_behind(&self) {
        if let Some(recording) = &mut self.state.lock().recording {
            recording.is_behind = true;
        }
    }

    /// Notes that all that the file has is packed.
    pub(in crate::images) fn note_all_packed(&self, generation: u32, packed: Packed) {
        let mut state = self.state.lock();
        if state.generation != generation {
            return;
        }
        if let Some(recording) = &mut state.recording {
            (recording.packed, recording.is_behind) = (Some(packed), false);
        }
        // Seeks may wait for a time that the file does not have.
        let until_us = state.slots.last().map_or(0, |slot| slot.entry.first_departure_us);
        self.progress.send_replace(Progress::Growing { until_us });
    }

    /// Departure of the last packet in microseconds, as far as is known.
    pub(in crate::images) fn last_departure_us(&self) -> u64 {
        let state = self.state.lock();
        let packed_us = state.recording.and_then(|recording| recording.packed).map(|packed| packed.until_us);
        let begun_us = state.slots.last().map(|slot| slot.entry.first_departure_us);
        packed_us.max(begun_us).unwrap_or(0)
    }

    /// Time at which a client begins that plays a recording from now on, in microseconds from the start: the last
    /// random access point with at least one fragment after it, so that the client does not run out of
    /// packets before the next fragment. `None` unless the image grows with a recording. Waits until all that
    /// the file has is packed.
    pub(crate) async fn newest_us(&self) -> Option<u64> {
        let mut progress = self.progress();
        self.state.lock().recording?;
        let _waiting = self.wait_for_seek();
        loop {
            let is_growing = matches!(*progress.borrow_and_update(), Progress::Growing { .. });
            let packed = self.state.lock().recording.filter(|_| is_growing)?.all_packed();
            if let Some(packed) = packed {
                // Not by the longest fragment: one with a gap in its times would count for ever.
                let at_us = packed.until_us.saturating_sub(packed.fragments.last_us);
                return Some(self.last_start_us(at_us));
            }
            progress.changed().await.ok()?;
        }
    }

    /// Departure of the last random access point at or before a time; 0 if there is none. Without pictures every packet
    /// is a random access point.
    pub(crate) fn last_start_us(&self, at_us: u64) -> u64 {
        let last_us = self.last_departure_us();
        let starts = &self.state.lock().starts;
        if starts.is_empty() {
            return at_us.min(last_us);
        }
        let before = starts.partition_point(|start| start.departure_us <= at_us);
        before.checked_sub(1).and_then(|index| starts.get(index)).map_or(0, |start| start.departure_us)
    }

    /// Returns whether a segment is beyond all that a recorder had written when it was last packed.
    pub(super) fn is_at_edge(&self, segment: u32) -> bool {
        let state = self.state.lock();
        let packed = state.recording.and_then(|recording| recording.packed);
        let is_growing = matches!(*self.progress.borrow(), Progress::Growing { .. });
        packed.is_some() && is_growing && segment as usize >= state.slots.len()
    }

    /// Number of segments.
    pub(in crate::images) fn segment_count(&self) -> usize {
        self.state.lock().slots.len()
    }
}

impl Recording {
    /// Time without a change of the file after which the recording is finished. Recorders write nothing while they
    /// collect a fragment or fill a buffer.
    fn quiet(&self) -> Duration {
        let fragments = self.packed.map(|packed| packed.fragments);
        match self.has_successor {
            // Not by the longest fragment: one with a gap in its times would count for ever.
            true => quiet_before_successor(fragments.map_or(0, |fragments| fragments.last_us)),
            false => quiet(fragments.map_or(0, |fragments| fragments.longest_us)),
        }
    }
}
