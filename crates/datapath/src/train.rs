//! Trains: consecutive packets of one size, stored back to back.

use wirepath_media::image::{MAX_TRAIN_BYTES, MAX_TRAIN_PACKETS};
use wirepath_media::rtp::{CLOCK_HZ, HEADER_LENGTH, Header, Run};
use wirepath_sys::gather::Datagram;

use crate::{Extent, MappedFile};

/// Consecutive packets of one size (the last may be shorter), stored back to back in a [`crate::MappedFile`]:
/// each an RTP header and its payload, or ([`Headers::Generated`]) payload only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    /// Start of the first packet, in bytes from the start of the file.
    pub offset: u64,
    /// Length of all packets together in bytes.
    pub length: u32,
    /// Length in the file of every packet but the last, in bytes; a stored header is counted.
    pub packet_size: u16,
    /// Payload bytes of the first packet that are not sent: a start inside a packet, the only one then.
    pub skip: u16,
    /// Place of the first packet in `run`.
    pub first: u32,
    /// The headers as they are stored.
    pub run: Run,
}

/// Source of a train's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// They are sent as they are stored.
    Stored,
    /// They are the session's own: stored numbers plus an offset.
    Own {
        /// Added to each stored sequence number, modulo 2^16.
        sequence_offset: u16,
        /// Added to each stored timestamp, modulo 2^32.
        timestamp_offset: u32,
        /// True if the first packet of this train carries the marker, whatever its stored header says.
        marker: bool,
        /// True if the file has the headers too, which are passed over; false if it has payload only.
        stored: bool,
    },
    /// The file has payload only, as an asset does: a packet's bytes there are its payload, and the train's
    /// headers are generated in front of them.
    Generated,
}

impl Headers {
    /// Bytes in front of each payload in the file.
    pub(crate) fn stored_length(self) -> usize {
        match self {
            Headers::Stored | Headers::Own { stored: true, .. } => HEADER_LENGTH,
            Headers::Generated | Headers::Own { stored: false, .. } => 0,
        }
    }

    /// The same numbers for packets of this file, which may have payload only.
    #[inline]
    pub fn in_file(self, file: &MappedFile) -> Headers {
        if file.has_payload_only() { self.of_payload() } else { self }
    }

    /// The same numbers for packets of a file with payload only.
    #[inline]
    fn of_payload(self) -> Headers {
        match self {
            Headers::Stored | Headers::Generated => Headers::Generated,
            Headers::Own { sequence_offset, timestamp_offset, marker, .. } => {
                Headers::Own { sequence_offset, timestamp_offset, marker, stored: false }
            }
        }
    }
}

impl Train {
    /// Number of packets.
    pub fn packets(&self) -> u32 {
        self.length.div_ceil(u32::from(self.packet_size))
    }

    /// Place of all of it in the file.
    pub(crate) fn extent(&self) -> Extent {
        Extent { offset: self.offset, length: self.length as usize }
    }

    /// Payload bytes that will be sent.
    pub fn payload_length(&self, headers: Headers) -> u32 {
        self.length - self.packets() * headers.stored_length() as u32 - u32::from(self.skip)
    }

    /// The train without its first `packets`; nothing if none are left.
    pub fn after(&self, packets: u32) -> Option<Train> {
        if packets == 0 {
            return Some(*self);
        }
        let cut = packets.checked_mul(self.packet_size.into()).filter(|cut| *cut < self.length)?;
        Some(Train {
            offset: self.offset + u64::from(cut),
            length: self.length - cut,
            first: self.first + packets,
            skip: 0,
            ..*self
        })
    }

    /// The train's first `packets` only (all if it has fewer).
    pub fn up_to(&self, packets: u32) -> Train {
        Train { length: self.length.min(packets.saturating_mul(self.packet_size.into())), ..*self }
    }

    /// This train and the one that is stored behind it, as one; none if a call cannot send both.
    ///
    /// The timestamps of the second go on by the step of the first. Where headers are not stored, so that they
    /// are made from that step, trains are joined only if no timestamp moves by more than a millisecond.
    pub fn join(&self, behind: &Train, headers: Headers) -> Option<Train> {
        let follows = behind.offset == self.offset + u64::from(self.length)
            && behind.packet_size == self.packet_size
            && self.length.is_multiple_of(self.packet_size.into())
            && (self.skip, behind.skip) == (0, 0);
        let joined = Train { length: self.length + behind.length, ..*self };
        let has_room =
            joined.packets() <= MAX_TRAIN_PACKETS && joined.sent_length(headers) <= MAX_TRAIN_BYTES;
        let has_times = headers == Headers::Stored || joined.times_fit(behind);
        (follows && has_room && has_times).then_some(joined)
    }

    /// Returns whether this train's run has the headers of a train that was joined to its end.
    fn times_fit(&self, end: &Train) -> bool {
        const MOST_TICKS: i32 = CLOCK_HZ as i32 / 1000;
        let first = self.packets() - end.packets();
        [0, end.packets() - 1].into_iter().all(|index| {
            let (here, there) =
                (self.run.header(self.first + first + index), end.run.header(end.first + index));
            let moved = here.timestamp.wrapping_sub(there.timestamp) as i32;
            moved.unsigned_abs() <= MOST_TICKS.unsigned_abs() && !there.marker
        })
    }

    /// Bytes that are sent, headers of RTP included.
    fn sent_length(&self, headers: Headers) -> u32 {
        self.payload_length(headers) + self.packets() * HEADER_LENGTH as u32
    }

    /// Delay of the packet `packets` after the first, in microseconds.
    pub fn delay_us(&self, packets: u32) -> u64 {
        let ticks = (u64::from(packets) * u64::from(self.run.step)) >> 16;
        ticks * 1_000_000 / u64::from(CLOCK_HZ)
    }

    /// Number of packets that leave within `us` of the first one, which counts.
    pub fn packets_within(&self, us: u64) -> u32 {
        // No train is a minute long; the bound keeps the product below 2^64.
        let ticks = us.min(60_000_000) * u64::from(CLOCK_HZ) / 1_000_000;
        let packets = (ticks << 16).checked_div(u64::from(self.run.step)).unwrap_or(u64::MAX);
        u32::try_from(packets.saturating_add(1)).unwrap_or(u32::MAX).min(self.packets())
    }

    /// Each packet as a generated header and its payload in a mapping.
    #[inline]
    pub(crate) fn datagrams(self, headers: Headers) -> impl Iterator<Item = Datagram> {
        (0..self.packets()).map(move |index| self.datagram(index, headers))
    }

    /// Packet `index` as a generated header and its payload in a mapping.
    #[inline]
    pub(crate) fn datagram(&self, index: u32, headers: Headers) -> Datagram {
        let payload = self.payload(index, headers).in_memory();
        Datagram { header: Some(self.header(index, headers)), payload }
    }

    /// Header of packet `index` of this train under `headers`.
    #[inline]
    pub(crate) fn header(&self, index: u32, headers: Headers) -> [u8; HEADER_LENGTH] {
        self.header_fields(index, headers).to_bytes()
    }

    /// The same, as its fields.
    #[inline]
    pub(crate) fn header_fields(&self, index: u32, headers: Headers) -> Header {
        let mut header = self.run.header(self.first + index);
        if let Headers::Own { sequence_offset, timestamp_offset, marker, .. } = headers {
            header.sequence = header.sequence.wrapping_add(sequence_offset);
            header.timestamp = header.timestamp.wrapping_add(timestamp_offset);
            header.marker |= marker && index == 0;
        }
        header
    }

    /// Place of packet `index`'s payload, without the skip.
    #[inline]
    pub(crate) fn payload(&self, index: u32, headers: Headers) -> Extent {
        let start = index * u32::from(self.packet_size);
        let packet = (self.length - start).min(self.packet_size.into()) as usize;
        let skip = if index == 0 { usize::from(self.skip) } else { 0 };
        let before = headers.stored_length() + skip;
        Extent {
            offset: self.offset + u64::from(start) + before as u64,
            length: packet.saturating_sub(before),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn example(length: u32) -> Train {
        let first =
            Header { marker: false, payload_type: 33, sequence: 65_534, timestamp: 1000, ssrc: 0x1234_5678 };
        Train { offset: 0, length, packet_size: 28, skip: 0, first: 0, run: Run { first, step: 90 << 16 } }
    }

    #[test]
    fn what_is_left_keeps_its_headers() {
        let train = example(3 * 28 + 14);
        assert_eq!(train.packets(), 4);
        let rest = train.after(2).unwrap();
        assert_eq!((rest.offset, rest.packets()), (56, 2));
        assert_eq!(rest.header(0, Headers::Stored), train.header(2, Headers::Stored));
        assert_eq!(rest.payload(1, Headers::Stored), Extent { offset: 56 + 28 + 12, length: 2 });
        assert_eq!(train.after(4), None);
        assert_eq!(train.after(u32::MAX), None);
        assert_eq!(train.up_to(1).packets(), 1);
        assert_eq!(train.up_to(u32::MAX), train);
    }

    #[test]
    fn own_headers_are_the_stored_ones_moved() {
        let train = example(56);
        let own = Headers::Own { sequence_offset: 3, timestamp_offset: 5, marker: true, stored: true };
        let (first, second) = (train.header(0, own), train.header(1, own));
        assert_eq!(first[1], 0x80 | 33);
        assert_eq!(second[1], 33);
        assert_eq!(first[2..4], 1u16.to_be_bytes());
        assert_eq!(second[4..8], 1095u32.to_be_bytes());
    }

    #[test]
    fn packets_have_times() {
        let train = example(4 * 28); // a packet each millisecond
        assert_eq!(train.delay_us(3), 3000);
        let within = [0, 999, 1000, 2999, 3000, u64::MAX].map(|us| train.packets_within(us));
        assert_eq!(within, [1, 1, 2, 3, 4, 4]);
        let together = Train { run: Run { step: 0, ..train.run }, ..train };
        assert_eq!(together.packets_within(0), 4);
    }

    #[test]
    fn neighbours_join_while_a_call_can_send_them() {
        let first = example(4 * 28);
        let header = first.run.header(4);
        let behind = Train { offset: 112, run: Run { first: header, ..first.run }, ..first };
        let joined = first.join(&behind, Headers::Stored).unwrap();
        assert_eq!((joined.packets(), joined.length), (8, 224));
        assert_eq!(joined.header(5, Headers::Generated), behind.header(1, Headers::Generated));
        let generated = |behind: &Train| first.join(behind, Headers::Generated);
        assert!(generated(&behind).is_some());

        let moved = |ticks: u32| {
            let timestamp = header.timestamp + ticks;
            Train { run: Run { first: Header { timestamp, ..header }, ..behind.run }, ..behind }
        };
        assert!(generated(&moved(90)).is_some() && generated(&moved(91)).is_none());
        assert!(first.join(&moved(91), Headers::Stored).is_some(), "it has its timestamps");
        let marked = Header { marker: true, ..header };
        assert_eq!(generated(&Train { run: Run { first: marked, ..behind.run }, ..behind }), None);

        let stored = |behind: Train| first.join(&behind, Headers::Stored);
        assert_eq!(stored(Train { offset: 113, ..behind }), None, "a gap");
        assert_eq!(stored(Train { packet_size: 27, ..behind }), None, "another size");
        assert_eq!(stored(Train { skip: 1, ..behind }), None, "a start in a packet");
        assert!(stored(Train { length: 44 * 28, ..behind }).is_some());
        assert_eq!(stored(Train { length: 45 * 28, ..behind }), None, "more than 48 packets");
        let short = Train { length: 4 * 28 - 1, ..first };
        assert_eq!(
            short.join(&Train { offset: 111, ..behind }, Headers::Stored),
            None,
            "a short last packet"
        );
    }

    #[test]
    fn a_skip_shortens_the_first_payload() {
        let train = Train { skip: 10, ..example(28) };
        assert_eq!(train.payload(0, Headers::Stored), Extent { offset: 22, length: 6 });
        assert_eq!(train.payload_length(Headers::Stored), 6);
    }

    #[test]
    fn a_file_without_headers_is_all_payload() {
        let train = example(28 + 14);
        assert_eq!(train.payload(1, Headers::Generated), Extent { offset: 28, length: 14 });
        assert_eq!(train.payload_length(Headers::Generated), 42);
        assert_eq!(train.header(1, Headers::Generated), train.header(1, Headers::Stored));
        let own = Headers::Own { sequence_offset: 3, timestamp_offset: 5, marker: true, stored: true };
        assert_eq!(own.of_payload().stored_length(), 0);
        assert_eq!(train.header(0, own.of_payload()), train.header(0, own));
    }
}
