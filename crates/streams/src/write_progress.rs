//! Write progress of a file, for readers that follow the writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use wirepath_engine::Waker;

/// Write progress of a file. A stream that [writes the file](crate::Object::written) advances the progress;
/// every [`ObjectPart::Following`](crate::ObjectPart::Following) is sent up to the progress, waits, and
/// continues when more is written. Any number of readers follow one writer, each from any offset and at its
/// own speed. No reader delays the writer or another reader.
#[derive(Debug, Default)]
pub struct WriteProgress {
    bytes: AtomicU64,
    has_failed: AtomicBool,
    /// Locked once for each write (up to a megabyte), and by a reader that has caught up.
    waiting: Mutex<Vec<Waker>>,
}

impl WriteProgress {
    /// Progress of a file to which nothing has been written.
    pub fn new() -> Arc<WriteProgress> {
        Arc::default()
    }

    /// Bytes written so far, from the beginning of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Marks the writer as failed before the file is complete: readers that wait for more, now or later, end
    /// with an error.
    pub fn fail(&self) {
        self.has_failed.store(true, Ordering::Release);
        self.wake_readers();
    }

    pub(crate) fn advance(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Release);
        self.wake_readers();
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Registers a waker that is called once, when more than `known` bytes are written or the writer has
    /// failed. Returns false if this is the case already.
    pub(crate) fn wake_beyond(&self, known: u64, waker: Waker) -> bool {
        let mut waiting = self.waiting.lock();
        // The writer takes this lock after advancing: any later write finds the waker.
        if self.bytes() > known || self.has_failed() {
            return false;
        }
        waiting.push(waker);
        true
    }

    fn wake_readers(&self) {
        self.waiting.lock().drain(..).for_each(|waker| waker.wake());
    }
}
