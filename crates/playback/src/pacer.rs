//! The pacer: a task that sends the trains of all playbacks of one engine thread when they are due.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use slab::Slab;
use wirepath_datapath::{
    JoinedTrains, LendingSwitch, Region, RegisterError, RegistrationProgress, SendContext, SendError,
    bytes_read_by_thread, prefetch,
};
use wirepath_engine::{BlockingPool, Context, Cost, Event, Handle, Task, TimerWheel, now_us};

use crate::counters::ThreadCounters;
use crate::paced_playback::{PacedPlayback, Step, TRAINS_PER_STEP};
use crate::request::{PlayError, PlayRequest, Position, Reply};
use crate::ring_use::RingUse;
use crate::settings::PlaybackSettings;
use crate::slots::Slots;
use crate::streams::OtherStream;
use crate::thread_state::ThreadState;

mod moving;
mod writers;

pub(crate) struct Pacer {
    thread: ThreadState,
    playbacks: Slab<Entry>,
    /// Keys in `playbacks` by the identity that commands and wakers carry.
    keys: HashMap<u64, usize>,
    /// Pacers of other threads, by the identity of the playbacks and writers that were moved there.
    moved: HashMap<u64, Handle<Pacer>>,
    /// Keys of writers of RTSP connections by the identity that commands carry.
    writer_keys: HashMap<u64, usize>,
    /// Due times of playbacks.
    wheel: TimerWheel,
    /// Results of queued trains, by the playback's key.
    results: Vec<(u64, Result<u32, SendError>)>,
    opens_ring: bool,
    /// Time of the next poll of memory that is being unregistered; the network may still be using it.
    poll_at_us: Option<u64>,
    registration_failures: Arc<Mutex<Vec<RegisterError>>>,
    cold_reads: ColdReads,
}

/// Reads of storage for which the thread itself had to wait, sampled, since each sample is a kernel call.
#[derive(Default)]
struct ColdReads {
    next_us: u64,
    /// Bytes at the last sample.
    bytes: Option<u64>,
}

impl ColdReads {
    fn note(&mut self, now_us: u64, counters: &ThreadCounters) {
        if now_us < self.next_us {
            return;
        }
        self.next_us = now_us + SAMPLE_US;
        let Ok(bytes) = bytes_read_by_thread() else { return };
        let before = self.bytes.replace(bytes).unwrap_or(bytes);
        counters.cold_bytes.add(bytes.saturating_sub(before));
    }
}

struct Entry {
    id: u64,
    playback: Box<PacedPlayback>,
}

/// Playbacks that are prefetched together: some 15 KiB.
const BATCH: usize = 32;

/// Time between two samples of reads from storage.
const SAMPLE_US: u64 = 100_000;

/// Time between two polls of memory that is being unregistered.
const POLL_US: u64 = 100_000;

impl Pacer {
    pub(crate) fn new(
        settings: &PlaybackSettings,
        lending: LendingSwitch,
        counters: Arc<ThreadCounters>,
        registration_failures: Arc<Mutex<Vec<RegisterError>>>,
    ) -> Pacer {
        let PlaybackSettings { support, ring, burst } = settings.clone();
        Pacer {
            thread: ThreadState {
                context: SendContext::default(),
                trains: JoinedTrains::with_room(),
                counters,
                support,
                slots: Slots::default(),
                maps: ring.maps(),
                lending,
                burst,
                burst_us: burst.length_us(0),
                writers: Slab::new(),
            },
            playbacks: Slab::new(),
            keys: HashMap::new(),
            moved: HashMap::new(),
            writer_keys: HashMap::new(),
            wheel: TimerWheel::new(now_us()),
            results: Vec::new(),
            opens_ring: ring != RingUse::Never,
            poll_at_us: None,
            registration_failures,
            cold_reads: ColdReads::default(),
        }
    }

    pub(crate) fn add(&mut self, id: u64, playback: Box<PacedPlayback>) -> usize {
        let key = self.playbacks.insert(Entry { id, playback });
        self.keys.insert(id, key);
        key
    }

    /// Sends another stream of a playback.
    pub(crate) fn add_stream(&mut self, id: u64, other: Box<OtherStream>) {
        if let Some(pacer) = self.moved_to(id) {
            return pacer.with(move |pacer, _| pacer.add_stream(id, other));
        }
        // The playback may have failed meanwhile.
        if let Some((_, playback)) = self.find(id) {
            playback.add_stream(*other);
        }
    }

    pub(crate) fn play(
        &mut self,
        id: u64,
        request: PlayRequest,
        reply: Reply<Position>,
        context: &mut Context<'_>,
    ) {
        if let Some(pacer) = self.moved_to(id) {
            return pacer.with(move |pacer, context| pacer.play(id, request, reply, context));
        }
        let Some((key, playback)) = self.find(id) else { return reply(Err(PlayError::Over)) };
        playback.play(request, reply, now_us());
        self.thread.set_burst();
        self.step_alone(key);
        self.set_timer(context);
    }

    pub(crate) fn pause(&mut self, id: u64, reply: Reply<u64>, context: &mut Context<'_>) {
        if let Some(pacer) = self.moved_to(id) {
            return pacer.with(move |pacer, context| pacer.pause(id, reply, context));
        }
        let Some((key, playback)) = self.find(id) else { return reply(Err(PlayError::Over)) };
        playback.pause(reply, now_us());
        match playback.is_ending() {
            true => self.step_alone(key),
            false => self.wheel.cancel(key),
        }
        self.set_timer(context);
    }

    pub(crate) fn stop(&mut self, id: u64, reply: Reply<u64>, context: &mut Context<'_>) {
        if let Some(pacer) = self.moved_to(id) {
            return pacer.with(move |pacer, context| pacer.stop(id, reply, context));
        }
        let Some((key, playback)) = self.find(id) else { return reply(Err(PlayError::Over)) };
        playback.stop(reply);
        self.wheel.cancel(key);
        self.set_timer(context);
    }

    pub(crate) fn remove(&mut self, id: u64, context: &mut Context<'_>) {
        if let Some(pacer) = self.moved.remove(&id) {
            return pacer.with(move |pacer, context| pacer.remove(id, context));
        }
        if let Some((key, _)) = self.find(id) {
            self.remove_key(key);
            self.set_timer(context);
        }
    }

    pub(crate) fn register(&mut self, region: Arc<Region>, context: &mut Context<'_>) {
        self.thread.context.register(region);
        context.request_turn();
    }

    pub(crate) fn unregister(&mut self, region_id: u64, context: &mut Context<'_>) {
        self.thread.context.unregister(region_id);
        context.request_turn();
    }

    fn find(&mut self, id: u64) -> Option<(usize, &mut PacedPlayback)> {
        let key = *self.keys.get(&id)?;
        Some((key, &mut self.playbacks.get_mut(key)?.playback))
    }

    fn remove_key(&mut self, key: usize) {
        self.wheel.cancel(key);
        let Entry { id, playback } = self.playbacks.remove(key);
        self.keys.remove(&id);
        if let Some(writer) = playback.writer().and_then(|writer| self.thread.writers.get_mut(writer)) {
            writer.detach(key);
        }
    }

    /// Sends all trains due now. Trains that become due meanwhile wait until commands and events are handled;
    /// otherwise an overloaded thread would never handle a stop.
    ///
    /// Playbacks have left the processor's caches between their trains, so those of a batch are prefetched
    /// together, level by level: first the playbacks, then the data that they point to, then the data that
    /// those point to.
    fn send_due(&mut self) {
        self.thread.set_burst();
        let now = now_us();
        loop {
            let mut batch = [0; BATCH];
            let mut length = 0;
            while length < BATCH
                && let Some(key) = self.wheel.pop(now)
            {
                batch[length] = key;
                length += 1;
            }
            let batch = &batch[..length];
            if batch.is_empty() {
                return self.flush();
            }
            let playbacks = || batch.iter().filter_map(|key| Some(&*self.playbacks.get(*key)?.playback));
            playbacks().for_each(prefetch);
            playbacks().for_each(PacedPlayback::prefetch_parts);
            playbacks().for_each(PacedPlayback::prefetch_departure);
            // The clock is read for each playback, so that the lateness is exact.
            batch.iter().for_each(|key| self.step(*key, now_us()));
            if self.thread.context.queued() > 0 && self.thread.context.room() < BATCH {
                self.flush();
            }
        }
    }

    /// Steps a playback, and sends what it queues: the next command may be for the same playback or
    /// connection.
    fn step_alone(&mut self, key: usize) {
        self.step(key, now_us());
        self.flush();
    }

    fn step(&mut self, key: usize, now_us: u64) {
        if let Some(Entry { playback, .. }) = self.playbacks.get_mut(key) {
            let step = playback.step(&mut self.thread, now_us, key as u64);
            self.conclude(key, step);
        }
    }

    /// Sends all queued trains in one call, and passes each result to its playback. Some playbacks may have
    /// more trains due and queue again; after some rounds these wait until others have had their turn.
    fn flush(&mut self) {
        let mut round = 0;
        while self.thread.context.queued() > 0 {
            round += 1;
            self.send_queued();
            let now_us = now_us();
            for index in 0..self.results.len() {
                let (key, result) = (self.results[index].0 as usize, self.results[index].1);
                let Some(Entry { playback, .. }) = self.playbacks.get_mut(key) else { continue };
                match playback.note_result(result, &mut self.thread, now_us, key as u64) {
                    Step::At(at_us) if at_us <= now_us && round < TRAINS_PER_STEP => self.step(key, now_us),
                    step => self.conclude(key, step),
                }
            }
        }
    }

    fn send_queued(&mut self) {
        let Pacer { thread, results, .. } = self;
        results.clear();
        thread.context.flush(|key, result| results.push((key, result)));
        thread.counters.batches.increment();
        thread.counters.trains_out.set(thread.context.in_flight() as u64);
        self.note_copied();
    }

    /// Tells playbacks that the kernel copied their trains. If a key has a new playback by now, that playback
    /// counts a few too many.
    fn note_copied(&mut self) {
        let Pacer { thread, playbacks, .. } = self;
        for key in thread.context.take_copied() {
            thread.counters.trains_copied.increment();
            if let Some(entry) = playbacks.get_mut(key as usize) {
                entry.playback.note_copied();
            }
        }
    }

    fn conclude(&mut self, key: usize, step: Step) {
        match step {
            Step::At(at_us) => self.wheel.set(key, at_us),
            Step::Queued => {}
            Step::Wait => self.wheel.cancel(key),
            Step::Fail(error) => {
                if let Some(entry) = self.playbacks.get_mut(key) {
                    entry.playback.fail(error);
                    self.remove_key(key);
                }
            }
        }
    }

    /// Continues to register and unregister memory.
    fn poll_registrations(&mut self, context: &mut Context<'_>) {
        let progress = self.thread.context.poll_registrations().unwrap_or_else(|failed| {
            self.registration_failures.lock().push(failed);
            RegistrationProgress::More
        });
        self.poll_at_us = match progress {
            RegistrationProgress::More => {
                context.request_turn();
                None
            }
            RegistrationProgress::Later => Some(now_us() + POLL_US),
            RegistrationProgress::Done => None,
        };
    }

    fn set_timer(&self, context: &mut Context<'_>) {
        match [self.wheel.next_us(), self.poll_at_us].into_iter().flatten().min() {
            Some(at_us) => context.set_timer(at_us),
            None => context.clear_timer(),
        }
    }
}

impl Task for Pacer {
    /// Opens the io_uring, which belongs to the thread that opens it.
    fn start(&mut self, _context: &mut Context<'_>) {
        if !self.opens_ring {
            return;
        }
        match self.thread.context.open_ring() {
            Ok(()) => self.results.reserve(self.thread.context.room()),
            Err(error) => {
                tracing::warn!(%error, "cannot open an io_uring; this thread sends by other data paths");
            }
        }
    }

    fn fire(&mut self, context: &mut Context<'_>) {
        let begun_us = now_us();
        self.send_due();
        let ended_us = now_us();
        self.thread.counters.busy_seconds.add_us(ended_us.saturating_sub(begun_us));
        self.cold_reads.note(ended_us, &self.thread.counters);
        if self.poll_at_us.is_some_and(|at_us| at_us <= now_us()) {
            self.poll_at_us = None;
            context.request_turn();
        }
        self.set_timer(context);
    }

    /// An RTSP connection has room.
    fn ready(&mut self, event: Event, context: &mut Context<'_>) {
        self.resume_writer(event.token as usize);
        self.set_timer(context);
    }

    /// A segment is ready, or cannot be read. Playbacks that wait for the same segment are due together then,
    /// as a batch.
    fn wake(&mut self, token: u64, context: &mut Context<'_>) {
        if let Some((key, playback)) = self.find(token)
            && playback.waits_for_source
        {
            self.wheel.set(key, 0);
            self.set_timer(context);
        }
    }

    fn turn(&mut self, _allowance: u64, context: &mut Context<'_>) -> Cost {
        self.poll_registrations(context);
        self.set_timer(context);
        Cost::default()
    }

    fn end(mut self: Box<Self>, _pool: &BlockingPool) {
        for (_, Entry { playback, .. }) in &mut self.playbacks {
            playback.fail(PlayError::Over);
        }
    }
}
