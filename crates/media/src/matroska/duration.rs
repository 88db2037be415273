//! Duration of a segment: from its first block to the end of its last one.
//!
//! Live recordings have no duration in the segment information. Then the last cluster is searched near the
//! end of the file. Nothing else of the file is read.

use bytes::Bytes;

use super::clusters::{Block, Clusters};
use super::id::CLUSTER;
use super::segment::Segment;
use super::track::{FrameLength, Plan};
use crate::track::{Extent, STATED_FROM_US, Track, duration_from, last_places, tail};

/// Most elements that are read for the first block.
const MAX_ELEMENTS: usize = 64;

/// Reader of the duration of a segment.
#[derive(Clone, Debug)]
pub struct DurationReader {
    tracks: Vec<(Track, Plan)>,
    /// Offset of the first cluster, and end of the segment.
    cluster: u64,
    end: u64,
    clusters: Clusters,
    elements: usize,
    step: Step,
    /// Times of the first block, and of the end of the last one, in microseconds.
    begin_us: u64,
    end_us: Option<u64>,
    /// Duration from the segment information.
    stated_us: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Elements up to the first block.
    First,
    /// Bytes at the end of the segment, by the index of their extent.
    Tail(usize, Extent),
    Done,
}

impl Segment {
    /// Returns a reader of the duration.
    pub fn duration(&self) -> DurationReader {
        DurationReader {
            tracks: self.tracks.iter().cloned().zip(self.plans.iter().cloned()).collect(),
            cluster: self.cluster.unwrap_or(self.end),
            end: self.end,
            clusters: Clusters::new(self.cluster, self.end),
            elements: 0,
            step: if self.cluster.is_some() { Step::First } else { Step::Done },
            begin_us: 0,
            end_us: None,
            stated_us: self.duration_us,
        }
    }
}

impl DurationReader {
    /// Bytes to read next; `None` at the end.
    pub fn wanted(&self) -> Option<Extent> {
        match self.step {
            Step::First => self.clusters.wanted(),
            Step::Tail(_, extent) => Some(extent),
            Step::Done => None,
        }
    }

    /// Takes the requested bytes.
    ///
    /// # Panics
    /// If `bytes` has fewer.
    pub fn take(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        let wanted = self.wanted().map_or(0, |wanted| wanted.length);
        assert_eq!(bytes.len() as u64, wanted, "the bytes that were wanted");
        self.step = match self.step {
            Step::First => self.first(&bytes),
            Step::Tail(index, extent) => {
                let places = last_places(&bytes, &CLUSTER_ID);
                self.end_us = places.filter_map(|at| self.end_of(&bytes, extent.offset, at)).next();
                if self.end_us.is_some() { Step::Done } else { self.tail(index + 1) }
            }
            Step::Done => Step::Done,
        };
    }

    /// Returns the duration in microseconds; `None` if the file does not tell it. Call it when no more bytes
    /// are wanted.
    pub fn finish(self) -> Option<u64> {
        duration_from(self.begin_us, self.end_us, self.stated_us)
    }

    /// Takes an element, up to the first block. Then a stated duration suffices, unless the first block is
    /// late: for some writers it counts from that block, for others from time 0.
    fn first(&mut self, bytes: &[u8]) -> Step {
        self.elements += 1;
        match self.clusters.take(bytes) {
            Ok(Some(block)) if self.track(&block).is_some() => {
                self.begin_us = self.times(&block, &[]).map_or(0, |(begin_us, _)| begin_us);
            }
            Ok(_) if self.elements < MAX_ELEMENTS && self.clusters.wanted().is_some() => return Step::First,
            Ok(_) | Err(_) => {}
        }
        match self.stated_us {
            Some(_) if self.begin_us < STATED_FROM_US => Step::Done,
            _ => self.tail(0),
        }
    }

    fn tail(&self, index: usize) -> Step {
        tail(index, self.cluster, self.end).map_or(Step::Done, |extent| Step::Tail(index, extent))
    }

    /// End of the last block in the cluster at a place of `bytes`, which begin at `offset`; `None` if there
    /// is no cluster with a block of a track.
    fn end_of(&self, bytes: &[u8], offset: u64, at: usize) -> Option<u64> {
        let mut clusters = Clusters::new(Some(offset + at as u64), self.end);
        let mut end_us = None;
        while let Some(wanted) = clusters.wanted() {
            let from = wanted.offset.checked_sub(offset).and_then(|from| usize::try_from(from).ok());
            let Some(found) = from.and_then(|from| bytes.get(from..)?.get(..wanted.length as usize)) else {
                break;
            };
            let Ok(block) = clusters.take(found) else { break };
            let times = block.and_then(|block| self.times(&block, &clusters.frames));
            end_us = end_us.max(times.map(|(_, end_us)| end_us));
        }
        end_us
    }

    fn track(&self, block: &Block) -> Option<&(Track, Plan)> {
        self.tracks.iter().find(|(_, plan)| plan.number == block.track)
    }

    /// Begin and end of a block in microseconds, if it is of a track.
    fn times(&self, block: &Block, frames: &[Extent]) -> Option<(u64, u64)> {
        let (track, plan) = self.track(block)?;
        let (begin, count) = (plan.time(block.time), frames.len() as u64);
        let bytes = || frames.iter().map(|frame| frame.length).sum::<u64>();
        let length = match (block.duration, plan.length, plan.interval) {
            (Some(ticks), ..) => plan.ticks(ticks),
            (None, FrameLength::Samples(samples), _) => samples.saturating_mul(count),
            (None, FrameLength::Bytes(each), _) => bytes().checked_div(each).unwrap_or(0),
            (None, FrameLength::Unknown, interval) => interval.unwrap_or(0).saturating_mul(count),
        };
        Some((track.movie_us(begin), track.movie_us(begin.saturating_add(length))))
    }
}

/// Identifier of clusters as in files.
const CLUSTER_ID: [u8; 4] = CLUSTER.0.to_be_bytes();
