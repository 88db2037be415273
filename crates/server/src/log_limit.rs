//! A bound on log lines that strangers can cause.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lets so many lines pass each second, and counts those it does not.
#[derive(Debug)]
pub(crate) struct LogLimit {
    lines_per_second: u32,
    second: Mutex<Second>,
}

#[derive(Debug)]
struct Second {
    began: Instant,
    lines: u32,
    left_out: u64,
}

impl LogLimit {
    /// A limit that begins to count now.
    pub(crate) fn new(lines_per_second: u32) -> LogLimit {
        let second = Second { began: Instant::now(), lines: 0, left_out: 0 };
        LogLimit { lines_per_second, second: Mutex::new(second) }
    }

    /// Whether a line may be written at this time; if so, how many were left out before it.
    pub(crate) fn pass(&self, now: Instant) -> Option<u64> {
        let mut second = self.second.lock();
        if now.duration_since(second.began) >= Duration::from_secs(1) {
            second.began = now;
            second.lines = 0;
        }
        if second.lines == self.lines_per_second {
            second.left_out += 1;
            return None;
        }
        second.lines += 1;
        Some(std::mem::take(&mut second.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_for_a_second_is_counted_and_said_later() {
        let limit = LogLimit::new(2);
        let now = Instant::now();
        assert_eq!([(); 5].map(|()| limit.pass(now)), [Some(0), Some(0), None, None, None]);
        let later = now + Duration::from_secs(2);
        assert_eq!([(); 3].map(|()| limit.pass(later)), [Some(3), Some(0), None]);
    }
}
