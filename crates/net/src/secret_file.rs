//! Files of passwords and keys.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Mode bit of files that every user may read.
const READABLE_BY_ALL: u32 = 0o004;

/// Warns if every user of the machine may read a file of secrets.
///
/// # Errors
/// Those of fstat.
pub(crate) fn warn_if_public(path: &Path, file: &File) -> io::Result<()> {
    if file.metadata()?.mode() & READABLE_BY_ALL != 0 {
        tracing::warn!(
            file = %path.display(),
            "all users of this machine can read this file of passwords or keys: run chmod o-r on it"
        );
    }
    Ok(())
}
