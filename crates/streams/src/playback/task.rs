//! A playback as its engine thread sees it: what is due leaves, and what could not leave is dealt with.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use wirepath_datapath::{DataPath, Headers, SendError, SendOutcome, Train, UdpSink};

use super::numbering::Numbering;
use super::{Event, PlayError, PlaybackOptions, Position, Progress, Reply, RtpClock};
use crate::blocking::BlockingPool;
use crate::playhead::{Next, Playhead};
use crate::source::{Cursor, Departure};
use crate::worker::Sending;

/// What came of sending what was due.
pub(crate) enum Outcome {
    /// A train was queued: its answer goes to `answered`, and nothing else happens to this playback before.
    Queued,
    /// Come back at this time, in microseconds of CLOCK_MONOTONIC.
    Again(u64),
    /// Nothing to do until a command comes.
    Rest,
    /// It is over.
    Over(PlayError),
}

/// A playback as its engine thread sees it.
pub(crate) struct PlaybackTask {
    playhead: Playhead,
    sink: UdpSink,
    path: DataPath,
    /// The same for packets with headers of this playback's own.
    own: DataPath,
    /// The path that the last train left by.
    used: DataPath,
    /// What waits for its answer, and when it was due.
    queued: Option<(Departure, u64)>,
    numbering: Numbering,
    /// What is next is being brought in.
    waiting: bool,
    burst_us: u64,
    /// Time of CLOCK_MONOTONIC at which the start of the source would have left; known while it plays.
    origin_us: Option<i64>,
    /// Asked to play and not yet answered.
    reply: Option<Reply<Position>>,
    progress: Arc<Progress>,
    on_event: Box<dyn Fn(Event) + Send>,
}

/// A playback that is later than this moves its timetable instead of sending a burst to catch up.
const LATENESS_LIMIT_US: u64 = 250_000;

/// Trains sent in one go before others get their turn; more than one are due only when catching up.
pub(crate) const TRAINS_PER_TURN: usize = 4;

/// When to ask again for a segment that is being brought in, or for room in a full socket.
pub(crate) const RETRY_US: u64 = 1000;

impl PlaybackTask {
    pub(crate) fn new(
        options: PlaybackOptions,
        [path, own]: [DataPath; 2],
        progress: Arc<Progress>,
        readers: &BlockingPool,
    ) -> io::Result<PlaybackTask> {
        // Nothing is known to be in hot memory before the first train was looked for there.
        let used = path.next().filter(|_| path.needs_hot_memory()).unwrap_or(path);
        progress.set_path(used);
        Ok(PlaybackTask {
            playhead: Playhead::new(options.source, readers),
            sink: UdpSink::new(options.socket, options.packet_size, path)?,
            path,
            own,
            used,
            queued: None,
            numbering: Numbering::default(),
            waiting: false,
            burst_us: options.burst_us.max(1),
            origin_us: None,
            reply: None,
            progress,
            on_event: options.on_event,
        })
    }

    /// Begins to play; `fire` does the rest.
    pub(crate) fn play(&mut self, from: Option<Cursor>, until_us: u64, reply: Reply<Position>) {
        if let Some(earlier) = self.reply.replace(reply) {
            earlier(Err(PlayError::Superseded));
        }
        if let Some(cursor) = from {
            self.playhead.seek(cursor);
            self.numbering.seek();
        }
        self.playhead.set_end(until_us);
        self.origin_us = None;
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Stops playing; the place is kept. Answers the time of the next packet.
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
    pub(crate) fn fire(&mut self, thread: &mut Sending, now_us: u64, token: u64) -> Outcome {
        for _ in 0..TRAINS_PER_TURN {
            let departure = match self.playhead.next() {
                Next::Due(departure) => {
                    self.waiting = false;
                    departure
                }
                Next::Pending => {
                    thread.counters.cold_waits.add(u64::from(!self.waiting));
                    self.waiting = true;
                    return Outcome::Again(now_us + RETRY_US);
                }
                Next::End => return self.finish(),
                Next::Failed(reason) => return Outcome::Over(PlayError::Source(reason)),
            };
            if self.origin_us.is_none() {
                let begin_us =
                    thread.slots.next_us(now_us, self.burst_us, thread.counters.playbacks.load(Relaxed));
                if let Err(error) = self.begin(&departure, begin_us) {
                    return Outcome::Over(PlayError::Source(error.to_string().into()));
                }
            }
            let due_us = self.due_us(&departure);
            if due_us > now_us {
                return Outcome::Again(due_us);
            }
            let late_us = now_us - due_us;
            if late_us > LATENESS_LIMIT_US {
                thread.counters.slips.add(1);
                self.set_origin(&departure, now_us);
            }
            match self.send(&departure, thread, token) {
                Ok(SendOutcome::Sent(())) => thread.counters.lateness.record(late_us),
                Ok(SendOutcome::Queued) => {
                    self.queued = Some((departure, due_us));
                    return Outcome::Queued;
                }
                Err(error) => return not_sent(error, thread, now_us),
            }
        }
        Outcome::Again(now_us)
    }

    /// Goes on after a queued train was sent, or was not, by `now_us`.
    pub(crate) fn answered(
        &mut self,
        result: Result<u32, SendError>,
        thread: &mut Sending,
        now_us: u64,
    ) -> Outcome {
        let Some((departure, due_us)) = self.queued.take() else { return Outcome::Again(now_us) };
        let train = departure.train;
        match self.settle(&train, result.map(|_| train.packets()), thread) {
            Ok(0) => {} // by another path now
            Ok(_) => {
                self.departed(&departure, thread);
                thread.counters.lateness.record(now_us.saturating_sub(due_us));
            }
            Err(error) => return not_sent(error, thread, now_us),
        }
        Outcome::Again(now_us)
    }

    /// Tells whoever waits that it is over.
    pub(crate) fn fail(&mut self, error: PlayError) {
        self.progress.set_clock(None);
        if let Some(reply) = self.reply.take() {
            reply(Err(error.clone()));
        }
        (self.on_event)(Event::Failed(error));
    }

    /// When a departure is due: when its burst begins.
    fn due_us(&self, departure: &Departure) -> u64 {
        let origin_us = self.origin_us.unwrap_or_default();
        origin_us.saturating_add_unsigned(self.burst_begin_us(departure)).try_into().unwrap_or(0)
    }

    fn burst_begin_us(&self, departure: &Departure) -> u64 {
        departure.at_us - departure.at_us % self.burst_us
    }

    /// Sets the timetable for the first departure after a request to play, and answers the request.
    fn begin(&mut self, departure: &Departure, begin_us: u64) -> io::Result<()> {
        let stored = departure.train.run.header(departure.train.first);
        if self.numbering.begin((stored.sequence, stored.timestamp)) {
            self.prepare_own()?;
        }
        self.set_origin(departure, begin_us);
        if let Some(reply) = self.reply.take() {
            let (sequence, timestamp) = self.numbering.sent((stored.sequence, stored.timestamp));
            reply(Ok(Position { sequence, timestamp, at_us: departure.at_us }));
        }
        Ok(())
    }

    /// Sets the socket up for the path of packets with headers of their own: stored ones may have left by one that needs none of it.
    fn prepare_own(&mut self) -> io::Result<()> {
        if self.sink.prepare(self.own).is_err() {
            // What works everywhere, packet by packet.
            self.own = DataPath::Sendmmsg;
            self.sink.prepare(self.own)?;
        }
        Ok(())
    }

    /// Makes the timetable such that the burst of `departure` begins at `begin_us`.
    fn set_origin(&mut self, departure: &Departure, begin_us: u64) {
        let in_burst_us = departure.at_us % self.burst_us;
        self.origin_us = Some(begin_us as i64 - self.burst_begin_us(departure) as i64);
        let stored = departure.train.run.header(departure.train.first);
        let (_, timestamp) = self.numbering.sent((stored.sequence, stored.timestamp));
        self.progress.set_clock(Some(RtpClock { at_us: begin_us + in_burst_us, timestamp }));
    }

    /// Sends a departure, or its first packets if the socket takes no more, and moves on. Or queues all of it: then it has not
    /// moved on yet.
    fn send(
        &mut self,
        departure: &Departure,
        thread: &mut Sending,
        token: u64,
    ) -> Result<SendOutcome<()>, SendError> {
        let mut rest = Some(departure.train);
        while let Some(train) = rest {
            let Some(medium) = self.playhead.medium() else { break };
            let scratch = &mut thread.scratch;
            let headers = self.numbering.headers();
            let path = if headers == Headers::Stored { self.path } else { self.own };
            let path = path.for_train(&train, headers, medium, scratch);
            let result = path.enqueue(&self.sink, medium, &train, headers, scratch, token);
            self.note_path(path.path());
            let result = match result {
                Ok(SendOutcome::Queued) => return Ok(SendOutcome::Queued),
                Ok(SendOutcome::Sent(packets)) => Ok(packets),
                Err(error) => Err(error),
            };
            rest = train.after(self.settle(&train, result, thread)?);
        }
        self.departed(departure, thread);
        Ok(SendOutcome::Sent(()))
    }

    /// Moves on by what was sent of a train, or lost; answers how many packets that is. None if it is to be sent by another path.
    fn settle(
        &mut self,
        train: &Train,
        result: Result<u32, SendError>,
        thread: &Sending,
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
                self.step_down(error, thread)?;
                return Ok(0);
            }
            Err(error) => return Err(error),
        };
        self.move_on(train, passed);
        Ok(passed)
    }

    fn departed(&self, departure: &Departure, thread: &Sending) {
        thread.counters.trains.add(1);
        self.progress.position_us.store(departure.at_us, Relaxed);
    }

    /// Notes which path a train takes.
    fn note_path(&mut self, path: DataPath) {
        if path != self.used {
            self.used = path;
            self.progress.set_path(path);
        }
    }

    fn count(&self, train: &Train, packets: u32, thread: &Sending) {
        let octets = train.up_to(packets).payload_length(self.numbering.headers()).into();
        thread.counters.packets.add(packets.into());
        thread.counters.octets.add(octets);
        self.progress.packets.add(packets.into());
        self.progress.octets.add(octets);
    }

    /// The first `packets` of `train` are behind us.
    fn move_on(&mut self, train: &Train, packets: u32) {
        let next = train.run.header(train.first + packets);
        self.numbering.go_on((next.sequence, next.timestamp));
        self.playhead.advance(packets);
    }

    /// Goes on by another path where the route cannot do the one that was just tried.
    fn step_down(&mut self, error: SendError, thread: &Sending) -> Result<(), SendError> {
        let local = self.sink.local_address().ip();
        let path = self.used.next().ok_or(error)?;
        thread.support.note_step_down(local, self.used, path, error);
        self.sink.prepare(path).map_err(|_| error)?;
        // What the kernel module refused for headers of its own says nothing of the path for stored ones.
        if self.path == self.used || !self.used.needs_module() {
            self.path = path;
        }
        if path.makes_headers() {
            self.own = path;
        }
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
        self.rest();
        match self.reply.take() {
            Some(reply) => reply(Err(PlayError::BeyondEnd)),
            None => (self.on_event)(Event::Finished),
        }
        Outcome::Rest
    }

    fn rest(&mut self) {
        self.playhead.rest();
        self.origin_us = None;
        self.progress.set_clock(None);
    }
}

/// What to do about a train that was not sent.
fn not_sent(error: SendError, thread: &Sending, now_us: u64) -> Outcome {
    match error {
        SendError::Full { .. } => {
            thread.counters.full.add(1);
            Outcome::Again(now_us + RETRY_US)
        }
        error => Outcome::Over(error.into()),
    }
}
