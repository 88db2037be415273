//! Checks that handlers that were added to a running stream saw all records while they were in force, in
//! order, and from the record's beginning, and that their changes are in the records that they saw.

use std::collections::{BTreeMap, BTreeSet};

use wirepath_streams::{HandlerStatus, StreamEnd};

use super::handlers::{Span, Watcher};
use super::{Outlet, Web};
use crate::mask::Mask;
use crate::record::{Found, assert_in_order, records};

impl Web<'_> {
    pub(crate) fn check_watchers(&self, lists: &[Vec<Found>], end: &StreamEnd) {
        let seen: Vec<Vec<Found>> =
            self.watchers.iter().map(|watcher| self.check_watcher(watcher, lists, end)).collect();
        for (outlet, list) in self.outlets.iter().zip(lists) {
            self.check_masks(outlet, list, &seen);
        }
    }

    /// The records that a handler saw.
    fn check_watcher(&self, watcher: &Watcher, lists: &[Vec<Found>], end: &StreamEnd) -> Vec<Found> {
        let is_it = |outlet: &&Outlet| watcher.port == Some(outlet.port);
        let outlet = self.outlets.iter().find(is_it);
        let of = outlet.map(|outlet| &outlet.sink);
        let name = of.map_or("a handler".to_owned(), |sink| format!("a handler of {}", sink.name));
        assert!(watcher.seen.is_from_beginning(), "{name} saw the rest of a record");
        let (seen, cut) = records(&name, &watcher.seen.bytes());
        let may_be_cut = end.result.is_err() || of.is_some_and(|sink| sink.is_broken);
        assert!(cut == 0 || may_be_cut, "{name} saw {cut} bytes of a record");
        // Records are dropped for an output only after its handlers.
        let has_gaps = self.tags.is_some() || !(self.mirror || of.is_none()) || watcher.below.is_some();
        assert_in_order(&name, &seen, has_gaps);
        for (outlet, list) in self.outlets.iter().zip(lists) {
            if watcher.port.is_none_or(|port| port == outlet.port) {
                watcher.check_spans(&seen, list, &outlet.sink.name);
            }
        }
        if end.result.is_ok() {
            watcher.check_state(outlet, &name, end);
        }
        seen
    }

    /// Checks that each record was changed by the handlers that saw it and by no other: twice is not at all.
    fn check_masks(&self, outlet: &Outlet, list: &[Found], seen: &[Vec<Found>]) {
        let mut masked: BTreeMap<(u32, u32), bool> = BTreeMap::new();
        let masks = |watcher: &Watcher| {
            watcher.seen.mask != Mask::Nothing && watcher.port.is_none_or(|port| port == outlet.port)
        };
        for (_, seen) in self.watchers.iter().zip(seen).filter(|(watcher, _)| masks(watcher)) {
            seen.iter().for_each(|found| *masked.entry((found.feed, found.index)).or_default() ^= true);
        }
        for found in list {
            let is_masked = masked.get(&(found.feed, found.index)).copied().unwrap_or(false);
            assert_eq!(found.is_masked, is_masked, "{}: {found:?} is changed, or is not", outlet.sink.name);
        }
    }
}

impl Watcher {
    /// Checks the records of an output against those that the handler saw, in each time in which it was in
    /// force.
    fn check_spans(&self, seen: &[Found], got: &[Found], name: &str) {
        let mut offset = 0;
        let placed: Vec<(usize, Found)> = seen
            .iter()
            .map(|found| {
                offset += found.bytes;
                (offset - found.bytes, *found)
            })
            .collect();
        let starts = self.seen.starts();
        for (number, span) in self.spans.iter().enumerate() {
            let until = starts.get(number + 1).copied().unwrap_or(usize::MAX);
            let in_span = |(offset, _): &&(usize, Found)| (starts[number]..until).contains(offset);
            let seen: Vec<Found> = placed.iter().filter(in_span).map(|(_, found)| *found).collect();
            span.check(&seen, got, name);
        }
    }

    /// Checks that the handler has left the stream, or is there and in force as its trust says.
    fn check_state(&self, outlet: Option<&Outlet>, name: &str, end: &StreamEnd) {
        let handlers: &[HandlerStatus] = match outlet {
            None => &end.status.handlers,
            Some(outlet) => {
                let known = end.status.outputs.iter().find(|output| output.port == outlet.port);
                let Some(known) = known else { return };
                assert_eq!(known.trust, outlet.trust, "{}", outlet.sink.name);
                &known.handlers
            }
        };
        let status = handlers.iter().find(|status| status.id == self.id);
        assert_eq!(self.seen.is_removed(), self.is_leaving, "{name} was removed, or is still there");
        assert_eq!(status.is_some(), !self.is_leaving, "{name} is in the status, or is not");
        let is_over = self.spans.last().is_some_and(|span| span.is_over);
        assert!(status.is_none_or(|status| status.is_in_force != is_over), "{name}: {status:?}");
    }
}

impl Span {
    /// Checks that records of an output were seen from some record on, in the same order, including all
    /// records that were made after the handler came into force; to the last record that was seen, if the
    /// handler is no longer in force.
    fn check(&self, seen: &[Found], got: &[Found], name: &str) {
        let known: BTreeSet<(u32, u32)> = seen.iter().map(|found| (found.feed, found.index)).collect();
        let is_known = |found: &Found| known.contains(&(found.feed, found.index));
        let is_later =
            |found: &Found| found.index >= self.before.get(found.feed as usize).copied().unwrap_or(0);
        let begin = got.iter().position(|found| is_known(found) || is_later(found)).unwrap_or(got.len());
        let last = got.iter().rposition(is_known).map_or(0, |last| last + 1);
        let end = if self.is_over { last } else { got.len() };
        let mut rest = seen.iter();
        for found in &got[begin.min(end)..end] {
            let is_seen = rest.any(|other| other == found);
            assert!(is_seen, "{name} got {found:?}, which a handler did not see then");
        }
    }
}
