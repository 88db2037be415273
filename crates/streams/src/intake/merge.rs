//! Merging by tag: records of several inputs in the order of a number in each record, such as a timestamp or
//! a position (KStreams, section 5.1: "self-contained global position tags like timestamps").
//!
//! Rule: the record with the smallest tag leaves as soon as every input has a waiting record or has ended. If
//! an input stays silent, records wait for it until the window is full, in records or in bytes; then the
//! record with the smallest tag leaves anyway. A record is late if a record with a greater tag has left
//! before. A record without a tag takes the tag of the previous record of its input, so it stays behind that
//! record.

use std::collections::VecDeque;

use bytes::BytesMut;

use crate::record::Run;

/// Handling of late records. They are counted either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// Late records are dropped: the output stays in order.
    Drop,
    /// Late records are passed on at once: nothing is missing.
    Pass,
}

/// Length of a waiting record.
pub(crate) trait Length {
    fn length(&self) -> usize;
}

impl Length for Run<BytesMut> {
    fn length(&self) -> usize {
        self.bytes.len()
    }
}

#[derive(Debug)]
pub(crate) struct Merge<T> {
    /// Most waiting records, of all inputs together.
    window: usize,
    /// Most waiting bytes, except for the record that exceeds it.
    most_bytes: usize,
    late: Late,
    inputs: Vec<Waiting<T>>,
    waiting: usize,
    /// Bytes of waiting records.
    pub(crate) bytes: usize,
    /// Greatest tag that has left.
    gone: Option<u64>,
    pub(crate) counts: MergeCounts,
}

/// Counts of a merge by tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeCounts {
    /// Records that came after a record with a greater tag had left.
    pub late: u64,
    /// Records without a tag.
    pub untagged: u64,
    /// Records that left because the window was full, of records or of bytes, although an input without a
    /// waiting record might have had a smaller tag.
    pub unawaited: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    records: VecDeque<(u64, T)>,
    last_tag: u64,
    has_ended: bool,
}

impl<T: Length> Merge<T> {
    /// A merge with at most `window` waiting records (at least 1) of about `most_bytes` (at least 1) in
    /// total.
    pub(crate) fn new(window: usize, most_bytes: usize, late: Late) -> Merge<T> {
        Merge {
            window: window.max(1),
            most_bytes: most_bytes.max(1),
            late,
            inputs: Vec::new(),
            waiting: 0,
            bytes: 0,
            gone: None,
            counts: MergeCounts::default(),
        }
    }

    /// Adds an input at `place`; the places of later inputs increase by one.
    pub(crate) fn add_input(&mut self, place: usize) {
        self.inputs.insert(place, Waiting { records: VecDeque::new(), last_tag: 0, has_ended: false });
    }

    /// Marks the end of an input. Its waiting records still leave; then the place has to be
    /// [removed](Merge::remove_input).
    pub(crate) fn end_input(&mut self, place: usize) {
        self.inputs[place].has_ended = true;
    }

    pub(crate) fn has_ended(&self, place: usize) -> bool {
        self.inputs[place].has_ended
    }

    pub(crate) fn is_done(&self) -> bool {
        self.waiting == 0
    }

    /// Returns whether no record of the input at `place` waits.
    pub(crate) fn is_empty(&self, place: usize) -> bool {
        self.inputs[place].records.is_empty()
    }

    /// Removes an input; the places of later inputs decrease by one. Returns its waiting records: none,
    /// unless the input is cut short.
    pub(crate) fn remove_input(&mut self, place: usize) -> impl Iterator<Item = T> + use<T> {
        let removed = self.inputs.remove(place);
        self.waiting -= removed.records.len();
        self.bytes -= removed.records.iter().map(|(_, record)| record.length()).sum::<usize>();
        removed.records.into_iter().map(|(_, record)| record)
    }

    pub(crate) fn has_room(&self) -> bool {
        self.waiting < self.window && self.bytes < self.most_bytes
    }

    /// Adds a record. Its lateness is decided when it is next to leave.
    pub(crate) fn offer(&mut self, place: usize, tag: Option<u64>, record: T) {
        let input = &mut self.inputs[place];
        self.counts.untagged += u64::from(tag.is_none());
        let tag = tag.unwrap_or(input.last_tag);
        input.last_tag = tag;
        self.bytes += record.length();
        input.records.push_back((tag, record));
        self.waiting += 1;
    }

    /// Takes the record that leaves next, if one may leave now. Calls `drop_late` with late records that are
    /// dropped.
    pub(crate) fn take(&mut self, mut drop_late: impl FnMut(T)) -> Option<T> {
        loop {
            let front = |input: &Waiting<T>| input.records.front().map(|(tag, _)| *tag);
            let fronts =
                self.inputs.iter().enumerate().filter_map(|(place, input)| Some((front(input)?, place)));
            let (tag, place) = fronts.min()?;
            let is_late = self.gone.is_some_and(|gone| tag < gone);
            if !is_late && self.is_awaiting() {
                if self.has_room() {
                    return None;
                }
                self.counts.unawaited += 1;
            }
            self.waiting -= 1;
            self.counts.late += u64::from(is_late);
            let (_, record) = self.inputs[place].records.pop_front()?;
            self.bytes -= record.length();
            if !is_late || self.late == Late::Pass {
                self.gone = self.gone.max(Some(tag));
                return Some(record);
            }
            drop_late(record);
        }
    }

    /// Returns whether any input that has not ended has no waiting record.
    fn is_awaiting(&self) -> bool {
        self.inputs.iter().any(|input| input.records.is_empty() && !input.has_ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Length for u64 {
        fn length(&self) -> usize {
            size_of::<u64>()
        }
    }

    fn merge(inputs: usize, window: usize, late: Late) -> Merge<u64> {
        bounded(inputs, window, usize::MAX, late)
    }

    fn bounded(inputs: usize, window: usize, most_bytes: usize, late: Late) -> Merge<u64> {
        let mut merge = Merge::new(window, most_bytes, late);
        (0..inputs).for_each(|place| merge.add_input(place));
        merge
    }

    fn taken(merge: &mut Merge<u64>) -> Vec<u64> {
        std::iter::from_fn(|| merge.take(drop)).collect()
    }

    #[test]
    fn the_smallest_goes_when_every_input_has_one_or_the_window_is_full() {
        let mut merge = merge(2, 3, Late::Drop);
        merge.offer(0, Some(5), 5);
        merge.offer(0, Some(7), 7);
        assert!(taken(&mut merge).is_empty());
        merge.offer(1, Some(6), 6);
        assert_eq!(taken(&mut merge), [5, 6]);
        merge.offer(0, Some(9), 9);
        merge.offer(0, Some(11), 11);
        assert_eq!(taken(&mut merge), [7], "the window of three was full");
        merge.offer(1, Some(6), 6);
        assert!(taken(&mut merge).is_empty(), "late");
        merge.offer(0, None, 12);
        assert_eq!(taken(&mut merge), [9]);
        merge.end_input(1);
        assert_eq!(taken(&mut merge), [11, 12]);
        assert_eq!(merge.counts, MergeCounts { late: 1, untagged: 1, unawaited: 2 });
    }

    /// Promise: Inputs take turns in order, at random, by arrival, or by a tag with a bounded window.
    #[test]
    fn the_window_is_full_of_bytes_as_well() {
        let mut merge = bounded(2, 100, 20, Late::Drop);
        (1..=2).for_each(|tag| merge.offer(0, Some(tag), tag));
        assert!(merge.has_room() && taken(&mut merge).is_empty());
        merge.offer(0, Some(3), 3);
        assert_eq!((merge.has_room(), merge.bytes), (false, 24));
        assert_eq!(taken(&mut merge), [1], "the window of 20 bytes was full");
        assert_eq!((merge.has_room(), merge.bytes, merge.counts.unawaited), (true, 16, 1));
        assert_eq!(merge.remove_input(0).count(), 2);
        assert_eq!(merge.bytes, 0);
    }

    #[test]
    fn late_records_may_pass_at_once() {
        let mut merge = merge(2, 1, Late::Pass);
        merge.offer(0, Some(5), 5);
        assert_eq!(taken(&mut merge), [5]);
        merge.offer(1, Some(3), 3);
        assert_eq!(taken(&mut merge), [3]);
        assert_eq!(merge.counts.late, 1);
    }

    proptest! {
        /// Promise: Inputs take turns in order, at random, by arrival, or by a tag with a bounded window.
        ///
        /// Ordered inputs that arrive in any interleaving and wait while there is no room: all records leave
        /// once, in order.
        #[test]
        fn ordered_inputs_make_an_ordered_output(
            tags in proptest::collection::vec(proptest::collection::vec(0u64..1000, 0..30), 1..5),
            arrivals in proptest::collection::vec(0usize..5, 0..200),
            window in 5usize..20,
        ) {
            let mut inputs: Vec<VecDeque<u64>> = tags.iter().map(|tags| {
                let mut tags = tags.clone();
                tags.sort_unstable();
                tags.into()
            }).collect();
            let mut merge = merge(inputs.len(), window * 100, Late::Drop);
            let mut output = Vec::new();
            for arrival in arrivals {
                let place = arrival % inputs.len();
                if let Some(tag) = inputs[place].pop_front() {
                    merge.offer(place, Some(tag), tag);
                }
                output.extend(taken(&mut merge));
            }
            for (place, input) in inputs.iter_mut().enumerate() {
                input.drain(..).for_each(|tag| merge.offer(place, Some(tag), tag));
                merge.end_input(place);
            }
            output.extend(taken(&mut merge));
            let mut expected = tags.concat();
            expected.sort_unstable();
            prop_assert_eq!(output, expected);
            prop_assert_eq!(merge.counts, MergeCounts::default());
        }

        /// Promise: Inputs take turns in order, at random, by arrival, or by a tag with a bounded window.
        ///
        /// Any records in any order: if late records are dropped, the output is in order, no other record is
        /// lost, and the window bounds the number of waiting records.
        #[test]
        fn any_input_makes_an_ordered_output(
            records in proptest::collection::vec((0usize..3, 0u64..50), 0..200),
            window in 1usize..10,
            most_bytes in 1usize..100,
        ) {
            let mut merge = bounded(3, window, most_bytes, Late::Drop);
            let mut output = Vec::new();
            for (place, tag) in &records {
                prop_assert!(merge.has_room());
                merge.offer(*place, Some(*tag), *tag);
                output.extend(taken(&mut merge));
                let waits: usize = merge.inputs.iter().map(|input| input.records.len()).sum();
                prop_assert_eq!((merge.waiting, merge.bytes), (waits, waits * size_of::<u64>()));
            }
            (0..3).for_each(|place| merge.end_input(place));
            output.extend(taken(&mut merge));
            prop_assert!(output.is_sorted());
            prop_assert_eq!(output.len() as u64 + merge.counts.late, records.len() as u64);
        }
    }
}
