//! Invariants of a round: nothing is lost, repeated, truncated, reordered or unaccounted for.

use std::collections::BTreeSet;

use wirepath_streams::{Late, OutputStatus, StreamEnd, StreamStatus};

use crate::record::{Found, assert_in_order, records};
use crate::web::{Outlet, Web};

impl Web<'_> {
    /// Checks that all bytes read are accounted for.
    pub(crate) fn check_account(&self, status: &StreamStatus) {
        assert!(status.bytes_in == 0 || !self.has_to_wait(), "it has begun without somebody: {status:?}");
        let elsewhere = status.bytes_pending + status.bytes_dropped + status.bytes_returned;
        let kept = |output: &OutputStatus| output.waiting_bytes + output.dropped.bytes;
        if self.mirror {
            // An output that leaves, or did not keep up, gets nothing more although it is still listed.
            let stays = |outlet: &Outlet| outlet.was_first && !outlet.has_left && !outlet.sink.disconnects;
            let has_all = |port| self.outlets.iter().any(|outlet| outlet.port == port && stays(outlet));
            for output in status.outputs.iter().filter(|output| has_all(output.port)) {
                assert_eq!(
                    status.bytes_in,
                    output.bytes + kept(output) + elsewhere,
                    "{output:?} of {status:?}"
                );
            }
        } else {
            let kept: u64 = status.outputs.iter().map(kept).sum();
            let dropped: u64 = status.ended_outputs.iter().map(|ended| ended.dropped.bytes).sum();
            assert_eq!(status.bytes_in, status.bytes_out + kept + dropped + elsewhere, "{status:?}");
        }
    }

    /// Checks that records arrived in order, and that missing ones were reported.
    pub(crate) fn verify(&mut self, end: &StreamEnd) {
        let StreamEnd { result, status } = end;
        self.check_account(status);
        for Outlet { sink, port, has_left, is_gone, .. } in &mut self.outlets {
            let known = status.outputs.iter().find(|output| output.port == *port).map(|output| output.bytes);
            let ended = status.ended_outputs.iter().find(|ended| ended.port == *port);
            assert!(
                ended.is_some() || !*is_gone || result.is_err(),
                "{} was said to be gone, and is not",
                sink.name
            );
            sink.read_to_end(known.or(ended.map(|ended| ended.bytes)).unwrap());
            let Some(ended) = ended else { continue };
            let is_slow = ended.why_gone.as_deref() == Some("it did not keep up");
            assert!(!is_slow || sink.disconnects, "{} was let go of against its rule", sink.name);
            if is_slow {
                self.tally.note("fault: an output that does not keep up");
            } else if !*has_left && let Some(store) = sink.store() {
                self.tally.note(store);
            }
            sink.is_broken |= ended.why_gone.as_deref() != Some("it was detached");
        }
        if result.is_err() {
            self.outlets.iter_mut().for_each(|outlet| outlet.sink.is_broken = true);
        }
        let lists: Vec<Vec<Found>> = self.outlets.iter().map(|outlet| outlet.records()).collect();
        for (outlet, list) in self.outlets.iter().zip(&lists) {
            let has_gaps = self.tags.is_some() || !self.mirror || outlet.sink.drops;
            assert_in_order(&outlet.sink.name, list, has_gaps);
            self.check_tags(outlet, list, end);
        }
        self.check_watchers(&lists, end);
        if self.mirror { self.verify_mirror(&lists, end) } else { self.verify_spread(&lists, end) }
    }

    fn check_tags(&self, outlet: &Outlet, list: &[Found], end: &StreamEnd) {
        let late = end.status.merge.map_or(0, |counts| counts.late);
        if self.tags == Some(Late::Drop) || self.tags.is_some() && late == 0 {
            assert!(list.is_sorted_by(|one, next| one.tag < next.tag), "{}: not by tag", outlet.sink.name);
        }
    }

    /// Checks that all outputs have the same records in the same order; outputs that were attached later,
    /// left, broke or were full have a part of them.
    fn verify_mirror(&mut self, lists: &[Vec<Found>], end: &StreamEnd) {
        let is_whole = |outlet: &Outlet| outlet.was_first && !outlet.has_left && !outlet.sink.drops;
        let whole = self.outlets.iter().zip(lists).filter(|(outlet, _)| is_whole(outlet));
        let reference = whole.map(|(_, list)| list).max_by_key(|list| list.len()).unwrap();
        let has_all = |outlet: &Outlet| is_whole(outlet) && !outlet.sink.is_broken;
        let is_complete = end.result.is_ok() && self.outlets.iter().any(has_all);
        for (outlet, list) in self.outlets.iter().zip(lists) {
            let name = &outlet.sink.name;
            if outlet.sink.drops {
                let mut rest = reference.iter();
                let is_part = list.iter().all(|found| rest.any(|other| other == found));
                assert!(is_part || !is_complete, "{name} has other records than another, or another order");
            } else if let Some(first) = list.first() {
                let begin = reference.iter().position(|other| other == first);
                assert!(begin.is_some() || !is_complete, "{name}: {first:?} is nowhere else");
                let begin = begin.unwrap_or(reference.len());
                assert!(!outlet.was_first || begin == 0, "{name} lacks the beginning");
                let same = reference[begin..].iter().zip(list).all(|(one, other)| one == other);
                assert!(same, "{name} has other records than another, or another order");
            }
            if is_complete {
                check_what_is_missing(outlet, list, reference, end);
            }
        }
        self.check_feeds(&reference.iter().collect::<Vec<_>>(), end, is_complete, 0);
    }

    /// Checks that every record is at one sink, or reported as dropped.
    fn verify_spread(&mut self, lists: &[Vec<Found>], end: &StreamEnd) {
        let all: Vec<&Found> = lists.iter().flatten().collect();
        let once: BTreeSet<(u32, u32)> = all.iter().map(|found| (found.feed, found.index)).collect();
        assert_eq!(once.len(), all.len(), "a record came twice");
        let dropped_here = end.status.outputs.iter().map(|output| output.dropped.records);
        let dropped_before = end.status.ended_outputs.iter().map(|ended| ended.dropped.records);
        let dropped: u64 = dropped_here.chain(dropped_before).sum();
        let lossy = self.outlets.iter().any(|outlet| outlet.sink.is_broken);
        if !lossy {
            let received: usize = self.outlets.iter().map(|outlet| outlet.sink.bytes.len()).sum();
            assert_eq!(received as u64, end.status.bytes_out, "{:?}", end.status);
            self.check_feeds(&all, end, end.result.is_ok(), dropped);
        }
    }

    /// Checks that feeds that were not reset are complete except for dropped records, and that of reset feeds
    /// the beginning is there.
    fn check_feeds(&self, found: &[&Found], end: &StreamEnd, is_complete: bool, dropped: u64) {
        let late = end.status.merge.filter(|_| self.tags == Some(Late::Drop)).map_or(0, |counts| counts.late);
        let missing_is_said = dropped + late > 0;
        let mut missing = 0;
        for (number, feed) in (0..).zip(&self.feeds) {
            let indexes: BTreeSet<u32> =
                found.iter().filter(|found| found.feed == number).map(|found| found.index).collect();
            let is_whole = !feed.was_reset && is_complete;
            let until = if is_whole { feed.records } else { indexes.last().map_or(0, |last| last + 1) };
            let gaps = u64::from(until) - indexes.len() as u64;
            assert!(gaps == 0 || missing_is_said, "{gaps} records of feed {number} of {until} are missing");
            missing += gaps;
        }
        if is_complete && !self.feeds.iter().any(|feed| feed.was_reset) {
            assert_eq!(missing, dropped + late, "records are missing, and another number is said to be");
        }
    }
}

impl Outlet {
    fn records(&self) -> Vec<Found> {
        let (found, cut) = records(&self.sink.name, &self.sink.bytes);
        assert!(cut == 0 || self.sink.is_broken, "{} has {cut} bytes of a record", self.sink.name);
        found
    }
}

/// For a mirror that ended well: checks that the records missing at a remaining output match the reported
/// number of records and bytes.
fn check_what_is_missing(outlet: &Outlet, list: &[Found], reference: &[Found], end: &StreamEnd) {
    let name = &outlet.sink.name;
    let known = end.status.outputs.iter().find(|output| output.port == outlet.port);
    let Some(known) = known.filter(|_| !outlet.sink.is_lossy) else { return };
    let bytes = |list: &[Found]| list.iter().map(|found| found.bytes as u64).sum::<u64>();
    // An output attached later has no earlier records, and none of those was counted as dropped for it.
    let missing = (reference.len() - list.len()).checked_sub(known.dropped.records as usize);
    let before = missing.unwrap_or_else(|| panic!("{name} lacks fewer records than were dropped: {known:?}"));
    assert!(
        before == 0 || !outlet.was_first,
        "{name} lacks {before} records that were not dropped: {known:?}"
    );
    let theirs = &reference[before..];
    assert_eq!(bytes(theirs), bytes(list) + known.dropped.bytes, "{name}: {known:?}");
    if let Some(first) = list.first() {
        assert!(theirs.contains(first), "{name} has more than was dropped before: {known:?}");
    }
}
