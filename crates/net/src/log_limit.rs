//! Rate limit for log lines that clients can cause.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Rate limit of log lines; counts suppressed lines.
#[derive(Debug)]
pub struct LogLimit {
    lines_per_second: u32,
    second: Mutex<Second>,
}

#[derive(Debug)]
struct Second {
    began: Instant,
    lines: u32,
    suppressed: u64,
}

impl LogLimit {
    /// Limit of this many lines per second.
    pub fn new(lines_per_second: u32) -> LogLimit {
        let second = Second { began: Instant::now(), lines: 0, suppressed: 0 };
        LogLimit { lines_per_second, second: Mutex::new(second) }
    }

    /// Admits a line at this time, and returns the number of lines suppressed before it; `None` if the line
    /// has to be suppressed.
    pub fn pass(&self, now: Instant) -> Option<u64> {
        let mut second = self.second.lock();
        if now.duration_since(second.began) >= Duration::from_secs(1) {
            second.began = now;
            second.lines = 0;
        }
        if second.lines == self.lines_per_second {
            second.suppressed += 1;
            return None;
        }
        second.lines += 1;
        Some(std::mem::take(&mut second.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: At most 20 refused requests a second are logged, and then the number of the others.
    #[test]
    fn what_is_too_much_for_a_second_is_counted_and_said_later() {
        let limit = LogLimit::new(2);
        let now = Instant::now();
        assert_eq!([(); 5].map(|()| limit.pass(now)), [Some(0), Some(0), None, None, None]);
        let later = now + Duration::from_secs(2);
        assert_eq!([(); 3].map(|()| limit.pass(later)), [Some(3), Some(0), None]);
    }
}
