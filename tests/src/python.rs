//! Scripts for the Python that `scripts/install.sh test` prepares, with modules of other people.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::require;

/// Exit code of a script that lacks a module.
const MISSING: i32 = 77;

/// The Python beside the build that `program` is from, or that of the system.
fn interpreter(program: &Path) -> PathBuf {
    let prepared = program.ancestors().nth(2).map(|target| target.join("python/bin/python"));
    prepared.filter(|path| path.exists()).unwrap_or_else(|| "python3".into())
}

/// Runs a script that needs these modules, and returns what it printed. `program` is a program of the build,
/// whose environment of Python is used. Skips without Python or a module.
pub fn run<A: AsRef<OsStr>>(
    program: &str,
    modules: &[&str],
    script: &str,
    arguments: impl IntoIterator<Item = A>,
) -> Result<String> {
    let imports = format!("try:\n    import {}", modules.join(", "));
    let missing =
        format!("except ImportError as error:\n    print(error.name)\n    raise SystemExit({MISSING})");
    let text = format!("{imports}\n{missing}\n{script}");
    let output = Command::new(interpreter(program.as_ref())).args(["-c", &text]).args(arguments).output();
    require!(output.is_ok(), "python3 is not installed; run: scripts/install.sh test");
    let output = output?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    require!(
        output.status.code() != Some(MISSING),
        "the Python module {} is not installed; run: scripts/install.sh test",
        said.trim()
    );
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}\n{errors}");
    Ok(said)
}
