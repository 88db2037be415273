//! One open file and what is known of it.

use std::fs::File;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wirepath_media::http::{EntityTag, Facts, content_type};

/// A stored media file, open for reading.
#[derive(Debug)]
pub struct Asset {
    /// The open file. It is `O_NONBLOCK`, which means nothing for a regular file.
    pub file: File,
    /// What was known of it when it was opened.
    pub facts: AssetFacts,
}

/// What tells whether a file is still the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AssetFacts {
    /// Size in bytes.
    pub size: u64,
    /// When the content was last modified, in nanoseconds since 1970 (until the year 2262).
    pub modified_ns: i64,
    /// Number of the inode.
    pub inode: u64,
    /// Number of the device.
    pub device: u64,
}

impl AssetFacts {
    pub(super) fn of(stat: &rustix::fs::Stat) -> Self {
        let modified_ns =
            stat.st_mtime.saturating_mul(1_000_000_000).saturating_add_unsigned(stat.st_mtime_nsec);
        Self { size: stat.st_size.unsigned_abs(), modified_ns, inode: stat.st_ino, device: stat.st_dev }
    }

    /// When the content was last modified, in seconds since 1970; 0 for anything earlier.
    pub fn modified_s(&self) -> u64 {
        u64::try_from(self.modified_ns / 1_000_000_000).unwrap_or(0)
    }

    /// When the content was last modified.
    pub fn modified(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(u64::try_from(self.modified_ns).unwrap_or(0))
    }

    /// What HTTP needs to know of a file of this name.
    pub fn for_http(&self, name: &[u8]) -> Facts {
        let tag = EntityTag::strong(&format!("{:x}-{:x}-{:x}", self.size, self.modified_ns, self.inode));
        Facts { size: self.size, modified_s: self.modified_s(), tag, content_type: content_type(name) }
    }
}
