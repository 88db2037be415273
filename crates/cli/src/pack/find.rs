//! Which files there are to pack.

use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file that was named, or found in a folder that was.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) verdict: Verdict,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// To be packed.
    Named,
    /// To be packed if it looks like a transport stream.
    InFolder,
    /// Not to be packed, and that is no error.
    PassedOver(&'static str),
    /// An error; the words say why.
    Failed(String),
}

/// All files that `paths` name, and those in the folders among them and below, in the order of their names. Like the
/// server, it passes over names in folders that begin with a dot. Links to folders are not followed, so there is no end
/// to run in circles for.
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
            found.push(passed_over(path, "names that begin with a dot are not served"));
            continue;
        }
        match look(&path, folder) {
            Ok(Item::Folder(mut entries)) => {
                entries.sort_by(|one, other| other.cmp(one)); // the last is taken first
                waiting.extend(entries);
            }
            Ok(Item::File) => found.push(Found { path, verdict: Verdict::InFolder }),
            Ok(Item::Other(what)) => found.push(passed_over(path, what)),
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
    let facts = fs::metadata(path)?;
    if facts.is_dir() {
        if path != root && fs::symlink_metadata(path)?.is_symlink() {
            return Ok(Item::Other("a link to a folder"));
        }
        let entries: io::Result<Vec<_>> = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect();
        return Ok(Item::Folder(entries?));
    }
    Ok(what_else(facts.file_type()).map_or(Item::File, Item::Other))
}

/// What it is if not a file. Opening some of these would wait for ever.
fn what_else(kind: FileType) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt;
    match () {
        () if kind.is_file() => None,
        () if kind.is_fifo() => Some("a pipe"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

fn passed_over(path: PathBuf, reason: &'static str) -> Found {
    Found { path, verdict: Verdict::PassedOver(reason) }
}

fn failed(path: &Path, error: &io::Error) -> Found {
    Found { path: path.to_owned(), verdict: Verdict::Failed(format!("cannot be looked at: {error}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: `wirepath pack` searches folders for transport streams and reports what it skips.
    #[test]
    fn folders_are_searched_and_what_is_passed_over_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("b/c")).unwrap();
        for name in ["z.ts", "b/c/y.ts", "b/.hidden", "a"] {
            fs::write(path(name), "").unwrap();
        }
        std::os::unix::fs::symlink(folder.path(), path("round")).unwrap();
        std::os::unix::fs::symlink(path("nowhere"), path("gone")).unwrap();
        let found = find(&[folder.path().to_owned()]);
        let verdicts: Vec<_> = found
            .iter()
            .map(|found| {
                let name = found.path.strip_prefix(folder.path()).unwrap().to_str().unwrap();
                let verdict = match &found.verdict {
                    Verdict::Named => "named",
                    Verdict::InFolder => "in folder",
                    Verdict::PassedOver(reason) => reason,
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
            ("round", "a link to a folder"),
            ("z.ts", "in folder"),
        ];
        assert_eq!(verdicts, expected);
    }

    #[test]
    fn what_is_named_must_be_there_and_be_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().join("gone"), PathBuf::from("/dev/null")];
        let found = find(&paths);
        assert!(matches!(&found[0].verdict, Verdict::Failed(reason) if reason.contains("No such file")));
        assert!(matches!(&found[1].verdict, Verdict::Failed(reason) if reason.contains("a device")));
    }
}
