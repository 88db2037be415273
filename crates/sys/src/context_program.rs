//! eBPF programs that run when user space asks, on memory of the caller (`BPF_PROG_TYPE_SYSCALL`, Linux 5.14
//! and newer), by `bpf(2)`: what the kernel makes of instructions, without a packet or a device.

use std::ffi::{CStr, c_int};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::bpf::{self, Kind, bpf};

/// Command, type and flag of `linux/bpf.h`.
const PROG_TEST_RUN: c_int = 10;
const PROG_TYPE_SYSCALL: u32 = 31;
/// The kernel takes no programs of this type without it.
const SLEEPABLE: u32 = 1 << 4;

/// Bytes of an instruction, and the first byte of a call.
const INSTRUCTION: usize = 8;
const CALL: u8 = 0x85;

/// Program accepted by the verifier, whose first argument points to the caller's memory.
#[derive(Debug)]
pub struct ContextProgram(OwnedFd);

/// Part of `union bpf_attr` of `BPF_PROG_TEST_RUN`.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    value: u32,
    data_bytes: [u32; 2],
    data: [u64; 2],
    repetitions: u32,
    duration: u32,
    context_bytes: u32,
    context_bytes_out: u32,
    context: u64,
    context_out: u64,
    flags: u32,
    processor: u32,
    batch: u32,
    unused: u32,
}

impl ContextProgram {
    /// Loads a program that calls no functions: those of this type may close descriptors of the process.
    ///
    /// # Errors
    /// Error of the kernel, with the verifier's log: `EPERM` without `CAP_BPF`. `EINVAL` for calls.
    pub fn load(instructions: &[u8], license: &CStr) -> Result<ContextProgram, (io::Error, String)> {
        if instructions.chunks(INSTRUCTION).any(|instruction| instruction[0] == CALL) {
            return Err((io::ErrorKind::InvalidInput.into(), "the program calls functions".to_owned()));
        }
        let kind = Kind { program_type: PROG_TYPE_SYSCALL, flags: SLEEPABLE, ..Kind::default() };
        bpf::load(kind, instructions, license).map(ContextProgram)
    }

    /// Runs the program once on this memory, to which it may write; returns the lower half of its value.
    ///
    /// # Errors
    /// `EINVAL` if the program accesses more memory than this, or for 64 KiB and more.
    pub fn run(&self, context: &mut [u8]) -> io::Result<u32> {
        let mut run = TestRun {
            program: self.0.as_raw_fd() as u32,
            context_bytes: u32::try_from(context.len()).unwrap_or(u32::MAX),
            context: context.as_mut_ptr().expose_provenance() as u64,
            ..TestRun::default()
        };
        // SAFETY: the kernel copies `context_bytes` bytes of the context, and writes as many back.
        unsafe { bpf(PROG_TEST_RUN, &mut run)? };
        Ok(run.value)
    }
}
