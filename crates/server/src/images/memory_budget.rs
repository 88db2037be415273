//! A memory budget, reserved by waiting tasks as far as it suffices.

use parking_lot::{Condvar, Mutex};

/// A number of bytes that tasks may reserve and wait for.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    bytes: u64,
    free: Mutex<u64>,
    freed: Condvar,
}

/// Reserved bytes; returned when this is dropped.
#[derive(Debug)]
pub(super) struct Reserved<'a> {
    budget: &'a MemoryBudget,
    bytes: u64,
}

impl MemoryBudget {
    pub(super) fn new(bytes: u64) -> MemoryBudget {
        MemoryBudget { bytes, free: Mutex::new(bytes), freed: Condvar::new() }
    }

    /// Waits until so many bytes are free, or all bytes if the budget is smaller. A caller must drop its
    /// reservation before it reserves again: two callers that wait for each other would never end.
    pub(super) fn reserve(&self, bytes: u64) -> Reserved<'_> {
        let bytes = bytes.min(self.bytes);
        let mut free = self.free.lock();
        while *free < bytes {
            self.freed.wait(&mut free);
        }
        *free -= bytes;
        Reserved { budget: self, bytes }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        *self.budget.free.lock() += self.bytes;
        self.budget.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    #[test]
    fn no_more_than_there_is_is_lent_at_a_time() {
        let (budget, lent, most) = (MemoryBudget::new(10), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for bytes in [3, 4, 5, 6, 100].repeat(20) {
                let (budget, lent, most) = (&budget, &lent, &most);
                scope.spawn(move || {
                    let reserved = budget.reserve(bytes);
                    most.fetch_max(lent.fetch_add(reserved.bytes, SeqCst) + reserved.bytes, SeqCst);
                    lent.fetch_sub(reserved.bytes, SeqCst);
                });
            }
        });
        assert!((1..=10).contains(&most.into_inner()) && *budget.free.lock() == 10);
    }
}
