//! The clock of deadlines, and that of processor time.

use rustix::time::{ClockId, clock_gettime};

/// Microseconds of CLOCK_MONOTONIC. Costs no kernel call (vDSO).
#[inline]
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// Processor time that the calling thread has used, in nanoseconds (CLOCK_THREAD_CPUTIME_ID). A kernel call
/// each time: the vDSO does not have this clock.
pub(crate) fn thread_time_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
