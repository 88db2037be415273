//! An open file with its metadata.

use rustix::fs::Stat;
use std::fs::File;
use wirepath_http::{EntityTag, Representation, content_type};
use wirepath_media::image::Identity;

/// A stored media file, open for reading.
#[derive(Debug)]
pub(crate) struct Asset {
    /// The open file. It is `O_NONBLOCK`, which means nothing for a regular file.
    pub(crate) file: File,
    /// Identity when it was opened.
    pub(crate) identity: Identity,
}

impl Asset {
    /// Metadata of a file of this name for HTTP.
    pub(crate) fn representation(&self, name: &[u8]) -> Representation {
        let Identity { size, mtime_ns, inode, .. } = self.identity;
        let tag = EntityTag::strong(&format!("{size:x}-{mtime_ns:x}-{inode:x}"));
        Representation { size, modified_s: modified_s(&self.identity), tag, content_type: content_type(name) }
    }
}

/// Identity of a version of a file.
pub(crate) fn identity(stat: &Stat) -> Identity {
    let mtime_ns = stat.st_mtime.saturating_mul(1_000_000_000).saturating_add_unsigned(stat.st_mtime_nsec);
    Identity { size: stat.st_size.unsigned_abs(), mtime_ns, inode: stat.st_ino, device: stat.st_dev }
}

/// When the content was last modified, in seconds since 1970; 0 for anything earlier.
pub(super) fn modified_s(identity: &Identity) -> u64 {
    u64::try_from(identity.mtime_ns / 1_000_000_000).unwrap_or(0)
}
