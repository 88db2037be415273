//! The far ends of what a stream reads and writes: whose writers stop and reset, whose readers dawdle, stop, reset or run full.

use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, SealFlags, fcntl_add_seals, fcntl_getfl, fcntl_setfl};
use rustix::net::sockopt;
use wirepath_streams::{Object, WhenFull};

use crate::PATIENCE;
use crate::dice::{Dice, Tally};
use crate::small_disk::SmallDisk;

/// A far end that is written to.
pub(crate) enum Source {
    Unix(UnixStream),
    Tcp(TcpStream),
    Pipe(PipeWriter),
    /// Nothing more is written.
    Closed,
}

impl Source {
    /// One of any kind, with its near end.
    pub(crate) fn any(dice: &mut Dice) -> (Source, Object) {
        match dice.below(3) {
            0 => {
                let (far, near) = UnixStream::pair().unwrap();
                shrink(&far, dice);
                (Source::Unix(non_blocking(far)), stream("inlet", near.into()))
            }
            1 => {
                let (far, near) = connection();
                shrink(&far, dice);
                (Source::Tcp(non_blocking(far)), stream("inlet", near.into()))
            }
            _ => {
                let (near, far) = std::io::pipe().unwrap();
                (Source::Pipe(non_blocking(far)), stream("inlet", near.into()))
            }
        }
    }

    /// A file of these bytes, all of which are there.
    pub(crate) fn stored(bytes: &[u8]) -> Object {
        let mut file = memory_file();
        file.write_all(bytes).unwrap();
        Object::file("stored", Arc::new(file), 0)
    }

    /// Writes as much as it takes, at most `most` bytes; answers how many.
    pub(crate) fn write(&mut self, bytes: &[u8], most: usize) -> usize {
        let mut written = 0;
        while written < bytes.len().min(most) {
            let rest = &bytes[written..bytes.len().min(most)];
            let result = match self {
                Source::Unix(far) => far.write(rest),
                Source::Tcp(far) => far.write(rest),
                Source::Pipe(far) => far.write(rest),
                Source::Closed => return written,
            };
            match result {
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return written,
                // The stream has ended, as it was made to.
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                    *self = Source::Closed;
                }
                Err(error) => panic!("{error}"),
            }
        }
        written
    }

    pub(crate) fn close(&mut self) {
        *self = Source::Closed;
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self, Source::Closed)
    }

    /// Closes a TCP connection with a reset; false if it is none.
    pub(crate) fn reset(&mut self) -> bool {
        let Source::Tcp(far) = self else { return false };
        reset_when_closed(far);
        self.close();
        true
    }
}

/// What a stream writes to.
#[derive(Debug)]
enum Far {
    Unix(UnixStream),
    Tcp(TcpStream),
    Pipe(PipeReader),
    File(Arc<File>),
    /// It was killed, and what had not been read is lost.
    Gone,
}

/// A far end that is read from, and what came.
#[derive(Debug)]
pub(crate) struct Sink {
    far: Far,
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) when_full: WhenFull,
    /// Nobody reads until the round ends.
    pub(crate) is_stalled: bool,
    /// It was killed, or had no room: what came may end anywhere.
    pub(crate) is_broken: bool,
    /// What it took is not all found: it was killed with bytes on the way.
    pub(crate) is_lossy: bool,
}

impl Sink {
    /// One of any kind that is read at once, with its near end.
    pub(crate) fn any(name: String, dice: &mut Dice, tally: &mut Tally) -> (Sink, Object) {
        let (far, near) = match dice.below(3) {
            0 => {
                let (far, near) = UnixStream::pair().unwrap();
                if shrink(&near, dice) {
                    tally.note("sinks with tiny buffers");
                }
                (Far::Unix(non_blocking(far)), near.into())
            }
            1 => {
                let (near, far) = connection();
                if shrink(&near, dice) {
                    tally.note("sinks with tiny buffers");
                }
                (Far::Tcp(non_blocking(far)), near.into())
            }
            _ => {
                let (far, near) = std::io::pipe().unwrap();
                if dice.one_in(2) {
                    rustix::pipe::fcntl_setpipe_size(&near, 4096).unwrap();
                    tally.note("sinks with tiny buffers");
                }
                (Far::Pipe(non_blocking(far)), near.into())
            }
        };
        let object = stream(&name, near);
        (Sink::new(name, far), object)
    }

    /// A file with room for so many bytes, in whole pages.
    pub(crate) fn file(name: String, room: u64, tally: &mut Tally) -> (Sink, Object) {
        let file = match SmallDisk::new(room) {
            Ok(disk) => {
                tally.note("files on a disk of their own");
                disk.create("file").unwrap() // and keeps the disk
            }
            Err(_) => {
                tally.note("files of sealed memory, for want of the right to mount a disk");
                let file = memory_file();
                file.set_len(room.next_multiple_of(4096)).unwrap();
                fcntl_add_seals(&file, SealFlags::GROW).unwrap();
                file
            }
        };
        let file = Arc::new(file);
        let object = Object::file(&name, Arc::clone(&file), 0);
        (Sink::new(name, Far::File(file)), object)
    }

    fn new(name: String, far: Far) -> Sink {
        let when_full = WhenFull::Block;
        Sink { far, name, bytes: Vec::new(), when_full, is_stalled: false, is_broken: false, is_lossy: false }
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self.far, Far::File(_))
    }

    /// Reads what is there, at most about `most` bytes, in parts of at most `part`.
    pub(crate) fn read(&mut self, most: usize, part: usize) {
        let begin = self.bytes.len();
        let mut buffer = vec![0; part];
        while self.bytes.len() - begin < most {
            match self.read_once(&mut buffer) {
                None | Some(0) => return,
                Some(bytes) => self.bytes.extend(&buffer[..bytes]),
            }
        }
    }

    /// Reads all there will ever be: the stream is over. `known` bytes of a file were written.
    pub(crate) fn read_to_end(&mut self, known: Option<u64>) {
        if let Far::File(file) = &self.far {
            let length = known.unwrap_or_else(|| file.metadata().unwrap().len());
            self.bytes = vec![0; length as usize];
            return file.read_exact_at(&mut self.bytes, 0).unwrap();
        }
        let mut buffer = vec![0; 1 << 16];
        loop {
            match self.read_once(&mut buffer) {
                Some(0) => return,
                Some(bytes) => self.bytes.extend(&buffer[..bytes]),
                None => self.wait(),
            }
        }
    }

    /// None if there is nothing now, 0 at the end.
    fn read_once(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let read = match &mut self.far {
            Far::Unix(far) => far.read(buffer),
            Far::Tcp(far) => far.read(buffer),
            Far::Pipe(far) => far.read(buffer),
            Far::File(_) => return None,
            Far::Gone => return Some(0),
        };
        match read {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{}: {error}", self.name),
        }
    }

    fn wait(&self) {
        let Some(descriptor) = self.descriptor() else { return };
        let patience = Timespec::try_from(PATIENCE).unwrap();
        let ready =
            poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&patience)).unwrap();
        assert_eq!(ready, 1, "{} has no end", self.name);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.far {
            Far::Unix(far) => Some(far.as_fd()),
            Far::Tcp(far) => Some(far.as_fd()),
            Far::Pipe(far) => Some(far.as_fd()),
            Far::File(_) | Far::Gone => None,
        }
    }

    /// Kills whoever reads; false if that is no process that could be.
    pub(crate) fn kill(&mut self, tally: &mut Tally) -> bool {
        match &self.far {
            Far::Unix(far) => {
                tally.note("fault: a reader that shuts its socket");
                // What is on the way can still be read.
                far.shutdown(std::net::Shutdown::Both).unwrap();
            }
            Far::Tcp(far) => {
                tally.note("fault: a reader that resets its connection");
                reset_when_closed(far);
                (self.far, self.is_lossy) = (Far::Gone, true);
            }
            Far::Pipe(_) => {
                tally.note("fault: a reader that closes its pipe");
                (self.far, self.is_lossy) = (Far::Gone, true);
            }
            Far::File(_) | Far::Gone => return false,
        }
        self.is_broken = true;
        true
    }
}

/// Two ends of a connection or pipe, to write to and to read from.
pub(crate) fn link(dice: &mut Dice) -> (Object, Object) {
    let (from, into): (OwnedFd, OwnedFd) = match dice.below(3) {
        0 => {
            let (from, into) = UnixStream::pair().unwrap();
            (from.into(), into.into())
        }
        1 => {
            let (from, into) = connection();
            (from.into(), into.into())
        }
        _ => {
            let (into, from) = std::io::pipe().unwrap();
            rustix::pipe::fcntl_setpipe_size(&from, 4096).unwrap();
            return (stream("link", from.into()), stream("link", into.into()));
        }
    };
    shrink(&from, dice);
    (stream("link", from), stream("link", into))
}

/// A TCP connection on the loopback device.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    one.set_nodelay(true).unwrap();
    loop {
        // Another test may look for somebody on this port.
        let (other, from) = listener.accept().unwrap();
        if from == one.local_addr().unwrap() {
            return (one, other);
        }
    }
}

/// The smallest send buffer that there is, once in two times: then writes are short, and often there is no room.
fn shrink(socket: impl AsFd, dice: &mut Dice) -> bool {
    let shrinks = dice.one_in(2);
    if shrinks {
        sockopt::set_socket_send_buffer_size(&socket, 1).unwrap();
    }
    shrinks
}

fn reset_when_closed(connection: &TcpStream) {
    sockopt::set_socket_linger(connection, Some(Duration::ZERO)).unwrap();
}

fn non_blocking<T: AsFd>(descriptor: T) -> T {
    let flags = fcntl_getfl(&descriptor).unwrap();
    fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK).unwrap();
    descriptor
}

fn memory_file() -> File {
    use rustix::fs::{MemfdFlags, memfd_create};
    memfd_create("model", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap().into()
}

fn stream(name: &str, descriptor: OwnedFd) -> Object {
    Object::stream(name, descriptor).unwrap()
}
