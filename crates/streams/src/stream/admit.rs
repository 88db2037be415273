//! Connections that are waited for: inputs and outputs that listen become the connection that comes. What a stream was built with it
//! waits for before it begins; who was attached later is [expected](super::expected), and keeps nobody waiting.

use std::os::fd::AsFd;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use wirepath_engine::Watcher;

use super::watch::{READING, WRITING, watch};
use super::{Input, Port, Stream, StreamError, StreamEvent, Supply};
use crate::object::{Kind, Listener, Object, ObjectError};

/// When a connection is accepted again for which there was no descriptor or memory, in microseconds.
const ACCEPT_AGAIN_US: u64 = 1_000_000;

/// What became of one that listens.
pub(super) struct Admitted {
    /// Where it waited, if somebody has come.
    before: Option<Listener>,
    event: Option<StreamEvent>,
    /// Nobody can come now.
    is_short: bool,
}

impl Admitted {
    pub(super) fn has_come(&self) -> bool {
        self.before.is_some()
    }

    /// Whether there may be something for the next call.
    pub(super) fn is_ready(&self) -> bool {
        self.has_come() || self.is_short
    }
}

impl Stream {
    /// Takes connections that have come; answers whether there were any. The stream has begun when none is waited for any more of those
    /// that it was built with.
    pub(super) fn admit(&mut self, now_us: u64) -> Result<bool, StreamError> {
        if self.has_begun && self.expected.is_empty() {
            self.accept_again_us = None;
            return Ok(false); // as nearly always: nobody is looked at for nothing
        }
        if self.accept_again_us.is_some_and(|again_us| now_us < again_us) {
            return Ok(false);
        }
        self.accept_again_us = None;
        let have_come = !self.has_begun && self.admit_awaited(now_us)?;
        Ok(self.admit_expected(now_us)? | have_come)
    }

    fn admit_awaited(&mut self, now_us: u64) -> Result<bool, StreamError> {
        let mut progressed = false;
        for place in 0..self.inputs.len() {
            let input = &mut self.inputs[place];
            if !(input.readable && input.is_awaited()) {
                continue;
            }
            match admit(input.port, &mut input.object, self.watcher.as_ref(), READING) {
                Ok(admitted) => {
                    input.readable = admitted.is_ready();
                    progressed |= admitted.has_come();
                    self.wake_input(place);
                    self.note_admitted(admitted, now_us);
                }
                Err(error) => self.input_failed(place, error.into()),
            }
        }
        let mut place = 0;
        while let Some(output) = self.outputs.get_mut(place) {
            place += 1;
            if !(output.writable && output.object.is_listening()) {
                continue;
            }
            match admit(output.port, &mut output.object, self.watcher.as_ref(), WRITING) {
                Ok(admitted) => {
                    output.writable = admitted.is_ready();
                    progressed |= admitted.has_come();
                    self.note_admitted(admitted, now_us);
                }
                Err(error) => {
                    place -= 1;
                    self.output_failed(place, error)?;
                }
            }
        }
        let mut outputs = self.outputs.iter();
        let awaits =
            self.inputs.iter().any(Input::is_awaited) || outputs.any(|output| output.object.is_listening());
        self.has_begun = !awaits;
        Ok(progressed)
    }

    pub(super) fn note_admitted(&mut self, admitted: Admitted, now_us: u64) {
        let Admitted { before, event, is_short } = admitted;
        if let Some(listener) = before {
            self.remains.push(Box::new(listener));
        }
        if let Some(event) = event {
            self.tell(event);
        }
        if is_short {
            self.accept_again_us = Some(now_us + ACCEPT_AGAIN_US);
        }
    }

    /// How soon the stream must have a turn again, whatever becomes ready: no event tells that an output has stalled, or that
    /// there are descriptors again. In microseconds.
    pub(crate) fn look_again_us(&self) -> Option<u64> {
        if self.accept_again_us.is_some() {
            return Some(ACCEPT_AGAIN_US);
        }
        let may_stall = self.failing.is_some()
            || self.settings.limits_stalls && self.outputs.iter().any(|output| !output.writable)
            || self.waits_for_leaving();
        may_stall.then(|| self.stall_sample_us())
    }
}

impl Input {
    /// Whether it waits for somebody to connect.
    fn is_awaited(&self) -> bool {
        self.object.is_listening() && self.supply == Supply::Open
    }
}

/// Has an object become the connection that has come, to be waited for in place of its socket.
pub(super) fn admit(
    port: Port,
    object: &mut Object,
    watcher: Option<&Watcher>,
    flags: EventFlags,
) -> Result<Admitted, ObjectError> {
    let before = match object.accept() {
        Ok(Some(before)) => before,
        Ok(None) => return Ok(still_waits(port, object, None)),
        Err(error) if is_shortage(error.errno) => return Ok(still_waits(port, object, Some(&error))),
        Err(error) => return Err(error),
    };
    if let Some(watcher) = watcher {
        watcher.remove(before.as_fd());
        watch(watcher, port, object, flags)?;
    }
    let event = before.is_told.then(|| StreamEvent::Connected { port, name: object.name.clone() });
    Ok(Admitted { before: Some(before), event, is_short: false })
}

/// Nobody has come, or can be taken in: says where somebody is waited for, the first time, or why that is in vain.
fn still_waits(port: Port, object: &mut Object, shortage: Option<&ObjectError>) -> Admitted {
    let mut admitted = Admitted { before: None, event: None, is_short: shortage.is_some() };
    let Kind::Listening(listener) = &mut object.kind else { return admitted };
    admitted.event = if std::mem::replace(&mut listener.is_told, true) {
        let failed = shortage.filter(|_| !std::mem::replace(&mut listener.is_failure_told, true));
        failed.map(|error| StreamEvent::ListeningFailed { port, error: error.to_string() })
    } else {
        Some(StreamEvent::Listening { port, name: object.name.clone(), address: listener.address() })
    };
    admitted
}

/// Whether there is no descriptor or memory now for a connection, which waits on in the socket's queue.
fn is_shortage(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
}
