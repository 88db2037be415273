//! Rules of hot memory: its size, and the images that it holds.

use std::time::Duration;

use crate::memory_limit::{lockable_memory, memory_limit};

/// Default share of the machine's memory for hot memory: one part of so many.
const AUTOMATIC_PART: u64 = 8;

/// Least size of automatic hot memory: a smaller one has no room for a useful image.
const LEAST_AUTOMATIC_BYTES: u64 = 64 << 20;

/// Number of sessions from which an image is copied to automatic hot memory. A copy costs as much processor
/// time as about four sessions save by playing the whole image from hot memory.
const AUTOMATIC_SESSIONS: usize = 8;

/// Least time for which an image that is played is held.
const LEAST_STAY: Duration = Duration::from_secs(30);

/// Size of hot memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HotMemorySize {
    /// None.
    Off,
    /// At most an eighth of the memory, for images of eight sessions, where the kernel sends them without a
    /// copy.
    Automatic,
    /// This many bytes, for all images that are played.
    Bytes(u64),
}

/// Rules of hot memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HotOptions {
    /// Most bytes of it.
    pub(crate) budget: u64,
    /// Least number of sessions of an image that is copied.
    pub(crate) least_sessions: usize,
    /// Least time for which an image that is played is held.
    pub(crate) least_stay: Duration,
    /// True if the operator gave no size. Then hot memory is freed where it saves nothing, and there are no
    /// warnings.
    pub(crate) is_automatic: bool,
}

impl HotOptions {
    /// Of so many bytes.
    pub(crate) fn of_bytes(budget: u64) -> HotOptions {
        HotOptions { budget, least_sessions: 1, least_stay: LEAST_STAY, is_automatic: false }
    }

    /// Size within the memory that this process may use and lock, for so many engine threads; none if that is
    /// too little.
    pub(crate) fn automatic(threads: usize) -> Option<HotOptions> {
        HotOptions::automatic_within(memory_limit(), lockable_memory(), threads)
    }

    /// Each engine thread locks all of it.
    fn automatic_within(memory: u64, lockable: u64, threads: usize) -> Option<HotOptions> {
        // Registered pieces overlap a little, and the limit is for the user, not for the process.
        let budget = (memory / AUTOMATIC_PART).min(lockable / 8 * 7 / threads.max(1) as u64);
        let options = HotOptions::of_bytes(budget);
        (budget >= LEAST_AUTOMATIC_BYTES).then_some(HotOptions {
            least_sessions: AUTOMATIC_SESSIONS,
            is_automatic: true,
            ..options
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_automatic_size_is_within_all_limits() {
        let budget = |memory, lockable, threads| {
            HotOptions::automatic_within(memory, lockable, threads).map(|options| options.budget)
        };
        assert_eq!(budget(8 << 30, u64::MAX, 4), Some(1 << 30));
        assert_eq!(budget(8 << 30, 1 << 30, 4), Some(224 << 20));
        assert_eq!(budget(8 << 30, 8 << 20, 4), None, "the usual limit of locked memory");
        assert_eq!(budget(256 << 20, u64::MAX, 1), None);
    }
}
