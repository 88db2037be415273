//! Loading and unloading modules, and what the kernel thinks of itself after that.

use std::ffi::CString;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::system::{delete_module, finit_module};
use wirepath_tests::Deadline;

/// Loads a module. One that the kernel has already is fine.
pub(crate) fn load(file: &Path, parameters: &str) -> Result<()> {
    let opened = File::open(file).with_context(|| file.display().to_string())?;
    let parameters = CString::new(parameters).context("parameters of a module")?;
    match finit_module(&opened, &parameters, 0) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("{} does not load", file.display())),
    }
}

/// Unloads a module. All who used it have ended, and its own threads are on their way out: one that stays in
/// use has lost count.
pub(crate) fn unload(name: &str) -> Result<()> {
    let c_name = CString::new(name).context("name of a module")?;
    let unloaded = Deadline::seconds(LIMIT_SECONDS).wait_for("its users", || {
        match delete_module(&c_name, DO_NOT_WAIT) {
            Ok(()) => Ok(Some(())),
            Err(Errno::AGAIN | Errno::BUSY) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{name} does not unload")),
        }
    });
    unloaded.with_context(|| {
        let users = std::fs::read_to_string(format!("/sys/module/{name}/refcnt")).unwrap_or_default();
        format!("{name} is still in use ({} times) when its users have ended: references leak", users.trim())
    })
}

/// Time in which the threads of runs that were closed end.
const LIMIT_SECONDS: f64 = 5.0;

/// `O_NONBLOCK`, as `delete_module(2)` calls it.
const DO_NOT_WAIT: i32 = 0o4000;

/// Flags of `/proc/sys/kernel/tainted` that say nothing bad (Documentation/admin-guide/tainted-kernels.rst):
/// a module built outside the kernel's tree (12), one without a signature (13).
const FINE: u64 = 1 << 12 | 1 << 13;

/// Fails if something happened that makes the kernel distrust itself: a warning, an oops, a bad page.
pub(crate) fn check_taint() -> Result<()> {
    let text = std::fs::read_to_string("/proc/sys/kernel/tainted").context("reading the kernel's flags")?;
    let flags: u64 = text.trim().parse().context("reading the kernel's flags")?;
    ensure!(
        flags & !FINE == 0,
        "the kernel is tainted: flags {:#x} (see tainted-kernels.rst)",
        flags & !FINE
    );
    Ok(())
}
