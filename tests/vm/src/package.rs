//! The module as its users get it: its package, installed, built by DKMS, and removed again, on this
//! machine's own system, of which nothing is changed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use wirepath_tests::require;

use crate::command::{Command, find, output};
use crate::kernels::Kernel;
use crate::module::{copy_folder, files, without_make};

/// Does in `folder` what `make -C kernel/module deb` does, and installs that package where there is this
/// kernel and no other; answers the module's file that DKMS then built.
///
/// # Errors
/// With what the programs said, if one fails; a [`wirepath_tests::trial::Skip`] where this cannot be tried.
pub fn installed(project: &Path, kernel: &Kernel, folder: &Path) -> Result<PathBuf> {
    require!(find("dkms").is_some(), "dkms is not installed (package dkms)");
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let folder = folder.canonicalize().context("the folder to build in")?;
    let package = packed(project, &folder.join("project"))?;
    install(kernel, &folder, &package)?;
    let built = files(&folder)?.into_iter().find(|file| is_module(file)).context("there is no module")?;
    let module = folder.join("plain.ko");
    std::fs::write(&module, crate::drivers::unpacked(&built)?).context("the module")?;
    Ok(module)
}

/// Packs the project's module, from a copy, because what is made lies beside the sources.
fn packed(project: &Path, copy: &Path) -> Result<PathBuf> {
    let sources = copy.join("kernel/module");
    copy_folder(&project.join("kernel/module"), &sources)?;
    std::fs::copy(project.join("Cargo.toml"), copy.join("Cargo.toml")).context("the project's version")?;
    output(without_make(Command::new("make").arg("-C").arg(&sources).arg("deb")))?;
    let package = files(&sources)?.into_iter().find(|file| file.extension().is_some_and(|end| end == "deb"));
    package.context("no package was made")
}

fn install(kernel: &Kernel, folder: &Path, package: &Path) -> Result<()> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", include_str!("package.sh"), "package.sh"]).arg(folder);
    command.arg(kernel.root().canonicalize().context("the kernel")?).arg(&kernel.release).arg(package);
    let done = without_make(&mut command).output().context("cannot run unshare")?;
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    std::fs::write(folder.join("log"), &said).context("keeping what was said")?;
    let may_mount = !said.starts_with("unshare: ") && done.status.code() != Some(NOTHING_IS_MOUNTED);
    require!(may_mount, "nothing may be mounted here, to install a package on: {}", said.trim());
    if !done.status.success() {
        bail!("the package on Linux {}: {}:\n{said}", kernel.release, done.status);
    }
    Ok(())
}

/// Exit code of the script in that case.
const NOTHING_IS_MOUNTED: i32 = 77;

/// Distributions' DKMS packs it as the kernel's own are packed.
fn is_module(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("wirepath.ko"))
}
