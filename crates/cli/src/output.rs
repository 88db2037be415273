//! Output of a result as JSON. The destination is checked before the work starts.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::NamedTempFile;

use crate::{format, terminal};

/// Destination of a result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    None,
    /// Standard output, which then has no other output.
    Standard,
    /// FIFO or device.
    Stream(PathBuf),
    /// File, which is replaced atomically.
    File(PathBuf),
}

impl Output {
    /// Checks that the result can be written to a file, by creating a temporary file beside it.
    pub(crate) fn prepare(file: Option<&Path>) -> Result<Output> {
        let Some(file) = file else { return Ok(Output::None) };
        if file == Path::new("-") {
            return Ok(Output::Standard);
        }
        let name = format::name(file);
        // A symlink is kept, and its target is written.
        let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        match fs::metadata(&target) {
            Ok(metadata) if metadata.is_dir() => {
                bail!("cannot write the result: {name} is a folder; name a file")
            }
            Ok(metadata) if metadata.file_type().is_socket() => {
                bail!("cannot write the result: {name} is a socket; name a file")
            }
            Ok(metadata) if !metadata.is_file() => return Ok(Output::Stream(target)),
            Ok(_) | Err(_) => {}
        }
        let folder = folder_of(&target);
        if !folder.exists() {
            let folder = format::name(folder);
            bail!("cannot write the result to {name}: folder {folder} not found; create it first");
        }
        temporary(&target).with_context(|| cannot_write(file))?;
        Ok(Output::File(target))
    }

    /// Returns whether standard output is reserved for JSON.
    pub(crate) fn is_standard(&self) -> bool {
        *self == Output::Standard
    }

    /// Describes what happened to the result of a stopped run.
    pub(crate) fn in_words(&self) -> &'static str {
        match self {
            Output::None => "shown, and kept nowhere (--json FILE keeps it)",
            _ => "kept and marked partial",
        }
    }

    /// Writes the result, if there is a destination.
    pub(crate) fn write(&self, json: impl FnOnce() -> Result<String>) -> Result<()> {
        match self {
            Output::None => Ok(()),
            Output::Standard => terminal::print(&json()?),
            Output::Stream(file) => fs::write(file, json()?).with_context(|| cannot_write(file)),
            Output::File(file) => put(file, &json()?).with_context(|| cannot_write(file)),
        }
    }
}

fn cannot_write(file: &Path) -> String {
    format!("cannot write the result to {}", format::name(file))
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Temporary file beside a file, with the permissions of a new file.
fn temporary(file: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(folder_of(file))
}

fn put(file: &Path, text: &str) -> io::Result<()> {
    let mut temporary = temporary(file)?;
    temporary.write_all(text.as_bytes())?;
    temporary.as_file().sync_data()?;
    temporary.persist(file).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_can_be_written_is_said_before() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |file: &Path| format!("{:#}", Output::prepare(Some(file)).unwrap_err());
        assert!(refused(folder.path()).contains("is a folder"));
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(refused(&socket).contains("is a socket; name a file"), "{}", refused(&socket));
        let missing = folder.path().join("missing/a.json");
        assert!(refused(&missing).ends_with("missing not found; create it first"), "{}", refused(&missing));
        assert_eq!(Output::prepare(None).unwrap(), Output::None);
        assert!(Output::prepare(Some(Path::new("-"))).unwrap().is_standard());
        assert!(matches!(Output::prepare(Some(Path::new("/dev/null"))).unwrap(), Output::Stream(_)));
    }

    /// Promise: A result file that cannot be written is an error at the start, and the file is written whole
    /// or not at all.
    #[test]
    fn a_file_is_whole_or_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        fs::write(&file, "before").unwrap();
        let link = folder.path().join("link.json");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let output = Output::prepare(Some(&link)).unwrap();
        assert_eq!(output, Output::File(fs::canonicalize(&file).unwrap()));
        assert_eq!(fs::read_to_string(&file).unwrap(), "before");
        put(&file, "after").unwrap();
        assert_eq!(fs::read_to_string(&link).unwrap(), "after");
        assert!(put(&folder.path().join("missing/a.json"), "never").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
