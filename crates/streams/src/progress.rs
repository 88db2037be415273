//! Progress of a running stream, for other threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wirepath_engine::now_us;

/// Progress of a running stream: written by its engine thread once per turn, and read by other threads at no
/// cost to that thread. After the end of the stream the values are final.
#[derive(Debug)]
pub struct StreamProgress {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    moved_us: AtomicU64,
}

impl StreamProgress {
    pub(crate) fn new() -> StreamProgress {
        StreamProgress {
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            moved_us: AtomicU64::new(now_us()),
        }
    }

    /// Bytes that were read.
    pub fn bytes_in(&self) -> u64 {
        self.bytes_in.load(Relaxed)
    }

    /// Bytes that outputs have taken.
    pub fn bytes_out(&self) -> u64 {
        self.bytes_out.load(Relaxed)
    }

    /// Time of the last read or write, or of the start: microseconds of CLOCK_MONOTONIC, as
    /// [`now_us`](crate::engine::now_us).
    pub fn moved_us(&self) -> u64 {
        self.moved_us.load(Relaxed)
    }

    /// Updates the progress; only for the stream's engine thread.
    pub(crate) fn note(&self, bytes_in: u64, bytes_out: u64, now_us: u64) {
        if (bytes_in, bytes_out) != (self.bytes_in(), self.bytes_out()) {
            self.bytes_in.store(bytes_in, Relaxed);
            self.bytes_out.store(bytes_out, Relaxed);
            self.moved_us.store(now_us, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: The progress of a running stream is read without asking its thread.
    #[test]
    fn the_time_is_that_of_the_last_byte() {
        let progress = StreamProgress::new();
        let begun_us = progress.moved_us();
        progress.note(0, 0, begun_us + 10);
        assert_eq!(progress.moved_us(), begun_us, "nothing moved");
        progress.note(5, 0, begun_us + 20);
        progress.note(5, 5, begun_us + 30);
        progress.note(5, 5, begun_us + 40);
        assert_eq!((progress.bytes_in(), progress.bytes_out(), progress.moved_us()), (5, 5, begun_us + 30));
    }
}
