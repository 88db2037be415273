//! Decode times of frames that only have presentation times.
//!
//! Matroska stores frames in decode order with their presentation times. Let the reordering depth of a track
//! be N: at most N frames precede a frame in decode order and follow it in presentation order. Sort all
//! presentation times; the decode time of frame i is then presentation time i - N. No frame is decoded after
//! its presentation; if N is the depth that the file uses, no frame is decoded earlier than necessary; and at
//! a constant frame rate, decode times are evenly spaced. When frame i is read, all presentation times up to
//! number i - N are known, so a heap of N times suffices. The decode times of the first N frames are each one
//! interval earlier than the next.
//!
//! N is determined by the configuration of H.264 or H.265; other codecs do not reorder. If the configuration
//! does not determine it, N is derived from the first 32 frames, or from the frames of half a minute. If more
//! than N frames turn out to be reordered, decode times stay in order, and some frames have decode times
//! after their presentation times: they are sent late.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Number of frames from which the depth is derived if it is unknown.
const OBSERVED: usize = 32;

/// Frame with its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timed<T> {
    pub(super) decoded: u64,
    pub(super) presented: u64,
    pub(super) frame: T,
}

/// Assigns decode times to the frames of a track.
#[derive(Clone, Debug)]
pub(super) struct Order<T> {
    depth: Option<usize>,
    /// Interval between frames, if known.
    interval: Option<u64>,
    /// Longest time over which frames are observed to derive the depth.
    longest: u64,
    /// First frames, until their decode times are known.
    first: Vec<(u64, T)>,
    begun: bool,
    /// Presentation times that are not used as decode times yet.
    times: BinaryHeap<Reverse<u64>>,
    last: u64,
}

impl<T> Order<T> {
    pub(super) fn new(depth: Option<usize>, interval: Option<u64>, longest: u64) -> Self {
        Self { depth, interval, longest, first: Vec::new(), begun: false, times: BinaryHeap::new(), last: 0 }
    }

    /// Number of frames that wait for decode times.
    pub(super) fn waiting(&self) -> usize {
        self.first.len()
    }

    /// Takes the next frame in decode order, and appends frames with known decode times to `ready`.
    pub(super) fn push(&mut self, presented: u64, frame: T, ready: &mut VecDeque<Timed<T>>) {
        if self.begun {
            self.times.push(Reverse(presented));
            let decoded = self.times.pop().map_or(presented, |Reverse(time)| time);
            self.give(decoded, presented, frame, ready);
            return;
        }
        self.first.push((presented, frame));
        let span = self.first.first().map_or(0, |(first, _)| presented.abs_diff(*first));
        let complete = match self.depth {
            Some(depth) => self.first.len() > depth,
            None => self.first.len() >= OBSERVED || span > self.longest,
        };
        if complete {
            self.begin(ready);
        }
    }

    /// Appends the waiting frames to `ready`, since no more frames follow.
    pub(super) fn finish(&mut self, ready: &mut VecDeque<Timed<T>>) {
        if !self.begun {
            self.begin(ready);
        }
    }

    fn begin(&mut self, ready: &mut VecDeque<Timed<T>>) {
        self.begun = true;
        let first = std::mem::take(&mut self.first);
        let depth = self.depth.unwrap_or_else(|| observed(&first));
        let mut sorted: Vec<u64> = first.iter().map(|(time, _)| *time).collect();
        sorted.sort_unstable();
        let least = sorted.first().copied().unwrap_or(0);
        let second = sorted.iter().find(|time| **time > least).copied().unwrap_or(least);
        let interval = self.interval.unwrap_or(second - least);
        for (index, (presented, frame)) in first.into_iter().enumerate() {
            self.times.push(Reverse(presented));
            let decoded = match depth.checked_sub(index).filter(|before| *before > 0) {
                Some(before) => least.saturating_sub(interval.saturating_mul(before as u64)),
                None => self.times.pop().map_or(presented, |Reverse(time)| time),
            };
            self.give(decoded, presented, frame, ready);
        }
    }

    fn give(&mut self, decoded: u64, presented: u64, frame: T, ready: &mut VecDeque<Timed<T>>) {
        self.last = self.last.max(decoded);
        ready.push_back(Timed { decoded: self.last, presented, frame });
    }
}

/// Depth derived from frames: the largest number of frames that precede a frame and are presented after it.
fn observed<T>(frames: &[(u64, T)]) -> usize {
    let later = |(index, (time, _)): (usize, &(u64, T))| {
        frames[..index].iter().filter(|(before, _)| before > time).count()
    };
    frames.iter().enumerate().map(later).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(depth: Option<usize>, presented: &[u64]) -> Vec<u64> {
        let (mut order, mut ready) = (Order::new(depth, None, u64::MAX), VecDeque::new());
        for time in presented {
            order.push(*time, (), &mut ready);
        }
        order.finish(&mut ready);
        ready.iter().map(|timed| timed.decoded).collect()
    }

    #[test]
    fn frames_are_decoded_at_even_distances() {
        // Order I P B B P B B, with depth 1, given and derived.
        assert_eq!(decoded(Some(1), &[40, 160, 80, 120, 280, 200, 240]), [0, 40, 80, 120, 160, 200, 240]);
        assert_eq!(decoded(None, &[40, 160, 80, 120, 280, 200, 240]), [0, 40, 80, 120, 160, 200, 240]);
        // B-frame pyramid: I P B b b.
        assert_eq!(decoded(None, &[80, 240, 160, 120, 200]), [0, 40, 80, 120, 160]);
        assert_eq!(decoded(Some(0), &[0, 33, 67]), [0, 33, 67]);
        assert_eq!(decoded(Some(2), &[0]), [0]);
        assert!(decoded(Some(2), &[]).is_empty());
    }

    proptest! {
        /// Promise: Decode times of Matroska frames are in order, and not later than their presentation
        /// times.
        #[test]
        fn no_frame_is_decoded_after_it_is_presented(
            mut presented in proptest::collection::vec(0u64..1000, 1..80),
            swaps in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..4), 0..20),
        ) {
            presented.sort_unstable();
            let length = presented.len();
            for (from, distance) in swaps {
                let from = from.index(length);
                let to = (from + distance).min(length - 1);
                presented[from..=to].rotate_right(1);
            }
            let frames: Vec<_> = presented.iter().map(|time| (*time, ())).collect();
            let found = decoded(Some(observed(&frames)), &presented);
            prop_assert!(found.is_sorted());
            prop_assert!(found.iter().zip(&presented).all(|(decoded, presented)| decoded <= presented));
            prop_assert!(decoded(None, &presented).is_sorted());
        }
    }
}
