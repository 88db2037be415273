//! Finds files to pack.

use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

/// File that was named on the command line, or found in a named folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) verdict: Verdict,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Named,
    /// File in a folder, to be packed if it looks like a transport stream or a movie.
    InFolder,
    /// File to skip, with the reason. This is not an error.
    Skipped(&'static str),
    /// Error with its reason.
    Failed(String),
}

/// All files that `paths` name, and all files in and below the named folders, in the order of their names. As
/// in the server, names that begin with a dot and symlinks that leave a folder are skipped. Symlinks to
/// folders are not followed, since they could be circular.
pub(super) fn find(paths: &[PathBuf]) -> Vec<Found> {
    let mut found = Vec::new();
    for path in paths {
        match fs::metadata(path) {
            Ok(facts) if facts.is_dir() => search(path, &mut found),
            Ok(facts) => found.push(named(path, &facts)),
            Err(error) => found.push(failed(path, &error)),
        }
    }
    found
}

fn named(path: &Path, facts: &Metadata) -> Found {
    let verdict = match what_else(facts.file_type()) {
        None => Verdict::Named,
        Some(what) => Verdict::Failed(format!("it is {what}, not a file")),
    };
    Found { path: path.to_owned(), verdict }
}

fn search(folder: &Path, found: &mut Vec<Found>) {
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        let is_hidden = path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"."));
        if is_hidden && path != folder {
            found.push(skipped(path, "names that begin with a dot are not served"));
            continue;
        }
        match look(&path, folder) {
            Ok(Item::Folder(mut entries)) => {
                entries.sort_by(|one, other| other.cmp(one)); // `waiting` is a stack
                waiting.extend(entries);
            }
            Ok(Item::File) => found.push(Found { path, verdict: Verdict::InFolder }),
            Ok(Item::Other(what)) => found.push(skipped(path, what)),
            Err(error) => found.push(failed(&path, &error)),
        }
    }
}

enum Item {
    Folder(Vec<PathBuf>),
    File,
    Other(&'static str),
}

fn look(path: &Path, root: &Path) -> io::Result<Item> {
    let is_link = path != root && fs::symlink_metadata(path)?.is_symlink();
    if is_link && leaves(path, root)? {
        return Ok(Item::Other("a symlink that leaves the folder"));
    }
    let facts = fs::metadata(path)?;
    if facts.is_dir() {
        if is_link {
            return Ok(Item::Other("a symlink to a folder"));
        }
        let entries: io::Result<Vec<_>> = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect();
        return Ok(Item::Folder(entries?));
    }
    Ok(what_else(facts.file_type()).map_or(Item::File, Item::Other))
}

/// Returns whether a symlink leaves a folder, as the server resolves it. Absolute targets leave the folder.
fn leaves(link: &Path, root: &Path) -> io::Result<bool> {
    let folder = fs::File::open(root)?;
    let relative = link.strip_prefix(root).unwrap_or(link);
    let (flags, confined) =
        (OFlags::PATH | OFlags::CLOEXEC, ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS);
    match openat2(folder, relative, flags, Mode::empty(), confined) {
        Ok(_) => Ok(false),
        Err(rustix::io::Errno::XDEV) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

/// Kind of a directory entry that is not a regular file. Opening some kinds would block.
fn what_else(kind: FileType) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt;
    match () {
        () if kind.is_file() => None,
        () if kind.is_fifo() => Some("a pipe"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

fn skipped(path: PathBuf, reason: &'static str) -> Found {
    Found { path, verdict: Verdict::Skipped(reason) }
}

fn failed(path: &Path, error: &io::Error) -> Found {
    Found { path: path.to_owned(), verdict: Verdict::Failed(format!("cannot open: {error}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: `wirepath pack` searches folders for transport streams and reports skipped files.
    #[test]
    fn folders_are_searched_and_skipped_files_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("b/c")).unwrap();
        for name in ["z.ts", "b/c/y.ts", "b/.hidden", "a"] {
            fs::write(path(name), "").unwrap();
        }
        for (target, link) in [(".", "round"), ("nowhere", "gone"), ("z.ts", "near"), ("/etc/passwd", "out")]
        {
            std::os::unix::fs::symlink(target, path(link)).unwrap();
        }
        let found = find(&[folder.path().to_owned()]);
        let verdicts: Vec<_> = found
            .iter()
            .map(|found| {
                let name = found.path.strip_prefix(folder.path()).unwrap().to_str().unwrap();
                let verdict = match &found.verdict {
                    Verdict::Named => "named",
                    Verdict::InFolder => "in folder",
                    Verdict::Skipped(reason) => reason,
                    Verdict::Failed(_) => "failed",
                };
                (name, verdict)
            })
            .collect();
        let expected = [
            ("a", "in folder"),
            ("b/.hidden", "names that begin with a dot are not served"),
            ("b/c/y.ts", "in folder"),
            ("gone", "failed"),
            ("near", "in folder"),
            ("out", "a symlink that leaves the folder"),
            ("round", "a symlink to a folder"),
            ("z.ts", "in folder"),
        ];
        assert_eq!(verdicts, expected);
    }

    #[test]
    fn a_named_file_must_exist_and_be_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().join("gone"), PathBuf::from("/dev/null")];
        let found = find(&paths);
        assert!(matches!(&found[0].verdict, Verdict::Failed(reason) if reason.contains("No such file")));
        assert!(matches!(&found[1].verdict, Verdict::Failed(reason) if reason.contains("a device")));
    }
}
