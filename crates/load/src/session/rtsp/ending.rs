//! End of a session, and its record.

use std::sync::atomic::Ordering::Relaxed;

use super::Session;
use super::track::Track;
use crate::failure::Failure;
use crate::record::{Ending, MediaRecord, SessionRecord, milliseconds};
use crate::session::{Finished, Plan, SHORT_US, Shared};

impl Session {
    /// Ends the session according to the result, and makes its record.
    pub(super) async fn finish(mut self, started_us: i64, result: Result<Ending, Failure>) -> Finished {
        self.leaves = true;
        let now_us = self.shared.until_stop_us();
        self.tracks.iter_mut().for_each(|track| track.take_shared(now_us));
        let was_said = self.tracks.iter().all(|track| track.has_ended);
        let (end_us, whole) = match (&result, self.media_end_us) {
            // Without BYE, the duration in the description is the expected end, less a tolerance.
            (Ok(Ending::MediaOver), Some(end)) if !was_said => (end - SHORT_US, false),
            (Ok(Ending::MediaOver), _) => (now_us, true),
            _ => (now_us, false),
        };
        for judge in self.tracks.iter_mut().filter_map(|track| track.judge.as_mut()) {
            judge.stop(end_us, whole);
        }
        if let Some(since) = self.playing_since_us {
            self.played_us = now_us - since;
        }
        let record = self.record(started_us, now_us, &result);
        self.shared.totals.client.lock().waiting.add_all(&self.waiting);
        match result {
            Ok(Ending::Vanished) => return self.vanish(record),
            Ok(_) => self.tear_down().await,
            Err(_) => _ = self.shared.totals.failed.fetch_add(1, Relaxed),
        }
        Finished { record, silent: None }
    }

    /// Half of the vanishing sessions reset their connection. The other half send and read nothing more,
    /// unless there are already too many such sessions.
    fn vanish(mut self, record: SessionRecord) -> Finished {
        if self.random.below(2) == 0 || !self.shared.keeps_silent() {
            // A connection that is already gone needs no reset.
            _ = self.connection.reset();
            return Finished { record, silent: None };
        }
        let sockets = (self.connection, self.tracks);
        Finished { record, silent: Some(Box::new(sockets)) }
    }

    fn record(&self, started_us: i64, now_us: i64, result: &Result<Ending, Failure>) -> SessionRecord {
        let played_s = self.played_us as f64 / 1e6;
        let never_played =
            result.is_ok() && self.playing_since_us.is_none() && now_us - started_us >= SHORT_US;
        let mut media = self.plan.judged.then(|| MediaRecord::of(self.judges(), played_s));
        if let Some(media) = &mut media {
            let is_too_short =
                result.is_ok() && media.packets == 0 && self.played_us < SHORT_US && !never_played;
            let is_timely = result.is_ok() && media.underruns == 0 && media.slow == 0 && media.packets > 0;
            media.timely = (!is_too_short).then_some(is_timely);
        }
        SessionRecord {
            played_s,
            never_played,
            ending: *result.as_ref().unwrap_or(&Ending::Failed),
            failure: result.as_ref().err().map(ToString::to_string),
            setup_ms: self.setup_us.map(milliseconds),
            seeks: self.seeks,
            receiver_reports: Some(self.tracks.iter().map(|track| track.receiver_reports).sum()),
            sender_reports: Some(self.tracks.iter().map(|track| track.sender_reports).sum()),
            dropped_buffers: self.tracks.iter().map(Track::drops).sum(),
            discarded_bytes: self.discarded,
            media,
            ..SessionRecord::new(&self.shared, self.plan, started_us)
        }
    }
}

impl SessionRecord {
    /// Record of a session that was not connected yet when the run was over.
    pub(super) fn unconnected(shared: &Shared, plan: Plan, started_us: i64) -> SessionRecord {
        let never_played = shared.until_stop_us() - started_us >= SHORT_US;
        let media = MediaRecord { timely: never_played.then_some(false), ..MediaRecord::default() };
        SessionRecord {
            ending: Ending::RunOver,
            never_played,
            media: plan.judged.then_some(media),
            ..SessionRecord::new(shared, plan, started_us)
        }
    }

    pub(super) fn failed(shared: &Shared, plan: Plan, started_us: i64, failure: &Failure) -> SessionRecord {
        let media = plan.judged.then(|| MediaRecord { timely: Some(false), ..MediaRecord::default() });
        let failure = Some(failure.to_string());
        SessionRecord { failure, media, ..SessionRecord::new(shared, plan, started_us) }
    }
}
