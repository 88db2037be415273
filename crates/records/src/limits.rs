//! Limits on making answers: time for one, and bytes of all.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{RecordsError, Result};

/// Budget of all answers: bytes that are made for them and not freed yet, in memory and temporary files.
#[derive(Debug)]
pub struct Budget {
    most: u64,
    held: AtomicU64,
    /// Owners of bytes that are being sent, and how many these are.
    sending: Mutex<Vec<(Weak<dyn Any + Send + Sync>, u64)>>,
}

/// Limits on making one answer.
#[derive(Clone, Debug)]
pub struct Limits {
    budget: Arc<Budget>,
    /// Time limit, and when it is over.
    time: Duration,
    end: Instant,
}

/// Bytes of a budget that an answer has taken.
#[derive(Debug)]
pub(crate) struct Held {
    limits: Limits,
    bytes: u64,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(most: u64) -> Arc<Budget> {
        Arc::new(Budget { most, held: AtomicU64::new(0), sending: Mutex::default() })
    }

    /// Takes bytes. Returns whether there was room.
    fn take(&self, bytes: u64) -> bool {
        let add = |held: u64| held.checked_add(bytes).filter(|held| *held <= self.most);
        let has_room = || self.held.fetch_update(Relaxed, Relaxed, add).is_ok();
        has_room() || {
            self.sweep();
            has_room()
        }
    }

    fn give_back(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Relaxed);
    }

    /// Gives back what was sent.
    fn sweep(&self) {
        self.sending.lock().retain(|(owner, bytes)| {
            let is_sending = owner.strong_count() > 0;
            if !is_sending {
                self.give_back(*bytes);
            }
            is_sending
        });
    }
}

impl Limits {
    /// Limits of an answer that begins now.
    pub fn new(budget: Arc<Budget>, time: Duration) -> Limits {
        Limits { budget, time, end: Instant::now() + time }
    }

    /// Fails when the time is over.
    pub(crate) fn check(&self) -> Result<()> {
        if Instant::now() < self.end { Ok(()) } else { Err(RecordsError::Slow(self.time)) }
    }

    /// Nothing of the budget yet.
    pub(crate) fn hold(&self) -> Held {
        Held { limits: self.clone(), bytes: 0 }
    }
}

impl Held {
    /// Takes further bytes.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<()> {
        self.limits.check()?;
        if !self.limits.budget.take(bytes) {
            return Err(RecordsError::Full(self.limits.budget.most));
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Gives the bytes back when their owner is dropped.
    pub(crate) fn until_dropped(mut self, owner: Weak<dyn Any + Send + Sync>) {
        let budget = &self.limits.budget;
        budget.sweep();
        budget.sending.lock().push((owner, std::mem::take(&mut self.bytes)));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.limits.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Answers share a fixed memory budget, and release their memory when they are sent.
    #[test]
    fn bytes_are_given_back_when_they_are_sent() {
        let budget = Budget::new(100);
        let limits = Limits::new(Arc::clone(&budget), Duration::from_secs(60));
        let (mut first, mut second) = (limits.hold(), limits.hold());
        first.grow(60).unwrap();
        assert!(matches!(second.grow(41), Err(RecordsError::Full(100))));
        second.grow(40).unwrap();
        let owner: Arc<dyn Any + Send + Sync> = Arc::new(());
        first.until_dropped(Arc::downgrade(&owner));
        drop(second);
        let mut third = limits.hold();
        assert!(third.grow(41).is_err(), "it is being sent");
        drop(owner);
        third.grow(100).unwrap();
        drop(third);
        assert_eq!(budget.held.load(Relaxed), 0);
    }

    #[test]
    fn time_is_limited() {
        let limits = Limits::new(Budget::new(100), Duration::ZERO);
        assert!(matches!(limits.check(), Err(RecordsError::Slow(Duration::ZERO))));
        assert!(limits.hold().grow(1).is_err());
    }
}
