//! Contents of files and memory: bytes that are nowhere the same as elsewhere, and holes.

use std::ops::Range;
use std::sync::Arc;

use crate::random::mix;

/// Bytes of a source, each a function of its position.
#[derive(Clone, Debug)]
pub struct Content {
    bytes: Arc<[u8]>,
    holes: Vec<Range<u64>>,
}

impl Content {
    /// So many bytes without a hole.
    pub fn new(seed: u64, length: u64) -> Content {
        let words = (0..length.div_ceil(8)).flat_map(|word| mix(seed ^ word).to_le_bytes());
        Content { bytes: words.take(length as usize).collect(), holes: Vec::new() }
    }

    /// With a hole, where bytes are zero.
    #[must_use]
    pub fn with_hole(mut self, hole: Range<u64>) -> Content {
        let mut bytes = self.bytes.to_vec();
        bytes[hole.start as usize..hole.end as usize].fill(0);
        self.holes.push(hole);
        Content { bytes: bytes.into(), holes: self.holes }
    }

    /// Number of bytes.
    pub fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Ranges between the holes.
    pub fn extents(&self) -> Vec<Range<u64>> {
        let mut starts = vec![0];
        let mut ends: Vec<u64> = self.holes.iter().map(|hole| hole.start).collect();
        starts.extend(self.holes.iter().map(|hole| hole.end));
        ends.push(self.length());
        let extents = starts.into_iter().zip(ends).map(|(start, end)| start..end);
        extents.filter(|extent| !extent.is_empty()).collect()
    }

    /// The bytes of a range; those of holes are zero.
    pub fn bytes(&self, range: Range<u64>) -> &[u8] {
        &self.bytes[range.start as usize..range.end as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_agree_wherever_they_begin() {
        let content = Content::new(7, 100).with_hole(20..31);
        let all = content.bytes(0..100);
        assert_eq!(content.bytes(13..57), &all[13..57]);
        assert_eq!(all[20..31], [0; 11]);
        assert_eq!(content.extents(), [0..20, 31..100]);
        assert_ne!(all[0..8], all[8..16]);
    }
}
