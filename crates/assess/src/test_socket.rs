//! Sockets of one run, and counters of arrived packets.

use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use socket2::SockRef;
use wirepath_datapath::{BlockSink, LoanCounts, LoanSwitch, UdpSink};
use wirepath_sys::socket::unacknowledged;

use crate::case::Case;
use crate::error::{Doing, Error};
use crate::header_sizes::UDP_OVER_IPV4;
use crate::result::Transport;
use crate::sent::Sent;
use crate::sink::Account;
use crate::subject::PathKind;
use crate::test_bed::{Acknowledgements, Counted, Device, Target, TcpTarget, TestBed};

/// Timeout for room in a socket.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Polling interval for unacknowledged bytes of a stream: doubled up to the limit, so that a fast network
/// does not wait, and a receiver that acknowledges late costs no processor time. There is no event for this.
const FIRST_LOOK: Duration = Duration::from_micros(100);
const LATER_LOOKS: Duration = Duration::from_millis(5);

/// Send buffer of a connection in bytes. A lent page is charged as a whole, however little of it is lent, and
/// a corked connection sends only full segments, or after 200 ms: the kernel's smallest buffer has no room
/// for a segment of small loans.
const SEND_BUFFER: usize = 1 << 20;

/// Ethernet and IPv4 headers, which a device counts with each packet.
const PER_PACKET: u64 = 14 + 20;

/// UDP header, which a device counts once per datagram, fragmented or not.
const PER_DATAGRAM: u64 = 8;

/// Socket set up for a path.
pub(crate) struct TestSocket {
    /// Sink of the path.
    pub(crate) sink: TestSink,
    /// Address of the peer, which a socket no longer knows when the peer has stopped.
    peer: String,
}

/// Sink of a path.
pub(crate) enum TestSink {
    /// Socket for trains.
    Trains(UdpSink),
    /// Socket for blocks.
    Blocks(Box<BlockSink>),
    /// Connection for packets, each behind its framing.
    Frames(TcpStream),
}

/// Counter of arrived packets.
pub(crate) enum Watch<'a> {
    Device(Device, Counted),
    Receiver(Account),
    Acknowledgements(Acknowledgements<'a>),
}

/// Evaluates an expression on a sink of either kind; for a connection of packets, which lends nothing, another one.
macro_rules! of_sink {
    ($socket:expr, $sink:ident => $ask:expr, _ => $other:expr) => {
        match &$socket.sink {
            TestSink::Trains($sink) => $ask,
            TestSink::Blocks($sink) => $ask,
            TestSink::Frames(_) => $other,
        }
    };
}

impl TestSink {
    fn socket(&self) -> BorrowedFd<'_> {
        match self {
            TestSink::Trains(sink) => sink.socket(),
            TestSink::Blocks(sink) => sink.socket(),
            TestSink::Frames(connection) => connection.as_fd(),
        }
    }
}

impl TestSocket {
    pub(crate) fn new(sink: TestSink) -> TestSocket {
        let peer = SockRef::from(&sink.socket()).peer_addr().ok().and_then(|peer| peer.as_socket());
        TestSocket { peer: peer.map_or("unknown".to_owned(), |address| address.to_string()), sink }
    }

    pub(crate) fn datagrams(case: &Case, socket: UdpSocket) -> Result<TestSocket, Error> {
        let opened = match case.path {
            PathKind::Stream(path) => UdpSink::new(socket, case.packet_size(), path).map(|sink| {
                TestSink::Trains(if case.is_single() { sink.without_segmentation() } else { sink })
            }),
            PathKind::Block(path) => BlockSink::udp(socket, case.packet_size(), path)
                .map(|sink| sink.with_switch(LoanSwitch::new(case.loans)))
                .map(|sink| {
                    let sink = if case.is_single() { sink.without_segmentation() } else { sink };
                    TestSink::Blocks(Box::new(sink))
                }),
            PathKind::Interleaved => return Err(Error::Unable("it sends in a connection only".to_owned())),
        };
        let opened = opened.map_err(|error| Error::Unable(format!("cannot set up its socket: {error}")));
        opened.map(TestSocket::new)
    }

    /// Socket for a case over TCP.
    pub(crate) fn stream(case: &Case, socket: TcpStream) -> Result<TestSocket, Error> {
        sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER).doing("setting up a connection")?;
        let sink = match case.path {
            PathKind::Block(path) => {
                let sink = BlockSink::tcp(socket, path).doing("setting up a connection")?;
                TestSink::Blocks(Box::new(sink.with_switch(LoanSwitch::new(case.loans))))
            }
            PathKind::Stream(_) | PathKind::Interleaved => {
                socket.set_nonblocking(true).doing("setting up a connection")?;
                TestSink::Frames(socket)
            }
        };
        Ok(TestSocket::new(sink))
    }

    /// Waits until the socket has room.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let patience = Timespec::try_from(PATIENCE).expect("some seconds");
        let mut socket = [PollFd::from_borrowed_fd(self.socket(), PollFlags::OUT)];
        match poll(&mut socket, Some(&patience)).doing("waiting for room in a socket")? {
            // Returned loans cause wake-ups too, and would do so repeatedly if left in the error queue.
            1 if !socket[0].revents().contains(PollFlags::OUT) => {
                self.wait_for_loans(Duration::from_millis(1)).map(drop)
            }
            0 => Err(self.stopped()),
            _ => Ok(()),
        }
    }

    /// Waits until all loans have returned, at most for `limit`.
    fn wait_for_loans(&self, limit: Duration) -> Result<bool, Error> {
        of_sink!(self, sink => sink.wait_for_loans(limit), _ => Ok(true))
            .doing("waiting for pages that were lent")
    }

    /// Ends a run: the network is done with all loans, and the receiver of a stream has acknowledged all
    /// bytes, so that paths that copy are charged for data left in the socket like paths that lend.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        if self.is_stream() {
            sockopt::set_tcp_cork(self.socket(), false).doing("uncorking a connection")?;
            self.wait_for_acknowledgement()?;
        }
        match self.wait_for_loans(PATIENCE)? {
            true => Ok(()),
            false => {
                Err(Error::Faulty(format!("zero-copy completions missing after {} s", PATIENCE.as_secs())))
            }
        }
    }

    /// Loans and copies; zeros for paths that do not lend.
    pub(crate) fn loans(&self) -> LoanCounts {
        of_sink!(self, sink => sink.loans(), _ => LoanCounts::default())
    }

    /// Waits until all bytes of a stream are acknowledged.
    fn wait_for_acknowledgement(&self) -> Result<(), Error> {
        let left = || unacknowledged(self.socket()).doing("asking what a connection has sent");
        let (mut before, mut since, mut look) = (left()?, Instant::now(), FIRST_LOOK);
        while before > 0 {
            let pause = Timespec::try_from(look).expect("less than a second");
            let mut socket = [PollFd::from_borrowed_fd(self.socket(), PollFlags::empty())];
            if poll(&mut socket, Some(&pause)).doing("waiting for a connection to send")? > 0 {
                self.is_connected(socket[0].revents())?;
                // Returned loans cause wake-ups too, and would do so repeatedly if left in the error queue.
                self.wait_for_loans(look)?;
            }
            let now = left()?;
            if now < before {
                (before, since) = (now, Instant::now());
            } else if since.elapsed() > PATIENCE {
                return Err(self.stopped());
            }
            look = (look * 2).min(LATER_LOOKS);
        }
        Ok(())
    }

    /// Checks that the wake-up was not caused by the end of the connection.
    fn is_connected(&self, events: PollFlags) -> Result<(), Error> {
        let failed = sockopt::socket_error(self.socket()).doing("asking what is wrong with a connection")?;
        let why = match failed {
            Err(errno) => errno.to_string(),
            Ok(()) if events.contains(PollFlags::HUP) => "it closed the connection".to_owned(),
            Ok(()) => return Ok(()),
        };
        Err(Error::SinkStopped { sink: self.peer(), why })
    }

    fn stopped(&self) -> Error {
        let why = format!("no progress for {} seconds", PATIENCE.as_secs());
        Error::SinkStopped { sink: self.peer(), why }
    }

    fn is_stream(&self) -> bool {
        match &self.sink {
            TestSink::Trains(_) => false,
            TestSink::Blocks(sink) => sink.is_stream(),
            TestSink::Frames(_) => true,
        }
    }

    /// Peer address as text.
    pub(crate) fn peer(&self) -> String {
        self.peer.clone()
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.sink.socket()
    }
}

/// Opens a new socket into the test bed, and the counter of arrived packets.
pub(crate) fn open<'a>(case: &Case, test_bed: &'a TestBed) -> Result<(TestSocket, Watch<'a>), Error> {
    match (case.transport, &test_bed.udp) {
        (Transport::Udp, Target::Drops(device)) => {
            let socket = UdpSocket::bind(("0.0.0.0", 0)).doing("opening a socket")?;
            socket.connect(test_bed.udp_address()).doing("connecting a socket")?;
            let test_socket = TestSocket::datagrams(case, socket)?;
            Ok((test_socket, Watch::Device(device.clone(), device.counted()?)))
        }
        (Transport::Udp, Target::Receives(remote)) => {
            let (socket, mut account) = remote.udp(case.packet_size())?;
            if case.path.lends() {
                account.expect_lent_pages();
            }
            Ok((TestSocket::datagrams(case, socket)?, Watch::Receiver(account)))
        }
        (Transport::Tcp, _) => {
            let (socket, watch) = match test_bed.tcp() {
                TcpTarget::Receives(remote) => {
                    let (socket, account) = remote.tcp()?;
                    (socket, Watch::Receiver(account))
                }
                TcpTarget::Acknowledges(sink) => {
                    let (socket, acknowledgements) = sink.connect()?;
                    (socket, Watch::Acknowledgements(acknowledgements))
                }
            };
            // Full segments, as in servers that send a file in blocks. Otherwise the number of segments would
            // depend on the timing of acknowledgements and blocks.
            sockopt::set_tcp_cork(&socket, true).doing("corking a connection")?;
            Ok((TestSocket::stream(case, socket)?, watch))
        }
    }
}

impl Watch<'_> {
    fn account(&self) -> Option<&Account> {
        match self {
            Watch::Device(..) | Watch::Acknowledgements(_) => None,
            Watch::Receiver(account) => Some(account),
        }
    }

    /// Packets of a case to hand to its path at a time: at most half of the receiver's window, since they
    /// come on top of packets in flight.
    pub(crate) fn train_packets(&self, case: &Case) -> u32 {
        let room = self.window() / (2 * u64::from(case.packet_size()));
        case.train_packets().min(u32::try_from(room.max(1)).unwrap_or(u32::MAX))
    }

    /// Waits for the receiver after `transport_bytes` bytes in total, if the receiver requires it.
    #[inline]
    pub(crate) fn pace(&mut self, transport_bytes: u64) -> Result<(), Error> {
        match self {
            Watch::Device(..) | Watch::Acknowledgements(_) => Ok(()),
            Watch::Receiver(account) => account.pace(transport_bytes),
        }
    }

    /// Number of receiver reports read so far.
    pub(crate) fn reports(&self) -> u64 {
        self.account().map_or(0, Account::reports)
    }

    /// Bytes that may be in flight without waiting.
    pub(crate) fn window(&self) -> u64 {
        self.account().map_or(u64::MAX, Account::window)
    }

    /// Bytes that may be sent in one burst without waiting.
    pub(crate) fn most_at_once(&self) -> u64 {
        self.window() / 4
    }

    /// Checks that all packets arrived.
    ///
    /// # Errors
    /// [`Error::Faulty`] if not.
    pub(crate) fn settle(self, case: &Case, sent: &Sent, mtu: u32) -> Result<(), Error> {
        match self {
            Watch::Device(device, before) => {
                let counted = device.counted()?.since(before);
                let room = mtu - UDP_OVER_IPV4;
                let datagrams = if case.is_fragmented(room) { sent.packets } else { counted.packets };
                let expected = sent.transport_bytes + PER_DATAGRAM * datagrams + PER_PACKET * counted.packets;
                missing(expected, counted.bytes, "bytes, headers included, were sent, and the device counted")
            }
            Watch::Acknowledgements(acknowledgements) => {
                let (acknowledged, reached) = acknowledgements.bytes()?;
                missing(sent.transport_bytes, acknowledged, "bytes were sent, and acknowledged were")?;
                missing(sent.transport_bytes, reached, "bytes were sent, and the device counted")
            }
            Watch::Receiver(account) => {
                let came = account.settle(sent.transport_bytes)?;
                missing(sent.transport_bytes, came.bytes, "bytes were sent, and the receiver counted")?;
                match case.transport {
                    Transport::Udp => {
                        missing(sent.packets, came.packets, "packets were sent, and the receiver counted")
                    }
                    Transport::Tcp => Ok(()),
                }
            }
        }
    }
}

fn missing(expected: u64, came: u64, what: &str) -> Result<(), Error> {
    match expected == came {
        true => Ok(()),
        false => Err(Error::Faulty(format!("{expected} {what} {came}"))),
    }
}

#[cfg(test)]
mod tests;
