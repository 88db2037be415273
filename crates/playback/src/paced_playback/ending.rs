//! Ends of playing at the end of an access unit.
//!
//! A picture leaves in several trains, so a request to pause or to play elsewhere may come inside one. A
//! receiver that gets the packets of another picture, or none, drops what it has of the first. So the
//! playback goes on, by its timetable, until no access unit of any stream is sent in part. Nothing is noted
//! for that while it plays: the numbers of the next packet tell.

use super::{PacedPlayback, Step, TRAINS_PER_STEP};
use crate::playhead::Next;
use crate::request::{PlayError, PlayRequest, PlaybackEvent, Position, Reply};
use crate::thread_state::ThreadState;

/// Longest time until a playback ends inside an access unit. A picture is spread over at most 100 ms of its
/// source, four times that at the lowest speed, and bursts are up to half a second apart. It takes longer
/// only if a file is damaged, its storage is slow, or its receiver takes nothing.
const LIMIT_US: u64 = 1_000_000;

/// End of playing that waits for the end of access units.
pub(super) struct Ending {
    /// Time of CLOCK_MONOTONIC, in microseconds, at which it waits no longer.
    deadline_us: u64,
    then: Then,
}

/// Action after the end.
enum Then {
    Pause(Reply<u64>),
    Play(PlayRequest, Reply<Position>),
}

impl PacedPlayback {
    /// Begins to play, from another position after the end of the access units that have begun; `step` does
    /// the rest.
    pub(crate) fn play(&mut self, request: PlayRequest, reply: Reply<Position>, now_us: u64) {
        self.supersede();
        let leaves = request.from.is_some()
            || self.place_of(request.pictures).is_some()
            || request.replay.intra.is_some() != self.playhead.has_intra();
        if leaves && self.is_within_unit() {
            return self.end_after_unit(Then::Play(request, reply), now_us);
        }
        self.begin_to_play(request, reply);
    }

    /// Pauses after the end of the access units that have begun. The reply is the departure of the next
    /// packet.
    pub(crate) fn pause(&mut self, reply: Reply<u64>, now_us: u64) {
        self.supersede();
        if self.is_within_unit() {
            return self.end_after_unit(Then::Pause(reply), now_us);
        }
        self.pause_now(reply);
    }

    /// Pauses after the last sent packet. The reply is the departure of the next one.
    pub(crate) fn stop(&mut self, reply: Reply<u64>) {
        self.supersede();
        self.pause_now(reply);
    }

    /// Returns whether the playback ends after the access units that have begun.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    fn end_after_unit(&mut self, then: Then, now_us: u64) {
        self.ending = Some(Box::new(Ending { deadline_us: now_us + LIMIT_US, then }));
    }

    /// Answers requests that another one replaces.
    fn supersede(&mut self) {
        if let Some(reply) = self.reply.take() {
            reply(Err(PlayError::Superseded));
        }
        match self.ending.take().map(|ending| ending.then) {
            // Another member of a group plays on: it is as if the first had paused before.
            Some(Then::Pause(reply)) => reply(Ok(self.next_us())),
            Some(Then::Play(_, reply)) => reply(Err(PlayError::Superseded)),
            None => {}
        }
    }

    /// Returns whether an access unit of a stream is sent in part.
    fn is_within_unit(&self) -> bool {
        // Between two pictures of a scan there is none.
        let is_sending = self.playing.is_some() && self.scan.as_ref().is_none_or(|scan| !scan.is_new);
        is_sending && self.streams.iter().any(|stream| self.playhead.is_within_unit(stream))
    }

    /// Sends the trains that are due at `now_us`, up to the end of the access units that have begun; then
    /// pauses or plays elsewhere.
    #[cold]
    pub(super) fn step_to_end(&mut self, thread: &mut ThreadState, now_us: u64, token: u64) -> Step {
        for _ in 0..TRAINS_PER_STEP {
            let Some(deadline_us) = self.ending.as_ref().map(|ending| ending.deadline_us) else { break };
            self.playhead.next(); // takes a segment that has come meanwhile
            if now_us >= deadline_us || !self.is_within_unit() {
                return self.end(thread, now_us, token);
            }
            match self.send_trains(1, thread, now_us, token) {
                Step::At(at_us) if at_us > now_us => return Step::At(at_us.min(deadline_us)),
                Step::Wait if self.playing.is_some() => return Step::At(deadline_us),
                Step::At(_) | Step::Wait => {} // the next train, or the end of the source
                step @ (Step::Queued | Step::Fail(_)) => return step,
            }
        }
        Step::At(now_us)
    }

    fn end(&mut self, thread: &mut ThreadState, now_us: u64, token: u64) -> Step {
        match self.ending.take().map(|ending| ending.then) {
            Some(Then::Pause(reply)) => {
                if self.scan.is_none() && matches!(self.playhead.next(), Next::End) {
                    self.rest_at_end();
                    (self.on_event)(PlaybackEvent::Finished);
                }
                self.pause_now(reply);
                Step::Wait
            }
            Some(Then::Play(request, reply)) => {
                self.begin_to_play(request, reply);
                self.step(thread, now_us, token)
            }
            None => Step::At(now_us),
        }
    }

    /// Fails the request that waits for the end, if there is one.
    pub(super) fn fail_ending(&mut self, error: &PlayError) {
        match self.ending.take().map(|ending| ending.then) {
            Some(Then::Pause(reply)) => reply(Err(error.clone())),
            Some(Then::Play(_, reply)) => reply(Err(error.clone())),
            None => {}
        }
    }

    fn pause_now(&mut self, reply: Reply<u64>) {
        let at_us = self.next_us();
        self.rest();
        reply(Ok(at_us));
    }

    /// Departure of the next packet; during a scan, that of the current picture.
    fn next_us(&mut self) -> u64 {
        let at_us = match self.playhead.next() {
            Next::Due(departure) | Next::Unsent(departure) => departure.at_us,
            _ => self.progress.position_us(),
        };
        self.scan.as_ref().and_then(|scan| scan.picture_us()).unwrap_or(at_us)
    }
}
