//! Profile of a path, from samples of its thread's instruction pointer (table 1 of the papers).
//!
//! A sample belongs to the function of its instruction, not to the callers. So the shares of all functions
//! add up to one, and `copying` is the share of the copying instructions. Samples are taken by a timer
//! (`cpu-clock`), because virtual machines have no other counter. While interrupts are off, the timer is
//! deferred, so that this time is charged to the first instruction afterwards; `kernel_exit` corrects one
//! case of that.

mod classes;
mod experiment;
mod kernel_exit;
mod kernel_symbols;
mod sampling;
mod user_symbols;

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use crate::error::Error;
use crate::result::{FunctionShare, Shares};
use classes::Class;
pub use experiment::run;
use kernel_exit::KernelExits;
use kernel_symbols::KernelSymbols;
pub use sampling::Sampled;
use sampling::{Place, Sampling};
use user_symbols::UserSymbols;

/// Number of functions named in a profile.
const FUNCTIONS: usize = 5;

/// Reason for a missing profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No permission to sample the kernel.
    #[error(
        "sampling the kernel is not permitted (kernel.perf_event_paranoid is {paranoid}): run as root, or `sysctl -w \
         kernel.perf_event_paranoid=1 kernel.kptr_restrict=0`"
    )]
    NotPermitted {
        /// Value of the setting, if it can be read.
        paranoid: String,
    },
    /// The kernel hides the addresses of its functions.
    #[error(
        "the kernel hides where its functions are (kernel.kptr_restrict is {restrict}): run as root with `sysctl -w \
         kernel.kptr_restrict=1`"
    )]
    Hidden {
        /// Value of the setting, if it can be read.
        restrict: String,
    },
    /// The kernel has no list of its functions.
    #[error("/proc/kallsyms: {0}: a kernel with CONFIG_KALLSYMS is needed to name its functions")]
    NoSymbols(#[source] io::Error),
    /// The kernel has no such event, or a container forbids it.
    #[error(
        "perf_event_open: {0}: a kernel with CONFIG_PERF_EVENTS is needed, and a container that permits the call"
    )]
    NoEvents(#[source] io::Error),
    /// Sampling failed after it had begun.
    #[error("sampling: {0}")]
    Sampling(#[from] io::Error),
}

impl From<ProfileError> for Error {
    /// A missing profile is left out; all other figures remain valid.
    fn from(error: ProfileError) -> Error {
        Error::Unable(error.to_string())
    }
}

/// Profiler of the thread that created it.
pub struct Profiler {
    symbols: KernelSymbols,
    sampling: Sampling,
}

impl Profiler {
    /// Reads the kernel's symbols, and prepares sampling of the calling thread.
    ///
    /// # Errors
    /// [`ProfileError`] with the missing permission or option and the remedy.
    pub fn new() -> Result<Profiler, ProfileError> {
        let sampling = Sampling::of_this_thread()?;
        Ok(Profiler { symbols: KernelSymbols::read()?, sampling })
    }

    /// Calls `step` repeatedly until `processor_time` was sampled, or ten times that time has passed. Only
    /// the work inside [`Sampled::during`] is sampled. That work should take between a millisecond and a
    /// second, since the time is checked between steps.
    ///
    /// # Errors
    /// Errors of `step`, and [`ProfileError::Sampling`].
    pub fn run<E: From<ProfileError>>(
        &mut self,
        processor_time: Duration,
        step: impl FnMut(&mut Sampled<'_>) -> Result<(), E>,
    ) -> Result<Shares, E> {
        let samples = self.sampling.run(processor_time, step)?;
        // Libraries and generated code may have been loaded or unloaded since the last run.
        let user = UserSymbols::read().map_err(ProfileError::Sampling)?;
        let exits = KernelExits::open().map_err(ProfileError::Sampling)?;
        let named = samples.places.iter().map(|(place, count)| {
            let (name, class) = match *place {
                Place::Kernel(address) => {
                    let name = self.symbols.name(address);
                    (name, classes::of_kernel(name))
                }
                Place::User(address) if exits.is_one(address) => (kernel_exit::NAME, Class::Entering),
                Place::User(address) => (user.name(address), Class::User),
            };
            (name, class, *count)
        });
        Ok(shares(named, samples.lost))
    }
}

/// Sums samples by function and by class.
fn shares<'a>(samples: impl Iterator<Item = (&'a str, Class, u64)>, lost: u64) -> Shares {
    let mut functions: HashMap<&str, u64> = HashMap::new();
    let mut classes: HashMap<Class, u64> = HashMap::new();
    let mut total = 0;
    for (name, class, count) in samples {
        *functions.entry(name).or_default() += count;
        *classes.entry(class).or_default() += count;
        total += count;
    }
    let share = |count: u64| if total == 0 { 0.0 } else { count as f64 / total as f64 };
    let of = |class| share(classes.get(&class).copied().unwrap_or(0));
    let mut functions: Vec<(&str, u64)> = functions.into_iter().collect();
    functions.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    functions.truncate(FUNCTIONS);
    Shares {
        samples: total,
        lost,
        functions: functions
            .into_iter()
            .map(|(name, count)| FunctionShare { function: name.to_owned(), share: share(count) })
            .collect(),
        copying: of(Class::Copying),
        entering: of(Class::Entering),
        network: of(Class::Network),
        user: of(Class::User),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_the_dearest_come_first() {
        let samples = [
            ("memcpy", Class::Copying, 3),
            ("do_syscall_64", Class::Entering, 1),
            ("memcpy", Class::Copying, 1),
            ("udp_sendmsg", Class::Network, 2),
            ("vfs_read", Class::Other, 1),
            ("a", Class::Other, 1),
            ("wirepath", Class::User, 1),
        ];
        let shares = shares(samples.into_iter(), 7);
        assert_eq!((shares.samples, shares.lost), (10, 7));
        assert_eq!((shares.copying, shares.entering, shares.network, shares.user), (0.4, 0.1, 0.2, 0.1));
        let names: Vec<&str> = shares.functions.iter().map(|function| &function.function[..]).collect();
        assert_eq!(names, ["memcpy", "udp_sendmsg", "a", "do_syscall_64", "vfs_read"]);
        assert_eq!(shares.functions[0].share, 0.4);
    }

    #[test]
    fn no_sample_is_no_share() {
        let none = shares(std::iter::empty(), 0);
        assert_eq!((none.samples, none.copying, none.functions.len()), (0, 0.0, 0));
    }

    /// Promise: If the kernel may not be sampled, the assessment omits the profile and gives the remedy.
    #[test]
    fn what_is_missing_is_said_with_its_remedy() {
        let denied = ProfileError::NotPermitted { paranoid: "4".to_owned() }.to_string();
        assert!(denied.contains("perf_event_paranoid is 4") && denied.contains("run as root"), "{denied}");
        let hidden = ProfileError::Hidden { restrict: "2".to_owned() }.to_string();
        assert!(hidden.contains("sysctl -w kernel.kptr_restrict=1"), "{hidden}");
    }
}
