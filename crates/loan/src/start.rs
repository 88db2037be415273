//! Start and end in a program: settings from its environment, and a report of what was lent.

use std::fs::OpenOptions;
use std::io::Write;

use wirepath_sys::lender;
use wirepath_sys::write_guard::WriteGuard;

use crate::{next, rule, sending};

/// Least bytes of a send that lends.
const LEAST: &str = "WIREPATH_LOAN_MIN_BYTES";

/// A file to which each process adds a line when it ends.
const REPORT: &str = "WIREPATH_LOAN_REPORT";

/// Called by the loader.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    next::find_all();
    match std::env::var(LEAST).ok().map(|text| text.parse()) {
        None => rule::set_least(None),
        Some(Ok(bytes)) => rule::set_least(Some(bytes)),
        Some(Err(error)) => {
            eprintln!(
                "libwirepath-loan.so: invalid {LEAST}: {error}: expected a number of bytes; nothing is lent"
            );
        }
    }
    // SAFETY: both are functions of this library, which is never unloaded.
    unsafe {
        libc::pthread_atfork(
            Some(sending::before_fork),
            Some(sending::after_fork_in_parent),
            Some(sending::after_fork_in_child),
        );
        libc::atexit(report);
    }
}

extern "C" fn report() {
    let Some(path) = std::env::var_os(REPORT) else { return };
    let counts = lender::counts();
    let faults = WriteGuard::started().map_or(0, WriteGuard::write_faults);
    let line = format!(
        "{{\"process\":{},\"lent\":{},\"lent_bytes\":{},\"back\":{},\"copied_although_lent\":{},\"refused\":{},\"write_faults\":{faults}}}\n",
        std::process::id(),
        counts.lent,
        counts.lent_bytes,
        counts.back,
        counts.copied_although_lent,
        counts.refused,
    );
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        eprintln!("libwirepath-loan.so: cannot write {REPORT} ({}): {error}", path.display());
    }
}
