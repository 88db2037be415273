//! Processor time.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use crate::checked;

/// Processor time of a process: all its threads, those that ended, and workers that the kernel runs for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In user space.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

impl Usage {
    /// Of this process until now (`getrusage` with RUSAGE_SELF).
    ///
    /// # Errors
    /// None that `getrusage` has for these arguments.
    pub fn of_process() -> io::Result<Usage> {
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the kernel fills `usage`, which is as large as it takes it to be.
        checked(unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } as isize)?;
        // SAFETY: the call succeeded, and then all of it is filled.
        let usage = unsafe { usage.assume_init() };
        Ok(Usage { user: duration(usage.ru_utime), system: duration(usage.ru_stime) })
    }

    /// What was used since `earlier`.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// Times of use are never negative, nor have they a million microseconds.
fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn work_is_counted() {
        let before = Usage::of_process().unwrap();
        let start = Instant::now();
        let used = loop {
            let used = Usage::of_process().unwrap().since(before);
            if used.user + used.system > Duration::from_millis(20)
                || start.elapsed() > Duration::from_secs(20)
            {
                break used;
            }
        };
        assert!(used.user + used.system > Duration::from_millis(20), "{used:?}");
    }
}
