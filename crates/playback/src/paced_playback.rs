//! A playback on its engine thread: sends trains when they are due, and handles errors.

use std::sync::Arc;

use wirepath_datapath::{Headers, SendError, SendOutcome, Train, prefetch};
use wirepath_engine::{BlockingPool, Waker};

use crate::numbering::Numbering;
use crate::output::Output;
use crate::playback::{PlayError, PlaybackEvent, Position, Reply};
use crate::playhead::{Next, Playhead};
use crate::progress::{RtpClock, SharedProgress};
use crate::source::{Cursor, Departure, TrainSource};
use crate::thread_state::{Playing, ThreadMembership, ThreadState};
use crate::timetable::Timetable;

/// Next step of a playback.
pub(crate) enum Step {
    /// A train was queued; [`PacedPlayback::note_result`] is called next.
    Queued,
    /// Step again at this time, in microseconds of CLOCK_MONOTONIC.
    At(u64),
    /// Wait for a command, or for the source to wake the playback.
    Wait,
    Fail(PlayError),
}

/// Options of a playback with its output.
pub(crate) struct PacedOptions {
    pub(crate) source: Arc<dyn TrainSource>,
    pub(crate) output: Output,
    pub(crate) most_burst_us: u64,
    pub(crate) on_event: Box<dyn Fn(PlaybackEvent) + Send>,
}

pub(crate) struct PacedPlayback {
    playhead: Playhead,
    output: Output,
    /// The departure that was queued, and when it was due.
    queued: Option<(Departure, u64)>,
    numbering: Numbering,
    pub(crate) waits_for_source: bool,
    most_burst_us: u64,
    /// Known while it plays.
    playing: Option<Playing>,
    /// Reply to the last request to play, until it is known.
    reply: Option<Reply<Position>>,
    pub(crate) progress: Arc<SharedProgress>,
    on_event: Box<dyn Fn(PlaybackEvent) + Send>,
    membership: ThreadMembership,
    /// True once it was moved to another thread.
    is_moved: bool,
}

/// Lateness at which the timetable is moved instead of catching up by a burst.
const LATENESS_LIMIT_US: u64 = 250_000;

/// Most trains sent in a step, before others have theirs; more than one are due only when catching up.
pub(crate) const TRAINS_PER_STEP: usize = 4;

/// Time until the next attempt when a socket or the threads that read have no room.
const RETRY_US: u64 = 1000;

impl PacedPlayback {
    pub(crate) fn new(
        options: PacedOptions,
        progress: Arc<SharedProgress>,
        waker: Waker,
        membership: ThreadMembership,
        pool: &BlockingPool,
    ) -> PacedPlayback {
        PacedPlayback {
            playhead: Playhead::new(options.source, waker, pool),
            output: options.output,
            queued: None,
            numbering: Numbering::default(),
            waits_for_source: false,
            most_burst_us: options.most_burst_us.max(1),
            playing: None,
            reply: None,
            progress,
            on_event: options.on_event,
            membership,
            is_moved: false,
        }
    }

    /// Sends to the writer of this key.
    pub(crate) fn attach(&mut self, writer: usize) {
        if let Some(output) = self.output.interleaved() {
            output.attach(writer);
        }
    }

    /// Key of the writer that the playback sends to, if it sends to a connection.
    pub(crate) fn writer(&self) -> Option<usize> {
        match &self.output {
            Output::Udp(_) => None,
            Output::Interleaved(output) => Some(output.writer()),
        }
    }

    /// Returns whether the playback waits for room in its connection.
    pub(crate) fn waits_for_room(&self) -> bool {
        matches!(&self.output, Output::Interleaved(output) if output.waits_for_room)
    }

    /// Lets the first packet leave, whose response has been written. Returns whether it waited for that.
    pub(crate) fn release(&mut self) -> bool {
        self.output.interleaved().is_some_and(|output| std::mem::take(&mut output.is_held))
    }

    /// Returns whether the playback can be moved to another thread: it waits for nothing but time and
    /// commands, and was not moved before.
    pub(crate) fn is_movable(&self) -> bool {
        self.queued.is_none() && self.reply.is_none() && !self.waits_for_source && !self.is_moved
    }

    /// Returns whether the playback plays.
    pub(crate) fn plays(&self) -> bool {
        self.playing.is_some()
    }

    /// Belongs to the thread of another membership from now on, whose pacer has `waker`.
    pub(crate) fn move_to(&mut self, membership: ThreadMembership, waker: Waker) {
        self.is_moved = true;
        self.playhead.set_waker(waker);
        if let Some(Playing { timetable, .. }) = self.playing.take() {
            self.playing = Some(Playing::new(timetable, membership.counters()));
        }
        self.membership = membership;
    }

    /// Prefetches what the next train needs beside the playback itself, which is in the caches.
    pub(crate) fn prefetch_parts(&self) {
        prefetch(&*self.progress);
        self.output.prefetch();
        self.playhead.prefetch_segment();
    }

    /// Prefetches the next departure, whose segment is in the caches.
    pub(crate) fn prefetch_departure(&self) {
        self.playhead.prefetch_departure();
    }

    /// Begins to play; `step` does the rest.
    pub(crate) fn play(&mut self, from: Option<Cursor>, until_us: u64, reply: Reply<Position>) {
        if let Some(earlier) = self.reply.replace(reply) {
            earlier(Err(PlayError::Superseded));
        }
        if let Some(cursor) = from {
            self.playhead.seek(cursor);
            self.numbering.seek();
        }
        self.playhead.set_end(until_us);
        self.playing = None;
        self.rest_output();
    }

    /// Pauses. Returns the departure of the next packet.
    pub(crate) fn pause(&mut self) -> u64 {
        if let Some(reply) = self.reply.take() {
            reply(Err(PlayError::Superseded));
        }
        let at_us = match self.playhead.next() {
            Next::Due(departure) => departure.at_us,
            _ => self.progress.position_us(),
        };
        self.rest();
        at_us
    }

    /// Sends what is due at `now_us`, or queues it under `token`.
    pub(crate) fn step(&mut self, thread: &mut ThreadState, now_us: u64, token: u64) -> Step {
        for _ in 0..TRAINS_PER_STEP {
            let departure = match self.playhead.next() {
                Next::Due(departure) => {
                    self.waits_for_source = false;
                    departure
                }
                Next::Pending => {
                    self.note_stall(thread);
                    return Step::Wait;
                }
                Next::Busy => {
                    self.note_stall(thread);
                    return Step::At(now_us + RETRY_US);
                }
                Next::End => return self.finish(),
                Next::Failed(reason) => return Step::Fail(PlayError::Source(reason)),
            };
            let burst_us = thread.burst_us.min(self.most_burst_us);
            if self.playing.is_none() {
                self.begin(&departure, thread, now_us, burst_us);
            }
            let Some(Playing { timetable, .. }) = &mut self.playing else { return Step::Wait };
            let due_us = timetable.due_us(departure.at_us, burst_us);
            let (end_us, length_us) = (timetable.end_us(), timetable.length_us());
            if due_us > now_us {
                self.note_on_time();
                return Step::At(due_us);
            }
            self.progress.set_burst(length_us);
            let late_us = now_us - due_us;
            if self.is_behind() {
                if self.skip_forward(&departure, late_us, thread) {
                    continue;
                }
            } else if late_us > LATENESS_LIMIT_US {
                thread.counters.clock_resyncs.increment();
                self.resync(&departure, now_us);
            }
            let departure = self.playhead.departure(departure, end_us, self.headers());
            match self.send(&departure, thread, token) {
                Ok(SendOutcome::Sent(())) if self.is_behind() => {} // its client's lateness
                Ok(SendOutcome::Sent(())) => thread.counters.lateness_seconds.record(late_us),
                Ok(SendOutcome::Queued) => {
                    self.queued = Some((departure, due_us));
                    return Step::Queued;
                }
                Err(error) => return self.after_error(error, thread, now_us),
            }
        }
        Step::At(now_us)
    }

    /// Notes that the kernel copied a train that was queued.
    pub(crate) fn note_copied(&mut self) {
        if let Output::Udp(output) = &mut self.output {
            output.note_copied();
        }
    }

    /// Handles the result of a queued train.
    pub(crate) fn note_result(
        &mut self,
        result: Result<u32, SendError>,
        thread: &mut ThreadState,
        now_us: u64,
    ) -> Step {
        let Some((departure, due_us)) = self.queued.take() else { return Step::At(now_us) };
        let train = departure.train;
        match self.settle(&train, result.map(|_| train.packets()), thread) {
            Ok(0) => {} // another path is next
            Ok(_) => {
                self.note_departure(&departure, thread);
                if let Output::Udp(output) = &mut self.output {
                    output.note_lent();
                }
                thread.counters.trains_lent.increment();
                thread.counters.lateness_seconds.record(now_us.saturating_sub(due_us));
            }
            Err(error) => return self.after_error(error, thread, now_us),
        }
        Step::At(now_us)
    }

    pub(crate) fn fail(&mut self, error: PlayError) {
        self.progress.set_clock(None);
        if let Some(reply) = self.reply.take() {
            reply(Err(error.clone()));
        }
        (self.on_event)(PlaybackEvent::Failed(error));
    }

    /// Counts a wait for the source, once.
    fn note_stall(&mut self, thread: &ThreadState) {
        thread.counters.io_stalls.add(u64::from(!self.waits_for_source));
        self.waits_for_source = true;
    }

    /// Sets the timetable for the first departure after a request to play, and replies. On a connection the
    /// reply comes first, and the timetable once the response that it leads to is written.
    fn begin(&mut self, departure: &Departure, thread: &mut ThreadState, now_us: u64, burst_us: u64) {
        let stored = departure.train.run.header(departure.train.first);
        self.numbering.begin((stored.sequence, stored.timestamp));
        let is_asked = self.reply.is_some();
        let is_held = self.output.interleaved().is_some_and(|output| {
            output.is_held |= is_asked;
            output.is_held
        });
        if !is_held {
            let (source_us, playbacks) = (departure.at_us, thread.counters.playbacks.value());
            let source_begin_us = source_us - source_us % burst_us;
            let begin_us = thread.slots.next_us(now_us, source_begin_us, burst_us, playbacks);
            let timetable = Timetable::starting(source_us, begin_us, burst_us);
            self.playing = Some(Playing::new(timetable, &thread.counters));
            self.note_clock(departure);
        }
        if let Some(reply) = self.reply.take() {
            let (sequence, timestamp) = self.numbering.sent((stored.sequence, stored.timestamp));
            reply(Ok(Position { sequence, timestamp, at_us: departure.at_us }));
        }
    }

    /// Headers of the next packet: made where the file has none.
    fn headers(&self) -> Headers {
        let headers = self.numbering.headers;
        self.playhead.mapped_file().map_or(headers, |file| headers.in_file(file))
    }

    /// Moves the timetable such that the burst of `departure` is due now.
    fn resync(&mut self, departure: &Departure, now_us: u64) {
        if let Some(Playing { timetable, .. }) = &mut self.playing {
            timetable.resync(now_us);
        }
        self.note_clock(departure);
    }

    /// Notes the RTP clock by the timetable and a departure.
    fn note_clock(&self, departure: &Departure) {
        let Some(Playing { timetable, .. }) = &self.playing else { return };
        let stored = departure.train.run.header(departure.train.first);
        let (_, timestamp) = self.numbering.sent((stored.sequence, stored.timestamp));
        self.progress.set_clock(Some(RtpClock { at_us: timetable.time_of(departure.at_us), timestamp }));
    }

    /// Sends a departure, or its first packets if the socket takes no more, and moves on. Or queues all of
    /// it, and does not move on yet.
    fn send(
        &mut self,
        departure: &Departure,
        thread: &mut ThreadState,
        token: u64,
    ) -> Result<SendOutcome<()>, SendError> {
        let mut rest = Some(departure.train);
        while let Some(train) = rest {
            let headers = self.headers();
            let Some(file) = self.playhead.mapped_file() else { break };
            let result = self.output.send(file, &train, headers, thread, token);
            let result = match result {
                Ok(SendOutcome::Queued) => return Ok(SendOutcome::Queued),
                Ok(SendOutcome::Sent(packets)) => Ok(packets),
                Err(error) => Err(error),
            };
            rest = train.after(self.settle(&train, result, thread)?);
        }
        self.note_departure(departure, thread);
        Ok(SendOutcome::Sent(()))
    }

    /// Moves on by what was sent of a train, or lost. Returns the number of these packets: 0 if another path
    /// is to send the train.
    fn settle(
        &mut self,
        train: &Train,
        result: Result<u32, SendError>,
        thread: &ThreadState,
    ) -> Result<u32, SendError> {
        let passed = match result {
            Ok(packets) => {
                self.count(train, packets, thread);
                packets
            }
            Err(SendError::NetworkDown { .. }) => {
                thread.counters.packets_lost.add(train.packets().into());
                self.progress.packets_lost.add(train.packets().into());
                train.packets()
            }
            Err(error @ SendError::Unsupported { .. }) => {
                self.output.step_down(error, &thread.support)?;
                return Ok(0);
            }
            Err(error) => return Err(error),
        };
        if let Some(next) = self.playhead.advance(passed) {
            self.numbering.advance((next.sequence, next.timestamp));
        }
        Ok(passed)
    }

    fn note_departure(&self, departure: &Departure, thread: &ThreadState) {
        thread.counters.trains.increment();
        self.progress.set_position(departure.at_us);
    }

    fn count(&self, train: &Train, packets: u32, thread: &ThreadState) {
        let payload_bytes = train.up_to(packets).payload_length(self.headers()).into();
        thread.counters.packets.add(packets.into());
        thread.counters.payload_bytes.add(payload_bytes);
        self.progress.packets.add(packets.into());
        self.progress.payload_bytes.add(payload_bytes);
    }

    fn finish(&mut self) -> Step {
        self.rest();
        match self.reply.take() {
            Some(reply) => reply(Err(PlayError::BeyondEnd)),
            None => (self.on_event)(PlaybackEvent::Finished),
        }
        Step::Wait
    }

    fn rest(&mut self) {
        self.playhead.rest();
        self.waits_for_source = false;
        self.playing = None;
        self.rest_output();
        self.progress.set_clock(None);
    }

    fn rest_output(&mut self) {
        if let Some(output) = self.output.interleaved() {
            output.rest();
        }
    }

    fn after_error(&mut self, error: SendError, thread: &ThreadState, now_us: u64) -> Step {
        let is_interleaved = matches!(self.output, Output::Interleaved(_));
        match error {
            SendError::Full { .. } => {
                thread.counters.sockets_full.increment();
                if is_interleaved { Step::Wait } else { Step::At(now_us + RETRY_US) }
            }
            // The connection is gone, and its reader ends the session.
            SendError::Other { .. } if is_interleaved => {
                self.rest();
                Step::Wait
            }
            error => Step::Fail(error.into()),
        }
    }
}

/// Clients that read too slowly.
impl PacedPlayback {
    /// Returns whether the playback is late because its connection was full.
    fn is_behind(&self) -> bool {
        matches!(&self.output, Output::Interleaved(output) if output.is_behind)
    }

    /// Notes that the playback has caught up.
    fn note_on_time(&mut self) {
        if let Output::Interleaved(output) = &mut self.output {
            output.is_behind = false;
        }
    }

    /// Skips what a client that reads too slowly would get too late, to the first random access point that is
    /// not due yet. Timetable and numbers stay, so the client sees packets that are lost. Returns whether the
    /// playback is elsewhere now.
    fn skip_forward(&mut self, departure: &Departure, late_us: u64, thread: &ThreadState) -> bool {
        let Output::Interleaved(output) = &self.output else { return false };
        if late_us <= output.max_lag_us {
            return false;
        }
        let is_found = self.playhead.skip_to_start(departure.at_us + late_us);
        if is_found {
            thread.counters.forward_skips.increment();
            self.progress.forward_skips.add(1);
            self.note_on_time();
        }
        is_found
    }
}
