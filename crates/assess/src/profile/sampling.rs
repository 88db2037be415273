//! Samples of a thread's instruction pointer, taken by the kernel.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, ReadFormat, SampleFlag, Sampler};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::ProfileError;
use crate::host::read;

/// Processor time between samples in nanoseconds: about 4,000 samples per second. The number is prime, so
/// that sampling does not run in step with the kernel's own timers.
const PERIOD_NS: u64 = 249_989;

/// Bytes of the ring that the kernel writes samples to: 8,192 samples, two seconds. The ring is emptied after
/// each step.
const RING: usize = 1 << 17;

/// Limit of the elapsed time, as a multiple of the requested processor time.
const PATIENCE: u32 = 10;

/// Processor mode: mask and value for user mode in the `misc` word of each record (`linux/perf_event.h`).
const MODE: u16 = 7;
const USER: u16 = 2;

/// Location of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// Address in the kernel.
    Kernel(u64),
    /// Address in user space.
    User(u64),
}

/// Collected samples.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// Number of samples at each location.
    pub(super) places: HashMap<Place, u64>,
    /// Samples lost because the ring was full.
    pub(super) lost: u64,
}

/// Sampler of parts of a step.
pub struct Sampled<'a> {
    sampler: &'a mut Sampler,
    /// Processor time sampled.
    used: Duration,
}

/// Sampling of one thread.
pub(super) struct Sampling {
    sampler: Sampler,
    /// Lost samples so far: the kernel counts from the beginning.
    lost: u64,
    /// Lost samples by the ring's own records, for kernels that do not count them (before 6.0).
    told_lost: u64,
}

impl Sampled<'_> {
    /// Samples while `act` runs.
    ///
    /// # Errors
    /// Errors of `act`, and [`ProfileError::Sampling`].
    pub fn during<T, E: From<ProfileError>>(&mut self, act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.sampler.enable().map_err(ProfileError::Sampling)?;
        let before = used();
        let outcome = act();
        self.used += used() - before;
        self.sampler.disable().map_err(ProfileError::Sampling)?;
        outcome
    }
}

impl Sampling {
    /// Prepares sampling of the calling thread, on any processor; sampling is not started.
    pub(super) fn of_this_thread() -> Result<Sampling, ProfileError> {
        // Kernels before 6.0 do not know this flag, and fail with EINVAL.
        let counter = build(ReadFormat::LOST).or_else(|error| match Errno::from_io_error(&error) {
            Some(Errno::INVAL) => build(ReadFormat::empty()),
            _ => Err(error),
        });
        let sampler = counter.and_then(|counter| counter.sampled(RING)).map_err(why_not)?;
        Ok(Sampling { sampler, lost: 0, told_lost: 0 })
    }

    /// Calls `step` repeatedly until `processor_time` was sampled, or [`PATIENCE`] times that time has
    /// passed: other programs may use the processor, and work may wait.
    pub(super) fn run<E: From<ProfileError>>(
        &mut self,
        processor_time: Duration,
        mut step: impl FnMut(&mut Sampled<'_>) -> Result<(), E>,
    ) -> Result<Samples, E> {
        let mut samples = Samples::default();
        let (mut spent, latest) = (Duration::ZERO, Instant::now() + processor_time * PATIENCE);
        let mut outcome = Ok(());
        while outcome.is_ok() && spent < processor_time && Instant::now() < latest {
            let mut sampled = Sampled { sampler: &mut self.sampler, used: Duration::ZERO };
            outcome = step(&mut sampled);
            spent += sampled.used;
            self.empty(&mut samples.places).map_err(ProfileError::Sampling)?;
        }
        samples.lost = self.newly_lost().map_err(ProfileError::Sampling)?;
        outcome.map(|()| samples)
    }

    /// Takes the records out of the ring.
    fn empty(&mut self, places: &mut HashMap<Place, u64>) -> io::Result<()> {
        while let Some(record) = self.sampler.next_record() {
            let user = record.misc() & MODE == USER;
            match record.parse_record().map_err(io::Error::other)? {
                Record::Sample(sample) => {
                    let address =
                        sample.ip().ok_or_else(|| io::Error::other("a sample without an address"))?;
                    let place = if user { Place::User(address) } else { Place::Kernel(address) };
                    *places.entry(place).or_default() += 1;
                }
                Record::Lost(lost) => self.told_lost += lost.lost,
                _ => {} // a record that the kernel throttled sampling, or resumed it
            }
        }
        Ok(())
    }

    /// Samples lost since the last call.
    fn newly_lost(&mut self) -> io::Result<u64> {
        let all = self.sampler.read_full()?.lost().unwrap_or(self.told_lost);
        Ok(all - std::mem::replace(&mut self.lost, all))
    }
}

/// Processor time used by this thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn build(also: ReadFormat) -> io::Result<perf_event::Counter> {
    Builder::new(Software::CPU_CLOCK)
        .include_kernel()
        .sample(SampleFlag::IP)
        .sample_period(PERIOD_NS)
        .read_format(also)
        .build()
}

/// Profile error for a failed `perf_event_open`.
fn why_not(error: io::Error) -> ProfileError {
    match Errno::from_io_error(&error) {
        Some(Errno::ACCESS | Errno::PERM) => {
            let paranoid = read::line("/proc/sys/kernel/perf_event_paranoid");
            ProfileError::NotPermitted { paranoid: paranoid.unwrap_or_else(|| "not readable".to_owned()) }
        }
        _ => ProfileError::NoEvents(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: If the kernel may not be sampled, the assessment omits the profile and gives the remedy.
    #[test]
    fn without_permission_the_error_has_a_remedy() {
        assert!(matches!(why_not(Errno::ACCESS.into()), ProfileError::NotPermitted { .. }));
        assert!(matches!(why_not(Errno::PERM.into()), ProfileError::NotPermitted { .. }));
        assert!(matches!(why_not(Errno::NOSYS.into()), ProfileError::NoEvents(_)));
    }
}
