//! Sinks: connect and receive, on processors other than the measured one.

use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use wirepath_sys::socket::set_receive_low_watermark;

use super::source::PATIENCE;
use crate::error::{Doing, Error};
use crate::sockets;
use crate::test_bed::TestBed;

/// Bytes that justify a wake-up: a sender on the same machine pays for waking its receiver.
const WAKE: u32 = 256 << 10;

/// Bytes taken by one call.
const CALL: usize = 1 << 20;

/// Timeout for the first bytes: gigabytes with a thousand connections.
const FIRST: Duration = Duration::from_secs(120);

/// Sinks, on their own thread.
pub(crate) struct Sinks {
    /// Signal that every sink has received its first bytes.
    first: Receiver<()>,
    thread: JoinHandle<io::Result<Arrived>>,
}

/// Bytes expected of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// First bytes: a signal is sent when all sinks have received them.
    pub(crate) first: u64,
    /// Total bytes, for connections that do not end.
    pub(crate) enough: Option<u64>,
}

/// Received bytes.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// Bytes received by each sink.
    pub(crate) counts: Vec<u64>,
    /// Received bytes, if they were kept.
    pub(crate) contents: Vec<Vec<u8>>,
    /// Time when the last sink ended.
    pub(crate) ended: Instant,
    /// Connections, closed on drop.
    _connections: Vec<TcpStream>,
}

impl Sinks {
    /// Opens a number of connections, in order, and receives until they have ended, or each has its expected
    /// bytes; `keep` the data or discard it without copying.
    pub(crate) fn connect(
        test_bed: &TestBed,
        to: SocketAddr,
        number: usize,
        expected: Expected,
        keep: bool,
    ) -> Result<Sinks, Error> {
        let connections: Vec<TcpStream> = test_bed.in_peer_namespace(|_| {
            let connections = (0..number).map(|_| sockets::connect(to, None)).collect::<io::Result<_>>();
            connections.doing("connecting to what is measured")
        })?;
        let (told_first, first) = channel();
        let thread =
            test_bed.spawn_beside("sinks", move || take(connections, expected, &told_first, keep))?;
        Ok(Sinks { first, thread })
    }

    /// Waits until each sink has received its first bytes.
    pub(crate) fn wait_first(&self) -> Result<(), Error> {
        self.first
            .recv_timeout(FIRST)
            .map_err(|_| Error::Faulty("timed out waiting for the first bytes".to_owned()))
    }

    /// Waits until all sinks have ended.
    pub(crate) fn finish(self) -> Result<Arrived, Error> {
        sockets::join(self.thread, "a sink")
    }
}

fn take(
    connections: Vec<TcpStream>,
    expected: Expected,
    told_first: &Sender<()>,
    keep: bool,
) -> io::Result<Arrived> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for (index, connection) in connections.iter().enumerate() {
        connection.set_nonblocking(true)?;
        epoll::add(&epoll, connection, EventData::new_u64(index as u64), EventFlags::IN)?;
    }
    let mut taking = Taking {
        counts: vec![0; connections.len()],
        wakes: vec![0; connections.len()],
        contents: vec![Vec::new(); connections.len()],
        room: vec![0; CALL],
        keep,
    };
    for (index, connection) in connections.iter().enumerate() {
        taking.wake_for(connection, index, expected)?;
    }
    let (mut left, mut without_first) = (connections.len(), connections.len());
    let mut events = [const { MaybeUninit::<Event>::uninit() }; 64];
    while left > 0 {
        for index in ready(&epoll, &mut events)? {
            let before = taking.counts[index];
            if taking.some(&connections[index], index)? || expected.enough == Some(taking.counts[index]) {
                epoll::delete(&epoll, &connections[index])?;
                left -= 1;
            } else {
                taking.wake_for(&connections[index], index, expected)?;
            }
            if before < expected.first && taking.counts[index] >= expected.first {
                without_first -= 1;
                if without_first == 0 {
                    told_first.send(()).ok(); // the receiver may have given up
                }
            }
        }
    }
    let Taking { counts, contents, .. } = taking;
    Ok(Arrived { counts, contents, ended: Instant::now(), _connections: connections })
}

/// Indexes of readable connections.
fn ready(epoll: &OwnedFd, events: &mut [MaybeUninit<Event>]) -> io::Result<Vec<usize>> {
    let patience = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
    let (ready, _) = epoll::wait(epoll, events, Some(&patience))?;
    if ready.is_empty() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "no data for 30 seconds"));
    }
    Ok(ready.iter().map(|event| event.data.u64() as usize).collect())
}

struct Taking {
    counts: Vec<u64>,
    /// Low-water mark of each connection.
    wakes: Vec<u32>,
    contents: Vec<Vec<u8>>,
    room: Vec<u8>,
    keep: bool,
}

impl Taking {
    /// Sets the low-water mark of a connection: high, but never above the bytes still expected.
    fn wake_for(&mut self, connection: &TcpStream, index: usize, expected: Expected) -> io::Result<()> {
        let count = self.counts[index];
        let next = if count < expected.first { Some(expected.first) } else { expected.enough };
        let wake = next.map_or(WAKE, |next| WAKE.min(u32::try_from(next - count).unwrap_or(WAKE)));
        if self.wakes[index] != wake {
            self.wakes[index] = wake;
            set_receive_low_watermark(connection.as_fd(), wake)?;
        }
        Ok(())
    }

    /// Receives by one call; returns whether the connection has ended.
    fn some(&mut self, connection: &TcpStream, index: usize) -> io::Result<bool> {
        // MSG_TRUNC: the kernel discards bytes of a stream without copying (tcp(7)).
        let flags = if self.keep { RecvFlags::empty() } else { RecvFlags::TRUNC };
        match recv(connection, &mut self.room[..], flags) {
            Ok((_, 0)) => Ok(true),
            Ok((_, length)) => {
                self.counts[index] += length as u64;
                if self.keep {
                    self.contents[index].extend_from_slice(&self.room[..length]);
                }
                Ok(false)
            }
            Err(Errno::AGAIN) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}
