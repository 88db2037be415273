//! Trains: consecutive packets of one size, stored back to back.

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
    /// Length in the file of every packet except the last, in bytes, including a stored header.
    pub packet_size: u16,
    /// Payload bytes of the first packet that are not sent, for a start inside a packet; the train then has
    /// only this packet.
    pub skip: u16,
    /// Index of the first packet in `run`.
    pub first: u32,
    /// Number of packets in the file before the first one, of all streams: its place in a [copy with
    /// framing](crate::MappedFile::copy_framed). 0 for a file of which there is none.
    pub packets_before: u32,
    /// The headers as they are stored.
    pub run: Run,
}

/// Trains of a file that are stored one after another.
#[derive(Clone, Copy, Debug)]
pub struct StoredTrains<'a> {
    /// The file.
    pub file: &'a MappedFile,
    /// The trains.
    pub trains: &'a [Train],
    /// Source of their headers.
    pub headers: Headers,
}

/// Source of a train's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// Packets are sent as they are stored.
    Stored,
    /// Headers are per-session: stored numbers plus an offset.
    Own {
        /// Added to each stored sequence number, modulo 2^16.
        sequence_offset: u16,
        /// Added to each stored timestamp, modulo 2^32.
        timestamp_offset: u32,
        /// True if the first packet of this train carries the marker, whatever its stored header says.
        marker: bool,
        /// True if the file contains headers, which are skipped; false if it has payload only.
        stored: bool,
    },
    /// The file has payload only, as an asset does: a packet's bytes in it are its payload, and the train's
    /// headers are generated.
    Generated,
    /// Packets are sent without RTP headers: a plain transport stream in UDP.
    Omitted {
        /// True if the file contains headers, which are skipped; false if it has payload only.
        stored: bool,
    },
}

impl Headers {
    /// Bytes in front of each payload in the file.
    pub(crate) fn stored_length(self) -> usize {
        match self {
            Headers::Stored | Headers::Own { stored: true, .. } | Headers::Omitted { stored: true } => {
                HEADER_LENGTH
            }
            Headers::Generated | Headers::Own { stored: false, .. } | Headers::Omitted { stored: false } => 0,
        }
    }

    /// Returns whether packets have headers.
    #[inline]
    pub(crate) fn are_sent(self) -> bool {
        !matches!(self, Headers::Omitted { .. })
    }

    /// The same headers for trains behind the first one: only a first packet carries an added marker.
    pub(crate) fn behind(self) -> Headers {
        match self {
            Headers::Own { sequence_offset, timestamp_offset, stored, .. } => {
                Headers::Own { sequence_offset, timestamp_offset, marker: false, stored }
            }
            Headers::Stored | Headers::Generated | Headers::Omitted { .. } => self,
        }
    }

    /// The same headers for packets of this file, which may have payload only.
    #[inline]
    pub fn in_file(self, file: &MappedFile) -> Headers {
        if file.has_payload_only() { self.of_payload() } else { self }
    }

    /// The same headers for packets of a file with payload only.
    #[inline]
    fn of_payload(self) -> Headers {
        match self {
            Headers::Stored | Headers::Generated => Headers::Generated,
            Headers::Own { sequence_offset, timestamp_offset, marker, .. } => {
                Headers::Own { sequence_offset, timestamp_offset, marker, stored: false }
            }
            Headers::Omitted { .. } => Headers::Omitted { stored: false },
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
            packets_before: self.packets_before.wrapping_add(packets),
            skip: 0,
            ..*self
        })
    }

    /// The train's first `packets` only (all if it has fewer).
    pub fn up_to(&self, packets: u32) -> Train {
        Train { length: self.length.min(packets.saturating_mul(self.packet_size.into())), ..*self }
    }

    /// Returns whether `behind` is stored after this train and belongs to the same stream, so that one call
    /// can send both: all packets have one size, but for a shorter last one.
    pub(crate) fn is_before(&self, behind: &Train) -> bool {
        let is_shorter = || behind.packets() == 1 && behind.length < self.packet_size.into();
        behind.offset == self.offset + u64::from(self.length)
            && (behind.packet_size == self.packet_size || is_shorter())
            && self.length.is_multiple_of(self.packet_size.into())
            && (self.skip, behind.skip) == (0, 0)
            && self.run.stream == behind.run.stream
    }

    /// Bytes of padding in the packets. Of a part of a train, it is the part's share.
    pub fn padding(&self) -> u32 {
        let packets = u32::from(self.run.last) + 1;
        (u32::from(self.run.padding) * self.packets().min(packets)).div_ceil(packets)
    }

    /// Size of packets except the last as they are sent, with headers.
    #[inline]
    pub(crate) fn sent_packet_size(&self, headers: Headers) -> u16 {
        let header = if headers.are_sent() { HEADER_LENGTH as u16 } else { 0 };
        self.packet_size.saturating_sub(headers.stored_length() as u16).saturating_add(header)
    }

    /// Returns whether packet `index` is sent with the header that is stored in front of it.
    #[inline]
    pub(crate) fn is_as_stored(&self, index: u32, headers: Headers) -> bool {
        headers == Headers::Stored && (self.skip == 0 || index > 0)
    }

    /// Extent of packet `index` with its stored header.
    #[inline]
    pub(crate) fn stored_packet(&self, index: u32) -> Extent {
        let start = index * u32::from(self.packet_size);
        let length = (self.length - start).min(self.packet_size.into());
        Extent { offset: self.offset + u64::from(start), length: length as usize }
    }

    /// Bytes that are sent, including RTP headers.
    pub(crate) fn sent_length(&self, headers: Headers) -> u32 {
        let header = if headers.are_sent() { HEADER_LENGTH as u32 } else { 0 };
        self.payload_length(headers) + self.packets() * header
    }

    /// Delay of the packet `packets` after the first, in microseconds.
    pub fn delay_us(&self, packets: u32) -> u64 {
        if self.run.together {
            return 0;
        }
        let ticks = (u64::from(packets) * u64::from(self.run.step)) >> 16;
        ticks * 1_000_000 / u64::from(CLOCK_HZ)
    }

    /// Number of packets that leave within `us` of the first one, including the first.
    pub fn packets_within(&self, us: u64) -> u32 {
        if self.run.together {
            return self.packets();
        }
        // No train is a minute long; the bound keeps the product below 2^64.
        let ticks = us.min(60_000_000) * u64::from(CLOCK_HZ) / 1_000_000;
        let packets = (ticks << 16).checked_div(u64::from(self.run.step)).unwrap_or(u64::MAX);
        u32::try_from(packets.saturating_add(1)).unwrap_or(u32::MAX).min(self.packets())
    }

    /// Each packet as a generated header, unless it is stored or omitted, and its payload in a mapping.
    #[inline]
    pub(crate) fn datagrams(self, headers: Headers) -> impl Iterator<Item = Datagram> {
        (0..self.packets()).map(move |index| self.datagram(index, headers))
    }

    /// Packet `index` as a generated header, unless it is stored or omitted, and its payload in a mapping.
    #[inline]
    pub(crate) fn datagram(&self, index: u32, headers: Headers) -> Datagram {
        if self.is_as_stored(index, headers) {
            return Datagram { header: None, payload: self.stored_packet(index).in_memory() };
        }
        let payload = self.payload(index, headers).in_memory();
        Datagram { header: headers.are_sent().then(|| self.header(index, headers)), payload }
    }

    /// Generated header of packet `index` of this train under `headers`. Of joined trains, only the stored
    /// headers are right for [`Headers::Stored`].
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

    /// Offset of packet `index`'s payload, without the skip.
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

    /// Stored, moved and made headers.
    pub(crate) const HEADERS: [Headers; 3] = [
        Headers::Stored,
        Headers::Own { sequence_offset: 3, timestamp_offset: 5, marker: true, stored: true },
        Headers::Generated,
    ];

    pub(crate) fn example(length: u32) -> Train {
        let first = Header {
            padding: false,
            marker: false,
            payload_type: 33,
            sequence: 65_534,
            timestamp: 1000,
            ssrc: 0x1234_5678,
        };
        let run = Run::new(first, 90 << 16);
        Train { offset: 0, length, packet_size: 28, skip: 0, first: 0, packets_before: 0, run }
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
    fn packets_without_headers_are_payload_alone() {
        let (train, omitted) = (example(56), Headers::Omitted { stored: true });
        let datagram = train.datagram(1, omitted);
        assert_eq!((datagram.header, datagram.payload), (None, 28 + 12..56));
        assert_eq!((train.payload_length(omitted), train.sent_length(omitted)), (32, 32));
        let of_payload = train.datagram(1, omitted.of_payload());
        assert_eq!((of_payload.header, of_payload.payload), (None, 28..56));
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
    fn packets_of_a_movie_depart_together() {
        let mut train = example(4 * 28);
        train.run.together = true;
        assert_eq!((train.delay_us(3), train.packets_within(0)), (0, 4));
        assert_eq!(train.run.header(1).timestamp, 1090);
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
