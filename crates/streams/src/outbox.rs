//! Outbox: runs that wait for an output, and its limits.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Add;

use wirepath_engine::TURN_BYTES;

use crate::record::Run;

/// Handling of records for an output that takes none at the moment, when its outbox is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The stream waits for it.
    #[default]
    Block,
    /// New records are dropped, and counted.
    DropNewest,
    /// The oldest records are dropped, and counted; never one that left in part.
    DropOldest,
    /// The output is detached, and what waited for it dropped and counted.
    Disconnect,
}

impl WhenFull {
    /// All rules.
    pub const ALL: [WhenFull; 4] =
        [WhenFull::Block, WhenFull::DropNewest, WhenFull::DropOldest, WhenFull::Disconnect];

    /// Its name, as for `--when-full`.
    pub fn name(self) -> &'static str {
        match self {
            WhenFull::Block => "block",
            WhenFull::DropNewest => "drop-newest",
            WhenFull::DropOldest => "drop-oldest",
            WhenFull::Disconnect => "disconnect",
        }
    }

    pub(crate) fn drops_records(self) -> bool {
        matches!(self, WhenFull::DropNewest | WhenFull::DropOldest)
    }
}

/// Dropped records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Records.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Add for Dropped {
    type Output = Dropped;

    fn add(self, other: Dropped) -> Dropped {
        Dropped { records: self.records + other.records, bytes: self.bytes + other.bytes }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The run waits, or was dropped by the rule.
    Done,
    /// The output is to be detached.
    Disconnect,
}

#[derive(Debug)]
pub(crate) struct Outbox {
    runs: VecDeque<Run>,
    pub(crate) bytes: usize,
    /// Runs that end a record.
    ends: usize,
    limit: usize,
    when_full: WhenFull,
    /// Limits from the end of the current record on.
    later: Option<(usize, WhenFull)>,
    /// The rest of a record whose beginning was dropped is dropped, too.
    dropping: bool,
    pub(crate) dropped: Dropped,
}

impl Outbox {
    /// Outbox of at most `limit` bytes (at least 1) and the run that exceeds it.
    pub(crate) fn new(limit: usize, when_full: WhenFull) -> Outbox {
        Outbox {
            runs: VecDeque::new(),
            bytes: 0,
            ends: 0,
            limit: limit.max(1),
            when_full,
            later: None,
            dropping: false,
            dropped: Dropped::default(),
        }
    }

    /// Limits from the next record on: most bytes that wait, and the rule.
    pub(crate) fn limits(&self) -> (usize, WhenFull) {
        self.later.unwrap_or((self.limit, self.when_full))
    }

    /// Changes the limits from the next record on; decisions on the current one and what waits stay.
    pub(crate) fn limit_to(&mut self, limit: usize, when_full: WhenFull) {
        (self.limit, self.when_full, self.later) = (limit.max(1), when_full, None);
    }

    /// Changes the limits at the end of the current record.
    pub(crate) fn limit_later_to(&mut self, limit: usize, when_full: WhenFull) {
        self.later = Some((limit, when_full));
    }

    pub(crate) fn note_record_end(&mut self) {
        if let Some((limit, when_full)) = self.later {
            self.limit_to(limit, when_full);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns whether the end of a record waits, and so all of the one in front.
    pub(crate) fn has_end(&self) -> bool {
        self.ends > 0
    }

    /// Returns whether the stream should wait rather than offer more.
    pub(crate) fn blocks(&self) -> bool {
        self.waits() && self.is_full()
    }

    pub(crate) fn waits(&self) -> bool {
        self.when_full == WhenFull::Block
    }

    pub(crate) fn drops_records(&self) -> bool {
        self.when_full.drops_records()
    }

    pub(crate) fn is_full(&self) -> bool {
        // Runs of few bytes, or none, take memory too.
        self.bytes + self.runs.len() * size_of::<Run>() >= self.limit
    }

    /// Adds a run, or drops it by the rule. The decision on the beginning of a record holds for the rest of
    /// it.
    pub(crate) fn offer(&mut self, run: Run) -> Offered {
        if run.begins {
            self.dropping = false;
            if self.is_full() {
                match self.when_full {
                    // The stream waited for room; what was made from one run goes together.
                    WhenFull::Block => {}
                    WhenFull::DropNewest => self.dropping = true,
                    WhenFull::DropOldest => self.drop_oldest(),
                    WhenFull::Disconnect => {
                        self.note_dropped(&run);
                        return Offered::Disconnect;
                    }
                }
            }
        }
        // A record without end would wait without limit; but what is made of a piece in one turn goes
        // together.
        if self.when_full == WhenFull::Disconnect
            && self.bytes as u64 >= (self.limit as u64).saturating_add(TURN_BYTES)
        {
            self.note_dropped(&run);
            return Offered::Disconnect;
        }
        if self.dropping {
            self.note_dropped(&run);
            self.dropping = !run.ends;
            return Offered::Done;
        }
        self.bytes += run.bytes.len();
        self.ends += usize::from(run.ends);
        self.runs.push_back(run);
        Offered::Done
    }

    /// Ends the last record. Returns whether a part of it waits.
    pub(crate) fn end_record(&mut self) -> bool {
        let Some(last) = self.runs.back_mut().filter(|last| !last.ends) else { return false };
        last.ends = true;
        self.ends += 1;
        true
    }

    /// Drops and counts all that waits.
    pub(crate) fn drop_all(&mut self) {
        while let Some(run) = self.pop() {
            self.note_dropped(&run);
        }
    }

    /// Counts bytes as dropped that waited elsewhere.
    pub(crate) fn note_lost(&mut self, bytes: usize) {
        self.dropped.bytes += bytes as u64;
    }

    /// Fills `slices` with the bytes in front; returns how many were filled.
    pub(crate) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let bytes = self.runs.iter().filter(|run| !run.bytes.is_empty());
        bytes.zip(slices).map(|(run, slice)| *slice = IoSlice::new(&run.bytes)).count()
    }

    /// Removes bytes in front that have left. The rest of a record that left in part is never dropped.
    pub(crate) fn consume(&mut self, mut bytes: usize) {
        while let Some(mut run) = self.pop() {
            if bytes >= run.bytes.len() {
                bytes -= run.bytes.len();
                if bytes == 0 {
                    return self.skip_empty();
                }
                continue;
            }
            run.take_records(bytes / run.record_bytes);
            let within = bytes % run.record_bytes;
            if within > 0 {
                let record = run.take_records(1);
                self.put_rest(run);
                run = Run::single(record.bytes.slice(within..), false, record.ends);
            }
            self.push_front(run);
            return;
        }
    }

    pub(crate) fn front(&self) -> Option<&Run> {
        self.runs.front()
    }

    /// Removes so many records in front, all of one run, that have left.
    pub(crate) fn remove_records(&mut self, records: usize) {
        if let Some(mut run) = self.pop() {
            run.take_records(records);
            self.put_rest(run);
        }
    }

    /// Takes all that waits, up to about `most` bytes, in order.
    pub(crate) fn take(&mut self, most: usize) -> Vec<Run> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while bytes < most
            && let Some(run) = self.pop()
        {
            bytes += run.bytes.len();
            taken.push(run);
        }
        taken
    }

    pub(crate) fn pop(&mut self) -> Option<Run> {
        let run = self.runs.pop_front()?;
        self.bytes -= run.bytes.len();
        self.ends -= usize::from(run.ends);
        Some(run)
    }

    pub(crate) fn push_front(&mut self, run: Run) {
        self.bytes += run.bytes.len();
        self.ends += usize::from(run.ends);
        self.runs.push_front(run);
    }

    pub(crate) fn put_rest(&mut self, rest: Run) {
        if !rest.is_used_up() {
            self.push_front(rest);
        }
    }

    /// Ends of records without bytes mean nothing to a stream of bytes.
    fn skip_empty(&mut self) {
        while self.runs.front().is_some_and(|run| run.bytes.is_empty()) {
            self.pop();
        }
    }

    fn drop_oldest(&mut self) {
        // The rest of a record that left in part must leave: a stream of bytes would lose its framing.
        let Some(place) = self.runs.iter().position(|run| run.begins) else { return };
        let mut within = false;
        while (self.is_full() || within)
            && let Some(run) = self.runs.get_mut(place)
        {
            let record = run.take_records(1);
            if run.is_used_up() {
                self.ends -= usize::from(run.ends);
                self.runs.remove(place);
            }
            within = !record.ends;
            self.bytes -= record.bytes.len();
            self.note_dropped(&record);
        }
    }

    fn note_dropped(&mut self, run: &Run) {
        self.dropped.records += if run.begins { run.records() as u64 } else { 0 };
        self.dropped.bytes += run.bytes.len() as u64;
    }
}

#[cfg(test)]
mod tests;
