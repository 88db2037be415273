//! Assigns times to the frames of a track and makes samples of them.

use super::frame::Frame;
use super::pes::Stamp;
use super::store::Store;
use super::timeline::{Timeline, difference};
use super::{LEAD_S, TICKS_PER_SECOND};
use crate::track::{Extent, Sample, Track, TrackKind};

/// Duration of a picture until the duration of another is known: 40 ms.
const USUAL_DURATION: i64 = TICKS_PER_SECOND as i64 / 25;

/// Longest time from decoding to presentation that is accepted: 16 pictures at a few pictures per second.
const MAX_LEAD: i64 = 10 * TICKS_PER_SECOND as i64;

/// Reciprocal of the tolerance in seconds (2 ms): an audio frame whose timestamp differs by at most this time
/// from the end of the frame before follows it exactly. PTS are rounded to ticks, and some multiplexers round
/// more coarsely.
const TOLERANCE: i64 = 500;

/// Times and bytes of the samples of a track.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    number: usize,
    is_video: bool,
    rate: i64,
    pub(super) store: Store,
    /// Time after the last frame: in ticks of 90 kHz, and for audio in samples.
    expected: Option<i64>,
    expected_samples: i64,
    /// Last picture, whose duration is not known before the next one, and its decode time.
    open: Option<(i64, Sample)>,
    duration: i64,
}

impl Timing {
    pub(super) fn new(number: usize, track: &Track) -> Self {
        Self {
            number,
            is_video: track.kind == TrackKind::Video,
            rate: track.timescale.max(1).into(),
            store: Store::new(number),
            expected: None,
            expected_samples: 0,
            open: None,
            duration: USUAL_DURATION,
        }
    }

    /// Takes a frame, and returns a sample if one is complete.
    pub(super) fn push(&mut self, frame: Frame, timeline: &mut Timeline) -> Option<Sample> {
        if self.is_video { self.picture(frame, timeline) } else { self.sound(frame, timeline) }
    }

    /// Returns the last sample.
    pub(super) fn finish(&mut self) -> Option<Sample> {
        self.open.take().map(|(_, sample)| Sample { duration: self.duration as u32, ..sample })
    }

    fn picture(&mut self, frame: Frame, timeline: &mut Timeline) -> Option<Sample> {
        let last = self.open.as_ref().map(|(time, _)| *time);
        let (time, lead) = match (frame.stamp, self.expected) {
            (Some(Stamp { pts, dts }), expected) => {
                let time = timeline.place(dts, expected.unwrap_or(0), expected.is_none());
                let lead = difference(pts as i64, dts as i64);
                (time, if (0..=MAX_LEAD).contains(&lead) { lead } else { 0 })
            }
            (None, Some(_)) if frame.second_field => {
                let extent = self.store.extend(&frame.bytes)?;
                if let Some((_, sample)) = &mut self.open {
                    sample.extent = extent;
                }
                return None;
            }
            (None, Some(expected)) => {
                (expected, self.open.as_ref().map_or(0, |(_, sample)| sample.composition_offset))
            }
            (None, None) => return None,
        };
        let time = last.map_or(time, |last| time.max(last + 1));
        if let Some(last) = last {
            self.duration = (time - last).min(MAX_LEAD);
        }
        let complete = self.finish();
        self.expected = Some(time + self.duration);
        let extent = self.store.push(frame.bytes);
        self.open = Some((time, self.sample(extent, time, frame.sync, lead)));
        complete
    }

    fn sound(&mut self, frame: Frame, timeline: &mut Timeline) -> Option<Sample> {
        let expected = self.expected;
        let begin = match (frame.stamp, expected) {
            (Some(Stamp { pts, .. }), _) => {
                let ticks = timeline.place(pts, expected.unwrap_or(0), expected.is_none());
                let begin = scale(ticks, self.rate, TICKS_PER_SECOND.into());
                let late = begin - self.expected_samples;
                if expected.is_some() && late.abs() <= self.rate / TOLERANCE {
                    self.expected_samples
                } else if expected.is_some() && late < 0 {
                    return None; // overlaps the frame before
                } else {
                    begin
                }
            }
            (None, Some(_)) => self.expected_samples,
            (None, None) => return None,
        };
        self.expected_samples = begin + i64::from(frame.samples);
        self.expected = Some(scale(self.expected_samples, TICKS_PER_SECOND.into(), self.rate));
        let extent = self.store.push(frame.bytes);
        Some(Sample { duration: frame.samples, ..self.sample(extent, begin, true, 0) })
    }

    fn sample(&self, extent: Extent, time: i64, sync: bool, composition_offset: i64) -> Sample {
        let decode_time = time.saturating_add(LEAD_S * self.rate).max(0) as u64;
        Sample { track: self.number, extent, decode_time, duration: 0, composition_offset, sync, count: 1 }
    }
}

/// Converts a time from units of 1/`from` s to units of 1/`to` s.
fn scale(time: i64, to: i64, from: i64) -> i64 {
    let scaled = (i128::from(time) * i128::from(to) + i128::from(from) / 2).div_euclid(from.into());
    scaled.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
