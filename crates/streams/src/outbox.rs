//! Outbox: the queue of runs that wait for an output, with its limits.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Add;

use wirepath_engine::TURN_BYTES;

use crate::record::Run;

/// Handling of records for an output whose outbox is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The stream waits for the output.
    #[default]
    Block,
    /// New records are dropped and counted.
    DropNewest,
    /// The oldest records are dropped and counted, but never a record that was sent in part.
    DropOldest,
    /// The output is detached; its waiting records are dropped and counted.
    Disconnect,
}

impl WhenFull {
    /// All rules.
    pub const ALL: [WhenFull; 4] =
        [WhenFull::Block, WhenFull::DropNewest, WhenFull::DropOldest, WhenFull::Disconnect];

    /// Name of the rule, as for `--when-full`.
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
    /// Number of records.
    pub records: u64,
    /// Bytes of the records.
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
    /// The run was queued, or dropped by the rule.
    Done,
    /// The output has to be detached.
    Disconnect,
}

#[derive(Debug)]
pub(crate) struct Outbox {
    runs: VecDeque<Run>,
    pub(crate) bytes: usize,
    /// Number of runs that end a record.
    ends: usize,
    limit: usize,
    when_full: WhenFull,
    /// Limits that take effect at the end of the current record.
    later: Option<(usize, WhenFull)>,
    /// The beginning of the current record was dropped; the rest of it is dropped, too.
    dropping: bool,
    pub(crate) dropped: Dropped,
}

impl Outbox {
    /// An outbox of at most `limit` bytes (at least 1), plus the run that exceeds it.
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

    /// Limits from the next record on: most waiting bytes, and the rule.
    pub(crate) fn limits(&self) -> (usize, WhenFull) {
        self.later.unwrap_or((self.limit, self.when_full))
    }

    /// Changes the limits from the next record on. Decisions on the current record, and waiting runs, stay.
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

    /// Returns whether the end of a record waits, and so the whole record in front.
    pub(crate) fn has_end(&self) -> bool {
        self.ends > 0
    }

    /// Returns whether the stream should wait instead of offering more.
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
        // Runs of few bytes, or none, take memory, too.
        self.bytes + self.runs.len() * size_of::<Run>() >= self.limit
    }

    /// Adds a run, or drops it by the rule. The decision at the beginning of a record holds for the rest of
    /// it.
    pub(crate) fn offer(&mut self, run: Run) -> Offered {
        if run.begins {
            self.dropping = false;
            if self.is_full() {
                match self.when_full {
                    // The stream has waited for room; runs made of one run are accepted together.
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
        // An endless record would grow without limit; but runs made of one piece in one turn are accepted
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

    /// Ends the last record. Returns whether a part of the record waits.
    pub(crate) fn end_record(&mut self) -> bool {
        let Some(last) = self.runs.back_mut().filter(|last| !last.ends) else { return false };
        last.ends = true;
        self.ends += 1;
        true
    }

    /// Drops and counts all waiting runs.
    pub(crate) fn drop_all(&mut self) {
        while let Some(run) = self.pop() {
            self.note_dropped(&run);
        }
    }

    /// Counts bytes as dropped that waited elsewhere.
    pub(crate) fn note_lost(&mut self, bytes: usize) {
        self.dropped.bytes += bytes as u64;
    }

    /// Fills `slices` with the bytes in front; returns the number of slices filled.
    pub(crate) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let bytes = self.runs.iter().filter(|run| !run.bytes.is_empty());
        bytes.zip(slices).map(|(run, slice)| *slice = IoSlice::new(&run.bytes)).count()
    }

    /// Removes bytes in front that were sent. The rest of a record that was sent in part is never dropped.
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

    /// Removes so many records in front, all of one run, that were sent.
    pub(crate) fn remove_records(&mut self, records: usize) {
        if let Some(mut run) = self.pop() {
            run.take_records(records);
            self.put_rest(run);
        }
    }

    /// Takes waiting runs, up to about `most` bytes, in order.
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

    /// Skips ends of records without bytes: they have no meaning in a byte stream.
    fn skip_empty(&mut self) {
        while self.runs.front().is_some_and(|run| run.bytes.is_empty()) {
            self.pop();
        }
    }

    fn drop_oldest(&mut self) {
        // The rest of a record that was sent in part must be sent: a byte stream would lose its framing.
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
