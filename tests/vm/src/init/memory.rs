//! Kernel memory before and after a module.

use anyhow::{Context, Result, ensure};
use wirepath_tests::kernel_memory::KernelMemory;

/// More than this is no noise. A test of a module repeats what might leak often enough to leak more: 512
/// pages.
const TOLERANCE_KIBIBYTES: u64 = 2048;

/// As much again for each further processor, which keeps slabs, stacks and fragments of pages at hand, that others
/// cannot use.
const TOLERANCE_OF_PROCESSOR: u64 = 4096;

/// Fails if it has grown since.
pub(crate) fn check(before: KernelMemory) -> Result<()> {
    let after = KernelMemory::now()?;
    let grown = after.unaccounted.saturating_sub(before.unaccounted);
    println!("counted: memory of the kernel in KiB before: {before:?}, and after: {after:?}");
    let processors = std::thread::available_parallelism().context("counting processors")?.get() as u64;
    let tolerance = TOLERANCE_KIBIBYTES + (processors - 1) * TOLERANCE_OF_PROCESSOR;
    ensure!(grown <= tolerance, "the kernel keeps {grown} KiB more than before: memory leaks");
    Ok(())
}
