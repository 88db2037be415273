//! Stores the bytes of a track's samples until they are packed.

use std::collections::VecDeque;

use crate::track::Extent;

/// Bits of an offset that count the bytes of a track; the bits above are the track number. No asset is that
/// large.
const TRACK_SHIFT: u32 = 48;

/// Stored samples. The offset of each sample is the end of the one before.
#[derive(Clone, Debug)]
pub(super) struct Store {
    samples: VecDeque<(u64, Vec<u8>)>,
    end: u64,
    bytes: usize,
}

/// Number of the track to which an extent belongs.
pub(super) fn track_of(extent: Extent) -> usize {
    (extent.offset >> TRACK_SHIFT) as usize
}

impl Store {
    pub(super) fn new(track: usize) -> Self {
        Self { samples: VecDeque::new(), end: (track as u64) << TRACK_SHIFT, bytes: 0 }
    }

    /// Adds a sample.
    pub(super) fn push(&mut self, sample: Vec<u8>) -> Extent {
        let extent = Extent { offset: self.end, length: sample.len() as u64 };
        self.end = extent.end();
        self.bytes += sample.capacity() + size_of::<(u64, Vec<u8>)>();
        self.samples.push_back((extent.offset, sample));
        extent
    }

    /// Appends bytes to the last sample, and returns the sample's extent.
    pub(super) fn extend(&mut self, bytes: &[u8]) -> Option<Extent> {
        let (offset, sample) = self.samples.back_mut()?;
        self.bytes -= sample.capacity();
        sample.extend_from_slice(bytes);
        self.bytes += sample.capacity();
        let extent = Extent { offset: *offset, length: sample.len() as u64 };
        self.end = extent.end();
        Some(extent)
    }

    /// Bytes of an extent, which must be within a single stored sample.
    pub(super) fn slice(&self, extent: Extent) -> Option<&[u8]> {
        let behind = self.samples.partition_point(|(offset, _)| *offset <= extent.offset);
        let (offset, sample) = self.samples.get(behind.checked_sub(1)?)?;
        let from = usize::try_from(extent.offset - offset).ok()?;
        sample.get(from..from.checked_add(usize::try_from(extent.length).ok()?)?)
    }

    /// Drops the samples that end at or before an offset.
    pub(super) fn release(&mut self, end: u64) {
        while let Some((offset, sample)) = self.samples.front()
            && offset + sample.len() as u64 <= end
        {
            self.bytes -= sample.capacity() + size_of::<(u64, Vec<u8>)>();
            self.samples.pop_front();
        }
    }

    /// Bytes of heap memory used.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_found_until_they_are_released() {
        let mut store = Store::new(3);
        let first = store.push(vec![1, 2, 3]);
        store.push(vec![4]);
        let second = store.extend(&[5, 6]).unwrap();
        assert_eq!((track_of(first), track_of(second)), (3, 3));
        assert_eq!(store.slice(Extent { offset: first.offset + 1, length: 2 }), Some(&[2, 3][..]));
        assert_eq!(store.slice(second), Some(&[4, 5, 6][..]));
        assert_eq!(store.slice(Extent { length: 4, ..second }), None);
        store.release(second.end() - 1);
        assert_eq!((store.slice(first), store.slice(second)), (None, Some(&[4, 5, 6][..])));
        store.release(second.end());
        assert_eq!((store.slice(second), store.held_bytes()), (None, 0));
    }
}
