//! What waits for an output, and what happens when too much does.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Add;

use wirepath_engine::TURN_BYTES;

use crate::record::Run;

/// What happens to records for an output that takes none at the moment, when as much waits as may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The stream waits for it.
    #[default]
    Block,
    /// Records that come are dropped, and counted.
    DropNewest,
    /// Records that wait longest are dropped, and counted; never one that left in part.
    DropOldest,
    /// The output is detached, and what waited for it dropped and counted.
    Disconnect,
}

impl WhenFull {
    /// Returns whether records are dropped, which takes whole ones.
    pub(crate) fn drops_records(self) -> bool {
        matches!(self, WhenFull::DropNewest | WhenFull::DropOldest)
    }
}

/// What was dropped.
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

/// What came of offering a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// It waits, or was dropped as was asked for.
    Done,
    /// The output is to be detached.
    Disconnect,
}

/// Runs that wait for one output.
#[derive(Debug)]
pub(crate) struct Outbox {
    runs: VecDeque<Run>,
    bytes: usize,
    /// Runs that end a record.
    ends: usize,
    limit: usize,
    when_full: WhenFull,
    /// Other limits, when the record that goes by has ended.
    later: Option<(usize, WhenFull)>,
    /// The rest of a record goes where its beginning went: nowhere.
    dropping: bool,
    dropped: Dropped,
}

impl Outbox {
    /// More than `limit` bytes (at least 1) wait only by the run that went over it.
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

    /// Other limits from the next record on: what is decided of one that goes by stays, and so does what
    /// waits.
    pub(crate) fn limit_to(&mut self, limit: usize, when_full: WhenFull) {
        (self.limit, self.when_full, self.later) = (limit.max(1), when_full, None);
    }

    /// The same, but until the end of the record that goes by what there was holds.
    pub(crate) fn limit_later_to(&mut self, limit: usize, when_full: WhenFull) {
        self.later = Some((limit, when_full));
    }

    /// All of a record was offered.
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

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Returns whether the stream should wait rather than offer more.
    pub(crate) fn blocks(&self) -> bool {
        self.waits() && self.is_full()
    }

    /// Returns whether the stream waits for this output when it is full.
    pub(crate) fn waits(&self) -> bool {
        self.when_full == WhenFull::Block
    }

    /// Returns whether records are dropped when it is full.
    pub(crate) fn drops_records(&self) -> bool {
        self.when_full.drops_records()
    }

    /// Returns whether as much waits as may.
    pub(crate) fn is_full(&self) -> bool {
        // Runs of few bytes, or none, take memory too.
        self.bytes + self.runs.len() * size_of::<Run>() >= self.limit
    }

    /// A run to wait, or not, as the rule says. What is decided of the beginning of a record holds for the
    /// rest of it.
    pub(crate) fn offer(&mut self, run: Run) -> Offered {
        if run.begins {
            self.dropping = false;
            if self.is_full() {
                match self.when_full {
                    // Whoever asked before does not come here; what was made from one run goes together.
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
        // A record without end is no reason to wait without end; but what is made of a piece in one turn goes
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

    /// Nothing more comes of the record that came last. Answers whether some of it waits for its end.
    pub(crate) fn end_record(&mut self) -> bool {
        let Some(last) = self.runs.back_mut().filter(|last| !last.ends) else { return false };
        last.ends = true;
        self.ends += 1;
        true
    }

    /// Drops all that waits; answers nothing, but counts it.
    pub(crate) fn drop_all(&mut self) {
        while let Some(run) = self.pop() {
            self.note_dropped(&run);
        }
    }

    /// Bytes that waited elsewhere are dropped with it.
    pub(crate) fn note_lost(&mut self, bytes: usize) {
        self.dropped.bytes += bytes as u64;
    }

    /// Fills `slices` with the bytes in front, as far as it goes; answers how many were filled.
    pub(crate) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let bytes = self.runs.iter().filter(|run| !run.bytes.is_empty());
        bytes.zip(slices).map(|(run, slice)| *slice = IoSlice::new(&run.bytes)).count()
    }

    /// These bytes in front have left. What is left of a record that left in part is never dropped.
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

    /// Takes all that waits, up to about `most` bytes, in order: for whoever writes it elsewhere.
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

    /// Takes the run in front.
    pub(crate) fn pop(&mut self) -> Option<Run> {
        let run = self.runs.pop_front()?;
        self.bytes -= run.bytes.len();
        self.ends -= usize::from(run.ends);
        Some(run)
    }

    /// Puts a run back.
    pub(crate) fn push_front(&mut self, run: Run) {
        self.bytes += run.bytes.len();
        self.ends += usize::from(run.ends);
        self.runs.push_front(run);
    }

    /// Puts what is left of a run back.
    pub(crate) fn put_rest(&mut self, rest: Run) {
        if !rest.is_used_up() {
            self.push_front(rest);
        }
    }

    /// Ends of records that have no bytes say nothing to a stream of bytes.
    fn skip_empty(&mut self) {
        while self.runs.front().is_some_and(|run| run.bytes.is_empty()) {
            self.pop();
        }
    }

    fn drop_oldest(&mut self) {
        // Of a record that left in part the rest must leave: a stream of bytes would lose its place.
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
