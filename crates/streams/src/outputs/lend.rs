//! Long trains of datagrams that wait for many outputs: one copy for all outputs instead of one for each.

use rustix::io::Errno;
use wirepath_datapath::Lending;
use wirepath_datapath::to_many::{self, FEWEST_LENT};

use super::{Output, Outputs};
use crate::object::{Datagrams, Kind, LongTrain};
use crate::shared::Shared;

/// Most trains that are searched in one pass: outputs that are behind have other trains in front.
const TRIES: usize = 4;

impl Outputs {
    /// Sends long trains that wait for many outputs from shared memory, until the turn is over. Trains that
    /// could not be sent this way wait for [`Output::send`], as all do under [`Lending::Never`]. Returns
    /// whether anything was sent.
    pub(crate) fn lend(&mut self, shared: &mut Shared, now_us: u64) -> bool {
        self.borrowers.clear();
        if shared.lending.rule() == Lending::Never {
            return false;
        }
        let mut progressed = false;
        while self.current.len() >= FEWEST_LENT && !shared.turn.is_over() && self.lend_one(shared, now_us) {
            progressed = true;
        }
        progressed
    }

    /// Sends one train to all outputs that have it in front. Returns whether any output took it.
    fn lend_one(&mut self, shared: &mut Shared, now_us: u64) -> bool {
        let Some(train) = self.common_train() else { return false };
        let Outputs { current, borrowers, taken, .. } = self;
        borrowers.clear();
        for (place, output) in current.iter_mut().enumerate() {
            if output.long_train() == Some(train) && output.prepare_to_lend(train) {
                borrowers.push(place);
            }
        }
        let lender = borrowers.first().filter(|_| borrowers.len() >= FEWEST_LENT);
        let Some(run) = lender.and_then(|place| current[*place].outbox.front()) else {
            borrowers.clear();
            return false;
        };
        let sockets = borrowers.iter().filter_map(|place| current[*place].datagrams()?.to_lend());
        to_many::send_to_each(&run.bytes[..train.bytes], sockets, |number, result| {
            taken.push((borrowers[number], result));
        });
        let mut lent = 0;
        for (place, result) in taken.drain(..) {
            lent += current[place].note_lent(train, result, now_us);
        }
        self.lent_bytes += lent as u64;
        self.note_taken(lent, shared);
        lent > 0
    }

    /// A long train that enough outputs have in front.
    fn common_train(&self) -> Option<LongTrain> {
        let mut last = None;
        for _ in 0..TRIES {
            let mut trains = self.current.iter().filter_map(Output::long_train);
            let train = trains.find(|train| last != Some(*train))?;
            if 1 + trains.filter(|other| *other == train).count() >= FEWEST_LENT {
                return Some(train);
            }
            last = Some(train);
        }
        None
    }
}

impl Output {
    fn datagrams(&self) -> Option<&Datagrams> {
        if let Kind::Datagrams(datagrams) = &self.object.kind { Some(datagrams) } else { None }
    }

    /// The train in front, if it is long and may be sent now.
    fn long_train(&self) -> Option<LongTrain> {
        let datagrams = self.datagrams().filter(|_| self.writable && !self.busy)?;
        datagrams.long_train(self.outbox.front()?)
    }

    fn prepare_to_lend(&mut self, train: LongTrain) -> bool {
        let Kind::Datagrams(datagrams) = &mut self.object.kind else { return false };
        datagrams.prepare_to_lend(train)
    }

    /// Handles the result of a lent train; returns the number of bytes that the socket took.
    fn note_lent(&mut self, train: LongTrain, result: Result<usize, Errno>, now_us: u64) -> usize {
        let Kind::Datagrams(datagrams) = &mut self.object.kind else { return 0 };
        if let Err(errno) = result {
            self.writable &= !datagrams.note_not_lent(errno);
            return 0;
        }
        self.outbox.remove_records(train.records);
        self.note_taken(train.bytes, now_us);
        train.bytes
    }
}
