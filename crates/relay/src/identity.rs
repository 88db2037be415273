//! What a name of a file stands for, to find two names of one.

use std::fs::{FileType, metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// What there is: its device and inode.
    There(u64, u64),
    /// What may be made: its folder without links, and its name.
    ToBeMade(PathBuf),
}

impl Identity {
    /// Of what has this name, if only one can have what is of that type, or may be made.
    pub(crate) fn of(path: &Path, is_for_one: impl FnOnce(FileType) -> bool) -> Option<Identity> {
        if let Ok(there) = metadata(path) {
            return is_for_one(there.file_type()).then(|| Identity::There(there.dev(), there.ino()));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Some(Identity::ToBeMade(folder.join(path.file_name().unwrap_or_default())))
    }
}
