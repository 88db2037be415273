//! Files to write to: new ones, and those that an address says may exist.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use super::{Attempt, Doing};
use crate::address::Existing;

/// A file to write.
pub(super) struct Created {
    pub(super) file: File,
    /// Where it is to be written from on.
    pub(super) length: u64,
    /// Nobody else can have had it before.
    pub(super) is_new: bool,
}

/// A file to write, or a device or FIFO of this name.
pub(super) fn create(path: &Path, existing: Existing) -> Attempt<Created> {
    let mut options = OpenOptions::new();
    options.write(true);
    match existing {
        Existing::Refuse => options.create_new(true),
        Existing::Append => options.create(true),
        Existing::Overwrite => options.create(true).truncate(true),
    };
    let file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // A device or FIFO is there to be written to.
            let there = fs::metadata(path).doing("opening")?;
            if there.is_file() || there.is_dir() {
                let words = "it exists; add ?append or ?overwrite to its address";
                return Err(("opening", io::Error::new(io::ErrorKind::AlreadyExists, words)));
            }
            let file = OpenOptions::new().write(true).open(path).doing("opening")?;
            return Ok(Created { file, length: 0, is_new: false });
        }
        opened => opened.doing("opening")?,
    };
    let length = if existing == Existing::Append { file.metadata().doing("opening")?.len() } else { 0 };
    Ok(Created { file, length, is_new: existing == Existing::Refuse })
}
