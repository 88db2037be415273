//! Where a result goes as JSON: that it can go there is seen before anything is done.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::{format, terminal};

/// Where the result goes as JSON.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Nowhere.
    None,
    /// To standard output, which then has nothing else.
    Standard,
    /// Into what takes bytes and keeps no file: a FIFO, a device.
    Stream(PathBuf),
    /// To a file, which is whole or what it was before.
    File(PathBuf),
}

impl Output {
    /// Sees that the result can be written there. A file is made beside it and removed again: what is killed
    /// leaves nothing.
    pub(crate) fn prepare(file: Option<&Path>) -> Result<Output> {
        let Some(file) = file else { return Ok(Output::None) };
        if file == Path::new("-") {
            return Ok(Output::Standard);
        }
        let name = format::name(file);
        // A link stays one, and what it leads to is written.
        let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        match fs::metadata(&target) {
            Ok(metadata) if metadata.is_dir() => {
                ensure!(false, "the result cannot be written: {name} is a folder; name a file");
            }
            Ok(metadata) if metadata.file_type().is_socket() => {
                ensure!(false, "the result cannot be written: {name} is a socket; name a file");
            }
            Ok(metadata) if !metadata.is_file() => return Ok(Output::Stream(target)),
            Ok(_) | Err(_) => {} // there is one, or none yet
        }
        let unfinished = unfinished(&target);
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
        if let Some(folder) = folder {
            bail!(
                "the result cannot be written to {name}: the folder {} is not there; make it first",
                format::name(folder)
            );
        }
        let tried = File::create_new(&unfinished).and_then(|_| fs::remove_file(&unfinished));
        tried.with_context(|| format!("the result cannot be written to {name}"))?;
        Ok(Output::File(target))
    }

    /// Returns whether standard output is for JSON alone.
    pub(crate) fn is_standard(&self) -> bool {
        *self == Output::Standard
    }

    /// What becomes of a result that was stopped.
    pub(crate) fn in_words(&self) -> &'static str {
        match self {
            Output::None => "shown, and kept nowhere (--json FILE keeps it)",
            _ => "kept and marked partial",
        }
    }

    /// Writes the result, if it is to go anywhere.
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

/// The name of a file until it is whole.
fn unfinished(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.unfinished-{}", std::process::id()))
}

/// Writes a file that is whole under its name, or not there.
fn put(file: &Path, text: &str) -> std::io::Result<()> {
    let unfinished = unfinished(file);
    let written = File::create_new(&unfinished)
        .and_then(|mut made| made.write_all(text.as_bytes()).and_then(|()| made.sync_data()))
        .and_then(|()| fs::rename(&unfinished, file));
    if written.is_err() {
        fs::remove_file(&unfinished).ok(); // the first error is the one to tell
    }
    written
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
        assert!(refused(&missing).ends_with("missing is not there; make it first"), "{}", refused(&missing));
        assert_eq!(Output::prepare(None).unwrap(), Output::None);
        assert!(Output::prepare(Some(Path::new("-"))).unwrap().is_standard());
        assert!(matches!(Output::prepare(Some(Path::new("/dev/null"))).unwrap(), Output::Stream(_)));
    }

    /// Promise: A result file that cannot be written is an error at the start, and is written whole or not at
    /// all.
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
