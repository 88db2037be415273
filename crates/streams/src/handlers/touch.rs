//! The dummy handler of the KStreams paper's measurements (section 5.1), which reads and writes all bytes.

use crate::handler::{Common, HandlerError, Modify, Verdict};
use crate::record::PieceMut;

/// Writes each byte, combined with a mask by exclusive or. The mask 0 changes nothing, as in the paper.
#[derive(Debug, Default)]
pub struct Touch {
    mask: u8,
}

impl Touch {
    /// Handler with this mask. Twice the same undoes itself.
    pub fn new(mask: u8) -> Touch {
        Touch { mask }
    }
}

impl Common for Touch {
    fn name(&self) -> &'static str {
        "touch"
    }
}

impl Modify for Touch {
    fn modify(&mut self, piece: PieceMut<'_>) -> Result<Verdict, HandlerError> {
        let mask = self.mask;
        piece.bytes.iter_mut().for_each(|byte| *byte ^= mask);
        Ok(Verdict::Pass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_combined_with_the_mask() {
        let mut bytes = *b"abC";
        let piece = PieceMut { bytes: &mut bytes, begins: true, ends: true };
        assert_eq!(Touch::new(0x20).modify(piece), Ok(Verdict::Pass));
        assert_eq!(&bytes, b"ABc");
    }
}
