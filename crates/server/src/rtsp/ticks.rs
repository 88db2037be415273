//! Ticks: times at which tasks that need not be punctual work together, in one wake-up of their thread.

use std::sync::LazyLock;
use std::time::Duration;
use tokio::time::Instant;

static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The first tick after `time`, of ticks that are `interval` apart (at least a microsecond).
pub(super) fn after(time: Instant, interval: Duration) -> Instant {
    let interval = interval.as_micros().max(1);
    let elapsed = time.saturating_duration_since(*EPOCH).as_micros();
    *EPOCH + Duration::from_micros(((elapsed / interval + 1) * interval) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_common_and_in_the_future() {
        let interval = Duration::from_millis(100);
        let start = after(Instant::now(), interval);
        let after_start = |ms| after(start + Duration::from_millis(ms), interval);
        assert_eq!(after_start(0), start + interval);
        assert_eq!(after_start(99), start + interval);
        assert_eq!(after_start(101), start + 2 * interval);
        assert_eq!(after(start, Duration::ZERO), start + Duration::from_micros(1));
    }
}
