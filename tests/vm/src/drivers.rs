//! The distribution's modules that a guest loads, in order, unpacked.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::{Command, output};
use crate::cpio::Archive;
use crate::kernels::Kernel;

/// Adds the named modules and those that they need to the archive, and answers their paths there in the order
/// in which they load. Those that are built into the kernel need no loading.
///
/// # Errors
/// If the kernel has no such module, or it cannot be read.
pub(crate) fn add(archive: &mut Archive, kernel: &Kernel, names: &[&str]) -> Result<Vec<PathBuf>> {
    let folder = kernel.modules();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).with_context(|| name.to_owned());
    let needs = read("modules.dep")?;
    let order = order(names, &needs, &read("modules.builtin")?)
        .with_context(|| format!("in Linux {}", kernel.release))?;
    let mut paths = Vec::new();
    for file in order {
        let name = plain_name(file);
        let path = Path::new("/drivers").join(format!("{name}.ko"));
        archive.file(&path, unpacked(&folder.join(file))?)?;
        paths.push(path);
    }
    Ok(paths)
}

/// Those of the named modules that the kernel has, built in or not.
///
/// # Errors
/// If its lists cannot be read.
pub(crate) fn known<'a>(kernel: &Kernel, names: &[&'a str]) -> Result<Vec<&'a str>> {
    let folder = kernel.modules();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).with_context(|| name.to_owned());
    Ok(there(names, &read("modules.dep")?, &read("modules.builtin")?))
}

fn there<'a>(names: &[&'a str], needs: &str, builtin: &str) -> Vec<&'a str> {
    let files = needs.lines().filter_map(|line| line.split_once(':')).map(|(file, _)| file);
    let known: HashSet<String> = files.chain(builtin.lines()).map(plain_name).collect();
    names.iter().copied().filter(|name| known.contains(*name)).collect()
}

/// Files of `modules.dep`, what is needed first, each once.
fn order<'a>(names: &[&str], needs: &'a str, builtin: &str) -> Result<Vec<&'a str>> {
    let mut order: Vec<&str> = Vec::new();
    for name in names {
        let line =
            needs.lines().filter_map(|line| line.split_once(':')).find(|(file, _)| plain_name(file) == *name);
        if let Some((file, needed)) = line {
            // The file lists what it needs in the order of unloading.
            let files = needed.split_whitespace().rev().chain([file]);
            for file in files {
                if !order.contains(&file) {
                    order.push(file);
                }
            }
        } else {
            let is_builtin = builtin.lines().any(|file| plain_name(file) == *name);
            anyhow::ensure!(is_builtin, "there is no module {name}");
        }
    }
    Ok(order)
}

/// `virtio_blk` of `kernel/drivers/block/virtio_blk.ko.xz`.
fn plain_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split('.').next().unwrap_or(name).replace('-', "_")
}

/// A module's file, as the kernel loads it.
pub(crate) fn unpacked(file: &Path) -> Result<Vec<u8>> {
    let program = match file.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return std::fs::read(file).with_context(|| file.display().to_string()),
    };
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let plain = folder.path().join("module");
    let out = std::fs::File::create(&plain).context("unpacking a module")?;
    let status = Command::new(program).arg("-dc").arg(file).stdout(out).status();
    let status = status.with_context(|| format!("cannot run {program}"))?;
    anyhow::ensure!(status.success(), "{program} cannot unpack {}", file.display());
    std::fs::read(&plain).context("reading an unpacked module")
}

/// Name of the module in a file.
///
/// # Errors
/// If it is no module.
pub(crate) fn name_of(module: &Path) -> Result<String> {
    let modinfo = crate::command::find("modinfo").context("modinfo is not installed (package kmod)")?;
    Ok(output(Command::new(modinfo).args(["-F", "name"]).arg(module))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: &str = "\
kernel/lib/libcrc32c.ko.xz:
kernel/fs/xfs/xfs.ko.xz: kernel/lib/libcrc32c.ko.xz
kernel/drivers/virtio/virtio_pci.ko: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/block/virtio_blk.ko: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
kernel/net/sched/sch_fq.ko:
";

    #[test]
    fn what_a_module_needs_loads_before_it_and_once() {
        let order =
            order(&["virtio_pci", "virtio_blk", "xfs", "ext4"], NEEDS, "kernel/fs/ext4/ext4.ko\n").unwrap();
        let names: Vec<String> = order.into_iter().map(plain_name).collect();
        let expected = ["virtio_ring", "virtio", "virtio_pci", "virtio_blk", "libcrc32c", "xfs"];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_module_that_does_not_exist_is_named() {
        let error = order(&["sch_fq", "sch_none"], NEEDS, "").unwrap_err();
        assert!(error.to_string().contains("sch_none"), "{error}");
    }

    #[test]
    fn only_modules_that_a_kernel_has_are_known() {
        let names = ["sch_fq", "sch_none", "ext4", "xfs"];
        assert_eq!(there(&names, NEEDS, "kernel/fs/ext4/ext4.ko\n"), ["sch_fq", "ext4", "xfs"]);
    }

    #[test]
    fn dashes_are_underscores() {
        assert_eq!(plain_name("kernel/drivers/md/dm-flakey.ko.xz"), "dm_flakey");
    }
}
