//! End of a session, and its record.

use std::sync::atomic::Ordering::Relaxed;

use super::Session;
use crate::failure::Failure;
use crate::record::{Ending, SessionRecord, milliseconds};
use crate::session::{Finished, SHORT_US};

impl Session {
    /// Ends the session, and says what is known of it.
    pub(super) fn finish(mut self, started_us: i64, result: Result<Ending, Failure>) -> Finished {
        let now_us = self.shared.until_stop_us();
        if !matches!(result, Ok(Ending::MediaOver)) {
            self.cut(now_us);
        }
        let record = self.record(started_us, now_us, &result);
        match (result, self.connection) {
            (Ok(Ending::Vanished), Some(connection)) => {
                if self.random.below(2) == 0 || !self.shared.keeps_silent() {
                    // A connection that is gone already needs no reset.
                    _ = connection.reset();
                } else {
                    return Finished { record, silent: Some(Box::new(connection)) };
                }
            }
            (Err(_), _) => _ = self.shared.totals.failed.fetch_add(1, Relaxed),
            _ => {}
        }
        Finished { record, silent: None }
    }

    fn record(&mut self, started_us: i64, now_us: i64, result: &Result<Ending, Failure>) -> SessionRecord {
        let played_us = self.playing_since_us.map_or(0, |since| (now_us - since).max(0));
        let never_played =
            result.is_ok() && self.playing_since_us.is_none() && now_us - started_us >= SHORT_US;
        let mut http = std::mem::take(&mut self.figures);
        let bytes = http.bytes;
        (http.underruns, http.stalled_ms) = (self.player.underruns, milliseconds(self.player.stalled_us));
        let is_too_short = result.is_ok() && bytes == 0 && played_us < SHORT_US && !never_played;
        let is_timely = result.is_ok() && http.underruns == 0 && bytes > 0;
        http.timely = (!is_too_short).then_some(is_timely);
        http.summarize(played_us as f64 / 1e6);
        SessionRecord {
            played_s: played_us as f64 / 1e6,
            never_played,
            ending: *result.as_ref().unwrap_or(&Ending::Failed),
            failure: result.as_ref().err().map(ToString::to_string),
            seeks: self.seeks,
            discarded_bytes: if self.plan.judged { 0 } else { bytes },
            http: self.plan.judged.then_some(http),
            ..SessionRecord::new(&self.shared, self.plan, started_us)
        }
    }
}
