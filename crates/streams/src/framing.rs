//! Where records begin and end in a stream of bytes: the KStreams paper's polling size (section 3.1), "a
//! single integer", or "a callback function (one per link) that checks the incoming data and calculates its
//! size".

mod splitter;

pub(crate) use splitter::Splitter;

/// How an input is divided into records.
pub enum Framing {
    /// Not at all: a byte stream is one record; of datagrams each is one.
    Whole,
    /// Records of so many bytes (at least 1); the last may be shorter.
    Fixed(usize),
    /// Records whose length is found by looking at them.
    With {
        /// Bytes of the longest record. A longer one is an error.
        limit: usize,
        /// Finds the length.
        measure: Box<Measure>,
    },
}

/// Is given what there is of a record, at least one byte, and whether nothing more will come. Answers the
/// length of the record, at least 1 and possibly more than there is, or that it takes more bytes to know.
///
/// # Errors
/// What is wrong with the bytes; it ends the stream.
pub type Measure = dyn FnMut(&[u8], bool) -> Result<Option<usize>, FramingError> + Send;

/// What is wrong with the records of an input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// A record is longer than was allowed.
    #[error("a record of {bytes} bytes or more, where at most {limit} are allowed")]
    TooLong {
        /// How long it is, as far as is known.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The input is not divided, and whole records are needed.
    #[error(
        "without framing the input is one record, and longer than the {limit} bytes that are taken whole: divide it, into packets \
         or lines for instance"
    )]
    Undivided {
        /// Bytes of the longest record.
        limit: usize,
    },
    /// The input ended before the record did.
    #[error("the input ends within a record, after {bytes} of its bytes")]
    Cut {
        /// Bytes of the record that were there.
        bytes: usize,
    },
    /// The bytes are not what they should be.
    #[error("{0}")]
    Wrong(String),
}

/// Bytes of the longest record that is kept until all of it has come, where whole ones are needed.
pub(crate) const LONGEST: usize = 16 << 20;

/// Bytes of a packet of an MPEG transport stream (ISO/IEC 13818-1).
const TS_PACKET: usize = 188;

impl Framing {
    /// Packets of an MPEG transport stream, each checked for its sync byte (ISO/IEC 13818-1).
    pub fn transport_stream() -> Framing {
        let measure = |bytes: &[u8], _| match bytes[0] {
            0x47 => Ok(Some(TS_PACKET)),
            other => Err(FramingError::Wrong(format!(
                "a packet of a transport stream begins with 0x47, this one with {other:#04x}"
            ))),
        };
        Framing::With { limit: TS_PACKET, measure: Box::new(measure) }
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
        // What was looked at already is not looked at again when more has come.
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
