//! A disk that is soon full: a tmpfs that is mounted nowhere and ends when it is dropped.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
};

/// The disk.
pub struct SmallDisk(OwnedFd);

impl SmallDisk {
    /// One with room for so many bytes, in whole pages.
    ///
    /// # Errors
    /// An error of the system: a mount takes root, and Linux 5.2.
    pub fn new(bytes: u64) -> io::Result<SmallDisk> {
        let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, "size", bytes.to_string())?;
        fsconfig_create(&context)?;
        Ok(SmallDisk(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?))
    }

    /// A new file on it, to read and to write.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Its folder as other processes of this user find it.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn it_is_soon_full_and_found_by_its_path() {
        let disk = match SmallDisk::new(8192) {
            Ok(disk) => disk,
            Err(error) => return println!("SKIP: no disk of its own can be made here: {error}"),
        };
        let mut file = disk.create("file").unwrap();
        file.write_all(&[7; 8192]).unwrap();
        assert_eq!(file.write(b"more").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(std::fs::read(disk.path().join("file")).unwrap(), [7; 8192]);
    }
}
