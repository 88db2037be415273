//! Time since the start of a run.

use std::time::{Duration, Instant, SystemTime};

/// Maximum plausible waiting time. A longer time means that the wall clock was set.
const MOST_WAITING: Duration = Duration::from_secs(30);

/// Clock that counts microseconds since the start of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    pub(crate) fn now_us(self) -> i64 {
        i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.start.elapsed()
    }

    /// Arrival time of a datagram by the kernel's timestamp, and the time that the datagram waited in the
    /// kernel. Without a valid timestamp, the datagram counts as just arrived.
    pub(crate) fn arrival_us(self, since_1970: Option<Duration>) -> (i64, i64) {
        let now_us = self.now_us();
        let waited = since_1970.and_then(|stamp| SystemTime::UNIX_EPOCH.elapsed().ok()?.checked_sub(stamp));
        let waited = waited.filter(|waited| *waited < MOST_WAITING).unwrap_or_default();
        let waited_us = waited.as_micros() as i64;
        (now_us - waited_us, waited_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_times_of_the_run() {
        let clock = Clock::start();
        std::thread::yield_now();
        let stamp = SystemTime::UNIX_EPOCH.elapsed().unwrap() - Duration::from_millis(50);
        let (arrival_us, waited_us) = clock.arrival_us(Some(stamp));
        assert!(waited_us >= 49_000 && arrival_us <= clock.now_us() - 49_000, "{arrival_us} {waited_us}");
        let unusable = [None, Some(Duration::ZERO), Some(stamp + Duration::from_secs(3600))];
        assert!(unusable.iter().all(|stamp| clock.arrival_us(*stamp).1 == 0));
    }
}
