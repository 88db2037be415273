//! A receiver of RTP and RTCP that keeps everything with its time of arrival.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use wirepath_testkit::udp::close_port;

use crate::Deadline;

/// One packet as it came.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Sequence number.
    pub sequence: u16,
    /// Timestamp.
    pub timestamp: u32,
    /// Marker bit.
    pub marker: bool,
    /// Payload type.
    pub payload_type: u8,
    /// Synchronisation source.
    pub ssrc: u32,
    /// Identifier and contents of its header extension, if it has one.
    pub extension: Option<(u16, Vec<u8>)>,
    /// Its payload's range in [`Received::payload`].
    pub payload: Range<usize>,
    /// When it was read.
    pub arrival: Instant,
}

/// A sender report.
#[derive(Clone, Copy, Debug)]
pub struct SenderReport {
    /// Synchronisation source.
    pub ssrc: u32,
    /// Its NTP time (RFC 3550 section 6.4.1).
    pub ntp: u64,
    /// RTP timestamp that corresponds to its NTP time.
    pub timestamp: u32,
    /// Packets sent so far.
    pub packets: u32,
    /// When it was read.
    pub arrival: Instant,
}

/// Data received so far.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Packets in the order of arrival.
    pub packets: Vec<Packet>,
    /// Their payloads, one after another.
    pub payload: Vec<u8>,
    /// Sender reports in the order of arrival.
    pub reports: Vec<SenderReport>,
    /// When a BYE came; all packets sent before it are in.
    pub bye: Option<Instant>,
    /// Datagrams that are neither RTP nor RTCP, and what is wrong with them.
    pub errors: Vec<String>,
}

impl Received {
    /// Pairs of sequence numbers that do not follow each other.
    pub fn gaps(&self) -> Vec<(u16, u16)> {
        let pairs = self.packets.windows(2).map(|pair| (pair[0].sequence, pair[1].sequence));
        pairs.filter(|(before, after)| before.wrapping_add(1) != *after).collect()
    }

    /// Seconds from the first packet to the last.
    pub fn seconds(&self) -> f64 {
        let ends = self.packets.first().zip(self.packets.last());
        ends.map_or(0.0, |(first, last)| (last.arrival - first.arrival).as_secs_f64())
    }
}

/// A pair of sockets and the thread that reads them.
pub struct Receiver {
    rtp: UdpSocket,
    rtcp: UdpSocket,
    shared: Arc<Shared>,
    /// Closing it stops the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    received: Mutex<Received>,
    changed: Condvar,
}

impl Receiver {
    /// Receives on an even port and the next of this address, in the calling thread's network namespace.
    pub fn bind(address: IpAddr) -> Result<Self> {
        let (rtp, rtcp) = pair(address)?;
        Self::of(rtp, rtcp)
    }

    /// Receives what is sent to a group at this even port and the next, over the loopback interface.
    pub fn join(group: Ipv4Addr, port: u16) -> Result<Self> {
        let join = |port: u16| {
            let socket = UdpSocket::bind((group, port)).with_context(|| format!("binding {group}:{port}"))?;
            socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).context("joining")?;
            make_room(&socket);
            Ok::<_, anyhow::Error>(socket)
        };
        Self::of(join(port)?, join(port + 1)?)
    }

    fn of(rtp: UdpSocket, rtcp: UdpSocket) -> Result<Self> {
        let (stop, stopped) = UnixStream::pair().context("socketpair")?;
        let shared = Arc::<Shared>::default();
        let reader = Reader {
            rtp: rtp.try_clone().context("dup")?,
            rtcp: rtcp.try_clone().context("dup")?,
            shared: Arc::clone(&shared),
        };
        let thread = std::thread::spawn(move || reader.run(&stopped));
        Ok(Self { rtp, rtcp, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// The RTP port, even; RTCP is the next.
    pub fn port(&self) -> Result<u16> {
        Ok(self.rtp.local_addr().context("getsockname")?.port())
    }

    /// A copy of what came so far.
    pub fn received(&self) -> Received {
        self.shared.received.lock().expect("the reader does not panic").clone()
    }

    /// Waits until what came satisfies `condition`, and answers a copy.
    pub fn wait_for(
        &self,
        what: &str,
        deadline: Deadline,
        condition: impl Fn(&Received) -> bool,
    ) -> Result<Received> {
        let received = self.shared.received.lock().expect("the reader does not panic");
        let unmet = |received: &mut Received| !condition(received);
        let waited = self.shared.changed.wait_timeout_while(received, deadline.left(), unmet);
        let (received, timeout) = waited.expect("the reader does not panic");
        if timeout.timed_out() {
            let Received { packets, reports, bye, errors, .. } = &*received;
            let (packets, reports) = (packets.len(), reports.len());
            bail!("no {what} in time: {packets} packets, {reports} reports, bye {bye:?}, errors {errors:?}");
        }
        Ok(received.clone())
    }

    /// Waits for the server's BYE.
    pub fn to_the_end(&self, deadline: Deadline) -> Result<Received> {
        self.wait_for("BYE", deadline, |received| received.bye.is_some())
    }

    /// Makes both ports answer like closed ones, and keeps other tests from them.
    pub fn close_ports(&self) {
        close_port(&self.rtp);
        close_port(&self.rtcp);
    }

    /// Returns whether media stops within so many seconds: from then on nothing comes for half a second.
    pub fn falls_silent_within(&self, seconds: f64) -> bool {
        let deadline = Deadline::seconds(seconds);
        loop {
            let before = self.received().packets.len();
            let more = |received: &Received| received.packets.len() > before;
            if self.wait_for("further packet", Deadline::seconds(0.5), more).is_err() {
                return true;
            }
            if deadline.has_passed() {
                return false;
            }
        }
    }

    /// Sends a datagram from the RTCP port.
    pub fn send_rtcp(&self, datagram: &[u8], to: SocketAddr) -> Result<()> {
        self.rtcp.send_to(datagram, to).context("sending RTCP")?;
        Ok(())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If the reader panicked, waiting for what it reads has already failed the test.
            thread.join().ok();
        }
    }
}

/// Binds an even port and the next (RFC 3550 section 11).
pub fn pair(address: IpAddr) -> Result<(UdpSocket, UdpSocket)> {
    for _ in 0..1000 {
        let first = UdpSocket::bind((address, 0)).with_context(|| format!("binding {address}"))?;
        let port = first.local_addr().context("getsockname")?.port();
        if port % 2 == 0
            && let Ok(second) = UdpSocket::bind((address, port + 1))
        {
            make_room(&first);
            return Ok((first, second));
        }
    }
    bail!("no free pair of ports on {address}")
}

/// Room for seconds of media, so that a busy test machine loses nothing: beyond the system's limit where we
/// may.
pub fn make_room(socket: &UdpSocket) {
    use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
    const ROOM: usize = 16 << 20;
    if set_socket_recv_buffer_size_force(socket, ROOM).is_err() {
        // Without the privilege the system's limit applies; a loss would be seen as one.
        set_socket_recv_buffer_size(socket, ROOM).ok();
    }
}

struct Reader {
    rtp: UdpSocket,
    rtcp: UdpSocket,
    shared: Arc<Shared>,
}

impl Reader {
    fn run(&self, stopped: &UnixStream) {
        for socket in [&self.rtp, &self.rtcp] {
            socket.set_nonblocking(true).expect("a socket can be made non-blocking");
        }
        loop {
            let mut sockets =
                [&self.rtp, &self.rtcp].map(|socket| PollFd::new(socket, PollFlags::IN)).to_vec();
            sockets.push(PollFd::new(stopped, PollFlags::IN));
            poll(&mut sockets, None).expect("poll takes three descriptors");
            if !sockets[2].revents().is_empty() {
                return;
            }
            // RTCP first: a BYE is entered after the packets that were there when it was read.
            let reports = drain(&self.rtcp);
            let packets = drain(&self.rtp);
            self.enter(packets, reports);
        }
    }

    fn enter(&self, packets: Vec<(Vec<u8>, Instant)>, reports: Vec<(Vec<u8>, Instant)>) {
        let mut received = self.shared.received.lock().expect("tests do not panic holding it");
        for (datagram, arrival) in packets {
            if let Err(error) = enter_packet(&mut received, &datagram, arrival) {
                received.errors.push(error);
            }
        }
        for (datagram, arrival) in reports {
            if let Err(error) = enter_report(&mut received, &datagram, arrival) {
                received.errors.push(error);
            }
        }
        self.shared.changed.notify_all();
    }
}

/// Everything that a socket holds now.
fn drain(socket: &UdpSocket) -> Vec<(Vec<u8>, Instant)> {
    let mut datagrams = Vec::new();
    let mut buffer = [0; 65536];
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => datagrams.push((buffer[..length].to_vec(), Instant::now())),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Nothing more; a network that went down under the socket brings nothing either.
            Err(_) => return datagrams,
        }
    }
}

pub(crate) fn enter_packet(received: &mut Received, datagram: &[u8], arrival: Instant) -> Result<(), String> {
    let packet = rtp_types::RtpPacket::parse(datagram).map_err(|error| format!("RTP: {error}"))?;
    let start = received.payload.len();
    received.payload.extend_from_slice(packet.payload());
    received.packets.push(Packet {
        sequence: packet.sequence_number(),
        timestamp: packet.timestamp(),
        marker: packet.marker_bit(),
        payload_type: packet.payload_type(),
        ssrc: packet.ssrc(),
        extension: packet.extension().map(|(identifier, contents)| (identifier, contents.to_vec())),
        payload: start..received.payload.len(),
        arrival,
    });
    Ok(())
}

pub(crate) fn enter_report(received: &mut Received, datagram: &[u8], arrival: Instant) -> Result<(), String> {
    use rtcp_types::{Compound, Packet as Rtcp};
    for packet in Compound::parse(datagram).map_err(|error| format!("RTCP: {error}"))? {
        match packet.map_err(|error| format!("RTCP: {error}"))? {
            Rtcp::Sr(report) => received.reports.push(SenderReport {
                ssrc: report.ssrc(),
                ntp: report.ntp_timestamp(),
                timestamp: report.rtp_timestamp(),
                packets: report.packet_count(),
                arrival,
            }),
            Rtcp::Bye(_) => received.bye = Some(arrival),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_and_bye_are_kept_in_order() {
        let receiver = Receiver::bind([127, 0, 0, 1].into()).unwrap();
        let port = receiver.port().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for sequence in [65535_u16, 0, 2] {
            let mut packet = vec![0x80, 33, 0, 0, 0, 0, 0, 9, 1, 2, 3, 4, b'a'];
            packet[2..4].copy_from_slice(&sequence.to_be_bytes());
            sender.send_to(&packet, ("127.0.0.1", port)).unwrap();
        }
        sender.send_to(b"rubbish", ("127.0.0.1", port)).unwrap();
        sender.send_to(&[0x81, 203, 0, 1, 1, 2, 3, 4], ("127.0.0.1", port + 1)).unwrap();
        let received = receiver.to_the_end(Deadline::seconds(5.0)).unwrap();
        assert_eq!(received.payload, b"aaa");
        assert_eq!(received.gaps(), [(0, 2)]);
        assert_eq!(received.errors.len(), 1, "{:?}", received.errors);
    }
}
