//! RFC 2326 appendix A.2: what a session does when, without sockets or clocks.
//!
//! A session that is set up is [`Phase::Ready`]; before that there is none. Where the RFC leaves a choice:
//!
//! - PLAY with a range while a PLAY with an end is active is queued (RFC 2326 section 10.5). While an
//!   open-ended
//!   one is active it would never get its turn, so it seeks at once, as RFC 7826 section 13.4 and clients have it.
//! - PLAY without a range while an open-ended one is active changes nothing: some clients keep alive with it.
//! - At the end of what was asked for the session rests (RFC 2326 section 10.5, "automatically paused"). A
//!   PAUSE
//!   that comes then was on its way when the end came and is answered with 200.
//! - PLAY without a range at the end of the presentation begins at the beginning: it was not paused.

use std::collections::VecDeque;
use wirepath_media::rtsp::{Npt, NptRange, Refusal, StatusCode};

/// Most PLAY requests that wait in one session.
pub const QUEUE_LIMIT: usize = 16;

/// Phase of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Set up or paused.
    Ready,
    /// Packets are being sent, up to a time in microseconds or the end.
    Playing {
        /// The end that was asked for.
        until_us: Option<u64>,
    },
    /// All that was asked for has been sent.
    Ended {
        /// The end that was asked for.
        until_us: Option<u64>,
    },
}

/// A part of a presentation to play, in microseconds from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Start; the current position if none.
    pub from_us: Option<u64>,
    /// End; that of the presentation if none.
    pub until_us: Option<u64>,
}

/// Result of a PLAY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayStep {
    /// Play this now.
    Start(Stretch),
    /// It waits until what is active has been played.
    Queued(Stretch),
    /// Go on as before.
    Unchanged,
}

/// The state of a session.
#[derive(Clone, Debug)]
pub struct Timeline {
    phase: Phase,
    queue: VecDeque<Stretch>,
}

impl Timeline {
    /// The state that SETUP leads to.
    pub fn new() -> Self {
        Self { phase: Phase::Ready, queue: VecDeque::new() }
    }

    /// Phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Handles a PLAY, in a presentation of this duration, at this position. A stretch to start changes
    /// nothing until [`Timeline::started`].
    pub fn play(
        &mut self,
        range: Option<NptRange>,
        duration_us: Option<u64>,
        position_us: u64,
    ) -> Result<PlayStep, Refusal> {
        let asked = stretch(range, duration_us)?;
        match self.phase {
            Phase::Playing { until_us: Some(_) } => self.enqueue(asked),
            Phase::Playing { until_us: None } if asked == ONWARD => Ok(PlayStep::Unchanged),
            Phase::Ended { until_us } if asked.from_us.is_none() && is_whole(until_us, duration_us) => {
                start(Stretch { from_us: Some(0), ..asked }, 0)
            }
            _ => start(asked, position_us),
        }
    }

    /// Playing has begun.
    pub fn started(&mut self, stretch: Stretch) {
        self.phase = Phase::Playing { until_us: stretch.until_us };
    }

    /// Returns whether PAUSE may come now. It drops what is queued (RFC 2326 section 10.6).
    pub fn pause(&mut self) -> Result<(), Refusal> {
        if self.phase == Phase::Ready {
            return Err(refuse(StatusCode::MethodNotValidInThisState, "PAUSE: the session is not playing"));
        }
        self.queue.clear();
        Ok(())
    }

    /// Packets are no longer sent, and what waited is dropped. A session that was at its end stays there.
    pub fn paused(&mut self) {
        self.queue.clear();
        if matches!(self.phase, Phase::Playing { .. }) {
            self.phase = Phase::Ready;
        }
    }

    /// The active stretch has been sent to its end: returns the next one to start, if one waits.
    pub fn finished(&mut self) -> Option<Stretch> {
        let Phase::Playing { until_us } = self.phase else { return None };
        let next = self.queue.pop_front();
        self.phase = match next {
            Some(Stretch { until_us, .. }) => Phase::Playing { until_us },
            None => Phase::Ended { until_us },
        };
        next
    }

    fn enqueue(&mut self, stretch: Stretch) -> Result<PlayStep, Refusal> {
        if self.queue.len() == QUEUE_LIMIT {
            let why = format!("PLAY: {QUEUE_LIMIT} requests wait already; PAUSE drops them");
            return Err(refuse(StatusCode::ServiceUnavailable, why));
        }
        self.queue.push_back(stretch);
        Ok(PlayStep::Queued(stretch))
    }
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new()
    }
}

/// From where it is to the end.
const ONWARD: Stretch = Stretch { from_us: None, until_us: None };

/// Clients ask for the end they were told, rounded: an end so close to the presentation's is the
/// presentation's.
const ROUNDING_US: u64 = 10_000;

/// RFC 2326 section 12.29: what is asked for, or 457 if it is not there. An end behind the presentation's is
/// the presentation's.
fn stretch(range: Option<NptRange>, duration_us: Option<u64>) -> Result<Stretch, Refusal> {
    let Some(range) = range else { return Ok(ONWARD) };
    let duration_us = duration_us.unwrap_or(u64::MAX);
    let from_us = match range.start {
        Some(Npt::At(us)) if us >= duration_us => {
            let end = Npt::At(duration_us);
            return Err(refuse(
                StatusCode::InvalidRange,
                format!("Range: {range}: the presentation ends at {end}"),
            ));
        }
        Some(Npt::At(us)) => Some(us),
        Some(Npt::Now) | None => None,
    };
    match range.end {
        Some(Npt::Now) => Err(refuse(StatusCode::InvalidRange, format!("Range: {range}: it cannot end now"))),
        Some(Npt::At(us)) if us < duration_us.saturating_sub(ROUNDING_US) => {
            Ok(Stretch { from_us, until_us: Some(us) })
        }
        _ => Ok(Stretch { from_us, until_us: None }),
    }
}

fn start(stretch: Stretch, position_us: u64) -> Result<PlayStep, Refusal> {
    match stretch.until_us {
        Some(until_us) if until_us <= stretch.from_us.unwrap_or(position_us) => {
            let (end, position) = (Npt::At(until_us), Npt::At(position_us));
            let why = format!("Range: the end, {end}, has been played already: the session is at {position}");
            Err(refuse(StatusCode::InvalidRange, why))
        }
        _ => Ok(PlayStep::Start(stretch)),
    }
}

/// Returns whether an end that was asked for is the end of the presentation.
fn is_whole(until_us: Option<u64>, duration_us: Option<u64>) -> bool {
    until_us.is_none_or(|until_us| duration_us.is_some_and(|duration_us| until_us >= duration_us))
}

fn refuse(status: StatusCode, why: impl Into<String>) -> Refusal {
    Refusal::new(status, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Option<u64> = Some(60_000_000);

    fn range(text: &str) -> Option<NptRange> {
        Some(NptRange::parse(text).expect("a range"))
    }

    fn seconds(from: Option<u64>, until: Option<u64>) -> Stretch {
        Stretch { from_us: from.map(|s| s * 1_000_000), until_us: until.map(|s| s * 1_000_000) }
    }

    fn playing(range_text: &str) -> Timeline {
        let mut timeline = Timeline::new();
        let Ok(PlayStep::Start(stretch)) = timeline.play(range(range_text), MINUTE, 0) else {
            panic!("{range_text} does not start")
        };
        timeline.started(stretch);
        timeline
    }

    fn status<T: std::fmt::Debug>(result: Result<T, Refusal>) -> u16 {
        result.expect_err("a refusal").status.into()
    }

    #[test]
    fn ranges_become_stretches() {
        for (text, from, until) in [
            ("npt=0-", Some(0), None),
            ("npt=10-20", Some(10), Some(20)),
            ("npt=now-", None, None),
            ("npt=-20", None, Some(20)),
            ("npt=59-60", Some(59), None),
            ("npt=59-59.995", Some(59), None),
            ("npt=5-7200", Some(5), None),
        ] {
            let step = Timeline::new().play(range(text), MINUTE, 0);
            assert_eq!(step, Ok(PlayStep::Start(seconds(from, until))), "{text}");
        }
        assert_eq!(Timeline::new().play(None, MINUTE, 0), Ok(PlayStep::Start(ONWARD)));
    }

    #[test]
    fn ranges_that_are_not_there_are_invalid() {
        for text in ["npt=60-", "npt=61-", "npt=0-now", "npt=100-200"] {
            assert_eq!(status(Timeline::new().play(range(text), MINUTE, 0)), 457, "{text}");
        }
        assert_eq!(status(Timeline::new().play(range("npt=-5"), MINUTE, 5_000_000)), 457);
        assert!(Timeline::new().play(range("npt=7200-"), None, 0).is_ok(), "the length is not known");
    }

    #[test]
    fn a_seek_in_an_open_play_is_at_once() {
        let mut timeline = playing("npt=0-");
        let step = timeline.play(range("npt=30-"), MINUTE, 1);
        assert_eq!(step, Ok(PlayStep::Start(seconds(Some(30), None))));
        assert_eq!(timeline.play(None, MINUTE, 1), Ok(PlayStep::Unchanged));
        assert_eq!(timeline.play(range("npt=now-"), MINUTE, 1), Ok(PlayStep::Unchanged));
        assert_eq!(timeline.phase(), Phase::Playing { until_us: None });
    }

    /// The example of RFC 2326 section 10.5.
    #[test]
    fn plays_behind_one_with_an_end_wait_for_it() {
        let mut timeline = playing("npt=10-15");
        let [second, third] = [seconds(Some(20), Some(25)), seconds(Some(30), None)];
        assert_eq!(timeline.play(range("npt=20-25"), MINUTE, 1), Ok(PlayStep::Queued(second)));
        assert_eq!(timeline.play(range("npt=30-"), MINUTE, 1), Ok(PlayStep::Queued(third)));
        assert_eq!(timeline.finished(), Some(second));
        timeline.started(second);
        assert_eq!(timeline.finished(), Some(third));
        timeline.started(third);
        assert_eq!(timeline.finished(), None);
        assert_eq!(timeline.phase(), Phase::Ended { until_us: None });
    }

    #[test]
    fn the_queue_is_bounded_and_dropped_by_a_pause() {
        let mut timeline = playing("npt=0-1");
        for _ in 0..QUEUE_LIMIT {
            assert!(matches!(timeline.play(range("npt=2-3"), MINUTE, 0), Ok(PlayStep::Queued(_))));
        }
        assert_eq!(status(timeline.play(range("npt=2-3"), MINUTE, 0)), 503);
        assert_eq!(timeline.pause(), Ok(()));
        timeline.paused();
        assert_eq!(timeline.phase(), Phase::Ready);
        timeline.started(ONWARD);
        assert_eq!(timeline.finished(), None);
    }

    #[test]
    fn a_pause_needs_something_to_pause() {
        assert_eq!(status(Timeline::new().pause()), 455);
        let mut timeline = playing("npt=0-");
        assert_eq!(timeline.finished(), None);
        assert_eq!(timeline.pause(), Ok(()), "it crossed the end");
        timeline.paused();
        assert_eq!(timeline.play(None, MINUTE, 60_000_000), Ok(PlayStep::Start(seconds(Some(0), None))));

        let mut timeline = playing("npt=0-");
        assert_eq!(timeline.pause(), Ok(()));
        timeline.paused();
        assert_eq!(status(timeline.pause()), 455);
        assert_eq!(timeline.finished(), None, "an end that crossed the pause");
        assert_eq!(timeline.phase(), Phase::Ready);
    }

    #[test]
    fn a_resume_goes_on_and_an_end_begins_anew() {
        let mut timeline = playing("npt=0-");
        assert_eq!(timeline.pause(), Ok(()));
        timeline.paused();
        assert_eq!(timeline.play(None, MINUTE, 7_000_000), Ok(PlayStep::Start(ONWARD)));
        timeline.started(ONWARD);
        assert_eq!(timeline.finished(), None);
        assert_eq!(timeline.play(None, MINUTE, 60_000_000), Ok(PlayStep::Start(seconds(Some(0), None))));

        let mut timeline = playing("npt=0-10");
        assert_eq!(timeline.finished(), None);
        assert_eq!(timeline.play(None, MINUTE, 10_000_000), Ok(PlayStep::Start(ONWARD)));
    }
}
