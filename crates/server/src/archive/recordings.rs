//! Recordings of an archive, ordered by the times in their names.

use std::sync::Arc;

/// A recording.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Recording {
    /// Time of its beginning, in microseconds since 1970.
    pub(crate) start_us: i64,
    /// Name of the file, with its folders in the archive.
    pub(crate) name: Arc<[u8]>,
}

/// Recordings, by their times.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Recordings(Vec<Recording>);

impl Recordings {
    /// Sorts recordings. Of several with one time, the first by name is taken.
    pub(crate) fn of(mut recordings: Vec<Recording>) -> Recordings {
        // The recordings of each folder are sorted already, which this sort uses.
        recordings.sort();
        recordings.dedup_by_key(|recording| recording.start_us);
        Recordings(recordings)
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[Recording] {
        &self.0
    }

    /// Recordings that begin at or after a time.
    pub(crate) fn since(&self, time_us: i64) -> &[Recording] {
        let before = self.0.partition_point(|recording| recording.start_us < time_us);
        self.0.get(before..).unwrap_or_default()
    }

    /// Recordings that begin at or before a time.
    pub(crate) fn up_to(&self, time_us: i64) -> &[Recording] {
        let behind = self.0.partition_point(|recording| recording.start_us <= time_us);
        self.0.get(..behind).unwrap_or_default()
    }

    /// The first recording that begins after a time.
    pub(crate) fn after(&self, time_us: i64) -> Option<&Recording> {
        self.0.get(self.0.partition_point(|recording| recording.start_us <= time_us))
    }

    /// Recordings that may overlap a range of time. All begin before `to_us`; the first may end before
    /// `from_us`.
    pub(crate) fn between(&self, from_us: i64, to_us: i64) -> &[Recording] {
        let first = self.0.partition_point(|recording| recording.start_us <= from_us).saturating_sub(1);
        let end = self.0.partition_point(|recording| recording.start_us < to_us);
        self.0.get(first..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NamePattern, TimeZone};
    use super::*;
    use proptest::prelude::*;

    fn of(names: impl IntoIterator<Item = String>) -> Recordings {
        let pattern = NamePattern::parse("%s", TimeZone::Utc).unwrap();
        let recording = |name: String| {
            let start_us = pattern.time_us(name.as_bytes())?;
            Some(Recording { start_us, name: name.into_bytes().into() })
        };
        Recordings::of(names.into_iter().filter_map(recording).collect())
    }

    #[test]
    fn names_that_do_not_match_are_left_out() {
        let recordings = of(["20.ts", "10.mp4", "10.ts", "x.ts", "15.txt", ".ts", "30"].map(str::to_owned));
        let names: Vec<&[u8]> = recordings.all().iter().map(|recording| &*recording.name).collect();
        assert_eq!(names, [b"10.mp4", &b"20.ts"[..]]);
    }

    /// Promise: An archive of 100,000 recordings is sorted once, and then found by binary search.
    #[test]
    fn a_hundred_thousand_names_are_found() {
        let recordings = of((0..100_000).rev().map(|number| format!("{}.ts", 60 * number)));
        assert_eq!(recordings.all().len(), 100_000);
        let minute = |number: i64| 60_000_000 * number;
        assert_eq!(recordings.up_to(minute(50_000) + 5).len(), 50_001);
        assert_eq!(recordings.after(minute(99_999)), None);
        assert_eq!(recordings.between(minute(700) - 1, minute(800)).len(), 101);
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_a_search_of_all_finds(
            times in prop::collection::btree_set(0_i64..1000, 0..50), time in 0_i64..1000, length in 0_i64..500,
        ) {
            let recordings = of(times.iter().map(|time| format!("{time}.ts")));
            let second = 1_000_000;
            let start = |recording: Option<&Recording>| recording.map(|found| found.start_us / second);
            let before = times.iter().copied().rfind(|start| *start <= time);
            prop_assert_eq!(start(recordings.up_to(time * second).last()), before);
            let after = times.iter().copied().find(|start| *start > time);
            prop_assert_eq!(start(recordings.after(time * second)), after);
            let from = before.unwrap_or(i64::MIN);
            let expected: Vec<i64> =
                times.iter().copied().filter(|start| (from..time + length).contains(start)).collect();
            let found = recordings.between(time * second, (time + length) * second);
            let found: Vec<i64> = found.iter().map(|recording| recording.start_us / second).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
