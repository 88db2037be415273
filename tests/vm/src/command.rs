//! Other programs, run to their good end.

use std::process::Stdio;

use anyhow::{Context, Result, bail};

pub use std::process::Command;

/// Standard output of `command`; an error with all of its output if it fails.
///
/// # Errors
/// If it cannot be run, or ends in another way than with 0.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    let printed = String::from_utf8_lossy(&done.stdout).into_owned();
    if !done.status.success() {
        let complaint = String::from_utf8_lossy(&done.stderr);
        bail!("{name} ended with {}:\n{printed}{complaint}", done.status);
    }
    Ok(printed)
}

/// Path of `program` in PATH or the administrators' folders.
pub fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}
