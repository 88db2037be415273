//! RTP headers (RFC 3550 section 5.1) of twelve bytes: without extension and CSRC.

/// Length of the header in bytes.
pub const HEADER_LENGTH: usize = 12;

/// Payload type of MPEG-2 transport streams (RFC 3551 table 5, RFC 2250 section 2).
pub const PAYLOAD_TYPE_MP2T: u8 = 33;

/// Clock rate of payload type 33 in Hz (RFC 2250 section 2).
pub const CLOCK_HZ: u32 = 90_000;

/// Padding bit in the first octet.
const PADDING: u8 = 0x20;

/// Most octets of padding in a packet: their number has one octet.
pub const MAX_PADDING: usize = 255;

/// Removes the padding from the payload of a packet, the octets after `header`. Returns `None` if its number
/// is 0 or greater than that of the octets.
///
/// ```
/// use wirepath_media::rtp::{Header, without_padding};
///
/// let header = Header { padding: true, marker: false, payload_type: 96, sequence: 1, timestamp: 2, ssrc: 3 };
/// assert_eq!(without_padding(&header, b"media\0\0\x03"), Some(&b"media"[..]));
/// assert_eq!(without_padding(&header, b"media\x07"), None);
/// assert_eq!(without_padding(&Header { padding: false, ..header }, b"media"), Some(&b"media"[..]));
/// ```
pub fn without_padding<'a>(header: &Header, payload: &'a [u8]) -> Option<&'a [u8]> {
    if !header.padding {
        return Some(payload);
    }
    let padding = usize::from(*payload.last()?);
    payload.len().checked_sub(padding).filter(|_| padding > 0).map(|length| &payload[..length])
}

/// Fields of an RTP header that change from packet to packet, with payload type and SSRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Padding bit: the packet ends with padding, whose last octet is the number of its octets (1 to 255).
    pub padding: bool,
    /// Marker bit. In MP2T: the timestamp is discontinuous (RFC 2250 section 2).
    pub marker: bool,
    /// Payload type, 0 to 127.
    pub payload_type: u8,
    /// Sequence number, modulo 2^16.
    pub sequence: u16,
    /// Timestamp in units of the payload's clock, modulo 2^32.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
}

impl Header {
    /// Reads the first twelve bytes of a packet; `None` if it is shorter or its version is not 2.
    #[inline]
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let bytes = packet.first_chunk::<HEADER_LENGTH>()?;
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        (bytes[0] >> 6 == 2).then(|| Self {
            padding: bytes[0] & PADDING != 0,
            marker: bytes[1] & 0x80 != 0,
            payload_type: bytes[1] & 0x7f,
            sequence: u16::from_be_bytes([bytes[2], bytes[3]]),
            timestamp: word(4),
            ssrc: word(8),
        })
    }

    /// Encodes the header.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_LENGTH] {
        let mut bytes = [0; HEADER_LENGTH];
        bytes[0] = 2 << 6 | if self.padding { PADDING } else { 0 };
        bytes[1] = u8::from(self.marker) << 7 | self.payload_type & 0x7f;
        bytes[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.ssrc.to_be_bytes());
        bytes
    }
}

/// Packets of a run that have the marker bit. The values are those in wire images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marker {
    /// No packet.
    #[default]
    None = 0,
    /// First packet: the timestamp is discontinuous (RFC 2250 section 2).
    First = 1,
    /// Last packet: it ends an access unit (RFC 6184 section 5.1).
    Last = 2,
    /// Each packet: it ends with a complete frame (RFC 3640 section 3.1).
    Each = 3,
}

/// Headers of a run of consecutive packets: sequence numbers increase by one, timestamps by a fixed step.
///
/// Both the packer, which writes these headers into an image, and sessions, which generate headers from the
/// same run, use this rule. They get the same timestamps, without storing a timestamp for each packet.
/// ```
/// use wirepath_media::rtp::{Header, PAYLOAD_TYPE_MP2T, Run};
///
/// let first = Header {
///     padding: false,
///     marker: true,
///     payload_type: PAYLOAD_TYPE_MP2T,
///     sequence: u16::MAX,
///     timestamp: 0,
///     ssrc: 7,
/// };
/// let run = Run::new(first, 90 << 16); // a packet each millisecond
/// let third = run.header(2);
/// assert_eq!((third.marker, third.sequence, third.timestamp), (false, 1, 180));
/// assert_eq!(third.to_bytes()[..2], [0x80, 33]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Header of the first packet. Its marker follows from `marker`.
    pub first: Header,
    /// Increase of the timestamp from packet to packet, in 1/65536 of a tick of the payload's clock.
    pub step: u32,
    /// Packets with the marker bit.
    pub marker: Marker,
    /// Index of the last packet, for [`Marker::Last`].
    pub last: u8,
    /// Number of the stream in its source, counted from 0. It is not sent.
    pub stream: u8,
    /// Bytes of padding in all packets together. If it is not 0, each packet has the padding bit.
    pub padding: u16,
    /// True if all packets depart with the first: their timestamps are not departure times.
    pub together: bool,
    /// True if the first packet begins a random access point. It is not sent.
    pub start: bool,
}

impl Run {
    /// Run of stream 0. Only its first packet can have the marker, if `first` has it.
    pub const fn new(first: Header, step: u32) -> Self {
        let marker = if first.marker { Marker::First } else { Marker::None };
        Self { first, step, marker, last: 0, stream: 0, padding: 0, together: false, start: false }
    }

    /// Header of packet `index`, counted from 0.
    #[inline]
    pub fn header(&self, index: u32) -> Header {
        let ticks = (u64::from(index) * u64::from(self.step)) >> 16;
        Header {
            padding: self.padding > 0,
            marker: self.is_marked(index),
            sequence: self.first.sequence.wrapping_add(index as u16),
            timestamp: self.first.timestamp.wrapping_add(ticks as u32),
            ..self.first
        }
    }

    /// Returns whether packet `index` has the marker bit.
    #[inline]
    pub fn is_marked(&self, index: u32) -> bool {
        match self.marker {
            Marker::None => false,
            Marker::First => index == 0,
            Marker::Last => index == u32::from(self.last),
            Marker::Each => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_independent_reader_reads_what_is_written(
            padding: bool, marker: bool, payload_type in 0u8..128, sequence: u16, timestamp: u32, ssrc: u32,
        ) {
            let header = Header { padding, marker, payload_type, sequence, timestamp, ssrc };
            let bytes = header.to_bytes();
            prop_assert_eq!(Header::parse(&bytes), Some(header));
            prop_assert_eq!(Header::parse(&bytes[..11]), None);
            let packet = [&bytes[..], &[7; 9], &[0, 2]].concat();
            let read = rtp_types::RtpPacket::parse(&packet).expect("a packet");
            prop_assert_eq!(read.padding_bit(), padding);
            prop_assert_eq!(Some(read.payload()), without_padding(&header, &packet[HEADER_LENGTH..]));
            prop_assert_eq!(read.version(), 2);
            prop_assert_eq!(read.marker_bit(), marker);
            prop_assert_eq!(read.payload_type(), payload_type);
            prop_assert_eq!(read.sequence_number(), sequence);
            prop_assert_eq!(read.timestamp(), timestamp);
            prop_assert_eq!(read.ssrc(), ssrc);
        }
    }

    #[test]
    fn a_run_steps_and_wraps() {
        let first = Header {
            padding: false,
            marker: true,
            payload_type: 33,
            sequence: 65_535,
            timestamp: u32::MAX,
            ssrc: 7,
        };
        let run = Run::new(first, (3 << 16) / 2);
        assert_eq!(run.header(0), first);
        let second = run.header(1);
        assert_eq!((second.marker, second.sequence, second.timestamp), (false, 0, 0));
        assert_eq!(run.header(2).timestamp, 2);
    }

    #[test]
    fn markers_are_where_the_run_says() {
        let first =
            Header { padding: false, marker: false, payload_type: 96, sequence: 7, timestamp: 0, ssrc: 7 };
        let marked = |marker| {
            let run = Run { marker, last: 2, ..Run::new(first, 0) };
            [0, 1, 2].map(|index| run.header(index).marker)
        };
        assert_eq!(marked(Marker::None), [false; 3]);
        assert_eq!(marked(Marker::First), [true, false, false]);
        assert_eq!(marked(Marker::Last), [false, false, true]);
        assert_eq!(marked(Marker::Each), [true; 3]);
    }
}
