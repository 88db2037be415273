//! Lengths of bursts: the part of a source that leaves at once.

use std::time::Duration;

/// Lengths that [`Burst::Auto`] takes, in microseconds.
const LENGTHS_US: [u64; 6] = [10_000, 20_000, 50_000, 100_000, 200_000, 500_000];

/// Length of a burst in microseconds for each playing playback: the thread then sends a train every two
/// milliseconds, until the longest burst is reached.
const US_PER_PLAYBACK: u64 = 2000;

/// Length of the bursts of a thread's playbacks.
///
/// A call that sends a train costs nearly the same however long the train is, so long bursts are cheap. A
/// receiver has to buffer a burst and a switch has to queue it, so short bursts are better for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Burst {
    /// Always this long, in microseconds.
    Fixed(u64),
    /// 10 ms while a thread plays up to five playbacks; two milliseconds for each playback beyond, in steps.
    Auto {
        /// Longest burst, in microseconds.
        most_us: u64,
    },
}

impl Burst {
    /// Longest burst.
    pub(crate) fn longest(self) -> Duration {
        let (Burst::Fixed(longest_us) | Burst::Auto { most_us: longest_us }) = self;
        Duration::from_micros(longest_us)
    }

    /// Length in microseconds on a thread that plays so many playbacks.
    pub(crate) fn length_us(self, playing: u64) -> u64 {
        match self {
            Burst::Fixed(length_us) => length_us.max(1),
            Burst::Auto { most_us } => {
                let wanted_us = playing.saturating_mul(US_PER_PLAYBACK);
                let length_us = LENGTHS_US.into_iter().find(|length_us| *length_us >= wanted_us);
                length_us.unwrap_or(u64::MAX).min(most_us).max(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Few sessions get short bursts; as the load of a thread rises, bursts grow up to their limit.
    #[test]
    fn bursts_grow_with_the_number_of_playbacks() {
        let auto = Burst::Auto { most_us: 100_000 };
        let lengths = [0, 1, 5, 6, 10, 11, 25, 26, 50, 51, 5000, u64::MAX].map(|n| auto.length_us(n));
        let ms = [10, 10, 10, 20, 20, 50, 50, 100, 100, 100, 100, 100].map(|ms| ms * 1000);
        assert_eq!(lengths, ms);
        assert_eq!(Burst::Auto { most_us: 5000 }.length_us(1), 5000);
        assert_eq!(Burst::Auto { most_us: 500_000 }.length_us(1000), 500_000);
        assert_eq!(Burst::Fixed(20_000).length_us(5000), 20_000);
    }
}
