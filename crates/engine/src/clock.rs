//! Clock for deadlines, and clock for processor time.

use rustix::time::{ClockId, clock_gettime};

/// Current time in microseconds of CLOCK_MONOTONIC. Needs no system call (vDSO).
#[inline]
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// Processor time used by the calling thread, in nanoseconds (CLOCK_THREAD_CPUTIME_ID). Needs a system call
/// each time, since the vDSO does not support this clock.
pub(crate) fn thread_time_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
