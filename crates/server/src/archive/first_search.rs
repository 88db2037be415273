//! Search for the first recording of an archive that can be played. Requests continue it, one at a time.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::recordings::Recordings;
use crate::formats::Formats;

/// Time after which recordings that were passed over because reading failed are tried again, though a later
/// one was found.
const READ_AGAIN: Duration = Duration::from_secs(60);

/// State of the search, for one version of the folder and its formats.
#[derive(Clone, Debug)]
pub(super) struct FirstSearch {
    recordings: Weak<Recordings>,
    like: Option<Arc<Formats>>,
    /// Recordings that begin before this time, in microseconds since 1970, cannot be played.
    next_us: i64,
    /// Start of the first recording that was passed over, though it may be played later, and the time of that.
    passed_over: Option<(i64, Instant)>,
    is_found: bool,
}

impl Default for FirstSearch {
    fn default() -> FirstSearch {
        FirstSearch {
            recordings: Weak::new(),
            like: None,
            next_us: i64::MIN,
            passed_over: None,
            is_found: false,
        }
    }
}

impl FirstSearch {
    /// Continues among these recordings. Starts over for other formats, and for another version of the folder
    /// once a recording was found: until then, each change of the folder would start a long search over.
    pub(super) fn resume(&mut self, recordings: &Arc<Recordings>, like: Option<&Arc<Formats>>, now: Instant) {
        let is_same = std::ptr::eq(self.recordings.as_ptr(), Arc::as_ptr(recordings));
        if self.like.as_ref() != like || (self.is_found && !is_same) {
            *self = FirstSearch::default();
        }
        let passed_over = self.passed_over.filter(|(_, at)| now.duration_since(*at) >= READ_AGAIN);
        if let Some((start_us, _)) = passed_over.filter(|_| self.is_found) {
            (self.next_us, self.passed_over, self.is_found) = (start_us, None, false);
        }
        (self.recordings, self.like) = (Arc::downgrade(recordings), like.cloned());
    }

    /// Formats of the recordings that are searched, if known.
    pub(super) fn like(&self) -> Option<Arc<Formats>> {
        self.like.clone()
    }

    /// Time before which no recording that can be played begins, in microseconds since 1970.
    pub(super) fn next_us(&self) -> i64 {
        self.next_us
    }

    /// Notes that the recording of this start is the first one.
    pub(super) fn note_found(&mut self, start_us: i64) {
        (self.next_us, self.is_found) = (start_us, true);
    }

    /// Notes that the recording of this start cannot be played.
    pub(super) fn pass(&mut self, start_us: i64) {
        self.next_us = start_us.saturating_add(1);
    }

    /// Notes that the recording of this start cannot be played at present.
    pub(super) fn pass_over(&mut self, start_us: i64, now: Instant) {
        self.passed_over.get_or_insert((start_us, now));
        self.pass(start_us);
    }

    /// Ends without a recording: the next search begins with those that were passed over, or with all. Returns
    /// whether there were any.
    pub(super) fn end(&mut self) -> bool {
        let passed_over = self.passed_over.take();
        self.next_us = passed_over.map_or(i64::MIN, |(start_us, _)| start_us);
        passed_over.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_continues_until_it_found_a_recording() {
        let (folder, now) = (Arc::new(Recordings::default()), Instant::now());
        let mut search = FirstSearch::default();
        search.resume(&folder, None, now);
        search.pass(10);
        let changed = Arc::new(Recordings::default());
        search.resume(&changed, None, now);
        assert_eq!(search.next_us(), 11, "an unfinished search continues after a change of the folder");
        search.note_found(20);
        search.resume(&changed, None, now);
        assert_eq!(search.next_us(), 20);
        search.resume(&folder, None, now);
        assert_eq!(search.next_us(), i64::MIN, "earlier recordings may be new");
        search.note_found(20);
        let like = Arc::new(Formats::of(&wirepath_media::image::Description::default()));
        search.resume(&folder, Some(&like), now);
        assert_eq!(search.next_us(), i64::MIN, "other formats");
    }

    #[test]
    fn recordings_that_were_passed_over_are_tried_again() {
        let (folder, now) = (Arc::new(Recordings::default()), Instant::now());
        let mut search = FirstSearch::default();
        search.resume(&folder, None, now);
        search.pass(5);
        search.pass_over(10, now);
        search.pass_over(15, now);
        search.note_found(20);
        search.resume(&folder, None, now + READ_AGAIN / 2);
        assert_eq!(search.next_us(), 20);
        search.resume(&folder, None, now + READ_AGAIN);
        assert_eq!(search.next_us(), 10);
        search.pass_over(10, now);
        assert!(search.end());
        assert_eq!(search.next_us(), 10);
        search.pass(10);
        assert!(!search.end());
        assert_eq!(search.next_us(), i64::MIN);
    }
}
