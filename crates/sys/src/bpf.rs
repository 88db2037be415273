//! Commands of `bpf(2)`, and loading programs by it.

use std::ffi::{CStr, c_int, c_long};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Command of `linux/bpf.h`.
const PROG_LOAD: c_int = 5;

/// Maximum size of the verifier's log in bytes.
const LOG_BYTES: usize = 64 << 10;

/// Part of `union bpf_attr` of `BPF_PROG_LOAD`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    device: u32,
    expected_attach_type: u32,
    types: u32,
    function_info_bytes: u32,
    function_info: u64,
    function_info_count: u32,
    line_info_bytes: u32,
    line_info: u64,
    line_info_count: u32,
    attach_type_id: u32,
    attach_types: u32,
    unused: u32,
}

/// Kind of a program, and the place where it is to run.
#[derive(Clone, Copy, Default)]
pub(crate) struct Kind {
    pub(crate) program_type: u32,
    pub(crate) flags: u32,
    pub(crate) expected_attach_type: u32,
    pub(crate) attach_type_id: u32,
    pub(crate) attach_types: u32,
}

/// # Safety
/// The attribute is that of the command, and the memory that it points to may be read and written as the
/// command does.
pub(crate) unsafe fn bpf<T>(command: c_int, attribute: &mut T) -> io::Result<usize> {
    // SAFETY: the caller has made sure of it.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attribute, size_of::<T>() as c_long) };
    crate::checked(answer as isize)
}

/// # Safety
/// See [`bpf`]; in addition the command creates a descriptor.
pub(crate) unsafe fn open<T>(command: c_int, attribute: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: as above; the kernel has just made the descriptor.
    unsafe { Ok(OwnedFd::from_raw_fd(bpf(command, attribute)? as i32)) }
}

/// Address of a value, for an attribute.
pub(crate) fn address<T: ?Sized>(of: &T) -> u64 {
    (&raw const *of).cast::<u8>().expose_provenance() as u64
}

/// Loads a program.
///
/// # Errors
/// Error of the kernel, with the verifier's log.
pub(crate) fn load(kind: Kind, instructions: &[u8], license: &CStr) -> Result<OwnedFd, (io::Error, String)> {
    let mut load = Load {
        kind: kind.program_type,
        count: (instructions.len() / 8) as u32,
        instructions: address(instructions),
        license: license.as_ptr().expose_provenance() as u64,
        flags: kind.flags,
        expected_attach_type: kind.expected_attach_type,
        attach_type_id: kind.attach_type_id,
        attach_types: kind.attach_types,
        ..Load::default()
    };
    // Without a log first: the kernel refuses a program whose log is too long for its buffer.
    // SAFETY: the kernel reads the instructions and the license.
    let error = match unsafe { open(PROG_LOAD, &mut load) } {
        Ok(program) => return Ok(program),
        Err(error) => error,
    };
    let mut log = vec![0_u8; LOG_BYTES];
    (load.log_level, load.log_size) = (1, LOG_BYTES as u32);
    load.log = log.as_mut_ptr().expose_provenance() as u64;
    // SAFETY: as above; the kernel writes at most `log_size` bytes of the log.
    match unsafe { open(PROG_LOAD, &mut load) } {
        Ok(program) => Ok(program),
        Err(_) => {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            Err((error, String::from_utf8_lossy(&log[..end]).into_owned()))
        }
    }
}
