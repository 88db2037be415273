//! Orders the samples of all tracks by decode time.

use std::collections::VecDeque;

use crate::track::Sample;

/// Longest time in microseconds that samples wait for samples of another track: multiplexers send audio at
/// most a second after the pictures of the same time.
const MAX_WAIT_US: i64 = 5_000_000;

/// Most samples that wait.
const MAX_WAITING: usize = 1 << 14;

/// Samples that wait for earlier samples of other tracks.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// For each track: true if it has samples, and its waiting samples with their decode times in
    /// microseconds.
    waiting: Vec<(bool, VecDeque<(i64, Sample)>)>,
    count: usize,
    latest_us: i64,
}

impl Order {
    /// Order of tracks; `tracks` tells for each track if other tracks have to wait for its samples.
    pub(super) fn new(tracks: impl Iterator<Item = bool>) -> Self {
        let waiting = tracks.map(|has_samples| (has_samples, VecDeque::new())).collect();
        Self { waiting, count: 0, latest_us: i64::MIN }
    }

    pub(super) fn push(&mut self, decode_us: i64, sample: Sample) {
        self.latest_us = self.latest_us.max(decode_us);
        self.waiting[sample.track].1.push_back((decode_us, sample));
        self.count += 1;
    }

    /// Removes and returns the next sample, once no earlier one can come. `urgent`: without waiting, because
    /// the file ended or because too many bytes wait.
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

    /// Bytes of heap memory used.
    pub(super) fn held_bytes(&self) -> usize {
        self.waiting.iter().map(|(_, waiting)| waiting.capacity()).sum::<usize>() * size_of::<(i64, Sample)>()
    }
}
