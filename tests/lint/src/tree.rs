//! The project's text files.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// Text files of the project by path relative to its root, and the paths of all others.
#[derive(Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads what git tracks or would track under `root`: ignored build products are not the project's.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        for path in listed(root)? {
            let absolute = root.join(&path);
            // A file deleted but not yet committed is still listed; a symbolic link's target is its own file.
            if !absolute.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
                continue;
            }
            let bytes = std::fs::read(&absolute).with_context(|| format!("reading {path}"))?;
            tree.files.insert(path, String::from_utf8(bytes).ok());
        }
        Ok(tree)
    }

    /// Path and text of every text file.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Text files whose name ends in `suffix`.
    pub(crate) fn ending_in<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.texts().filter(move |(path, _)| path.ends_with(suffix))
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Returns whether `path` is a file of the project or a folder with one in it.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files.contains_key(path)
            || self.files.range(folder.clone()..).next().is_some_and(|(name, _)| name.starts_with(&folder))
    }
}

fn listed(root: &Path) -> anyhow::Result<Vec<String>> {
    // A build machine often runs as another user than the one who cloned; this only lists names.
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("git ls-files could not be run; install git")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git ls-files failed in {}: {complaint}", root.display());
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8; rename it")?;
    Ok(names.split_terminator('\0').map(str::to_owned).collect())
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Tree {
    fn from(files: [(&str, &str); N]) -> Self {
        let files = files.map(|(path, text)| (path.to_owned(), Some(text.to_owned())));
        Self { files: files.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_exist_by_their_files() {
        let tree = Tree::from([("docs/guide.md", "")]);
        assert!(tree.has("docs") && tree.has("docs/guide.md"));
        assert!(!tree.has("doc") && !tree.has("docs/guide"));
    }

    #[test]
    fn a_folder_without_git_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = Tree::read(folder.path()).err().unwrap();
        assert!(error.to_string().contains("git ls-files failed"), "{error}");
    }

    #[test]
    fn this_project_has_its_own_source() {
        let tree = Tree::read(&crate::workspace_root()).unwrap();
        assert!(tree.has("tests/lint/src/tree.rs") && !tree.has("target"));
    }
}
