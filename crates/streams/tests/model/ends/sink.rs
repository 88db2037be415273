//! A far end for reading, and the bytes received.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{SealFlags, fcntl_add_seals};
use wirepath_streams::{Object, WhenFull};
use wirepath_testkit::SmallDisk;

use super::line::{Came, Ends, Kind, Line};
use super::listener::Listener;
use super::range::Mapped;
use super::{COMES_LATER, memory_file, stream};
use crate::dice::{Dice, Tally};

#[derive(Debug)]
pub(crate) struct Sink {
    far: Far,
    /// The listener of the stream, if it listened.
    listener: Option<Listener>,
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// Records for the sink may have been dropped at some time.
    pub(crate) drops: bool,
    /// The sink may have been disconnected because it did not keep up.
    pub(crate) disconnects: bool,
    /// The sink is not read until the round ends.
    pub(crate) is_stalled: bool,
    /// The sink was killed, or had no room: received bytes may end anywhere.
    pub(crate) is_broken: bool,
    /// Bytes that the output took may be missing: the sink was killed with bytes under way.
    pub(crate) is_lossy: bool,
}

/// Sink of a stream.
#[derive(Debug)]
enum Far {
    Line(Line),
    /// Not connected yet.
    Awaited,
    File(Arc<File>),
    Mapped(Mapped),
    /// Killed, with unread bytes lost; or rejected.
    Gone,
}

impl Sink {
    /// A sink of any kind that is read at once, with its near end.
    pub(crate) fn any(name: String, dice: &mut Dice, tally: &mut Tally) -> (Sink, Object) {
        if dice.one_in(COMES_LATER) {
            let (listener, object) = Listener::any(&name, dice, tally);
            tally.note("object: one that waits for a reader");
            return (Sink { listener: Some(listener), ..Sink::new(name, Far::Awaited) }, object);
        }
        let Ends { kind, from, into } = Ends::any(dice, tally);
        let object = stream(&name, from);
        (Sink::new(name, Far::Line(Line::new(kind, into))), object)
    }

    /// A file or mapping with room for so many bytes; for a file, in whole pages.
    pub(crate) fn stored(name: String, room: usize, dice: &mut Dice, tally: &mut Tally) -> (Sink, Object) {
        if dice.one_in(2) {
            tally.note("object: a mapping to write");
            let mapped = Mapped::any(room, dice, tally);
            let object = mapped.object(&name);
            return (Sink::new(name, Far::Mapped(mapped)), object);
        }
        tally.note("object: a file to write");
        let file = Arc::new(small_file(room as u64, tally));
        let object = Object::file(&name, Arc::clone(&file), 0);
        (Sink::new(name, Far::File(file)), object)
    }

    fn new(name: String, far: Far) -> Sink {
        Sink {
            far,
            listener: None,
            name,
            bytes: Vec::new(),
            drops: false,
            disconnects: false,
            is_stalled: false,
            is_broken: false,
            is_lossy: false,
        }
    }

    /// Notes a change of the rule for a full outbox.
    pub(crate) fn note_rule(&mut self, when_full: WhenFull) {
        self.drops |= matches!(when_full, WhenFull::DropNewest | WhenFull::DropOldest);
        self.disconnects |= when_full == WhenFull::Disconnect;
    }

    /// Kind of a sink with limited room; None for others.
    pub(crate) fn store(&self) -> Option<&'static str> {
        match self.far {
            Far::File(_) => Some("fault: a file with no room left"),
            Far::Mapped(_) => Some("fault: a mapping that is full"),
            Far::Line(_) | Far::Awaited | Far::Gone => None,
        }
    }

    pub(crate) fn is_awaited(&self) -> bool {
        matches!(self.far, Far::Awaited)
    }

    /// Connects if the stream waits for a connection, else connects in vain. Returns false if the port should
    /// listen but does not.
    pub(crate) fn call(&mut self, tally: &mut Tally) -> bool {
        let Some(listener) = &mut self.listener else { return true };
        if !matches!(self.far, Far::Awaited) {
            listener.call_in_vain(tally);
            return true;
        }
        self.far = listener.call().map_or(Far::Gone, Far::Line);
        tally.note("operation: connect to read");
        matches!(self.far, Far::Line(_))
    }

    /// Reads available bytes, at most about `most`, in parts of at most `part`.
    pub(crate) fn read(&mut self, most: usize, part: usize) {
        let begin = self.bytes.len();
        let mut buffer = vec![0; part];
        while self.bytes.len() - begin < most {
            match self.read_once(&mut buffer) {
                Came::Bytes(bytes) => self.bytes.extend(&buffer[..bytes]),
                Came::Nothing | Came::End | Came::Reset => return,
            }
        }
    }

    /// Reads to the end, after the stream has ended and reported this number of bytes taken.
    pub(crate) fn read_to_end(&mut self, taken: u64) {
        self.listener.iter_mut().for_each(Listener::check);
        match &self.far {
            Far::File(file) => {
                self.bytes = vec![0; file.metadata().unwrap().len() as usize];
                file.read_exact_at(&mut self.bytes, 0).unwrap();
            }
            Far::Mapped(mapped) => {
                self.bytes = mapped.bytes(taken as usize);
                mapped.check_rest(&self.name, taken as usize);
            }
            Far::Line(_) | Far::Awaited | Far::Gone => self.read_line_to_end(),
        }
        assert!(self.is_lossy || self.bytes.len() as u64 == taken, "{} lacks some of {taken}", self.name);
    }

    fn read_line_to_end(&mut self) {
        let mut buffer = vec![0; 1 << 16];
        loop {
            match self.read_once(&mut buffer) {
                Came::Bytes(bytes) => self.bytes.extend(&buffer[..bytes]),
                Came::Nothing => self.wait(),
                Came::End | Came::Reset => return,
            }
        }
    }

    fn read_once(&mut self, buffer: &mut [u8]) -> Came {
        let came = match &mut self.far {
            Far::Line(line) => line.read(buffer),
            Far::File(_) | Far::Mapped(_) => Came::Nothing,
            Far::Awaited | Far::Gone => Came::End,
        };
        if matches!(came, Came::Reset) {
            // The connection was not accepted: the stream had ended, or no longer waited.
            assert!(self.listener.is_some() && self.bytes.is_empty(), "{} was reset", self.name);
            self.far = Far::Gone;
        }
        came
    }

    fn wait(&self) {
        if let Far::Line(line) = &self.far {
            line.wait(&self.name);
        }
    }

    /// Kills the reader; false if the sink is not a connection.
    pub(crate) fn kill(&mut self, tally: &mut Tally) -> bool {
        let Far::Line(line) = &self.far else { return false };
        match line.kind {
            Kind::Unix => {
                tally.note("fault: a reader that shuts its socket");
                line.shut(); // bytes under way can still be read
            }
            Kind::Tcp => {
                tally.note("fault: a reader that resets its connection");
                line.reset_when_closed();
                (self.far, self.is_lossy) = (Far::Gone, true);
            }
            Kind::Pipe => {
                tally.note("fault: a reader that closes its pipe");
                (self.far, self.is_lossy) = (Far::Gone, true);
            }
        }
        self.is_broken = true;
        true
    }
}

/// A file on a disk with room for so many bytes.
fn small_file(room: u64, tally: &mut Tally) -> File {
    if let Ok(disk) = SmallDisk::new(room) {
        tally.note("files on a disk of their own");
        return disk.create("file").unwrap(); // and keeps the disk
    }
    tally.note("files of sealed memory, for want of the right to mount a disk");
    let file = memory_file();
    file.set_len(room.next_multiple_of(4096)).unwrap();
    fcntl_add_seals(&file, SealFlags::GROW).unwrap();
    file
}
