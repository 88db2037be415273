//! Checks that handlers that were added to a running stream saw all records from some record on, in order,
//! and from the record's beginning.

use std::collections::BTreeSet;

use wirepath_streams::StreamEnd;

use super::change::Watcher;
use super::{Outlet, Web};
use crate::record::{Found, assert_in_order, records};

impl Web<'_> {
    pub(crate) fn check_watchers(&self, lists: &[Vec<Found>], end: &StreamEnd) {
        for seen in &self.guards {
            assert!(seen.is_from_beginning(), "a handler that came into force saw the rest of a record");
            records("a handler that depends on trust", &seen.bytes());
        }
        for watcher in &self.watchers {
            let is_it = |outlet: &&Outlet| watcher.port == Some(outlet.port);
            let of = self.outlets.iter().find(is_it).map(|outlet| &outlet.sink);
            let name = of.map_or("a handler".to_owned(), |sink| format!("a handler of {}", sink.name));
            assert!(watcher.seen.is_from_beginning(), "{name} saw the rest of a record");
            let (seen, cut) = records(&name, &watcher.seen.bytes());
            let may_be_cut = end.result.is_err() || of.is_some_and(|sink| sink.is_broken);
            assert!(cut == 0 || may_be_cut, "{name} saw {cut} bytes of a record");
            // Records are dropped for an output only after its handlers.
            assert_in_order(&name, &seen, self.tags.is_some() || !(self.mirror || of.is_none()));
            for (outlet, list) in self.outlets.iter().zip(lists) {
                if watcher.port.is_none_or(|port| port == outlet.port) {
                    check(watcher, &seen, list, &outlet.sink.name);
                }
            }
        }
    }
}

/// Checks that records of an output were seen from some record on, in the same order, including all records
/// that were made after the handler was added.
fn check(watcher: &Watcher, seen: &[Found], got: &[Found], name: &str) {
    let known: BTreeSet<(u32, u32)> = seen.iter().map(|found| (found.feed, found.index)).collect();
    let is_known = |found: &&Found| known.contains(&(found.feed, found.index));
    let is_later =
        |found: &&Found| found.index >= watcher.before.get(found.feed as usize).copied().unwrap_or(0);
    let begin = got.iter().position(|found| is_known(&found) || is_later(&found)).unwrap_or(got.len());
    let mut rest = seen.iter();
    for found in &got[begin..] {
        assert!(rest.any(|other| other == found), "{name} got {found:?}, which a handler did not see then");
    }
}
