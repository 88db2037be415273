//! A connection or a pipe, seen from the end of the test.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::{SendFlags, Shutdown, send, shutdown, sockopt};

use crate::PATIENCE;
use crate::dice::{Dice, Tally};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Unix,
    Tcp,
    Pipe,
}

/// Both ends, for writing and for reading.
pub(super) struct Ends {
    pub(super) kind: Kind,
    pub(super) from: OwnedFd,
    pub(super) into: OwnedFd,
}

/// A non-blocking end.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) kind: Kind,
    end: File,
}

/// Result of reading.
pub(super) enum Came {
    Bytes(usize),
    /// No bytes now.
    Nothing,
    End,
    Reset,
}

impl Ends {
    /// Ends of any kind; in half of the cases with the smallest possible buffers, so that writes are short
    /// and often find no room.
    pub(super) fn any(dice: &mut Dice, tally: &mut Tally) -> Ends {
        let ends = match dice.below(3) {
            0 => {
                let (from, into) = UnixStream::pair().unwrap();
                tally.note("object: a Unix socket");
                Ends { kind: Kind::Unix, from: from.into(), into: into.into() }
            }
            1 => {
                let (from, into) = connection();
                tally.note("object: a TCP connection");
                Ends { kind: Kind::Tcp, from: from.into(), into: into.into() }
            }
            _ => {
                let (into, from) = std::io::pipe().unwrap();
                tally.note("object: a pipe");
                Ends { kind: Kind::Pipe, from: from.into(), into: into.into() }
            }
        };
        if dice.one_in(2) {
            tally.note("object: one with tiny buffers");
            match ends.kind {
                Kind::Pipe => drop(rustix::pipe::fcntl_setpipe_size(&ends.from, 4096).unwrap()),
                Kind::Unix | Kind::Tcp => sockopt::set_socket_send_buffer_size(&ends.from, 1).unwrap(),
            }
        }
        ends
    }
}

impl Line {
    pub(super) fn new(kind: Kind, end: OwnedFd) -> Line {
        let flags = fcntl_getfl(&end).unwrap();
        fcntl_setfl(&end, flags | OFlags::NONBLOCK).unwrap();
        Line { kind, end: end.into() }
    }

    /// Writes as much as the connection takes now; None if the other end is closed.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Option<usize> {
        written(self.end.write(bytes))
    }

    /// Writes as much as the connection takes now, the last byte as urgent data; None if the other end is
    /// closed. A pipe has no urgent data.
    pub(super) fn write_urgent(&mut self, bytes: &[u8]) -> Option<usize> {
        match self.kind {
            Kind::Pipe => self.write(bytes),
            Kind::Unix | Kind::Tcp => {
                let flags = SendFlags::OOB | SendFlags::NOSIGNAL;
                written(send(&self.end, bytes, flags).map_err(io::Error::from))
            }
        }
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Came {
        match self.end.read(buffer) {
            Ok(0) => Came::End,
            Ok(bytes) => Came::Bytes(bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Came::Nothing,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Came::Reset,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until there is something to read, or the end.
    pub(super) fn wait(&self, name: &str) {
        let patience = Timespec::try_from(PATIENCE).unwrap();
        let ready = poll(&mut [PollFd::new(&self.end, PollFlags::IN)], Some(&patience)).unwrap();
        assert_eq!(ready, 1, "{name} has no end");
    }

    /// Shuts both directions down.
    pub(super) fn shut(&self) {
        shutdown(&self.end, Shutdown::Both).unwrap();
    }

    pub(super) fn reset_when_closed(&self) {
        sockopt::set_socket_linger(&self.end, Some(Duration::ZERO)).unwrap();
    }
}

fn written(written: io::Result<usize>) -> Option<usize> {
    match written {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Some(0),
        Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => None,
        Err(error) => panic!("{error}"),
    }
}

impl From<Line> for OwnedFd {
    fn from(line: Line) -> OwnedFd {
        line.end.into()
    }
}

/// A TCP connection on the loopback device.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    one.set_nodelay(true).unwrap();
    loop {
        // Another test may connect to this port.
        let (other, from) = listener.accept().unwrap();
        if from == one.local_addr().unwrap() {
            return (one, other);
        }
    }
}
