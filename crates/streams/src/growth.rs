//! How far a file is that a stream still writes, for those who send it meanwhile.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::Mailbox;
use crate::worker::Command;

/// How much of a file is written. A stream that [writes it](crate::Object::growing) says how far it is, and every
/// [`Part::Growing`](crate::Part::Growing) is sent as far as that, waits there, and goes on when there is more. Any number of
/// readers follow one writer, each from where it likes and as fast as it can; none keeps the writer or another reader waiting.
#[derive(Default)]
pub struct Growth {
    bytes: AtomicU64,
    failed: AtomicBool,
    /// Taken once for each piece that is written (up to a megabyte), and by a reader that has caught up.
    waiting: Mutex<Vec<Reader>>,
}

/// A download that has sent all there is, and where it is told of more.
struct Reader {
    mailbox: Arc<Mailbox>,
    id: u64,
}

impl Growth {
    /// Of a file of which nothing is written.
    pub fn new() -> Arc<Growth> {
        Arc::default()
    }

    /// Bytes from the file's beginning that are written.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Nothing more will come: whoever waits for more ends with an error, and so does whoever comes later.
    pub fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        self.wake();
    }

    /// So many more bytes are written.
    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Release);
        self.wake();
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Has a download told once when more than `known` bytes are written, or none will be. False if that is so already.
    pub(crate) fn tell(&self, known: u64, mailbox: &Arc<Mailbox>, id: u64) -> bool {
        let mut waiting = self.lock();
        // What is written from here on finds the reader in the list: the writer looks there after it has counted.
        if self.bytes() > known || self.has_failed() {
            return false;
        }
        waiting.push(Reader { mailbox: Arc::clone(mailbox), id });
        true
    }

    fn wake(&self) {
        for reader in self.lock().drain(..) {
            reader.mailbox.send(Command::Grew { id: reader.id });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Reader>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Growth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Growth")
            .field("bytes", &self.bytes())
            .field("failed", &self.has_failed())
            .finish()
    }
}
