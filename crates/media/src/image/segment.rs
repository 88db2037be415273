//! A segment: packets back to back, then the records of the trains they make up.

use super::error::{Error, Part};
use super::fields::{Fields, check_crc, check_length};
use super::plan::Plan;
use super::{MAX_SEGMENT_DATA, MAX_TRAIN_BYTES, MAX_TRAIN_PACKETS, padded};
use crate::rtp::{HEADER_LENGTH, Header, PAYLOAD_TYPE_MP2T, Run};
use crate::ts::PACKET_LENGTH;

/// Length of a train record in bytes.
pub const TRAIN_RECORD_LENGTH: usize = 32;

const DISCONTINUITY: u32 = 1;
const START: u32 = 2;

/// Where a segment is and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Offset of its first packet in the file, in bytes; whole pages.
    pub offset: u64,
    /// Bytes of packets.
    pub data_length: u32,
    /// TrainRecord records, which follow the packets.
    pub records: u32,
    /// Number of its first packet, counted from 0 through the image.
    pub first_packet: u64,
    /// Departure of its first packet, in microseconds after the image's first.
    pub first_departure_us: u64,
    /// CRC-32C of packets and records.
    pub crc: u32,
}

/// Consecutive packets that leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainRecord {
    /// Offset of its first packet from the segment's, in bytes.
    pub offset: u32,
    /// Length in bytes.
    pub length: u32,
    /// Length of each packet but perhaps the last, in bytes: the UDP segmentation size.
    pub packet_size: u16,
    /// Sequence number of the first packet.
    pub sequence: u16,
    /// Timestamp of the first packet, in ticks of 90 kHz.
    pub timestamp: u32,
    /// Step from one packet's timestamp to the next, in 1/65536 tick: see [`Run`].
    pub timestamp_step: u32,
    /// When it leaves, in microseconds after the image's first packet.
    pub departure_us: u64,
    /// Whether the clock is discontinuous here; the first packet has the marker.
    pub discontinuity: bool,
    /// Whether a decoder can start in the first packet; the table of starts says where in it.
    pub start: bool,
}

impl SegmentEntry {
    /// Bytes of packets and records together, which the checksum covers.
    pub fn length(&self) -> u64 {
        u64::from(self.data_length) + u64::from(self.records) * TRAIN_RECORD_LENGTH as u64
    }

    /// Bytes in the file, padding included: the next segment or the table follows.
    pub fn padded_length(&self) -> u64 {
        padded(self.length())
    }

    /// Number of packets.
    pub fn packets(&self, plan: &Plan) -> u64 {
        u64::from(self.data_length.div_ceil(u32::from(plan.recipe.packet_size())))
    }

    /// Checks `bytes`, which are [`SegmentEntry::length`] bytes from its offset on, and reads its trains. Nothing in
    /// it departs after `until_us`: the next segment's first departure or the duration of the image, and [`u64::MAX`]
    /// while that is not known.
    ///
    /// # Errors
    /// [`Error`] where the bytes are damaged or contradict the entry or the plan.
    pub fn trains(&self, plan: &Plan, until_us: u64, bytes: &[u8]) -> Result<Vec<TrainRecord>, Error> {
        check_length(Part::Segment, bytes, self.length())?;
        check_crc(Part::Segment, bytes, self.crc)?;
        let (data, records) = bytes.split_at(self.data_length as usize);
        let trains = self.trains_of_records(plan, until_us, records)?;
        trains.iter().try_for_each(|train| train.check_headers(plan, data))?;
        Ok(trains)
    }

    /// Reads the trains of a segment of which all was checked before, from its records alone: `records` are the bytes
    /// after its packets.
    ///
    /// # Errors
    /// [`Error`] where the records contradict the entry or the plan.
    pub fn trains_of_records(
        &self,
        plan: &Plan,
        until_us: u64,
        records: &[u8],
    ) -> Result<Vec<TrainRecord>, Error> {
        check_length(Part::Segment, records, u64::from(self.records) * TRAIN_RECORD_LENGTH as u64)?;
        let data_length = u64::from(self.data_length);
        let mut place = Place { offset: 0, packet: self.first_packet, departure_us: self.first_departure_us };
        let mut trains = Vec::with_capacity(records.len() / TRAIN_RECORD_LENGTH);
        for (index, record) in records.chunks_exact(TRAIN_RECORD_LENGTH).enumerate() {
            let base = data_length + (index * TRAIN_RECORD_LENGTH) as u64;
            let fields = Fields::new(Part::Segment, base, record);
            let train = TrainRecord::read(fields);
            train.check(fields, plan, &place, self.data_length)?;
            let first = index > 0 || train.departure_us == self.first_departure_us;
            let in_time = first && train.departure_us <= until_us;
            fields.check(in_time, 24, "departure", train.departure_us, "it lies in the segment's time")?;
            place.offset += train.length;
            place.packet += u64::from(train.packets());
            place.departure_us = train.departure_us;
            trains.push(train);
        }
        let fields = Fields::new(Part::Segment, data_length, &[]);
        fields.check(
            place.offset == self.data_length,
            0,
            "end of the last train",
            place.offset,
            "packets follow it",
        )?;
        Ok(trains)
    }

    /// Checks the entry by itself; `last` where no segment follows.
    pub(super) fn check(&self, fields: Fields<'_>, plan: &Plan, last: bool) -> Result<(), Error> {
        let size = u32::from(plan.recipe.packet_size());
        let length = self.data_length;
        fields.check(
            (1..=MAX_SEGMENT_DATA).contains(&length),
            24,
            "length of packets",
            length,
            "a segment has 1 byte to 1 MiB",
        )?;
        let rest = length % size;
        let short = last
            && rest > HEADER_LENGTH as u32
            && (rest - HEADER_LENGTH as u32).is_multiple_of(PACKET_LENGTH as u32);
        fields.check(
            rest == 0 || short,
            24,
            "length of packets",
            length,
            "it is whole packets, but for the last one",
        )?;
        let packets = self.packets(plan);
        let records = u64::from(self.records);
        fields.check(
            (1..=packets).contains(&records),
            28,
            "number of trains",
            self.records,
            "each train has a packet",
        )
    }
}

/// Where the next train has to start.
struct Place {
    offset: u32,
    packet: u64,
    departure_us: u64,
}

impl TrainRecord {
    /// Number of packets.
    pub fn packets(&self) -> u32 {
        self.length.div_ceil(u32::from(self.packet_size))
    }

    /// The headers of its packets as the image has them.
    pub fn run(&self, plan: &Plan) -> Run {
        let first = Header {
            marker: self.discontinuity,
            payload_type: PAYLOAD_TYPE_MP2T,
            sequence: self.sequence,
            timestamp: self.timestamp,
            ssrc: plan.ssrc,
        };
        Run { first, step: self.timestamp_step }
    }

    /// The record.
    pub fn encode(&self) -> [u8; TRAIN_RECORD_LENGTH] {
        let mut record = [0; TRAIN_RECORD_LENGTH];
        let flags = if self.discontinuity { DISCONTINUITY } else { 0 } | if self.start { START } else { 0 };
        let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.offset.to_le_bytes());
        put(4, &self.length.to_le_bytes());
        put(8, &self.packet_size.to_le_bytes());
        put(10, &self.sequence.to_le_bytes());
        put(12, &self.timestamp.to_le_bytes());
        put(16, &self.timestamp_step.to_le_bytes());
        put(20, &flags.to_le_bytes());
        put(24, &self.departure_us.to_le_bytes());
        record
    }

    fn read(fields: Fields<'_>) -> Self {
        let flags = fields.u32(20);
        Self {
            offset: fields.u32(0),
            length: fields.u32(4),
            packet_size: fields.u16(8),
            sequence: fields.u16(10),
            timestamp: fields.u32(12),
            timestamp_step: fields.u32(16),
            departure_us: fields.u64(24),
            discontinuity: flags & DISCONTINUITY != 0,
            start: flags & START != 0,
        }
    }

    /// Checks the headers of its packets, which lie in the segment's `data`.
    fn check_headers(&self, plan: &Plan, data: &[u8]) -> Result<(), Error> {
        let run = self.run(plan);
        let (size, packets) =
            (self.packet_size as usize, &data[self.offset as usize..][..self.length as usize]);
        for (index, packet) in (0..).zip(packets.chunks(size)) {
            if !packet.starts_with(&run.header(index).to_bytes()) {
                return Err(Error::PacketHeader {
                    offset: u64::from(self.offset) + (index as usize * size) as u64,
                });
            }
        }
        Ok(())
    }

    fn check(&self, fields: Fields<'_>, plan: &Plan, place: &Place, data_length: u32) -> Result<(), Error> {
        let size = plan.recipe.packet_size();
        fields.check(
            self.packet_size == size,
            8,
            "packet size",
            self.packet_size,
            "the header has another",
        )?;
        fields.check(
            self.offset == place.offset,
            0,
            "offset",
            self.offset,
            "the train before ends elsewhere",
        )?;
        let longest = MAX_TRAIN_BYTES.min(data_length - place.offset);
        fields.check(
            (1..=longest).contains(&self.length),
            4,
            "length",
            self.length,
            "it is 1 to 65,507 bytes of the segment",
        )?;
        fields.check(
            self.packets() <= MAX_TRAIN_PACKETS,
            4,
            "length",
            self.length,
            "48 packets are the most",
        )?;
        let whole = self.length.is_multiple_of(u32::from(size)) || place.offset + self.length == data_length;
        fields.check(whole, 4, "length", self.length, "it is whole packets, but for the last one")?;
        let sequence = plan.sequence_of(place.packet);
        fields.check(
            self.sequence == sequence,
            10,
            "sequence number",
            self.sequence,
            "the packets before lead to another",
        )?;
        let due = plan.timestamp.wrapping_add(ticks_of(self.departure_us));
        fields.check(
            self.timestamp.wrapping_sub(due) <= 1,
            12,
            "timestamp",
            self.timestamp,
            "the departure makes another",
        )?;
        let spread = (u64::from(self.packets() - 1) * u64::from(self.timestamp_step)) >> 16;
        let burst = u64::from(ticks_of(u64::from(plan.recipe.burst_us))) + 1;
        fields.check(
            spread <= burst,
            16,
            "timestamp step",
            self.timestamp_step,
            "the last packet is due in the burst",
        )?;
        let flags = fields.u32(20);
        fields.check(
            flags & !(DISCONTINUITY | START) == 0,
            20,
            "flags",
            flags,
            "1 and 2 are the ones there are",
        )?;
        let later = self.departure_us >= place.departure_us;
        fields.check(later, 24, "departure", self.departure_us, "the train before departs later")
    }
}

/// Microseconds in ticks of 90 kHz, modulo 2^32.
fn ticks_of(microseconds: u64) -> u32 {
    (u128::from(microseconds) * 9 / 100) as u32
}
