//! RTP headers (RFC 3550 section 5.1). This project writes twelve bytes: no extension, no CSRC.

/// Length of the header in bytes.
pub const HEADER_LENGTH: usize = 12;

/// Payload type of MPEG-2 transport streams (RFC 3551 table 5, RFC 2250 section 2).
pub const PAYLOAD_TYPE_MP2T: u8 = 33;

/// Clock rate of payload type 33 in Hz (RFC 2250 section 2).
pub const CLOCK_HZ: u32 = 90_000;

/// The fields of a header that change from packet to packet, and the two that identify its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Set where the timestamp says nothing about the one before it (RFC 2250 section 2).
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
    /// Reads the first twelve bytes of a packet; `None` where it is shorter, or not of version 2.
    #[inline]
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let bytes = packet.first_chunk::<HEADER_LENGTH>()?;
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        (bytes[0] >> 6 == 2).then(|| Self {
            marker: bytes[1] & 0x80 != 0,
            payload_type: bytes[1] & 0x7f,
            sequence: u16::from_be_bytes([bytes[2], bytes[3]]),
            timestamp: word(4),
            ssrc: word(8),
        })
    }

    /// The header as it goes on the wire.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_LENGTH] {
        let mut bytes = [0; HEADER_LENGTH];
        bytes[0] = 2 << 6;
        bytes[1] = u8::from(self.marker) << 7 | self.payload_type & 0x7f;
        bytes[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.ssrc.to_be_bytes());
        bytes
    }
}

/// Packets of a run that carry the marker. The numbers are those in wire images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marker {
    /// None.
    #[default]
    None = 0,
    /// The first: the timestamp says nothing about the one before it (RFC 2250 section 2).
    First = 1,
    /// The last: an access unit ends with it (RFC 6184 section 5.1).
    Last = 2,
    /// Each: every packet ends with a whole frame (RFC 3640 section 3.1).
    Each = 3,
}

/// The headers of a run of consecutive packets: sequence numbers go up by one, timestamps by a fixed step.
///
/// One rule for the packer, which writes these headers into an image, and for a session that makes headers of
/// its own from the same run: both get the same timestamps without storing one per packet.
/// ```
/// use wirepath_media::rtp::{Header, PAYLOAD_TYPE_MP2T, Run};
///
/// let first = Header {
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
    /// The first packet's header. Its marker is that of `marker`.
    pub first: Header,
    /// Step from one packet's timestamp to the next, in 1/65536 of the payload's clock.
    pub step: u32,
    /// Packets that carry the marker.
    pub marker: Marker,
    /// Index of the packet that is the last for [`Marker::Last`].
    pub last: u8,
    /// Number of the stream in its source, counted from 0. It is not sent.
    pub stream: u8,
    /// True if its packets are shorter than those that sockets cut trains into: such a packet leaves alone.
    pub short: bool,
}

impl Run {
    /// A run of stream 0, of which only the first packet carries the marker of `first`.
    pub const fn new(first: Header, step: u32) -> Self {
        let marker = if first.marker { Marker::First } else { Marker::None };
        Self { first, step, marker, last: 0, stream: 0, short: false }
    }

    /// Header of packet `index`, counted from 0.
    #[inline]
    pub fn header(&self, index: u32) -> Header {
        let ticks = (u64::from(index) * u64::from(self.step)) >> 16;
        Header {
            marker: self.is_marked(index),
            sequence: self.first.sequence.wrapping_add(index as u16),
            timestamp: self.first.timestamp.wrapping_add(ticks as u32),
            ..self.first
        }
    }

    /// Returns whether packet `index` carries the marker.
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
            marker: bool, payload_type in 0u8..128, sequence: u16, timestamp: u32, ssrc: u32,
        ) {
            let header = Header { marker, payload_type, sequence, timestamp, ssrc };
            let bytes = header.to_bytes();
            prop_assert_eq!(Header::parse(&bytes), Some(header));
            prop_assert_eq!(Header::parse(&bytes[..11]), None);
            let read = rtp_types::RtpPacket::parse(&bytes).expect("twelve bytes are a packet without payload");
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
        let first = Header { marker: true, payload_type: 33, sequence: 65_535, timestamp: u32::MAX, ssrc: 7 };
        let run = Run::new(first, (3 << 16) / 2);
        assert_eq!(run.header(0), first);
        let second = run.header(1);
        assert_eq!((second.marker, second.sequence, second.timestamp), (false, 0, 0));
        assert_eq!(run.header(2).timestamp, 2);
    }

    #[test]
    fn markers_are_where_the_run_says() {
        let first = Header { marker: false, payload_type: 96, sequence: 7, timestamp: 0, ssrc: 7 };
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
