//! Packets at devices, as packet sockets see them: packets with their headers, however many of them a frame carries.

use std::collections::HashSet;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, ip_mtu_discover, set_socket_recv_buffer_size_force};
use socket2::{Domain, Protocol, Socket, Type};
use wirepath_module_tests::call::{Call, Header};
use wirepath_module_tests::content::Content;
use wirepath_module_tests::model::Outcome;
use wirepath_module_tests::rtp::{Rtp, Timestamps};
use wirepath_sys::module::layout;
use wirepath_tests::Deadline;
use wirepath_tests::namespace::Namespace;

use crate::bench::{Bench, From, HEADERS, RUN, TABLE, counter, packets};
use crate::wire::{END, ROOM, Wire, compare};

/// Packet sockets see frames of every protocol.
const EVERY_PROTOCOL: u16 = 3;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const UDP: u8 = 17;
const ETHERNET_BYTES: usize = 14;
const UDP_BYTES: usize = 8;
const IPV4_BYTES: usize = 20;

/// Place of the flags in an IPv4 header.
pub(crate) const FLAGS: usize = 6;

/// A packet socket of a namespace, which sees the frames of all its devices.
pub(crate) struct Capture {
    socket: Socket,
    buffer: Vec<u8>,
}

/// A packet as it arrived.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Its IP header, with zeros for what each packet has of its own: length, identification, checksum.
    pub(crate) ip: Vec<u8>,
    /// Identification in the IP header; of a train, the first by the header and others by their places,
    /// as they are when it is cut.
    pub(crate) identification: u16,
    /// Port that it came from.
    pub(crate) source: u16,
    /// Payload of UDP.
    pub(crate) payload: Vec<u8>,
}

impl Packet {
    /// Returns whether it is of the test's own, beside those of calls.
    pub(crate) fn is_end(&self) -> bool {
        self.payload.starts_with(END.as_bytes())
    }
}

impl Capture {
    /// Sees what comes to, and goes from, the devices that are in `namespace` then.
    pub(crate) fn new(namespace: &Namespace) -> Result<Capture> {
        let protocol = Protocol::from(i32::from(EVERY_PROTOCOL.to_be()));
        let open = || Socket::new(Domain::PACKET, Type::RAW, Some(protocol)).context("a packet socket");
        let socket = namespace.enter(open)?;
        socket.set_nonblocking(true)?;
        set_socket_recv_buffer_size_force(&socket, ROOM).context("making room for frames")?;
        Ok(Capture { socket, buffer: vec![0; 1 << 17] })
    }

    /// The packets to a UDP port that were seen since the last call, in order; a frame with more than `most`
    /// bytes for UDP is a train of packets so long.
    pub(crate) fn take(&mut self, port: u16, most: usize) -> Result<Vec<Packet>> {
        let mut packets = Vec::new();
        loop {
            match self.socket.read(&mut self.buffer) {
                Ok(length) => packets.extend(cut(&self.buffer[..length], port, most)?),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(packets),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("reading frames"),
            }
        }
    }
}

/// The packets of a frame, none if it is not to this UDP port. Its lengths and checksums must be right.
fn cut(frame: &[u8], port: u16, most: usize) -> Result<Vec<Packet>> {
    let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let ip = ETHERNET_BYTES;
    if frame.len() < ip + 40 {
        return Ok(Vec::new());
    }
    let (protocol, udp, end) = match word(ip - 2) {
        IPV4 => (frame[ip + 9], ip + usize::from(frame[ip] & 15) * 4, ip + usize::from(word(ip + 2))),
        IPV6 => (frame[ip + 6], ip + 40, ip + 40 + usize::from(word(ip + 4))),
        _ => return Ok(Vec::new()),
    };
    if protocol != UDP || word(udp + 2) != port {
        return Ok(Vec::new());
    }
    ensure!(end <= frame.len(), "a frame of {} bytes has {end} bytes by its IP header", frame.len());
    let (datagram, length) = (&frame[udp..end], word(udp + 4));
    ensure!(usize::from(length) == datagram.len(), "UDP counts {length} bytes of {}", datagram.len());
    let mut header = frame[ip..udp].to_vec();
    let is_ipv4 = word(ip - 2) == IPV4;
    ensure!(!is_ipv4 || sum(&[&header]) == 0xffff, "the checksum of an IP header is wrong");
    let addresses = if is_ipv4 { &header[12..20] } else { &header[8..40] };
    let pseudo = [addresses, &[0, UDP], &length.to_be_bytes()].concat();
    // A packet that no device has summed yet has the sum of the pseudo header.
    let is_right = word(udp + 6) == sum(&[&pseudo]) || sum(&[&pseudo, datagram]) == 0xffff;
    ensure!(is_right, "the checksum of {length} bytes of UDP is wrong");
    let own = if is_ipv4 { [2..6, 10..12] } else { [4..6, 4..6] };
    own.into_iter().for_each(|range| header[range].fill(0));
    let first = word(ip + 4);
    let packet = |(number, payload): (usize, &[u8])| Packet {
        ip: header.clone(),
        identification: first.wrapping_add(number as u16),
        source: word(udp),
        payload: payload.to_vec(),
    };
    Ok(datagram[UDP_BYTES..].chunks(most).enumerate().map(packet).collect())
}

/// Sum of the parts in ones' complement, each of an even length but the last.
fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u64 =
        words.map(|word| u64::from(word[0]) << 8 | u64::from(word.get(1).copied().unwrap_or(0))).sum();
    let folded = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

/// A socket, where its packets arrive, and what a packet socket sees there.
pub(crate) struct Way {
    pub(crate) wire: Wire,
    capture: Capture,
}

impl Way {
    /// From an address of one namespace to one of another; a first packet has gone this way.
    pub(crate) fn new(from: (&Namespace, IpAddr), to: (&Namespace, IpAddr)) -> Result<Way> {
        let socket = |(namespace, address): (&Namespace, IpAddr)| {
            namespace.enter(|| UdpSocket::bind((address, 0)).with_context(|| address.to_string()))
        };
        // Routes are looked up again when devices come up, and a list leaves by a known one only.
        for (namespace, _) in [from, to] {
            Deadline::seconds(20.0).wait_for("devices to be up", || {
                let shown = namespace.ip("-o link show up")?;
                let is_up = |line: &str| !line.contains(": veth@") || line.contains("state UP");
                Ok(shown.lines().all(is_up).then_some(()))
            })?;
        }
        let mut wire = Wire::between(socket(from)?, socket(to)?, true)?;
        let capture = Capture::new(to.0)?;
        // Few packets may wait for the address of a neighbour.
        wire.compare(std::iter::empty()).context("the first packet")?;
        Ok(Way { wire, capture })
    }

    /// Does a call, and sends the same packets by the same socket; fails unless all of them arrive whole, in
    /// order and with the same headers, each with an identification of its own. Answers the packets of the
    /// call.
    pub(crate) fn check(&mut self, bench: &mut Bench, call: &Call, from: &From<'_>) -> Result<Vec<Packet>> {
        let outcome = Outcome::of(call, from.end());
        let expected: Vec<Vec<u8>> = packets(&outcome, from.content()).collect();
        let same = if is_train_of_udp(bench, call) { Same::OtherFlags } else { Same::Identifications };
        self.beside_sends(&expected, call.packet_asked() as usize, same, |wire| bench.check(call, from, wire))
    }

    /// The same of [`VECTOR_PACKETS`] packets by SENDFILEW, with these flags. Answers the packets and the
    /// number of their trains.
    pub(crate) fn check_vector(
        &mut self,
        bench: &mut Bench,
        flags: u32,
        from: &From<'_>,
    ) -> Result<(Vec<Packet>, u64)> {
        let expected = vector_packets(from.content());
        // A train of UDP has one identification, which nobody needs where nothing is fragmented.
        let is_copied = flags & layout::COPY != 0 || !bench.has(layout::FEATURE_REFERENCES);
        let is_whole = self.wire.sender.local_addr()?.is_ipv4()
            && matches!(
                ip_mtu_discover(&self.wire.sender)?,
                Ipv4PathMtuDiscovery::DO | Ipv4PathMtuDiscovery::PROBE
            );
        let same = if is_copied && is_whole { Same::Headers } else { Same::Identifications };
        let mut trains = 0;
        let packets = self.beside_sends(&expected, PAYLOAD as usize + VECTOR_HEADER, same, |wire| {
            let before = counter("trains")?;
            let answer = send_vector(bench, flags, from, wire);
            trains = counter("trains")? - before;
            wire.compare(expected.iter().cloned())?;
            ensure!(answer == Ok(()), "it answered {answer:?}");
            Ok(())
        })?;
        Ok((packets, trains))
    }

    /// Sends packets by `send`, and then plainly.
    fn beside_sends(
        &mut self,
        expected: &[Vec<u8>],
        most: usize,
        same: Same,
        send: impl FnOnce(&mut Wire) -> Result<()>,
    ) -> Result<Vec<Packet>> {
        // The route is known from the first packet on, unless it has an address.
        let first = format!("{END} before").into_bytes();
        self.wire.sender.send(&first).context("sending plainly")?;
        self.wire.compare(std::iter::once(first))?;
        let mut identifications = HashSet::new();
        let mut seen = |way: &mut Way| -> Result<Vec<Packet>> {
            let mut packets = way.seen(most)?;
            let are_own = same == Same::Identifications;
            for packet in packets.iter().filter(|packet| packet.ip.len() == IPV4_BYTES && are_own) {
                let is_new = identifications.insert(packet.identification);
                ensure!(is_new, "two packets have the identification {}", packet.identification);
            }
            packets.retain(|packet| !packet.is_end());
            Ok(packets)
        };
        seen(self)?;
        send(&mut self.wire)?;
        let by_call = seen(self)?;
        for packet in expected {
            self.wire.sender.send(packet).context("sending plainly")?;
        }
        self.wire.compare(expected.iter().cloned()).context("plain sends")?;
        let by_send = seen(self)?;
        for (number, expected) in expected.iter().enumerate() {
            let [by_call, by_send] = [&by_call, &by_send].map(|packets| packets.get(number));
            let (by_call, by_send) =
                by_call.zip(by_send).with_context(|| format!("no frame has packet {number}"))?;
            compare(&by_call.payload, expected).with_context(|| format!("packet {number} in its frame"))?;
            let mut ip = by_send.ip.clone();
            if ip.len() == IPV4_BYTES && same == Same::OtherFlags {
                ip[FLAGS] = by_call.ip[FLAGS];
            }
            compare(&by_call.ip, &ip).with_context(|| format!("the IP header of packet {number}"))?;
            ensure!(by_call.source == by_send.source, "packet {number} is from port {}", by_call.source);
            compare(&by_send.payload, expected).with_context(|| format!("packet {number} of plain sends"))?;
        }
        ensure!(by_call.len() == expected.len(), "{} packets are in frames", by_call.len());
        Ok(by_call)
    }

    /// Packets of a call, or of plain sends, that were seen since the last call, with those that mark an end.
    fn seen(&mut self, most: usize) -> Result<Vec<Packet>> {
        let port = self.wire.receiver.local_addr()?.port();
        self.capture.take(port, most)
    }
}

/// Parts of a call's packets that are those of plain sends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Same {
    /// Their IPv4 headers but for the flags.
    OtherFlags,
    /// Their headers.
    Headers,
    /// Their headers, and each an identification of its own.
    Identifications,
}

/// Packets of a vector, and bytes of the header of each.
pub(crate) const VECTOR_PACKETS: u64 = 100;
const VECTOR_HEADER: usize = 12;

/// Header of a packet of a vector.
fn vector_header(number: u64) -> [u8; VECTOR_HEADER] {
    std::array::from_fn(|at| (number as usize * VECTOR_HEADER + at) as u8)
}

/// Packets of [`send_vector`].
pub(crate) fn vector_packets(content: &Content) -> Vec<Vec<u8>> {
    let payload = u64::from(PAYLOAD);
    let packet = |number: u64| {
        [&vector_header(number)[..], content.bytes(number * payload..(number + 1) * payload)].concat()
    };
    (0..VECTOR_PACKETS).map(packet).collect()
}

/// Sends packets of one size from a file by SENDFILEW, each behind a header that is copied.
pub(crate) fn send_vector(bench: &mut Bench, flags: u32, from: &From<'_>, wire: &Wire) -> Result<(), Errno> {
    let From::File(file, _) = from else { return Err(Errno::BADF) };
    for number in 0..VECTOR_PACKETS {
        let at = TABLE + number as usize * VECTOR_HEADER;
        bench.arena.write(at, &vector_header(number));
        let header = layout::Part {
            file: -1,
            flags: layout::PART_COPY,
            offset: bench.arena.address(at),
            length: VECTOR_HEADER as u64,
        };
        let payload = layout::Part {
            file: *file,
            flags: layout::PART_END,
            offset: number * u64::from(PAYLOAD),
            length: u64::from(PAYLOAD),
        };
        for (index, part) in [header, payload].iter().enumerate() {
            let index = 2 * number as usize + index;
            bench.arena.put(HEADERS + index * size_of::<layout::Part>(), part);
        }
    }
    let vector = layout::Vector {
        size: size_of::<layout::Vector>() as u32,
        flags,
        socket: wire.sender.as_raw_fd(),
        part_count: 2 * VECTOR_PACKETS as u32,
        parts: bench.arena.address(HEADERS),
        part_bytes: size_of::<layout::Part>() as u32,
        ..layout::Vector::default()
    };
    bench.arena.put(RUN, &vector);
    bench.ask(layout::SENDFILEW, RUN).map(drop)
}

/// Most trains of a vector that leaves as lists: of 49 packets, and what is left.
const VECTOR_LISTS: u64 = 3;

/// Fails unless a vector left as lists, if this module makes them.
pub(crate) fn vector_left_as_lists(bench: &Bench, trains: u64) -> Result<()> {
    let are_lists = !bench.has(layout::FEATURE_MEMBERS) || trains <= VECTOR_LISTS;
    ensure!(are_lists, "no lists left of a vector, but {trains} trains");
    Ok(())
}

/// Returns whether UDP itself makes the buffers of a call's trains. In these, Linux only forbids fragments
/// (`IP_DF`) if the socket's `IP_MTU_DISCOVER` does so always.
pub(crate) fn is_train_of_udp(bench: &Bench, call: &Call) -> bool {
    call.train_packets > 1 && (call.copy || !bench.has(layout::FEATURE_REFERENCES))
}

/// Payload of each packet, and bytes that their calls send.
const PAYLOAD: u32 = 1316;
const BYTES: u64 = 200 * PAYLOAD as u64 - 100;

/// Most trains of a call that leaves as lists: of 49 packets, and what is left.
const LISTS: u64 = 5;

/// 200 packets with RTP headers, in trains as long as they may be: lists, where they can leave so.
pub(crate) fn list() -> Call {
    let rtp = Rtp {
        ssrc: 0x1234_5678,
        sequence: 0xfff0,
        payload_type: 33,
        marker: layout::MARKER_NEVER,
        position: 0,
        packets: 0,
        octets: 0,
        timestamps: Timestamps::Step(7, 90, 1),
    };
    Call { packet_bytes: PAYLOAD, train_packets: 64, header: Header::Rtp(rtp), ..Call::packet(3, BYTES) }
}

/// Each way in which packets leave: lists, trains by reference and by copy, packets by themselves.
pub(crate) fn calls() -> [Call; 4] {
    [
        list(),
        Call { header: Header::None, ..list() },
        Call { copy: true, ..list() },
        Call { train_packets: 0, length: Some(30 * u64::from(PAYLOAD)), ..list() },
    ]
}

/// Trains of the last call.
pub(crate) fn trains(bench: &Bench) -> u64 {
    // As many were counted before, see `Bench::request`.
    bench.arena.take::<layout::Run>(RUN).trains - 2
}

/// Fails unless the last call, which was [`list`], left as lists, if this module makes them.
pub(crate) fn left_as_lists(bench: &Bench) -> Result<()> {
    let trains = trains(bench);
    ensure!(!bench.has(layout::FEATURE_MEMBERS) || trains <= LISTS, "no lists left, but {trains} trains");
    Ok(())
}
