//! Cuts timed packets into trains, and trains into segments.

use std::collections::VecDeque;

use super::microseconds;
use super::payload_map::PayloadMap;
use crate::image::{
    Description, End, MAX_TRAIN_BYTES, MAX_TRAIN_PACKETS, NewSegment, Plan, Start, StreamPlan, TrainRecord,
    segment_limit,
};
use crate::queue::shrink;
use crate::rtp::{HEADER_LENGTH, Marker};
use crate::ts::{PACKET_LENGTH, Stretch, TICKS_PER_SECOND};

/// Ticks of 27 MHz in one of RTP's 90 kHz.
const TICKS_PER_RTP_TICK: u64 = TICKS_PER_SECOND / crate::rtp::CLOCK_HZ as u64;

/// Most random access points of a segment; playback cannot begin at any further ones. A file of 2 Mb/s in
/// which every picture is a random access point has fewer. A hostile file has one in every packet, and each
/// would take memory for the whole length of the file.
const MAX_STARTS: usize = 128;

#[derive(Debug)]
pub(super) struct Cutter {
    plan: Plan,
    stream: StreamPlan,
    /// Transport stream packets in each RTP packet.
    ts_per_packet: u64,
    timing: Timing,
    /// Number of the next packet to put into a train.
    next_packet: u64,
    train: Option<OpenTrain>,
    segment: OpenSegment,
    packed: VecDeque<NewSegment>,
    /// Number of segments closed.
    closed: usize,
    /// Departure of the last train in them, in microseconds.
    until_us: u64,
    /// True if the asset has ended and its last packets are not cut yet.
    ends: bool,
}

/// Departure times of transport stream packets, and their discontinuities and random access points.
#[derive(Debug, Default)]
struct Timing {
    stretches: VecDeque<Stretch>,
    /// First packet that is not timed yet.
    end: u64,
    discontinuities: VecDeque<u64>,
    starts: VecDeque<u64>,
}

/// Train to which packets can still be added.
#[derive(Debug)]
struct OpenTrain {
    first_packet: u64,
    packets: u32,
    length: u32,
    departure: u64,
    last_departure: u64,
    discontinuity: bool,
    /// Random access point in the first packet: departure in ticks, and bytes of payload before it.
    start: Option<(u64, u32)>,
}

/// Segment to which trains can still be added.
#[derive(Debug, Default)]
struct OpenSegment {
    first_packet: u64,
    data_length: u32,
    trains: Vec<TrainRecord>,
    starts: Vec<Start>,
}

impl Cutter {
    /// Cutter for a plan of a transport stream with `ts_per_packet` transport packets in each RTP packet.
    pub(super) fn new(plan: Plan, ts_per_packet: u16) -> Self {
        Self {
            plan,
            stream: plan.streams.first().copied().unwrap_or_default(),
            ts_per_packet: ts_per_packet.into(),
            timing: Timing::default(),
            next_packet: 0,
            train: None,
            segment: OpenSegment::default(),
            packed: VecDeque::new(),
            closed: 0,
            until_us: 0,
            ends: false,
        }
    }

    /// Adds a transport stream packet at which a decoder can start. If this packet is already in a train,
    /// which happens when the clock is in the PIDs of the tables, the next packet of the image is used
    /// instead.
    pub(super) fn add_start(&mut self, ts_packet: u64) {
        self.timing.starts.push_back(ts_packet.max(self.next_packet * self.ts_per_packet));
    }

    pub(super) fn add_stretch(&mut self, stretch: Stretch) {
        self.timing.end = stretch.end;
        if stretch.discontinuity {
            self.timing.discontinuities.push_back(stretch.first);
        }
        self.timing.stretches.push_back(stretch);
    }

    /// Puts full, timed packets into trains until a segment is complete, and returns the segment.
    pub(super) fn cut(&mut self, map: &mut PayloadMap) -> Option<NewSegment> {
        let full = map.end().min(self.timing.end) / self.ts_per_packet;
        while self.packed.is_empty() && self.next_packet < full {
            self.add_packet(map, self.ts_per_packet);
        }
        if self.packed.is_empty() && std::mem::take(&mut self.ends) {
            self.add_rest(map);
        }
        self.packed.pop_front()
    }

    /// Cuts at the end of what the asset has so far: completes the segment with the trains to which no packet can be added,
    /// if there are any, and returns it.
    pub(super) fn cut_early(&mut self, map: &mut PayloadMap) -> Option<NewSegment> {
        if !self.segment.trains.is_empty() {
            self.close_segment(map);
        }
        self.packed.pop_front()
    }

    /// Departure of the last train in segments, in microseconds.
    pub(super) fn until_us(&self) -> u64 {
        self.until_us
    }

    /// Ends the asset, all of which is timed. The last packet may be shorter.
    pub(super) fn finish(&mut self, description: Description) -> End {
        self.ends = true;
        End { duration_us: microseconds(self.timing.departure(self.timing.end)), description }
    }

    /// Bytes of heap memory that the cutter holds.
    pub(super) fn held_bytes(&self) -> usize {
        self.timing.stretches.capacity() * size_of::<Stretch>()
            + (self.timing.discontinuities.capacity() + self.timing.starts.capacity()) * size_of::<u64>()
            + self.segment.trains.capacity() * size_of::<TrainRecord>()
            + self.segment.starts.capacity() * size_of::<Start>()
    }

    /// Shrinks the queues after a long look-ahead.
    pub(super) fn shrink(&mut self) {
        shrink(&mut self.timing.stretches);
        shrink(&mut self.timing.discontinuities);
        shrink(&mut self.timing.starts);
    }

    /// Adds the last packet, which may be shorter, and closes the train and the segment.
    fn add_rest(&mut self, map: &mut PayloadMap) {
        let rest = map.end() - self.next_packet * self.ts_per_packet;
        if rest > 0 {
            self.add_packet(map, rest);
        }
        self.close_train(map);
        self.close_segment(map);
    }

    /// Adds the next packet, of `ts_packets` transport stream packets, to the open train or to a new one.
    fn add_packet(&mut self, map: &mut PayloadMap, ts_packets: u64) {
        let first = self.next_packet * self.ts_per_packet;
        let length = (HEADER_LENGTH + ts_packets as usize * PACKET_LENGTH) as u32;
        let departure = self.timing.departure(first);
        let discontinuity = self.timing.take_discontinuity(first);
        let start = self.timing.take_start(first, first + ts_packets);
        let waits = self.train.as_ref().is_some_and(|train| train.start.is_some());
        let start = start.filter(|_| self.segment.starts.len() + usize::from(waits) < MAX_STARTS);
        let burst = u64::from(self.plan.recipe.burst_us) * (TICKS_PER_SECOND / 1_000_000);
        let joins = !discontinuity
            && start.is_none()
            && self.train.as_ref().is_some_and(|train| train.has_room(departure, length, burst));
        if !joins {
            self.close_train(map);
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

    fn close_train(&mut self, map: &mut PayloadMap) {
        let Some(train) = self.train.take() else { return };
        if self.segment.data_length + train.length > segment_limit(self.closed) {
            self.close_segment(map);
        }
        if let Some((departure, skip)) = train.start {
            self.segment.starts.push(Start {
                departure_us: microseconds(departure),
                segment: self.closed as u32,
                train: self.segment.trains.len() as u32,
                skip,
            });
        }
        self.segment.trains.push(train.record(
            self.plan.recipe.packet_size(),
            &self.stream,
            self.segment.data_length,
        ));
        self.segment.data_length += train.length;
    }

    fn close_segment(&mut self, map: &mut PayloadMap) {
        let OpenSegment { first_packet, data_length, trains, starts } = std::mem::take(&mut self.segment);
        let packets: u32 = trains.iter().map(TrainRecord::packets).sum();
        self.until_us = trains.last().map_or(self.until_us, |train| train.departure_us);
        let payload = u64::from(data_length) - u64::from(packets) * HEADER_LENGTH as u64;
        let payload = map.take(payload / PACKET_LENGTH as u64);
        self.segment.first_packet = first_packet + u64::from(packets);
        self.closed += 1;
        self.packed.push_back(NewSegment { first_packet, trains, starts, payload });
    }
}

impl Timing {
    /// Departure of a timed packet, or of the end of the timed packets, in ticks of 27 MHz.
    fn departure(&self, ts_packet: u64) -> u64 {
        let stretch = self.stretches.iter().find(|stretch| ts_packet < stretch.end).or(self.stretches.back());
        stretch.map_or(0, |stretch| stretch.departure(ts_packet))
    }

    /// Drops stretches that end before a packet, since they are not needed again.
    fn forget_before(&mut self, ts_packet: u64) {
        while self.stretches.len() > 1 && self.stretches[0].end <= ts_packet {
            self.stretches.pop_front();
        }
    }

    fn take_discontinuity(&mut self, ts_packet: u64) -> bool {
        let passed = self.discontinuities.iter().take_while(|&&packet| packet <= ts_packet).count();
        self.discontinuities.drain(..passed).count() > 0
    }

    /// Takes the first random access point from `first` up to `end`; drops the others in this range.
    fn take_start(&mut self, first: u64, end: u64) -> Option<(u64, u32)> {
        let within = self.starts.iter().take_while(|&&packet| packet < end).count();
        let packet = self.starts.drain(..within).next()?;
        Some((self.departure(packet), (packet - first) as u32 * PACKET_LENGTH as u32))
    }
}

impl OpenTrain {
    /// Returns whether a packet can join the train: it must be due in the same burst. Bursts begin at the
    /// same times in all images, so that a thread sends for many sessions together.
    fn has_room(&self, departure: u64, length: u32, burst: u64) -> bool {
        self.packets < MAX_TRAIN_PACKETS
            && self.length + length <= MAX_TRAIN_BYTES
            && departure / burst.max(1) == self.departure / burst.max(1)
    }

    fn record(&self, packet_size: u16, stream: &StreamPlan, offset: u32) -> TrainRecord {
        TrainRecord {
            offset,
            length: self.length,
            packet_size,
            sequence: stream.sequence_of(self.first_packet),
            timestamp: stream.timestamp.wrapping_add((self.departure / TICKS_PER_RTP_TICK) as u32),
            timestamp_step: self.timestamp_step(),
            departure_us: microseconds(self.departure),
            stream: 0,
            marker: if self.discontinuity { Marker::First } else { Marker::None },
            start: self.start.is_some(),
            padding: 0,
        }
    }

    /// Timestamp step that gives the last packet its exact timestamp: rounded up, since the timestamps of a
    /// run are rounded down.
    fn timestamp_step(&self) -> u32 {
        let ticks = self.last_departure / TICKS_PER_RTP_TICK - self.departure / TICKS_PER_RTP_TICK;
        let steps = u64::from(self.packets - 1).max(1);
        (ticks << 16).div_ceil(steps) as u32
    }
}
