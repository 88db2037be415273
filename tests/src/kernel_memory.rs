//! Memory that the kernel keeps for itself, on a machine that does nothing else: what a module leaks is in
//! it.

use std::fs::{read_to_string, write};

use anyhow::{Context, Result};

/// KiB, as `/proc/meminfo` counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelMemory {
    /// Memory that is neither free, nor cache, nor any process's.
    pub unaccounted: u64,
    /// Slabs that are no cache.
    pub slabs: u64,
    /// Per-processor memory.
    pub per_processor: u64,
    /// Mapped as it was asked for: code of modules, large tables.
    pub mapped: u64,
}

impl KernelMemory {
    /// As it is now, without caches, which go.
    ///
    /// # Errors
    /// If this is not root, or no Linux that says so.
    pub fn now() -> Result<Self> {
        write("/proc/sys/vm/drop_caches", "3").context("dropping caches")?;
        let memory = read_to_string("/proc/meminfo").context("/proc/meminfo")?;
        let zones = read_to_string("/proc/zoneinfo").context("/proc/zoneinfo")?;
        Self::read(&memory, &zones)
    }

    fn read(memory: &str, zones: &str) -> Result<Self> {
        let field = |name: &str| -> Result<u64> {
            let line = memory.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            number.with_context(|| format!("/proc/meminfo has no {name}"))
        };
        let others =
            ["MemFree", "Buffers", "Cached", "AnonPages", "SReclaimable", "PageTables", "KernelStack"];
        let others: u64 = others.into_iter().map(field).sum::<Result<u64>>()?;
        Ok(Self {
            unaccounted: field("MemTotal")?.saturating_sub(others + free_of_processors(zones)),
            slabs: field("SUnreclaim")?,
            per_processor: field("Percpu")?,
            mapped: field("VmallocUsed")?,
        })
    }
}

/// KiB of free pages that processors keep at hand: `MemFree` leaves them out, and from Linux 6.7 on they may
/// be tens of MiB.
fn free_of_processors(zones: &str) -> u64 {
    let count = |line: &str| line.trim().strip_prefix("count:")?.trim().parse::<u64>().ok();
    let pages: u64 = zones.lines().filter_map(count).sum();
    pages * rustix::param::page_size() as u64 / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: &str = "\
MemTotal:         480000 kB
MemFree:          400000 kB
Buffers:            1000 kB
Cached:            20000 kB
AnonPages:          2000 kB
SReclaimable:       3000 kB
SUnreclaim:         9000 kB
KernelStack:        1500 kB
PageTables:          500 kB
VmallocUsed:        7000 kB
Percpu:              300 kB
";

    const ZONES: &str = "\
Node 0, zone    DMA32
  pages free     99000
  pagesets
    cpu: 0
              count:    1000
              high:     1014
              batch:    63
    cpu: 1
              count:    24
Node 0, zone  Movable
  pages free     0
";

    /// Promise: The leak check does not count free pages on per-processor lists.
    #[test]
    fn free_pages_that_a_processor_keeps_are_free() {
        let memory = KernelMemory::read(MEMORY, ZONES).unwrap();
        let page = rustix::param::page_size() as u64 / 1024;
        assert_eq!(memory.unaccounted, 480_000 - 428_000 - 1024 * page);
        assert_eq!([memory.slabs, memory.per_processor, memory.mapped], [9000, 300, 7000]);
    }

    #[test]
    fn what_is_not_said_is_no_zero() {
        let error = KernelMemory::read(&MEMORY.replace("Percpu", "Other"), ZONES).unwrap_err();
        assert!(error.to_string().contains("Percpu"), "{error}");
    }
}
