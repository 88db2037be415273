//! Samples behind a system call's instruction.
//!
//! The way out of the kernel has interrupts off, and ends with the instruction that puts them on again and
//! goes to user space. A timer that expired meanwhile fires there: the sample has the first instruction after
//! the call, in user space, though the time was spent leaving the kernel. A quarter of the samples of a loop
//! of `getpid` have it. They are charged to the kernel's exit; the one instruction itself takes no time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Function name of such samples.
pub(super) const NAME: &str = "[return to user space]";

/// The instruction that enters the kernel.
#[cfg(target_arch = "x86_64")]
const SYSTEM_CALL: &[u8] = &[0x0f, 0x05]; // syscall
#[cfg(target_arch = "aarch64")]
const SYSTEM_CALL: &[u8] = &[0x01, 0x00, 0x00, 0xd4]; // svc #0
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const SYSTEM_CALL: &[u8] = &[]; // not known: no sample is taken for one

/// Our own instructions.
pub(super) struct KernelExits {
    memory: File,
}

impl KernelExits {
    /// Opens our memory.
    pub(super) fn open() -> io::Result<KernelExits> {
        Ok(KernelExits { memory: File::open("/proc/self/mem")? })
    }

    /// Returns whether the instruction before this address enters the kernel.
    pub(super) fn is_one(&self, address: u64) -> bool {
        let mut before = [0; 4];
        let before = &mut before[..SYSTEM_CALL.len()];
        let Some(at) = address.checked_sub(SYSTEM_CALL.len() as u64) else { return false };
        // What cannot be read (the kernel's page of time functions, or nothing at all) is no exit.
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
