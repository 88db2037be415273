//! Source of records at a fixed rate, on processors other than the measured one.
//!
//! The rate is the same for all methods, and the source sleeps between bursts, so that its time and
//! that of the whole machine can be compared: a source that polls, as for other parts, would use all time.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::forwarder;
use super::records::{RECORD, Records};
use super::source::PATIENCE;
use crate::error::{Doing, Error};
use crate::sockets;
use crate::test_bed::TestBed;

/// Records of a burst, and time between bursts: 40,000 records a second.
pub(crate) const BURST: u64 = 40;
const TICK: Duration = Duration::from_millis(1);

/// Paced source.
pub(crate) struct Paced {
    accepted: Receiver<()>,
    start: Sender<()>,
    thread: JoinHandle<io::Result<()>>,
}

/// Bytes that a receiver of datagrams may be behind: less than its buffer.
pub(crate) const WINDOW: u64 = 256 << 10;

/// Room of receivers of datagrams.
pub(crate) struct Room {
    /// Bytes at the receiver that has received least.
    pub(crate) received: Arc<AtomicU64>,
    /// Bytes that it may be behind.
    pub(crate) window: u64,
}

/// Socket that records are sent by.
enum To {
    Connection(TcpStream),
    /// Socket, and the room of receivers, if there are any.
    Datagrams(UdpSocket, Option<Room>),
}

impl Paced {
    /// Source of one connection to its address, which ends after the records.
    pub(crate) fn listen(
        test_bed: &TestBed,
        records: Records,
        number: u64,
    ) -> Result<(Paced, SocketAddr), Error> {
        let listener = test_bed.in_peer_namespace(|address| {
            forwarder::listener(SocketAddr::new(address, 0)).doing("listening for a forwarder")
        })?;
        let address = listener.local_addr().doing("asking for the address")?;
        let open = move || {
            let (connection, _) = sockets::accept(&listener, PATIENCE)?;
            connection.set_nonblocking(false)?;
            connection.set_write_timeout(Some(PATIENCE))?;
            Ok(To::Connection(connection))
        };
        Ok((Paced::start(test_bed, open, records, number)?, address))
    }

    /// Source of datagrams to an address.
    pub(crate) fn connect(
        test_bed: &TestBed,
        to: SocketAddr,
        records: Records,
        number: u64,
        room: Option<Room>,
    ) -> Result<Paced, Error> {
        let socket = test_bed.in_peer_namespace(|address| {
            let socket = UdpSocket::bind((address, 0)).doing("opening a source of datagrams")?;
            socket.connect(to).doing("connecting a source of datagrams")?;
            Ok(socket)
        })?;
        Paced::start(test_bed, move || Ok(To::Datagrams(socket, room)), records, number)
    }

    fn start(
        test_bed: &TestBed,
        open: impl FnOnce() -> io::Result<To> + Send + 'static,
        records: Records,
        number: u64,
    ) -> Result<Paced, Error> {
        let (told_accepted, accepted) = channel();
        let (start, started) = channel();
        let thread = test_bed.spawn_beside("source", move || {
            let to = open()?;
            // The starting thread may have given up.
            if told_accepted.send(()).is_ok() && started.recv().is_ok() {
                send(&to, &records, number)?;
            }
            Ok(())
        })?;
        Ok(Paced { accepted, start, thread })
    }

    /// Waits until the source has its socket.
    pub(crate) fn wait_accepted(&self) -> Result<(), Error> {
        self.accepted
            .recv_timeout(PATIENCE)
            .map_err(|_| Error::Faulty("timed out waiting for a data connection".to_owned()))
    }

    /// Begins to send.
    pub(crate) fn open(&self) {
        // If the source has ended, the receivers of its data report that.
        self.start.send(()).ok();
    }

    /// Waits until all records are sent.
    pub(crate) fn finish(self) -> Result<(), Error> {
        drop(self.start);
        sockets::join(self.thread, "the source could not send")
    }
}

/// Sends bursts at least a tick apart. Late ones are not made up for, as queues on the way are short.
fn send(to: &To, records: &Records, number: u64) -> io::Result<()> {
    let (mut sent, mut last) = (0, Instant::now());
    while sent < number {
        std::thread::sleep((last + TICK).saturating_duration_since(Instant::now()));
        let is_late = last.elapsed() > 2 * TICK;
        last = if is_late { Instant::now() } else { last + TICK };
        to.wait_for_room(records.passed(sent) * RECORD as u64)?;
        let burst = records.some(sent, BURST.min(number - sent));
        match to {
            To::Connection(connection) => (&*connection).write_all(burst)?,
            To::Datagrams(socket, _) => {
                burst.chunks(RECORD).try_for_each(|record| socket.send(record).map(drop))?;
            }
        }
        sent += (burst.len() / RECORD) as u64;
    }
    match to {
        To::Connection(connection) => connection.shutdown(Shutdown::Write),
        To::Datagrams(..) => Ok(()),
    }
}

impl To {
    /// Waits until all receivers of datagrams have nearly all of the bytes that were sent to them.
    fn wait_for_room(&self, sent: u64) -> io::Result<()> {
        let To::Datagrams(_, Some(Room { received, window })) = self else { return Ok(()) };
        let deadline = Instant::now() + PATIENCE;
        while sent.saturating_sub(received.load(Ordering::Relaxed)) > *window {
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the receiver has no room"));
            }
            std::thread::sleep(TICK);
        }
        Ok(())
    }
}
