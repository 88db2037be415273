//! Blocks (RFC 9559 section 10): a header and one frame, or several frames with lacing.

use super::ebml::number;
use crate::track::Extent;

/// Most bytes that are read of a block for its header: enough for sizes of 255 frames that have some
/// megabytes in total.
pub(super) const MAX_HEADER: u64 = 64 << 10;

/// Header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHeader {
    /// Number of the track.
    pub(super) track: u64,
    /// Presentation time minus that of the cluster, in ticks.
    pub(super) time: i16,
    /// Keyframe flag, which only a SimpleBlock has.
    pub(super) key: bool,
}

/// Error of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// More bytes of the block are needed.
    Short,
    /// Invalid block, with the reason.
    Wrong(&'static str),
}

/// Reads the header of a block from its first bytes, and adds the extents of its frames to a list. Empty
/// frames are dropped.
pub(super) fn read(bytes: &[u8], body: Extent, frames: &mut Vec<Extent>) -> Result<BlockHeader, Fault> {
    let short = if bytes.len() as u64 == body.length {
        Fault::Wrong("it ends within its header")
    } else {
        Fault::Short
    };
    if bytes.first() == Some(&0) {
        return Err(Fault::Wrong("its track number cannot be read"));
    }
    let track = number(bytes).ok_or(short)?;
    let [high, low, flags] = *bytes[track.length..].first_chunk().ok_or(short)?;
    let header =
        BlockHeader { track: track.value, time: i16::from_be_bytes([high, low]), key: flags & 0x80 != 0 };
    let start = track.length + 3;
    let lacing = flags >> 1 & 3;
    if lacing == 0 {
        add(frames, body.offset + start as u64, body.length - start as u64);
        return Ok(header);
    }
    let more = usize::from(*bytes.get(start).ok_or(short)?);
    let mut sizes = Sizes { bytes, at: start + 1, short };
    let mut lengths = [0; 256];
    for index in 0..more {
        lengths[index] = match (lacing, index) {
            (1, _) => sizes.xiph()?,
            (3, 0) => sizes.number()?,
            (3, _) => sizes.difference(lengths[index - 1])?,
            _ => 0,
        };
    }
    let data = body.length - sizes.at as u64;
    if lacing == 2 {
        let count = more as u64 + 1;
        if !data.is_multiple_of(count) {
            return Err(Fault::Wrong("its frames are not of one size"));
        }
        lengths[..more].fill(data / count);
    }
    let others = lengths[..more].iter().try_fold(0u64, |sum, length| sum.checked_add(*length));
    let last = others.and_then(|others| data.checked_sub(others));
    lengths[more] = last.ok_or(Fault::Wrong("its frames are longer than it is"))?;
    let mut offset = body.offset + sizes.at as u64;
    for length in &lengths[..=more] {
        add(frames, offset, *length);
        offset += length;
    }
    Ok(header)
}

fn add(frames: &mut Vec<Extent>, offset: u64, length: u64) {
    if length > 0 {
        frames.push(Extent { offset, length });
    }
}

/// Frame sizes of a lace (section 10.3).
struct Sizes<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Error if bytes are missing.
    short: Fault,
}

impl Sizes<'_> {
    /// Reads a size in Xiph lacing: a sum of bytes, which are all 255 except the last.
    fn xiph(&mut self) -> Result<u64, Fault> {
        let mut sum = 0;
        loop {
            let byte = *self.bytes.get(self.at).ok_or(self.short)?;
            self.at += 1;
            sum += u64::from(byte);
            if byte < 255 {
                return Ok(sum);
            }
        }
    }

    fn number(&mut self) -> Result<u64, Fault> {
        let found = self.bytes.get(self.at..).and_then(number).ok_or(self.unreadable())?;
        self.at += found.length;
        Ok(found.value)
    }

    /// Reads a size in EBML lacing: its signed difference from the size before.
    fn difference(&mut self, before: u64) -> Result<u64, Fault> {
        let found = self.bytes.get(self.at..).and_then(number).ok_or(self.unreadable())?;
        self.at += found.length;
        let middle = (1 << (7 * found.length - 1)) - 1;
        let size = before.checked_add(found.value).and_then(|sum| sum.checked_sub(middle));
        size.ok_or(Fault::Wrong("negative frame size in EBML lacing"))
    }

    /// Error of a number that is missing or longer than 8 bytes.
    fn unreadable(&self) -> Fault {
        match self.bytes.get(self.at) {
            Some(0) => Fault::Wrong("a size in its lace cannot be read"),
            _ => self.short,
        }
    }
}
