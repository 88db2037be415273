//! Track of a session: its transport, its judge and its RTCP.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use tokio::io::Interest;
use tokio::net::UdpSocket;
use wirepath_media::rtcp::{ReceiverState, read_from_sender};
use wirepath_media::rtp::Header;
use wirepath_sys::arrivals::{self, Arrival};
use wirepath_sys::datagrams::MAXIMUM_TRAIN;

use crate::clock::Clock;
use crate::distribution::Distribution;
use crate::judge::{Change, Judge, Packet, Reference};
use crate::shared_pairs::Membership;
use crate::sockets::UdpPair;
use crate::totals::Totals;

/// Maximum number of reads of a socket before other sockets are read.
const TURN: usize = 64;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; MAXIMUM_TRAIN]);
}

/// Transport of a track's packets.
#[derive(Debug)]
pub(crate) enum Way {
    /// Sockets, address of the sender, and destination of receiver reports.
    Udp { pair: UdpPair, source: IpAddr, reports_to: Option<SocketAddr> },
    /// Place at sockets that sessions outside the sample share, and destination of receiver reports.
    Shared { membership: Membership, reports_to: Option<SocketAddr> },
    /// Channels of RTP and RTCP.
    Interleaved { rtp: u8, rtcp: u8 },
}

/// Track of a session.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) way: Way,
    /// `None` if the packets are discarded.
    pub(crate) judge: Option<Judge>,
    /// SSRC of the receiver.
    ssrc: u32,
    last_sender_report: Option<(u32, i64)>,
    pub(crate) sender_reports: u64,
    pub(crate) receiver_reports: u64,
    /// True if the sender has sent BYE.
    pub(crate) has_ended: bool,
}

/// Totals to which a receiving thread adds.
pub(crate) struct Sink<'a> {
    pub(crate) clock: Clock,
    pub(crate) totals: &'a Totals,
    /// Time that datagrams waited before they were read.
    pub(crate) waiting: &'a mut Distribution,
}

impl Track {
    pub(crate) fn new(way: Way, judge: Option<Judge>, ssrc: u32) -> Track {
        Track {
            way,
            judge,
            ssrc,
            last_sender_report: None,
            sender_reports: 0,
            receiver_reports: 0,
            has_ended: false,
        }
    }

    /// Reads received datagrams over UDP. Ready if there were any.
    pub(crate) fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        sink: &mut Sink<'_>,
    ) -> Poll<io::Result<()>> {
        let Track { way: Way::Udp { pair, source, .. }, judge, .. } = self else { return Poll::Pending };
        let mut progress = false;
        if let Some(judge) = judge {
            progress = poll_turn(&pair.rtp, context, |arrival, bytes| {
                if arrival.from.is_some_and(|from| from.ip() == *source) {
                    judge_train(judge, &arrival, bytes, sink);
                }
            })?;
        }
        let mut reports = Vec::new();
        progress |= poll_turn(&pair.rtcp, context, |arrival, bytes| {
            if arrival.from.is_some_and(|from| from.ip() == *source) {
                reports.push(bytes.to_vec());
            }
        })?;
        reports.iter().for_each(|report| self.control(report, sink.clock.now_us()));
        if progress { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Handles an interleaved frame, if it belongs to this track.
    pub(crate) fn frame(&mut self, channel: u8, data: &[u8], now_us: i64, totals: &Totals) {
        let Way::Interleaved { rtp, rtcp } = self.way else { return };
        if channel == rtcp {
            self.control(data, now_us);
        } else if let (true, Some(judge)) = (channel == rtp, &mut self.judge) {
            judge_packet(judge, data, now_us, totals);
        }
    }

    /// Makes a receiver report.
    pub(crate) fn report(&mut self, cname: &str, now_us: i64) -> Vec<u8> {
        let mut reception = self.judge.as_mut().and_then(Judge::reception);
        if let (Some((_, reception)), Some((last, at_us))) = (&mut reception, self.last_sender_report) {
            let since_us = (now_us - at_us).max(0) as u64;
            (reception.last_report, reception.delay_since) = (last, (since_us * 65_536 / 1_000_000) as u32);
        }
        self.receiver_reports += 1;
        ReceiverState { ssrc: self.ssrc, reception }.report(cname)
    }

    /// Number of datagrams that the client's socket dropped.
    pub(crate) fn drops(&self) -> u64 {
        match &self.way {
            // A socket whose drops cannot be read counts as 0.
            Way::Udp { pair, .. } => arrivals::drops(pair.rtp.as_fd()).unwrap_or(0).into(),
            Way::Shared { .. } | Way::Interleaved { .. } => 0,
        }
    }

    /// Takes the counts that arrived over shared sockets.
    pub(crate) fn take_shared(&mut self, now_us: i64) {
        let Way::Shared { membership, .. } = &self.way else { return };
        let member = &membership.member;
        let reports = member.sender_reports.load(Relaxed);
        if reports > self.sender_reports {
            self.last_sender_report = Some((member.last_report.load(Relaxed), now_us));
        }
        self.sender_reports = reports;
        self.has_ended |= member.has_ended.load(Relaxed);
    }

    fn control(&mut self, bytes: &[u8], now_us: i64) {
        // Datagrams that are not RTCP are ignored.
        let Ok(found) = read_from_sender(bytes) else { return };
        self.sender_reports += u64::from(found.reports);
        if let Some(last) = found.last_report {
            self.last_sender_report = Some((last, now_us));
        }
        self.has_ended |= found.bye;
    }
}

/// Reads datagrams, at most `TURN` at a time. Returns whether there were any. If there were none, the context
/// is woken by the next datagram.
fn poll_turn(
    socket: &UdpSocket,
    context: &mut Context<'_>,
    mut take: impl FnMut(Arrival, &[u8]),
) -> io::Result<bool> {
    BUFFER.with_borrow_mut(|buffer| {
        while socket.poll_recv_ready(context)?.is_ready() {
            if read_turn(socket, buffer, &mut take)? {
                return Ok(true);
            }
        }
        Ok(false)
    })
}

fn read_turn(
    socket: &UdpSocket,
    buffer: &mut [u8],
    take: &mut impl FnMut(Arrival, &[u8]),
) -> io::Result<bool> {
    for reads in 0..TURN {
        match socket.try_io(Interest::READABLE, || arrivals::receive(socket.as_fd(), buffer)) {
            Ok(arrival) => take(arrival, &buffer[..arrival.bytes]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(reads > 0),
            // The server's port was already closed when a report reached it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn judge_train(judge: &mut Judge, arrival: &Arrival, bytes: &[u8], sink: &mut Sink<'_>) {
    let (arrival_us, waited_us) = sink.clock.arrival_us(arrival.since_1970);
    sink.waiting.add(waited_us);
    for datagram in bytes.chunks(arrival.datagram_bytes.unwrap_or(MAXIMUM_TRAIN).max(1)) {
        judge_packet(judge, datagram, arrival_us, sink.totals);
    }
}

fn judge_packet(judge: &mut Judge, bytes: &[u8], arrival_us: i64, totals: &Totals) {
    let Some(header) = Header::parse(bytes) else {
        judge.counts.strays += 1;
        return;
    };
    let reference = Reference::find(header.payload_type, bytes);
    let change: Change = judge.packet(&Packet { header, bytes: bytes.len(), arrival_us, reference });
    totals.packets.fetch_add(1, Relaxed);
    totals.bytes.fetch_add(bytes.len() as u64, Relaxed);
    totals.change(&change);
}
