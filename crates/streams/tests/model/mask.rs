//! Changes that handlers make in place. Applied twice, each restores the bytes.

use crate::record::HEAD;

/// Bytes that a handler changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mask {
    /// None.
    Nothing,
    /// The bytes of a record after its head: the record keeps its length and its tag.
    Payload,
    /// The top bit of every byte.
    TopBits,
}

/// The bit that [`Mask::TopBits`] changes.
pub(crate) const TOP_BIT: u8 = 0x80;

impl Mask {
    /// Changes bytes that begin at this offset of their record.
    pub(crate) fn apply(self, bytes: &mut [u8], offset: usize) {
        let (unchanged, bits) = match self {
            Mask::Nothing => return,
            Mask::Payload => (HEAD.saturating_sub(offset), 0xff),
            Mask::TopBits => (0, TOP_BIT),
        };
        bytes.iter_mut().skip(unchanged).for_each(|byte| *byte ^= bits);
    }
}
