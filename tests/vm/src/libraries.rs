//! Programs of this machine in a guest, with the libraries that they are linked with.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::{Command, find, output};
use crate::cpio::Archive;

/// Adds a program as `path`, and its libraries where they are on this machine, all without debugging
/// information.
///
/// # Errors
/// If a library is missing.
pub(crate) fn add_program(archive: &mut Archive, program: &Path, path: &Path) -> Result<()> {
    archive.file(path, stripped(program)?)?;
    for library in libraries(program)? {
        if !archive.contains(&library) {
            archive.file(&library, stripped(&library)?)?;
        }
    }
    Ok(())
}

/// Adds a tool of this machine where it is. A missing one is nothing: the test that wants it says so.
///
/// # Errors
/// If it is there and cannot be read.
pub(crate) fn add_tool(archive: &mut Archive, name: &str) -> Result<()> {
    let Some(program) = find(name) else { return Ok(()) };
    add_program(archive, &program, &Path::new("/bin").join(name)).with_context(|| name.to_owned())
}

fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let printed = Command::new("ldd").arg(program).env("LC_ALL", "C").output().context("cannot run ldd")?;
    let text = String::from_utf8_lossy(&printed.stdout);
    let complaint = String::from_utf8_lossy(&printed.stderr);
    if complaint.contains("not a dynamic executable") || text.contains("statically linked") {
        return Ok(Vec::new());
    }
    anyhow::ensure!(printed.status.success(), "ldd {} failed: {complaint}", program.display());
    let missing = text.lines().find(|line| line.contains("not found"));
    anyhow::ensure!(missing.is_none(), "{} misses a library: {missing:?}", program.display());
    Ok(paths(&text))
}

/// The paths in `libc.so.6 => /lib/libc.so.6 (0x…)` and `/lib64/ld.so (0x…)`.
fn paths(text: &str) -> Vec<PathBuf> {
    text.lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect()
}

/// A program is not debugged in the guest, and memory is all that the guest has.
fn stripped(program: &Path) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let copy = folder.path().join("stripped");
    output(Command::new("strip").arg("--strip-debug").arg("-o").arg(&copy).arg(program))?;
    std::fs::read(&copy).with_context(|| program.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_where_they_are() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f60)\n\t/lib64/ld.so.2 (0x7f)\n";
        assert_eq!(paths(text), [Path::new("/lib/x/libc.so.6"), Path::new("/lib64/ld.so.2")]);
    }

    #[test]
    fn a_program_brings_its_libraries() {
        let mut archive = Archive::default();
        let program = std::env::current_exe().unwrap();
        add_program(&mut archive, &program, Path::new("/test")).unwrap();
        assert!(archive.contains(Path::new("/test")) && archive.contains(Path::new("/lib64")));
    }
}
