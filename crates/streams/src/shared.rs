//! State that the parts of a stream share: settings, events, the turn, and errors.

use rustix::event::epoll::EventFlags;
use wirepath_datapath::LendingSwitch;
use wirepath_engine::{TURN_BYTES, Watcher};

use crate::chain::ChainError;
use crate::error::StreamError;
use crate::event::{OnEvent, StreamEvent};
use crate::events::EventSlot;
use crate::object::{Object, ObjectError};
use crate::port::Port;
use crate::storage::StorageJob;

/// Value to be dropped later, because dropping may block: closing a file, for example.
pub(crate) type DeferredDrop = Box<dyn Send>;

pub(crate) type OnDetached = Box<dyn FnOnce(Object) + Send>;

/// Epoll flags of inputs and outputs. Edge-triggered: a port stays ready until a call reports that it is not.
pub(crate) const READING: EventFlags =
    EventFlags::IN.union(EventFlags::PRI).union(EventFlags::RDHUP).union(EventFlags::ET);
pub(crate) const WRITING: EventFlags = EventFlags::OUT.union(EventFlags::ET);

/// Settings of all inputs and outputs, from the builder.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    /// Outputs are shut down when the stream has ended well.
    pub(crate) finishes_outputs: bool,
    pub(crate) survives_outputs: bool,
    pub(crate) survives_inputs: bool,
    /// The stream ends when a connection fails, whatever the stream waits for.
    pub(crate) ends_with_connections: bool,
    /// Time limit of a stall, in microseconds.
    pub(crate) stall_us: u64,
    /// Stalls are limited at any time, not only when the stream waits for nothing else.
    pub(crate) limits_stalls: bool,
}

/// State that the parts of a stream share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) turn: Turn,
    /// False if an object does not support the zero-copy route.
    pub(crate) may_zero_copy: bool,
    pub(crate) lending: LendingSwitch,
    /// The lending rule is the only obstacle to the zero-copy route.
    pub(crate) copies_by_rule: bool,
    /// Storage jobs for the engine; they may block.
    pub(crate) storage: Vec<StorageJob>,
    pub(crate) deferred_drops: Vec<DeferredDrop>,
    /// Set on an engine.
    pub(crate) watcher: Option<Watcher>,
    /// The watcher watches the objects: after the first turn, in which a short stream ends.
    pub(crate) is_watching: bool,
    /// Error that occurred between two turns.
    pub(crate) failed: Option<StreamError>,
    /// First error of the input side: no more bytes are read, and the stream ends with this error after the
    /// bytes read before have left.
    pub(crate) failing: Option<StreamError>,
    pub(crate) on_event: Option<Box<OnEvent>>,
    /// Events for the holders of the stream's descriptor.
    pub(crate) events: EventSlot,
}

impl Shared {
    pub(crate) fn new(settings: Settings, lending: LendingSwitch, on_event: Option<Box<OnEvent>>) -> Shared {
        Shared {
            settings,
            turn: Turn::default(),
            may_zero_copy: true,
            lending,
            copies_by_rule: false,
            storage: Vec::new(),
            deferred_drops: Vec::new(),
            watcher: None,
            is_watching: false,
            failed: None,
            failing: None,
            on_event,
            events: EventSlot::default(),
        }
    }

    pub(crate) fn fail(&mut self, error: StreamError) {
        self.failing.get_or_insert(error);
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.failing.is_some()
    }

    pub(crate) fn tell(&mut self, event: StreamEvent) {
        self.events.push(&event);
        if let Some(on_event) = &mut self.on_event {
            on_event(event);
        }
    }

    /// Reports the first record that a handler refused.
    pub(crate) fn tell_refusal(&mut self, refusal: Option<ChainError>) {
        if let Some(ChainError { handler, error }) = refusal {
            let (by, error) = (format!("handler {handler}"), error.to_string());
            self.tell(StreamEvent::RecordRefused { by, error });
        }
    }

    /// Watches an object, unless the object is always ready. Before the first turn on an engine has ended, nothing
    /// is watched.
    pub(crate) fn watch(&self, port: Port, object: &Object, flags: EventFlags) -> Result<(), ObjectError> {
        let (Some(watcher), Some(descriptor)) = (self.active_watcher(), object.descriptor()) else {
            return Ok(());
        };
        watcher.add(descriptor, port.token(), flags).map_err(|errno| object.error("epoll_ctl", errno))
    }

    /// Watches an attached object. If that fails, the next turn ends the stream.
    pub(crate) fn watch_attached(&mut self, port: Port, object: &Object, flags: EventFlags) {
        if let Err(error) = self.watch(port, object, flags) {
            self.failed = Some(error.into());
        }
    }

    pub(crate) fn unwatch(&self, object: &Object) {
        if let (Some(watcher), Some(descriptor)) = (self.active_watcher(), object.descriptor()) {
            watcher.remove(descriptor);
        }
    }

    pub(crate) fn active_watcher(&self) -> Option<&Watcher> {
        self.watcher.as_ref().filter(|_| self.is_watching)
    }

    /// Returns an object by the callback of its detach, or closes it.
    pub(crate) fn hand_over(&mut self, mut object: Object, detach: Option<OnDetached>) {
        match detach {
            Some(on_detached) => {
                object.forget_told();
                object.restore();
                on_detached(object);
            }
            None => {
                object.close_connection();
                self.deferred_drops.push(Box::new(object));
            }
        }
    }
}

/// Allowance of a turn in bytes; bytes in and out count alike.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    allowance: u64,
    /// Value of `moved` at which the turn is over.
    end: u64,
    /// Bytes moved, in this turn and before.
    moved: u64,
    /// Bytes already charged to turns: bytes that are written between two turns are charged to the next turn.
    charged: u64,
    /// Number of outputs that get each byte.
    copies: u64,
}

/// Most and fewest bytes of one call. Without copies, half a mebibyte moves in about 200 microseconds; in
/// calls of an eighth of that it takes a quarter more processor time.
const MOST: usize = 1 << 20;
const LEAST: usize = 512 << 10;
const PAGE: usize = 4096;

impl Turn {
    pub(crate) fn begin(&mut self, allowance: u64) {
        (self.allowance, self.end) = (allowance, self.charged.saturating_add(allowance));
    }

    /// Ends the turn; returns its charge.
    pub(crate) fn charge(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.charged, self.moved);
        self.moved - before
    }

    pub(crate) fn add(&mut self, bytes: u64) {
        self.moved += bytes;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.moved >= self.end
    }

    pub(crate) fn set_copies(&mut self, copies: usize) {
        self.copies = copies as u64;
    }

    /// Most bytes to read: each byte counts when it is read, and once for each output that gets it.
    pub(crate) fn room(&self) -> usize {
        let left = self.end.saturating_sub(self.moved) / (1 + self.copies);
        // A rate may leave little room. A whole turn is exceeded rather than split into small calls.
        let least = if self.allowance >= TURN_BYTES { LEAST } else { PAGE };
        usize::try_from(left).unwrap_or(MOST).clamp(least, MOST)
    }
}
