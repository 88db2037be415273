//! Assembles table sections from packets (ISO/IEC 13818-1 section 2.4.4).

use super::crc::crc32_mpeg;
use super::packet::Packet;

/// Length of the longest section of the tables read here: 1,021 bytes after the length field (section
/// 2.4.4.4).
const MAX_SECTION_LENGTH: usize = 3 + 1021;

/// Bytes of a section before its body: table id, length, extension, version, section numbers.
const HEAD_LENGTH: usize = 8;

/// Bytes of the checksum at the end of a section.
const CRC_LENGTH: usize = 4;

/// Assembler of the sections of one PID; holds at most one incomplete section.
#[derive(Clone, Debug, Default)]
pub(super) struct Assembler {
    partial: Vec<u8>,
    /// True if `partial` is the beginning of a section, possibly shorter than its length field.
    active: bool,
    continuity: Option<u8>,
}

/// Section with a correct checksum that is currently applicable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section<'a> {
    pub(super) table: u8,
    pub(super) extension: u16,
    pub(super) version: u8,
    pub(super) number: u8,
    pub(super) body: &'a [u8],
    pub(super) crc: u32,
}

impl Assembler {
    /// Takes a packet of the PID, and calls `section` for each section that the packet completes.
    pub(super) fn push(&mut self, packet: Packet<'_>, mut section: impl FnMut(Section<'_>)) {
        let payload = packet.payload();
        if packet.transport_error() || packet.scrambled() || payload.is_empty() || !self.continues(packet) {
            return;
        }
        if !packet.payload_unit_start() {
            return self.extend(payload, &mut section);
        }
        let pointer = usize::from(payload[0]);
        let Some((before, after)) = payload[1..].split_at_checked(pointer) else {
            self.active = false;
            return;
        };
        self.extend(before, &mut section);
        self.partial.clear();
        self.active = true;
        self.extend(after, &mut section);
    }

    /// Drops an incomplete section if packets are missing. Returns whether the packet is used: a packet with
    /// a repeated continuity counter is used only if a section starts in it.
    fn continues(&mut self, packet: Packet<'_>) -> bool {
        let previous = self.continuity.replace(packet.continuity());
        if previous == Some(packet.continuity()) {
            return packet.payload_unit_start();
        }
        self.active &= previous.is_none_or(|previous| (previous + 1) & 0x0f == packet.continuity());
        true
    }

    fn extend(&mut self, mut bytes: &[u8], section: &mut impl FnMut(Section<'_>)) {
        while self.active && !bytes.is_empty() {
            let taken = (self.wanted() - self.partial.len()).min(bytes.len());
            self.partial.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            self.active = self.partial[0] != 0xff && self.wanted() <= MAX_SECTION_LENGTH;
            if self.active && self.partial.len() >= 3 && self.partial.len() == self.wanted() {
                if let Some(complete) = Section::read(&self.partial) {
                    section(complete);
                }
                self.partial.clear();
            }
        }
    }

    /// Length of the incomplete section, or the length of its header if too little of it was received.
    fn wanted(&self) -> usize {
        match self.partial[..] {
            [_, high, low, ..] => 3 + usize::from(u16::from_be_bytes([high & 0x0f, low])),
            _ => 3,
        }
    }
}

impl<'a> Section<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let long_form = bytes[1] & 0x80 != 0;
        let fits = bytes.len() >= HEAD_LENGTH + CRC_LENGTH;
        if !long_form || !fits || bytes[5] & 1 == 0 || crc32_mpeg(bytes) != 0 {
            return None;
        }
        let (content, crc) = bytes.split_last_chunk::<CRC_LENGTH>()?;
        Some(Self {
            table: content[0],
            extension: u16::from_be_bytes([content[3], content[4]]),
            version: content[5] >> 1 & 0x1f,
            number: content[6],
            body: &content[HEAD_LENGTH..],
            crc: u32::from_be_bytes(*crc),
        })
    }
}
