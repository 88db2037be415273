//! Framing: the ends of records in a stream of bytes. The KStreams paper's polling size (section 3.1), "a
//! single integer", or "a callback function (one per link) that checks the incoming data and calculates its
//! size".

mod splitter;

use wirepath_media::ts::PACKET_LENGTH;

pub(crate) use splitter::Splitter;

/// Division of an input into records.
pub enum Framing {
    /// None: a byte stream is one record; each datagram is one.
    Whole,
    /// Records of this many bytes (at least 1); the last may be shorter.
    Fixed(usize),
    /// Records whose length is computed from their bytes.
    With {
        /// Bytes of the longest record. A longer one is an error.
        limit: usize,
        /// Computes the length.
        measure: Box<Measure>,
    },
}

/// Computes the length of a record from its first bytes (at least one), and a flag that is true if nothing
/// more will come. Returns at least 1 and possibly more than there is; None if it needs more bytes.
///
/// # Errors
/// The bytes are invalid, which ends the stream.
pub type Measure = dyn FnMut(&[u8], bool) -> Result<Option<usize>, FramingError> + Send;

/// Error of a framing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// A record is longer than its limit.
    #[error("record of {bytes} bytes or more: at most {limit} are allowed")]
    TooLong {
        /// Its length, or the part of it that is known.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The input is not divided, and whole records are needed.
    #[error("input without framing is longer than {limit} bytes: set framing, for example ts or lines")]
    Undivided {
        /// Bytes of the longest record.
        limit: usize,
    },
    /// The input ended before the record did.
    #[error("the input ends within a record, after {bytes} of its bytes")]
    Cut {
        /// Bytes of the record that came.
        bytes: usize,
    },
    /// The bytes are invalid.
    #[error("{0}")]
    Wrong(String),
}

/// Most bytes of a record that is kept until all of it has come, where whole ones are needed.
pub(crate) const LONGEST: usize = 16 << 20;

impl Framing {
    /// Packets of an MPEG transport stream, each checked for its sync byte (ISO/IEC 13818-1).
    pub fn transport_stream() -> Framing {
        let measure = |bytes: &[u8], _| match bytes[0] {
            0x47 => Ok(Some(PACKET_LENGTH)),
            other => Err(FramingError::Wrong(format!(
                "a packet of a transport stream begins with 0x47, this one with {other:#04x}"
            ))),
        };
        Framing::With { limit: PACKET_LENGTH, measure: Box::new(measure) }
    }

    /// Packets behind their length in two bytes, most significant first, as RTP and RTCP have it over TCP
    /// (RFC 4571).
    pub fn rtp() -> Framing {
        Framing::length_prefixed(2, 2 + usize::from(u16::MAX))
    }

    /// Records behind their length in four bytes, most significant first, of at most `limit` bytes, length
    /// included.
    pub fn length32(limit: usize) -> Framing {
        Framing::length_prefixed(4, limit)
    }

    /// Lines, each with the line feed that ends it; the last may be without. At most `limit` bytes.
    pub fn lines(limit: usize) -> Framing {
        // Bytes that were searched are not searched again when more have come.
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
