//! Order of samples over tracks by decode time.

use std::collections::VecDeque;

use crate::track::Sample;

/// Longest time in microseconds that samples wait for those of another track: multiplexers send sound a second
/// or less after the pictures beside it.
const MAX_WAIT_US: i64 = 5_000_000;

/// Most samples that wait.
const MAX_WAITING: usize = 1 << 14;

/// Samples that wait for those of other tracks before them.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// Of each track, whether it has samples, and those that wait, with their decode times in microseconds.
    waiting: Vec<(bool, VecDeque<(i64, Sample)>)>,
    count: usize,
    latest_us: i64,
}

impl Order {
    /// An order of tracks, of which those have samples that are waited for.
    pub(super) fn new(tracks: impl Iterator<Item = bool>) -> Self {
        let waiting = tracks.map(|has_samples| (has_samples, VecDeque::new())).collect();
        Self { waiting, count: 0, latest_us: i64::MIN }
    }

    pub(super) fn push(&mut self, decode_us: i64, sample: Sample) {
        self.latest_us = self.latest_us.max(decode_us);
        self.waiting[sample.track].1.push_back((decode_us, sample));
        self.count += 1;
    }

    /// The next sample; if none comes any more, or so much waits that it is `urgent`, without waiting.
    pub(super) fn pop(&mut self, urgent: bool) -> Option<Sample> {
        let heads = self.waiting.iter().enumerate();
        let heads = heads.filter_map(|(track, (_, waiting))| Some((waiting.front()?.0, track)));
        let (decode_us, track) = heads.min()?;
        let complete = self.waiting.iter().all(|(has_samples, waiting)| !has_samples || !waiting.is_empty());
        let late = self.latest_us.saturating_sub(decode_us) > MAX_WAIT_US || self.count > MAX_WAITING;
        if !(complete || late || urgent) {
            return None;
        }
        self.count -= 1;
        self.waiting[track].1.pop_front().map(|(_, sample)| sample)
    }

    /// Bytes of memory that are held.
    pub(super) fn held_bytes(&self) -> usize {
        self.waiting.iter().map(|(_, waiting)| waiting.capacity()).sum::<usize>() * size_of::<(i64, Sample)>()
    }
}
