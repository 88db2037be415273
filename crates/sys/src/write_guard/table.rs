//! Table of lent ranges. It is in separate memory: pages of the heap may be lent, and the thread that serves
//! write faults must never wait for itself.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::*};

/// Maximum number of ranges at a time.
pub(super) const RANGES: usize = 1024;

const FREE: u8 = 0;
const OUT: u8 = 1;
/// The loan has ended; its pages are still protected.
const OVER: u8 = 2;

#[derive(Debug)]
pub(super) struct Table {
    ranges: [Entry; RANGES],
    /// Number of entries used so far; later entries were never used.
    used: AtomicUsize,
    /// Number of entries with the state `OVER`.
    over: AtomicUsize,
    /// Bytes of whole pages in ranges that are lent or over.
    bytes: AtomicUsize,
}

#[derive(Debug)]
struct Entry {
    start: AtomicUsize,
    end: AtomicUsize,
    state: AtomicU8,
}

impl Default for Entry {
    fn default() -> Entry {
        Entry { start: AtomicUsize::new(0), end: AtomicUsize::new(0), state: AtomicU8::new(FREE) }
    }
}

impl Default for Table {
    fn default() -> Table {
        let ranges = std::array::from_fn(|_| Entry::default());
        Table { ranges, used: AtomicUsize::new(0), over: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }
}

impl Table {
    /// Adds a range; `None` if the table is full. Under the lock.
    pub(super) fn enter(&self, range: &Range<usize>) -> Option<u16> {
        let used = self.used.load(Relaxed);
        let is_free = |&place: &usize| self.ranges[place].state.load(Relaxed) == FREE;
        let place = (0..used).find(is_free).or_else(|| (used < RANGES).then_some(used))?;
        let entry = &self.ranges[place];
        entry.start.store(range.start, Relaxed);
        entry.end.store(range.end, Relaxed);
        entry.state.store(OUT, Release);
        self.used.fetch_max(place + 1, Relaxed);
        self.bytes.fetch_add(range.len(), Relaxed);
        Some(place as u16)
    }

    /// Marks a loan as ended; from any thread, without the lock.
    pub(super) fn mark_over(&self, place: u16) {
        self.ranges[usize::from(place)].state.store(OVER, Release);
        self.over.fetch_add(1, Release);
    }

    /// Frees an entry whose pages need not be unprotected any more. Under the lock.
    pub(super) fn free(&self, place: u16) {
        let entry = &self.ranges[usize::from(place)];
        self.bytes.fetch_sub(self.range(usize::from(place)).len(), Relaxed);
        entry.state.store(FREE, Release);
    }

    /// Passes each part of ended ranges that no other loan covers to `unprotect`, and frees the ranges. Under
    /// the lock.
    pub(super) fn sweep(&self, mut unprotect: impl FnMut(Range<usize>)) {
        if self.over.load(Acquire) == 0 {
            return;
        }
        for place in 0..self.used.load(Relaxed) {
            if self.ranges[place].state.load(Acquire) != OVER {
                continue;
            }
            self.for_each_free_part(self.range(place), &mut unprotect);
            self.over.fetch_sub(1, Relaxed);
            self.free(place as u16);
        }
    }

    fn for_each_free_part(&self, range: Range<usize>, unprotect: &mut impl FnMut(Range<usize>)) {
        let mut at = range.start;
        while at < range.end {
            if let Some(end) = self.end_of_loan(at) {
                at = end;
                continue;
            }
            let starts = self.out().map(|other| other.start).filter(|start| (at..range.end).contains(start));
            let end = starts.min().unwrap_or(range.end);
            unprotect(at..end);
            at = end;
        }
    }

    /// End of the lent range that contains this address.
    pub(super) fn end_of_loan(&self, address: usize) -> Option<usize> {
        self.out().filter(|range| range.contains(&address)).map(|range| range.end).max()
    }

    fn out(&self) -> impl Iterator<Item = Range<usize>> {
        let is_out = |&place: &usize| self.ranges[place].state.load(Acquire) == OUT;
        (0..self.used.load(Relaxed)).filter(is_out).map(|place| self.range(place))
    }

    pub(super) fn range(&self, place: usize) -> Range<usize> {
        let entry = &self.ranges[place];
        entry.start.load(Relaxed)..entry.end.load(Relaxed)
    }

    /// Bytes of whole protected pages.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swept(table: &Table) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        table.sweep(|part| parts.push(part));
        parts
    }

    #[test]
    fn pages_of_two_loans_are_unprotected_when_both_are_over() {
        let table = Table::default();
        let places = [0..40, 10..20, 30..50].map(|range| table.enter(&range).unwrap());
        table.mark_over(places[0]);
        assert_eq!(swept(&table), [0..10, 20..30]);
        table.mark_over(places[1]);
        table.mark_over(places[2]);
        assert_eq!(swept(&table), [10..20, 30..50]);
        assert_eq!((table.bytes(), swept(&table)), (0, vec![]));
    }

    #[test]
    fn a_full_table_has_room_again_when_a_loan_is_over() {
        let table = Table::default();
        let places: Vec<_> = (0..RANGES).map(|at| table.enter(&(at..at + 1)).unwrap()).collect();
        assert_eq!(table.enter(&(0..1)), None);
        table.mark_over(places[7]);
        assert_eq!(swept(&table).len(), 1);
        assert_eq!(table.enter(&(0..1)), Some(7));
    }
}
