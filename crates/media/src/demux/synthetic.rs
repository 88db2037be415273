//! Generator of transport streams with elementary streams, for tests and fuzzing seeds of this and other
//! crates.

use crate::ts::synthetic::{map_body, section};
use crate::ts::{PACKET_LENGTH, SYNC_BYTE};

/// Sequence parameter set of H.264: 64 by 64 pixels, Baseline profile.
pub const SEQUENCE_SET: &[u8] =
    b"\x67\x42\xc0\x15\xd9\x01\x41\xfb\x01\x10\0\0\x03\0\x10\0\0\x03\x03\xc0\xf1\x62\xe4\x80";

/// Picture parameter set of H.264.
pub const PICTURE_SET: &[u8] = b"\x68\xce\x06\xe2";

/// PID of the programme map.
pub const MAP_PID: u16 = 0x1000;

/// Transport stream with one programme.
#[derive(Clone, Debug)]
pub struct File {
    /// Streams: PID, stream type, descriptors.
    pub streams: Vec<(u16, u8, Vec<u8>)>,
    /// PES packets in the order of the file.
    pub packets: Vec<PesPacket>,
    /// PES packets between tables.
    pub tables_every: usize,
}

/// PES packet.
#[derive(Clone, Debug)]
pub struct PesPacket {
    /// Index of the stream.
    pub stream: usize,
    /// PTS and DTS.
    pub times: Option<(u64, u64)>,
    /// True if the header contains the packet's length, if it is short enough.
    pub sized: bool,
    /// Bytes of the elementary stream.
    pub data: Vec<u8>,
}

impl File {
    /// Generates the bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut writer = Writer { bytes: Vec::new(), continuity: vec![0; 8192] };
        for (index, packet) in self.packets.iter().enumerate() {
            if index.is_multiple_of(self.tables_every.max(1)) {
                writer.section(0, &section(0, 1, &[0, 1, 0xf0, 0]));
                writer.section(MAP_PID, &section(2, 1, &self.map()));
            }
            let Some((pid, stream_type, _)) = self.streams.get(packet.stream) else { continue };
            writer.pes(*pid, *stream_type, packet);
        }
        writer.bytes
    }

    /// Body of the programme map.
    fn map(&self) -> Vec<u8> {
        let pcr_pid = self.streams.first().map_or(0x1fff, |stream| stream.0);
        map_body(pcr_pid, &self.streams)
    }
}

/// Access unit of H.264 of NAL units with these bytes; with parameter sets if it is a random access point.
pub fn access_unit(key: bool, slices: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"\0\0\0\x01\x09\xf0".to_vec();
    for set in [SEQUENCE_SET, PICTURE_SET].iter().filter(|_| key) {
        bytes.extend([&[0, 0, 0, 1][..], set].concat());
    }
    for (index, slice) in slices.iter().enumerate() {
        let first = if index == 0 { 0x80 } else { 0x40 };
        bytes.extend([&[0, 0, 1, if key { 0x65 } else { 0x41 }, first][..], slice].concat());
    }
    bytes
}

/// Frame of AAC-LC, 48 kHz, stereo, with an ADTS header.
pub fn adts(frame: &[u8]) -> Vec<u8> {
    let length = frame.len() + 7;
    let lengths = [0x80 | (length >> 11) as u8 & 3, (length >> 3) as u8, (length << 5) as u8 | 0x1f, 0xfc];
    [&[0xff, 0xf1, 0x4c][..], &lengths, frame].concat()
}

struct Writer {
    bytes: Vec<u8>,
    continuity: Vec<u8>,
}

impl Writer {
    fn section(&mut self, pid: u16, section: &[u8]) {
        let mut bytes = [&[0], section].concat();
        bytes.resize(bytes.len().next_multiple_of(PACKET_LENGTH - 4), 0xff);
        self.packets(pid, &bytes);
    }

    fn pes(&mut self, pid: u16, stream_type: u8, packet: &PesPacket) {
        let stream_id = match stream_type {
            0x1b | 0x24 => 0xe0,
            0x03 | 0x04 | 0x0f => 0xc0,
            _ => 0xbd,
        };
        let (flags, times) = match packet.times {
            Some((pts, dts)) if pts == dts => (0x80, time(2, pts).to_vec()),
            Some((pts, dts)) => (0xc0, [time(3, pts), time(1, dts)].concat()),
            None => (0, Vec::new()),
        };
        let length = u16::try_from(3 + times.len() + packet.data.len()).ok().filter(|_| packet.sized);
        let [high, low] = length.unwrap_or(0).to_be_bytes();
        let head = [0, 0, 1, stream_id, high, low, 0x80, flags, times.len() as u8];
        self.packets(pid, &[&head[..], &times, &packet.data].concat());
    }

    /// Writes packets of a PID. The last packet has stuffing in its adaptation field.
    fn packets(&mut self, pid: u16, payload: &[u8]) {
        for (index, part) in payload.chunks(PACKET_LENGTH - 4).enumerate() {
            let start = if index == 0 { 0x4000 } else { 0 };
            let counter = &mut self.continuity[usize::from(pid)];
            let stuffing = PACKET_LENGTH - 4 - part.len();
            self.bytes.push(SYNC_BYTE);
            self.bytes.extend((pid | start).to_be_bytes());
            self.bytes.push(if stuffing > 0 { 0x30 } else { 0x10 } | *counter);
            *counter = (*counter + 1) & 0x0f;
            if stuffing > 0 {
                self.bytes.push(stuffing as u8 - 1);
                let fields = [0].into_iter().chain(std::iter::repeat(0xff));
                self.bytes.extend(fields.take(stuffing - 1));
            }
            self.bytes.extend(part);
        }
    }
}

/// Encodes a time of 33 bits after a prefix of four bits.
fn time(prefix: u8, time: u64) -> [u8; 5] {
    let part = |shift: u32| (time >> shift) as u8;
    [prefix << 4 | (part(30) & 7) << 1 | 1, part(22), part(14) & 0xfe | 1, part(7), part(0) << 1 | 1]
}
