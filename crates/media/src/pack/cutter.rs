//! Cuts timed packets into trains, and trains into segments.

use std::collections::VecDeque;

use super::buffer::PacketBuffer;
use super::{PackedSegment, Summary, microseconds};
use crate::image::{
    Description, Header, MAX_SEGMENT_DATA, MAX_TRAIN_BYTES, MAX_TRAIN_PACKETS, PAGE, Plan, SegmentEntry,
    Start, TRAIN_RECORD_LENGTH, Table, TrainRecord,
};
use crate::rtp::HEADER_LENGTH;
use crate::ts::{PACKET_LENGTH, Stretch, TICKS_PER_SECOND};

/// Ticks of 27 MHz in one of RTP's 90 kHz.
const TICKS_PER_RTP_TICK: u64 = TICKS_PER_SECOND / crate::rtp::CLOCK_HZ as u64;

#[derive(Debug)]
pub(super) struct Cutter {
    plan: Plan,
    timing: Timing,
    /// The next packet to put into a train.
    next_packet: u64,
    train: Option<OpenTrain>,
    segment: OpenSegment,
    packed: VecDeque<PackedSegment>,
    entries: Vec<SegmentEntry>,
    starts: Vec<Start>,
    payload_bytes: u64,
}

/// When transport stream packets depart and which of them are special.
#[derive(Debug, Default)]
struct Timing {
    stretches: VecDeque<Stretch>,
    /// The first packet that is not timed.
    end: u64,
    discontinuities: VecDeque<u64>,
    starts: VecDeque<u64>,
}

/// A train that may still grow.
#[derive(Debug)]
struct OpenTrain {
    first_packet: u64,
    packets: u32,
    length: u32,
    departure: u64,
    last_departure: u64,
    discontinuity: bool,
    /// The random access point in the first packet: departure in ticks, bytes of payload before it.
    start: Option<(u64, u32)>,
}

/// A segment whose trains lie at the front of the buffer.
#[derive(Debug)]
struct OpenSegment {
    offset: u64,
    first_packet: u64,
    first_departure_us: u64,
    data_length: u32,
    records: Vec<u8>,
    starts: Vec<Start>,
}

impl OpenSegment {
    fn starting_at(offset: u64, first_packet: u64) -> Self {
        let (records, starts) = (Vec::new(), Vec::new());
        Self { offset, first_packet, first_departure_us: 0, data_length: 0, records, starts }
    }
}

impl Cutter {
    pub(super) fn new(plan: Plan) -> Self {
        Self {
            plan,
            timing: Timing::default(),
            next_packet: 0,
            train: None,
            segment: OpenSegment::starting_at(PAGE, 0),
            packed: VecDeque::new(),
            entries: Vec::new(),
            starts: Vec::new(),
            payload_bytes: 0,
        }
    }

    /// A decoder can start at this transport stream packet. Where that has left in a train already, which
    /// takes a clock in the tables' own PIDs, the next packet of the image has to do.
    pub(super) fn add_start(&mut self, ts_packet: u64) {
        self.timing.starts.push_back(ts_packet.max(self.next_packet * self.ts_per_packet()));
    }

    pub(super) fn add_stretch(&mut self, stretch: Stretch) {
        self.timing.end = stretch.end;
        if stretch.discontinuity {
            self.timing.discontinuities.push_back(stretch.first);
        }
        self.timing.stretches.push_back(stretch);
    }

    pub(super) fn pop(&mut self) -> Option<PackedSegment> {
        self.packed.pop_front()
    }

    /// Puts every full packet that is timed into a train.
    pub(super) fn cut(&mut self, buffer: &mut PacketBuffer) {
        let full = self.segment.first_packet + buffer.full_packets() as u64;
        let timed = self.timing.end / self.ts_per_packet();
        while self.next_packet < full.min(timed) {
            self.add_packet(buffer, u32::from(self.plan.recipe.packet_size()));
        }
        buffer.compact();
    }

    /// Takes the last packet, which may be shorter, and closes everything.
    pub(super) fn finish(&mut self, buffer: &mut PacketBuffer, description: Description) -> Summary {
        let behind = (self.next_packet - self.segment.first_packet) as usize;
        let size = usize::from(self.plan.recipe.packet_size());
        let rest = buffer.packets().len() - behind * size;
        if rest > 0 {
            self.add_packet(buffer, rest as u32);
        }
        self.close_train(buffer);
        let duration = self.timing.departure(self.timing.end);
        self.close_segment(buffer);
        self.summary(description, duration)
    }

    fn summary(&mut self, description: Description, duration: u64) -> Summary {
        let starts = std::mem::take(&mut self.starts);
        let table = Table { segments: std::mem::take(&mut self.entries), starts, description };
        let table_bytes = table.encode();
        let header = Header {
            plan: self.plan,
            packets: self.next_packet,
            payload_bytes: self.payload_bytes,
            duration_us: microseconds(duration),
            table: Table::extent(&table_bytes, self.segment.offset),
        };
        Summary { header, table, table_bytes }
    }

    fn ts_per_packet(&self) -> u64 {
        u64::from(self.plan.recipe.ts_per_packet)
    }

    /// Puts the next packet, of `length` bytes, into the open train or a new one.
    fn add_packet(&mut self, buffer: &mut PacketBuffer, length: u32) {
        let first = self.next_packet * self.ts_per_packet();
        let ts_packets = u64::from(length - HEADER_LENGTH as u32) / PACKET_LENGTH as u64;
        let departure = self.timing.departure(first);
        let discontinuity = self.timing.take_discontinuity(first);
        let start = self.timing.take_start(first, first + ts_packets);
        let burst = u64::from(self.plan.recipe.burst_us) * (TICKS_PER_SECOND / 1_000_000);
        let joins = !discontinuity
            && start.is_none()
            && self.train.as_ref().is_some_and(|train| train.has_room(departure, length, burst));
        if !joins {
            self.close_train(buffer);
        }
        let train = self.train.get_or_insert(OpenTrain {
            first_packet: self.next_packet,
            packets: 0,
            length: 0,
            departure,
            last_departure: departure,
            discontinuity,
            start,
        });
        train.packets += 1;
        train.length += length;
        train.last_departure = departure;
        self.next_packet += 1;
        self.timing.forget_before(first);
    }

    fn close_train(&mut self, buffer: &mut PacketBuffer) {
        let Some(train) = self.train.take() else { return };
        if self.segment.data_length + train.length > MAX_SEGMENT_DATA {
            self.close_segment(buffer);
        }
        let record = train.record(&self.plan, self.segment.data_length);
        if record.offset == 0 {
            self.segment.first_departure_us = record.departure_us;
        }
        if let Some((departure, skip)) = train.start {
            self.segment.starts.push(Start {
                departure_us: microseconds(departure),
                segment: self.entries.len() as u32,
                train: (self.segment.records.len() / TRAIN_RECORD_LENGTH) as u32,
                skip,
            });
        }
        write_headers(&mut buffer.packets()[record.offset as usize..], &record, &self.plan);
        self.segment.records.extend_from_slice(&record.encode());
        self.segment.data_length += record.length;
        self.payload_bytes += u64::from(record.length - record.packets() * HEADER_LENGTH as u32);
    }

    fn close_segment(&mut self, buffer: &mut PacketBuffer) {
        let OpenSegment { offset, first_packet, first_departure_us, data_length, records, starts } =
            std::mem::replace(&mut self.segment, OpenSegment::starting_at(0, 0));
        let count = (records.len() / TRAIN_RECORD_LENGTH) as u32;
        let mut entry =
            SegmentEntry { offset, data_length, records: count, first_packet, first_departure_us, crc: 0 };
        let mut bytes = Vec::with_capacity(entry.padded_length() as usize);
        bytes.extend_from_slice(&buffer.packets()[..data_length as usize]);
        bytes.extend_from_slice(&records);
        entry.crc = crc32c::crc32c(&bytes);
        bytes.resize(entry.padded_length() as usize, 0);
        buffer.release(data_length as usize);
        let next = first_packet + entry.packets(&self.plan);
        self.segment = OpenSegment::starting_at(offset + entry.padded_length(), next);
        self.entries.push(entry);
        self.starts.extend_from_slice(&starts);
        self.packed.push_back(PackedSegment { bytes, entry, starts });
    }
}

impl Timing {
    /// Departure of a packet that is timed, or of the end, in ticks of 27 MHz.
    fn departure(&self, ts_packet: u64) -> u64 {
        let stretch = self.stretches.iter().find(|stretch| ts_packet < stretch.end).or(self.stretches.back());
        stretch.map_or(0, |stretch| stretch.departure(ts_packet))
    }

    /// Stretches that end before a packet are not asked for again.
    fn forget_before(&mut self, ts_packet: u64) {
        while self.stretches.len() > 1 && self.stretches[0].end <= ts_packet {
            self.stretches.pop_front();
        }
    }

    fn take_discontinuity(&mut self, ts_packet: u64) -> bool {
        let passed = self.discontinuities.iter().take_while(|&&packet| packet <= ts_packet).count();
        self.discontinuities.drain(..passed).count() > 0
    }

    /// The first random access point from `first` up to `end`; others there are forgotten.
    fn take_start(&mut self, first: u64, end: u64) -> Option<(u64, u32)> {
        let within = self.starts.iter().take_while(|&&packet| packet < end).count();
        let packet = self.starts.drain(..within).next()?;
        Some((self.departure(packet), (packet - first) as u32 * PACKET_LENGTH as u32))
    }
}

impl OpenTrain {
    /// Returns whether a packet joins the train: it is due in the same burst. Bursts begin at the same times
    /// in all images, so that sessions are sent for together.
    fn has_room(&self, departure: u64, length: u32, burst: u64) -> bool {
        self.packets < MAX_TRAIN_PACKETS
            && self.length + length <= MAX_TRAIN_BYTES
            && departure / burst.max(1) == self.departure / burst.max(1)
    }

    fn record(&self, plan: &Plan, offset: u32) -> TrainRecord {
        TrainRecord {
            offset,
            length: self.length,
            packet_size: plan.recipe.packet_size(),
            sequence: plan.sequence_of(self.first_packet),
            timestamp: plan.timestamp.wrapping_add((self.departure / TICKS_PER_RTP_TICK) as u32),
            timestamp_step: self.timestamp_step(),
            departure_us: microseconds(self.departure),
            discontinuity: self.discontinuity,
            start: self.start.is_some(),
        }
    }

    /// The step that gives the last packet its exact timestamp: rounded up, as the run rounds down.
    fn timestamp_step(&self) -> u32 {
        let ticks = self.last_departure / TICKS_PER_RTP_TICK - self.departure / TICKS_PER_RTP_TICK;
        let steps = u64::from(self.packets - 1).max(1);
        (ticks << 16).div_ceil(steps) as u32
    }
}

/// Writes the headers of a train that starts at the first of `packets`.
fn write_headers(packets: &mut [u8], train: &TrainRecord, plan: &Plan) {
    let run = train.run(plan);
    let train_bytes = &mut packets[..train.length as usize];
    for (index, packet) in (0..).zip(train_bytes.chunks_mut(usize::from(train.packet_size))) {
        packet[..HEADER_LENGTH].copy_from_slice(&run.header(index).to_bytes());
    }
}
