//! Turns the blocks of a track into samples: assigns times to laced frames, and decode times and durations to
//! frames.

use std::collections::VecDeque;

use super::clusters::Block;
use super::order::{Order, Timed};
use super::track::{FrameLength, Plan};
use crate::track::{Extent, Sample, Track, TrackKind};

/// Longest time over which the order of frames is observed. It is shorter than the time for which other
/// tracks wait.
const OBSERVED_SECONDS: u64 = 30;

/// Consecutive frames of a track.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    track: Track,
    index: usize,
    plan: Plan,
    /// Last block, if its frames wait for the time of the next block.
    block: Option<TimedBlock>,
    frames: Vec<Extent>,
    order: Order<Frame>,
    ready: VecDeque<Timed<Frame>>,
    /// Time of the last block in microseconds.
    newest_us: i64,
    /// End of the last audio frame.
    end: Option<u64>,
    /// Duration of the last sample.
    duration: u64,
    ended: bool,
}

#[derive(Clone, Copy, Debug)]
struct TimedBlock {
    time: u64,
    key: bool,
    duration: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    extent: Extent,
    sync: bool,
    /// Duration, if known without the next frame.
    duration: Option<u64>,
    /// Duration of the block in the file. Times of frames are more exact.
    stated: Option<u64>,
}

impl Timeline {
    pub(super) fn new(track: Track, plan: Plan, index: usize) -> Self {
        let order = Order::new(plan.depth, plan.interval, OBSERVED_SECONDS * u64::from(track.timescale));
        let (block, frames, ready, end) = (None, Vec::new(), VecDeque::new(), None);
        let (newest_us, duration, ended) = (0, 0, false);
        Self { track, index, plan, block, frames, order, ready, newest_us, end, duration, ended }
    }

    /// Number of the track in blocks.
    pub(super) fn number(&self) -> u64 {
        self.plan.number
    }

    /// Number of frames that are kept.
    pub(super) fn held(&self) -> usize {
        self.frames.len() + self.order.waiting() + self.ready.len()
    }

    /// Takes a block. Its frames wait for the next block only if they divide the time until then.
    pub(super) fn push(&mut self, block: &Block, frames: &[Extent]) {
        let time = self.plan.time(block.time);
        self.release(Some(time));
        if frames.is_empty() {
            return;
        }
        let duration = block.duration.map(|ticks| self.plan.ticks(ticks));
        self.block = Some(TimedBlock { time, key: block.key, duration });
        self.frames.extend_from_slice(frames);
        self.newest_us = self.us(time);
        let shares = self.plan.length == FrameLength::Unknown && self.plan.interval.is_none();
        if frames.len() == 1 || !shares {
            self.release(None);
        }
    }

    /// Ends the track: no more blocks follow.
    pub(super) fn finish(&mut self) {
        self.release(None);
        self.order.finish(&mut self.ready);
        self.ended = true;
    }

    /// Decode time of the next sample in microseconds, if it and its duration are known.
    pub(super) fn next_us(&self) -> Option<i64> {
        let known =
            |first: &&Timed<Frame>| self.ended || self.ready.len() > 1 || first.frame.duration.is_some();
        Some(self.us(self.ready.front().filter(known)?.decoded))
    }

    /// Time from the next sample to the last block in microseconds; 0 without a next sample.
    pub(super) fn ahead_us(&self) -> i64 {
        self.next_us().map_or(0, |next| self.newest_us.saturating_sub(next))
    }

    /// Returns whether the track is video or audio. Subtitles are rare, so tracks wait less for them.
    pub(super) fn is_continuous(&self) -> bool {
        matches!(self.track.kind, TrackKind::Video | TrackKind::Audio)
    }

    /// Returns whether the next sample is not known yet.
    pub(super) fn waits(&self) -> bool {
        !self.ended && self.next_us().is_none()
    }

    /// Removes and returns the next sample, if it is known.
    pub(super) fn pop(&mut self) -> Option<Sample> {
        self.next_us()?;
        let Timed { decoded, presented, frame } = self.ready.pop_front()?;
        let next = self.ready.front().map(|next| next.decoded - decoded);
        let duration = frame.duration.or(next).or(frame.stated).or(self.plan.interval);
        let duration = duration.unwrap_or(self.duration);
        self.duration = duration;
        let offset = i128::from(presented) - i128::from(decoded);
        Some(Sample {
            track: self.index,
            extent: frame.extent,
            decode_time: decoded,
            duration: u32::try_from(duration).unwrap_or(u32::MAX),
            composition_offset: offset.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
            sync: frame.sync,
            count: match self.plan.length {
                FrameLength::Bytes(each) => u32::try_from(frame.extent.length / each).unwrap_or(u32::MAX),
                _ => 1,
            },
        })
    }

    fn us(&self, time: u64) -> i64 {
        let time = i128::from(time) + i128::from(self.track.shift);
        let us = (time * 1_000_000).div_euclid(self.track.timescale.into());
        us.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Assigns times to the frames of the last block. `next`: time of the block after it.
    fn release(&mut self, next: Option<u64>) {
        let Some(TimedBlock { time, key, duration }) = self.block.take() else { return };
        let frames = std::mem::take(&mut self.frames);
        let count = frames.len() as u64;
        // Times of audio are rounded to ticks: a frame within a tick of the end of the last frame begins
        // there.
        let mut at = match self.end {
            Some(end) if end.abs_diff(time) <= self.plan.rounding() => end,
            _ => time,
        };
        let span = next.map(|next| next.saturating_sub(time)).or(duration);
        let step = match (count, span, self.plan.interval) {
            (1, ..) => None,
            (_, _, Some(interval)) => Some(interval),
            (_, span, None) => Some(span.unwrap_or(0) / count.max(1)),
        };
        for extent in &frames {
            let known = self.length(*extent);
            let stated = duration.filter(|_| count == 1);
            let frame = Frame { extent: *extent, sync: key, duration: known, stated };
            self.order.push(at, frame, &mut self.ready);
            at = at.saturating_add(known.or(step).unwrap_or(0)).min(i64::MAX as u64);
        }
        self.end = (self.plan.length != FrameLength::Unknown).then_some(at);
        self.frames = frames;
        self.frames.clear();
    }

    /// Duration of an audio frame.
    fn length(&self, frame: Extent) -> Option<u64> {
        match self.plan.length {
            FrameLength::Samples(samples) => Some(samples),
            FrameLength::Bytes(each) => Some(frame.length / each),
            FrameLength::Unknown => None,
        }
    }
}
