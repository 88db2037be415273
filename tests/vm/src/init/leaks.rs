//! Memory leaks of the kernel, found by kmemleak in kernels that have it
//! (Documentation/dev-tools/kmemleak.rst).

use std::fs::{read_to_string, write};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};

const FILE: &str = "/sys/kernel/debug/kmemleak";

/// Younger memory is not reported: it may be on its way from one to another (`MSECS_MIN_AGE` of
/// mm/kmemleak.c). A guest that is emulated passes over it.
const AGE: Duration = Duration::from_secs(6);

/// A leak must have been the same in the scan before.
const SCANS: u32 = 2;

/// A kernel that looks for leaks.
pub(crate) struct Kmemleak(());

impl Kmemleak {
    /// The one of this kernel, if it has any; what is lost already is not the module's.
    pub(crate) fn of_this_kernel() -> Result<Option<Self>> {
        if !Path::new(FILE).exists() {
            return Ok(None);
        }
        scan()?;
        let before = read_to_string(FILE).context("reading what is lost")?;
        if !before.is_empty() {
            println!("lost before the module came:\n{before}");
        }
        write(FILE, "clear").context("forgetting what is lost")?;
        Ok(Some(Self(())))
    }

    /// Fails if something was lost since. Each scan that finds something says so in the kernel's log, too.
    pub(crate) fn check(&self) -> Result<()> {
        scan()?;
        let lost = read_to_string(FILE).context("reading what is lost")?;
        if !lost.is_empty() {
            println!("{lost}");
            bail!("memory leaks: kmemleak found {} objects", lost.matches("unreferenced object").count());
        }
        println!("kmemleak: nothing is lost after {SCANS} scans");
        Ok(())
    }
}

fn scan() -> Result<()> {
    for _ in 0..SCANS {
        sleep(AGE);
        // This fails if the kernel has disabled the detector.
        write(FILE, "scan").context("looking for leaks")?;
    }
    Ok(())
}
