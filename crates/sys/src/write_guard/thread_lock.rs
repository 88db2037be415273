//! Lock of all protection changes, which records its holder: the holder may be waiting for the thread that
//! serves write faults.

use std::sync::atomic::{AtomicU32, Ordering::*};

use rustix::thread::futex::{Flags, wait, wake};
use rustix::time::Timespec;

/// Set while threads sleep until the lock is released.
const HAS_WAITERS: u32 = 1 << 31;

/// Number of attempts of a thread that does not sleep.
const TRIES: u32 = 100;

/// Longest single sleep.
const SLEEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Id of the holding thread, or 0.
#[derive(Debug)]
pub(super) struct ThreadLock(AtomicU32);

impl ThreadLock {
    pub(super) const fn new() -> ThreadLock {
        ThreadLock(AtomicU32::new(0))
    }

    /// Locks for this thread; false if another thread holds the lock for longer than some attempts. Never
    /// sleeps.
    pub(super) fn try_lock(&self, thread: u32) -> bool {
        (0..TRIES).any(|_| {
            let is_locked = self.0.compare_exchange(0, thread, Acquire, Relaxed).is_ok();
            if !is_locked {
                std::hint::spin_loop();
            }
            is_locked
        })
    }

    /// Locks for this thread, which must not hold the lock.
    pub(super) fn lock(&self, thread: u32) {
        while !self.try_lock(thread) {
            self.sleep();
        }
    }

    /// Sleeps until the lock is released, or up to the limit.
    pub(super) fn sleep(&self) {
        let seen = self.0.load(Relaxed);
        let marked = seen | HAS_WAITERS;
        if seen != 0 && self.0.compare_exchange(seen, marked, Relaxed, Relaxed).is_ok() {
            // An error means that the lock was released meanwhile, or that the time has passed.
            let _woken = wait(&self.0, Flags::PRIVATE, marked, Some(&SLEEP));
        }
    }

    pub(super) fn unlock(&self) {
        if self.0.swap(0, Release) & HAS_WAITERS != 0 {
            // Waiting threads retry; an error means that there are none.
            let _woken = wake(&self.0, Flags::PRIVATE, u32::MAX >> 1);
        }
    }

    /// Holding thread; 0 for none.
    pub(super) fn holder(&self) -> u32 {
        self.0.load(Acquire) & !HAS_WAITERS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_tells_its_thread() {
        let lock = ThreadLock::new();
        assert!(lock.try_lock(5) && !lock.try_lock(6));
        assert_eq!(lock.holder(), 5);
        lock.unlock();
        assert!(lock.try_lock(6));
    }

    #[test]
    fn one_thread_at_a_time_has_it() {
        let (lock, inside) = (ThreadLock::new(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for thread in 1..=4 {
                let (lock, inside) = (&lock, &inside);
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        lock.lock(thread);
                        assert_eq!(inside.swap(thread, Relaxed), 0);
                        assert_eq!(lock.holder(), thread);
                        inside.store(0, Relaxed);
                        lock.unlock();
                    }
                });
            }
        });
        assert_eq!(lock.holder(), 0);
    }
}
