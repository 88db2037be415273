//! Memory that the kernel keeps for itself: what a module leaks is in it.

use std::fs::{read_to_string, write};

use anyhow::{Context, Result, ensure};

/// More than this is no noise. A test of a module repeats what might leak often enough to leak more: 512 pages.
const TOLERANCE_KIBIBYTES: u64 = 2048;

/// KiB that are neither free, nor cache, nor any process's.
pub(crate) fn of_the_kernel() -> Result<u64> {
    // Caches go, and free pages of each processor come back to where they are counted.
    write("/proc/sys/vm/drop_caches", "3").context("dropping caches")?;
    write("/proc/sys/vm/compact_memory", "1").context("compacting memory")?;
    let text = read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let field = |name: &str| -> Result<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        number.with_context(|| format!("/proc/meminfo has no {name}"))
    };
    let others = ["MemFree", "Buffers", "Cached", "AnonPages", "SReclaimable", "PageTables"];
    let others: u64 = others.into_iter().map(field).sum::<Result<u64>>()?;
    Ok(field("MemTotal")?.saturating_sub(others))
}

/// Fails if it has grown since.
pub(crate) fn check(before: u64) -> Result<()> {
    let after = of_the_kernel()?;
    let grown = after.saturating_sub(before);
    println!("memory of the kernel: {before} KiB before, {after} KiB after");
    ensure!(grown <= TOLERANCE_KIBIBYTES, "the kernel keeps {grown} KiB more than before: memory leaks");
    Ok(())
}
