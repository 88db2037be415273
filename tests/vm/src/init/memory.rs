//! Kernel memory before and after a module.

use anyhow::{Context, Result, ensure};
use wirepath_tests::kernel_memory::KernelMemory;

/// Growth that is permitted with one processor. A test of a module repeats what might leak often enough to leak more:
/// 512 pages.
const TOLERANCE_KIBIBYTES: u64 = 2048;

/// Further growth that is permitted for each further processor: it keeps slabs, stacks and fragments of pages that it
/// freed, which others cannot use.
const TOLERANCE_OF_PROCESSOR_KIBIBYTES: u64 = 4096;

/// Fails if it has grown since.
pub(crate) fn check(before: KernelMemory) -> Result<()> {
    let after = KernelMemory::now()?;
    let grown = after.unaccounted.saturating_sub(before.unaccounted);
    println!("counted: memory of the kernel in KiB before: {before:?}, and after: {after:?}");
    let processors = std::thread::available_parallelism().context("counting processors")?.get() as u64;
    let tolerance = TOLERANCE_KIBIBYTES + (processors - 1) * TOLERANCE_OF_PROCESSOR_KIBIBYTES;
    ensure!(grown <= tolerance, "the kernel keeps {grown} KiB more than before: memory leaks");
    Ok(())
}
