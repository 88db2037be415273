//! A kernel that checks itself: KASAN, lockdep, kmemleak, UBSAN and failing allocations, built from the
//! distribution's sources with the options of `debug/kernel.config`, once.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::command::{Command, find, output};
use crate::configuration;
use crate::kernels::{Kernel, Series};
use crate::make::Make;
use crate::packages::Apt;

/// The options that are asked for, with their reasons.
pub const ASKED: &str = include_str!("../debug/kernel.config");

/// File with the options that a kernel was built with.
const KEPT: &str = "kernel.config";

/// Tools that build it, and the packages of Debian that have them.
const TOOLS: &[(&str, &str)] =
    &[("flex", "flex"), ("bison", "bison"), ("m4", "m4"), ("bc", "bc"), ("xz", "xz-utils")];

/// The kernel that checks itself, of the version of `series`: the one that `cache` has, unless other options
/// are asked for now; else it is built, which takes twenty minutes of one processor and 3 GB for a while.
///
/// # Errors
/// If there are no sources, it does not build, or an option is not as asked for.
pub fn of(series: &Series, cache: &Path) -> Result<Kernel> {
    let folder = cache.join("debug");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    // Two runs at the same time build it once.
    let lock = std::fs::File::create(folder.join("lock")).context("making a lock")?;
    lock.lock().context("waiting for another run that builds the kernel")?;
    let root = folder.join(format!("kernel-{}", series.number));
    if is_kept(&root, ASKED) {
        return Kernel::open(root);
    }
    for (tool, package) in TOOLS {
        ensure!(
            find(tool).is_some(),
            "{tool} is not installed (package {package}); scripts/install.sh debug-kernel installs it"
        );
    }
    let sources = sources(series, cache, &folder)?;
    build(&sources, &folder, &root)
        .with_context(|| format!("building Linux {} to check itself", series.number))
}

fn is_kept(root: &Path, asked: &str) -> bool {
    std::fs::read_to_string(root.join(KEPT)).is_ok_and(|kept| kept == asked)
}

/// The archive of the sources: the one that is kept, else that of the newest package. To get a newer one,
/// remove its folder.
fn sources(series: &Series, cache: &Path, folder: &Path) -> Result<PathBuf> {
    let package = series.source.with_context(|| {
        format!("nobody has looked how this distribution packages the sources of Linux {}", series.number)
    })?;
    let kept = folder.join(package);
    if !kept.exists() {
        eprintln!("getting {package} from the distribution's packages");
        let apt = Apt::open(cache, series.suite)?;
        let unfinished = tempfile::tempdir_in(folder).context("making a folder for the sources")?;
        apt.unpack(&apt.kernel_packages(&[package])?, unfinished.path())?;
        std::fs::rename(unfinished.keep(), &kept).with_context(|| kept.display().to_string())?;
    }
    let archive = kept.join(format!("usr/src/{package}.tar.xz"));
    ensure!(archive.is_file(), "{} is not there; remove {}", archive.display(), kept.display());
    Ok(archive)
}

/// Builds the kernel in a folder that stays until it is done, so that a build that was interrupted goes on;
/// under the name `root` there is a whole kernel or none.
fn build(archive: &Path, folder: &Path, root: &Path) -> Result<Kernel> {
    let work = folder.join("work");
    let tree = unpack(archive, &work)?;
    let make = Make::new(&tree, &work.join("objects"))?;
    let asked = work.join(KEPT);
    std::fs::write(&asked, ASKED).with_context(|| asked.display().to_string())?;
    let asked_for = format!("KCONFIG_ALLCONFIG={}", asked.display());
    make.run(&["allnoconfig", &asked_for])?;
    let made = make.objects().join(".config");
    let text = std::fs::read_to_string(&made).with_context(|| made.display().to_string())?;
    configuration::check(ASKED, &text)?;
    make.run_long(&["bzImage", "modules"])?;
    let unfinished = tempfile::tempdir_in(folder).context("making a folder for the kernel")?;
    lay_out(&make, unfinished.path())?;
    Kernel::open(unfinished.path().to_owned())?;
    if root.exists() {
        std::fs::remove_dir_all(root).with_context(|| root.display().to_string())?;
    }
    std::fs::rename(unfinished.keep(), root).with_context(|| root.display().to_string())?;
    std::fs::remove_dir_all(&work).with_context(|| work.display().to_string())?;
    Kernel::open(root.to_owned())
}

/// The folder of the sources, unpacked below `work`.
fn unpack(archive: &Path, work: &Path) -> Result<PathBuf> {
    let place = work.join("sources");
    if !place.exists() {
        std::fs::create_dir_all(work).with_context(|| work.display().to_string())?;
        let unfinished = tempfile::tempdir_in(work).context("making a folder for the sources")?;
        output(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(unfinished.path()))
            .context("unpacking the sources")?;
        std::fs::rename(unfinished.keep(), &place).with_context(|| place.display().to_string())?;
    }
    let entries = std::fs::read_dir(&place).with_context(|| place.display().to_string())?;
    let trees: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    match &trees[..] {
        [tree] => Ok(tree.clone()),
        _ => bail!("{} holds {} folders, not one; remove it", place.display(), trees.len()),
    }
}

/// Puts everything where a distribution's packages have it, so that nobody else has to know the difference.
fn lay_out(make: &Make, root: &Path) -> Result<()> {
    let release = make.run(&["-s", "kernelrelease"])?;
    let release = release.trim();
    let boot = root.join("boot");
    std::fs::create_dir_all(&boot).with_context(|| boot.display().to_string())?;
    for (file, name) in
        [("arch/x86/boot/bzImage", "vmlinuz"), ("System.map", "System.map"), (".config", "config")]
    {
        std::fs::copy(make.objects().join(file), boot.join(format!("{name}-{release}")))
            .with_context(|| file.to_owned())?;
    }
    let depmod = find("depmod").context("depmod is not installed (package kmod)")?;
    let to = format!("INSTALL_MOD_PATH={}", root.display());
    make.run(&["modules_install", &to, &format!("DEPMOD={}", depmod.display())])?;
    // As the kernel's own packages of headers are made (scripts/package/builddeb).
    let headers = root.join(format!("usr/src/linux-headers-{release}"));
    std::fs::create_dir_all(root.join("usr/src")).context("making the folder of the headers")?;
    let copy = format!("$(srctree)/scripts/package/install-extmod-build {}", headers.display());
    make.run(&["run-command", &format!("KBUILD_RUN_COMMAND=+{copy}")])?;
    // Types of the kernel, which those of a module refer to: without them a module has none, and no handlers.
    output(
        Command::new("objcopy")
            .arg("--only-section=.BTF")
            .args([make.objects().join("vmlinux"), headers.join("vmlinux")]),
    )
    .context("keeping the types of the kernel")?;
    std::fs::write(root.join(KEPT), ASKED).context("keeping the options")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: A debugging kernel is built completely or not at all, and a failed build says why.
    #[test]
    fn a_kernel_of_other_options_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_kept(folder.path(), ASKED));
        std::fs::write(folder.path().join(KEPT), ASKED).unwrap();
        assert!(is_kept(folder.path(), ASKED));
        assert!(!is_kept(folder.path(), &format!("{ASKED}CONFIG_KCSAN=y\n")));
    }

    /// Promise: A debugging kernel is built completely or not at all, and a failed build says why.
    #[test]
    fn sources_are_unpacked_whole_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        let archive = folder.path().join("sources.tar");
        std::fs::write(&archive, "no archive").unwrap();
        assert!(unpack(&archive, &work).is_err());
        assert!(!work.join("sources").exists());
        std::fs::create_dir(folder.path().join("linux")).unwrap();
        output(Command::new("tar").arg("-C").arg(folder.path()).arg("-cf").arg(&archive).arg("linux"))
            .unwrap();
        assert_eq!(unpack(&archive, &work).unwrap(), work.join("sources/linux"));
    }
}
