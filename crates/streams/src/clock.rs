//! The clock of deadlines.

use rustix::time::{ClockId, clock_gettime};

/// Microseconds of CLOCK_MONOTONIC. Costs no kernel call (vDSO).
#[inline]
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}
