//! The memory that this process may use, and lock.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// Bytes of memory that this process may use: the machine's memory, or less if a control group limits it.
pub(crate) fn memory_limit() -> u64 {
    let system = rustix::system::sysinfo();
    let machine = (system.totalram as u64).saturating_mul(system.mem_unit.into());
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    machine.min(limit_of_groups(&groups, Path::new(GROUPS)).unwrap_or(u64::MAX))
}

/// Bytes of memory that this process may lock.
pub(crate) fn lockable_memory() -> u64 {
    // The kernel checks the capability in the initial user namespace, which maps all users to themselves.
    let users = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_initial = users.split_whitespace().eq(["0", "0", "4294967295"]);
    let has_right =
        is_initial && capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    // No limit is given as none.
    if has_right { u64::MAX } else { getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX) }
}

/// Bytes of memory that this process may take without displacing anything but page cache: the machine's
/// available memory, or less if its control group has a limit.
pub(crate) fn available_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = number_behind("MemAvailable:", &text).map_or(u64::MAX, |kib| kib.saturating_mul(1024));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let statistics =
        fs::read_to_string(Path::new(GROUPS).join(group).join("memory.stat")).unwrap_or_default();
    let taken = ["anon ", "shmem ", "kernel "].map(|name| number_behind(name, &statistics).unwrap_or(0));
    machine.min(memory_limit().saturating_sub(taken.iter().sum()))
}

/// The number after a name at the start of a line.
fn number_behind(name: &str, text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// The lowest limit of a control group and its ancestors, if one has a limit. `groups` is the content of
/// `/proc/self/cgroup`: lines of number, controllers and path; version 2 has no controllers there.
fn limit_of_groups(groups: &str, mounted: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        match rest.split_once(":/")? {
            ("", path) => limit_around(mounted, path, "memory.max"),
            ("memory", path) => limit_around(&mounted.join("memory"), path, "memory.limit_in_bytes"),
            _ => None,
        }
    });
    limits.min()
}

fn limit_around(mounted: &Path, group: &str, file: &str) -> Option<u64> {
    // Without a limit the file contains `max`, or a number larger than any machine's memory; the root has no
    // such file.
    let limit = |folder: &Path| fs::read_to_string(mounted.join(folder).join(file)).ok()?.trim().parse().ok();
    Path::new(group).ancestors().filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_around_a_process_counts() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("system/wirepath");
        fs::create_dir_all(&inner).unwrap();
        let limit = || limit_of_groups("1:name=old:/x\n0::/system/wirepath\n", folder.path());
        assert_eq!(limit(), None);
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        assert_eq!(limit(), None);
        fs::write(folder.path().join("system/memory.max"), "1048576\n").unwrap();
        assert_eq!(limit(), Some(1 << 20));
        fs::write(inner.join("memory.max"), "4096\n").unwrap();
        assert_eq!(limit(), Some(4096));
        assert_eq!(limit_of_groups("", folder.path()), None);
        let older = folder.path().join("memory/a");
        fs::create_dir_all(&older).unwrap();
        fs::write(older.join("memory.limit_in_bytes"), "8192\n").unwrap();
        assert_eq!(limit_of_groups("4:memory:/a/b\n0::/\n", folder.path()), Some(8192));
        assert!(memory_limit() > 1 << 20);
        assert!((1 << 20..=memory_limit()).contains(&available_memory()));
    }
}
