//! Counter of kernel calls of the measuring thread.

mod table;

use std::path::Path;

use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use crate::error::{Doing, Error};

pub(crate) use table::check;

/// Mount point of tracefs.
const TRACEFS: &str = "/sys/kernel/tracing";

/// Counter of calls by the thread that created it.
pub(crate) struct Calls {
    counter: Counter,
    /// Calls of the counter itself: the call that stops it.
    own: u64,
}

impl Calls {
    /// Creates a counter, if permissions allow.
    pub(crate) fn new() -> Result<Calls, Error> {
        let tracepoint = Tracepoint::with_id(tracepoint()?);
        let counter = Builder::new(tracepoint).include_kernel().build().map_err(|error| {
            Error::Unable(format!("perf events are not permitted ({error}): it takes root, or sysctl kernel.perf_event_paranoid=-1"))
        })?;
        let mut calls = Calls { counter, own: 0 };
        ((), calls.own) = calls.during(|| ())?;
        Ok(calls)
    }

    /// Counts the calls of `act`.
    pub(crate) fn during<T>(&mut self, act: impl FnOnce() -> T) -> Result<(T, u64), Error> {
        self.counter.reset().doing("resetting the counter of kernel calls")?;
        self.counter.enable().doing("starting the counter of kernel calls")?;
        let result = act();
        self.counter.disable().doing("stopping the counter of kernel calls")?;
        let counted = self.counter.read().doing("reading the counter of kernel calls")?;
        Ok((result, counted.saturating_sub(self.own)))
    }
}

/// Number of the tracepoint that every kernel call passes.
fn tracepoint() -> Result<u64, Error> {
    let file = Path::new(TRACEFS).join("events/raw_syscalls/sys_enter/id");
    if !file.exists() {
        mount_for_this_thread().map_err(|error| {
            Error::Unable(format!("no tracepoints in {TRACEFS}, and tracefs cannot be mounted ({error})"))
        })?;
    }
    let id = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
    id.ok_or_else(|| Error::Unable(format!("cannot read the tracepoints in {TRACEFS}: it takes root")))
}

/// Mounts tracefs, which minimal systems leave unmounted. The mount is in a mount namespace of this thread,
/// and vanishes with it.
fn mount_for_this_thread() -> std::io::Result<()> {
    wirepath_sys::namespace::leave_mounts()?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    Ok(mount("tracefs", TRACEFS, "tracefs", MountFlags::empty(), None)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_exactly() {
        // On a separate thread, since it may leave the shared mount namespace.
        std::thread::spawn(|| match Calls::new() {
            Ok(mut calls) => {
                for expected in [0, 1, 1000] {
                    let enter = || (0..expected).filter_map(|_| rustix::process::getppid()).count();
                    assert_eq!(calls.during(enter).unwrap().1, expected);
                }
            }
            // Other users may be forbidden to count; tests/netns counts too, and is skipped visibly without
            // root.
            Err(error) => assert!(!rustix::process::geteuid().is_root(), "{error}"),
        })
        .join()
        .unwrap();
    }
}
