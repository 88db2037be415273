//! Schedule of a playing session.

use std::time::Duration;

use tokio::time::Instant;

use super::Session;
use super::track::Way;
use crate::failure::Failure;
use crate::mix;
use crate::record::Ending;
use crate::session::SHORT_US;

/// Mean time between receiver reports (RFC 3550 section 6.2).
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Time after the announced end at which the media are over, with or without BYE.
const GRACE: Duration = Duration::from_secs(3);

/// Times at which a playing session has something to do.
pub(super) struct Agenda {
    keep_alive: Instant,
    report: Instant,
    seek: Option<Instant>,
    leave: Option<Instant>,
    /// Expected end of the media.
    end: Option<Instant>,
    /// Time by which the first packet must have been received.
    first_packet: Option<Instant>,
}

impl Session {
    pub(super) fn agenda(&mut self) -> Agenda {
        let now = Instant::now();
        let options = &self.shared.options;
        let (seek, churn, timeout) = (options.seek_every, options.churn, options.timeout);
        let seek = seek.filter(|_| self.description.duration_us.is_some());
        Agenda {
            keep_alive: now + self.keep_alive,
            report: now + REPORT_INTERVAL.mul_f64(0.25 + mix::share(&mut self.random) / 2.0),
            seek: seek.map(|mean| now + mix::waiting_time(&mut self.random, mean)),
            leave: churn.map(|mean| now + mix::waiting_time(&mut self.random, mean)),
            end: self.end_of_media(0),
            first_packet: self.plan.judged.then(|| now + timeout),
        }
    }

    /// Does what is due. Returns an ending if the session is over.
    pub(super) async fn keep_agenda(&mut self, agenda: &mut Agenda) -> Result<Option<Ending>, Failure> {
        let now = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(agenda.first_packet) {
            agenda.first_packet = None;
            if self.judges().any(|judge| judge.starts.is_empty()) {
                return Err(Failure::Silent);
            }
        }
        if due(agenda.leave) {
            let vanishes = mix::share(&mut self.random) < self.shared.options.vanish;
            return Ok(Some(if vanishes { Ending::Vanished } else { Ending::Left }));
        }
        if due(agenda.end) {
            if !self.is_receiving() {
                return Ok(Some(Ending::MediaOver));
            }
            agenda.end = Some(now + GRACE);
        }
        if agenda.keep_alive <= now {
            agenda.keep_alive = now + self.keep_alive;
            let url = self.description.url.clone();
            self.send_in_session(self.keep_alive_method, &url, &[])?;
        }
        if agenda.report <= now {
            agenda.report = now + REPORT_INTERVAL.mul_f64(0.5 + mix::share(&mut self.random));
            self.report()?;
        }
        if let (true, Some(mean)) = (due(agenda.seek), self.shared.options.seek_every) {
            let position_us = self.random.below(self.description.duration_us.unwrap_or(0) * 9 / 10 + 1);
            self.seek(position_us).await?;
            agenda.end = self.end_of_media(position_us);
            agenda.seek = Some(Instant::now() + mix::waiting_time(&mut self.random, mean));
        }
        Ok(None)
    }

    /// Returns whether judged media were received within the last second.
    fn is_receiving(&self) -> bool {
        let since_us = self.shared.clock.now_us() - SHORT_US;
        self.judges().any(|judge| judge.last_arrival_us().is_some_and(|arrival| arrival > since_us))
    }

    /// End time of the media that play from this position now.
    fn end_of_media(&mut self, position_us: u64) -> Option<Instant> {
        let left_us = self.description.duration_us?.saturating_sub(position_us);
        self.media_end_us = Some(self.shared.clock.now_us().saturating_add_unsigned(left_us));
        Instant::now().checked_add(Duration::from_micros(left_us) + GRACE)
    }

    /// Returns whether the media are over soon, or should already be over.
    pub(super) fn is_near_end(&self, agenda: &Agenda) -> bool {
        agenda.end.is_some_and(|end| end <= Instant::now() + 2 * GRACE)
    }

    /// Sends a receiver report for each track.
    fn report(&mut self) -> Result<(), Failure> {
        let now_us = self.shared.clock.now_us();
        let cname = format!("load-{}", self.plan.number);
        for track in &mut self.tracks {
            track.take_shared(now_us);
            let report = track.report(&cname, now_us);
            match &track.way {
                Way::Udp { pair, reports_to: Some(to), .. } => {
                    // A report that cannot be sent now counts as lost. The next report replaces it.
                    _ = pair.rtcp.try_send_to(&report, *to);
                }
                Way::Shared { membership, reports_to: Some(to) } => _ = membership.send(&report, *to),
                Way::Udp { .. } | Way::Shared { .. } => {}
                Way::Interleaved { rtcp, .. } => self.connection.send_frame(*rtcp, &report)?,
            }
        }
        Ok(())
    }
}

impl Agenda {
    pub(super) fn next(&self) -> Instant {
        let some = [self.seek, self.leave, self.end, self.first_packet].into_iter().flatten();
        some.fold(self.keep_alive.min(self.report), Instant::min)
    }
}
