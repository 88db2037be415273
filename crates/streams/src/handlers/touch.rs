//! The dummy handler of the KStreams paper's measurements (section 5.1), which reads and writes all bytes.

use crate::handler::{Common, HandlerError, Rewrite};
use crate::record::Piece;

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

impl Rewrite for Touch {
    fn room(&self, length: usize) -> usize {
        length
    }

    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError> {
        let out = &mut out[..piece.bytes.len()];
        for (to, from) in out.iter_mut().zip(piece.bytes) {
            *to = from ^ self.mask;
        }
        Ok(Some(out.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_combined_with_the_mask() {
        let mut out = [0; 5];
        assert_eq!(Touch::new(0x20).rewrite(Piece::whole(b"abC"), &mut out), Ok(Some(3)));
        assert_eq!(&out[..3], b"ABc");
    }
}
