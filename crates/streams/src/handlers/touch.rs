//! The dummy handler of the KStreams paper's measurements (section 5.1), which reads and writes all bytes.

use crate::handler::{Common, HandlerError, Modify, Verdict};
use crate::record::PieceMut;

/// Writes each byte, combined with a mask by exclusive or. The mask 0 changes nothing, as in the paper. A
/// control message sets the mask from then on, as a decimal number; the answer is the previous mask.
#[derive(Debug, Default)]
pub struct Touch {
    mask: u8,
}

impl Touch {
    /// A handler with this mask. Applying it twice restores the bytes.
    pub fn new(mask: u8) -> Touch {
        Touch { mask }
    }
}

impl Common for Touch {
    fn name(&self) -> &'static str {
        "touch"
    }

    fn control(&mut self, message: &[u8]) -> Result<Vec<u8>, HandlerError> {
        let mask = std::str::from_utf8(message).ok().and_then(|text| text.trim().parse().ok());
        let mask = mask.ok_or_else(|| HandlerError::Refused("expected a number from 0 to 255".to_owned()))?;
        Ok(std::mem::replace(&mut self.mask, mask).to_string().into_bytes())
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
        let mut touch = Touch::new(7);
        assert_eq!((touch.control(b"32\n").unwrap(), touch.mask), (b"7".to_vec(), 32));
        assert!(matches!(touch.control(b"256"), Err(HandlerError::Refused(_))));
    }
}
