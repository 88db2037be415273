//! Invariants of a mirror of bytes, during a round and at its end.

use std::ops::Range;

use wirepath_streams::{StreamEnd, StreamStatus};

use super::handlers::plain;
use super::{Outlet, Pour};
use crate::dice::Tally;
use crate::mask::TOP_BIT;

/// Length of a byte sequence whose position is unique.
const LANDMARK: usize = 32;

/// The part of all bytes that a sink or handler got.
struct Part {
    range: Range<usize>,
    /// The part extends to the end.
    is_whole: bool,
}

impl Pour<'_> {
    /// Checks that all bytes read are accounted for, and that none are read before the stream begins.
    pub(super) fn audit(&mut self) {
        let Some(status) = self.carrier.status() else { return };
        let mut first = self.outlets.iter().filter(|outlet| outlet.was_first && !outlet.has_left);
        let has_to_wait = self.source.is_awaited() || first.any(|outlet| outlet.sink.is_awaited());
        assert!(status.bytes_in == 0 || !has_to_wait, "it has begun without somebody: {status:?}");
        for output in &status.outputs {
            let is_whole = |outlet: &Outlet| {
                outlet.was_first
                    && !(outlet.has_left || outlet.sink.disconnects)
                    && outlet.port == output.port
            };
            if self.outlets.iter().any(is_whole) {
                let known = output.bytes + output.waiting_bytes + status.bytes_pending;
                assert_eq!(status.bytes_in, known, "{output:?} of {status:?}");
            }
        }
        self.tally.note("operation: audit");
    }

    pub(super) fn verify(mut self, end: &StreamEnd) -> Tally {
        assert_eq!(end.result, Ok(()));
        let status = &end.status;
        assert_eq!((status.bytes_in, status.bytes_dropped), (self.sent.len() as u64, 0), "{status:?}");
        self.source.check();
        let parts: Vec<Part> =
            (0..self.outlets.len()).map(|place| self.verify_outlet(place, status)).collect();
        let all = Part { range: 0..self.sent.len(), is_whole: true };
        for watcher in &self.watchers {
            let part = watcher.place.map_or(&all, |place| &parts[place]);
            let seen = plain(watcher.seen.bytes());
            part.check_seen(&self.sent, &seen, watcher.before, watcher.is_leaving);
            let port = watcher.place.map(|place| self.outlets[place].port);
            watcher.check_state(port, status);
        }
        self.lender.check(status, &mut self.tally);
        self.heads.iter().for_each(|heads| heads.check_first(&self.sent, self.is_changed));
        self.tally.add("bytes in", status.bytes_in);
        self.tally.add("bytes out", status.bytes_out);
        self.tally.add("bytes in, that nobody looked at", status.zero_copy_bytes);
        self.tally.note("ending: well");
        self.tally
    }

    /// The part of all bytes that an outlet got.
    fn verify_outlet(&mut self, place: usize, status: &StreamStatus) -> Part {
        let of_masker = self.masker_of(place);
        let Outlet { sink, port, was_first, has_left, is_gone } = &mut self.outlets[place];
        let known = status.outputs.iter().find(|output| output.port == *port).map(|output| output.bytes);
        let ended = status.ended_outputs.iter().find(|ended| ended.port == *port);
        assert!(ended.is_some() || !*is_gone, "{} was said to be gone, and is not", sink.name);
        sink.read_to_end(known.or(ended.map(|ended| ended.bytes)).unwrap());
        if ended.is_some_and(|ended| ended.why_gone.as_deref() == Some("it did not keep up")) {
            assert!(sink.disconnects, "{} was let go of against its rule", sink.name);
            self.tally.note("fault: an output that does not keep up");
            sink.is_broken = true;
        }
        let masked = unmask(&mut sink.bytes);
        let (begin, length) = (find(&self.sent, &sink.bytes), sink.bytes.len());
        assert!(begin.is_some(), "{} has {length} other bytes", sink.name);
        let begin = begin.unwrap_or(0);
        assert!(self.sent[begin..].starts_with(&sink.bytes), "{} has {length} other bytes", sink.name);
        assert!(!*was_first || begin == 0, "{} lacks the first {begin} bytes", sink.name);
        let is_whole = !sink.is_broken && !*has_left;
        let (masked, name) = (&sink.bytes[masked], &sink.name);
        match of_masker {
            None => assert!(masked.is_empty(), "{} bytes of {name} were changed by nobody", masked.len()),
            Some(seen) if is_whole && *was_first => {
                assert!(
                    masked == seen,
                    "{} and not {} bytes of {name} were changed",
                    masked.len(),
                    seen.len()
                );
            }
            Some(seen) => assert!(contains(&seen, masked), "{} bytes of {name} were changed", masked.len()),
        }
        let range = begin..begin + length;
        // An output that was attached late may have been attached after the last byte.
        if is_whole && (*was_first || length >= LANDMARK) {
            assert_eq!(range.end, self.sent.len(), "{} lacks the end", sink.name);
        }
        Part { range, is_whole }
    }
}

impl Part {
    /// Checks that a handler saw the sent bytes, from a position on that had been written when it was added;
    /// to any position, if it was removed.
    fn check_seen(&self, sent: &[u8], seen: &[u8], before: usize, was_removed: bool) {
        assert!(contains(sent, seen), "a handler saw {} other bytes", seen.len());
        if was_removed {
            return;
        }
        let latest = before.max(self.range.start);
        let unseen = self.range.len().saturating_sub(seen.len());
        assert!(self.range.start + unseen <= latest, "a handler did not see {:?}", latest..self.range.end);
        if seen.len() < LANDMARK {
            return; // such a short sequence may be anywhere
        }
        let end = find(sent, seen).unwrap_or(0) + seen.len();
        let is_end = if self.is_whole { end == sent.len() } else { end >= self.range.end };
        assert!(is_end, "a handler saw nothing behind {end}, where there was {:?}", self.range);
    }
}

/// Position of these bytes in `all`; a possible one if they are shorter than a landmark.
fn find(all: &[u8], bytes: &[u8]) -> Option<usize> {
    let landmark = &bytes[..LANDMARK.min(bytes.len())];
    if all.starts_with(landmark) {
        return Some(0);
    }
    all.windows(landmark.len()).position(|window| window == landmark)
}

fn contains(all: &[u8], bytes: &[u8]) -> bool {
    find(all, bytes).is_some_and(|begin| all[begin..].starts_with(bytes))
}

/// Takes off the change of a handler, which changed successive bytes. Returns their range.
fn unmask(bytes: &mut [u8]) -> Range<usize> {
    let is_masked = |byte: &u8| byte & TOP_BIT != 0;
    let begin = bytes.iter().position(is_masked).unwrap_or(0);
    let end = bytes.iter().rposition(is_masked).map_or(begin, |last| last + 1);
    assert!(bytes[begin..end].iter().all(is_masked), "some bytes among {begin}..{end} were not changed");
    bytes[begin..end].iter_mut().for_each(|byte| *byte ^= TOP_BIT);
    begin..end
}
