//! A call of SEND, as a value from which the model and the executor start.

use crate::random::Random;
use crate::rtp::Rtp;

/// Header in front of each packet's payload.
#[derive(Clone, Debug, PartialEq)]
pub enum Header {
    /// Nothing.
    None,
    /// So many bytes each, given by the caller.
    Given(u32),
    /// Header that the RTP engine makes.
    Rtp(Rtp),
}

/// One call of SEND.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// First byte of the source.
    pub offset: u64,
    /// Bytes; nothing: to the end of the file.
    pub length: Option<u64>,
    /// Payload of a packet; 0: one packet.
    pub packet_bytes: u32,
    /// Of the source, passed over before each packet's payload.
    pub skip_bytes: u32,
    /// Packets of a train.
    pub train_packets: u32,
    /// In front of each packet.
    pub header: Header,
    /// True if payload is to be copied.
    pub copy: bool,
}

/// The most that is sent of one packet: 65,535 less the headers of IPv4 and UDP.
pub const PACKET_MAX: u64 = 65_507;

/// The bytes of the headers that a caller gives, one after the other: each packet's are its own.
pub fn given_headers(each: u32, packets: usize) -> Vec<u8> {
    (0..each as usize * packets).map(|at| (at.wrapping_mul(167) ^ (at >> 8) ^ 0x5a) as u8).collect()
}

impl Call {
    /// One packet without a header.
    pub fn packet(offset: u64, length: u64) -> Call {
        let (packet_bytes, skip_bytes, train_packets) = (0, 0, 0);
        let (length, header, copy) = (Some(length), Header::None, false);
        Call { offset, length, packet_bytes, skip_bytes, train_packets, header, copy }
    }

    /// Bytes of each header.
    pub fn header_bytes(&self) -> u64 {
        match self.header {
            Header::None => 0,
            Header::Given(bytes) => bytes.into(),
            Header::Rtp(_) => 12,
        }
    }

    /// Bytes of a full packet, with its header: the module looks at what is asked for, also where there is
    /// less.
    pub fn packet_asked(&self) -> u64 {
        let payload =
            if self.packet_bytes == 0 { self.length.unwrap_or(0) } else { self.packet_bytes.into() };
        let skip = if self.packet_bytes == 0 { self.skip_bytes.into() } else { 0 };
        self.header_bytes() + payload.saturating_sub(skip)
    }

    /// The most packets that it can be, of a source so long.
    pub fn packets_max(&self, source_length: u64) -> usize {
        let length = self.length.unwrap_or(source_length.saturating_sub(self.offset));
        match self.packet_bytes {
            0 => 1,
            bytes => length.div_ceil(u64::from(bytes) + u64::from(self.skip_bytes)).max(1) as usize,
        }
    }

    /// A call that the module must take, of a source so long.
    pub fn random(random: &mut Random, source_length: u64) -> Call {
        let header = match random.below(4) {
            0 => Header::None,
            1 => Header::Given(random.one(&[1, 4, 12, 13, 28, 255, 256])),
            _ => Header::Rtp(Rtp::random(random)),
        };
        let mut call =
            Call { header, copy: random.once_in(8), ..Call::packet(edge(random, source_length), 1) };
        if random.once_in(4) {
            call.length = Some(size(random, PACKET_MAX - call.header_bytes()));
        } else {
            let bytes = size(random, PACKET_MAX.min(20_000) - call.header_bytes()) as u32;
            let packets = 1 + random.below(40);
            call.packet_bytes = bytes;
            let missing = random.below(2) * random.below(bytes.into());
            call.length = Some(u64::from(bytes) * packets - missing);
            // Headers are given for packets whose number is known.
            if random.once_in(6) && !matches!(call.header, Header::Given(_)) {
                call.length = None;
                call.offset = call.offset.max(source_length.saturating_sub(u64::from(bytes) * packets));
            }
        }
        if let Header::Rtp(rtp) = &mut call.header {
            rtp.fit(random, call.packet_bytes, call.length.unwrap_or(source_length - call.offset));
        }
        if random.once_in(3) {
            call.pass_over(random.one(&[1, 11, 12, 28, 255, 256]));
            // Packets that end in skipped bytes.
            let cut = if random.once_in(4) { random.below(call.skip_bytes.into()) } else { 0 };
            call.length = call.length.map(|length| length + cut);
        }
        call
    }

    /// Puts bytes to be passed over between the payloads.
    fn pass_over(&mut self, bytes: u32) {
        let packets = match self.packet_bytes {
            0 => 1,
            packet => self.length.unwrap_or(0).div_ceil(packet.into()),
        };
        self.skip_bytes = bytes;
        self.length = self.length.map(|length| length + packets * u64::from(bytes));
    }
}

/// A position at or near a boundary as often as not.
pub fn edge(random: &mut Random, length: u64) -> u64 {
    let boundary = random.one(&[0, 4096, 8192, 16_384, 65_536, 131_072, 262_144, length, length]);
    let near = (boundary + random.below(9)).saturating_sub(4);
    if random.once_in(2) { near.min(length) } else { random.below(length) }
}

/// A size from 1 to `most`, of an order of magnitude of its own.
pub fn size(random: &mut Random, most: u64) -> u64 {
    let usual =
        [1, 2, 7, 8, 188, 512, 1200, 1316, 1388, 1400, 1448, 1460, 1472, 1473, 4084, 4096, 8192, 65_507];
    let size = match random.below(3) {
        0 => random.one(&usual),
        1 => {
            let end = 2 << random.below(17);
            random.below(end) + 1
        }
        _ => 1000 + random.below(500),
    };
    size.clamp(1, most)
}
