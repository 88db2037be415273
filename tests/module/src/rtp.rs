//! The RTP engine: what each packet's header must be, counted from the beginning of the run for each packet
//! anew.

use wirepath_sys::module::layout;

use crate::random::Random;

/// A state of the engine before a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Rtp {
    /// As in the structure.
    pub ssrc: u32,
    /// As in the structure.
    pub sequence: u16,
    /// As in the structure.
    pub payload_type: u8,
    /// As in the structure.
    pub marker: u8,
    /// Packets of the first group that were sent.
    pub position: u32,
    /// Packets that were sent before.
    pub packets: u64,
    /// Bytes that were sent before.
    pub octets: u64,
    /// Of the packets.
    pub timestamps: Timestamps,
}

/// Timestamps of the packets.
#[derive(Clone, Debug, PartialEq)]
pub enum Timestamps {
    /// The first; what is added; after how many packets (0 means 1).
    Step(u32, u32, u32),
    /// Groups: timestamp, packets, bytes.
    Table(Vec<(u32, u32, u32)>),
}

/// Position of a packet among those of its timestamp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// The packet's timestamp.
    pub timestamp: u32,
    /// Groups before this one.
    pub group: usize,
    /// Packets of the group before this one.
    pub position: u32,
    /// True if the group has no more.
    pub is_last: bool,
    /// Payload of the packet, if the group says it.
    pub bytes: Option<u64>,
}

impl Rtp {
    /// An engine that begins, of which each packet has a timestamp of its own.
    pub fn stepped() -> Rtp {
        Rtp {
            ssrc: 0x1234_5678,
            sequence: 0,
            payload_type: 33,
            marker: layout::MARKER_NEVER,
            position: 0,
            packets: 0,
            octets: 0,
            timestamps: Timestamps::Step(5, 90, 1),
        }
    }

    /// Position of packet `index` of the run; none if the table has ended before.
    pub fn place(&self, index: u64, packet_bytes: u64) -> Option<Place> {
        let at = index + u64::from(self.position);
        match &self.timestamps {
            Timestamps::Step(first, ticks, packets) => {
                let each = u64::from((*packets).max(1));
                let (group, position) = (at / each, (at % each) as u32);
                let timestamp = first.wrapping_add((group as u32).wrapping_mul(*ticks));
                let is_last = u64::from(position) + 1 == each;
                Some(Place { timestamp, group: group as usize, position, is_last, bytes: None })
            }
            Timestamps::Table(groups) => {
                let mut at = at;
                for (group, (timestamp, packets, bytes)) in groups.iter().enumerate() {
                    if at < u64::from(*packets) {
                        let is_last = at + 1 == u64::from(*packets);
                        let rest = || u64::from(*bytes) - at * packet_bytes;
                        let bytes = (*bytes != 0).then(|| if is_last { rest() } else { packet_bytes });
                        let (timestamp, position) = (*timestamp, at as u32);
                        return Some(Place { timestamp, group, position, is_last, bytes });
                    }
                    at -= u64::from(*packets);
                }
                None
            }
        }
    }

    /// The header of packet `index`.
    pub fn header(&self, index: u64, place: Place) -> Vec<u8> {
        let is_marked = match self.marker {
            layout::MARKER_NEVER => false,
            layout::MARKER_ALWAYS => true,
            layout::MARKER_LAST_OF_GROUP => place.is_last,
            layout::MARKER_FIRST => self.packets + index == 0,
            other => panic!("no packet has marker {other}"),
        };
        let mut header = vec![0x80, self.payload_type | u8::from(is_marked) << 7];
        header.extend(self.sequence.wrapping_add(index as u16).to_be_bytes());
        header.extend(place.timestamp.to_be_bytes());
        header.extend(self.ssrc.to_be_bytes());
        header
    }

    /// The structure, with the address of its table.
    pub fn structure(&self, table: u64) -> layout::Rtp {
        let common = layout::Rtp {
            size: size_of::<layout::Rtp>() as u32,
            ssrc: self.ssrc,
            sequence: self.sequence,
            payload_type: self.payload_type,
            marker: self.marker,
            position: self.position,
            packets: self.packets,
            octets: self.octets,
            ..layout::Rtp::default()
        };
        match &self.timestamps {
            Timestamps::Step(timestamp, timestamp_step, step_packets) => layout::Rtp {
                timestamp: *timestamp,
                timestamp_step: *timestamp_step,
                step_packets: *step_packets,
                ..common
            },
            Timestamps::Table(groups) => layout::Rtp { table, table_count: groups.len() as u32, ..common },
        }
    }

    /// The table, if there is one.
    pub fn table(&self) -> Vec<layout::RtpTime> {
        let time = |&(timestamp, packets, bytes): &(u32, u32, u32)| layout::RtpTime {
            timestamp,
            packets,
            bytes,
            reserved: 0,
        };
        match &self.timestamps {
            Timestamps::Step(..) => Vec::new(),
            Timestamps::Table(groups) => groups.iter().map(time).collect(),
        }
    }

    /// A state; its table still has to [`Rtp::fit`].
    pub fn random(random: &mut Random) -> Rtp {
        let step = |random: &mut Random| (random.one(&[0, 1, 3003, 3600, u32::MAX]), random.below(9) as u32);
        let timestamps = if random.once_in(2) {
            let (ticks, packets) = step(random);
            Timestamps::Step(random.number() as u32, ticks, packets)
        } else {
            Timestamps::Table(Vec::new())
        };
        let position = match &timestamps {
            Timestamps::Step(_, _, packets) => random.below((*packets).max(1).into()) as u32,
            Timestamps::Table(_) => 0,
        };
        Rtp {
            ssrc: random.number() as u32,
            sequence: random.one(&[0, 1, 0x7fff, 0xfff0, 0xffff]),
            payload_type: random.one(&[0, 33, 96, 127]),
            marker: random.below(4) as u8,
            position,
            packets: random.below(2) * random.below(1000),
            octets: random.below(1 << 40),
            timestamps,
        }
    }

    /// Gives the table groups for payload of `length` in packets of `packet_bytes` (0: one); it may end
    /// before, or after.
    pub fn fit(&mut self, random: &mut Random, packet_bytes: u32, length: u64) {
        let Timestamps::Table(groups) = &mut self.timestamps else { return };
        let length = length.max(1);
        let mut rest = length + random.below(3) * random.below(length / 2 + 1);
        if random.once_in(5) {
            rest = 1 + random.below(length);
        }
        while rest > 0 && groups.len() < 200 {
            let packets = if packet_bytes == 0 { 1 } else { 1 + random.below(9) as u32 };
            let full = match packet_bytes {
                0 => length,
                bytes => u64::from(bytes) * u64::from(packets),
            };
            // The last packet has at least a byte.
            let least = if packet_bytes == 0 { length } else { full - u64::from(packet_bytes) + 1 };
            let bytes = if random.once_in(3) { 0 } else { least + random.below(full - least + 1) };
            groups.push((random.number() as u32, packets, bytes as u32));
            rest = rest.saturating_sub(full);
        }
        if packet_bytes != 0 && random.once_in(3) {
            self.position = random.below(groups[0].1.into()) as u32;
        }
    }
}
