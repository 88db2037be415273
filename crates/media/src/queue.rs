//! Memory management of queues.

use std::collections::VecDeque;

/// Shrinks a queue whose capacity is far larger than its contents.
pub(crate) fn shrink<T>(queue: &mut VecDeque<T>) {
    const SMALL: usize = 1024;
    if queue.capacity() > SMALL && queue.len() < queue.capacity() / 4 {
        queue.shrink_to(SMALL.max(2 * queue.len()));
    }
}
