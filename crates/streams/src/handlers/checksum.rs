//! CRC-32C of all bytes.

use crate::handler::{Common, HandlerError, Read, Verdict};
use crate::record::Piece;

/// Reports `crc32c`, the CRC-32C (Castagnoli, RFC 3720 appendix B.4) of all bytes in order, independent of
/// record boundaries, and `bytes`, their number.
#[derive(Debug, Default)]
pub struct Checksum {
    crc: u32,
    bytes: u64,
}

impl Common for Checksum {
    fn name(&self) -> &'static str {
        "crc32c"
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        vec![("crc32c", self.crc.into()), ("bytes", self.bytes)]
    }
}

impl Read for Checksum {
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        self.crc = crc32c::crc32c_append(self.crc, piece.bytes);
        self.bytes += piece.bytes.len() as u64;
        Ok(Verdict::Pass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the check value of RFC 3720's polynomial for "123456789".
    #[test]
    fn pieces_make_no_difference() {
        let mut checksum = Checksum::default();
        for bytes in [&b"1234"[..], b"", b"56789"] {
            assert_eq!(checksum.read(Piece::part(bytes, true, false)), Ok(Verdict::Pass));
        }
        assert_eq!(checksum.report(), [("crc32c", 0xe306_9283), ("bytes", 9)]);
    }
}
