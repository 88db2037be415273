//! Thread that serves write faults. It uses no heap, no sleeping lock, and no signals.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::userfault::Event;
use super::{WriteGuard, pause, thread};

/// Interval between attempts to get the lock for moved memory.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000 };

/// Starts the thread.
///
/// # Errors
/// `EAGAIN` if no thread can be created.
pub(super) fn start(guard: &'static WriteGuard) -> io::Result<()> {
    let before = block_signals();
    let started = std::thread::Builder::new().name("write-guard".into()).spawn(move || serve(guard));
    restore_signals(&before);
    started.map(drop)
}

/// Serves until the program closes the descriptor.
fn serve(guard: &WriteGuard) {
    loop {
        let timeout = (!guard.moves.is_empty()).then_some(&PAUSE);
        // Errors, such as an interruption, count as no event.
        let _ready = poll(&mut [PollFd::new(&guard.userfault, PollFlags::IN)], timeout);
        // A program that closed all descriptors has ended the protection, and may have another file with this
        // number.
        if !guard.userfault.is_open() {
            return;
        }
        while let Some(event) = guard.userfault.next_event() {
            match event {
                Event::Fault { address, thread } => guard.serve_fault(address, thread),
                Event::Moved { to, length } => guard.moves.note(to, length),
            }
        }
        if !guard.moves.is_empty() {
            guard.serve_moves();
        }
    }
}

impl WriteGuard {
    /// Gives a writer a new page if the old page is lent, and wakes it.
    fn serve_fault(&self, address: usize, writer: u32) {
        let is_locked = self.lock_for(writer);
        if is_locked {
            self.sweep();
        }
        self.replace_for_writer(address);
        if is_locked {
            self.lock.unlock();
        }
    }

    /// Locks, unless the writer holds the lock itself: the writer waits here and changes nothing. Another
    /// lock holder may wait for a later event, so events are read meanwhile; other writers retry.
    fn lock_for(&self, writer: u32) -> bool {
        while !self.lock.try_lock(thread()) {
            if self.lock.holder() == writer {
                return false;
            }
            match self.userfault.next_event() {
                Some(Event::Moved { to, length }) => self.moves.note(to, length),
                Some(Event::Fault { address, thread }) if self.lock.holder() == thread => {
                    self.replace_for_writer(address);
                }
                Some(Event::Fault { address, .. }) => self.wake_writer(address),
                None => self.lock.sleep(),
            }
        }
        true
    }

    fn replace_for_writer(&self, address: usize) {
        let page = address / self.page * self.page;
        // Code that writes to a buffer mostly writes all of it: following pages are replaced by the same
        // calls.
        let end = self.table.end_of_loan(page).unwrap_or(page + self.page);
        let end = end.min(page + self.bounce[0].length());
        if self.replace(page..end, &self.bounce[0]) > 0 {
            self.write_faults.fetch_add(1, Relaxed);
        }
        self.wake_writer(address);
    }

    /// Makes a writer retry. An error means that its memory was unmapped, and no thread waits.
    fn wake_writer(&self, address: usize) {
        let _nobody = self.userfault.wake(address / self.page * self.page, self.page);
    }

    /// Replaces lent pages that `mremap` has moved: the table has only their old addresses.
    fn serve_moves(&self) {
        let _later = self.locked(|| {
            while let Some((to, length)) = self.moves.take() {
                self.replace(to..to + length, &self.bounce[0]);
            }
        });
    }

    /// Reads an event while pages are being replaced. A move of memory blocks the replacement until its event
    /// was read; writers retry.
    pub(super) fn note_event(&self) {
        match self.userfault.next_event() {
            Some(Event::Moved { to, length }) => self.moves.note(to, length),
            Some(Event::Fault { address, .. }) => self.wake_writer(address),
            None => pause(),
        }
    }
}

fn block_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: both sets are written by the calls before they are read; the calls cannot fail with them.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: the set is initialised, and no old one is asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}
