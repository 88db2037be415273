//! Fast forward and rewind of a playback.

use super::PacedPlayback;
use crate::request::Pictures;
use crate::scan::NextPicture;
use crate::source::{Cursor, Departure};
use crate::thread_state::{Playing, ThreadState};
use crate::timetable::Timetable;

impl PacedPlayback {
    /// Position from which play continues: the current picture or, for fast forward and rewind, the next
    /// picture in their direction.
    pub(super) fn place_of(&self, pictures: Option<Pictures>) -> Option<Cursor> {
        let scanned = self.scan.as_ref().map(|scan| scan.place);
        let Some(Pictures { scale, .. }) = pictures.filter(|_| scanned.is_none()) else { return scanned };
        let rested_at_us = Some(self.left_at_us).filter(|left_at_us| *left_at_us > 0);
        let at_us = self.playhead.at_us().or(rested_at_us).unwrap_or(self.progress.position_us());
        let source = self.playhead.source();
        let ahead = (!scale.is_backward()).then(|| source.next_start(at_us)).flatten();
        let nearest = ahead.or_else(|| source.start_before(at_us)).or_else(|| source.next_start(0));
        Some(nearest.unwrap_or(Cursor::START))
    }

    /// Moves to the next picture, if the playback sends single pictures.
    pub(super) fn next_picture(&mut self, now_us: u64) -> NextPicture {
        let Some(scan) = &mut self.scan else { return NextPicture::End };
        if scan.is_new {
            return NextPicture::End; // there is nothing at its place
        }
        let next = scan.advance(self.playhead.source(), now_us);
        if next == NextPicture::Found {
            self.playhead.seek(scan.place);
        }
        next
    }

    /// Sets the timetable and the numbers for this departure, the first of a picture: it follows the last
    /// picture after the time that passes between both at the scale.
    pub(super) fn begin_picture(&mut self, departure: &Departure, thread: &ThreadState, burst_us: u64) {
        let Some(scan) = &mut self.scan else { return };
        let (clock_us, session_us) = scan.enter(departure.at_us);
        self.shift_us = session_us.wrapping_sub(departure.at_us) as i64;
        self.streams.seek(self.shift_us);
        let timetable = Timetable::placing(departure.at_us, clock_us, burst_us);
        self.playing = Some(Playing::new(timetable, &thread.counters));
    }
}
