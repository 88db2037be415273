//! The table at the end of an image: its segments, where a decoder can start, and what the asset is.

use serde::{Deserialize, Serialize};

use super::error::{Error, Part};
use super::fields::{Fields, check_crc, check_length};
use super::header::{Header, TableExtent};
use super::segment::SegmentEntry;
use super::{PAGE, Plan};
use crate::ts::{PACKET_LENGTH, Played, Programme, Warnings};

const HEAD_LENGTH: usize = 16;
const ENTRY_LENGTH: usize = 40;
const START_LENGTH: usize = 24;

/// All of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The segments in order.
    pub segments: Vec<SegmentEntry>,
    /// Where a decoder can start, in order; at most one in a packet. Where there are none, everywhere is as good.
    pub starts: Vec<Start>,
    /// What the asset is.
    pub description: Description,
}

/// A random access point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// When its first byte departs, in microseconds after the image's first packet: the media time.
    pub departure_us: u64,
    /// Number of the segment.
    pub segment: u32,
    /// Number of the train in the segment; it is in the train's first packet.
    pub train: u32,
    /// Bytes of that packet's payload before it.
    pub skip: u32,
}

/// What an image says about its asset, for people and for SDP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Bytes from one packet to the next in the asset: 188, 192 or 204.
    pub stride: u16,
    /// Its programmes.
    pub programmes: Vec<Programme>,
    /// Which one is played.
    pub played: Option<Played>,
    /// What is wrong with it.
    pub warnings: Warnings,
}

impl Table {
    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let description = serde_json::to_vec(&self.description).expect("only strings, numbers and lists");
        let mut bytes = Vec::new();
        for count in [self.segments.len(), self.starts.len(), description.len(), 0] {
            bytes.extend((count as u32).to_le_bytes());
        }
        for segment in &self.segments {
            segment.append_to(&mut bytes);
        }
        for start in &self.starts {
            start.append_to(&mut bytes);
        }
        bytes.extend(description);
        bytes
    }

    /// Where the table lies when it starts at `offset`, and its checksum; `bytes` are its own.
    pub fn extent(bytes: &[u8], offset: u64) -> TableExtent {
        TableExtent { offset, length: bytes.len() as u64, crc: crc32c::crc32c(bytes) }
    }

    /// Reads the table of the image with `header`.
    ///
    /// # Errors
    /// [`Error`] where it is damaged or contradicts itself or the header.
    pub fn decode(bytes: &[u8], header: &Header) -> Result<Self, Error> {
        check_length(Part::Table, bytes, header.table.length)?;
        check_crc(Part::Table, bytes, header.table.crc)?;
        let sections = Sections::split(bytes)?;
        let segments = sections.entries.chunks_exact(ENTRY_LENGTH).map(SegmentEntry::read).collect();
        let starts = sections.starts.chunks_exact(START_LENGTH).map(Start::read).collect();
        let description = serde_json::from_slice(sections.description)
            .map_err(|error| Error::Description { reason: error.to_string() })?;
        let table = Self { segments, starts, description };
        table.check_segments(header)?;
        table.check_starts(header)?;
        Ok(table)
    }

    /// When the packets after segment `index` depart at the earliest: until then everything in it does.
    pub fn until_us(&self, index: usize, header: &Header) -> u64 {
        self.segments.get(index + 1).map_or(header.duration_us, |next| next.first_departure_us)
    }

    fn check_segments(&self, header: &Header) -> Result<(), Error> {
        let (mut offset, mut packet, mut departure_us, mut payload) = (PAGE, 0, 0, 0);
        for (index, entry) in self.segments.iter().enumerate() {
            let fields = Fields::new(Part::Table, (HEAD_LENGTH + index * ENTRY_LENGTH) as u64, &[]);
            entry.check(fields, &header.plan, index + 1 == self.segments.len())?;
            fields.check(
                entry.offset == offset,
                0,
                "offset of a segment",
                entry.offset,
                "the one before ends elsewhere",
            )?;
            let first = entry.first_packet;
            fields.check(
                first == packet,
                8,
                "first packet of a segment",
                first,
                "the segments before have another number",
            )?;
            let departure = entry.first_departure_us;
            let in_order = (departure_us..=header.duration_us).contains(&departure);
            fields.check(
                in_order,
                16,
                "departure of a segment",
                departure,
                "the segments depart in order",
            )?;
            offset += entry.padded_length();
            packet += entry.packets(&header.plan);
            payload += payload_of(entry, &header.plan);
            departure_us = departure;
        }
        let fields = Fields::new(Part::Table, 0, &[]);
        fields.check(
            offset == header.table.offset,
            0,
            "end of the segments",
            offset,
            "the table is elsewhere",
        )?;
        fields.check(
            packet == header.packets,
            0,
            "packets of all segments",
            packet,
            "the header has another number",
        )?;
        fields.check(
            payload == header.payload_bytes,
            0,
            "payload of all segments",
            payload,
            "the header has another",
        )
    }

    fn check_starts(&self, header: &Header) -> Result<(), Error> {
        let base = HEAD_LENGTH + self.segments.len() * ENTRY_LENGTH;
        let mut before = None;
        for (index, start) in self.starts.iter().enumerate() {
            let fields = Fields::new(Part::Table, (base + index * START_LENGTH) as u64, &[]);
            let segment = start.segment as usize;
            let Some(entry) = self.segments.get(segment) else {
                return fields.check(false, 8, "segment of a start", start.segment, "there are fewer");
            };
            fields.check(
                start.train < entry.records,
                12,
                "train of a start",
                start.train,
                "the segment has fewer",
            )?;
            let fits = (start.skip as usize).is_multiple_of(PACKET_LENGTH)
                && (start.skip as usize) < header.plan.recipe.payload_length();
            fields.check(
                fits,
                16,
                "skip of a start",
                start.skip,
                "it leads to a packet of 188 bytes in the payload",
            )?;
            let time = entry.first_departure_us..=self.until_us(segment, header);
            let in_time = time.contains(&start.departure_us);
            fields.check(
                in_time,
                0,
                "departure of a start",
                start.departure_us,
                "it lies in the segment's time",
            )?;
            let ordered = before.is_none_or(|before: &Start| {
                before.departure_us <= start.departure_us
                    && (before.segment, before.train) < (start.segment, start.train)
            });
            fields.check(
                ordered,
                0,
                "departure of a start",
                start.departure_us,
                "the starts are in order",
            )?;
            before = Some(start);
        }
        Ok(())
    }
}

/// The table's bytes, cut by the counts at its head.
struct Sections<'a> {
    entries: &'a [u8],
    starts: &'a [u8],
    description: &'a [u8],
}

impl<'a> Sections<'a> {
    fn split(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, rest) = bytes.split_at_checked(HEAD_LENGTH).ok_or(too_short(HEAD_LENGTH as u64, bytes))?;
        let fields = Fields::new(Part::Table, 0, head);
        let length = |at, each: usize| u64::from(fields.u32(at)) * each as u64;
        let (entries, starts, description) = (length(0, ENTRY_LENGTH), length(4, START_LENGTH), length(8, 1));
        let expected = HEAD_LENGTH as u64 + entries + starts + description;
        fields.check(entries > 0, 0, "number of segments", 0u64, "an image has at least one")?;
        if expected != bytes.len() as u64 {
            return Err(too_short(expected, bytes));
        }
        let (entries, rest) = rest.split_at(entries as usize);
        let (starts, description) = rest.split_at(starts as usize);
        Ok(Self { entries, starts, description })
    }
}

fn too_short(expected: u64, bytes: &[u8]) -> Error {
    Error::Length { part: Part::Table, expected, found: bytes.len() as u64 }
}

fn payload_of(entry: &SegmentEntry, plan: &Plan) -> u64 {
    u64::from(entry.data_length) - entry.packets(plan) * crate::rtp::HEADER_LENGTH as u64
}

impl SegmentEntry {
    fn append_to(&self, bytes: &mut Vec<u8>) {
        for field in [self.offset, self.first_packet, self.first_departure_us] {
            bytes.extend(field.to_le_bytes());
        }
        for field in [self.data_length, self.records, self.crc, 0] {
            bytes.extend(field.to_le_bytes());
        }
    }

    fn read(bytes: &[u8]) -> Self {
        let fields = Fields::new(Part::Table, 0, bytes);
        Self {
            offset: fields.u64(0),
            first_packet: fields.u64(8),
            first_departure_us: fields.u64(16),
            data_length: fields.u32(24),
            records: fields.u32(28),
            crc: fields.u32(32),
        }
    }
}

impl Start {
    fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.departure_us.to_le_bytes());
        for field in [self.segment, self.train, self.skip, 0] {
            bytes.extend(field.to_le_bytes());
        }
    }

    fn read(bytes: &[u8]) -> Self {
        let fields = Fields::new(Part::Table, 0, bytes);
        Self {
            departure_us: fields.u64(0),
            segment: fields.u32(8),
            train: fields.u32(12),
            skip: fields.u32(16),
        }
    }
}
