//! Listening inputs and outputs, which become the accepted connection.
//!
//! Before they are connected they have no turn and no record. A stream begins when all listening objects that
//! it was built with are connected; nothing waits for objects that were attached later.

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use std::os::fd::AsFd;

use super::Stream;
use crate::chain::Chain;
use crate::error::StreamError;
use crate::event::StreamEvent;
use crate::framing::Framing;
use crate::intake::InputStatus;
use crate::object::{Kind, Listener, Object, ObjectError};
use crate::outputs::{Output, OutputOptions, OutputStatus};
use crate::port::Port;
use crate::shared::{OnDetached, READING, Shared, WRITING};

/// Time until accepting is retried after descriptors or memory were missing, in microseconds.
const ACCEPT_AGAIN_US: u64 = 1_000_000;

#[derive(Default)]
pub(super) struct Listening {
    expected: Vec<Expected>,
    /// Time of the next attempt after descriptors were missing.
    again_us: Option<u64>,
}

/// A listening input or output.
struct Expected {
    port: Port,
    object: Object,
    /// A connection may have come: no call has found the queue empty since.
    readable: bool,
    /// The stream was built with the object, and begins only after it is connected.
    delays_begin: bool,
    role: Role,
}

pub(super) enum Role {
    Input(Framing),
    Output(OutputOptions, Box<Chain>),
}

impl Listening {
    /// Returns whether all listening objects that the stream was built with are connected.
    pub(super) fn has_begun(&self) -> bool {
        !self.expected.iter().any(|expected| expected.delays_begin)
    }

    /// Time until the next attempt to accept, if one is due.
    pub(super) fn accept_again_us(&self) -> Option<u64> {
        self.again_us.map(|_| ACCEPT_AGAIN_US)
    }

    pub(super) fn expect(&mut self, port: Port, object: Object, role: Role, delays_begin: bool) {
        self.expected.push(Expected { port, object, readable: true, delays_begin, role });
    }

    pub(super) fn expects_input(&self) -> bool {
        self.expected.iter().any(Expected::is_input)
    }

    pub(super) fn expects_output(&self) -> bool {
        !self.expected.iter().all(Expected::is_input)
    }

    /// Options and handlers of an expected output.
    pub(super) fn output(&mut self, port: Port) -> Option<(&mut OutputOptions, &mut Chain)> {
        let expected = self.expected.iter_mut().find(|expected| expected.port == port)?;
        match &mut expected.role {
            Role::Output(options, chain) => Some((options, chain)),
            Role::Input(_) => None,
        }
    }

    /// Handlers of the expected outputs.
    pub(super) fn chains(&mut self) -> impl Iterator<Item = &mut Chain> {
        self.expected.iter_mut().filter_map(|expected| match &mut expected.role {
            Role::Output(_, chain) => Some(chain.as_mut()),
            Role::Input(_) => None,
        })
    }

    /// Marks a listener as ready for accepting. Returns false if there is no listener with this port.
    pub(super) fn note_ready(&mut self, port: Port) -> bool {
        let expected = self.expected.iter_mut().find(|expected| expected.port == port);
        expected.map(|expected| expected.readable = true).is_some()
    }

    pub(super) fn note_all_ready(&mut self) {
        self.expected.iter_mut().for_each(|expected| expected.readable = true);
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = (Port, &Object)> {
        self.expected.iter().map(|expected| (expected.port, &expected.object))
    }

    /// Objects to watch for a connection.
    pub(super) fn awaited(&self) -> impl Iterator<Item = (Port, &Object)> {
        let awaited = self.expected.iter().filter(|expected| !expected.readable);
        awaited.map(|expected| (expected.port, &expected.object))
    }

    pub(super) fn input_statuses(&self) -> impl Iterator<Item = InputStatus> {
        let inputs = self.expected.iter().filter(|expected| expected.is_input());
        inputs.map(|expected| InputStatus::new(expected.port, &expected.object))
    }

    pub(super) fn output_statuses(&self) -> impl Iterator<Item = OutputStatus> {
        self.expected.iter().filter_map(|Expected { port, object, role, .. }| match role {
            Role::Output(_, chain) => {
                let (handlers, trust) = (chain.statuses(), chain.trust);
                Some(OutputStatus { handlers, trust, ..OutputStatus::new(*port, object) })
            }
            Role::Input(_) => None,
        })
    }
}

impl Expected {
    fn is_input(&self) -> bool {
        matches!(self.role, Role::Input(_))
    }
}

impl Stream {
    /// Accepts connections that have come. Returns whether there was one.
    pub(super) fn accept(&mut self, now_us: u64) -> Result<bool, StreamError> {
        if self.listening.again_us.is_some_and(|again_us| now_us < again_us) {
            return Ok(false);
        }
        self.listening.again_us = None;
        let (mut place, mut progressed) = (0, false);
        while let Some(expected) = self.listening.expected.get_mut(place) {
            if !expected.readable {
                place += 1;
                continue;
            }
            let flags = if expected.is_input() { READING } else { WRITING };
            match accept(expected.port, &mut expected.object, &self.shared, flags) {
                Ok(accepted) => {
                    expected.readable = accepted.is_short;
                    let has_come = accepted.listener.is_some();
                    self.note_accepted(accepted, now_us);
                    progressed |= has_come;
                    if has_come {
                        self.insert_expected(place);
                    } else {
                        place += 1;
                    }
                }
                Err(error) => {
                    let port = self.insert_expected(place);
                    match (self.intake.place_of(port), self.outputs.place_of(port)) {
                        (Some(place), _) => self.intake.fail_input(place, error.into(), &mut self.shared),
                        (None, Some(place)) => self.outputs.fail(place, error, &mut self.shared)?,
                        (None, None) => {}
                    }
                }
            }
        }
        Ok(progressed)
    }

    fn note_accepted(&mut self, accepted: Accepted, now_us: u64) {
        let Accepted { listener, event, is_short } = accepted;
        if let Some(listener) = listener {
            self.shared.deferred_drops.push(Box::new(listener));
        }
        if let Some(event) = event {
            self.shared.tell(event);
        }
        if is_short {
            self.listening.again_us = Some(now_us + ACCEPT_AGAIN_US);
        }
    }

    /// Inserts an expected input or output into the stream after it was connected.
    fn insert_expected(&mut self, place: usize) -> Port {
        // Before the stream begins, outputs keep the order of the builder.
        let in_order = !self.listening.has_begun();
        let Expected { port, object, role, .. } = self.listening.expected.remove(place);
        match role {
            Role::Input(framing) => self.insert_input(port, object, framing),
            Role::Output(options, chain) => {
                self.insert_output(Output::new(port, object, &options, *chain), in_order);
            }
        }
        port
    }

    /// Detaches an object that is not connected: an input at once, an output in the next turn, like any
    /// output that has nothing to send. Returns false if no object with this port and kind is expected.
    pub(super) fn detach_expected(&mut self, port: Port, is_input: bool, on_detached: OnDetached) -> bool {
        let is_it = |expected: &Expected| expected.port == port && expected.is_input() == is_input;
        let Some(place) = self.listening.expected.iter().position(is_it) else { return false };
        let Expected { object, role, .. } = self.listening.expected.remove(place);
        match role {
            Role::Input(_) => {
                self.intake.has_input_ended = true;
                self.shared.unwatch(&object);
                self.shared.tell(StreamEvent::InputGone { port, name: object.name.clone() });
                self.shared.hand_over(object, Some(on_detached));
            }
            Role::Output(options, chain) => {
                self.outputs.detach_unused(Output::new(port, object, &options, *chain), on_detached);
            }
        }
        true
    }
}

struct Accepted {
    /// The listener, if a connection was accepted.
    listener: Option<Listener>,
    event: Option<StreamEvent>,
    /// Descriptors or memory are missing.
    is_short: bool,
}

/// Turns an object into the accepted connection, and watches it in place of its listener.
fn accept(
    port: Port,
    object: &mut Object,
    shared: &Shared,
    flags: EventFlags,
) -> Result<Accepted, ObjectError> {
    let listener = match object.accept() {
        Ok(Some(listener)) => listener,
        Ok(None) => return Ok(still_waits(port, object, None)),
        Err(error) if is_shortage(error.errno) => return Ok(still_waits(port, object, Some(&error))),
        Err(error) => return Err(error),
    };
    if let Some(watcher) = shared.active_watcher() {
        watcher.remove(listener.as_fd());
    }
    shared.watch(port, object, flags)?;
    let event = listener.is_told.then(|| StreamEvent::Connected { port, name: object.name.clone() });
    Ok(Accepted { listener: Some(listener), event, is_short: false })
}

/// Result without a connection: with the listening event the first time, later with the event of the first
/// shortage.
fn still_waits(port: Port, object: &mut Object, shortage: Option<&ObjectError>) -> Accepted {
    let mut accepted = Accepted { listener: None, event: None, is_short: shortage.is_some() };
    let Kind::Listening(listener) = &mut object.kind else { return accepted };
    accepted.event = if std::mem::replace(&mut listener.is_told, true) {
        let failed = shortage.filter(|_| !std::mem::replace(&mut listener.is_failure_told, true));
        failed.map(|error| StreamEvent::ListeningFailed { port, error: error.to_string() })
    } else {
        Some(StreamEvent::Listening { port, name: object.name.clone(), address: listener.address() })
    };
    accepted
}

/// Returns whether descriptors or memory are missing; the connection waits in the socket's queue.
fn is_shortage(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
}
