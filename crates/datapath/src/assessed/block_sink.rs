//! Sinks of blocks: a TCP connection, or a UDP socket connected to one receiver.

use std::cell::RefCell;
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use wirepath_sys::device::{self, DeviceName};
use wirepath_sys::errno_of;
use wirepath_sys::gather::MAXIMUM_DATAGRAMS;
use wirepath_sys::module::Run;
use wirepath_sys::pages::{Lent, SharedPages};
use wirepath_sys::ring::Ledger;
use wirepath_sys::socket::set_segment;
use wirepath_sys::zerocopy;

use super::block_path::BlockPath;
use super::loan_policy::LoanSwitch;
use crate::error::is_full;
use crate::loans::{Ends, LoanRoutes, Loans};
use crate::sink::{packets_fit, set_fragmentation};
use crate::{Extent, LoanCounts, MappedFile, SendContext, SendError};

/// Most outstanding loans of a caller's own pages; further sends are copied.
const PAGES_LENT: usize = 256;

/// Sink of blocks: a connected socket, set up for one path.
///
/// The socket of a sink that lends is ready for errors (EPOLLERR) whenever a loan is completed. The sink
/// reads the error queue at intervals while it sends, and in [`BlockSink::reclaim_loans`].
#[derive(Debug)]
pub struct BlockSink {
    pub(crate) socket: Arc<OwnedFd>,
    stream: bool,
    /// Bytes of a datagram, and datagrams of a train: the values for the kernel module's runs.
    datagram_bytes: u16,
    train_datagrams: u32,
    pub(crate) lender: Option<Lender>,
}

/// State of a sink that lends.
#[derive(Debug)]
pub(crate) struct Lender {
    pub(crate) loans: RefCell<Loans<Lent>>,
    /// Loans that were made by rings.
    pub(crate) by_ring: Arc<Ledger>,
    /// `None` if every send lends.
    switch: Option<LoanSwitch>,
    device_takes_loans: bool,
    ends: Ends,
}

impl BlockSink {
    /// A TCP connection.
    ///
    /// # Errors
    /// `EPROTONOSUPPORT` if the path needs the kernel module, `ENOTSUPP` (524) if it lends and the kernel
    /// cannot (before Linux 4.14), else those of the calls.
    pub fn tcp(socket: TcpStream, path: BlockPath) -> io::Result<BlockSink> {
        if path.needs_module() {
            return Err(Errno::PROTONOSUPPORT.into());
        }
        socket.set_nonblocking(true)?;
        let (local, peer) = (socket.local_addr()?.ip(), socket.peer_addr().ok());
        let lender = Lender::of(socket.as_fd(), path, || Ends::of(local, peer))?;
        Ok(BlockSink {
            socket: Arc::new(socket.into()),
            stream: true,
            datagram_bytes: 0,
            train_datagrams: 1,
            lender,
        })
    }

    /// A UDP socket connected to one receiver, for datagrams of at most `packet_size` bytes.
    ///
    /// # Errors
    /// `ENOPROTOOPT` if the path needs segmentation and the kernel has none (before Linux 4.18), `ENOTSUPP`
    /// (524) if it lends and the kernel cannot (before Linux 5.0), else those of the calls.
    pub fn udp(socket: UdpSocket, packet_size: u16, path: BlockPath) -> io::Result<BlockSink> {
        socket.set_nonblocking(true)?;
        if path.segments() {
            set_segment(socket.as_fd(), packet_size)?;
        }
        let local = socket.local_addr()?;
        let in_trains = path.segments() || (path.takes_runs() && packets_fit(&socket, packet_size));
        set_fragmentation(socket.as_fd(), local, !in_trains)?;
        let peer = socket.peer_addr().ok();
        let lender = Lender::of(socket.as_fd(), path, || Ends::of(local.ip(), peer))?;
        let train_datagrams = if in_trains { MAXIMUM_DATAGRAMS as u32 } else { 1 };
        let socket = Arc::new(socket.into());
        Ok(BlockSink { socket, stream: false, datagram_bytes: packet_size, train_datagrams, lender })
    }

    /// The same, but runs of the kernel module are single datagrams: to measure the saving of trains.
    pub fn without_segmentation(mut self) -> BlockSink {
        self.train_datagrams = 1;
        self
    }

    /// The same, with a `switch` that decides which sends lend. It affects the path `loan` only.
    pub fn with_switch(mut self, switch: LoanSwitch) -> BlockSink {
        if let Some(own) = self.lender.as_mut().and_then(|lender| lender.switch.as_mut()) {
            *own = switch;
        }
        self
    }

    /// The same, with the experience of other sinks than those of the process. Before the first send.
    pub fn with_routes(mut self, routes: &LoanRoutes) -> BlockSink {
        let socket = Arc::clone(&self.socket);
        if let Some(lender) = &mut self.lender {
            let loans = Loans::new(PAGES_LENT, Lent::returned);
            lender.loans = RefCell::new(loans.with_route(routes.route(socket.as_fd(), &lender.ends)));
        }
        self
    }

    /// The socket, to wait for room or to shut down.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns whether it accepts a stream of bytes instead of datagrams.
    pub fn is_stream(&self) -> bool {
        self.stream
    }

    /// A run of payload, divided into this sink's datagrams.
    pub(crate) fn in_datagrams<'a>(&self, run: Run<'a>) -> Run<'a> {
        run.in_packets(self.datagram_bytes.into()).in_trains(self.train_datagrams)
    }

    /// Loans and copies, as of the last call that read the error queue; zeros if the path does not lend.
    pub fn loans(&self) -> LoanCounts {
        self.lender.as_ref().map(Lender::counts).unwrap_or_default()
    }

    /// Processes some of the completed loans. Never blocks.
    pub fn reclaim_loans(&self) -> io::Result<LoanCounts> {
        if let Some(lender) = &self.lender {
            lender.loans.borrow_mut().read(self.socket())?;
        }
        Ok(self.loans())
    }

    /// Waits until all loans are completed, at most for `timeout`; returns whether they are.
    pub fn wait_for_loans(&self, timeout: Duration) -> io::Result<bool> {
        match &self.lender {
            Some(lender) => lender.loans.borrow_mut().wait(self.socket(), timeout),
            None => Ok(true),
        }
    }

    /// Returns whether a send of this range of memory should lend it. An empty one never should: the kernel
    /// does not number such a loan over TCP, and would never report its completion.
    #[inline]
    pub(crate) fn lends(&self, range: &Range<usize>) -> bool {
        self.lends_unless(range, |lender| lender.are_pointless(self.socket()))
    }

    /// The same, for a loan by a ring.
    pub(crate) fn lends_by_ring(&self, range: &Range<usize>) -> bool {
        self.lends_unless(range, Lender::are_pointless_by_ring)
    }

    #[inline]
    fn lends_unless(&self, range: &Range<usize>, are_pointless: impl FnOnce(&Lender) -> bool) -> bool {
        let Some(lender) = self.lender.as_ref().filter(|_| !range.is_empty()) else { return false };
        let Some(switch) = &lender.switch else { return true };
        let policy = switch.policy();
        let is_worth_it = || policy.forced.is_some() || !are_pointless(lender);
        lender.device_takes_loans && policy.lends(range) && is_worth_it()
    }

    /// Lends by `send`; `None` if the kernel accepts no loan now: then a copy is sent.
    #[inline]
    pub(crate) fn lend(
        &self,
        send: impl FnMut() -> io::Result<(usize, Option<Lent>)>,
    ) -> Result<Option<usize>, SendError> {
        let unprepared = SendError::Unsupported { call: "setsockopt(SO_ZEROCOPY)", errno: Errno::OPNOTSUPP };
        let mut loans = self.lender.as_ref().ok_or(unprepared)?.loans.borrow_mut();
        loans.lend(self.socket(), send).map_err(|errno| self.failed("send", errno))
    }

    /// Counts a send that could have lent and was copied, if it sent anything.
    #[inline]
    pub(crate) fn counted_copy(&self, sent: Result<usize, SendError>) -> Result<usize, SendError> {
        if let (Ok(_), Some(lender)) = (sent, &self.lender) {
            lender.loans.borrow_mut().copied();
        }
        sent
    }

    /// Sends a copy of a range of pages.
    pub(crate) fn copy_pages(&self, pages: &SharedPages, range: Range<usize>) -> Result<usize, SendError> {
        let sent = pages.copy(self.socket(), range);
        self.counted_copy(sent.map_err(|error| self.failed_io("send", &error)))
    }

    /// Classifies the error of a send.
    pub(crate) fn failed(&self, call: &'static str, errno: Errno) -> SendError {
        match errno {
            errno if is_full(errno) => SendError::Full { call },
            Errno::FAULT => SendError::Storage { call, errno },
            errno if self.stream => SendError::Other { call, errno },
            errno => SendError::of_udp(call, errno),
        }
    }

    /// Like `failed`, for errors of `std`.
    pub(crate) fn failed_io(&self, call: &'static str, error: &io::Error) -> SendError {
        self.failed(call, errno_of(error))
    }
}

/// An extent of a file to send to a sink, without headers.
pub(crate) struct BlockRequest<'a> {
    pub(crate) sink: &'a BlockSink,
    pub(crate) file: &'a MappedFile,
    pub(crate) extent: Extent,
    pub(crate) context: &'a mut SendContext,
}

impl BlockRequest<'_> {
    /// Sends the extent, or its first bytes if the sink is a stream, from the mapping; returns how many: the
    /// papers' `mmap_send`, one call, one copy.
    #[inline]
    pub(crate) fn copy(&self) -> Result<usize, SendError> {
        let sent = self.file.mapping.copy(self.sink.socket(), self.extent.in_memory());
        sent.map_err(|error| self.sink.failed_io("send", &error))
    }
}

impl Drop for BlockSink {
    /// Reads the error queue a last time, so that pages of completed loans are not abandoned.
    fn drop(&mut self) {
        if let Some(lender) = &mut self.lender {
            let heard = lender.loans.get_mut().read_all(self.socket.as_fd());
            debug_assert!(heard.is_ok(), "the error queue of an open socket can be read: {heard:?}");
        }
    }
}

impl Lender {
    fn of(
        socket: BorrowedFd<'_>,
        path: BlockPath,
        ends: impl FnOnce() -> Ends,
    ) -> io::Result<Option<Lender>> {
        if !path.lends() {
            return Ok(None);
        }
        zerocopy::enable(socket)?;
        let ends = ends();
        let route = LoanRoutes::of_process().route(socket, &ends);
        Ok(Some(Lender {
            loans: RefCell::new(Loans::new(PAGES_LENT, Lent::returned).with_route(route)),
            by_ring: Arc::default(),
            switch: (path == BlockPath::Loan).then(LoanSwitch::default),
            device_takes_loans: ends.device().is_none_or(|device| takes_loans(socket, device)),
            ends,
        }))
    }

    fn counts(&self) -> LoanCounts {
        let (loans, by_ring) = (self.loans.borrow(), &self.by_ring);
        let counts = loans.counts();
        LoanCounts {
            loans: counts.loans + loans.by_ring(),
            copied_by_kernel: counts.copied_by_kernel + by_ring.copied(),
            outstanding: counts.outstanding + loans.by_ring().saturating_sub(by_ring.back()),
            ..counts
        }
    }

    fn are_pointless(&self, socket: BorrowedFd<'_>) -> bool {
        self.loans.borrow_mut().are_pointless(socket)
    }

    fn are_pointless_by_ring(&self) -> bool {
        self.loans.borrow().are_pointless_by_ring(self.by_ring.copied_in_a_row())
    }
}

/// Returns whether a device can send lent pages. If that is unknown it is assumed to: if the kernel copies, its
/// notifications report it.
fn takes_loans(socket: BorrowedFd<'_>, device: &DeviceName) -> bool {
    device::offloads_checksums(socket, device).unwrap_or(true)
        && device::gathers(socket, device).unwrap_or(true)
}
