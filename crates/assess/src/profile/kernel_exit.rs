//! Samples directly after a system call instruction.
//!
//! The exit path of the kernel runs with interrupts off, and ends with the instruction that enables
//! interrupts and returns to user space. A timer that expired on this path fires there: the sample has the
//! first instruction after the call, in user space, though the time was spent leaving the kernel. A quarter
//! of the samples of a `getpid` loop are of this kind. They are charged to the kernel exit; the single
//! instruction itself takes no time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Function name of these samples.
pub(super) const NAME: &str = "[return to user space]";

/// System call instruction.
#[cfg(target_arch = "x86_64")]
const SYSTEM_CALL: &[u8] = &[0x0f, 0x05]; // syscall
#[cfg(target_arch = "aarch64")]
const SYSTEM_CALL: &[u8] = &[0x01, 0x00, 0x00, 0xd4]; // svc #0
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const SYSTEM_CALL: &[u8] = &[]; // unknown: no sample is taken for a kernel exit

/// Reader of this process's instructions.
pub(super) struct KernelExits {
    memory: File,
}

impl KernelExits {
    /// Opens the memory of this process.
    pub(super) fn open() -> io::Result<KernelExits> {
        Ok(KernelExits { memory: File::open("/proc/self/mem")? })
    }

    /// Returns whether the instruction before this address is a system call.
    pub(super) fn is_one(&self, address: u64) -> bool {
        let mut before = [0; 4];
        let before = &mut before[..SYSTEM_CALL.len()];
        let Some(at) = address.checked_sub(SYSTEM_CALL.len() as u64) else { return false };
        // Memory that cannot be read (the kernel's page of time functions, or an unmapped address) is no
        // kernel exit.
        !SYSTEM_CALL.is_empty() && self.memory.read_exact_at(before, at).is_ok() && before == SYSTEM_CALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_instruction_is_found_and_nothing_else() {
        let code = [&[0x90][..], SYSTEM_CALL, &[0x90]].concat();
        let exits = KernelExits::open().unwrap();
        let start = code.as_ptr().addr() as u64;
        let found: Vec<u64> = (0..code.len() as u64).filter(|at| exits.is_one(start + at)).collect();
        let expected = if SYSTEM_CALL.is_empty() { vec![] } else { vec![1 + SYSTEM_CALL.len() as u64] };
        assert_eq!(found, expected);
        assert!(!exits.is_one(0) && !exits.is_one(1) && !exits.is_one(u64::MAX));
    }
}
