//! Playbacks whose client reads too slowly.

use super::PacedPlayback;
use crate::source::Departure;
use crate::thread_state::ThreadState;

impl PacedPlayback {
    /// Returns whether the playback is late because its connection was full.
    pub(super) fn is_behind(&self) -> bool {
        self.streams.connection().is_some_and(|connection| connection.is_behind)
    }

    /// Notes that the playback has caught up.
    pub(super) fn note_on_time(&mut self) {
        if let Some(connection) = self.streams.connection_mut() {
            connection.is_behind = false;
        }
    }

    /// Skips the packets that would come too late for a client that reads too slowly, to the first random
    /// access point that is not due yet. Timetable and numbers stay, so the client sees lost packets. Returns
    /// whether the position has changed.
    pub(super) fn skip_forward(&mut self, departure: &Departure, late_us: u64, thread: &ThreadState) -> bool {
        if self.streams.connection().is_none_or(|connection| late_us <= connection.max_lag_us) {
            return false;
        }
        let is_found = self.playhead.skip_to_start(departure.at_us + self.speed.source_us(late_us));
        if is_found {
            thread.counters.forward_skips.increment();
            self.progress.forward_skips.add(1);
            self.streams.skip();
            self.streams.leave();
            self.note_on_time();
        }
        is_found
    }
}
