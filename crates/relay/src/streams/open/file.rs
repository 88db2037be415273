//! Creates output files, or opens existing files if the address allows that.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use super::{Attempt, Doing};
use crate::address::Existing;
use crate::advice;

pub(super) struct Created {
    pub(super) file: File,
    /// Offset at which writing starts.
    pub(super) length: u64,
    pub(super) is_new: bool,
}

/// Creates a file, or opens the device or FIFO with this name.
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
            // Devices and FIFOs exist before they are written.
            let there = fs::metadata(path).doing("opening")?;
            if there.is_file() || there.is_dir() {
                let words = match there.is_dir() {
                    true => "is a folder; name a file in it",
                    false => "file exists; add ?append or ?overwrite to its address",
                };
                return Err(("opening", io::Error::new(io::ErrorKind::AlreadyExists, words)));
            }
            let file = OpenOptions::new().write(true).open(path).doing("opening")?;
            return Ok(Created { file, length: 0, is_new: false });
        }
        opened => opened.map_err(|error| advice::on_new(path, error)).doing("opening")?,
    };
    let length = if existing == Existing::Append { file.metadata().doing("opening")?.len() } else { 0 };
    Ok(Created { file, length, is_new: existing == Existing::Refuse })
}
