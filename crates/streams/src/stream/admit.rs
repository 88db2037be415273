//! Connections that are waited for: inputs and outputs that listen become the connection that comes.

use std::os::fd::AsFd;

use rustix::event::epoll::EventFlags;

use super::watch::{READING, WRITING, Watch};
use super::{Input, Port, Stream, StreamError, StreamEvent};
use crate::object::{Kind, Listener, Object, ObjectError};

/// What became of one that listens.
struct Admitted {
    /// Where it waited, if somebody has come.
    before: Option<Listener>,
    event: Option<StreamEvent>,
}

impl Stream {
    /// Takes connections that have come; answers whether there were any. The stream has begun when none is waited for any more.
    pub(super) fn admit(&mut self) -> Result<bool, StreamError> {
        if !self.awaits_connections {
            return Ok(false); // as nearly always: nobody is looked at for nothing
        }
        let mut progressed = false;
        for place in 0..self.inputs.len() {
            let input = &mut self.inputs[place];
            if !(input.readable && input.is_awaited()) {
                continue;
            }
            match admit(input.port, &mut input.object, self.watch.as_ref(), READING) {
                Ok(admitted) => {
                    input.readable = admitted.before.is_some();
                    progressed |= input.readable;
                    self.wake_input(place);
                    self.note_admitted(admitted);
                }
                Err(error) => self.input_failed(place, error.into())?,
            }
        }
        let mut place = 0;
        while let Some(output) = self.outputs.get_mut(place) {
            place += 1;
            if !(output.writable && output.object.is_listening()) {
                continue;
            }
            match admit(output.port, &mut output.object, self.watch.as_ref(), WRITING) {
                Ok(admitted) => {
                    output.writable = admitted.before.is_some();
                    progressed |= output.writable;
                    self.note_admitted(admitted);
                }
                Err(error) => {
                    place -= 1;
                    self.output_failed(place, error)?;
                }
            }
        }
        self.awaits_connections = self.inputs.iter().any(Input::is_awaited)
            || self.outputs.iter().any(|output| output.object.is_listening());
        self.has_begun |= !self.awaits_connections;
        Ok(progressed)
    }

    fn note_admitted(&mut self, admitted: Admitted) {
        let Admitted { before, event } = admitted;
        if let Some(listener) = before {
            self.remains.push(Box::new(listener));
        }
        if let Some(event) = event {
            self.tell(event);
        }
    }
}

impl Input {
    /// Whether it waits for somebody to connect.
    fn is_awaited(&self) -> bool {
        self.object.is_listening() && !self.has_failed
    }
}

/// Has an object become the connection that has come, to be waited for in place of its socket.
fn admit(
    port: Port,
    object: &mut Object,
    watch: Option<&Watch>,
    flags: EventFlags,
) -> Result<Admitted, ObjectError> {
    let Some(before) = object.accept()? else {
        let name = object.name.clone();
        let Kind::Listening(listener) = &mut object.kind else {
            return Ok(Admitted { before: None, event: None });
        };
        let is_first = !std::mem::replace(&mut listener.is_told, true);
        let event = is_first.then(|| StreamEvent::Listening { port, name, address: listener.address() });
        return Ok(Admitted { before: None, event });
    };
    if let Some(watch) = watch {
        watch.remove(before.as_fd());
        watch.add(port, object, flags)?;
    }
    let event = before.is_told.then(|| StreamEvent::Connected { port, name: object.name.clone() });
    Ok(Admitted { before: Some(before), event })
}
