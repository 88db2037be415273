//! State machine of a session (RFC 2326 appendix A.2), without sockets or clocks.
//!
//! A session that is set up is [`Phase::Ready`]; before that there is none. Choices where the RFC allows
//! several:
//!
//! - PLAY with a range while a PLAY with an end is active is queued (RFC 2326 section 10.5). While an
//!   open-ended one is active it would never get its turn, so it seeks at once, as RFC 7826 section 13.4 and
//!   clients have it.
//! - PLAY without a range while an open-ended one is active changes nothing: some clients keep alive with it.
//! - PLAY without a range but with another speed or scale changes that of the active one at once. A PLAY without
//!   them is for the normal ones (sections 12.34 and 12.35), but for one that changes nothing.
//! - PLAY with `Immediate: yes` of ONVIF replay starts at once, and drops the queue.
//! - At the end of the requested range the session rests (RFC 2326 section 10.5, "automatically paused"). A
//!   PAUSE that comes then crossed the end and is answered with 200.
//! - PLAY without a range at the end of the presentation begins at the beginning: it was not paused.

use std::collections::VecDeque;

use super::player::{PlayRange, ReplayPlay};
use wirepath_media::rtsp::{Npt, NptRange, Refusal, StatusCode};
use wirepath_playback::{Scale, Speed};

/// Most PLAY requests that wait in one session.
const QUEUE_LIMIT: usize = 16;

/// Phase of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Set up or paused.
    #[default]
    Ready,
    /// Packets are being sent, up to a time in microseconds or the end.
    Playing { until_us: Option<u64> },
    /// All packets up to the requested end have been sent.
    Ended { until_us: Option<u64> },
}

/// Result of a PLAY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlayStep {
    /// This range is to be started.
    Start(PlayRange),
    /// The range waits for the end of the active one.
    Queued(PlayRange),
    /// Playing goes on as before.
    Unchanged,
}

/// The state of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionState {
    phase: Phase,
    queue: VecDeque<PlayRange>,
    /// Speed and scale of the last started range.
    speed: Speed,
    scale: Scale,
    /// ONVIF replay parameters of the last started range.
    replay: ReplayPlay,
}

impl SessionState {
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Speed at which the session plays, or 1 if it does not.
    pub(super) fn speed(&self) -> Speed {
        if matches!(self.phase, Phase::Playing { .. }) { self.speed } else { Speed::NORMAL }
    }

    /// Scale at which the session plays, or 1 if it does not.
    pub(super) fn scale(&self) -> Scale {
        if matches!(self.phase, Phase::Playing { .. }) { self.scale } else { Scale::NORMAL }
    }

    /// Handles a PLAY, in a presentation of this duration, at this position. A range to start takes effect
    /// with [`SessionState::started`].
    pub(super) fn play(
        &mut self,
        range: Option<NptRange>,
        pace: Pace,
        duration_us: Option<u64>,
        position_us: u64,
    ) -> Result<PlayStep, Refusal> {
        let scale = pace.scale.unwrap_or_default();
        let speed = pace.speed.filter(|_| scale.is_normal()).unwrap_or_default();
        let replay = pace.replay;
        let asked = PlayRange { speed, scale, replay, ..play_range(range, scale, duration_us)? };
        let is_changed = pace.speed.is_some_and(|_| speed != self.speed)
            || pace.scale.is_some_and(|scale| scale != self.scale)
            || pace.asks_replay
                && (replay.unpaced, replay.intra_us) != (self.replay.unpaced, self.replay.intra_us);
        let is_to_end = (asked.from_us, asked.until_us) == (None, None);
        let has_range = range.is_some();
        match self.phase {
            Phase::Playing { .. } if pace.is_immediate && has_range => {
                let step = start(asked, position_us)?;
                self.queue.clear();
                Ok(step)
            }
            Phase::Playing { until_us } if is_to_end && is_changed => {
                // An end is one of its direction.
                let until_us = until_us.filter(|_| scale.is_backward() == self.scale.is_backward());
                start(PlayRange { until_us, ..asked }, position_us)
            }
            // Clients send such a PLAY to keep alive (RFC 2326 section 10.5).
            Phase::Playing { .. } if !has_range => Ok(PlayStep::Unchanged),
            Phase::Playing { until_us: Some(_) } => self.enqueue(asked),
            Phase::Playing { until_us: None } if is_to_end => Ok(PlayStep::Unchanged),
            Phase::Ended { until_us }
                if asked.from_us.is_none() && !scale.is_backward() && is_whole(until_us, duration_us) =>
            {
                start(PlayRange { from_us: Some(0), ..asked }, 0)
            }
            _ => start(asked, position_us),
        }
    }

    /// Playing has begun.
    pub(super) fn started(&mut self, play: PlayRange) {
        self.phase = Phase::Playing { until_us: play.until_us };
        (self.speed, self.scale, self.replay) = (play.speed, play.scale, play.replay);
    }

    /// Handles a PAUSE, which drops the queue (RFC 2326 section 10.6).
    pub(super) fn pause(&mut self) -> Result<(), Refusal> {
        if self.phase == Phase::Ready {
            return Err(Refusal::new(
                StatusCode::MethodNotValidInThisState,
                "PAUSE: the session is not playing",
            ));
        }
        self.queue.clear();
        Ok(())
    }

    /// Playing has paused. A session that was at its end stays at its end.
    pub(super) fn paused(&mut self) {
        self.queue.clear();
        if matches!(self.phase, Phase::Playing { .. }) {
            self.phase = Phase::Ready;
        }
    }

    /// The active range has been sent to its end. Returns the next range to start, if one waits.
    pub(super) fn finished(&mut self) -> Option<PlayRange> {
        let Phase::Playing { until_us } = self.phase else { return None };
        let next = self.queue.pop_front();
        self.phase = match next {
            Some(PlayRange { until_us, .. }) => Phase::Playing { until_us },
            None => Phase::Ended { until_us },
        };
        next
    }

    fn enqueue(&mut self, play: PlayRange) -> Result<PlayStep, Refusal> {
        if self.queue.len() == QUEUE_LIMIT {
            let why = format!("PLAY: {QUEUE_LIMIT} requests wait already; PAUSE drops them");
            return Err(Refusal::new(StatusCode::ServiceUnavailable, why));
        }
        self.queue.push_back(play);
        Ok(PlayStep::Queued(play))
    }
}

/// Requested speed and scale of a PLAY, and what ONVIF replay adds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    pub(super) speed: Option<Speed>,
    pub(super) scale: Option<Scale>,
    pub(super) replay: ReplayPlay,
    /// True if the PLAY has fields of ONVIF replay: without them it is one to keep alive.
    pub(super) asks_replay: bool,
    /// True if the PLAY replaces the active one and those that wait.
    pub(super) is_immediate: bool,
}

/// Clients request the end that they were told, rounded. So an end close to the presentation's end means that
/// end.
const ROUNDING_US: u64 = 10_000;

/// The requested range (RFC 2326 section 12.29), or 457 if it does not exist. An end after the presentation's
/// end means that end.
fn play_range(range: Option<NptRange>, scale: Scale, duration_us: Option<u64>) -> Result<PlayRange, Refusal> {
    let Some(range) = range else { return Ok(PlayRange::default()) };
    if scale.is_backward() {
        return backward_range(range, duration_us);
    }
    if let NptRange { start: Some(Npt::At(start)), end: Some(Npt::At(end)) } = range
        && end <= start
    {
        let why = format!("Range: {range}: it ends before it begins");
        return Err(Refusal::new(StatusCode::InvalidRange, why));
    }
    let duration_us = duration_us.unwrap_or(u64::MAX);
    let from_us = match range.start {
        Some(Npt::At(us)) if us >= duration_us => {
            let why = format!("Range: {range}: the presentation ends at {}", Npt::At(duration_us));
            return Err(Refusal::new(StatusCode::InvalidRange, why));
        }
        Some(Npt::At(us)) => Some(us),
        Some(Npt::Now) | None => None,
    };
    match range.end {
        Some(Npt::Now) => {
            Err(Refusal::new(StatusCode::InvalidRange, format!("Range: {range}: it cannot end now")))
        }
        Some(Npt::At(us)) if us < duration_us.saturating_sub(ROUNDING_US) => {
            Ok(PlayRange { from_us, until_us: Some(us), ..PlayRange::default() })
        }
        _ => Ok(PlayRange { from_us, ..PlayRange::default() }),
    }
}

/// The requested range for backward play, which ends before it begins.
fn backward_range(range: NptRange, duration_us: Option<u64>) -> Result<PlayRange, Refusal> {
    let last_us = duration_us.map_or(u64::MAX, |duration_us| duration_us.saturating_sub(1));
    let at = |point: Option<Npt>| match point {
        Some(Npt::At(us)) => Some(us),
        Some(Npt::Now) | None => None,
    };
    let (from_us, until_us) = (at(range.start), at(range.end));
    if from_us.zip(until_us).is_some_and(|(from_us, until_us)| from_us <= until_us) {
        let why = format!("Range: {range}: played backward, it ends before it begins");
        return Err(Refusal::new(StatusCode::InvalidRange, why));
    }
    let (from_us, until_us) = (from_us.map(|us| us.min(last_us)), until_us.filter(|us| *us > 0));
    Ok(PlayRange { from_us, until_us, ..PlayRange::default() })
}

fn start(play: PlayRange, position_us: u64) -> Result<PlayStep, Refusal> {
    let from_us = play.from_us.unwrap_or(position_us);
    let is_played =
        |until_us| if play.scale.is_backward() { until_us >= from_us } else { until_us <= from_us };
    match play.until_us {
        Some(until_us) if is_played(until_us) => {
            let (end, position) = (Npt::At(until_us), Npt::At(position_us));
            let why = format!("Range: the end, {end}, has been played already: the session is at {position}");
            Err(Refusal::new(StatusCode::InvalidRange, why))
        }
        _ => Ok(PlayStep::Start(play)),
    }
}

/// Returns whether a requested end is the end of the presentation.
fn is_whole(until_us: Option<u64>, duration_us: Option<u64>) -> bool {
    until_us.is_none_or(|until_us| duration_us.is_some_and(|duration_us| until_us >= duration_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO_END: PlayRange = PlayRange {
        from_us: None,
        until_us: None,
        speed: Speed::NORMAL,
        scale: Scale::NORMAL,
        replay: NO_REPLAY,
    };
    const NO_REPLAY: ReplayPlay = ReplayPlay { cseq: 0, unpaced: false, intra_us: None };
    const AS_RECORDED: Pace =
        Pace { speed: None, scale: None, replay: NO_REPLAY, asks_replay: false, is_immediate: false };
    const MINUTE: Option<u64> = Some(60_000_000);

    fn range(text: &str) -> Option<NptRange> {
        Some(NptRange::parse(text).expect("a range"))
    }

    fn seconds(from: Option<u64>, until: Option<u64>) -> PlayRange {
        let us = |s: u64| s * 1_000_000;
        PlayRange { from_us: from.map(us), until_us: until.map(us), ..PlayRange::default() }
    }

    fn at(speed: Speed) -> Pace {
        Pace { speed: Some(speed), ..AS_RECORDED }
    }

    fn scaled(factor: f64) -> Pace {
        Pace { scale: Some(Scale::nearest(factor)), ..AS_RECORDED }
    }

    fn playing(range_text: &str) -> SessionState {
        let mut state = SessionState::default();
        let Ok(PlayStep::Start(play)) = state.play(range(range_text), AS_RECORDED, MINUTE, 0) else {
            panic!("{range_text} does not start")
        };
        state.started(play);
        state
    }

    fn status<T: std::fmt::Debug>(result: Result<T, Refusal>) -> u16 {
        result.expect_err("a refusal").status.into()
    }

    #[test]
    fn ranges_are_understood() {
        for (text, from, until) in [
            ("npt=0-", Some(0), None),
            ("npt=10-20", Some(10), Some(20)),
            ("npt=now-", None, None),
            ("npt=-20", None, Some(20)),
            ("npt=59-60", Some(59), None),
            ("npt=59-59.995", Some(59), None),
            ("npt=5-7200", Some(5), None),
        ] {
            let step = SessionState::default().play(range(text), AS_RECORDED, MINUTE, 0);
            assert_eq!(step, Ok(PlayStep::Start(seconds(from, until))), "{text}");
        }
        assert_eq!(SessionState::default().play(None, AS_RECORDED, MINUTE, 0), Ok(PlayStep::Start(TO_END)));
    }

    #[test]
    fn ranges_that_are_not_there_are_invalid() {
        for text in ["npt=60-", "npt=61-", "npt=0-now", "npt=100-200", "npt=5-5", "npt=10-5"] {
            assert_eq!(
                status(SessionState::default().play(range(text), AS_RECORDED, MINUTE, 0)),
                457,
                "{text}"
            );
        }
        assert_eq!(
            status(SessionState::default().play(range("npt=-5"), AS_RECORDED, MINUTE, 5_000_000)),
            457
        );
        assert!(
            SessionState::default().play(range("npt=7200-"), AS_RECORDED, None, 0).is_ok(),
            "the length is not known"
        );
    }

    #[test]
    fn a_seek_in_an_open_play_is_at_once() {
        let mut state = playing("npt=0-");
        let step = state.play(range("npt=30-"), AS_RECORDED, MINUTE, 1);
        assert_eq!(step, Ok(PlayStep::Start(seconds(Some(30), None))));
        assert_eq!(state.play(None, AS_RECORDED, MINUTE, 1), Ok(PlayStep::Unchanged));
        assert_eq!(state.play(range("npt=now-"), AS_RECORDED, MINUTE, 1), Ok(PlayStep::Unchanged));
        assert_eq!(state.phase(), Phase::Playing { until_us: None });
    }

    /// Promise: PLAY with another Speed changes it at once, at the session's position; PLAY without Speed
    /// keeps it.
    #[test]
    fn a_speed_is_changed_where_the_session_is() {
        let (double, half) = (Speed::nearest(2.0), Speed::nearest(0.5));
        let mut state = SessionState::default();
        let step = state.play(range("npt=5-20"), at(double), MINUTE, 0);
        let asked = PlayRange { speed: double, ..seconds(Some(5), Some(20)) };
        assert_eq!(step, Ok(PlayStep::Start(asked)));
        state.started(asked);
        assert_eq!(state.speed(), double);
        let slower = PlayRange { speed: half, ..seconds(None, Some(20)) };
        assert_eq!(state.play(None, at(half), MINUTE, 7_000_000), Ok(PlayStep::Start(slower)));
        assert_eq!(
            state.play(None, at(double), MINUTE, 7_000_000),
            Ok(PlayStep::Unchanged),
            "the speed is that already"
        );
        assert_eq!(state.play(None, AS_RECORDED, MINUTE, 7_000_000), Ok(PlayStep::Unchanged));

        let mut state = playing("npt=0-");
        let faster = PlayRange { speed: double, ..TO_END };
        assert_eq!(state.play(None, at(double), MINUTE, 1), Ok(PlayStep::Start(faster)));
        state.started(faster);
        assert_eq!(
            state.play(None, AS_RECORDED, MINUTE, 1),
            Ok(PlayStep::Unchanged),
            "the client keeps alive"
        );
        assert_eq!(state.speed(), double);
        assert_eq!(state.play(None, at(Speed::NORMAL), MINUTE, 1), Ok(PlayStep::Start(TO_END)));
        assert_eq!(state.pause(), Ok(()));
        state.paused();
        assert_eq!(state.speed(), Speed::NORMAL);
        assert_eq!(state.play(None, AS_RECORDED, MINUTE, 1), Ok(PlayStep::Start(TO_END)));
    }

    /// Promise: In backward playback a range ends before it begins, by default at the beginning.
    #[test]
    fn ranges_of_a_rewind_end_before_they_begin() {
        let rewind = |from, until| PlayRange { scale: Scale::nearest(-4.0), ..seconds(from, until) };
        for (text, from, until) in [
            ("npt=30-10", Some(30), Some(10)),
            ("npt=30-", Some(30), None),
            ("npt=30-0", Some(30), None),
            ("npt=now-10", None, Some(10)),
        ] {
            let step = SessionState::default().play(range(text), scaled(-4.0), MINUTE, 50_000_000);
            assert_eq!(step, Ok(PlayStep::Start(rewind(from, until))), "{text}");
        }
        for text in ["npt=10-30", "npt=now-55"] {
            let refused = SessionState::default().play(range(text), scaled(-4.0), MINUTE, 50_000_000);
            assert_eq!(status(refused), 457, "{text}");
        }
        let Ok(PlayStep::Start(play)) =
            SessionState::default().play(range("npt=70-"), scaled(-2.0), MINUTE, 0)
        else {
            panic!("it begins at the end")
        };
        assert_eq!(play.from_us, Some(59_999_999));
        assert_eq!(status(SessionState::default().play(range("npt=30-10"), AS_RECORDED, MINUTE, 0)), 457);
    }

    /// Promise: PLAY with another Scale and no Range changes it at the session's position.
    #[test]
    fn a_scale_is_changed_where_the_session_is() {
        let mut state = playing("npt=0-20");
        let forward = PlayRange { scale: Scale::nearest(8.0), ..seconds(None, Some(20)) };
        assert_eq!(state.play(None, scaled(8.0), MINUTE, 5_000_000), Ok(PlayStep::Start(forward)));
        state.started(forward);
        assert_eq!(state.scale(), forward.scale);
        let rewind = PlayRange { scale: Scale::nearest(-8.0), ..TO_END };
        assert_eq!(state.play(None, scaled(-8.0), MINUTE, 5_000_000), Ok(PlayStep::Start(rewind)));
        state.started(rewind);
        assert_eq!(state.play(None, AS_RECORDED, MINUTE, 5_000_000), Ok(PlayStep::Unchanged));
        assert_eq!(state.play(None, scaled(1.0), MINUTE, 5_000_000), Ok(PlayStep::Start(TO_END)));
        assert_eq!(state.finished(), None);
        assert_eq!(
            state.play(None, scaled(-2.0), MINUTE, 0),
            Ok(PlayStep::Start(PlayRange { scale: Scale::nearest(-2.0), ..TO_END }))
        );
    }

    /// The example of RFC 2326 section 10.5.
    #[test]
    fn plays_behind_one_with_an_end_wait_for_it() {
        let mut state = playing("npt=10-15");
        let [second, third] = [seconds(Some(20), Some(25)), seconds(Some(30), None)];
        assert_eq!(state.play(range("npt=20-25"), AS_RECORDED, MINUTE, 1), Ok(PlayStep::Queued(second)));
        assert_eq!(state.play(range("npt=30-"), AS_RECORDED, MINUTE, 1), Ok(PlayStep::Queued(third)));
        assert_eq!(state.finished(), Some(second));
        state.started(second);
        assert_eq!(state.finished(), Some(third));
        state.started(third);
        assert_eq!(state.finished(), None);
        assert_eq!(state.phase(), Phase::Ended { until_us: None });
    }

    /// Promise: A PLAY with `Immediate: yes` starts at once, and drops those that wait.
    #[test]
    fn an_immediate_play_drops_the_queue() {
        let mut state = playing("npt=0-10");
        let waiting = state.play(range("npt=20-30"), AS_RECORDED, MINUTE, 0);
        assert!(matches!(waiting, Ok(PlayStep::Queued(_))));
        let immediate = Pace { is_immediate: true, ..AS_RECORDED };
        let second = seconds(Some(40), None);
        assert_eq!(state.play(range("npt=40-"), immediate, MINUTE, 0), Ok(PlayStep::Start(second)));
        state.started(second);
        assert_eq!(state.finished(), None);
    }

    /// Promise: A PLAY with `Immediate: yes` and no Range keeps the end of the active one, and those that wait.
    #[test]
    fn an_immediate_play_without_a_range_keeps_the_end() {
        let mut state = playing("npt=0-10");
        let third = seconds(Some(20), Some(30));
        assert_eq!(state.play(range("npt=20-30"), AS_RECORDED, MINUTE, 0), Ok(PlayStep::Queued(third)));
        let immediate = Pace { is_immediate: true, ..AS_RECORDED };
        assert_eq!(state.play(None, immediate, MINUTE, 1), Ok(PlayStep::Unchanged));
        let replay = ReplayPlay { intra_us: Some(0), ..NO_REPLAY };
        let intra = Pace { replay, asks_replay: true, ..immediate };
        let second = PlayRange { replay, ..seconds(None, Some(10)) };
        assert_eq!(state.play(None, intra, MINUTE, 1), Ok(PlayStep::Start(second)));
        state.started(second);
        assert_eq!(state.finished(), Some(third));
    }

    /// Promise: A PLAY to keep alive leaves ONVIF replay as it is.
    #[test]
    fn replay_is_changed_by_its_own_fields_only() {
        let mut state = SessionState::default();
        let replay = ReplayPlay { unpaced: true, intra_us: Some(0), ..NO_REPLAY };
        state.started(PlayRange { replay, ..seconds(Some(0), None) });
        assert_eq!(state.play(None, AS_RECORDED, MINUTE, 0), Ok(PlayStep::Unchanged));
        let asks = Pace { asks_replay: true, ..AS_RECORDED };
        assert!(matches!(state.play(None, asks, MINUTE, 0), Ok(PlayStep::Start(_))));
        let same = Pace { replay, ..asks };
        assert_eq!(state.play(None, same, MINUTE, 0), Ok(PlayStep::Unchanged));
    }

    #[test]
    fn the_queue_is_bounded_and_dropped_by_a_pause() {
        let mut state = playing("npt=0-1");
        for _ in 0..QUEUE_LIMIT {
            assert!(matches!(state.play(range("npt=2-3"), AS_RECORDED, MINUTE, 0), Ok(PlayStep::Queued(_))));
        }
        assert_eq!(status(state.play(range("npt=2-3"), AS_RECORDED, MINUTE, 0)), 503);
        assert_eq!(state.pause(), Ok(()));
        state.paused();
        assert_eq!(state.phase(), Phase::Ready);
        state.started(TO_END);
        assert_eq!(state.finished(), None);
    }

    #[test]
    fn a_pause_needs_something_to_pause() {
        assert_eq!(status(SessionState::default().pause()), 455);
        let mut state = playing("npt=0-");
        assert_eq!(state.finished(), None);
        assert_eq!(state.pause(), Ok(()), "it crossed the end");
        state.paused();
        assert_eq!(
            state.play(None, AS_RECORDED, MINUTE, 60_000_000),
            Ok(PlayStep::Start(seconds(Some(0), None)))
        );

        let mut state = playing("npt=0-");
        assert_eq!(state.pause(), Ok(()));
        state.paused();
        assert_eq!(status(state.pause()), 455);
        assert_eq!(state.finished(), None, "an end that crossed the pause");
        assert_eq!(state.phase(), Phase::Ready);
    }

    #[test]
    fn a_resume_goes_on_and_an_end_begins_anew() {
        let mut state = playing("npt=0-");
        assert_eq!(state.pause(), Ok(()));
        state.paused();
        assert_eq!(state.play(None, AS_RECORDED, MINUTE, 7_000_000), Ok(PlayStep::Start(TO_END)));
        state.started(TO_END);
        assert_eq!(state.finished(), None);
        assert_eq!(
            state.play(None, AS_RECORDED, MINUTE, 60_000_000),
            Ok(PlayStep::Start(seconds(Some(0), None)))
        );

        let mut state = playing("npt=0-10");
        assert_eq!(state.finished(), None);
        assert_eq!(state.play(None, AS_RECORDED, MINUTE, 10_000_000), Ok(PlayStep::Start(TO_END)));
    }
}
