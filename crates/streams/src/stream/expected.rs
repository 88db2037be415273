//! Inputs and outputs that were attached to a stream that is built, and listen. Until somebody has come they are none: no turn is theirs,
//! no record, and nobody waits for them.

use super::admit::admit;
use super::watch::{READING, WRITING};
use super::{
    InputStatus, OnDetached, Output, OutputOptions, OutputStatus, Port, Stream, StreamError, StreamEvent,
};
use crate::framing::Framing;
use crate::object::Object;
use crate::outbox::Dropped;

/// One that waits for somebody to connect.
pub(super) struct Expected {
    pub(super) port: Port,
    pub(super) object: Object,
    /// Somebody may have come: no call has said otherwise since.
    pub(super) readable: bool,
    role: Role,
}

/// What it will be.
enum Role {
    Input(Framing),
    Output(OutputOptions),
}

impl Expected {
    pub(super) fn input(port: Port, object: Object, framing: Framing) -> Expected {
        Expected { port, object, readable: true, role: Role::Input(framing) }
    }

    pub(super) fn output(port: Port, object: Object, options: OutputOptions) -> Expected {
        Expected { port, object, readable: true, role: Role::Output(options) }
    }

    pub(super) fn is_input(&self) -> bool {
        matches!(self.role, Role::Input(_))
    }

    pub(super) fn input_status(&self) -> Option<InputStatus> {
        let (port, name) = (self.port, self.object.name.clone());
        self.is_input().then(|| InputStatus {
            port,
            name,
            bytes: 0,
            records: 0,
            malformed: Dropped::default(),
        })
    }

    pub(super) fn output_status(&self) -> Option<OutputStatus> {
        let (port, name) = (self.port, self.object.name.clone());
        (!self.is_input()).then(|| OutputStatus {
            port,
            name,
            bytes: 0,
            waiting_bytes: 0,
            dropped: Dropped::default(),
            lost_bytes: 0,
            icmp_errors: 0,
            reports: Vec::new(),
        })
    }
}

impl Stream {
    /// Whether there is an output that somebody may come to.
    pub(super) fn expects_output(&self) -> bool {
        !self.expected.iter().all(Expected::is_input)
    }

    /// Whether it has no input, and none that somebody may come to in time.
    pub(super) fn has_no_input(&self) -> bool {
        self.inputs.is_empty() && (self.failing.is_some() || !self.expected.iter().any(Expected::is_input))
    }

    /// What an output to which nobody has come is to be.
    pub(super) fn expected_output(&mut self, port: Port) -> Option<&mut OutputOptions> {
        let expected = self.expected.iter_mut().find(|expected| expected.port == port)?;
        match &mut expected.role {
            Role::Output(options) => Some(options),
            Role::Input(_) => None,
        }
    }

    /// Takes connections that have come to those that were attached later; answers whether there were any.
    pub(super) fn admit_expected(&mut self, now_us: u64) -> Result<bool, StreamError> {
        let (mut place, mut progressed) = (0, false);
        while let Some(expected) = self.expected.get_mut(place) {
            if !expected.readable {
                place += 1;
                continue;
            }
            let flags = if expected.is_input() { READING } else { WRITING };
            match admit(expected.port, &mut expected.object, self.watcher.as_ref(), flags) {
                Ok(admitted) => {
                    expected.readable = admitted.is_ready();
                    let has_come = admitted.has_come();
                    self.note_admitted(admitted, now_us);
                    progressed |= has_come;
                    if has_come {
                        self.seat(place);
                    } else {
                        place += 1;
                    }
                }
                Err(error) => match self.seat(place) {
                    Seat::Input(place) => self.input_failed(place, error.into()),
                    Seat::Output(place) => self.output_failed(place, error)?,
                },
            }
        }
        Ok(progressed)
    }

    /// Has one take part.
    fn seat(&mut self, place: usize) -> Seat {
        let Expected { port, object, role, .. } = self.expected.remove(place);
        match role {
            Role::Input(framing) => Seat::Input(self.seat_input(port, object, framing)),
            Role::Output(options) => Seat::Output(self.seat_output(port, object, options)),
        }
    }

    /// Gives one back to which nobody has come: an input now, an output in the next turn, as any that has nothing to send. False if there
    /// is none of this port and kind.
    pub(super) fn detach_expected(&mut self, port: Port, is_input: bool, on_detached: OnDetached) -> bool {
        let is_it = |expected: &Expected| expected.port == port && expected.is_input() == is_input;
        let Some(place) = self.expected.iter().position(is_it) else { return false };
        let Expected { object, role, .. } = self.expected.remove(place);
        match role {
            Role::Input(_) => {
                Stream::release(self.watcher.as_ref(), &object);
                self.tell(StreamEvent::InputGone { port, name: object.name.clone() });
                self.hand_over(object, Some(on_detached));
            }
            Role::Output(options) => {
                let mut output = Output::new(port, object, options);
                output.detach = Some(on_detached);
                self.leaving.push(output);
            }
        }
        true
    }
}

/// Where one takes part.
enum Seat {
    Input(usize),
    Output(usize),
}
