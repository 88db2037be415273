//! One output: its handlers, its outbox and its object.

use std::mem;

use wirepath_datapath::Pipe;
use wirepath_engine::StallDetector;

use crate::chain::Chain;
use crate::handler::{Handler, HandlerStatus};
use crate::object::{Kind, Object, ObjectError, StoredFile, WriteOutcome};
use crate::outbox::{Dropped, Offered, Outbox, WhenFull};
use crate::port::Port;
use crate::record::Run;
use crate::shared::{OnDetached, Shared, WRITING};
use crate::storage::{Job, StorageJob};
use crate::throughput::Throughput;
use crate::trust::Trust;

/// Default of [`OutputOptions::waiting_bytes`].
const WAITING: usize = 256 * 1024;

/// Options of an output.
#[derive(Debug)]
pub struct OutputOptions {
    /// Handlers of records for this output, after the handlers of the stream.
    pub handlers: Vec<Handler>,
    /// Handling of records when the outbox is full.
    pub when_full: WhenFull,
    /// Most bytes in the outbox, except for the run that exceeds it.
    pub waiting_bytes: usize,
}

impl Default for OutputOptions {
    fn default() -> OutputOptions {
        OutputOptions { handlers: Vec::new(), when_full: WhenFull::default(), waiting_bytes: WAITING }
    }
}

pub(crate) struct Output {
    pub(crate) port: Port,
    pub(crate) object: Object,
    pub(crate) chain: Chain,
    pub(crate) outbox: Outbox,
    /// Pipe for the zero-copy route.
    pub(crate) pipe: Option<Pipe>,
    /// The descriptor does not support `splice`.
    pub(super) copies: bool,
    /// A write may succeed: no write has found the output full since it became ready.
    pub(crate) writable: bool,
    pub(crate) is_watched: bool,
    /// The output waits for storage.
    pub(crate) busy: bool,
    /// Bytes that a storage job is writing, or could not write.
    pub(crate) storing: usize,
    pub(super) is_disconnected: bool,
    /// The output got the beginning of a record but not yet its end.
    pub(crate) within_record: bool,
    pub(super) detach: Option<OnDetached>,
    /// Samples the bytes that the peer has acknowledged.
    pub(super) stall_detector: StallDetector<u64>,
    pub(crate) throughput: Throughput,
    pub(crate) bytes: u64,
    pub(crate) lost_bytes: u64,
}

/// Status of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputStatus {
    /// Port of the output.
    pub port: Port,
    /// Name of the output.
    pub name: String,
    /// Bytes that the output took.
    pub bytes: u64,
    /// Bytes that wait for the output: in its outbox and pipe, gathered for its handlers, being written, or
    /// not written because writing failed.
    pub waiting_bytes: u64,
    /// Records dropped because the outbox was full.
    pub dropped: Dropped,
    /// Bytes of datagrams that did not leave: no route, a filter, or too long.
    pub lost_bytes: u64,
    /// ICMP errors for datagrams that the output had taken, mostly because no process listens at the
    /// destination. The datagrams are included in [`OutputStatus::bytes`], because the errors do not identify
    /// them, and one error may stand for several.
    pub icmp_errors: u64,
    /// Reports of the output's own handlers: the handler's name, and the name and value.
    pub reports: Vec<(&'static str, &'static str, u64)>,
    /// Handlers of the output.
    pub handlers: Vec<HandlerStatus>,
    /// Trust in the peer of the output.
    pub trust: Trust,
    /// Reason why the output was removed; None while it exists. Its waiting records were then dropped.
    pub why_gone: Option<String>,
}

impl OutputStatus {
    pub(crate) fn new(port: Port, object: &Object) -> OutputStatus {
        OutputStatus {
            port,
            name: object.name.clone(),
            bytes: 0,
            waiting_bytes: 0,
            dropped: Dropped::default(),
            lost_bytes: 0,
            icmp_errors: object.icmp_errors(),
            reports: Vec::new(),
            handlers: Vec::new(),
            trust: Trust::FULL,
            why_gone: None,
        }
    }
}

/// Returns whether an output is watched from the beginning. A datagram output is watched only while it is
/// full: epoll would report every datagram that leaves, because each makes room (`sock_wfree`).
pub(super) fn is_always_watched(object: &Object) -> bool {
    !object.has_records()
}

impl Output {
    /// An output with these options, except their handlers, which are in `chain`.
    pub(crate) fn new(port: Port, object: Object, options: &OutputOptions, chain: Chain) -> Output {
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

    pub(crate) fn status(&self) -> OutputStatus {
        OutputStatus {
            bytes: self.bytes,
            waiting_bytes: (self.outbox.bytes + self.bytes_beyond()) as u64,
            dropped: self.outbox.dropped,
            lost_bytes: self.lost_bytes,
            reports: self.chain.reports(),
            handlers: self.chain.statuses(),
            trust: self.chain.trust,
            ..OutputStatus::new(self.port, &self.object)
        }
    }

    /// Status of a removed output, whose waiting records were dropped.
    pub(super) fn last_status(&self, why_gone: String) -> OutputStatus {
        OutputStatus {
            bytes: self.bytes,
            dropped: self.undelivered(),
            lost_bytes: self.lost_bytes,
            trust: self.chain.trust,
            why_gone: Some(why_gone),
            ..OutputStatus::new(self.port, &self.object)
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.outbox.is_empty() && !self.busy && self.held() == 0
    }

    /// Bytes that wait for the output outside its outbox: in its pipe, being written, or gathered for a
    /// handler.
    pub(crate) fn bytes_beyond(&self) -> usize {
        self.held() + self.storing + self.chain.gathered()
    }

    /// Records dropped so far, plus those that would be dropped if the output were removed now.
    fn undelivered(&self) -> Dropped {
        let Dropped { records, bytes } = self.outbox.dropped;
        Dropped { records, bytes: bytes + self.bytes_beyond() as u64 }
    }

    /// Drops all waiting records; returns the records that the output did not get, now and before.
    pub(super) fn drop_waiting(&mut self) -> Dropped {
        self.outbox.drop_all();
        self.outbox.note_lost(self.chain.drop_gathered());
        self.undelivered()
    }

    /// Gives a run to the output through its own handlers.
    pub(super) fn offer(&mut self, run: Run, made: &mut Vec<Run>, shared: &mut Shared) -> Offered {
        self.within_record = !run.ends;
        if self.chain.is_empty() {
            return self.outbox.offer(run);
        }
        if let Err(error) = self.chain.handle(run, made) {
            shared.fail(error.into());
        }
        self.outbox.note_lost(mem::take(&mut self.chain.dropped_bytes) as usize);
        let mut offered = Offered::Done;
        for run in made.drain(..) {
            if self.outbox.offer(run) == Offered::Disconnect {
                offered = Offered::Disconnect;
            }
        }
        shared.tell_refusal(self.chain.take_refusal());
        offered
    }

    /// Sends waiting bytes; returns their number, or None if nothing could be done.
    pub(super) fn send(&mut self, shared: &mut Shared, now_us: u64) -> Result<Option<usize>, ObjectError> {
        if self.held() > 0 {
            return self.drain_pipe(shared, now_us);
        }
        if self.outbox.is_empty() || !self.writable || self.busy {
            return Ok(None);
        }
        match self.object.write_from(&mut self.outbox)? {
            WriteOutcome::Written(bytes) => {
                self.note_taken(bytes, now_us);
                Ok(Some(bytes))
            }
            WriteOutcome::Lost(bytes) => {
                self.lost_bytes += bytes as u64;
                Ok(Some(bytes))
            }
            WriteOutcome::Full => {
                self.writable = false;
                Ok(None)
            }
            WriteOutcome::Incomplete => Ok(None),
            WriteOutcome::Write(batch) => {
                (self.busy, self.storing) = (true, batch.bytes());
                shared.storage.push(StorageJob { port: self.port, job: Job::Write(batch) });
                Ok(Some(0))
            }
        }
    }

    pub(crate) fn note_taken(&mut self, bytes: usize, now_us: u64) {
        self.bytes += bytes as u64;
        self.throughput.add(bytes, now_us);
        if let Kind::File(StoredFile { progress: Some(progress), .. }) = &self.object.kind {
            progress.advance(bytes as u64);
        }
    }

    pub(super) fn watch(&mut self, shared: &Shared) -> Result<(), ObjectError> {
        self.is_watched = is_always_watched(&self.object) || !self.writable;
        if self.is_watched { shared.watch(self.port, &self.object, WRITING) } else { Ok(()) }
    }

    /// Watches the output while it is full, if it is not always watched.
    pub(super) fn watch_full(&mut self, shared: &Shared) -> Result<(), ObjectError> {
        if !shared.is_watching || self.writable || self.is_watched {
            return Ok(());
        }
        self.is_watched = true;
        shared.watch(self.port, &self.object, WRITING)
    }

    pub(super) fn note_room(&mut self, shared: &Shared) {
        self.writable = true;
        if self.is_watched && !is_always_watched(&self.object) {
            self.is_watched = false;
            shared.unwatch(&self.object);
        }
    }

    /// Resets readiness and stall detection, for the next engine or caller.
    pub(super) fn forget_readiness(&mut self) {
        self.writable = true;
        self.stall_detector = StallDetector::default();
    }

    /// Returns whether the output has taken nothing, or its peer has acknowledged nothing, for longer than
    /// `stall_us`. A storage job does not count as a stall.
    pub(super) fn has_stalled(&mut self, stall_us: u64, now_us: u64) -> bool {
        // A connection may need long to send to a peer that reads slowly.
        let unacknowledged = self.object.unacknowledged();
        let delivered = (self.bytes + self.lost_bytes).wrapping_sub(unacknowledged.into());
        !self.busy && !self.writable && self.stall_detector.sample(delivered, now_us) > stall_us
    }

    /// Returns whether the peer has acknowledged everything; an error after `stall_us` without progress.
    pub(crate) fn has_delivered(&mut self, stall_us: u64, now_us: u64) -> Result<bool, ObjectError> {
        let unacknowledged = self.object.undelivered()?;
        if self.stall_detector.sample(unacknowledged.into(), now_us) > stall_us && unacknowledged > 0 {
            return Err(self.object.error("no acknowledgement for too long", rustix::io::Errno::TIMEDOUT));
        }
        Ok(unacknowledged == 0)
    }
}
