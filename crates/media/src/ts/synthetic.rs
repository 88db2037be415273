//! Generator of sample transport streams with known departures of all packets, for tests, benchmarks and
//! fuzzing seeds of this and other crates. Its streams have the structure of a multiplexer's output, but no
//! decodable pictures or sound.

use super::crc::crc32_mpeg;
use super::framing::Framing;
use super::packet::{NULL_PID, PACKET_LENGTH, Pcr, SYNC_BYTE};
use crate::random::Random;

/// Recipe of a sample stream. The default is an ordinary stream.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Framing of the file.
    pub framing: Framing,
    /// Number of packets.
    pub packets: u64,
    /// Programmes, in the order of the association table.
    pub programmes: Vec<SampleProgramme>,
    /// Packets between tables; 0 for a stream without tables.
    pub tables_every: u64,
    /// Least number of packets between two references of a programme.
    pub pcr_every: u64,
    /// Ticks of 27 MHz for each packet, as pairs of the first packet with this rate and the rate; in order,
    /// the first from packet 0.
    pub rates: Vec<(u64, u64)>,
    /// Value of the clock at packet 0, in ticks of 27 MHz.
    pub first_pcr: u64,
    /// Jumps of the clock.
    pub jumps: Vec<Jump>,
    /// True if the muxer sets the random access indicator.
    pub marks_random_access: bool,
}

/// Programme of a [`Sample`].
#[derive(Clone, Debug)]
pub struct SampleProgramme {
    /// Programme number.
    pub number: u16,
    /// PID of the programme's map.
    pub pmt_pid: u16,
    /// PID of the clock in the map; [`NULL_PID`] for none.
    pub pcr_pid: u16,
    /// True if references are really sent.
    pub ticks: bool,
    /// Streams: PID, stream type, descriptors. The first stream has pictures if it is H.264, H.265 or MPEG-2.
    pub streams: Vec<(u16, u8, Vec<u8>)>,
}

/// Jump of the clock of a [`Sample`].
#[derive(Clone, Copy, Debug)]
pub struct Jump {
    /// First packet after the jump.
    pub packet: u64,
    /// Ticks added to the clock, modulo its range.
    pub ticks: u64,
    /// True if the first reference after the jump has the discontinuity indicator.
    pub flagged: bool,
}

/// Sample stream, and the results that a reader should find.
#[derive(Clone, Debug, Default)]
pub struct SampleStream {
    /// Bytes of the file.
    pub bytes: Vec<u8>,
    /// Bytes of the packets alone, which are to be sent.
    pub payload: Vec<u8>,
    /// Departure of each packet, in ticks of 27 MHz after the first; and of the end.
    pub departures: Vec<u64>,
    /// Packets with references of the first programme that has any.
    pub references: Vec<u64>,
    /// Packets at which a decoder of the first programme can start, moved back to the tables directly before.
    pub starts: Vec<u64>,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            seed: 1,
            framing: Framing::Bare,
            packets: 2000,
            programmes: vec![SampleProgramme::default()],
            tables_every: 400,
            pcr_every: 70,
            rates: vec![(0, 10_000)], // 4.06 Mb/s
            first_pcr: 123_456_789,
            jumps: Vec::new(),
            marks_random_access: true,
        }
    }
}

impl Default for SampleProgramme {
    fn default() -> Self {
        Self::numbered(1)
    }
}

impl SampleProgramme {
    /// Programme with H.264, which carries the clock, and AAC, at PIDs derived from its number.
    pub fn numbered(number: u16) -> Self {
        let base = 0x100 * number;
        let aac = vec![0x0a, 4, b'd', b'e', b'u', 0];
        let streams = vec![(base, 0x1b, Vec::new()), (base + 1, 0x0f, aac)];
        Self { number, pmt_pid: 0x1000 + number, pcr_pid: base, ticks: true, streams }
    }
}

impl Sample {
    /// Generates the stream.
    pub fn stream(&self) -> SampleStream {
        let mut writer = Writer::new(self);
        while writer.count < self.packets {
            writer.step();
        }
        writer.stream.departures.push(writer.now);
        writer.stream.departures.truncate(self.packets as usize + 1);
        writer.stream
    }
}

struct Writer<'a> {
    sample: &'a Sample,
    random: Random,
    continuity: Vec<u8>,
    count: u64,
    now: u64,
    /// Packet from which on the next reference of each programme is due.
    due: Vec<u64>,
    tables_at: u64,
    ahead: u64,
    jumps_done: usize,
    flagged: bool,
    stream: SampleStream,
}

impl<'a> Writer<'a> {
    fn new(sample: &'a Sample) -> Self {
        Self {
            sample,
            random: Random::new(sample.seed),
            continuity: vec![0; 8192],
            count: 0,
            now: 0,
            due: vec![0; sample.programmes.len()],
            tables_at: 0,
            ahead: 0,
            jumps_done: 0,
            flagged: false,
            stream: SampleStream::default(),
        }
    }

    /// Writes tables and the key picture that follows them, or a single other packet.
    fn step(&mut self) {
        if self.sample.tables_every > 0 && self.count >= self.tables_at {
            self.tables_at = self.count + self.sample.tables_every;
            let start = self.count;
            self.tables();
            self.key_picture(start);
        } else if let Some(index) = (0..self.due.len()).find(|&index| self.count >= self.due[index]) {
            self.reference(index);
        } else {
            self.filler();
        }
    }

    fn tables(&mut self) {
        let programmes = &self.sample.programmes;
        let entries: Vec<u8> = programmes
            .iter()
            .flat_map(|programme| [programme.number, 0xe000 | programme.pmt_pid])
            .flat_map(u16::to_be_bytes)
            .collect();
        self.section(0, &section(0, 1, &entries));
        for programme in programmes {
            self.section(programme.pmt_pid, &section(2, programme.number, &programme.map()));
        }
    }

    fn section(&mut self, pid: u16, section: &[u8]) {
        let bytes = [&[0], section].concat();
        for (index, part) in bytes.chunks(PACKET_LENGTH - 4).enumerate() {
            let padded = [part, &vec![0xff; PACKET_LENGTH - 4 - part.len()]].concat();
            self.packet(pid, index == 0, &[], &padded);
        }
    }

    fn key_picture(&mut self, start: u64) {
        let Some(programme) = self.sample.programmes.first() else { return };
        let Some(&(pid, stream_type, _)) = programme.streams.first() else { return };
        let head: &[u8] = match stream_type {
            0x1b => &[0, 0, 0, 1, 0x09, 0xf0, 0, 0, 0, 1, 0x67],
            0x02 => &[0, 0, 1, 0xb3],
            0x24 => &[0, 0, 0, 1, 0x46, 1, 0x50, 0, 0, 0, 1, 0x40],
            _ => return,
        };
        if start < self.sample.packets && self.count < self.sample.packets {
            self.stream.starts.push(start);
        }
        let indicator = if self.sample.marks_random_access { 0x40 } else { 0 };
        let payload = [&[0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0], head].concat();
        self.packet(pid, true, &[indicator], &payload);
    }

    fn reference(&mut self, index: usize) {
        let programme = &self.sample.programmes[index];
        self.due[index] = self.count + self.sample.pcr_every;
        if !programme.ticks {
            self.due[index] = u64::MAX;
            return self.filler();
        }
        self.jump();
        let first = self.sample.programmes.iter().position(|programme| programme.ticks) == Some(index);
        if first {
            self.stream.references.push(self.count);
        }
        let pcr = Pcr::new(self.sample.first_pcr + self.now + self.ahead).ticks();
        let (base, extension) = (pcr / 300, pcr % 300);
        let flags = 0x10 | if first && std::mem::take(&mut self.flagged) { 0x80 } else { 0 };
        let [.., b1, b2, b3, b4] = ((base >> 1) as u32).to_be_bytes();
        let last = (base as u8 & 1) << 7 | 0x7e | (extension >> 8) as u8;
        self.packet(programme.pcr_pid, false, &[flags, b1, b2, b3, b4, last, extension as u8], &[]);
    }

    fn jump(&mut self) {
        while let Some(jump) = self.sample.jumps.get(self.jumps_done).filter(|jump| jump.packet <= self.count)
        {
            self.ahead = (self.ahead + jump.ticks) % Pcr::MODULUS;
            self.flagged |= jump.flagged;
            self.jumps_done += 1;
        }
    }

    fn filler(&mut self) {
        let streams: Vec<u16> = self
            .sample
            .programmes
            .iter()
            .flat_map(|programme| &programme.streams)
            .map(|stream| stream.0)
            .collect();
        let pick = self.random.below(streams.len() as u64 + 1) as usize;
        let pid = streams.get(pick).copied().unwrap_or(NULL_PID);
        let payload: Vec<u8> = (0..PACKET_LENGTH - 4).map(|_| self.random.below(256) as u8).collect();
        self.packet(pid, false, &[], &payload);
    }

    /// Writes a packet. Space that payload and adaptation field leave is filled by stuffing in the adaptation
    /// field.
    fn packet(&mut self, pid: u16, unit_start: bool, adaptation: &[u8], payload: &[u8]) {
        if self.count >= self.sample.packets {
            self.count += 1;
            return;
        }
        let mut packet = vec![SYNC_BYTE];
        packet.extend((pid | if unit_start { 0x4000 } else { 0 }).to_be_bytes());
        let counter = &mut self.continuity[usize::from(pid)];
        let control =
            if payload.is_empty() { 0x20 } else { 0x10 | if adaptation.is_empty() { 0 } else { 0x20 } };
        *counter = (*counter + u8::from(!payload.is_empty())) & 0x0f;
        packet.push(control | *counter);
        if control & 0x20 != 0 {
            let length = PACKET_LENGTH - 5 - payload.len();
            packet.push(length as u8);
            packet.extend(adaptation);
            packet.resize(5 + length, 0xff);
        }
        packet.extend(payload);
        self.append(&packet);
    }

    fn append(&mut self, packet: &[u8]) {
        let framing = self.sample.framing;
        let stream = &mut self.stream;
        stream.bytes.extend(&(self.now as u32 & 0x3fff_ffff).to_be_bytes()[..framing.prefix()]);
        stream.bytes.extend(packet);
        stream.bytes.extend(vec![0x55; framing.stride() - framing.prefix() - PACKET_LENGTH]);
        stream.payload.extend(packet);
        stream.departures.push(self.now);
        let rate = self.sample.rates.iter().rev().find(|&&(from, _)| from <= self.count);
        self.now += rate.map_or(0, |&(_, ticks)| ticks);
        self.count += 1;
    }
}

impl SampleProgramme {
    /// Body of the programme's map section.
    fn map(&self) -> Vec<u8> {
        map_body(self.pcr_pid, &self.streams)
    }
}

/// Body of a programme map section (ISO/IEC 13818-1 section 2.4.4.9). Streams: PID, stream type, descriptors.
pub(crate) fn map_body(pcr_pid: u16, streams: &[(u16, u8, Vec<u8>)]) -> Vec<u8> {
    let mut body = [(0xe000 | pcr_pid).to_be_bytes(), [0xf0, 0]].concat();
    for (pid, stream_type, descriptors) in streams {
        body.push(*stream_type);
        body.extend((0xe000 | pid).to_be_bytes());
        body.extend((0xf000 | descriptors.len() as u16).to_be_bytes());
        body.extend(descriptors);
    }
    body
}

/// Section of `table` with its checksum; `body` is at most 1,012 bytes.
pub fn section(table: u8, extension: u16, body: &[u8]) -> Vec<u8> {
    let mut section = vec![table];
    section.extend((0xb000 | (body.len() + 9) as u16).to_be_bytes());
    section.extend(extension.to_be_bytes());
    section.extend([0xc1, 0, 0]);
    section.extend(body);
    section.extend(crc32_mpeg(&section).to_be_bytes());
    section
}
