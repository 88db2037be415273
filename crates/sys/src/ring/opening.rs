//! Opening of a ring, and detection of its features on this kernel.

use std::io;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::io::Errno;

/// Capacity for completions per submission entry.
pub(super) const COMPLETIONS: u32 = 8;

/// Opens a ring whose kernel work happens in its thread's calls, from Linux 6.1 on only on request.
pub(super) fn open(entries: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    // Room for completions of a few submissions; the kernel keeps further completions.
    builder.dontfork().setup_submit_all().setup_single_issuer().setup_cqsize(entries * COMPLETIONS);
    let mut deferring = builder.clone();
    match deferring.setup_defer_taskrun().build(entries) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            builder.setup_coop_taskrun().build(entries)
        }
        result => result,
    }
}

/// Constants of `io_uring.h`, Linux 6.2: the request for notifications to report copies
/// (IORING_SEND_ZC_REPORT_USAGE), and the bit that reports a copy (IORING_NOTIF_USAGE_ZC_COPIED). The crate
/// `io_uring` has neither.
pub(super) const REPORT_USAGE: u16 = 1 << 3;
pub(super) const USAGE_COPIED: u32 = 1 << 31;

/// Returns whether the kernel reports copied sends, tested by the flag.
pub(super) fn reports_copies(ring: &mut IoUring) -> io::Result<bool> {
    let entry = opcode::SendZc::new(types::Fd(-1), std::ptr::null(), 0).zc_flags(REPORT_USAGE).build();
    // SAFETY: the entry refers to no memory and no descriptor.
    unsafe { ring.submission().push(&entry) }.map_err(|_: squeue::PushError| Errno::BUSY)?;
    let mut answer = None;
    let mut is_over = false;
    while !is_over {
        match ring.submit_and_wait(1) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for entry in ring.completion() {
            answer = answer.or((!cqueue::notif(entry.flags())).then(|| entry.result()));
            is_over = !cqueue::more(entry.flags());
        }
    }
    Ok(answer != Some(-libc::EINVAL))
}
