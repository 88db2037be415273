//! An open file with its metadata.

use rustix::fs::Stat;
use std::fs::File;
use wirepath_http::{EntityTag, Representation, content_type};
use wirepath_media::image::Identity;

/// A stored media file, open for reading.
#[derive(Debug)]
pub(crate) struct Asset {
    /// The open file. It is `O_NONBLOCK`, which has no effect on a regular file.
    pub(crate) file: File,
    /// Version when it was opened.
    pub(crate) version: Version,
}

/// Version of a file. It changes with the content or the permissions of the file, or when a name refers to
/// another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// Identity of the content.
    pub(crate) identity: Identity,
    /// Time of the last change of content, permissions or number of names, in nanoseconds since 1970. No user can
    /// set it.
    changed_ns: i64,
}

impl Version {
    pub(super) fn new(stat: &Stat) -> Self {
        Self { identity: identity(stat), changed_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec) }
    }

    /// Seconds from the last change to this time, which is in seconds since 1970.
    pub(crate) fn age_s(&self, now_s: u64) -> i64 {
        i64::try_from(now_s).unwrap_or(i64::MAX) - self.changed_ns.div_euclid(NANOSECONDS)
    }

    /// Metadata of a file of this name for HTTP.
    pub(crate) fn representation(&self, name: &[u8]) -> Representation {
        let Identity { size, mtime_ns, inode, .. } = self.identity;
        let tag = EntityTag::strong(&format!("{size:x}-{mtime_ns:x}-{inode:x}"));
        Representation { size, modified_s: modified_s(&self.identity), tag, content_type: content_type(name) }
    }
}

/// Nanoseconds in a second.
const NANOSECONDS: i64 = 1_000_000_000;

fn nanoseconds(seconds: i64, nanoseconds: u64) -> i64 {
    seconds.saturating_mul(NANOSECONDS).saturating_add_unsigned(nanoseconds)
}

/// Identity of a version of a file.
pub(crate) fn identity(stat: &Stat) -> Identity {
    let mtime_ns = nanoseconds(stat.st_mtime, stat.st_mtime_nsec);
    Identity { size: stat.st_size.unsigned_abs(), mtime_ns, inode: stat.st_ino, device: stat.st_dev }
}

/// When the content was last modified, in seconds since 1970; 0 for anything earlier.
pub(super) fn modified_s(identity: &Identity) -> u64 {
    u64::try_from(identity.mtime_ns / NANOSECONDS).unwrap_or(0)
}
