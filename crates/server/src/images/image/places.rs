//! Places where a playback can begin.

use wirepath_playback::{At, Cursor};

use super::Image;
use crate::images::progress::{Progress, SeekResult};

impl Image {
    /// Finds the place to begin for a time in microseconds from the start: the last random access point at or
    /// before it, or that very time where there are none. The start of the image is always a place to begin.
    pub(crate) fn locate(&self, at_us: u64) -> SeekResult {
        if at_us == 0 {
            return SeekResult::At(Cursor::START);
        }
        let state = self.state.lock();
        match *self.progress.borrow() {
            Progress::Growing { until_us } if at_us >= until_us => return SeekResult::NotYet,
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
}
