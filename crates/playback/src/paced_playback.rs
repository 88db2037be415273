//! A playback on its engine thread: sends trains when they are due, and handles errors.

use std::sync::Arc;

use wirepath_datapath::{Headers, JoinedTrains, SendError, SendOutcome, StoredTrains, Train, prefetch};
use wirepath_engine::{BlockingPool, Waker, now_us};

use crate::output::InterleavedOutput;
use crate::playhead::{Next, Playhead};
use crate::progress::{RtpClock, SharedProgress};
use crate::replay::ReplayRequest;
use crate::request::{PlayError, PlayRequest, PlaybackEvent, Position, Reply};
use crate::scale::Scale;
use crate::scan::{NextPicture, Scan};
use crate::source::{Departure, TrainSource, numbers};
use crate::speed::Speed;
use crate::streams::{OtherStream, Streams};
use crate::thread_state::{Playing, ThreadMembership, ThreadState};
use crate::timetable::{Timetable, begin_us};

mod ending;
mod pace;
mod scanning;
mod slow_client;

use ending::Ending;
use pace::{Due, Pace};

/// Next step of a playback.
pub(crate) enum Step {
    /// A train was queued; its result comes to [`PacedPlayback::note_result`].
    Queued,
    /// Step again at this time, in microseconds of CLOCK_MONOTONIC.
    At(u64),
    /// Wait for a command, or until the source wakes the playback.
    Wait,
    Fail(PlayError),
}

/// Options of a playback with the output of its first stream.
pub(crate) struct PacedOptions {
    pub(crate) source: Arc<dyn TrainSource>,
    pub(crate) streams: Streams,
    pub(crate) most_burst_us: u64,
    pub(crate) on_event: Box<dyn Fn(PlaybackEvent) + Send>,
}

pub(crate) struct PacedPlayback {
    playhead: Playhead,
    streams: Streams,
    /// The queued departure, and the time when it was due.
    queued: Option<(Departure, u64)>,
    pub(crate) waits_for_source: bool,
    /// True if it waits for a recorder, not for storage.
    waits_at_edge: bool,
    most_burst_us: u64,
    /// Speed of the last request to play.
    speed: Speed,
    /// Fast forward or rewind, if the last request to play was for it. Boxed, since few playbacks use it.
    scan: Option<Box<Scan>>,
    /// ONVIF replay parameters of the last request to play.
    replay: Replay,
    /// Known while it plays.
    playing: Option<Playing>,
    /// True from a request to play from another position until that playing begins.
    is_sought: bool,
    /// Departure of the next packet when the playback was paused or left its position, or the end of the
    /// source; 0 while it plays.
    left_at_us: u64,
    /// Time that all seeks together have added to the source's time in presentation timestamps.
    shift_us: i64,
    /// Reply to the last request to play, until the result is known.
    reply: Option<Reply<Position>>,
    /// Request that waits for the end of an access unit. Boxed, since it is rare and short.
    ending: Option<Box<Ending>>,
    pub(crate) progress: Arc<SharedProgress>,
    on_event: Box<dyn Fn(PlaybackEvent) + Send>,
    membership: ThreadMembership,
    /// True after it was moved to another thread.
    is_moved: bool,
}

/// ONVIF replay parameters of a request to play.
#[derive(Clone, Copy, Debug, Default)]
struct Replay {
    /// Low byte of the request's CSeq.
    cseq: u8,
    /// True if packets leave as fast as the connection takes them.
    unpaced: bool,
}

/// Most trains sent in a step before other playbacks have theirs. More than one are due only when catching
/// up.
pub(crate) const TRAINS_PER_STEP: usize = 4;

/// Time until the next attempt if a growing source has no picture yet.
const GROWTH_US: u64 = 100_000;

/// Time until the next attempt if a socket or the queue of the reading threads is full.
const RETRY_US: u64 = 1000;

impl PacedPlayback {
    pub(crate) fn new(
        options: PacedOptions,
        progress: Arc<SharedProgress>,
        waker: Waker,
        membership: ThreadMembership,
        pool: &BlockingPool,
    ) -> PacedPlayback {
        let first = options.streams.iter().map(|stream| stream.number).next().unwrap_or_default();
        let mut streams = options.streams;
        if options.source.has_own_numbers() {
            streams.numbering(0).make_headers();
        }
        PacedPlayback {
            playhead: Playhead::new(options.source, first, waker, pool),
            streams,
            queued: None,
            waits_for_source: false,
            waits_at_edge: false,
            most_burst_us: options.most_burst_us.max(1),
            speed: Speed::NORMAL,
            scan: None,
            replay: Replay::default(),
            playing: None,
            is_sought: false,
            left_at_us: 0,
            shift_us: 0,
            reply: None,
            ending: None,
            progress,
            on_event: options.on_event,
            membership,
            is_moved: false,
        }
    }

    /// Also sends another stream, from the next train on.
    pub(crate) fn add_stream(&mut self, mut other: OtherStream) {
        if self.playhead.source().has_own_numbers() {
            other.stream.numbering.make_headers();
        }
        other.stream.numbering.seek(self.shift_us);
        self.playhead.add_stream(other.stream.number);
        self.streams.add(other);
    }

    /// Sends to the writer of this key.
    pub(crate) fn attach(&mut self, writer: usize) {
        if let Some(connection) = self.streams.connection_mut() {
            connection.attach(writer);
        }
    }

    /// Key of the writer of the playback's connection, if it sends to a connection.
    pub(crate) fn writer(&self) -> Option<usize> {
        self.streams.connection().map(InterleavedOutput::writer)
    }

    /// Returns whether the playback waits for room in its connection.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.streams.connection().is_some_and(|connection| connection.waits_for_room)
    }

    /// Releases the first packet, after the response was written. Returns whether the playback waited for
    /// that.
    pub(crate) fn release(&mut self) -> bool {
        self.streams.connection_mut().is_some_and(|connection| std::mem::take(&mut connection.is_held))
    }

    /// Returns whether the playback can be moved to another thread: it waits only for time and commands, and
    /// was not moved before.
    pub(crate) fn is_movable(&self) -> bool {
        let has_request = self.reply.is_some() || self.ending.is_some();
        self.queued.is_none() && !has_request && !self.waits_for_source && !self.is_moved
    }

    /// Returns whether the playback plays.
    pub(crate) fn plays(&self) -> bool {
        self.playing.is_some()
    }

    /// From now on, belongs to the thread of another membership, whose pacer has `waker`.
    pub(crate) fn move_to(&mut self, membership: ThreadMembership, waker: Waker) {
        self.is_moved = true;
        self.playhead.set_waker(waker);
        if let Some(Playing { timetable, .. }) = self.playing.take() {
            self.playing = Some(Playing::new(timetable, membership.counters()));
        }
        self.membership = membership;
    }

    /// Prefetches the data of the next train; the playback itself is in the caches.
    pub(crate) fn prefetch_parts(&self) {
        prefetch(&*self.progress);
        self.streams.prefetch();
        self.playhead.prefetch_segment();
    }

    /// Prefetches the next departure; its segment is in the caches.
    pub(crate) fn prefetch_departure(&self) {
        self.playhead.prefetch_departure();
    }

    /// Begins to play; `step` does the rest.
    fn begin_to_play(&mut self, request: PlayRequest, reply: Reply<Position>) {
        self.reply = Some(reply);
        if let Some(cursor) = request.from.or_else(|| self.place_of(request.pictures)) {
            self.note_place();
            self.playhead.seek(cursor);
            self.is_sought = true;
        }
        self.set_pace(request);
        self.playing = None;
        self.rest_output();
    }

    /// From now on, plays at the speed and scale of a request.
    fn set_pace(&mut self, request: PlayRequest) {
        let is_scan = request.pictures.is_some();
        let end_us = request.until_us.filter(|_| !is_scan);
        self.playhead.set_end(end_us.unwrap_or(u64::MAX));
        self.speed = if is_scan { Speed::NORMAL } else { request.speed };
        self.playhead.set_speed(self.speed);
        let ReplayRequest { cseq, unpaced, intra } = request.replay;
        self.replay = Replay { cseq, unpaced: unpaced && self.streams.connection().is_some() };
        if intra.is_none() && self.playhead.has_intra() {
            // Packets were left out before the next one: its numbers and flags are those after a seek.
            self.streams.seek(self.shift_us);
            self.streams.leave();
        }
        self.playhead.set_intra(intra);
        self.playhead.set_pictures(request.pictures.map(|pictures| pictures.stream));
        let place = self.playhead.cursor();
        let scan = request.pictures.map(|pictures| Scan::new(pictures, place, request.until_us));
        self.scan = scan.map(Box::new);
    }

    /// Sends the trains due at `now_us`, or queues them under `token`.
    pub(crate) fn step(&mut self, thread: &mut ThreadState, now_us: u64, token: u64) -> Step {
        match self.ending.is_some() {
            true => self.step_to_end(thread, now_us, token),
            // Unpaced packets are always due: other sessions of the thread send between two trains.
            false if self.replay.unpaced => self.send_trains(1, thread, now_us, token),
            false => self.send_trains(TRAINS_PER_STEP, thread, now_us, token),
        }
    }

    /// Sends up to so many trains that are due at `now_us`, or queues them under `token`.
    fn send_trains(&mut self, most: usize, thread: &mut ThreadState, now_us: u64, token: u64) -> Step {
        for _ in 0..most {
            let (departure, is_sent) = match self.playhead.next() {
                Next::Due(departure) => (departure, true),
                Next::Unsent(departure) => (departure, false),
                Next::Pending => {
                    self.note_stall(thread);
                    return Step::Wait;
                }
                Next::Busy => {
                    self.note_stall(thread);
                    return Step::At(now_us + RETRY_US);
                }
                Next::End | Next::PictureEnd => match self.next_picture(now_us) {
                    NextPicture::Found => continue,
                    NextPicture::NotYet => return Step::At(now_us + GROWTH_US),
                    NextPicture::End => return self.finish(),
                },
                Next::Failed(reason) => return Step::Fail(PlayError::Source(reason)),
            };
            let due = match self.pace(departure, thread, now_us) {
                Pace::Now(due) => due,
                Pace::Later(step) => return step,
                Pace::Skipped => continue,
            };
            if !is_sent {
                self.playhead.pass();
                self.progress.set_position(departure.at_us);
                continue;
            }
            match self.transmit(&due, thread, now_us, token) {
                // Its client is late, or there is no time to keep.
                Ok(SendOutcome::Sent(())) if self.is_behind() || self.replay.unpaced => {}
                Ok(SendOutcome::Sent(())) => thread.counters.lateness_seconds.record(due.late_us),
                Ok(SendOutcome::Queued) => return Step::Queued,
                Err(error) => return self.after_error(error, thread, now_us),
            }
        }
        Step::At(now_us)
    }

    /// Sends or queues a departure, and those behind it that leave with it.
    fn transmit(
        &mut self,
        due: &Due,
        thread: &mut ThreadState,
        now_us: u64,
        token: u64,
    ) -> Result<SendOutcome<()>, SendError> {
        let Due { departure, late_us, end_us } = *due;
        let index = self.streams.index(departure.train.run.stream);
        if self.playhead.begins_intra() {
            self.streams.numbering(index).seek(self.shift_us);
        }
        self.streams.numbering(index).begin(numbers(&departure));
        let headers = self.streams.headers(index, self.playhead.mapped_file());
        let mut trains = std::mem::take(&mut thread.trains);
        // At an end, trains behind this one may begin another access unit.
        let departure = if self.ending.is_some() || self.streams.is_extended(index) {
            self.playhead.departure_alone(departure, end_us, &mut trains)
        } else {
            self.playhead.departure(departure, end_us, headers, &mut trains)
        };
        if self.streams.connection().is_some() {
            trains.keep_first(); // frames have the headers of one run in a call
        }
        let sent = self.send(index, &departure, &mut trains, thread, token);
        thread.trains = trains;
        if let Ok(SendOutcome::Queued) = sent {
            self.queued = Some((departure, now_us - late_us));
        }
        sent
    }

    /// Notes that the kernel copied a queued train.
    pub(crate) fn note_copied(&mut self) {
        self.streams.note_copied();
    }

    /// Handles the result of a queued train: the number of bytes sent.
    pub(crate) fn note_result(
        &mut self,
        result: Result<u32, SendError>,
        thread: &mut ThreadState,
        now_us: u64,
        token: u64,
    ) -> Step {
        let Some((departure, due_us)) = self.queued.take() else { return Step::At(now_us) };
        let Some(file) = self.playhead.mapped_file() else { return Step::At(now_us) };
        let train = departure.train;
        let index = self.streams.index(train.run.stream);
        let queued = StoredTrains { file, trains: &[train], headers: Headers::Stored };
        let result = self.streams.finish(index, queued, result, thread, token);
        match self.settle(index, &[train], result, thread) {
            Ok(packets) if packets < train.packets() => {} // another path is next, or the rest of the train
            Ok(_) => {
                self.note_departure(&departure, train.length, thread);
                if !self.is_behind() {
                    thread.counters.lateness_seconds.record(now_us.saturating_sub(due_us));
                }
            }
            Err(error) => return self.after_error(error, thread, now_us),
        }
        Step::At(now_us)
    }

    pub(crate) fn fail(&mut self, error: PlayError) {
        self.progress.rest();
        if let Some(reply) = self.reply.take() {
            reply(Err(error.clone()));
        }
        self.fail_ending(&error);
        (self.on_event)(PlaybackEvent::Failed(error));
    }

    /// Counts a wait for the source once.
    fn note_stall(&mut self, thread: &ThreadState) {
        if !std::mem::replace(&mut self.waits_for_source, true) {
            self.waits_at_edge = self.playhead.source().is_at_edge(self.playhead.cursor().segment);
            thread.counters.io_stalls.add(u64::from(!self.waits_at_edge));
        }
    }

    /// Starts the timetable with the first departure after a request to play, and replies. On a connection
    /// the reply comes first; the timetable starts when the response to PLAY is written.
    fn begin(&mut self, departure: &Departure, thread: &mut ThreadState, now_us: u64, burst_us: u64) {
        self.renumber(departure);
        let is_asked = self.reply.is_some();
        let is_held = self.streams.connection_mut().is_some_and(|connection| {
            connection.is_held |= is_asked;
            connection.is_held
        });
        if !is_held {
            let playbacks = thread.counters.playbacks.value();
            let first_us = begin_us(self.speed.time_us(departure.at_us), burst_us);
            let due_us = thread.slots.next_us(now_us, first_us, burst_us, playbacks);
            let timetable = Timetable::starting(departure.at_us, due_us, burst_us, self.speed);
            self.playing = Some(Playing::new(timetable, &thread.counters));
            if let Some(scan) = &mut self.scan {
                let session_us = departure.at_us.wrapping_add_signed(self.shift_us);
                scan.begin(departure.at_us, timetable.time_of(departure.at_us), session_us);
            }
            self.note_clock(departure);
        }
        if let Some(reply) = self.reply.take() {
            let stored = |stream| self.playhead.next_numbers(stream);
            reply(Ok(self.streams.position(departure, stored)));
        }
    }

    /// Continues the numbers if packets were sent from another position before.
    fn renumber(&mut self, departure: &Departure) {
        if std::mem::take(&mut self.is_sought)
            && self.streams.iter().any(|stream| stream.numbering.has_sent())
        {
            let left_at_us = self.left_at_us.max(self.progress.position_us());
            self.shift_us = self.shift_us.wrapping_add(left_at_us.wrapping_sub(departure.at_us) as i64);
            self.streams.seek(self.shift_us);
            self.streams.leave();
            self.progress.set_position(departure.at_us);
        }
        self.left_at_us = 0;
        let number = departure.train.run.stream;
        if self.streams.iter().any(|stream| stream.number == number) {
            let index = self.streams.index(number);
            if self.playhead.begins_intra() {
                self.streams.numbering(index).seek(self.shift_us);
            }
            self.streams.numbering(index).begin(numbers(departure));
        }
    }

    /// Stores the position that the playback leaves, if it has one.
    fn note_place(&mut self) {
        let scan = self.scan.as_ref().filter(|_| self.playing.is_some());
        let scanned_us = scan.and_then(|scan| scan.left_us(now_us()));
        self.left_at_us = scanned_us.or(self.playhead.at_us()).unwrap_or(self.left_at_us);
    }

    /// Shifts the timetable so that the burst of `departure` is due now.
    fn resync(&mut self, departure: &Departure, now_us: u64) {
        if let Some(Playing { timetable, .. }) = &mut self.playing {
            timetable.resync(now_us);
        }
        self.note_clock(departure);
    }

    /// Shifts the timetable for good, since the recording did not have `departure` before.
    fn delay(&mut self, departure: &Departure, now_us: u64) {
        if let Some(Playing { timetable, .. }) = &mut self.playing {
            timetable.delay(now_us);
        }
        self.note_clock(departure);
    }

    /// Stores the RTP clocks of all streams by the timetable and a departure.
    fn note_clock(&self, departure: &Departure) {
        let Some(Playing { timetable, .. }) = &self.playing else { return };
        let at_us = timetable.time_of(departure.at_us);
        for stream in self.streams.iter() {
            let timestamp = stream.numbering.timestamp_at(departure.at_us, numbers(departure));
            self.progress.stream(stream.number).set_clock(Some(RtpClock {
                at_us,
                timestamp,
                speed: self.speed,
            }));
        }
        let scale = self.scan.as_ref().map_or(Scale::NORMAL, |scan| scan.pictures.scale);
        self.progress.begin(self.speed, scale);
    }

    /// Sends the trains of a departure, or their first packets if the socket accepts no more, and advances. Or queues
    /// the departure, which is one train then, without advancing yet.
    fn send(
        &mut self,
        index: usize,
        departure: &Departure,
        trains: &mut JoinedTrains,
        thread: &mut ThreadState,
        token: u64,
    ) -> Result<SendOutcome<()>, SendError> {
        let is_extended = self.streams.is_extended(index);
        let length = trains.trains().iter().map(|train| train.length).sum();
        while let Some(train) = trains.trains().first().copied() {
            let Some(file) = self.playhead.mapped_file() else { break };
            if is_extended {
                let at_us = departure.at_us + departure.train.delay_us(train.first - departure.train.first);
                let departure = Departure { at_us, train };
                self.streams.extend(index, &departure, self.playhead.clock(), self.replay.cseq);
            }
            let headers = self.streams.headers(index, Some(file));
            let stored = StoredTrains { file, trains: trains.trains(), headers };
            let result = match self.streams.send(index, stored, thread, token) {
                Ok(SendOutcome::Queued) => return Ok(SendOutcome::Queued),
                Ok(SendOutcome::Sent(packets)) => Ok(packets),
                Err(error) => Err(error),
            };
            let passed = self.settle(index, trains.trains(), result, thread)?;
            if is_extended && passed > 0 {
                self.streams.note_extended(index);
            }
            trains.pass(passed);
        }
        self.note_departure(departure, length, thread);
        Ok(SendOutcome::Sent(()))
    }

    /// Advances by the sent or lost packets of trains. Returns their number: 0 if another path has to send
    /// the trains.
    fn settle(
        &mut self,
        index: usize,
        trains: &[Train],
        result: Result<u32, SendError>,
        thread: &ThreadState,
    ) -> Result<u32, SendError> {
        let result = match result {
            Err(error @ SendError::Unsupported { .. }) => {
                match self.streams.step_down(index, error, &thread.support) {
                    Ok(()) => return Ok(0),
                    Err(error) => Err(error),
                }
            }
            result => result,
        };
        let passed = match result {
            Ok(packets) => {
                self.count(index, trains, packets, thread);
                packets
            }
            Err(error) if self.streams.loses(index, &error) => {
                // The path may have tried no other train.
                let packets = trains.first().map_or(0, Train::packets);
                thread.counters.packets_lost.add(packets.into());
                self.progress.note_loss(packets, &error);
                packets
            }
            Err(error) => return Err(error),
        };
        if let Some(next) = self.playhead.advance(passed) {
            self.streams.numbering(index).advance((next.sequence, next.timestamp));
        }
        Ok(passed)
    }

    /// Notes that a departure of so many stored bytes was sent.
    fn note_departure(&mut self, departure: &Departure, length: u32, thread: &ThreadState) {
        thread.counters.trains.increment();
        if let Some(scan) = &mut self.scan {
            scan.note_sent(length);
        }
        self.progress.set_position(departure.at_us);
    }

    /// Counts the first packets of trains of the stream at an index.
    fn count(&self, index: usize, trains: &[Train], packets: u32, thread: &ThreadState) {
        let headers = self.streams.headers(index, self.playhead.mapped_file());
        let (mut left, mut payload_bytes, mut padding) = (packets, 0, 0);
        for train in trains {
            let sent = train.up_to(left);
            payload_bytes += sent.payload_length(headers);
            padding += sent.padding();
            left -= sent.packets();
        }
        thread.counters.packets.add(packets.into());
        thread.counters.payload_bytes.add(payload_bytes.into());
        let Some(train) = trains.first() else { return };
        let progress = self.progress.stream(train.run.stream);
        progress.packets.add(packets.into());
        // Sender reports count octets without padding (RFC 3550 section 6.4.1).
        progress.payload_bytes.add(payload_bytes.saturating_sub(padding).into());
    }

    fn finish(&mut self) -> Step {
        self.rest_at_end();
        if self.ending.is_some() {
            return Step::Wait; // its request follows
        }
        match self.reply.take() {
            Some(reply) => reply(Err(PlayError::BeyondEnd)),
            None => (self.on_event)(PlaybackEvent::Finished),
        }
        Step::Wait
    }

    /// Rests at the end of the range or of the source.
    fn rest_at_end(&mut self) {
        // At the end of a range the next packet is known.
        if self.playhead.at_us().is_none() && !self.is_sought {
            self.left_at_us = self.playhead.end_us().unwrap_or_default();
        }
        self.rest();
    }

    fn rest(&mut self) {
        self.note_place();
        self.playhead.rest();
        self.waits_for_source = false;
        self.playing = None;
        self.rest_output();
        self.progress.rest();
    }

    fn rest_output(&mut self) {
        if let Some(connection) = self.streams.connection_mut() {
            connection.rest();
        }
    }

    fn after_error(&mut self, error: SendError, thread: &ThreadState, now_us: u64) -> Step {
        let is_interleaved = self.streams.connection().is_some();
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
