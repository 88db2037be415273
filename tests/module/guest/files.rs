//! Files on file systems of each kind, with content that is known.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::fs::{FsWord, statfs};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;
use wirepath_module_tests::content::Content;
use wirepath_tests::process::find;
use wirepath_tests::{Deadline, require};

/// A folder on a file system of some kind; unmounted when dropped.
pub(crate) struct Folder {
    path: PathBuf,
    mounts: Vec<PathBuf>,
    temporary: Option<TempDir>,
}

/// Time in which users of a file system end that have nothing more to do.
const LIMIT_SECONDS: f64 = 10.0;

/// Magic numbers of `statfs(2)`.
const EXT4: FsWord = 0xef53;
const XFS: FsWord = 0x5846_5342;

impl Folder {
    /// Folder of temporary files, which must be ext4.
    pub(crate) fn ext4() -> Result<Folder> {
        let temporary = tempfile::tempdir()?;
        let kind = statfs(temporary.path())?.f_type;
        require!(kind == EXT4, "{} is no ext4", temporary.path().display());
        Ok(Folder { path: temporary.path().to_owned(), mounts: Vec::new(), temporary: Some(temporary) })
    }

    /// A tmpfs of its own.
    pub(crate) fn tmpfs() -> Result<Folder> {
        Folder::mounted("tmpfs", "tmpfs", "size=64m")
    }

    /// A tmpfs that takes pages of 2 MiB.
    pub(crate) fn tmpfs_of_huge_pages() -> Result<Folder> {
        let folder = Folder::mounted("tmpfs", "tmpfs", "size=64m,huge=always");
        require!(folder.is_ok(), "this kernel has no huge pages in tmpfs");
        folder
    }

    /// A file of ext4 seen through an overlay.
    pub(crate) fn overlay() -> Result<Folder> {
        let mut folder = Folder::ext4()?;
        let [lower, upper, work, merged] =
            ["lower", "upper", "work", "merged"].map(|name| folder.path.join(name));
        for path in [&lower, &upper, &work, &merged] {
            std::fs::create_dir(path)?;
        }
        let options =
            format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        require!(has_file_system("overlay")?, "this kernel has no overlay, or has it not loaded");
        let options = std::ffi::CString::new(options)?;
        mount("overlay", &merged, "overlay", MountFlags::empty(), Some(options.as_c_str()))
            .context("mounting an overlay")?;
        folder.mounts.push(merged.clone());
        folder.path = merged;
        Ok(folder)
    }

    /// An xfs in a file, on a loop device.
    pub(crate) fn xfs() -> Result<Folder> {
        require!(has_file_system("xfs")?, "this kernel has no xfs, or has it not loaded");
        for tool in ["mkfs.xfs", "losetup"] {
            require!(find(tool).is_some(), "{tool} is not installed");
        }
        let temporary = tempfile::tempdir()?;
        let image = temporary.path().join("image");
        File::create(&image)?.set_len(320 << 20)?;
        output(Command::new("mkfs.xfs").arg("-q").arg(&image))?;
        let device = output(Command::new("losetup").args(["--find", "--show"]).arg(&image))?;
        let path = temporary.path().join("mounted");
        std::fs::create_dir(&path)?;
        mount(device.trim(), &path, "xfs", MountFlags::empty(), None).context("mounting an xfs")?;
        // It goes with its last user.
        output(Command::new("losetup").args(["--detach", device.trim()]))?;
        ensure!(statfs(&path)?.f_type == XFS, "{} is no xfs", path.display());
        Ok(Folder { mounts: vec![path.clone()], path, temporary: Some(temporary) })
    }

    /// A file system of its own, mounted with these options.
    pub(crate) fn mounted(what: &str, kind: &str, options: &str) -> Result<Folder> {
        let temporary = tempfile::tempdir()?;
        let path = temporary.path().to_owned();
        let c_options = std::ffi::CString::new(options)?;
        mount(what, &path, kind, MountFlags::empty(), Some(c_options.as_c_str()))
            .with_context(|| format!("mounting a {kind} of {options}"))?;
        Ok(Folder { mounts: vec![path.clone()], path, temporary: Some(temporary) })
    }

    /// A file with this content, open for reading, none of it in the page cache if the file system has other
    /// storage.
    pub(crate) fn file(&self, name: &str, content: &Content) -> Result<File> {
        let path = self.path.join(name);
        write(&path, content).with_context(|| path.display().to_string())?;
        let file = File::open(&path)?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        Ok(file)
    }

    /// The same folder, which stays mounted when this one is dropped.
    pub(crate) fn borrowed(&self) -> Folder {
        Folder { path: self.path.clone(), mounts: Vec::new(), temporary: None }
    }

    /// Unmounts it when the last of its files was closed: runs and rings close theirs a little later.
    pub(crate) fn unmount(mut self) -> Result<()> {
        while let Some(path) = self.mounts.pop() {
            let unmounted = Deadline::seconds(LIMIT_SECONDS).wait_for("users of a file system", || {
                match unmount(&path, UnmountFlags::empty()) {
                    Ok(()) => Ok(Some(())),
                    Err(Errno::BUSY) => Ok(None),
                    Err(error) => Err(error.into()),
                }
            });
            unmounted.with_context(|| format!("unmounting {}", path.display()))?;
        }
        match self.temporary.take() {
            Some(temporary) => temporary.close().context("removing the folder"),
            None => Ok(()),
        }
    }

    /// Folder of the files.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for path in &self.mounts {
            // A file may be open that a failed test has left behind; the guest ends with it.
            unmount(path, UnmountFlags::DETACH).ok();
        }
    }
}

/// Makes a file with this content.
fn write(path: &Path, content: &Content) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.set_len(content.length())?;
    for extent in content.extents() {
        file.write_all_at(content.bytes(extent.clone()), extent.start)?;
    }
    Ok(())
}

/// Returns whether the kernel has it, built in or loaded.
pub(crate) fn has_file_system(name: &str) -> Result<bool> {
    let known = std::fs::read_to_string("/proc/filesystems")?;
    Ok(known.split_whitespace().any(|word| word == name))
}

fn output(command: &mut Command) -> Result<String> {
    let done = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    ensure!(done.status.success(), "{command:?} ended with {}: {said}", done.status);
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
