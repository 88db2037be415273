//! End of a session, and its record.

use std::sync::atomic::Ordering::Relaxed;

use super::{Mode, Session};
use crate::failure::Failure;
use crate::record::{Ending, SessionRecord, milliseconds};
use crate::session::{Finished, SHORT_US};

impl Session {
    /// Ends the session and makes its record.
    pub(super) fn finish(mut self, started_us: i64, result: Result<Ending, Failure>) -> Finished {
        let now_us = self.shared.until_stop_us();
        if !matches!(result, Ok(Ending::MediaOver)) {
            self.cut(now_us);
        }
        self.end_gap(now_us);
        let record = self.record(started_us, now_us, &result);
        match (result, self.connection) {
            (Ok(Ending::Vanished), Some(connection)) => {
                if self.random.below(2) == 0 || !self.shared.keeps_silent() {
                    // A connection that is already gone needs no reset.
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
        let is_download = matches!(self.mode, Mode::Download);
        let has_media = self.figures.bytes > 0 || (is_download && self.figures.responses > 0);
        let played_us = self.playing_since_us.map_or(0, |since| (now_us - since).max(0));
        let never_played = result.is_ok() && !has_media && now_us - started_us >= SHORT_US;
        let mut http = std::mem::take(&mut self.figures);
        let bytes = http.bytes;
        (http.underruns, http.stalled_ms) = (self.player.underruns, milliseconds(self.player.stalled_us));
        let is_too_short = result.is_ok() && !has_media && played_us < SHORT_US && !never_played;
        let is_timely = result.is_ok() && http.underruns == 0 && has_media;
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::options::Options;
    use crate::session::{Plan, Shared};

    /// Session that plays at this rate, or downloads without a rate.
    fn session(rate: Option<u64>) -> Session {
        let options = Options { rate, ..Options::one_second_of("http://127.0.0.1/a") };
        let plan = Plan { number: 0, target: 0, judged: true, seed: 1 };
        Session::new(Arc::new(Shared::new(options)), plan)
    }

    fn judged(session: Session) -> (Option<bool>, u64) {
        let http = session.finish(0, Ok(Ending::RunOver)).record.http.unwrap();
        (http.timely, http.underruns)
    }

    /// Promise: An HTTP player that has received all media has no underrun at the end.
    #[test]
    fn the_end_of_media_is_no_underrun() {
        for (is_whole, expected) in [(true, (Some(true), 0)), (false, (Some(false), 1))] {
            let mut session = session(Some(1_000_000));
            session.player.packet(0, -10_000_000);
            session.player.extend(1_000_000);
            (session.figures.bytes, session.is_whole) = (125_000, is_whole);
            assert_eq!(judged(session), expected);
        }
    }

    #[test]
    fn an_empty_file_that_was_downloaded_is_timely() {
        let mut empty = session(None);
        empty.figures.responses = 1;
        assert_eq!(judged(empty), (Some(true), 0));
        assert_eq!(judged(session(None)), (None, 0), "too short to tell");
    }

    #[test]
    fn gaps_count_only_while_a_byte_is_awaited() {
        let mut session = session(None);
        session.awaited_since_us = Some(1_000);
        session.end_gap(501_000);
        assert_eq!((session.figures.longest_gap_ms, session.awaited_since_us), (500.0, None));
        session.end_gap(9_000_000);
        assert_eq!(session.figures.longest_gap_ms, 500.0, "nothing was awaited");
    }
}
