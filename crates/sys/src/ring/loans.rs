//! Loans of a ring: pages that are not registered, each lent for one send.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::pages::Lent;

/// Counts of a lender's loans by rings.
#[derive(Debug, Default)]
pub struct Ledger {
    back: AtomicU64,
    copied: AtomicU64,
    copied_in_a_row: AtomicU64,
}

impl Ledger {
    /// Loans that have ended.
    pub fn back(&self) -> u64 {
        self.back.load(Relaxed)
    }

    /// Ended loans that the kernel copied (reported from Linux 6.2 on).
    pub fn copied(&self) -> u64 {
        self.copied.load(Relaxed)
    }

    /// Copies since the last loan that was not copied.
    pub fn copied_in_a_row(&self) -> u64 {
        self.copied_in_a_row.load(Relaxed)
    }

    fn enter(&self, copied: bool) {
        self.back.fetch_add(1, Relaxed);
        if copied {
            self.copied.fetch_add(1, Relaxed);
            self.copied_in_a_row.fetch_add(1, Relaxed);
        } else {
            self.copied_in_a_row.store(0, Relaxed);
        }
    }
}

/// Loans of one ring. On drop it gives up outstanding loans: the ring must be closed before.
pub(super) struct Table {
    loans: Box<[Option<Loan>]>,
    free: Vec<u16>,
}

struct Loan {
    pages: Lent,
    ledger: Arc<Ledger>,
    /// True if the socket accepted some bytes.
    is_sent: bool,
}

impl Table {
    pub(super) fn new(room: u16) -> Table {
        Table { loans: (0..room).map(|_| None).collect(), free: (0..room).rev().collect() }
    }

    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Slot of the next loan, if there is one.
    pub(super) fn next(&self) -> Option<u16> {
        self.free.last().copied()
    }

    /// Stores a loan in the slot that [`Table::next`] returned.
    pub(super) fn keep(&mut self, pages: Lent, ledger: Arc<Ledger>) {
        if let Some(place) = self.free.pop() {
            self.loans[usize::from(place)] = Some(Loan { pages, ledger, is_sent: false });
        }
    }

    /// Records that the socket accepted some bytes.
    pub(super) fn sent(&mut self, place: u16) {
        if let Some(Some(loan)) = self.loans.get_mut(usize::from(place)) {
            loan.is_sent = true;
        }
    }

    /// Ends a loan, when the network is done with it. A send without accepted bytes does not count as a loan.
    pub(super) fn over(&mut self, place: u16, copied: bool) {
        let Some(loan) = self.loans.get_mut(usize::from(place)).and_then(Option::take) else { return };
        loan.pages.returned();
        if loan.is_sent {
            loan.ledger.enter(copied);
        }
        self.free.push(place);
    }
}
