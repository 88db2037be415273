//! Blocks of one track on their way to samples: lacing gets times, frames get decode times and durations.

use std::collections::VecDeque;

use super::clusters::Block;
use super::order::{Order, Timed};
use super::track::{FrameLength, Plan};
use crate::track::{Extent, Sample, Track};

/// Frames of one track that come after each other.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    track: Track,
    index: usize,
    plan: Plan,
    /// The last block, whose frames wait for the time of the next.
    block: Option<TimedBlock>,
    frames: Vec<Extent>,
    order: Order<Frame>,
    ready: VecDeque<Timed<Frame>>,
    /// Time at which the last frame of sound ends.
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
    /// Duration, where it is known without the next frame.
    duration: Option<u64>,
}

impl Timeline {
    pub(super) fn new(track: Track, plan: Plan, index: usize) -> Self {
        let order = Order::new(plan.depth, plan.interval);
        let (block, frames, ready, end) = (None, Vec::new(), VecDeque::new(), None);
        Self { track, index, plan, block, frames, order, ready, end, duration: 0, ended: false }
    }

    /// Number by which blocks name the track.
    pub(super) fn number(&self) -> u64 {
        self.plan.number
    }

    /// Number of frames that are held.
    pub(super) fn held(&self) -> usize {
        self.frames.len() + self.order.waiting() + self.ready.len()
    }

    /// Takes a block, whose frames replace those of the last one, and returns its time in microseconds.
    pub(super) fn push(&mut self, block: &Block, frames: &[Extent]) -> i64 {
        let time = self.plan.time(block.time);
        self.release(Some(time));
        let duration = block.duration.map(|ticks| self.plan.ticks(ticks));
        self.block = Some(TimedBlock { time, key: block.key, duration });
        self.frames.extend_from_slice(frames);
        self.us(time)
    }

    /// Notes that there are no further blocks.
    pub(super) fn finish(&mut self) {
        self.release(None);
        self.order.finish(&mut self.ready);
        self.ended = true;
    }

    /// Decode time in microseconds of the next sample, if it is known.
    pub(super) fn next_us(&self) -> Option<i64> {
        let least = if self.ended { 1 } else { 2 };
        let first = self.ready.front().filter(|_| self.ready.len() >= least)?;
        Some(self.us(first.decoded))
    }

    /// Returns whether a sample may come later.
    pub(super) fn waits(&self) -> bool {
        !self.ended && self.next_us().is_none()
    }

    /// The next sample, if it is known.
    pub(super) fn pop(&mut self) -> Option<Sample> {
        self.next_us()?;
        let Timed { decoded, presented, frame } = self.ready.pop_front()?;
        let next = self.ready.front().map(|next| next.decoded - decoded);
        let duration = frame.duration.or(next).or(self.plan.interval).unwrap_or(self.duration);
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

    /// Gives the frames of the last block their times; `next` is that of the block after it.
    fn release(&mut self, next: Option<u64>) {
        let Some(TimedBlock { time, key, duration }) = self.block.take() else { return };
        let frames = std::mem::take(&mut self.frames);
        let count = frames.len() as u64;
        // Times of sound are rounded to ticks: what follows within a tick of the last frame's end is there.
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
            let only = duration.filter(|_| next.is_none() && count == 1);
            let frame = Frame { extent: *extent, sync: key, duration: known.or(only) };
            self.order.push(at, frame, &mut self.ready);
            at = at.saturating_add(known.or(step).unwrap_or(0)).min(i64::MAX as u64);
        }
        self.end = (self.plan.length != FrameLength::Unknown).then_some(at);
        self.frames = frames;
        self.frames.clear();
    }

    /// Duration of a frame of sound.
    fn length(&self, frame: Extent) -> Option<u64> {
        match self.plan.length {
            FrameLength::Samples(samples) => Some(samples),
            FrameLength::Bytes(each) => Some(frame.length / each),
            FrameLength::Unknown => None,
        }
    }
}
