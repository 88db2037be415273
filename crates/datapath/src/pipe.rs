//! `splice` and `tee`: bytes between a file, socket or pipe and a pipe of our own, and between pipes, by
//! reference. Bytes that go from connection to connection this way are never copied.

use std::cell::RefCell;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use bytes::{Bytes, BytesMut};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice, tee};
use wirepath_sys::append::{From, append};
use wirepath_sys::errno_of;
use wirepath_sys::mapping::Mapping;

/// Requested capacity: 256 pages. An unprivileged process may have 64 MiB in all its pipes
/// (`fs.pipe-user-pages-soft`), and gets smaller ones above that.
const WANTED: usize = 1 << 20;

/// Pipe, and the number of bytes in it.
#[derive(Debug)]
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    room: usize,
    held: usize,
}

thread_local! {
    /// Empty pipes. Opening one costs some tens of microseconds, most of it for its pages.
    static EMPTY: RefCell<Vec<Pipe>> = const { RefCell::new(Vec::new()) };
}

impl Pipe {
    /// Most empty pipes kept by a thread.
    pub const KEPT: usize = 32;

    /// An empty pipe: a kept one, or a new one.
    pub fn empty() -> Result<Pipe, Errno> {
        match EMPTY.with_borrow_mut(Vec::pop) {
            Some(pipe) => Ok(pipe),
            None => Pipe::open(),
        }
    }

    fn open() -> Result<Pipe, Errno> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let room = match fcntl_setpipe_size(&writer, WANTED) {
            Ok(room) => room,
            Err(_) => fcntl_getpipe_size(&writer)?, // it stays as it is
        };
        Ok(Pipe { reader, writer, room, held: 0 })
    }

    /// Keeps the pipe for later if it is empty and large; otherwise closes it.
    pub fn put_away(self) {
        EMPTY.with_borrow_mut(|kept| {
            if self.held == 0 && self.room >= WANTED && kept.len() < Pipe::KEPT {
                kept.push(self);
            }
        });
    }

    /// Bytes that are in it.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns whether it is full; a few bytes in many pages suffice for that.
    pub fn is_full(&self) -> bool {
        let mut writer = [PollFd::new(&self.writer, PollFlags::OUT)];
        self.held > 0 && poll(&mut writer, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
    }

    /// Bytes for which it has room, if they fill its pages.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Moves up to `length` bytes from `source`, at `offset` if it is a file, into the pipe. Returns 0 at the
    /// end. Never blocks.
    ///
    /// # Errors
    ///
    /// [`Errno::AGAIN`] without bytes or room now; [`Errno::INVAL`] if `source` does not support splice.
    pub fn fill(
        &mut self,
        source: impl AsFd,
        offset: Option<&mut u64>,
        length: usize,
    ) -> Result<usize, Errno> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let filled = splice(source, offset, &self.writer, None, length, flags)?;
        self.held += filled;
        Ok(filled)
    }

    /// Takes as much of a range of a mapping as fits, by reference.
    ///
    /// # Errors
    ///
    /// [`Errno::AGAIN`] if there is no room; else as [`Mapping::refer`].
    pub fn fill_from(&mut self, mapping: &Mapping, range: Range<usize>) -> Result<usize, Errno> {
        let filled = mapping.refer(range, self.writer.as_fd()).map_err(|error| errno_of(&error))?;
        self.held += filled;
        Ok(filled)
    }

    /// Moves its bytes into a range of a mapping, as many as one call moves; returns how many: at least one
    /// if it has bytes and the range is not empty. May block.
    pub fn drain_to(&mut self, mapping: &Mapping, range: Range<usize>) -> Result<usize, Errno> {
        let drained = mapping.fill(range, self.reader.as_fd()).map_err(|error| errno_of(&error))?;
        self.held -= drained.min(self.held);
        Ok(drained)
    }

    /// Moves its bytes to `sink`, at `offset` if it is a file, as many as the sink accepts; returns how many:
    /// at least one. `more` says that more bytes follow. A socket must be in non-blocking mode.
    ///
    /// # Errors
    ///
    /// [`Errno::AGAIN`] if the sink accepts none now; [`Errno::INVAL`] if it does not support splice; else
    /// those of `splice`.
    pub fn drain(&mut self, sink: impl AsFd, offset: Option<&mut u64>, more: bool) -> Result<usize, Errno> {
        let mut flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        flags.set(SpliceFlags::MORE, more);
        let drained = splice(&self.reader, None, sink, offset, self.held, flags)?;
        self.held -= drained.min(self.held);
        if drained == 0 { Err(Errno::PIPE) } else { Ok(drained) }
    }

    /// Copies all its bytes out, for sinks that do not support splice.
    pub fn take(&mut self) -> Result<Bytes, Errno> {
        let mut bytes = BytesMut::with_capacity(self.held);
        while self.held > 0 {
            let read = append(From::Stream, self.reader.as_fd(), &mut bytes, self.held);
            match read.map_err(|error| errno_of(&error))? {
                0 => self.held = 0,
                read => self.held -= read.min(self.held),
            }
        }
        Ok(bytes.freeze())
    }

    /// Duplicates its bytes into another pipe, which is empty, and keeps them.
    ///
    /// # Errors
    ///
    /// [`Errno::NOBUFS`] if the other pipe had no room for all of them: then it has some; else those of
    /// `tee`.
    pub fn copy_to(&self, other: &mut Pipe) -> Result<(), Errno> {
        let copied = tee(&self.reader, &other.writer, self.held, SpliceFlags::NONBLOCK)?;
        other.held += copied;
        if copied == self.held { Ok(()) } else { Err(Errno::NOBUFS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn connection() -> (UnixStream, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        (near, far)
    }

    /// Promise: Bytes that no handler reads are not copied, also to several connections.
    #[test]
    fn bytes_go_through_a_pipe_and_to_others_with_it() {
        let (mut source, inlet) = connection();
        source.write_all(b"some bytes").unwrap();
        let mut pipes = [(); 3].map(|()| Pipe::empty().unwrap());
        let [first, others @ ..] = &mut pipes;
        assert_eq!(first.fill(&inlet, None, first.room()), Ok(10));
        assert_eq!(first.fill(&inlet, None, first.room()), Err(Errno::AGAIN));
        others.iter_mut().for_each(|other| first.copy_to(other).unwrap());
        for pipe in &mut pipes {
            let (mut reader, outlet) = connection();
            assert_eq!(pipe.held(), 10);
            assert_eq!(pipe.drain(&outlet, None, false), Ok(10));
            assert_eq!(pipe.held(), 0);
            let mut bytes = [0; 10];
            reader.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"some bytes");
        }
        source.write_all(b"more").unwrap();
        assert_eq!(pipes[0].fill(&inlet, None, 10), Ok(4));
        assert_eq!(pipes[0].take().unwrap(), &b"more"[..]);
        assert_eq!(pipes[0].held(), 0);
        drop(source);
        assert_eq!(pipes[0].fill(&inlet, None, 1), Ok(0), "the end");
    }

    #[test]
    fn a_file_is_read_and_written_at_its_offset() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let mut pipe = Pipe::empty().unwrap();
        let (mut from, mut to) = (4, 1);
        assert_eq!(pipe.fill(&file, Some(&mut from), 3), Ok(3));
        assert_eq!(pipe.drain(&file, Some(&mut to), false), Ok(3));
        assert_eq!((from, to), (7, 4));
        let mut bytes = String::new();
        std::io::Seek::rewind(&mut file).unwrap();
        file.read_to_string(&mut bytes).unwrap();
        assert_eq!(bytes, "0456456789");
    }

    /// Promise: With the pattern `capacity`, a full output blocks neither other outputs, nor a detach, nor a
    /// later input.
    #[test]
    fn a_pipe_is_full_when_its_pages_are_begun() {
        let (mut source, inlet) = connection();
        let mut pipe = Pipe::empty().unwrap();
        assert!(!pipe.is_full());
        while !pipe.is_full() {
            source.write_all(b"x").unwrap();
            assert_eq!(pipe.fill(&inlet, None, 1), Ok(1));
        }
        assert!(pipe.held() < pipe.room());
        source.write_all(b"x").unwrap();
        assert_eq!(pipe.fill(&inlet, None, 1), Err(Errno::AGAIN), "though there is something");
    }

    #[test]
    fn only_empty_pipes_are_kept() {
        let (mut source, inlet) = connection();
        source.write_all(b"x").unwrap();
        let mut pipe = Pipe::open().unwrap();
        pipe.fill(&inlet, None, 1).unwrap();
        pipe.put_away();
        assert_eq!(Pipe::empty().unwrap().held(), 0);
    }
}
