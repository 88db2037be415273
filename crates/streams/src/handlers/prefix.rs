//! Length prefixes, which delimit records in a stream of bytes for
//! [`Framing::length32`](crate::Framing::length32).

use bytes::Bytes;

use crate::handler::{Common, Frame, HandlerError, Reach, Select};
use crate::record::Piece;

/// Bytes of a length prefix.
const LENGTH: usize = 4;

/// Puts the length of each record in front of it: four bytes, big-endian. Nothing is copied.
#[derive(Debug)]
pub struct Prefix {
    limit: usize,
}

/// Removes length prefixes.
#[derive(Debug, Default)]
pub struct Unprefix {}

impl Prefix {
    /// A handler of records of at most `limit` bytes; a longer record is refused.
    pub fn new(limit: usize) -> Prefix {
        Prefix { limit: limit.min(u32::MAX as usize) }
    }
}

impl Common for Prefix {
    fn name(&self) -> &'static str {
        "prefix"
    }

    fn reach(&self) -> Reach {
        Reach::Slices { limit: self.limit }
    }
}

impl Select for Prefix {
    fn select(&mut self, piece: Piece<'_>, frame: &mut Frame<'_>) -> Result<(), HandlerError> {
        let length = (piece.length() as u32).to_be_bytes();
        frame.add(Bytes::copy_from_slice(&length));
        frame.keep_all();
        Ok(())
    }
}

impl Common for Unprefix {
    fn name(&self) -> &'static str {
        "unprefix"
    }

    fn reach(&self) -> Reach {
        Reach::Slices { limit: usize::MAX }
    }
}

impl Select for Unprefix {
    fn select(&mut self, piece: Piece<'_>, frame: &mut Frame<'_>) -> Result<(), HandlerError> {
        let length = piece.length();
        if length < LENGTH {
            let words = format!("a record of {length} bytes has no length in front of it");
            return Err(HandlerError::Refused(words));
        }
        frame.pass_empty();
        frame.keep(LENGTH..length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HandlerId;
    use crate::chain::Chain;
    use crate::handler::Handler;
    use crate::record::Run;

    #[test]
    fn a_length_is_put_in_front_and_taken_away() {
        let mut chain = Chain::default();
        chain.push(HandlerId(0), Handler::Select(Box::new(Prefix::new(100))));
        let run = Run { bytes: Bytes::from_static(b"abcd"), record_bytes: 3, begins: true, ends: true };
        let mut framed = Vec::new();
        chain.apply(run, &mut framed).unwrap();
        let bytes: Vec<u8> = framed.iter().flat_map(|run| run.bytes.to_vec()).collect();
        assert_eq!(bytes, b"\0\0\0\x03abc\0\0\0\x01d");
        chain.push(HandlerId(1), Handler::Select(Box::new(Unprefix::default())));
        let mut plain = Vec::new();
        chain.apply(Run::single(Bytes::from_static(b"xyz"), true, true), &mut plain).unwrap();
        assert_eq!(plain, [Run::single(Bytes::from_static(b"xyz"), true, true)]);
        plain.clear();
        chain.apply(Run::single(Bytes::new(), true, true), &mut plain).unwrap();
        assert_eq!(plain, [Run::single(Bytes::new(), true, true)], "an empty record is one, too");
    }

    #[test]
    fn a_record_without_a_length_is_an_error() {
        let mut parts = Vec::new();
        let error =
            Unprefix::default().select(Piece::whole(b"ab"), &mut Frame::new(2, &mut parts, &[])).unwrap_err();
        assert_eq!(error.to_string(), "a record of 2 bytes has no length in front of it");
    }
}
