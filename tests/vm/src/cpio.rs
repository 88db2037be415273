//! Writes archives of the form "newc" (Linux, Documentation/driver-api/early-userspace/buffer-format.rst),
//! from which a kernel makes its first file system.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_755;

/// Files by their absolute path in the guest; folders above them come by themselves.
#[derive(Default)]
pub(crate) struct Archive {
    /// `None` is a folder.
    entries: BTreeMap<PathBuf, Option<Vec<u8>>>,
}

impl Archive {
    /// Adds a file that everyone may read and run. The same again is nothing.
    ///
    /// # Errors
    /// If the path is not absolute, or not plain, or something else is there.
    pub(crate) fn file(&mut self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>) -> Result<()> {
        let path = inside(path.as_ref())?;
        let content = Some(content.into());
        let is_free = self.entries.get(&path).is_none_or(|there| *there == content);
        ensure!(is_free, "two files of a guest are called /{}", path.display());
        self.folders_of(&path);
        self.entries.insert(path, content);
        Ok(())
    }

    /// Adds an empty folder, unless it is there.
    ///
    /// # Errors
    /// If the path is not absolute, or not plain.
    pub(crate) fn folder(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = inside(path.as_ref())?;
        self.folders_of(&path);
        self.entries.entry(path).or_default();
        Ok(())
    }

    /// Returns whether there is such a file or folder.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        inside(path).is_ok_and(|path| self.entries.contains_key(&path))
    }

    /// Writes the whole archive.
    ///
    /// # Errors
    /// Errors of `out`.
    pub(crate) fn write(&self, mut out: impl Write) -> io::Result<()> {
        for (number, (path, content)) in self.entries.iter().enumerate() {
            let mode = if content.is_some() { FILE } else { FOLDER };
            // 0 would be no inode at all.
            entry(&mut out, number + 1, mode, path, content.as_deref().unwrap_or_default())?;
        }
        entry(&mut out, 0, 0, Path::new("TRAILER!!!"), &[])?;
        out.flush()
    }

    fn folders_of(&mut self, path: &Path) {
        for folder in path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
            self.entries.entry(folder.to_owned()).or_default();
        }
    }
}

/// The path without its leading slash.
fn inside(path: &Path) -> Result<PathBuf> {
    let relative = path.strip_prefix("/").with_context(|| format!("{} is not absolute", path.display()))?;
    let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    ensure!(plain && !relative.as_os_str().is_empty(), "{} is no plain path", path.display());
    Ok(relative.to_owned())
}

fn entry(out: &mut impl Write, number: usize, mode: u32, path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.as_os_str().as_encoded_bytes();
    let size = u32::try_from(content.len()).map_err(|_| io::Error::other("a file of 4 GiB or more"))?;
    let links = if mode == FOLDER { 2 } else { 1 };
    // inode, mode, user, group, links, time, size, device (2), special device (2), length of the name,
    // checksum
    let name_bytes = name.len() + 1;
    write!(out, "070701{number:08x}{mode:08x}{:08x}{:08x}{links:08x}{:08x}{size:08x}", 0, 0, 0)?;
    write!(out, "{:08x}{:08x}{:08x}{:08x}{name_bytes:08x}{:08x}", 0, 0, 0, 0, 0)?;
    out.write_all(name)?;
    const HEADER_BYTES: usize = 110;
    out.write_all(&[0; 4][..1 + padding(HEADER_BYTES + name_bytes)])?;
    out.write_all(content)?;
    out.write_all(&[0; 4][..padding(content.len())])
}

/// Bytes up to the next multiple of four.
fn padding(bytes: usize) -> usize {
    bytes.wrapping_neg() % 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(archive: &Archive) -> Vec<u8> {
        let mut bytes = Vec::new();
        archive.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn an_archive_is_as_the_kernel_reads_it() {
        let mut archive = Archive::default();
        archive.file("/a/b", *b"hello").unwrap();
        let bytes = written(&archive);
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8(bytes).unwrap();
        let folder = "070701\
            00000001000041ed000000000000000000000002000000000000000000000000000000000000000000000000\
            0000000200000000a\0";
        assert!(text.starts_with(folder), "{text:?}");
        let file = "070701\
            00000002000081ed000000000000000000000001000000000000000500000000000000000000000000000000\
            0000000400000000a/b\0\0\0hello\0\0\x00070701";
        assert_eq!(&text[folder.len()..][..file.len()], file);
        assert!(text.trim_end_matches('\0').ends_with("TRAILER!!!"));
    }

    #[test]
    fn every_entry_begins_at_a_multiple_of_four() {
        for length in 0..9 {
            let mut archive = Archive::default();
            archive.file(format!("/{}", "n".repeat(length + 1)), vec![b'x'; length]).unwrap();
            let bytes = written(&archive);
            let starts = bytes.windows(6).enumerate().filter(|(_, window)| *window == b"070701");
            let starts: Vec<usize> = starts.map(|(start, _)| start).collect();
            assert_eq!(starts.len(), 2);
            assert!(starts.iter().all(|start| start % 4 == 0), "{starts:?}");
        }
    }

    /// Promise: Module tests with the same name all run; no file of a guest replaces another.
    #[test]
    fn no_file_takes_the_place_of_another() {
        let mut archive = Archive::default();
        archive.file("/a", *b"one").unwrap();
        archive.file("/a", *b"one").unwrap();
        assert!(archive.file("/a", *b"another").unwrap_err().to_string().contains("/a"));
        assert!(archive.file("/folder/b", *b"").and_then(|()| archive.file("/folder", *b"")).is_err());
    }

    #[test]
    fn paths_outside_are_refused() {
        let mut archive = Archive::default();
        for path in ["relative", "/a/../../etc", "/"] {
            assert!(archive.file(path, *b"").is_err(), "{path}");
        }
    }
}
