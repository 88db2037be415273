//! Descriptors: limit of open files, and the share that clients may hold.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limits::{Exceeded, client};

/// Share of the limit that is reserved, for responses to refused clients and for files of the server.
const RESERVED_SHARE: usize = 16;

/// Bounds of the reserve.
const RESERVE: (usize, usize) = (32, 512);

/// Minimum interval between counts, each of which takes a call. The reserve covers descriptors that are
/// opened meanwhile.
const COUNT_INTERVAL: Duration = Duration::from_millis(10);

/// Minimum interval between counts if a count takes a call for each descriptor (before Linux 6.2).
const SLOW_COUNT_INTERVAL: Duration = Duration::from_secs(1);

/// Descriptors of the process, shared by its clients.
///
/// All clients together may hold the descriptors that are neither in other use nor reserved. One address may
/// hold as many as remain for others, which is half if it is the only address.
#[derive(Debug)]
pub struct DescriptorBudget {
    /// Limit of open files, less the reserve.
    most: usize,
    bounds_addresses: bool,
    /// False if descriptors held by no client are not counted.
    counts_others: bool,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    by_clients: usize,
    by_address: HashMap<IpAddr, usize>,
    /// Descriptors held by no client, at the last count.
    others: usize,
    counted: Option<Instant>,
}

/// Permit for some descriptors, released on drop.
#[derive(Debug)]
pub struct DescriptorPermit {
    budget: Arc<DescriptorBudget>,
    address: IpAddr,
    descriptors: usize,
}

impl DescriptorBudget {
    /// Budget of a process with a limit of `limit` open files. With `bounds_addresses` each address is
    /// limited to what remains for others.
    pub fn new(limit: u64, bounds_addresses: bool) -> Arc<Self> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let reserve = (limit / RESERVED_SHARE).clamp(RESERVE.0, RESERVE.1);
        let most = limit.saturating_sub(reserve);
        Arc::new(Self { most, bounds_addresses, counts_others: true, held: Mutex::default() })
    }

    /// Budget without a limit, for a process that limits connections in another way.
    pub fn unlimited() -> Arc<Self> {
        Self::of_clients(usize::MAX)
    }

    /// Budget of `most` descriptors for clients, regardless of the process's own descriptors.
    pub fn of_clients(most: usize) -> Arc<Self> {
        Arc::new(Self { most, bounds_addresses: false, counts_others: false, held: Mutex::default() })
    }

    /// Number of descriptors that all clients together may hold, given the process's own descriptors now.
    pub fn for_clients(&self) -> usize {
        let mut held = self.held.lock();
        held.count();
        self.most.saturating_sub(held.others)
    }

    /// Admits more descriptors for a client at this address.
    ///
    /// # Errors
    /// `Descriptors` if there are no more; `Address` if only this address has reached its limit.
    pub fn admit(
        self: &Arc<Self>,
        address: IpAddr,
        descriptors: usize,
    ) -> Result<DescriptorPermit, Exceeded> {
        let address = client(address);
        let mut held = self.held.lock();
        if self.counts_others {
            held.count();
        }
        let left = self.most.saturating_sub(held.others + held.by_clients);
        let here = held.by_address.get(&address).copied().unwrap_or(0);
        if descriptors > left {
            return Err(Exceeded::Descriptors);
        }
        if self.bounds_addresses && here + descriptors > left {
            return Err(Exceeded::Address);
        }
        held.by_clients += descriptors;
        held.by_address.insert(address, here + descriptors);
        Ok(DescriptorPermit { budget: Arc::clone(self), address, descriptors })
    }
}

impl Held {
    /// Counts the descriptors held by no client, unless the last count is recent.
    fn count(&mut self) {
        let now = Instant::now();
        let is_younger = |interval| self.counted.is_some_and(|at| now.duration_since(at) < interval);
        if is_younger(COUNT_INTERVAL) {
            return;
        }
        let open = match cheap_count() {
            Some(open) => open,
            None if is_younger(SLOW_COUNT_INTERVAL) => return,
            None => slow_count(),
        };
        self.others = open.saturating_sub(self.by_clients);
        self.counted = Some(now);
    }
}

impl Drop for DescriptorPermit {
    fn drop(&mut self) {
        let mut held = self.budget.held.lock();
        held.by_clients -= self.descriptors;
        if let Some(here) = held.by_address.get_mut(&self.address) {
            *here -= self.descriptors;
            if *here == 0 {
                held.by_address.remove(&self.address);
            }
        }
    }
}

/// Returns whether a call failed because the process or the system has too many files open.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

/// Raises the soft limit of open files to the hard limit, as far as this user may. Returns the resulting
/// limit.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(errno) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
    {
        tracing::warn!(%errno, "raising the limit of open files failed");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Number of open descriptors; `None` before Linux 6.2, where the folder's size is 0.
fn cheap_count() -> Option<usize> {
    let stat = rustix::fs::stat("/proc/self/fd").ok()?;
    usize::try_from(stat.st_size).ok().filter(|&open| open > 0)
}

fn slow_count() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u8) -> IpAddr {
        [127, 0, 0, number].into()
    }

    fn budget(most: usize, bounds_addresses: bool) -> Arc<DescriptorBudget> {
        Arc::new(DescriptorBudget { most, bounds_addresses, counts_others: false, held: Mutex::default() })
    }

    /// Promise: One address never takes more descriptors than remain free for others.
    #[test]
    fn one_address_leaves_some_to_others() {
        let budget = budget(16, true);
        let greedy: Vec<_> = std::iter::from_fn(|| budget.admit(address(1), 1).ok()).collect();
        assert_eq!(greedy.len(), 8);
        assert_eq!(budget.admit(address(1), 1).err(), Some(Exceeded::Address));
        let second: Vec<_> = std::iter::from_fn(|| budget.admit(address(2), 2).ok()).collect();
        assert_eq!(second.len(), 2);
        assert!(budget.admit(address(3), 1).is_ok());
        drop(greedy);
        assert!(budget.admit(address(2), 2).is_ok(), "there is room again");
        drop(second);
        assert!(budget.held.lock().by_address.is_empty() && budget.held.lock().by_clients == 0);
    }

    #[test]
    fn addresses_that_are_bounded_otherwise_may_have_all() {
        let budget = budget(16, false);
        let all: Vec<_> = std::iter::from_fn(|| budget.admit(address(1), 2).ok()).collect();
        assert_eq!((all.len(), budget.admit(address(2), 1).err()), (8, Some(Exceeded::Descriptors)));
    }

    /// Other tests of this process open and close some descriptors meanwhile, but not hundreds.
    #[test]
    fn what_the_process_holds_for_itself_is_counted() {
        let limit = slow_count() as u64 + 1000;
        let budget = DescriptorBudget::new(limit, true);
        let before = budget.for_clients();
        assert!((700..1000).contains(&before), "{before}");
        let files: Vec<_> =
            (0..400).map(|_| std::fs::File::open("/dev/null").expect("it is there")).collect();
        budget.held.lock().counted = None; // as if the last count were old
        let after = budget.for_clients();
        assert!(cheap_count().is_none() || (300..600).contains(&after), "{after}");
        drop(files);
    }
}
