//! Groups of sound: the packets of a window of time depart together at its beginning, before its pictures, so
//! that they need one call, and the trains of pictures are stored without trains of sound between them.

use super::schedule::Waiting;
use crate::image::{MAX_TRAIN_BYTES, MAX_TRAIN_PACKETS};
use crate::payload::{Payload, Piece};
use crate::rtp::{HEADER_LENGTH, MAX_PADDING, Marker};

/// Length of a window in microseconds: sound departs early by at most this time.
pub(super) const WINDOW_US: u64 = 200_000;

/// Most packets of a group. Further packets mean a high bit rate: then all of them depart at their own times,
/// since a long burst would be harder on receivers than several calls on the server.
const MAX_GROUP: usize = 12;

/// Most packets that wait for the end of their window; a damaged file can have any number at one time.
const MAX_WAITING: usize = 1 << 8;

/// Longest time by which sound may be stored after the pictures of its time to be grouped.
pub(super) const MAX_DELAY_US: u64 = 2 * WINDOW_US;

/// Shortest time from one beginning of groups at a random access point to the next.
const MIN_DISTANCE_US: u64 = 1_000_000;

/// Windows of time. They begin at multiples of their length, and at random access points, where playback can
/// start: sound then starts with the picture.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Windows {
    /// Last random access points at which a window begins.
    starts_us: [Option<u64>; 2],
}

impl Windows {
    /// Adds the departure of a random access point.
    pub(super) fn add_start(&mut self, us: u64) {
        let [_, last] = self.starts_us;
        if last.is_none_or(|last| us >= last.saturating_add(MIN_DISTANCE_US)) {
            self.starts_us = [last, Some(us)];
        }
    }

    /// Beginning of the window of a time.
    pub(super) fn begin_us(&self, us: u64) -> u64 {
        let starts = self.starts_us.into_iter().flatten().filter(|start| *start <= us);
        starts.fold(us - us % WINDOW_US, u64::max)
    }
}

/// Packet of sound before its train is known.
#[derive(Debug)]
pub(super) struct SoundPacket {
    pub(super) due_us: u64,
    /// Timestamp in ticks of the stream's clock, without the stream's first timestamp.
    pub(super) timestamp: u64,
    pub(super) marker: bool,
    /// Bytes of payload.
    length: usize,
    pieces: Vec<Piece>,
}

impl SoundPacket {
    pub(super) fn new(payload: &Payload<'_>, due_us: u64) -> Self {
        let Payload { timestamp, marker, length, pieces, .. } = *payload;
        Self { due_us, timestamp, marker, length, pieces: pieces.to_vec() }
    }
}

/// Packets of a stream in a window.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Beginning of the window.
    pub(super) begin_us: u64,
    pub(super) packets: Vec<SoundPacket>,
}

/// Stream of a group: its number, first timestamp, and most bytes of payload in a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupStream {
    pub(super) number: u8,
    pub(super) timestamp: u32,
    pub(super) limit: usize,
}

impl Group {
    /// Returns whether no more packets may wait.
    pub(super) fn is_full(&self) -> bool {
        self.packets.len() >= MAX_WAITING
    }

    /// Returns whether the packets depart together.
    fn is_together(&self) -> bool {
        self.packets.len() <= MAX_GROUP
    }

    /// Bytes of heap memory that the group holds.
    pub(super) fn held_bytes(&self) -> usize {
        let pieces = self.packets.iter().map(|packet| packet.pieces.capacity()).sum::<usize>();
        self.packets.capacity() * size_of::<SoundPacket>() + pieces * size_of::<Piece>()
    }

    /// Divides the packets into trains with their departures. `credit`: bytes of padding that they may have. `usual`:
    /// bytes of payload in packets of the last train of several, which senders have set as the size of segments.
    pub(super) fn trains(
        self,
        stream: &GroupStream,
        credit: &mut usize,
        usual: &mut usize,
    ) -> Vec<(u64, Waiting)> {
        let (begin_us, together) = (self.begin_us, self.is_together());
        let mut rest = self.packets.as_slice();
        let mut trains = Vec::new();
        while !rest.is_empty() {
            let lengths = (1..=if together { rest.len() } else { 1 }).rev();
            let mut fits = lengths.filter_map(|count| {
                let sizes = sizes(&rest[..count], stream.limit, *usual).into_iter().flatten();
                // Half of the padding is kept, so that the next groups can be trains, too.
                let most = |size: usize| if size == *usual { *credit / 2 } else { *credit };
                let mut permitted = sizes.filter(|size| padding(&rest[..count], *size) <= most(*size));
                Some((count, permitted.next()?))
            });
            let (count, size) = fits.next().unwrap_or((1, rest[0].length));
            let (first, after) = rest.split_at(count);
            *usual = if count > 1 { size } else { *usual };
            *credit -= padding(first, size);
            trains.push((if together { begin_us } else { first[0].due_us }, train(first, size, stream)));
            rest = after;
        }
        trains
    }
}

/// Bytes of payload that each of these packets can have as a train, of which the last may have fewer: the usual number
/// and the least, each if it is possible.
fn sizes(packets: &[SoundPacket], limit: usize, usual: usize) -> [Option<usize>; 2] {
    let [others @ .., last] = packets else { return [None; 2] };
    let [first, ..] = others else { return [Some(last.length), None] };
    let step = packets[1].timestamp.wrapping_sub(first.timestamp);
    let even = packets.windows(2).all(|pair| pair[1].timestamp.wrapping_sub(pair[0].timestamp) == step);
    let marked = packets.iter().all(|packet| packet.marker == first.marker);
    let lengths = || packets.iter().map(|packet| packet.length);
    let (longest, shortest) = (lengths().max().unwrap_or(0), lengths().rev().skip(1).min().unwrap_or(0));
    // Packets of a train have an even size; each has some padding, or none has.
    let is_plain = longest == shortest && longest.is_multiple_of(2);
    let least = if is_plain { longest } else { (longest + 1).next_multiple_of(2) };
    let fits = |size: &usize| {
        let bytes = packets.len() * (HEADER_LENGTH + size);
        bytes <= MAX_TRAIN_BYTES as usize && *size <= limit && size - shortest <= MAX_PADDING
    };
    let is_train =
        even && marked && packets.len() <= MAX_TRAIN_PACKETS as usize && step <= u64::from(u16::MAX);
    let sizes = [Some(usual).filter(|usual| *usual > longest), Some(least)];
    sizes.map(|size| size.filter(fits).filter(|_| is_train))
}

/// Returns whether packets of a train with payloads of `size` bytes need padding: then each has some.
fn is_padded(packets: &[SoundPacket], size: usize) -> bool {
    packets.iter().rev().skip(1).any(|packet| packet.length < size)
}

/// Bytes of padding of all packets of a train with payloads of `size` bytes.
fn padding(packets: &[SoundPacket], size: usize) -> usize {
    match packets {
        [others @ .., _] if is_padded(packets, size) => {
            others.iter().map(|packet| size - packet.length).sum::<usize>() + 1
        }
        _ => 0,
    }
}

/// Train of packets with payloads of `size` bytes.
fn train(packets: &[SoundPacket], size: usize, stream: &GroupStream) -> Waiting {
    let is_padded = is_padded(packets, size);
    let [first, ..] = packets else { unreachable!("a train has packets") };
    let step = packets.get(1).map_or(0, |second| second.timestamp.wrapping_sub(first.timestamp));
    let (mut pieces, mut padding, mut length) = (Vec::new(), 0, 0);
    for (index, packet) in packets.iter().enumerate() {
        let added = match is_padded {
            // The last packet has as little as possible.
            true if index + 1 == packets.len() => 1,
            true => (size - packet.length) as u8,
            false => 0,
        };
        pieces.extend_from_slice(&packet.pieces);
        pieces.extend((added > 0).then_some(Piece::Padding(added)));
        padding += u16::from(added);
        length += (HEADER_LENGTH + packet.length + usize::from(added)) as u32;
    }
    Waiting {
        stream: stream.number,
        timestamp: stream.timestamp.wrapping_add(first.timestamp as u32),
        timestamp_step: (step as u32) << 16,
        packets: packets.len() as u32,
        packet_size: (HEADER_LENGTH + size) as u16,
        length,
        marker: if first.marker { Marker::Each } else { Marker::None },
        padding,
        start: false,
        is_sound: true,
        pieces,
    }
}
