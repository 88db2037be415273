//! Builds the project's kernel module, or another one, for a kernel.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::command::{Command, output};
use crate::kernels::Kernel;

/// Builds the module whose `Kbuild` is in `sources`, from a copy in `folder`, because what kbuild makes lies beside the
/// sources, and answers its file.
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
    // What an outer make wants is not meant for kbuild.
    make.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL").env("LC_ALL", "C");
    output(&mut make).with_context(|| format!("building for Linux {}", kernel.release))?;
    let modules = files(&copy)?.into_iter().filter(|file| file.extension().is_some_and(|end| end == "ko"));
    let modules: Vec<PathBuf> = modules.collect();
    ensure!(modules.len() == 1, "{} modules in {}, not one", modules.len(), copy.display());
    modules.into_iter().next().context("no module")
}

/// Builds the C program beside the module that makes each of its calls, and answers its file.
///
/// # Errors
/// With everything the compiler said, if it does not build.
pub fn smoke_test(sources: &Path, folder: &Path) -> Result<PathBuf> {
    let program = folder.join("smoke");
    let mut parts = files(&sources.join("tests/smoke"))?;
    parts.retain(|file| file.extension().is_some_and(|end| end == "c"));
    output(Command::new("cc").args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).args(parts))?;
    Ok(program)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
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

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    entries.map(|entry| Ok(entry?.path())).collect()
}
