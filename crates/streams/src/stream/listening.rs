//! Inputs and outputs that listen and become the accepted connection.
//!
//! A stream begins when all are connected that it was built with. Those that were attached later are
//! expected: until they are connected they have no turn and no record, and nothing waits for them.

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use std::os::fd::AsFd;

use super::Stream;
use crate::error::StreamError;
use crate::event::StreamEvent;
use crate::framing::Framing;
use crate::intake::InputStatus;
use crate::object::{Kind, Listener, Object, ObjectError};
use crate::outbox::Dropped;
use crate::outputs::{Output, OutputOptions, OutputStatus};
use crate::port::Port;
use crate::shared::{OnDetached, READING, Shared, WRITING};

/// Time until the next attempt to accept a connection for which there was no descriptor or memory, in
/// microseconds.
const ACCEPT_AGAIN_US: u64 = 1_000_000;

#[derive(Default)]
pub(super) struct Listening {
    /// All are connected that the stream was built with.
    has_begun: bool,
    /// Attached later.
    expected: Vec<Expected>,
    /// Time of the next attempt after there was no descriptor.
    again_us: Option<u64>,
}

/// An input or output that was attached later and listens.
struct Expected {
    port: Port,
    object: Object,
    /// A connection may have come: no call has said otherwise since.
    readable: bool,
    role: Role,
}

enum Role {
    Input(Framing),
    Output(OutputOptions),
}

impl Listening {
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Time until the next attempt, if one is due.
    pub(super) fn accept_again_us(&self) -> Option<u64> {
        self.again_us.map(|_| ACCEPT_AGAIN_US)
    }

    pub(super) fn expect_input(&mut self, port: Port, object: Object, framing: Framing) {
        self.expected.push(Expected { port, object, readable: true, role: Role::Input(framing) });
    }

    pub(super) fn expect_output(&mut self, port: Port, object: Object, options: OutputOptions) {
        self.expected.push(Expected { port, object, readable: true, role: Role::Output(options) });
    }

    pub(super) fn expects_input(&self) -> bool {
        self.expected.iter().any(Expected::is_input)
    }

    pub(super) fn expects_output(&self) -> bool {
        !self.expected.iter().all(Expected::is_input)
    }

    pub(super) fn output_options(&mut self, port: Port) -> Option<&mut OutputOptions> {
        let expected = self.expected.iter_mut().find(|expected| expected.port == port)?;
        match &mut expected.role {
            Role::Output(options) => Some(options),
            Role::Input(_) => None,
        }
    }

    /// Notes that a connection may have come. Returns false if none is expected there.
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

    /// The objects that are to be watched for a connection.
    pub(super) fn awaited(&self) -> impl Iterator<Item = (Port, &Object)> {
        let awaited = self.expected.iter().filter(|expected| !expected.readable);
        awaited.map(|expected| (expected.port, &expected.object))
    }

    pub(super) fn input_statuses(&self) -> impl Iterator<Item = InputStatus> {
        self.expected.iter().filter(|expected| expected.is_input()).map(Expected::input_status)
    }

    pub(super) fn output_statuses(&self) -> impl Iterator<Item = OutputStatus> {
        self.expected.iter().filter(|expected| !expected.is_input()).map(Expected::output_status)
    }
}

impl Expected {
    fn is_input(&self) -> bool {
        matches!(self.role, Role::Input(_))
    }

    fn input_status(&self) -> InputStatus {
        let (port, name) = (self.port, self.object.name.clone());
        InputStatus { port, name, bytes: 0, records: 0, malformed: Dropped::default() }
    }

    fn output_status(&self) -> OutputStatus {
        OutputStatus {
            port: self.port,
            name: self.object.name.clone(),
            bytes: 0,
            waiting_bytes: 0,
            dropped: Dropped::default(),
            lost_bytes: 0,
            icmp_errors: 0,
            reports: Vec::new(),
        }
    }
}

impl Stream {
    /// Accepts connections that have come. Returns whether there were any.
    pub(super) fn accept(&mut self, now_us: u64) -> Result<bool, StreamError> {
        if self.listening.has_begun && self.listening.expected.is_empty() {
            self.listening.again_us = None;
            return Ok(false); // as nearly always: nothing is looked at in vain
        }
        if self.listening.again_us.is_some_and(|again_us| now_us < again_us) {
            return Ok(false);
        }
        self.listening.again_us = None;
        let have_come = !self.listening.has_begun && self.accept_awaited(now_us)?;
        Ok(self.accept_expected(now_us)? | have_come)
    }

    /// Accepts those of the inputs and outputs that the stream was built with.
    fn accept_awaited(&mut self, now_us: u64) -> Result<bool, StreamError> {
        let mut progressed = false;
        for place in 0..self.intake.inputs.len() {
            let input = &mut self.intake.inputs[place];
            if !(input.readable && input.is_open() && input.object.is_listening()) {
                continue;
            }
            match accept(input.port, &mut input.object, &self.shared, READING) {
                Ok(accepted) => {
                    input.readable = accepted.is_ready();
                    progressed |= accepted.has_come();
                    if input.readable {
                        let port = input.port;
                        self.intake.note_ready(port);
                    }
                    self.note_accepted(accepted, now_us);
                }
                Err(error) => self.intake.fail_input(place, error.into(), &mut self.shared),
            }
        }
        let mut place = 0;
        while let Some(output) = self.outputs.current.get_mut(place) {
            place += 1;
            if !(output.writable && output.object.is_listening()) {
                continue;
            }
            match accept(output.port, &mut output.object, &self.shared, WRITING) {
                Ok(accepted) => {
                    output.writable = accepted.is_ready();
                    progressed |= accepted.has_come();
                    self.note_accepted(accepted, now_us);
                }
                Err(error) => {
                    place -= 1;
                    self.outputs.fail(place, error, &mut self.shared)?;
                }
            }
        }
        let awaits_input =
            self.intake.inputs.iter().any(|input| input.is_open() && input.object.is_listening());
        let awaits_output = self.outputs.current.iter().any(|output| output.object.is_listening());
        self.listening.has_begun = !(awaits_input || awaits_output);
        Ok(progressed)
    }

    /// Accepts those of inputs and outputs that were attached later.
    fn accept_expected(&mut self, now_us: u64) -> Result<bool, StreamError> {
        let (mut place, mut progressed) = (0, false);
        while let Some(expected) = self.listening.expected.get_mut(place) {
            if !expected.readable {
                place += 1;
                continue;
            }
            let flags = if expected.is_input() { READING } else { WRITING };
            match accept(expected.port, &mut expected.object, &self.shared, flags) {
                Ok(accepted) => {
                    expected.readable = accepted.is_ready();
                    let has_come = accepted.has_come();
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

    /// Has an input or output take part that was expected.
    fn insert_expected(&mut self, place: usize) -> Port {
        let Expected { port, object, role, .. } = self.listening.expected.remove(place);
        match role {
            Role::Input(framing) => self.insert_input(port, object, framing),
            Role::Output(options) => self.insert_output(Output::new(port, object, options)),
        }
        port
    }

    /// Gives one back that is not connected: an input now, an output in the next turn, as any that has
    /// nothing to send. Returns false if none of this port and kind is expected.
    pub(super) fn detach_expected(&mut self, port: Port, is_input: bool, on_detached: OnDetached) -> bool {
        let is_it = |expected: &Expected| expected.port == port && expected.is_input() == is_input;
        let Some(place) = self.listening.expected.iter().position(is_it) else { return false };
        let Expected { object, role, .. } = self.listening.expected.remove(place);
        match role {
            Role::Input(_) => {
                self.shared.unwatch(&object);
                self.shared.tell(StreamEvent::InputGone { port, name: object.name.clone() });
                self.shared.hand_over(object, Some(on_detached));
            }
            Role::Output(options) => {
                self.outputs.detach_unused(Output::new(port, object, options), on_detached);
            }
        }
        true
    }
}

struct Accepted {
    /// Set if a connection was accepted.
    listener: Option<Listener>,
    event: Option<StreamEvent>,
    /// Descriptors or memory are missing now.
    is_short: bool,
}

impl Accepted {
    fn has_come(&self) -> bool {
        self.listener.is_some()
    }

    /// Returns whether there may be something for the next call.
    fn is_ready(&self) -> bool {
        self.has_come() || self.is_short
    }
}

/// Has an object become the accepted connection, which is watched in place of its listener.
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
    if let Some(watcher) = &shared.watcher {
        watcher.remove(listener.as_fd());
    }
    shared.watch(port, object, flags)?;
    let event = listener.is_told.then(|| StreamEvent::Connected { port, name: object.name.clone() });
    Ok(Accepted { listener: Some(listener), event, is_short: false })
}

/// Result without a connection: the first time with the listening event, later with that of a shortage.
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

/// Returns whether there is no descriptor or memory now; the connection waits in the socket's queue.
fn is_shortage(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
}
