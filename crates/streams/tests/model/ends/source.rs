//! A far end for writing.

use std::io::Write;
use std::sync::Arc;

use wirepath_streams::Object;

use super::line::{Ends, Kind, Line};
use super::listener::Listener;
use super::range::Mapped;
use super::{COMES_LATER, memory_file, stream};
use crate::dice::{Dice, Tally};

pub(crate) struct Source {
    state: State,
    /// The listener of the stream, if it listened.
    listener: Option<Listener>,
    /// All bytes written to a socket are sent as urgent data.
    is_hasty: bool,
}

enum State {
    Open(Line),
    /// Not connected yet.
    Awaited,
    /// Nothing more is written.
    Closed,
}

impl Source {
    /// A source of any kind, with its near end.
    pub(crate) fn any(dice: &mut Dice, tally: &mut Tally) -> (Source, Object) {
        let is_hasty = dice.one_in(8);
        if is_hasty {
            tally.note("fault: a writer for whom all is urgent");
        }
        if dice.one_in(COMES_LATER) {
            let (listener, object) = Listener::any("inlet", dice, tally);
            tally.note("object: one that waits for a writer");
            return (Source { state: State::Awaited, listener: Some(listener), is_hasty }, object);
        }
        let Ends { kind, from, into } = Ends::any(dice, tally);
        (
            Source { state: State::Open(Line::new(kind, from)), listener: None, is_hasty },
            stream("inlet", into),
        )
    }

    /// A file or mapping with these bytes, complete from the beginning.
    pub(crate) fn stored(bytes: &[u8], dice: &mut Dice, tally: &mut Tally) -> (Source, Object) {
        let object = if dice.one_in(2) {
            tally.note("object: a mapping to read");
            Mapped::of(bytes, dice, tally).object("mapping")
        } else {
            tally.note("object: a file to read");
            let mut file = memory_file();
            file.write_all(bytes).unwrap();
            Object::file("stored", Arc::new(file), 0)
        };
        (Source { state: State::Closed, listener: None, is_hasty: false }, object)
    }

    /// Writes as much as the connection takes, at most `most` bytes; returns the number.
    pub(crate) fn write(&mut self, bytes: &[u8], most: usize) -> usize {
        let bytes = &bytes[..bytes.len().min(most)];
        let mut written = 0;
        while let State::Open(line) = &mut self.state
            && written < bytes.len()
        {
            let rest = &bytes[written..];
            match if self.is_hasty { line.write_urgent(rest) } else { line.write(rest) } {
                Some(0) => return written,
                Some(bytes) => written += bytes,
                None => self.close(), // the stream has ended, as intended
            }
        }
        written
    }

    /// Closes the source: nothing more is written, and no connection is made.
    pub(crate) fn close(&mut self) {
        self.state = State::Closed;
    }

    /// Returns whether more may be written, possibly after connecting.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed)
    }

    pub(crate) fn is_awaited(&self) -> bool {
        matches!(self.state, State::Awaited)
    }

    /// Connects if the stream waits for a connection, else connects in vain. Returns false if the port should
    /// listen but does not.
    pub(crate) fn call(&mut self, tally: &mut Tally) -> bool {
        let Some(listener) = &mut self.listener else { return true };
        if !matches!(self.state, State::Awaited) {
            listener.call_in_vain(tally);
            return true;
        }
        self.state = listener.call().map_or(State::Closed, State::Open);
        tally.note("operation: connect to write");
        self.is_open()
    }

    /// Closes a TCP connection with a reset; false if the source is not a TCP connection.
    pub(crate) fn reset(&mut self) -> bool {
        let State::Open(line) = &self.state else { return false };
        if line.kind != Kind::Tcp {
            return false;
        }
        line.reset_when_closed();
        self.close();
        true
    }

    /// Final checks of the round.
    pub(crate) fn check(&mut self) {
        self.listener.iter_mut().for_each(Listener::check);
    }
}
