//! Fast forward and rewind: the pictures of a stream that can be decoded alone, in the direction of play.
//! Each is sent as recorded, and follows the last one after the time given by the [`Scale`].

use crate::request::Pictures;
use crate::source::{Cursor, TrainSource};

/// A playback at another scale than the normal one.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) pictures: Pictures,
    /// End of the range as recorded; for backward play, its earliest time.
    until_us: Option<u64>,
    /// The first picture, once its first packet is known.
    first: Option<First>,
    /// Position of the current or next picture.
    pub(crate) place: Cursor,
    /// Place of the picture before.
    last_place: Cursor,
    /// Departure of that picture as recorded, or of the previous one until its first packet is known.
    picture_us: u64,
    /// True until its first packet is known.
    pub(crate) is_new: bool,
    /// Bytes of that picture sent so far.
    bytes: u64,
}

/// Least time from the last picture of a scan to the next packet after the scan.
const PICTURE_US: u64 = 40_000;

/// The first picture of a scan.
#[derive(Clone, Copy, Debug)]
struct First {
    /// Departure as recorded.
    source_us: u64,
    /// Time of CLOCK_MONOTONIC at which it leaves.
    clock_us: u64,
    /// Its time in the session's timestamps.
    session_us: u64,
}

/// Next picture of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextPicture {
    /// The scan is there now.
    Found,
    /// The source is still growing, and has no picture yet.
    NotYet,
    End,
}

impl Scan {
    /// A scan that begins at a position, and ends at the end of a range or of the source.
    pub(crate) fn new(pictures: Pictures, place: Cursor, until_us: Option<u64>) -> Scan {
        let (first, last_place) = (None, place);
        Scan { pictures, until_us, first, place, last_place, picture_us: 0, is_new: true, bytes: 0 }
    }

    /// Notes the first packet of the first picture.
    pub(crate) fn begin(&mut self, source_us: u64, clock_us: u64, session_us: u64) {
        self.first = Some(First { source_us, clock_us, session_us });
        (self.picture_us, self.is_new) = (source_us, false);
    }

    /// Notes the first packet of a further picture, with its recorded departure. Returns the time of
    /// CLOCK_MONOTONIC at which it leaves, and its time in the session's timestamps: both advance equally.
    pub(crate) fn enter(&mut self, source_us: u64) -> (u64, u64) {
        (self.picture_us, self.is_new, self.bytes) = (source_us, false, 0);
        let Some(first) = self.first else { return (0, source_us) };
        let time_us = self.pictures.scale.time_us(first.source_us.abs_diff(source_us));
        (first.clock_us + time_us, first.session_us.wrapping_add(time_us))
    }

    /// Notes bytes that were sent.
    pub(crate) fn note_sent(&mut self, bytes: u32) {
        self.bytes += u64::from(bytes);
    }

    /// Recorded departure of the last sent picture.
    pub(crate) fn picture_us(&self) -> Option<u64> {
        self.first.map(|_| self.picture_us)
    }

    /// Time in the session's timestamps of the next packet after the scan: later than the last picture's by
    /// the time that has passed since.
    pub(crate) fn left_us(&self, now_us: u64) -> Option<u64> {
        let first = self.first?;
        let picture_us = self.pictures.scale.time_us(first.source_us.abs_diff(self.picture_us));
        let passed_us = now_us.saturating_sub(first.clock_us + picture_us);
        Some(self.picture_us.saturating_add(passed_us.max(PICTURE_US)))
    }

    /// Returns whether a picture with this recorded departure is after the end of the range.
    pub(crate) fn is_over(&self, source_us: u64) -> bool {
        let Some(until_us) = self.until_us else { return false };
        if self.pictures.scale.is_backward() { source_us < until_us } else { source_us >= until_us }
    }

    /// Returns to the last sent picture from a picture that is not sent.
    pub(crate) fn return_to_last(&mut self) {
        (self.place, self.is_new) = (self.last_place, false);
    }

    /// Moves to the next picture: the first one that is not due before this one has been sent at the source's
    /// bit rate, and that is not late already.
    pub(crate) fn advance(&mut self, source: &dyn TrainSource, now_us: u64) -> NextPicture {
        let Some(first) = self.first else { return NextPicture::End };
        let Pictures { scale, bits_per_second, .. } = self.pictures;
        let due_us = scale.time_us(first.source_us.abs_diff(self.picture_us));
        let takes_us = self.bytes.saturating_mul(8_000_000) / bits_per_second.max(1);
        let earliest_us = due_us.saturating_add(takes_us).max(now_us.saturating_sub(first.clock_us));
        let distance_us = scale.source_us(earliest_us);
        let place = if scale.is_backward() {
            // The picture at the beginning is the last one, even if it is late.
            let at_us = first.source_us.saturating_sub(distance_us);
            let before_us = self.picture_us.checked_sub(1);
            let earlier = before_us.and_then(|before_us| source.start_before(at_us.min(before_us)));
            earlier.or_else(|| source.next_start(0))
        } else {
            source.next_start(first.source_us.saturating_add(distance_us).max(self.picture_us + 1))
        };
        match place {
            Some(place) if place != self.place => {
                (self.last_place, self.place, self.is_new) = (self.place, place, true);
                NextPicture::Found
            }
            None if !scale.is_backward() && source.is_growing() => NextPicture::NotYet,
            _ => NextPicture::End,
        }
    }
}

#[cfg(test)]
mod tests;
