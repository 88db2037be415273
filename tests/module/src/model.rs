//! Model of SEND, from the header's prose: the packets, the answer, and the returned state.

use std::ops::Range;

use rustix::io::Errno;

use crate::call::{Call, Header, PACKET_MAX, given_headers};
use crate::rtp::Rtp;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Most bytes of a train that a device cuts: with headers of Ethernet, IPv6 and UDP below its usual
/// `gso_max_size` of 65,536.
const TRAIN_MAX: u64 = 65_535 - 14 - 40 - 8;

/// Kind and place of a source's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file: what there is of the last packet is sent, and the answer is ENODATA.
    File(u64),
    /// Memory, behind which there is none: no packet that is not whole, and the answer is EFAULT.
    Memory(u64),
}

/// A packet: its header, and where its payload comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// In front.
    pub header: Vec<u8>,
    /// Of the source.
    pub payload: Range<u64>,
}

/// Outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Packets that arrive, in this order.
    pub packets: Vec<Packet>,
    /// The call's answer.
    pub answer: Result<(), Errno>,
}

/// The engine's state after a call: what changes of the structure but `last_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpAfter {
    /// Of the next packet.
    pub sequence: u16,
    /// Of the next packet; with a table, of the last one sent.
    pub timestamp: u32,
    /// Packets of the current group that were sent.
    pub position: u32,
    /// Groups that are done.
    pub groups: usize,
    /// Of the last packet; nothing if there was none.
    pub last_timestamp: Option<u32>,
    /// In all.
    pub packets: u64,
    /// In all.
    pub octets: u64,
}

impl Packet {
    /// Header and payload.
    pub fn length(&self) -> u64 {
        self.header.len() as u64 + self.payload.end - self.payload.start
    }
}

impl Outcome {
    /// Outcome of `call` on a source.
    pub fn of(call: &Call, source: Source) -> Outcome {
        let given = match call.header {
            Header::Given(each) => given_headers(each, call.packets_max(source.end())),
            _ => Vec::new(),
        };
        let mut outcome = Outcome { packets: Vec::new(), answer: Ok(()) };
        if call.packet_asked() > PACKET_MAX {
            outcome.answer = Err(Errno::MSGSIZE);
            return outcome;
        }
        let mut position = call.offset;
        let end = call.length.map(|length| call.offset + length);
        let skip = u64::from(call.skip_bytes);
        while end.is_none_or(|end| position + skip < end) {
            match packet(call, source, &given, outcome.packets.len(), position) {
                Ok(packet) => {
                    position = packet.payload.end;
                    outcome.packets.push(packet);
                }
                // The end that was asked for.
                Err(Errno::NODATA) if end.is_none() && position + skip >= source.end() => break,
                Err(answer) => {
                    outcome.answer = Err(answer);
                    break;
                }
            }
        }
        outcome
    }

    /// Bytes of the source that are done with.
    pub fn passed(&self, call: &Call) -> u64 {
        self.packets.last().map_or(0, |packet| packet.payload.end - call.offset)
    }

    /// Payload of all packets.
    pub fn payload(&self) -> u64 {
        self.packets.iter().map(|packet| packet.payload.end - packet.payload.start).sum()
    }

    /// Number of trains if nothing but their sizes limits them: of one size, the last may be shorter.
    pub fn trains(&self, most: u32) -> u64 {
        let mut trains = 0;
        let (mut first, mut last, mut count) = (0, 0, u32::MAX);
        for packet in &self.packets {
            let length = packet.length();
            if count >= most.max(1) || last < first || length > first {
                (trains, first, count) = (trains + 1, length, 0);
            }
            (last, count) = (length, count + 1);
        }
        trains
    }

    /// Upper bound of the number of trains of a device without limits of its own, if a packet takes a fragment
    /// for its header and one for each page of its payload, and a train as many as a socket buffer has. `start`
    /// is the position of the source's first byte: its address in memory, 0 of a file.
    pub fn trains_at_most(&self, most: u32, fragments_max: u32, start: u64) -> u64 {
        let mut trains = 0;
        let (mut first, mut last, mut count, mut bytes, mut fragments) = (0, 0, u32::MAX, 0, 0);
        for packet in &self.packets {
            let length = packet.length();
            let pages = (start + packet.payload.end - 1) / PAGE - (start + packet.payload.start) / PAGE + 1;
            let taken = pages + u64::from(!packet.header.is_empty());
            let is_full = bytes + length > TRAIN_MAX || fragments + taken > fragments_max.into();
            if count >= most.max(1) || last < first || length > first || is_full {
                (trains, first, count, bytes, fragments) = (trains + 1, length, 0, 0, 0);
            }
            (last, count, bytes, fragments) = (length, count + 1, bytes + length, fragments + taken);
        }
        trains
    }

    /// The engine's state that comes back.
    pub fn rtp(&self, call: &Call, rtp: &Rtp) -> RtpAfter {
        let sent = self.packets.len() as u64;
        let place = |index| rtp.place(index, call.packet_bytes.into());
        let last = sent.checked_sub(1).and_then(place);
        let structure = rtp.structure(0);
        let (groups, position) = match (last, place(sent)) {
            (_, Some(next)) => (next.group, next.position),
            (Some(last), None) => (last.group + 1, 0),
            (None, None) => (0, rtp.position),
        };
        let timestamp = match rtp.timestamps {
            crate::rtp::Timestamps::Step(..) => place(sent).map(|place| place.timestamp),
            crate::rtp::Timestamps::Table(_) => last.map(|place| place.timestamp),
        };
        RtpAfter {
            sequence: rtp.sequence.wrapping_add(sent as u16),
            timestamp: timestamp.unwrap_or(structure.timestamp),
            position,
            groups,
            last_timestamp: last.map(|place| place.timestamp),
            packets: rtp.packets + sent,
            octets: rtp.octets + self.payload(),
        }
    }
}

impl Source {
    /// Offset of its end.
    pub fn end(self) -> u64 {
        match self {
            Source::File(end) | Source::Memory(end) => end,
        }
    }
}

/// The packet of number `index`, which begins at `position` with what is passed over.
fn packet(call: &Call, source: Source, given: &[u8], index: usize, position: u64) -> Result<Packet, Errno> {
    let place = match &call.header {
        Header::Rtp(rtp) => Some(rtp.place(index as u64, call.packet_bytes.into()).ok_or(Errno::NODATA)?),
        _ => None,
    };
    let said = place.and_then(|place| place.bytes);
    let position = position + u64::from(call.skip_bytes);
    let left = call.length.map(|length| call.offset + length - position);
    let full = if call.packet_bytes == 0 { left } else { Some(call.packet_bytes.into()) };
    let wanted = [said, full, left].into_iter().flatten().min().ok_or(Errno::INVAL)?;
    let there = source.end().saturating_sub(position);
    let payload = match source {
        _ if there >= wanted => wanted,
        Source::File(_) if there > 0 => there,
        Source::File(_) => return Err(Errno::NODATA),
        Source::Memory(_) => return Err(Errno::FAULT),
    };
    let header = match (&call.header, place) {
        (Header::Given(each), _) => given[index * *each as usize..][..*each as usize].to_vec(),
        (Header::Rtp(rtp), Some(place)) => rtp.header(index as u64, place),
        _ => Vec::new(),
    };
    Ok(Packet { header, payload: position..position + payload })
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
