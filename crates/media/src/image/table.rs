//! Table at the end of an image: its segments, its random access points, and the description of the asset.

use serde::{Deserialize, Serialize};

use super::error::{Error, Part};
use super::fields::{Record, check_crc, check_length, check_sum, put};
use super::header::{Header, TableExtent};
use super::segment::SegmentEntry;
use super::{MAX_SEGMENT_DATA, PAGE, PayloadRecipe, Plan, padded};
use crate::payload::TrackDescription;
use crate::rtp::HEADER_LENGTH;
use crate::ts::{PACKET_LENGTH, Played, Programme, Warnings};

const HEAD_LENGTH: usize = 16;
const ENTRY_LENGTH: usize = 48;
const START_LENGTH: usize = 24;

/// Fields of the table's head.
mod head {
    use crate::image::fields::Field;

    pub(super) const SEGMENTS: Field<u32> = Field::new(0, "number of segments");
    pub(super) const STARTS: Field<u32> = Field::new(4, "number of starts");
    pub(super) const DESCRIPTION: Field<u32> = Field::new(8, "length of the description");
}

/// Fields of a segment's entry.
mod entry {
    use crate::image::fields::Field;

    pub(super) const OFFSET: Field<u64> = Field::new(0, "offset of a segment");
    pub(super) const FIRST_PACKET: Field<u64> = Field::new(8, "first packet of a segment");
    pub(super) const DEPARTURE_US: Field<u64> = Field::new(16, "departure of a segment");
    pub(super) const DATA_LENGTH: Field<u32> = Field::new(24, "length of packets");
    pub(super) const RECORDS: Field<u32> = Field::new(28, "number of trains");
    pub(super) const CRC: Field<u32> = Field::new(32, "checksum of a segment");
    pub(super) const PACKETS: Field<u32> = Field::new(36, "packets of a segment");
    pub(super) const ASSET_OFFSET: Field<u64> = Field::new(40, "offset in the asset");

    /// Value of the offset in the asset if the segment's packets are stored.
    pub(super) const STORED: u64 = u64::MAX;
}

/// Fields of a start.
mod start {
    use crate::image::fields::Field;

    pub(super) const DEPARTURE_US: Field<u64> = Field::new(0, "departure of a start");
    pub(super) const SEGMENT: Field<u32> = Field::new(8, "segment of a start");
    pub(super) const TRAIN: Field<u32> = Field::new(12, "train of a start");
    pub(super) const SKIP: Field<u32> = Field::new(16, "skip of a start");
}

/// Table at the end of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Segments in order.
    pub segments: Vec<SegmentEntry>,
    /// Random access points in order, at most one in a packet. Without any, decoders can start anywhere.
    pub starts: Vec<Start>,
    /// Description of the asset.
    pub description: Description,
}

/// Random access point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Departure of the random access point's first byte in microseconds after the image's first packet: the
    /// media time.
    pub departure_us: u64,
    /// Number of the segment.
    pub segment: u32,
    /// Number of the train in the segment; the random access point is in the train's first packet.
    pub train: u32,
    /// Bytes of the packet's payload before the random access point.
    pub skip: u32,
}

/// Description of an asset, for display and for SDP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Description {
    /// A transport stream.
    TransportStream(TransportStreamDescription),
    /// A movie.
    Movie(MovieDescription),
}

/// Description of a movie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovieDescription {
    /// Tracks by the numbers of their streams.
    pub tracks: Vec<TrackDescription>,
    /// Warnings about the movie, including tracks that are left out.
    pub warnings: Warnings,
}

/// Description of a transport stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransportStreamDescription {
    /// Distance between packets of the asset in bytes: 188, 192 or 204.
    pub stride: u16,
    /// Programmes of the stream.
    pub programmes: Vec<Programme>,
    /// Played programme.
    pub played: Option<Played>,
    /// Warnings about the stream.
    pub warnings: Warnings,
}

impl Default for Description {
    fn default() -> Self {
        Self::TransportStream(TransportStreamDescription::default())
    }
}

impl Description {
    /// Returns the description if the asset is a transport stream.
    pub fn transport_stream(&self) -> Option<&TransportStreamDescription> {
        match self {
            Self::TransportStream(description) => Some(description),
            Self::Movie(_) => None,
        }
    }

    /// Returns the warnings about the asset.
    pub fn warnings(&self) -> &Warnings {
        match self {
            Self::TransportStream(TransportStreamDescription { warnings, .. })
            | Self::Movie(MovieDescription { warnings, .. }) => warnings,
        }
    }

    /// Returns the description if the asset is a movie.
    pub fn movie(&self) -> Option<&MovieDescription> {
        match self {
            Self::Movie(description) => Some(description),
            Self::TransportStream(_) => None,
        }
    }
}

impl Table {
    /// Encodes the table.
    pub fn encode(&self) -> Vec<u8> {
        let description = serde_json::to_vec(&self.description).expect("only strings, numbers and lists");
        let mut head = [0; HEAD_LENGTH];
        put(&mut head, head::SEGMENTS, self.segments.len() as u32);
        put(&mut head, head::STARTS, self.starts.len() as u32);
        put(&mut head, head::DESCRIPTION, description.len() as u32);
        let mut bytes = head.to_vec();
        bytes.extend(self.segments.iter().flat_map(SegmentEntry::encode));
        bytes.extend(self.starts.iter().flat_map(Start::encode));
        bytes.extend(description);
        bytes
    }

    /// Extent of an encoded table that starts at `offset`.
    pub fn extent(bytes: &[u8], offset: u64) -> TableExtent {
        TableExtent { offset, length: bytes.len() as u64, crc: crc32c::crc32c(bytes) }
    }

    /// Decodes the table of the image with `header`.
    pub fn decode(bytes: &[u8], header: &Header) -> Result<Self, Error> {
        check_length(Part::Table, bytes, header.table.length)?;
        check_crc(Part::Table, bytes, header.table.crc)?;
        let sections = Sections::split(bytes)?;
        let segments = sections.entries().map(SegmentEntry::read).collect();
        let starts = sections.starts().map(Start::read).collect();
        let description = serde_json::from_slice(sections.description)
            .map_err(|error| Error::Description { reason: error.to_string() })?;
        let table = Self { segments, starts, description };
        table.check_segments(sections.entries(), header)?;
        table.check_starts(sections.starts(), header)?;
        Ok(table)
    }

    /// Latest departure in segment `index`: the first departure of the next segment, or the image's duration.
    pub fn until_us(&self, index: usize, header: &Header) -> u64 {
        self.segments.get(index + 1).map_or(header.duration_us, |next| next.first_departure_us)
    }

    fn check_segments<'a>(
        &self,
        records: impl Iterator<Item = Record<'a>>,
        header: &Header,
    ) -> Result<(), Error> {
        let (mut offset, mut packet, mut departure_us, mut payload) = (PAGE, 0, 0, 0);
        for (index, (segment, record)) in self.segments.iter().zip(records).enumerate() {
            segment.check(record, &header.plan, index + 1 == self.segments.len())?;
            let begin = segment.begin_after(offset);
            record.check(segment.offset == begin, entry::OFFSET, "the one before ends elsewhere")?;
            let follows = segment.first_packet == packet;
            record.check(follows, entry::FIRST_PACKET, "the segments before have another number")?;
            let in_order = (departure_us..=header.duration_us).contains(&segment.first_departure_us);
            record.check(in_order, entry::DEPARTURE_US, "the segments depart in order")?;
            offset = begin + segment.length();
            packet += u64::from(segment.packets);
            payload += segment.payload_length();
            departure_us = segment.first_departure_us;
        }
        let sum = |field, found, expected, rule| check_sum(Part::Table, 0, field, found, expected, rule);
        sum("end of the segments", padded(offset), header.table.offset, "the table is elsewhere")?;
        sum("packets of all segments", packet, header.packets, "the header has another number")?;
        sum("payload of all segments", payload, header.payload_bytes, "the header has another")
    }

    fn check_starts<'a>(
        &self,
        records: impl Iterator<Item = Record<'a>>,
        header: &Header,
    ) -> Result<(), Error> {
        let mut before = None;
        for (start, record) in self.starts.iter().zip(records) {
            let index = start.segment as usize;
            let Some(segment) = self.segments.get(index) else {
                return record.check(false, start::SEGMENT, "there are fewer");
            };
            record.check(start.train < segment.records, start::TRAIN, "the segment has fewer")?;
            let recipe = header.plan.recipe;
            let fits = match recipe.payload {
                PayloadRecipe::TransportStream { .. } => {
                    (start.skip as usize).is_multiple_of(PACKET_LENGTH)
                        && (start.skip as usize) < recipe.payload_length()
                }
                PayloadRecipe::Tracks { .. } => start.skip == 0,
            };
            record.check(fits, start::SKIP, "it leads to a packet of 188 bytes in the payload")?;
            let time = segment.first_departure_us..=self.until_us(index, header);
            let in_time = time.contains(&start.departure_us);
            record.check(in_time, start::DEPARTURE_US, "it lies in the segment's time")?;
            let ordered = before.is_none_or(|before: &Start| {
                before.departure_us <= start.departure_us
                    && (before.segment, before.train) < (start.segment, start.train)
            });
            record.check(ordered, start::DEPARTURE_US, "the starts are in order")?;
            before = Some(start);
        }
        Ok(())
    }
}

/// Sections of an encoded table, divided by the counts in its head.
struct Sections<'a> {
    entries: &'a [u8],
    starts: &'a [u8],
    description: &'a [u8],
}

impl<'a> Sections<'a> {
    fn split(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, rest) = bytes.split_at_checked(HEAD_LENGTH).ok_or(too_short(HEAD_LENGTH as u64, bytes))?;
        let head = Record::new(Part::Table, 0, head);
        let length = |count, each: usize| u64::from(head.get(count)) * each as u64;
        let (entries, starts) = (length(head::SEGMENTS, ENTRY_LENGTH), length(head::STARTS, START_LENGTH));
        let expected = HEAD_LENGTH as u64 + entries + starts + length(head::DESCRIPTION, 1);
        head.check(entries > 0, head::SEGMENTS, "an image has at least one")?;
        if expected != bytes.len() as u64 {
            return Err(too_short(expected, bytes));
        }
        let (entries, rest) = rest.split_at(entries as usize);
        let (starts, description) = rest.split_at(starts as usize);
        Ok(Self { entries, starts, description })
    }

    fn entries(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        Record::each(Part::Table, HEAD_LENGTH, self.entries, ENTRY_LENGTH)
    }

    fn starts(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        Record::each(Part::Table, HEAD_LENGTH + self.entries.len(), self.starts, START_LENGTH)
    }
}

fn too_short(expected: u64, bytes: &[u8]) -> Error {
    Error::Length { part: Part::Table, expected, found: bytes.len() as u64 }
}

impl SegmentEntry {
    fn encode(&self) -> [u8; ENTRY_LENGTH] {
        let mut record = [0; ENTRY_LENGTH];
        put(&mut record, entry::OFFSET, self.offset);
        put(&mut record, entry::FIRST_PACKET, self.first_packet);
        put(&mut record, entry::DEPARTURE_US, self.first_departure_us);
        put(&mut record, entry::DATA_LENGTH, self.data_length);
        put(&mut record, entry::RECORDS, self.records);
        put(&mut record, entry::CRC, self.crc);
        put(&mut record, entry::PACKETS, self.packets);
        put(&mut record, entry::ASSET_OFFSET, self.asset_offset.unwrap_or(entry::STORED));
        record
    }

    fn read(record: Record<'_>) -> Self {
        Self {
            offset: record.get(entry::OFFSET),
            first_packet: record.get(entry::FIRST_PACKET),
            first_departure_us: record.get(entry::DEPARTURE_US),
            data_length: record.get(entry::DATA_LENGTH),
            records: record.get(entry::RECORDS),
            crc: record.get(entry::CRC),
            packets: record.get(entry::PACKETS),
            asset_offset: Some(record.get(entry::ASSET_OFFSET)).filter(|offset| *offset != entry::STORED),
        }
    }

    /// Checks the entry by itself. `last`: no segment follows.
    fn check(&self, record: Record<'_>, plan: &Plan, last: bool) -> Result<(), Error> {
        let length = self.data_length;
        let fits = (1..=MAX_SEGMENT_DATA).contains(&length);
        record.check(fits, entry::DATA_LENGTH, "a segment has 1 byte to 1 MiB")?;
        let size = u32::from(plan.recipe.packet_size());
        match plan.recipe.payload {
            PayloadRecipe::TransportStream { .. } => {
                let rest = length % size;
                let payload = rest.checked_sub(HEADER_LENGTH as u32).filter(|payload| *payload > 0);
                let short =
                    last && payload.is_some_and(|payload| payload.is_multiple_of(PACKET_LENGTH as u32));
                let whole = rest == 0 || short;
                record.check(whole, entry::DATA_LENGTH, "it is whole packets, but for the last one")?;
                record.check(
                    self.packets == length.div_ceil(size),
                    entry::PACKETS,
                    "the length makes another",
                )?;
            }
            PayloadRecipe::Tracks { .. } => {
                let packets = length.div_ceil(size + 1)..=length / (HEADER_LENGTH as u32 + 1);
                record.check(packets.contains(&self.packets), entry::PACKETS, "the length makes another")?;
                let stored = self.asset_offset.is_none();
                record.check(stored, entry::ASSET_OFFSET, "packets of tracks are stored")?;
            }
        }
        let each_has_one = (1..=self.packets).contains(&self.records);
        record.check(each_has_one, entry::RECORDS, "each train has a packet")?;
        let end = self.asset_offset.unwrap_or(0).checked_add(self.payload_length());
        let in_asset = match plan.recipe.payload {
            PayloadRecipe::TransportStream { .. } => end.is_some_and(|end| end <= plan.identity.size),
            PayloadRecipe::Tracks { .. } => true,
        };
        record.check(in_asset, entry::ASSET_OFFSET, "the asset is shorter")
    }
}

impl Start {
    fn encode(&self) -> [u8; START_LENGTH] {
        let mut record = [0; START_LENGTH];
        put(&mut record, start::DEPARTURE_US, self.departure_us);
        put(&mut record, start::SEGMENT, self.segment);
        put(&mut record, start::TRAIN, self.train);
        put(&mut record, start::SKIP, self.skip);
        record
    }

    fn read(record: Record<'_>) -> Self {
        Self {
            departure_us: record.get(start::DEPARTURE_US),
            segment: record.get(start::SEGMENT),
            train: record.get(start::TRAIN),
            skip: record.get(start::SKIP),
        }
    }
}
