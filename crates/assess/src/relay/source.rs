//! Sources of data: listen, and send on request, on processors other than the measured one.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::forwarder;
use super::pattern::{Pattern, start_of};
use super::tagged::Tagged;
use crate::error::{Doing, Error};
use crate::sockets;
use crate::test_bed::TestBed;

/// Timeout of all waits of an experiment.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes requested by one call of `sendfile`.
const CALL: usize = 256 * 1024;

/// Volume of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Volume {
    /// Connections to accept.
    pub(crate) connections: usize,
    /// Connections that get data: the first ones.
    pub(crate) busy: usize,
    /// Bytes for each of these connections before the timed part.
    pub(crate) first: u64,
    /// Bytes for each of these connections in the timed part.
    pub(crate) bytes_each: u64,
    /// True if the source closes connections after the data; else they stay open and idle.
    pub(crate) ends: bool,
}

/// Source of connections, on its own thread.
pub(crate) struct Source {
    pub(crate) address: SocketAddr,
    accepted: Receiver<()>,
    start: Sender<()>,
    thread: JoinHandle<io::Result<Vec<TcpStream>>>,
}

impl Source {
    /// Listens, on processors other than the measured one.
    pub(crate) fn start(
        test_bed: &TestBed,
        pattern: &Arc<Pattern>,
        volume: Volume,
        tagged: Option<Tagged>,
    ) -> Result<Source, Error> {
        let listener = test_bed.in_peer_namespace(|address| {
            forwarder::listener(SocketAddr::new(address, 0)).doing("listening for a forwarder")
        })?;
        let address = listener.local_addr().doing("asking for the address")?;
        let (told_accepted, accepted) = channel();
        let (start, opened) = channel();
        let pattern = Arc::clone(pattern);
        let thread = test_bed.spawn_beside("source", move || {
            let accept = |_| Ok(sockets::accept(&listener, PATIENCE)?.0);
            let connections: Vec<TcpStream> =
                (0..volume.connections).map(accept).collect::<io::Result<_>>()?;
            let mut sending = Sending {
                pattern: &pattern,
                busy: &connections[..volume.busy],
                sent: vec![0; volume.busy],
                tagged,
            };
            // The starting thread may have given up.
            if told_accepted.send(()).is_ok() {
                for (until, ends) in volume.stages() {
                    if opened.recv().is_err() {
                        break;
                    }
                    sending.send(until, ends)?;
                }
            }
            Ok(connections)
        })?;
        Ok(Source { address, accepted, start, thread })
    }

    /// Waits until all connections are accepted.
    pub(crate) fn wait_accepted(&self) -> Result<(), Error> {
        self.accepted
            .recv_timeout(PATIENCE)
            .map_err(|_| Error::Faulty("timed out waiting for data connections".to_owned()))
    }

    /// Begins to send, or continues with the timed part.
    pub(crate) fn open(&self) {
        // If the source has ended, the receivers of its data report that.
        self.start.send(()).ok();
    }

    /// Waits until all data is sent. The connections are closed when the returned streams are dropped.
    pub(crate) fn finish(self) -> Result<Vec<TcpStream>, Error> {
        drop(self.start);
        sockets::join(self.thread, "the source could not send")
    }
}

impl Volume {
    /// Stages of sending: the position to send up to, and whether connections end there.
    fn stages(self) -> impl Iterator<Item = (u64, bool)> {
        let first = (self.first > 0).then_some((self.first, false));
        first.into_iter().chain([(self.first + self.bytes_each, self.ends)])
    }
}

/// State of sending.
struct Sending<'a> {
    pattern: &'a Pattern,
    busy: &'a [TcpStream],
    /// Bytes sent on each connection.
    sent: Vec<u64>,
    /// Tags of the records, if they have tags.
    tagged: Option<Tagged>,
}

impl Sending<'_> {
    /// Sends to all connections as they become writable, until each has `until` bytes.
    fn send(&mut self, until: u64, ends: bool) -> io::Result<()> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (index, connection) in self.busy.iter().enumerate() {
            epoll::add(&epoll, connection, EventData::new_u64(index as u64), EventFlags::OUT)?;
        }
        let mut left = self.busy.len();
        let mut events = [const { MaybeUninit::<Event>::uninit() }; 64];
        let patience = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
        while left > 0 {
            let (ready, _) = epoll::wait(&epoll, &mut events[..], Some(&patience))?;
            if ready.is_empty() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the receiver stalled"));
            }
            for event in ready.iter() {
                let index = event.data.u64() as usize;
                self.send_some(index, until)?;
                if self.sent[index] == until {
                    epoll::delete(&epoll, &self.busy[index])?;
                    if ends {
                        self.busy[index].shutdown(Shutdown::Write)?;
                    }
                    left -= 1;
                }
            }
        }
        Ok(())
    }

    /// Sends to one connection by one call.
    fn send_some(&mut self, index: usize, until: u64) -> io::Result<()> {
        let (mut offset, there) = self.pattern.piece(start_of(index) + self.sent[index]);
        let length = (until - self.sent[index]).min(there.min(CALL) as u64) as usize;
        let connection = &self.busy[index];
        let sent = match self.tagged {
            Some(tagged) => {
                let bytes = tagged.bytes(self.pattern, index, self.sent[index], length);
                send(connection, &bytes[..length], SendFlags::NOSIGNAL)
            }
            None => rustix::fs::sendfile(connection, self.pattern.file(), Some(&mut offset), length),
        };
        match sent {
            Ok(bytes) => self.sent[index] += bytes as u64,
            Err(Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }
}
