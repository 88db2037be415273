//! Segments: consecutive packets, followed by the records of their trains.

use super::error::{Error, Part};
use super::fields::{Record, check_crc, check_length, check_sum, put};
use super::plan::{MAX_STREAMS, PayloadRecipe, Plan};
use super::{MAX_TRAIN_BYTES, MAX_TRAIN_PACKETS, padded};
use crate::rtp::{HEADER_LENGTH, Header, MAX_PADDING, Marker, Run, without_padding};

/// Rule of the padding of a train.
const PADDING_RULE: &str = "each packet has 1 to 255 bytes of padding, or none has";

/// Length of a train record in bytes.
pub const TRAIN_RECORD_LENGTH: usize = 32;

/// Fields of a train record.
mod field {
    use crate::image::fields::Field;

    pub(super) const OFFSET: Field<u32> = Field::new(0, "offset");
    pub(super) const LENGTH: Field<u32> = Field::new(4, "length");
    pub(super) const PACKET_SIZE: Field<u16> = Field::new(8, "packet size");
    pub(super) const SEQUENCE: Field<u16> = Field::new(10, "sequence number");
    pub(super) const TIMESTAMP: Field<u32> = Field::new(12, "timestamp");
    pub(super) const TIMESTAMP_STEP: Field<u32> = Field::new(16, "timestamp step");
    pub(super) const FLAGS: Field<u32> = Field::new(20, "flags");
    pub(super) const DEPARTURE_US: Field<u64> = Field::new(24, "departure");

    /// Flags: packets with the marker bit, random access point, number of the stream, bytes of padding.
    pub(super) const MARKER: u32 = 3;
    pub(super) const START: u32 = 4;
    pub(super) const STREAM_SHIFT: u32 = 8;
    pub(super) const STREAM: u32 = 0xff << STREAM_SHIFT;
    pub(super) const PADDING_SHIFT: u32 = 16;
    pub(super) const PADDING: u32 = 0xffff << PADDING_SHIFT;
}

/// Table entry of a segment: its place and contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// File offset of the first packet, a multiple of the page length; without stored packets, that of the
    /// records.
    pub offset: u64,
    /// Bytes of packets, including headers, whether stored or not.
    pub data_length: u32,
    /// Number of train records, which follow the packets if these are stored.
    pub records: u32,
    /// Number of the first packet, counted from 0 through the image over all streams.
    pub first_packet: u64,
    /// Number of packets.
    pub packets: u32,
    /// Departure of the first packet, in microseconds after the image's first packet.
    pub first_departure_us: u64,
    /// CRC-32C of the stored bytes: packets and records, or only records.
    pub crc: u32,
    /// Offset of the first packet's payload in the asset. The payloads of the other packets follow without
    /// gaps; packets are not stored, and senders generate their headers. `None` if packets are stored.
    pub asset_offset: Option<u64>,
}

/// Train: consecutive packets that depart together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainRecord {
    /// Offset of the first packet in the segment, in bytes.
    pub offset: u32,
    /// Length in bytes.
    pub length: u32,
    /// Length of each packet except possibly the last, in bytes: the UDP segmentation size.
    pub packet_size: u16,
    /// Sequence number of the first packet.
    pub sequence: u16,
    /// Timestamp of the first packet, in ticks of its stream's clock.
    pub timestamp: u32,
    /// Increase of the timestamp from packet to packet, in 1/65536 of a tick: see [`Run`].
    pub timestamp_step: u32,
    /// Departure in microseconds after the image's first packet.
    pub departure_us: u64,
    /// Number of its stream, counted from 0.
    pub stream: u8,
    /// Packets with the marker bit. In transport streams, it is set in the first packet after a clock
    /// discontinuity.
    pub marker: Marker,
    /// True if playback can start with this train: a random access point is in its first packet, or it is the first
    /// group of sound that departs with one. The table of starts has the position.
    pub start: bool,
    /// Bytes of padding in all packets together. If it is not 0, each packet has the padding bit and ends with
    /// padding (RFC 3550 section 5.1).
    pub padding: u16,
}

impl SegmentEntry {
    /// Bytes of the segment in the file, which the checksum covers.
    pub fn length(&self) -> u64 {
        self.stored_length() + u64::from(self.records) * TRAIN_RECORD_LENGTH as u64
    }

    /// Bytes of packets in the file: all packets or none are stored.
    pub fn stored_length(&self) -> u64 {
        if self.asset_offset.is_none() { self.data_length.into() } else { 0 }
    }

    /// Bytes of payload in all packets.
    pub fn payload_length(&self) -> u64 {
        u64::from(self.data_length) - u64::from(self.packets) * HEADER_LENGTH as u64
    }

    /// Offset of the segment in a file whose previous segments end at `offset`. Stored packets begin at a
    /// page.
    pub(super) fn begin_after(&self, offset: u64) -> u64 {
        if self.asset_offset.is_none() { padded(offset) } else { offset }
    }

    /// Checks the [`SegmentEntry::length`] bytes of the segment, and decodes its trains. No train may depart
    /// after `until_us`: [`Table::until_us`](super::Table::until_us), or [`u64::MAX`] if that is not known
    /// yet.
    pub fn trains(&self, plan: &Plan, until_us: u64, bytes: &[u8]) -> Result<Vec<TrainRecord>, Error> {
        check_length(Part::Segment, bytes, self.length())?;
        check_crc(Part::Segment, bytes, self.crc)?;
        let (data, records) = bytes.split_at(self.stored_length() as usize);
        let trains = self.trains_of_records(plan, until_us, records)?;
        if self.asset_offset.is_none() {
            trains.iter().try_for_each(|train| train.check_headers(plan, data))?;
        }
        Ok(trains)
    }

    /// Decodes the trains of a segment that was checked before. `records`: the bytes after its packets.
    pub fn trains_of_records(
        &self,
        plan: &Plan,
        until_us: u64,
        records: &[u8],
    ) -> Result<Vec<TrainRecord>, Error> {
        check_length(Part::Segment, records, u64::from(self.records) * TRAIN_RECORD_LENGTH as u64)?;
        let (data_length, stored_length) = (self.data_length as usize, self.stored_length() as usize);
        let mut place = Place::at_start(self, plan);
        let mut trains = Vec::with_capacity(records.len() / TRAIN_RECORD_LENGTH);
        for record in Record::each(Part::Segment, stored_length, records, TRAIN_RECORD_LENGTH) {
            let train = TrainRecord::read(record);
            train.check(record, plan, &place, self.data_length)?;
            let first = !trains.is_empty() || train.departure_us == self.first_departure_us;
            let in_time = first && train.departure_us <= until_us;
            record.check(in_time, field::DEPARTURE_US, "it lies in the segment's time")?;
            place.advance(&train);
            trains.push(train);
        }
        let packets = u64::from(place.packets);
        let rule = "the table has another number";
        check_sum(Part::Segment, stored_length, "number of packets", packets, self.packets.into(), rule)?;
        let (end, rule) = (place.offset.into(), "packets follow it");
        check_sum(Part::Segment, stored_length, "end of the last train", end, data_length as u64, rule)?;
        Ok(trains)
    }
}

/// Expected values of the next train.
struct Place {
    offset: u32,
    /// Number of packets before the train in the segment.
    packets: u32,
    /// Next sequence numbers of the streams: known for a transport stream, for others from their first train
    /// on.
    sequences: [Option<u16>; MAX_STREAMS],
    departure_us: u64,
}

impl Place {
    fn at_start(entry: &SegmentEntry, plan: &Plan) -> Self {
        let mut sequences = [None; MAX_STREAMS];
        if plan.recipe.is_transport_stream() {
            sequences[0] = plan.streams.first().map(|stream| stream.sequence_of(entry.first_packet));
        }
        Self { offset: 0, packets: 0, sequences, departure_us: entry.first_departure_us }
    }

    fn advance(&mut self, train: &TrainRecord) {
        let packets = train.packets();
        self.offset = train.offset + train.length;
        self.packets += packets;
        self.sequences[usize::from(train.stream)] = Some(train.sequence.wrapping_add(packets as u16));
        self.departure_us = train.departure_us;
    }
}

impl TrainRecord {
    /// Number of packets.
    pub fn packets(&self) -> u32 {
        self.length.div_ceil(u32::from(self.packet_size))
    }

    /// RTP headers of the packets, with the initial values of the image's plan.
    pub fn run(&self, plan: &Plan) -> Run {
        let stream = plan.streams.get(usize::from(self.stream)).copied().unwrap_or_default();
        let first = Header {
            padding: self.padding > 0,
            marker: false,
            payload_type: stream.payload_type,
            sequence: self.sequence,
            timestamp: self.timestamp,
            ssrc: stream.ssrc,
        };
        let last = (self.packets() - 1) as u8; // at most 47
        let Self { marker, stream, padding, start, .. } = *self;
        let together = !plan.recipe.is_transport_stream();
        Run { marker, last, stream, padding, together, start, ..Run::new(first, self.timestamp_step) }
    }

    /// Encodes the record.
    pub fn encode(&self) -> [u8; TRAIN_RECORD_LENGTH] {
        let start = if self.start { field::START } else { 0 };
        let stream = u32::from(self.stream) << field::STREAM_SHIFT;
        let flags = self.marker as u32 | start | stream | u32::from(self.padding) << field::PADDING_SHIFT;
        let mut record = [0; TRAIN_RECORD_LENGTH];
        put(&mut record, field::OFFSET, self.offset);
        put(&mut record, field::LENGTH, self.length);
        put(&mut record, field::PACKET_SIZE, self.packet_size);
        put(&mut record, field::SEQUENCE, self.sequence);
        put(&mut record, field::TIMESTAMP, self.timestamp);
        put(&mut record, field::TIMESTAMP_STEP, self.timestamp_step);
        put(&mut record, field::FLAGS, flags);
        put(&mut record, field::DEPARTURE_US, self.departure_us);
        record
    }

    fn read(record: Record<'_>) -> Self {
        let flags = record.get(field::FLAGS);
        Self {
            offset: record.get(field::OFFSET),
            length: record.get(field::LENGTH),
            packet_size: record.get(field::PACKET_SIZE),
            sequence: record.get(field::SEQUENCE),
            timestamp: record.get(field::TIMESTAMP),
            timestamp_step: record.get(field::TIMESTAMP_STEP),
            departure_us: record.get(field::DEPARTURE_US),
            stream: (flags >> field::STREAM_SHIFT) as u8,
            marker: match flags & field::MARKER {
                0 => Marker::None,
                1 => Marker::First,
                2 => Marker::Last,
                _ => Marker::Each,
            },
            start: flags & field::START != 0,
            padding: (flags >> field::PADDING_SHIFT) as u16,
        }
    }

    /// Checks the RTP headers and the padding of the packets, which are in the segment's `data`.
    fn check_headers(&self, plan: &Plan, data: &[u8]) -> Result<(), Error> {
        let run = self.run(plan);
        let (size, packets) =
            (self.packet_size as usize, &data[self.offset as usize..][..self.length as usize]);
        let mut padding = 0;
        for (index, packet) in (0..).zip(packets.chunks(size)) {
            let offset = u64::from(self.offset) + (index as usize * size) as u64;
            let header = run.header(index);
            if !packet.starts_with(&header.to_bytes()) {
                return Err(Error::PacketHeader { offset });
            }
            let payload =
                without_padding(&header, &packet[HEADER_LENGTH..]).ok_or(Error::Padding { offset })?;
            padding += packet.len() - HEADER_LENGTH - payload.len();
        }
        let offset = self.offset.into();
        if padding == usize::from(self.padding) { Ok(()) } else { Err(Error::Padding { offset }) }
    }

    fn check(&self, record: Record<'_>, plan: &Plan, place: &Place, data_length: u32) -> Result<(), Error> {
        let known = field::MARKER | field::START | field::STREAM | field::PADDING;
        let known = record.get(field::FLAGS) & !known == 0;
        record.check(known, field::FLAGS, "only bits 0 to 2 and 8 to 31 are known")?;
        let stream = usize::from(self.stream);
        record.check(stream < plan.streams.len(), field::FLAGS, "there are fewer streams")?;
        let size = plan.recipe.packet_size();
        let sized = match plan.recipe.payload {
            PayloadRecipe::TransportStream { .. } => self.packet_size == size,
            PayloadRecipe::Tracks { .. } => (HEADER_LENGTH as u16 + 1..=size).contains(&self.packet_size),
        };
        record.check(sized, field::PACKET_SIZE, "the header has another")?;
        let follows = self.offset == after(plan, place.offset);
        record.check(follows, field::OFFSET, "the train before ends elsewhere")?;
        let longest = MAX_TRAIN_BYTES.min(data_length.saturating_sub(self.offset));
        let fits = (1..=longest).contains(&self.length);
        record.check(fits, field::LENGTH, "it is 1 to 65,507 bytes of the segment")?;
        record.check(self.packets() <= MAX_TRAIN_PACKETS, field::LENGTH, "48 packets are the most")?;
        let in_sequence = place.sequences[stream].is_none_or(|sequence| self.sequence == sequence);
        record.check(in_sequence, field::SEQUENCE, "the packets before lead to another")?;
        match plan.recipe.payload {
            PayloadRecipe::TransportStream { .. } => self.check_timed(record, plan, place, data_length)?,
            PayloadRecipe::Tracks { .. } => self.check_of_track(record, size)?,
        }
        let later = self.departure_us >= place.departure_us;
        record.check(later, field::DEPARTURE_US, "the train before departs later")
    }

    /// Checks length, timestamps and marker of a train of a transport stream.
    fn check_timed(
        &self,
        record: Record<'_>,
        plan: &Plan,
        place: &Place,
        data_length: u32,
    ) -> Result<(), Error> {
        let size = u32::from(self.packet_size);
        let whole = self.length.is_multiple_of(size) || place.offset + self.length == data_length;
        record.check(whole, field::LENGTH, "it is whole packets, but for the last one")?;
        let due = plan.streams.first().map_or(0, |stream| stream.timestamp);
        let due = due.wrapping_add(ticks_of(self.departure_us));
        let in_time = self.timestamp.wrapping_sub(due) <= 1;
        record.check(in_time, field::TIMESTAMP, "the departure makes another")?;
        let spread = (u64::from(self.packets() - 1) * u64::from(self.timestamp_step)) >> 16;
        let burst = u64::from(ticks_of(u64::from(plan.recipe.burst_us))) + 1;
        record.check(spread <= burst, field::TIMESTAMP_STEP, "the last packet is due in the burst")?;
        let marked = matches!(self.marker, Marker::None | Marker::First);
        record.check(marked, field::FLAGS, "the first packet alone may have a marker")?;
        record.check(self.padding == 0, field::FLAGS, "a transport stream has no padding")
    }

    /// Checks a train of a track: only the last packet may be shorter, and if one has padding, each has 1 to 255
    /// bytes.
    fn check_of_track(&self, record: Record<'_>, full_size: u16) -> Result<(), Error> {
        let even = self.packet_size.is_multiple_of(2) || self.packet_size == full_size || self.packets() == 1;
        record.check(even, field::PACKET_SIZE, "packets of a train have an even size")?;
        let (size, length) = (u32::from(self.packet_size), self.length);
        let rest = length % size;
        let full = length >= size && (rest == 0 || rest > HEADER_LENGTH as u32);
        record.check(full, field::LENGTH, "each packet has a header and a payload")?;
        let (packets, padding) = (self.packets(), u32::from(self.padding));
        let padded = padding == 0 || (packets..=packets * MAX_PADDING as u32).contains(&padding);
        record.check(padded && padding <= length - packets * HEADER_LENGTH as u32, field::FLAGS, PADDING_RULE)
    }
}

/// Offset of the train after one that ends at `end`. Trains of tracks begin at even offsets, if necessary
/// after a padding byte of 0, because the kernel computes wrong checksums of pages by reference after parts
/// of odd length.
pub(crate) fn after(plan: &Plan, end: u32) -> u32 {
    if plan.recipe.is_transport_stream() { end } else { end.next_multiple_of(2) }
}

/// Converts microseconds to ticks of 90 kHz, modulo 2^32.
fn ticks_of(microseconds: u64) -> u32 {
    (u128::from(microseconds) * 9 / 100) as u32
}
