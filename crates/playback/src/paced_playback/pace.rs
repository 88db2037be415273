//! Times at which departures leave, by the timetable of a playback.

use super::{PacedPlayback, Step};
use crate::source::Departure;
use crate::thread_state::{Playing, ThreadState};

/// Lateness from which the timetable is shifted, instead of catching up with a burst.
const LATENESS_LIMIT_US: u64 = 250_000;

/// Departure that leaves now.
pub(super) struct Due {
    pub(super) departure: Departure,
    pub(super) late_us: u64,
    /// Time of the source before which departures behind it leave with it.
    pub(super) end_us: u64,
}

/// Time at which a departure leaves.
pub(super) enum Pace {
    Now(Due),
    /// Not now.
    Later(Step),
    /// Never, because packets were skipped: another departure is next.
    Skipped,
}

impl PacedPlayback {
    /// Begins the timetable if a departure is the first one, and finds when the departure leaves.
    pub(super) fn pace(&mut self, departure: Departure, thread: &mut ThreadState, now_us: u64) -> Pace {
        let has_waited = std::mem::take(&mut self.waits_for_source) && self.waits_at_edge;
        let burst_us = thread.burst_us.min(self.most_burst_us);
        if self.playing.is_none() {
            self.begin(&departure, thread, now_us, burst_us);
        }
        if self.playing.is_some()
            && let Some(scan) = self.scan.as_deref_mut().filter(|scan| scan.is_new)
        {
            if scan.is_over(departure.at_us) {
                scan.return_to_last();
                return Pace::Later(self.finish());
            }
            self.begin_picture(&departure, thread, burst_us);
        }
        let Some(Playing { timetable, .. }) = &mut self.playing else { return Pace::Later(Step::Wait) };
        let behind_us = timetable.behind_us();
        let due_us = timetable.due_us(departure.at_us, burst_us);
        let is_back = behind_us > 0 && timetable.behind_us() == 0;
        let (end_us, length_us) = (timetable.end_us(), timetable.length_us());
        if is_back {
            self.note_clock(&departure);
        }
        let is_paced = !self.replay.unpaced;
        if due_us > now_us && is_paced {
            self.note_on_time();
            return Pace::Later(Step::At(due_us));
        }
        self.progress.set_burst(length_us);
        let mut late_us = now_us.saturating_sub(due_us);
        if self.scan.is_some() || !is_paced {
            // Late pictures are left out; unpaced packets are never late.
        } else if has_waited {
            late_us = 0;
            self.delay(&departure, now_us);
        } else if self.is_behind() {
            if self.skip_forward(&departure, late_us, thread) {
                return Pace::Skipped;
            }
        } else if late_us > LATENESS_LIMIT_US {
            thread.counters.clock_resyncs.increment();
            self.resync(&departure, now_us);
        }
        Pace::Now(Due { departure, late_us, end_us: if is_paced { end_us } else { u64::MAX } })
    }
}
