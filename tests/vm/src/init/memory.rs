//! Kernel memory before and after a module.

use anyhow::{Result, ensure};
use wirepath_tests::kernel_memory::KernelMemory;

/// More than this is no noise. A test of a module repeats what might leak often enough to leak more: 512
/// pages.
const TOLERANCE_KIBIBYTES: u64 = 2048;

/// Fails if it has grown since.
pub(crate) fn check(before: KernelMemory) -> Result<()> {
    let after = KernelMemory::now()?;
    let grown = after.unaccounted.saturating_sub(before.unaccounted);
    println!("counted: memory of the kernel in KiB before: {before:?}, and after: {after:?}");
    ensure!(grown <= TOLERANCE_KIBIBYTES, "the kernel keeps {grown} KiB more than before: memory leaks");
    Ok(())
}
