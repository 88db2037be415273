//! Recordings that a session plays one after another since its last seek, with continuing numbers.

use std::collections::VecDeque;
use std::sync::Arc;

use wirepath_engine::{BlockingPool, DropOnPool};
use wirepath_media::image::StreamPlan;
use wirepath_playback::Segment;

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

/// Recordings in the order in which they are played.
pub(super) struct Chain {
    /// Number of the seek.
    pub(super) epoch: u32,
    pub(super) pieces: VecDeque<Piece>,
    pub(super) following: Following,
}

/// The recording after the last one.
pub(super) enum Following {
    /// It is not opened yet.
    Unknown,
    Known(Opened),
    /// There is none.
    End,
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
        let piece = Piece::new(first, 0, Joined::first(streams, begin_us), pool);
        Chain { epoch, pieces: VecDeque::from([piece]), following: Following::Unknown }
    }

    /// The recording that contains a segment, and whether it is the last one.
    pub(super) fn piece(&mut self, segment: u32) -> Option<(&mut Piece, bool)> {
        let index = self.pieces.iter().rposition(|piece| piece.first_segment <= segment)?;
        let is_last = index + 1 == self.pieces.len();
        self.pieces.get_mut(index).map(|piece| (piece, is_last))
    }

    /// The recording that is played at a time of the source.
    pub(super) fn piece_at(&self, source_us: u64) -> Option<&Piece> {
        self.pieces.iter().rfind(|piece| piece.joined.begin_us <= source_us).or(self.pieces.front())
    }

    /// Appends a recording after the last one, whose segments end before this number. The recording begins
    /// where the last one ends, or after its last packet if the rest cannot be read.
    pub(super) fn push(&mut self, next: Opened, segment: u32, gaps: Gaps, pool: &BlockingPool) {
        let Some(last) = self.pieces.back() else { return };
        let length_us = last.joined.length_us(&last.image);
        let gap_us = next.start_us.saturating_sub(last.start_us.saturating_add_unsigned(length_us));
        let held_us = if gaps == Gaps::Hold && gap_us > LEAST_GAP_US { gap_us.unsigned_abs() } else { 0 };
        let joined = last.joined.next(last.joined.begin_us + length_us + held_us);
        if last.joined.is_untouched() && self.pieces.len() > 1 {
            self.pieces.pop_back();
        }
        self.pieces.push_back(Piece::new(next, segment, joined, pool));
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
    fn new(opened: Opened, first_segment: u32, joined: Joined, pool: &BlockingPool) -> Piece {
        let Opened { image, start_us } = opened;
        Piece { image: DropOnPool::new(image, pool), start_us, first_segment, joined }
    }

    /// A segment of the recording, at its position in the chain.
    pub(super) fn give(
        &mut self,
        segment: &Arc<Segment>,
        local: u32,
        streams: &[StreamPlan],
    ) -> Arc<Segment> {
        self.joined.give(&self.image, segment, local, streams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_stay_while_a_playback_may_be_in_them() {
        // Recordings of one segment each, then of none.
        assert_eq!(unread([0, 1, 2, 3].into_iter(), 3), 2);
        assert_eq!(unread([0, 5, 5, 5].into_iter(), 5), 0);
        assert_eq!(unread([0, 2, 5, 5].into_iter(), 5), 1);
        assert_eq!(unread([7].into_iter(), 7), 0);
    }
}
