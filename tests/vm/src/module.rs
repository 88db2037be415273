//! Builds the project's kernel module, or another one, for a kernel.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::command::{Command, output};
use crate::guest::Guest;
use crate::kernels::Kernel;

/// Builds the module whose `Kbuild` is in `sources`, from a copy in `folder`, because what kbuild makes lies
/// beside the sources, and answers its file.
///
/// # Errors
/// With everything the compiler said, if it does not build without a warning.
pub fn build(sources: &Path, kernel: &Kernel, folder: &Path) -> Result<PathBuf> {
    let copy = folder.join(&kernel.release);
    if copy.exists() {
        std::fs::remove_dir_all(&copy).with_context(|| copy.display().to_string())?;
    }
    copy_folder(sources, &copy)?;
    let copy = copy.canonicalize().context("the folder to build in")?;
    let mut make = Command::new("make");
    make.arg("-C").arg(kernel.headers().canonicalize().context("the kernel's headers")?);
    make.arg(format!("M={}", copy.display())).args(["modules", "KCFLAGS=-Werror"]);
    output(without_make(make.env("LC_ALL", "C")))
        .with_context(|| format!("building for Linux {}", kernel.release))?;
    let modules = files(&copy)?.into_iter().filter(|file| file.extension().is_some_and(|end| end == "ko"));
    let modules: Vec<PathBuf> = modules.collect();
    ensure!(modules.len() == 1, "{} modules in {}, not one", modules.len(), copy.display());
    modules.into_iter().next().context("no module")
}

/// Plans the C program beside the module that makes each of its calls, with these arguments and a file of
/// each kind of file system that every guest has, and the program that is an example of one call.
///
/// # Errors
/// With everything the compiler said, if it does not build.
pub fn plan_smoke_test(guest: Guest, sources: &Path, arguments: &[&str]) -> Result<Guest> {
    // An interface on which nobody answers, by the real `ip` and not the shell's own, and the files.
    const BEGIN: &str = "set -e
/bin/ip link add silent type veth peer name nobody
/bin/ip link set silent up
/bin/ip link set nobody up
/bin/ip addr add 10.9.0.1/24 dev silent
for folder in /disk /tmp; do head -c 2097152 /dev/urandom > $folder/data; done";
    const END: &str = "head -c 100000 /disk/data >/tmp/example
/krtpsendfile /tmp/example
/bin/ip link del silent";
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let smoke = program("smoke", files(&sources.join("tests/smoke"))?, folder.path())?;
    let example = program("krtpsendfile", vec![sources.join("examples/krtpsendfile.c")], folder.path())?;
    let guest = guest.file(&smoke, Path::new("/smoke"))?.file(&example, Path::new("/krtpsendfile"))?;
    let smoke = format!("/smoke {} /disk/data /tmp/data", arguments.join(" "));
    guest.script("smoke", &format!("{BEGIN}\n{smoke}\n{END}"))
}

fn program(name: &str, mut parts: Vec<PathBuf>, folder: &Path) -> Result<PathBuf> {
    let program = folder.join(name);
    parts.retain(|file| file.extension().is_some_and(|end| end == "c"));
    output(Command::new("cc").args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).args(parts))?;
    Ok(program)
}

/// Removes an outer make's variables, which are not meant for this one.
pub(crate) fn without_make(command: &mut Command) -> &mut Command {
    command.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL")
}

/// Copies a folder with all that is in it.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for file in files(from)? {
        let name = file.file_name().context("a file without a name")?;
        if file.is_dir() {
            copy_folder(&file, &to.join(name))?;
        } else {
            std::fs::copy(&file, to.join(name)).with_context(|| file.display().to_string())?;
        }
    }
    Ok(())
}

/// Files of a folder.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    entries.map(|entry| Ok(entry?.path())).collect()
}
