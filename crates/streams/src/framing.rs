//! Framing: the ends of records in a stream of bytes. The KStreams paper's polling size (section 3.1), "a
//! single integer", or "a callback function (one per link) that checks the incoming data and calculates its
//! size".

mod splitter;

use wirepath_media::ts::PACKET_LENGTH;

pub(crate) use splitter::{Ahead, Splitter};

/// Division of an input into records.
pub enum Framing {
    /// No division: a byte stream is one record; each datagram is one record.
    Whole,
    /// Records of this many bytes (at least 1); the last record may be shorter.
    Fixed(usize),
    /// Records whose length is computed from their bytes.
    With {
        /// Bytes of the longest record. A longer record is an error.
        limit: usize,
        /// Computes the length.
        measure: Box<Measure>,
    },
}

/// Computes the length of a record from its first bytes (at least one); the flag is true if no more bytes
/// will come. Returns at least 1, possibly more than the bytes given; None if more bytes are needed. It may be
/// called again for the same record, with more or fewer bytes, until the record is taken: the answer must not depend
/// on earlier calls.
///
/// # Errors
/// The bytes are invalid. The error ends the stream.
pub type Measure = dyn FnMut(&[u8], bool) -> Result<Option<usize>, FramingError> + Send;

/// Error of a framing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// A record is longer than its limit.
    #[error("record of {bytes} bytes or more: at most {limit} are allowed")]
    TooLong {
        /// Bytes of the record, as far as known.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The input has no framing, but whole records are needed.
    #[error("input without framing is longer than {limit} bytes: set framing, for example ts or lines")]
    Undivided {
        /// Bytes of the longest record.
        limit: usize,
    },
    /// The input ended within a record.
    #[error("the input ends within a record, after {bytes} of its bytes")]
    Cut {
        /// Bytes of the record that arrived.
        bytes: usize,
    },
    /// The bytes are invalid.
    #[error("{0}")]
    Wrong(String),
}

/// Records, and parts of stripes, that are smaller than this are copied: many then leave in one call, which
/// costs less than two calls for each.
pub(crate) const LARGE: usize = 32 * 1024;

/// Longest record that is buffered until it is complete, where whole records are needed.
pub(crate) const LONGEST: usize = 16 << 20;

impl Framing {
    /// Packets of an MPEG transport stream; the sync byte of each is checked (ISO/IEC 13818-1).
    pub fn transport_stream() -> Framing {
        let measure = |bytes: &[u8], _| match bytes[0] {
            0x47 => Ok(Some(PACKET_LENGTH)),
            other => Err(FramingError::Wrong(format!(
                "a packet of a transport stream begins with 0x47, this one with {other:#04x}"
            ))),
        };
        Framing::With { limit: PACKET_LENGTH, measure: Box::new(measure) }
    }

    /// Packets with a two-byte big-endian length prefix, as in RTP and RTCP over TCP (RFC 4571).
    pub fn rtp() -> Framing {
        Framing::length_prefixed(2, 2 + usize::from(u16::MAX))
    }

    /// Records with a four-byte big-endian length prefix, of at most `limit` bytes, prefix included.
    pub fn length32(limit: usize) -> Framing {
        Framing::length_prefixed(4, limit)
    }

    /// Lines, each with its line feed; the last line may lack it. At most `limit` bytes each.
    pub fn lines(limit: usize) -> Framing {
        // Bytes that were searched are not searched again when more bytes arrive.
        let mut seen = 0;
        let measure = move |bytes: &[u8], is_end: bool| {
            let from = seen.min(bytes.len());
            let found = bytes[from..].iter().position(|byte| *byte == b'\n').map(|at| from + at + 1);
            let length = found.or(is_end.then_some(bytes.len()));
            seen = if length.is_some() { 0 } else { bytes.len() };
            Ok(length)
        };
        Framing::With { limit, measure: Box::new(measure) }
    }

    fn length_prefixed(prefix: usize, limit: usize) -> Framing {
        let measure = move |bytes: &[u8], _| {
            let length = bytes
                .get(..prefix)
                .map(|bytes| bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)));
            Ok(length.map(|length| prefix + length))
        };
        Framing::With { limit, measure: Box::new(measure) }
    }
}

#[cfg(test)]
mod tests;
