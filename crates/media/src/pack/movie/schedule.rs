//! Orders the trains of all tracks by departure, and cuts them into segments.

use std::collections::{BTreeMap, VecDeque};

use crate::image::{
    MAX_SEGMENT_DATA, MAX_TRAIN_BYTES, MAX_TRAIN_PACKETS, NewSegment, PayloadRun, Plan, Start, TrainRecord,
    after, segment_limit,
};
use crate::payload::{Payload, Piece};
use crate::rtp::{HEADER_LENGTH, Marker};

/// Most random access points of a segment; playback cannot begin at any further ones.
const MAX_STARTS: usize = 128;

/// Most trains that wait for earlier trains: beyond that, the first waiting trains depart before trains that
/// are still to be added.
const MAX_WAITING: usize = 1 << 14;

/// Train that waits for trains that depart before it.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Number of its stream.
    pub(super) stream: u8,
    pub(super) timestamp: u32,
    pub(super) packets: u32,
    pub(super) packet_size: u16,
    pub(super) length: u32,
    /// Increase of the timestamp from packet to packet, in 1/65536 of a tick.
    pub(super) timestamp_step: u32,
    pub(super) marker: Marker,
    /// Bytes of padding of all packets.
    pub(super) padding: u16,
    /// True if the train begins with a random access point of the video.
    pub(super) start: bool,
    /// True if the train is of a group of sound, which departs before pictures.
    pub(super) is_sound: bool,
    pub(super) pieces: Vec<Piece>,
}

/// Place of a waiting train: departure, false for groups of sound, number in the order of adding.
type Place = (u64, bool, u64);

#[derive(Debug)]
pub(super) struct Schedule {
    plan: Plan,
    /// Packets of each stream so far.
    sent: Vec<u64>,
    /// Waiting trains by departure, sound before pictures, then by the order in which they were added.
    waiting: BTreeMap<Place, Waiting>,
    added: u64,
    /// Capacity of the pieces of all waiting trains.
    waiting_pieces: usize,
    /// Departure of the last train in a segment.
    departed_us: u64,
    packets: u64,
    segment: OpenSegment,
    packed: VecDeque<NewSegment>,
    closed: usize,
}

#[derive(Debug, Default)]
struct OpenSegment {
    data_length: u32,
    packets: u64,
    trains: Vec<TrainRecord>,
    /// Index of the first of the last trains, if these are groups of sound of one departure.
    sound: Option<usize>,
    starts: Vec<Start>,
    pieces: Vec<Piece>,
}

impl Schedule {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            plan: *plan,
            sent: vec![0; plan.streams.len()],
            waiting: BTreeMap::new(),
            added: 0,
            waiting_pieces: 0,
            departed_us: 0,
            packets: 0,
            segment: OpenSegment::default(),
            packed: VecDeque::new(),
            closed: 0,
        }
    }

    /// Adds a train that departs at `departure_us`. The trains of a stream are added in their order.
    pub(super) fn add(&mut self, departure_us: u64, train: Waiting) {
        self.waiting_pieces += train.pieces.capacity();
        self.waiting.insert((departure_us, !train.is_sound, self.added), train);
        self.added += 1;
    }

    /// Puts trains that depart before `end_us` into segments. No train that departs earlier may be added
    /// afterwards.
    pub(super) fn depart_before(&mut self, end_us: u64) {
        while let Some(first) = self.waiting.first_entry() {
            let (departure_us, ..) = *first.key();
            if departure_us >= end_us && self.waiting.len() <= MAX_WAITING {
                return;
            }
            if let Some((_, train)) = self.waiting.pop_first() {
                self.waiting_pieces -= train.pieces.capacity();
                self.push(departure_us, train);
            }
        }
    }

    /// Ends the last segment. No train may be added afterwards.
    pub(super) fn finish(&mut self) {
        self.depart_before(u64::MAX);
        self.close();
    }

    /// Removes and returns the next complete segment.
    pub(super) fn pop(&mut self) -> Option<NewSegment> {
        self.packed.pop_front()
    }

    pub(super) fn has_segment(&self) -> bool {
        !self.packed.is_empty()
    }

    /// Departure of the last train, in microseconds.
    pub(super) fn departed_us(&self) -> u64 {
        self.departed_us
    }

    /// Packets so far.
    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    /// Bytes of heap memory that the schedule holds.
    pub(super) fn held_bytes(&self) -> usize {
        self.waiting.len() * size_of::<(Place, Waiting)>()
            + (self.waiting_pieces + self.segment.pieces.capacity()) * size_of::<Piece>()
            + self.segment.trains.capacity() * size_of::<TrainRecord>()
    }

    fn push(&mut self, departure_us: u64, train: Waiting) {
        let Waiting { stream, timestamp, packets, packet_size, length, start, .. } = train;
        let mut offset = after(&self.plan, self.segment.data_length);
        let last = self.segment.trains.last().map(|train| train.departure_us);
        let is_behind_sound = self.segment.sound.is_some() && last == Some(departure_us);
        // The groups of sound of a departure are in the segment of the picture after them, with which playback may start.
        let (behind, limit) = match (is_behind_sound, train.is_sound) {
            (true, _) => (0, MAX_SEGMENT_DATA),
            (false, true) => (self.behind_sound(departure_us), segment_limit(self.closed)),
            (false, false) => (0, segment_limit(self.closed)),
        };
        if offset + length + behind > limit {
            self.close();
            offset = 0;
        }
        // A train has to depart later than planned only if too many trains waited before it.
        self.departed_us = self.departed_us.max(departure_us);
        let sent = &mut self.sent[usize::from(stream)];
        let index = self.segment.trains.len();
        let is_last = |train: &TrainRecord| train.departure_us == self.departed_us;
        let sound = self.segment.sound.filter(|first| self.segment.trains.get(*first).is_some_and(is_last));
        self.segment.sound = train.is_sound.then_some(sound.unwrap_or(index));
        let mut start = start && self.segment.starts.len() < MAX_STARTS;
        if start {
            // Playback starts with the sound of the same departure.
            let first = sound.unwrap_or(index);
            self.segment.starts.push(Start {
                departure_us: self.departed_us,
                segment: self.closed as u32,
                train: first as u32,
                skip: 0,
            });
            if let Some(train) = self.segment.trains.get_mut(first) {
                (train.start, start) = (true, false);
            }
        }
        self.segment.trains.push(TrainRecord {
            offset,
            length,
            packet_size,
            sequence: self.plan.streams[usize::from(stream)].sequence_of(*sent),
            timestamp,
            timestamp_step: train.timestamp_step,
            departure_us: self.departed_us,
            stream,
            marker: train.marker,
            start,
            padding: train.padding,
        });
        *sent += u64::from(packets);
        self.segment.packets += u64::from(packets);
        self.segment.data_length = offset + length;
        self.segment.pieces.extend(train.pieces);
    }

    /// Bytes of the waiting groups of sound of a departure and of the first picture after them.
    fn behind_sound(&self, departure_us: u64) -> u32 {
        let behind = self.waiting.range((departure_us, false, 0)..=(departure_us, true, u64::MAX));
        let pictures = behind.clone().filter(|(_, train)| !train.is_sound).take(1);
        let groups = behind.filter(|(_, train)| train.is_sound);
        // Each may begin after a byte that makes its offset even.
        groups.chain(pictures).fold(0, |sum: u32, (_, train)| sum.saturating_add(train.length + 1))
    }

    /// Ends the segment, unless it is empty.
    pub(super) fn close(&mut self) {
        if self.segment.trains.is_empty() {
            return;
        }
        let OpenSegment { packets, trains, starts, pieces, .. } = std::mem::take(&mut self.segment);
        let payload = vec![PayloadRun::Pieces(pieces)];
        self.packed.push_back(NewSegment { first_packet: self.packets, trains, starts, payload });
        self.packets += packets;
        self.closed += 1;
    }
}

impl Waiting {
    /// Train of a packet of a picture.
    pub(super) fn new(payload: &Payload<'_>, timestamp: u32, stream: u8, start: bool) -> Self {
        let length = HEADER_LENGTH + payload.length;
        Self {
            stream,
            timestamp,
            packets: 1,
            packet_size: length as u16,
            length: length as u32,
            timestamp_step: 0,
            marker: if payload.marker { Marker::Last } else { Marker::None },
            padding: payload.padding.into(),
            start,
            is_sound: false,
            pieces: payload.pieces.to_vec(),
        }
    }

    /// Adds a packet if the train can still be sent in one call: all packets are full except the last, which
    /// may be shorter, all or none are padded, and only the last may have the marker.
    pub(super) fn join(&mut self, payload: &Payload<'_>, timestamp: u32, full_size: usize) -> bool {
        let length = (HEADER_LENGTH + payload.length) as u32;
        let fits = self.marker == Marker::None
            && self.timestamp == timestamp
            && (self.padding > 0) == (payload.padding > 0)
            && usize::from(self.packet_size) == full_size
            && self.packets < MAX_TRAIN_PACKETS
            && self.length + length <= MAX_TRAIN_BYTES
            && self.length == self.packets * u32::from(self.packet_size)
            && length <= u32::from(self.packet_size);
        if fits {
            self.packets += 1;
            self.length += length;
            self.marker = if payload.marker { Marker::Last } else { Marker::None };
            self.padding += u16::from(payload.padding);
            self.pieces.extend_from_slice(payload.pieces);
        }
        fits
    }
}
