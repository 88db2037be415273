//! Identity of files: finds paths that name the same file.

use std::fs::{FileType, metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Identity of the file at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileIdentity {
    /// Existing file: device and inode.
    Existing(u64, u64),
    /// File to be created: its folder without symlinks, and its name.
    New(PathBuf),
}

impl FileIdentity {
    /// Identity of the file at `path`, if the file is new or `applies` accepts its type.
    pub(crate) fn of(path: &Path, applies: impl FnOnce(FileType) -> bool) -> Option<FileIdentity> {
        if let Ok(existing) = metadata(path) {
            return applies(existing.file_type())
                .then(|| FileIdentity::Existing(existing.dev(), existing.ino()));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Some(FileIdentity::New(folder.join(path.file_name().unwrap_or_default())))
    }
}
