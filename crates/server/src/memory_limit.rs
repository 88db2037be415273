//! Memory that this process may use: the machine's, or less by the limit of a control group.

use std::fs;
use std::path::{Path, PathBuf};

/// Memory in bytes that the process may use, its share of the page cache included; none if nothing says.
pub(crate) fn memory_limit() -> Option<u64> {
    let read = |path: PathBuf| fs::read_to_string(path).ok();
    let limits =
        fs::read_to_string("/proc/self/cgroup").ok().into_iter().flat_map(|groups| limits(&groups, read));
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| memory_total(&text));
    limits.chain(machine).min()
}

/// Limits of the groups that `/proc/self/cgroup` names, and of those above them.
fn limits(groups: &str, read: impl Fn(PathBuf) -> Option<String>) -> Vec<u64> {
    let limits = groups.lines().filter_map(limit_files).flatten();
    // "max" is no number: no limit.
    limits.filter_map(|path| read(path)?.trim().parse().ok()).collect()
}

/// Files with the limits of a group, and of those above it: of version 2, or of version 1.
fn limit_files(line: &str) -> Option<Vec<PathBuf>> {
    let (number, rest) = line.split_once(':')?;
    let (controllers, group) = rest.split_once(':')?;
    let (root, name) = match controllers {
        "" if number == "0" => ("/sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|controller| controller == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let group = Path::new(group.trim_start_matches('/'));
    Some(group.ancestors().map(|group| Path::new(root).join(group).join(name)).collect())
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn memory_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(path: PathBuf) -> Option<String> {
        let text = match path.to_str()? {
            "/sys/fs/cgroup/a/b/memory.max" => "max\n",
            "/sys/fs/cgroup/a/memory.max" => "268435456\n",
            "/sys/fs/cgroup/memory/c/memory.limit_in_bytes" => "1000\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes" => "9223372036854771712\n",
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// Promise: The memory limit of a container bounds what is kept in the page cache for sessions.
    #[test]
    fn the_limit_of_a_group_holds_for_those_below() {
        assert_eq!(limits("0::/a/b\n", files), [268_435_456]);
        assert!(limits("0::/\n", files).is_empty());
        let first_version = "4:memory:/c\n3:cpuset:/\n0::/\n";
        assert_eq!(limits(first_version, files), [1000, 9_223_372_036_854_771_712]);
        assert!(limits("nonsense\n", files).is_empty());
    }

    #[test]
    fn this_machine_has_memory() {
        assert_eq!(memory_total("MemTotal:       24684092 kB\nMemFree: 1 kB\n"), Some(24_684_092 << 10));
        assert_eq!(memory_total("MemFree: 1 kB\n"), None);
        assert!(memory_limit().is_some_and(|bytes| bytes > 1 << 20));
    }
}
