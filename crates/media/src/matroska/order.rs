//! Decode times of frames that have presentation times only.
//!
//! Matroska stores frames in decode order with their presentation times. Let a decoder reorder over a depth
//! of N frames: at most N frames precede a frame in decode order and follow it in presentation. The decode
//! time of frame number i is then the presentation time that is number i - N when all are sorted. No frame is
//! decoded after it is presented, with N as the file uses it none earlier than it has to be, and with a
//! constant frame rate, decode times are as far apart as frames are. Of the times up to number i - N all have
//! come when frame i has, so a heap of N times suffices. The first N frames are each one interval earlier than
//! the next.
//!
//! N is what the configuration of H.264 or H.265 states; other codecs do not reorder. Where none is stated,
//! it is what the first 32 frames show, or those of half a minute. If more than N frames turn out to be
//! reordered, decode times stay in order and some frames are presented before them: they leave late.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Frames that tell the depth where it is not stated.
const OBSERVED: usize = 32;

/// A frame with its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timed<T> {
    pub(super) decoded: u64,
    pub(super) presented: u64,
    pub(super) frame: T,
}

/// Gives frames of one track their decode times.
#[derive(Clone, Debug)]
pub(super) struct Order<T> {
    depth: Option<usize>,
    /// Time from a frame to the next, where it is stated.
    interval: Option<u64>,
    /// Longest time over which frames are observed.
    longest: u64,
    /// The first frames, until their decode times are known.
    first: Vec<(u64, T)>,
    begun: bool,
    /// Presentation times that are no decode time yet.
    times: BinaryHeap<Reverse<u64>>,
    last: u64,
}

impl<T> Order<T> {
    pub(super) fn new(depth: Option<usize>, interval: Option<u64>, longest: u64) -> Self {
        Self { depth, interval, longest, first: Vec::new(), begun: false, times: BinaryHeap::new(), last: 0 }
    }

    /// Number of frames that wait for their decode times.
    pub(super) fn waiting(&self) -> usize {
        self.first.len()
    }

    /// Takes the next frame in decode order, and adds those whose decode times are known to a queue.
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

    /// Adds the frames that wait, since no further ones come.
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

/// Depth that frames show: the most frames that precede one and are presented after it.
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
        // I P B B P B B with a frame between references, and without reordering.
        assert_eq!(decoded(Some(1), &[40, 160, 80, 120, 280, 200, 240]), [0, 40, 80, 120, 160, 200, 240]);
        assert_eq!(decoded(None, &[40, 160, 80, 120, 280, 200, 240]), [0, 40, 80, 120, 160, 200, 240]);
        // A pyramid: I P B b b.
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
