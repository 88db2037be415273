//! Recordings that a session plays one after another since its last seek, with continuing numbers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wirepath_engine::{BlockingPool, DropOnPool, Waker};
use wirepath_media::image::StreamPlan;
use wirepath_playback::{Departure, Load, Segment, SegmentClock, TrainSource};

use super::Gaps;
use super::opener::Opened;
use crate::images::Image;
use crate::joined::Joined;

/// Longest time between recordings that is not a gap, in microseconds: most names of recordings have
/// whole seconds.
const LEAST_GAP_US: i64 = 1_500_000;

/// Least number of recordings to keep: a playback requests its segment again after a pause, when the next
/// recording may have begun already.
const KEPT: usize = 3;

/// Time for which no recording is searched again after none was found.
const END_KNOWN: Duration = Duration::from_secs(1);

/// Recordings in the order in which they are played.
pub(super) struct Chain {
    /// Number of the seek.
    pub(super) epoch: u32,
    pub(super) pieces: VecDeque<Piece>,
    pub(super) following: Following,
    /// Start of the newest recording passed over as unreadable, if there is one.
    pub(super) passed_us: Option<i64>,
}

/// The recording after the last one.
pub(super) enum Following {
    /// It is not opened yet.
    Unknown,
    Known(Opened),
    /// There was none at this time.
    End(Instant),
}

/// Recording at its place.
pub(super) struct Piece {
    /// The last reference to an image closes files, which no engine thread may wait for.
    pub(super) image: DropOnPool<Arc<Image>>,
    /// Time of its beginning, in microseconds since 1970.
    pub(super) start_us: i64,
    /// Number of its first segment within the chain.
    pub(super) first_segment: u32,
    pub(super) joined: Joined,
    /// Number of the recordings that follow each other without a gap, which have this one.
    part: u32,
}

/// Join of a recording to the one after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    /// It follows at once.
    Continuous,
    Gap,
    /// There is none.
    End,
}

/// Check of the recording after the last one.
pub(super) enum NextCheck {
    /// Its first segment can be read, or it is not opened yet.
    Readable,
    /// It is not known yet; the answer to the request for its first segment.
    Waiting(Load),
    /// Nothing of it can be read: another one is to be opened.
    PassedOver,
}

/// Segments of a recording behind one of them.
pub(super) enum Rest {
    None,
    /// The last one.
    Segment(Arc<Segment>),
    /// More than one.
    Long,
}

impl Chain {
    /// A chain that begins with a recording, at a time of the source.
    pub(super) fn new(
        epoch: u32,
        first: Opened,
        begin_us: u64,
        streams: &[StreamPlan],
        pool: &BlockingPool,
    ) -> Chain {
        let joined = Joined::first(&first.image, streams, begin_us);
        let piece = Piece::new(first, 0, joined, 0, pool);
        Chain { epoch, pieces: VecDeque::from([piece]), following: Following::Unknown, passed_us: None }
    }

    /// The recording that contains a segment, and whether it is the last one.
    pub(super) fn piece(&mut self, segment: u32) -> Option<(&mut Piece, bool)> {
        let index = self.pieces.iter().rposition(|piece| piece.first_segment <= segment)?;
        let is_last = index + 1 == self.pieces.len();
        self.pieces.get_mut(index).map(|piece| (piece, is_last))
    }

    /// Join of the recording that contains a segment to the one after it; none if that is not known yet.
    pub(super) fn join_after(&self, segment: u32) -> Option<Join> {
        let index = self.pieces.iter().rposition(|piece| piece.first_segment <= segment)?;
        let next_us = match (self.pieces.get(index + 1), &self.following) {
            (Some(next), _) => next.start_us,
            (None, Following::Known(next)) => next.start_us,
            (None, Following::End(_)) => return Some(Join::End),
            (None, Following::Unknown) => return None,
        };
        let is_gap = self.pieces.get(index)?.gap_us(next_us) > LEAST_GAP_US;
        Some(if is_gap { Join::Gap } else { Join::Continuous })
    }

    /// Passes over the recording after the last one if nothing of it can be read.
    pub(super) fn check_next(&mut self, waker: Option<&Waker>, pool: &BlockingPool) -> NextCheck {
        let Following::Known(next) = &self.following else { return NextCheck::Readable };
        match next.image.segment(0, waker) {
            Load::Ready(_) => return NextCheck::Readable,
            load @ (Load::Pending | Load::Busy) => return NextCheck::Waiting(load),
            Load::End | Load::Failed(_) => {}
        }
        self.passed_us = Some(next.start_us);
        if let Following::Known(next) = std::mem::replace(&mut self.following, Following::Unknown) {
            drop(DropOnPool::new(next.image, pool));
        }
        NextCheck::PassedOver
    }

    /// Forgets that no recording followed, if that was found some time ago. Returns whether it did: the next one is to
    /// be searched again.
    pub(super) fn forget_end(&mut self) -> bool {
        let is_old = matches!(self.following, Following::End(found) if found.elapsed() >= END_KNOWN);
        if is_old {
            self.following = Following::Unknown;
        }
        is_old
    }

    /// Start of the recording behind which the next one is searched.
    pub(super) fn end_us(&self) -> Option<i64> {
        Some(self.pieces.back()?.start_us.max(self.passed_us.unwrap_or(i64::MIN)))
    }

    /// The recording that is played at a time of the source.
    pub(super) fn piece_at(&self, source_us: u64) -> Option<&Piece> {
        self.pieces.iter().rfind(|piece| piece.joined.begin_us <= source_us).or(self.pieces.front())
    }

    /// Appends a recording after the last one, whose segments end before this number. The recording begins
    /// where the last one ends, or after its last packet if the rest cannot be read.
    pub(super) fn push(
        &mut self,
        next: Opened,
        segment: u32,
        gaps: Gaps,
        streams: &[StreamPlan],
        pool: &BlockingPool,
    ) {
        let Some(last) = self.pieces.back() else { return };
        self.passed_us = None;
        let length_us = last.joined.length_us(&last.image);
        let gap_us = last.gap_us(next.start_us);
        let is_gap = gap_us > LEAST_GAP_US;
        let held_us = if gaps == Gaps::Hold && is_gap { gap_us.unsigned_abs() } else { 0 };
        let part = last.part + u32::from(is_gap);
        let begin_us = last.joined.begin_us + length_us + held_us;
        let joined = last.joined.next(&next.image, streams, begin_us);
        if last.joined.is_untouched() && self.pieces.len() > 1 {
            self.pieces.pop_back();
        }
        self.pieces.push_back(Piece::new(next, segment, joined, part, pool));
        let first_segments = self.pieces.iter().map(|piece| piece.first_segment);
        let unread = unread(first_segments, segment).min(self.pieces.len().saturating_sub(KEPT));
        self.pieces.drain(..unread);
    }
}

/// Number of leading recordings that a playback which requests a segment no longer needs: it is at that
/// segment, or at the one before.
fn unread(first_segments: impl Iterator<Item = u32>, segment: u32) -> usize {
    first_segments.skip(1).take_while(|first| *first < segment).count()
}

impl Piece {
    fn new(opened: Opened, first_segment: u32, joined: Joined, part: u32, pool: &BlockingPool) -> Piece {
        let Opened { image, start_us } = opened;
        Piece { image: DropOnPool::new(image, pool), start_us, first_segment, joined, part }
    }

    /// Segments behind one of the recording; if that is not known yet the answer to the request for them, or
    /// none if they must be looked up again.
    pub(super) fn rest(&self, local: u32, waker: Option<&Waker>) -> Result<Rest, Option<Load>> {
        let has = |segment| match self.image.has_segment(segment) {
            Some(has) => Ok(has),
            None => {
                let load = self.image.segment(segment, waker);
                Err(matches!(load, Load::Pending | Load::Busy).then_some(load))
            }
        };
        if !has(local + 1)? {
            return Ok(Rest::None);
        }
        if has(local + 2)? {
            return Ok(Rest::Long);
        }
        match self.image.segment(local + 1, waker) {
            Load::Ready(last) => Ok(Rest::Segment(last)),
            load @ (Load::Pending | Load::Busy) => Err(Some(load)),
            // The recording ends early.
            Load::End | Load::Failed(_) => Ok(Rest::None),
        }
    }

    /// A segment of the recording with its wall clock, and with the ends of its streams if a gap or the end
    /// follows them.
    pub(super) fn with_clock(
        &self,
        mut given: Segment,
        streams: usize,
        join: Join,
        rest: &Rest,
    ) -> Arc<Segment> {
        if let Some(video) = self.image.scanned_track() {
            mark_pictures(&mut given.departures, video);
        }
        let mut ends = match join {
            Join::Continuous => Box::default(),
            Join::Gap | Join::End => ends(&given, streams),
        };
        if let Rest::Segment(last) = rest {
            for train in last.departures.iter().map(|departure| &departure.train) {
                if let Some(end) = ends.get_mut(usize::from(train.run.stream)) {
                    *end = None;
                }
            }
        }
        let zero_us = self.start_us.saturating_sub_unsigned(self.joined.begin_us);
        let clock = SegmentClock { zero_us, part: self.part, ends, is_terminal: join == Join::End };
        Arc::new(Segment { clock: Some(Box::new(clock)), ..given })
    }

    /// Time from the end of the recording to a time, in microseconds.
    fn gap_us(&self, next_us: i64) -> i64 {
        let length_us = self.joined.length_us(&self.image);
        next_us.saturating_sub(self.start_us.saturating_add_unsigned(length_us))
    }
}

/// Moves the mark of a start from sound to the picture that departs with it.
fn mark_pictures(departures: &mut [Departure], video: u8) {
    let mut is_due = false;
    for run in departures.iter_mut().map(|departure| &mut departure.train.run) {
        is_due |= run.start;
        run.start = is_due && run.stream == video;
        is_due &= !run.start;
    }
}

/// Timestamps of the last access unit of each stream in a segment.
fn ends(segment: &Segment, streams: usize) -> Box<[Option<u32>]> {
    let mut ends = vec![None; streams];
    for train in segment.departures.iter().map(|departure| &departure.train) {
        if let Some(end) = ends.get_mut(usize::from(train.run.stream)) {
            *end = Some(train.run.header(train.first + train.packets() - 1).timestamp);
        }
    }
    ends.into()
}

#[cfg(test)]
mod tests {
    use wirepath_datapath::Train;
    use wirepath_datapath::rtp::{Header, Run};

    use super::*;

    #[test]
    fn starts_are_marked_at_pictures() {
        let train = |stream, start| {
            let first = Header {
                padding: false,
                marker: false,
                payload_type: 96,
                sequence: 1,
                timestamp: 0,
                ssrc: 2,
            };
            let run = Run { stream, start, ..Run::new(first, 0) };
            let train =
                Train { offset: 0, length: 20, packet_size: 20, skip: 0, first: 0, packets_before: 0, run };
            Departure { at_us: 0, train }
        };
        let mut departures = [
            train(1, true),
            train(1, false),
            train(0, false),
            train(0, false),
            train(0, true),
            train(0, false),
        ];
        mark_pictures(&mut departures, 0);
        let marks = departures.map(|departure| departure.train.run.start);
        assert_eq!(marks, [false, false, true, false, true, false]);
    }

    #[test]
    fn recordings_stay_while_a_playback_may_be_in_them() {
        // Recordings of one segment each, then of none.
        assert_eq!(unread([0, 1, 2, 3].into_iter(), 3), 2);
        assert_eq!(unread([0, 5, 5, 5].into_iter(), 5), 0);
        assert_eq!(unread([0, 2, 5, 5].into_iter(), 5), 1);
        assert_eq!(unread([7].into_iter(), 7), 0);
    }
}
