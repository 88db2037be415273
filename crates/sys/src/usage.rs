//! Processor time, and storage reads of a thread.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use crate::checked;

/// Processor time of a process: of all its threads, ended threads, and kernel workers that run for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time in user space.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
}

impl Usage {
    /// Usage of this process so far (`getrusage` with RUSAGE_SELF).
    pub fn of_process() -> io::Result<Usage> {
        let usage = usage(libc::RUSAGE_SELF)?;
        Ok(Usage { user: duration(usage.ru_utime), system: duration(usage.ru_stime) })
    }

    /// Processor time of all threads of another process, ended threads included, without its children, by the
    /// process's clock (clock_getcpuclockid(3)).
    ///
    /// # Errors
    /// `ESRCH` if the process does not exist.
    pub fn total_of(process: u32) -> io::Result<Duration> {
        let process = libc::pid_t::try_from(process).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut clock: libc::clockid_t = 0;
        // SAFETY: `clock` outlives the call, which writes it.
        let failed = unsafe { libc::clock_getcpuclockid(process, &raw mut clock) };
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed)); // the call returns the error and does not set errno
        }
        let mut time = MaybeUninit::<libc::timespec>::uninit();
        // SAFETY: the kernel fills `time`, which is as large as it takes it to be.
        checked(unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } as isize)?;
        // SAFETY: the call succeeded, and then all of it is filled.
        let time = unsafe { time.assume_init() };
        Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    /// Usage since `earlier`.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// Bytes read from storage so far for the calling thread, of files that were not in memory (`getrusage` with
/// RUSAGE_THREAD); 0 if the kernel does not account for it (CONFIG_TASK_IO_ACCOUNTING).
pub fn bytes_read_by_thread() -> io::Result<u64> {
    /// Bytes of a block in `ru_inblock`.
    const BLOCK: u64 = 512;
    Ok(usage(libc::RUSAGE_THREAD)?.ru_inblock as u64 * BLOCK)
}

/// Number of waits of the calling thread so far, by the kernel's count of voluntary context switches.
#[cfg(test)]
pub(crate) fn waits_of_thread() -> io::Result<u64> {
    Ok(usage(libc::RUSAGE_THREAD)?.ru_nvcsw as u64)
}

fn usage(of: libc::c_int) -> io::Result<libc::rusage> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills `usage`, which is as large as it takes it to be.
    checked(unsafe { libc::getrusage(of, usage.as_mut_ptr()) } as isize)?;
    // SAFETY: the call succeeded, and then all of it is filled.
    Ok(unsafe { usage.assume_init() })
}

/// Converts a time, which is never negative and has less than a million microseconds.
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
        // The process clock includes this time too.
        let total = Usage::total_of(std::process::id()).unwrap();
        assert!(total >= used.user + used.system, "{total:?} of {used:?}");
    }

    #[test]
    fn what_storage_reads_for_a_thread_only_grows() {
        let before = bytes_read_by_thread().unwrap();
        assert!(bytes_read_by_thread().unwrap() >= before);
    }

    #[test]
    fn a_process_that_is_not_there_has_no_time() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(Usage::total_of(child.id()).is_err());
    }
}
