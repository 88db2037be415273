//! Memory of queues.

use std::collections::VecDeque;

/// Gives memory back that was needed for much more than there is now.
pub(crate) fn shrink<T>(queue: &mut VecDeque<T>) {
    const SMALL: usize = 1024;
    if queue.capacity() > SMALL && queue.len() < queue.capacity() / 4 {
        queue.shrink_to(SMALL.max(2 * queue.len()));
    }
}
