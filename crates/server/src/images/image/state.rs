//! The changing state of an image, behind its lock.

use std::collections::HashMap;
use std::ops::RangeBounds;
use std::time::{Duration, Instant};

use wirepath_engine::Waker;
use wirepath_media::image::{Identity, SegmentEntry, Start};
use wirepath_media::pack::Packed;

use crate::images::segment::Files;
use crate::images::slot::Slot;
use crate::images::summary::Summary;

/// Contents of an image.
pub(super) struct State {
    /// Number of times that the image started over because it was damaged. Readers and packers name their
    /// generation, so that results for an older one change nothing.
    pub(super) generation: u32,
    /// Number of times that the image switched to other files. Each segment stores the number with which it
    /// was read.
    pub(super) edition: u64,
    pub(super) files: Option<Files>,
    pub(super) slots: Vec<Slot>,
    /// The index, while packets are sent from an image that was made from it.
    pub(super) index: Option<(Files, Vec<SegmentEntry>)>,
    /// Time at which a playback could begin.
    pub(super) begun: Option<Instant>,
    /// Positions of playbacks, ordered by the time at which they reach the end of the packed part, the
    /// earliest first. Positions of about the same time are merged.
    pub(super) places: Vec<PlaybackPlace>,
    pub(super) starts: Vec<Start>,
    pub(super) summary: Summary,
    /// Present for a file to which a recorder appends while it is packed.
    pub(super) recording: Option<Recording>,
    /// Wakers of playbacks with the number of the segment that each waits for, at most one for each playback.
    pub(super) waiters: HashMap<Waker, u32>,
}

/// Recording that is packed as it grows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recording {
    /// Last version of which the packer knows.
    pub(super) identity: Identity,
    /// Packed part, once all that the file had was packed.
    pub(super) packed: Option<Packed>,
    /// True if the file has changed since then.
    pub(super) is_behind: bool,
    /// True if its recorder has begun another file.
    pub(super) has_successor: bool,
}

impl Recording {
    /// Packed part, if that is all that the file has.
    pub(super) fn all_packed(&self) -> Option<Packed> {
        self.packed.filter(|_| !self.is_behind)
    }
}

/// Place of a playback at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaybackPlace {
    segment: u32,
    /// Time at which the playback reaches the beginning of the segment.
    at: Instant,
}

/// Time after which a playback that has not reached the next segment is considered paused or ended.
const LATEST: Duration = Duration::from_secs(1);

/// Largest difference between two estimates of one playback's times.
const JITTER: Duration = Duration::from_millis(100);

/// Most positions that are kept. If there are more playbacks, those that reach the end later are noted at a
/// later segment, when the first ones have gone.
const MOST_PLACES: usize = 32;

impl State {
    /// Time at which the first playback will need more than is packed, as far as known; none if none plays.
    pub(super) fn played_until(&self, now: Instant) -> Option<Instant> {
        let first = self.places.iter().find(|place| self.is_playing(**place, now))?;
        self.end_of(*first)
    }

    /// Notes the time at which a playback reaches a segment. Returns whether more is now needed sooner.
    pub(super) fn note_playback(&mut self, segment: u32, at: Instant, now: Instant) -> bool {
        let place = PlaybackPlace { segment, at };
        let (Some(new), before) = (self.end_of(place), self.played_until(now)) else { return false };
        let mut places = std::mem::take(&mut self.places);
        places.retain(|place| {
            let end = self.end_of(*place).filter(|_| self.is_playing(*place, now));
            end.is_some_and(|end| end + JITTER < new || new + JITTER < end)
        });
        let later = places.partition_point(|place| self.end_of(*place).is_some_and(|end| end <= new));
        places.insert(later, place);
        places.truncate(MOST_PLACES);
        self.places = places;
        before.is_none_or(|before| new + JITTER < before)
    }

    /// Returns whether a playback may still be at this position or after it. The end of the last segment is
    /// unknown.
    fn is_playing(&self, place: PlaybackPlace, now: Instant) -> bool {
        let departures = self.departure(place.segment).zip(self.departure(place.segment + 1));
        departures.is_none_or(|(begin, end)| now <= place.at + end.saturating_sub(begin) + LATEST)
    }

    /// Time at which a playback reaches the end of the packed part.
    fn end_of(&self, place: PlaybackPlace) -> Option<Instant> {
        let last = self.slots.last()?.entry.first_departure_us;
        Some(place.at + Duration::from_micros(last).saturating_sub(self.departure(place.segment)?))
    }

    /// Time of the first departure of a segment.
    pub(super) fn departure(&self, segment: u32) -> Option<Duration> {
        self.slots.get(segment as usize).map(|slot| Duration::from_micros(slot.entry.first_departure_us))
    }

    /// The state of an empty image.
    pub(super) fn new(summary: Summary) -> State {
        State {
            generation: 0,
            edition: 0,
            files: None,
            slots: Vec::new(),
            index: None,
            begun: None,
            places: Vec::new(),
            starts: Vec::new(),
            summary,
            recording: None,
            waiters: HashMap::new(),
        }
    }

    /// Takes out the wakers of these segments; the caller wakes them without holding a lock.
    #[must_use]
    pub(super) fn take_wakers(&mut self, segments: impl RangeBounds<u32>) -> Vec<Waker> {
        self.waiters.extract_if(|_, segment| segments.contains(segment)).map(|(waker, _)| waker).collect()
    }

    /// Takes out all references to the files; the caller drops them where that may block.
    pub(super) fn empty(&mut self) -> (Option<Files>, Vec<Slot>) {
        self.starts.clear();
        (self.files.take(), std::mem::take(&mut self.slots))
    }

    /// Replaces the files by others with the same segments; returns the old ones. Playbacks keep the segments
    /// that they have; the caller wakes the wakers.
    pub(super) fn replace(
        &mut self,
        files: Files,
        entries: &[SegmentEntry],
        verified: bool,
    ) -> Option<(Files, Vec<SegmentEntry>)> {
        self.edition += 1;
        let slots = entries.iter().map(|entry| Slot::new(*entry, verified)).collect();
        let before = std::mem::replace(&mut self.slots, slots);
        let entries = before.iter().map(|slot| slot.entry).collect();
        self.files.replace(files).map(|files| (files, entries))
    }
}
