//! PES packets of one PID (ISO/IEC 13818-1 section 2.4.3.6).

use crate::ts::Packet;

/// Bytes of a header before its optional fields. The last of these bytes is the length of the optional
/// fields.
const HEAD_LENGTH: usize = 9;

/// Timestamps of a PES packet: 33 bits, in ticks of 90 kHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) pts: u64,
    pub(super) dts: u64,
}

/// Beginning of a PES packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PesStart {
    pub(super) stamp: Option<Stamp>,
    /// True if the transport packet has the random access indicator.
    pub(super) random_access: bool,
}

/// Data of a transport packet for an elementary stream. The fields apply in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    /// True if bytes before this packet are missing.
    pub(super) lost: bool,
    /// True if the packet is scrambled, so that it cannot be read.
    pub(super) scrambled: bool,
    pub(super) start: Option<PesStart>,
    pub(super) data: &'a [u8],
}

/// Reader of the PES packets of one PID.
#[derive(Clone, Debug, Default)]
pub(super) struct PesReader {
    state: State,
    header: Vec<u8>,
    random_access: bool,
    continuity: Option<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// Waits for the beginning of the next PES packet.
    #[default]
    Skipping,
    Header,
    /// Number of bytes that follow; `None` if the PES packet ends where the next one begins.
    Data(Option<usize>),
}

impl PesReader {
    /// Reads the next packet of the PID.
    pub(super) fn push<'a>(&mut self, packet: Packet<'a>) -> Piece<'a> {
        let payload = packet.payload();
        if packet.transport_error() {
            return self.skip(Piece { lost: true, ..Piece::default() });
        }
        if payload.is_empty() {
            return Piece::default();
        }
        let (previous, number) = (self.continuity.replace(packet.continuity()), packet.continuity());
        if previous == Some(number) && !packet.payload_unit_start() {
            return Piece::default(); // duplicate packet (section 2.4.3.3)
        }
        let mut piece = Piece::default();
        if previous.is_some_and(|previous| (previous + 1) & 0x0f != number) {
            piece = self.skip(Piece { lost: true, ..piece });
        }
        if packet.scrambled() {
            return self.skip(Piece { scrambled: true, lost: true, ..piece });
        }
        if packet.payload_unit_start() {
            self.state = State::Header;
            self.header.clear();
            self.random_access = packet.adaptation().is_some_and(|field| field.random_access());
        }
        self.read(payload, piece)
    }

    fn skip<'a>(&mut self, piece: Piece<'a>) -> Piece<'a> {
        self.state = State::Skipping;
        piece
    }

    fn read<'a>(&mut self, mut payload: &'a [u8], piece: Piece<'a>) -> Piece<'a> {
        let mut start = None;
        if matches!(self.state, State::Header) {
            let wanted = |header: &[u8]| HEAD_LENGTH + header.get(8).map_or(0, |length| usize::from(*length));
            while self.header.len() < wanted(&self.header) {
                let length = (wanted(&self.header) - self.header.len()).min(payload.len());
                if length == 0 {
                    return piece; // the header continues in the next packet
                }
                let (taken, rest) = payload.split_at(length);
                self.header.extend_from_slice(taken);
                payload = rest;
            }
            let Some(header) = Header::read(&self.header) else { return self.skip(piece) };
            if header.scrambled {
                return self.skip(Piece { scrambled: true, ..piece });
            }
            self.state = State::Data(header.length);
            start = Some(PesStart { stamp: header.stamp, random_access: self.random_access });
        }
        let State::Data(left) = &mut self.state else { return piece };
        let length = left.map_or(payload.len(), |left| left.min(payload.len()));
        *left = left.map(|left| left - length);
        Piece { start, data: &payload[..length], ..piece }
    }
}

struct Header {
    stamp: Option<Stamp>,
    scrambled: bool,
    /// Bytes of data; `None` if the header does not contain the length.
    length: Option<usize>,
}

impl Header {
    fn read(header: &[u8]) -> Option<Self> {
        let (head, fields) = header.split_at_checked(HEAD_LENGTH)?;
        // Stream ids of audio, video, private stream 1 and extended stream ids (table 2-22).
        let media = matches!(head[3], 0xbd | 0xc0..=0xef | 0xfd);
        if head[..3] != [0, 0, 1] || !media || head[6] & 0xc0 != 0x80 {
            return None;
        }
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let length = length.checked_sub(3 + fields.len());
        let pts = fields.first_chunk().filter(|_| head[7] & 0x80 != 0).map(time);
        let dts = fields.get(5..).and_then(<[u8]>::first_chunk).filter(|_| head[7] & 0xc0 == 0xc0).map(time);
        let stamp = pts.map(|pts| Stamp { pts, dts: dts.unwrap_or(pts) });
        Some(Self { stamp, scrambled: head[6] & 0x30 != 0, length })
    }
}

/// Reads a time of 33 bits, with marker bits in between.
fn time(bytes: &[u8; 5]) -> u64 {
    let [high, a, b, c, d] = bytes.map(u64::from);
    (high >> 1 & 7) << 30 | a << 22 | (b >> 1) << 15 | c << 7 | d >> 1
}
