//! Positions at which a playback can begin.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use wirepath_playback::{At, Cursor, PlayError};

use super::Image;
use crate::images::progress::{Progress, SeekResult};

/// A seek that waits for an image to grow.
pub(crate) struct WaitingSeek<'a>(&'a Image);

impl Drop for WaitingSeek<'_> {
    fn drop(&mut self) {
        self.0.waiting_seeks.fetch_sub(1, Relaxed);
    }
}

impl Image {
    /// Makes packing urgent until the seek is dropped.
    pub(crate) fn wait_for_seek(&self) -> WaitingSeek<'_> {
        self.waiting_seeks.fetch_add(1, Relaxed);
        self.notify_urgency();
        WaitingSeek(self)
    }

    /// Track whose random access points are start positions and can be sent alone: the first video track of a
    /// movie. A transport stream has none, since the packets of its pictures are mixed with other packets.
    /// While an image grows, random access points of the track may still follow.
    pub(crate) fn scanned_track(&self) -> Option<u8> {
        let state = self.state.lock();
        let tracks = &state.summary.description.movie()?.tracks;
        let index = tracks.iter().position(|track| track.video)?;
        let is_growing = matches!(*self.progress.borrow(), Progress::Growing { .. });
        (is_growing || !state.starts.is_empty()).then_some(index as u8)
    }

    /// Start position for a time in microseconds from the start: the last random access point at or before
    /// it, or exactly that time if there are no such points. The start of the image is always a start
    /// position.
    pub(crate) fn locate(&self, at_us: u64) -> SeekResult {
        if at_us == 0 {
            return SeekResult::At(Cursor::START);
        }
        let state = self.state.lock();
        let packed_us =
            state.recording.and_then(|recording| recording.all_packed()).map(|packed| packed.until_us);
        match *self.progress.borrow() {
            Progress::Growing { .. } if packed_us.is_some_and(|packed_us| at_us > packed_us) => {
                return SeekResult::BeyondEnd;
            }
            Progress::Growing { until_us } if at_us >= until_us && packed_us.is_none() => {
                self.notify_urgency();
                return SeekResult::NotYet;
            }
            Progress::Growing { .. } | Progress::Failed(_) if state.slots.is_empty() => {
                return SeekResult::NotYet;
            }
            Progress::Complete if state.summary.duration_us.is_some_and(|end_us| at_us >= end_us) => {
                return SeekResult::BeyondEnd;
            }
            _ => {}
        }
        let before = state.starts.partition_point(|start| start.departure_us <= at_us);
        if let Some(start) = before.checked_sub(1).and_then(|index| state.starts.get(index)) {
            let at = At::Packet { train: start.train, packet: 0, skip: start.skip as u16 };
            return SeekResult::At(Cursor { segment: start.segment, at });
        }
        if !state.starts.is_empty() {
            return SeekResult::At(Cursor::START);
        }
        let after = state.slots.partition_point(|slot| slot.entry.first_departure_us <= at_us);
        let segment = after.saturating_sub(1) as u32;
        SeekResult::At(Cursor { segment, at: At::Time(at_us) })
    }

    /// Start position for a time in microseconds from the start, once the image has grown so far.
    pub(crate) async fn place_at(&self, at_us: u64) -> Result<Cursor, PlayError> {
        let mut progress = self.progress();
        let _waiting = self.wait_for_seek();
        loop {
            let now = progress.borrow_and_update().clone();
            match (self.locate(at_us), now) {
                (SeekResult::At(cursor), _) => return Ok(cursor),
                (SeekResult::BeyondEnd, _) => return Err(PlayError::BeyondEnd),
                (SeekResult::NotYet, Progress::Failed(failure)) => {
                    return Err(PlayError::Source(Arc::clone(&failure.reason)));
                }
                (SeekResult::NotYet, _) => {}
            }
            if progress.changed().await.is_err() {
                return Err(PlayError::Over);
            }
        }
    }

    /// The first position at or after a time at which a decoder can begin, and its departure, both in
    /// microseconds from the start. None if there is none, or none yet.
    pub(crate) fn start_after(&self, at_us: u64) -> Option<(Cursor, u64)> {
        let state = self.state.lock();
        if state.starts.is_empty() {
            drop(state);
            return self.any_place(at_us);
        }
        let before = state.starts.partition_point(|start| start.departure_us < at_us);
        let start = state.starts.get(before)?;
        let at = At::Packet { train: start.train, packet: 0, skip: start.skip as u16 };
        Some((Cursor { segment: start.segment, at }, start.departure_us))
    }

    /// The last packet that leaves at or before a time, whether or not a decoder can begin there. None if the
    /// image ends before, or has not grown so far.
    pub(crate) fn any_place(&self, at_us: u64) -> Option<(Cursor, u64)> {
        let state = self.state.lock();
        let end_us = match *self.progress.borrow() {
            Progress::Growing { until_us } => {
                self.notify_urgency();
                until_us
            }
            Progress::Complete | Progress::Failed(_) => state.summary.duration_us?,
        };
        let after = state.slots.partition_point(|slot| slot.entry.first_departure_us <= at_us);
        let segment = after.checked_sub(1).filter(|_| at_us < end_us)? as u32;
        Some((Cursor { segment, at: At::Time(at_us) }, at_us))
    }
}
