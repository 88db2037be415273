//! One output: its handlers, what waits for it, and its object.

use wirepath_datapath::Pipe;
use wirepath_engine::StallDetector;

use crate::chain::Chain;
use crate::handler::Handler;
use crate::object::{Kind, Object, ObjectError, StoredFile, Take};
use crate::outbox::{Dropped, Offered, Outbox, WhenFull};
use crate::port::Port;
use crate::record::Run;
use crate::shared::{OnDetached, Shared, WRITING};
use crate::storage::{Job, StorageJob};
use crate::throughput::Throughput;

/// Bytes that wait for an output, unless said otherwise.
const WAITING: usize = 256 * 1024;

/// What holds for one output.
#[derive(Debug)]
pub struct OutputOptions {
    /// Handlers of records for this output, behind those of the stream.
    pub handlers: Vec<Handler>,
    /// What happens when the output takes nothing.
    pub when_full: WhenFull,
    /// Most bytes that wait for it, except for the run that goes over.
    pub waiting_bytes: usize,
}

impl Default for OutputOptions {
    fn default() -> OutputOptions {
        OutputOptions { handlers: Vec::new(), when_full: WhenFull::default(), waiting_bytes: WAITING }
    }
}

/// An output of a stream.
pub(crate) struct Output {
    pub(crate) port: Port,
    pub(crate) object: Object,
    pub(crate) chain: Chain,
    pub(crate) outbox: Outbox,
    /// What moves to it without copies.
    pub(crate) pipe: Option<Pipe>,
    /// It takes only what is copied.
    pub(super) copies: bool,
    /// May take something: no call has said otherwise since.
    pub(crate) writable: bool,
    /// Its descriptor is watched.
    is_watched: bool,
    /// Waits for storage.
    pub(crate) busy: bool,
    /// Bytes that are being written elsewhere, or could not be.
    pub(crate) storing: usize,
    /// Did not keep up.
    pub(super) is_disconnected: bool,
    /// Got the beginning of a record and not yet its end.
    pub(crate) within_record: bool,
    pub(super) detach: Option<OnDetached>,
    /// Of what it took and its peer acknowledged, once that is looked at.
    pub(super) stall_detector: StallDetector<u64>,
    pub(super) throughput: Throughput,
    pub(crate) bytes: u64,
    pub(crate) lost_bytes: u64,
}

/// What an output did so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputStatus {
    /// Its port.
    pub port: Port,
    /// Its name.
    pub name: String,
    /// Bytes that it took.
    pub bytes: u64,
    /// Bytes that wait for it, if only for the rest of a record that a handler of its takes whole, or that it
    /// failed to take.
    pub waiting_bytes: u64,
    /// What was dropped because it was full.
    pub dropped: Dropped,
    /// Bytes of datagrams that did not leave: there was no route, a filter forbade it, or they were too long
    /// for it.
    pub lost_bytes: u64,
    /// How often the network reported (ICMP) that datagrams which the output had taken were not delivered:
    /// usually because nobody listens. They are among [`OutputStatus::bytes`], since nothing says which they
    /// were, and one report may be of several.
    pub icmp_errors: u64,
    /// What its own handlers report: the handler, what, and how much.
    pub reports: Vec<(&'static str, &'static str, u64)>,
}

/// Final status of an output that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedOutput {
    /// Its counters; what waited for it was dropped.
    pub status: OutputStatus,
    /// Reason for which it is gone.
    pub why: String,
}

/// Returns whether an output is watched from the beginning. One of datagrams is watched only while it is
/// full: epoll would report every datagram that leaves, because each makes room (`sock_wfree`).
pub(super) fn is_always_watched(object: &Object) -> bool {
    !object.has_records()
}

impl Output {
    pub(crate) fn new(port: Port, object: Object, options: OutputOptions) -> Output {
        let mut chain = Chain::default();
        options.handlers.into_iter().for_each(|handler| chain.push(handler));
        let is_watched = is_always_watched(&object);
        Output {
            port,
            object,
            chain,
            outbox: Outbox::new(options.waiting_bytes, options.when_full),
            pipe: None,
            copies: false,
            writable: true,
            is_watched,
            busy: false,
            storing: 0,
            is_disconnected: false,
            within_record: false,
            detach: None,
            stall_detector: StallDetector::default(),
            throughput: Throughput::default(),
            bytes: 0,
            lost_bytes: 0,
        }
    }

    /// Returns whether its descriptor is watched.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    pub(crate) fn status(&self) -> OutputStatus {
        OutputStatus {
            port: self.port,
            name: self.object.name.clone(),
            bytes: self.bytes,
            waiting_bytes: (self.outbox.bytes() + self.bytes_beyond()) as u64,
            dropped: self.outbox.dropped(),
            lost_bytes: self.lost_bytes,
            icmp_errors: self.object.icmp_errors(),
            reports: self.chain.reports(),
        }
    }

    pub(super) fn ended_status(&self, why: String) -> EndedOutput {
        let dropped = self.undelivered();
        EndedOutput { status: OutputStatus { dropped, waiting_bytes: 0, ..self.status() }, why }
    }

    /// Returns whether nothing waits for it.
    pub(crate) fn is_idle(&self) -> bool {
        self.outbox.is_empty() && !self.busy && self.held() == 0
    }

    /// Bytes that wait for it outside its outbox: in its pipe, being written, or gathered for a handler.
    fn bytes_beyond(&self) -> usize {
        self.held() + self.storing + self.chain.gathered()
    }

    /// What was dropped, and what would be if the output went now.
    fn undelivered(&self) -> Dropped {
        let Dropped { records, bytes } = self.outbox.dropped();
        Dropped { records, bytes: bytes + self.bytes_beyond() as u64 }
    }

    /// Drops all that waits for it; returns what it did not get, now and before.
    pub(super) fn drop_waiting(&mut self) -> Dropped {
        self.outbox.drop_all();
        self.outbox.note_lost(self.chain.drop_gathered());
        self.undelivered()
    }

    /// Gives it a run through its own handlers.
    pub(super) fn offer(&mut self, run: Run, made: &mut Vec<Run>, shared: &mut Shared) -> Offered {
        self.within_record = !run.ends;
        if self.chain.is_empty() {
            return self.outbox.offer(run);
        }
        if self.chain.has_failed() {
            self.outbox.note_lost(run.bytes.len());
            return Offered::Done;
        }
        let bytes = run.bytes.len() + self.chain.gathered();
        if let Err(error) = self.chain.apply(run, made) {
            let made: usize = made.iter().map(|run| run.bytes.len()).sum();
            self.outbox.note_lost(bytes.saturating_sub(made + self.chain.gathered()));
            shared.fail(error.into());
        }
        let mut offered = Offered::Done;
        for run in made.drain(..) {
            if self.outbox.offer(run) == Offered::Disconnect {
                offered = Offered::Disconnect;
            }
        }
        shared.tell_refusal(self.chain.take_refusal());
        offered
    }

    /// Takes of what waits; returns how many bytes, or None if nothing could be done.
    pub(super) fn send(&mut self, shared: &mut Shared, now_us: u64) -> Result<Option<usize>, ObjectError> {
        if self.held() > 0 {
            return self.drain_pipe(shared, now_us);
        }
        if self.outbox.is_empty() || !self.writable || self.busy {
            return Ok(None);
        }
        match self.object.take(&mut self.outbox)? {
            Take::Taken(bytes) => {
                self.note_taken(bytes, now_us);
                Ok(Some(bytes))
            }
            Take::Lost(bytes) => {
                self.lost_bytes += bytes as u64;
                Ok(Some(bytes))
            }
            Take::Full => {
                self.writable = false;
                Ok(None)
            }
            Take::Incomplete => Ok(None),
            Take::Write(batch) => {
                (self.busy, self.storing) = (true, batch.bytes());
                shared.storage.push(StorageJob { port: self.port, job: Job::Write(batch) });
                Ok(Some(0))
            }
        }
    }

    /// It took so many bytes.
    pub(crate) fn note_taken(&mut self, bytes: usize, now_us: u64) {
        self.bytes += bytes as u64;
        self.throughput.add(bytes, now_us);
        if let Kind::File(StoredFile { progress: Some(progress), .. }) = &self.object.kind {
            progress.advance(bytes as u64);
        }
    }

    /// Watches it from the beginning of a run on an engine.
    pub(super) fn watch(&mut self, shared: &Shared) -> Result<(), ObjectError> {
        self.is_watched = is_always_watched(&self.object) || !self.writable;
        if self.is_watched { shared.watch(self.port, &self.object, WRITING) } else { Ok(()) }
    }

    /// Watches it while it is full, if it is not watched anyway.
    pub(super) fn watch_full(&mut self, shared: &Shared) -> Result<(), ObjectError> {
        if shared.watcher.is_none() || self.writable || self.is_watched {
            return Ok(());
        }
        self.is_watched = true;
        shared.watch(self.port, &self.object, WRITING)
    }

    /// It may have room again.
    pub(super) fn note_room(&mut self, shared: &Shared) {
        self.writable = true;
        if self.is_watched && !is_always_watched(&self.object) {
            self.is_watched = false;
            shared.unwatch(&self.object);
        }
    }

    /// Nobody waits for it any more. Whoever does next is not told what was ready before, so all is tried.
    pub(super) fn forget_readiness(&mut self) {
        self.writable = true;
        self.stall_detector = StallDetector::default();
    }

    /// Returns whether it has taken nothing, or its peer acknowledged nothing, for longer than `stall_us`.
    /// For what is being written to a file, its storage answers.
    pub(super) fn has_stalled(&mut self, stall_us: u64, now_us: u64) -> bool {
        // What a connection has taken may be long on its way, to a peer that reads slowly.
        let unacknowledged = self.object.unacknowledged();
        let delivered = (self.bytes + self.lost_bytes).wrapping_sub(unacknowledged.into());
        !self.busy && !self.writable && self.stall_detector.sample(delivered, now_us) > stall_us
    }

    /// Returns whether the peer has acknowledged all that the connection took.
    pub(crate) fn has_delivered(&mut self, stall_us: u64, now_us: u64) -> Result<bool, ObjectError> {
        let unacknowledged = self.object.undelivered()?;
        if self.stall_detector.sample(unacknowledged.into(), now_us) > stall_us && unacknowledged > 0 {
            return Err(self.object.error("shutdown", rustix::io::Errno::TIMEDOUT));
        }
        Ok(unacknowledged == 0)
    }
}
