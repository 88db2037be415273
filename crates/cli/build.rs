//! Determines the commit that the program is built from, for `--version` and for results, without any crate.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources of the program, relative to the workspace.
const SOURCES: [&str; 3] = ["crates", "Cargo.toml", "Cargo.lock"];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    let commit = commit(&root).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=WIREPATH_VERSION={} ({commit})", env!("CARGO_PKG_VERSION"));
}

/// The commit, with `-dirty` if the sources differ from it; None outside a checkout of this workspace.
fn commit(root: &Path) -> Option<String> {
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None; // unpacked inside another repository
    }
    // The log grows with every commit and checkout.
    let log = PathBuf::from(git(root, &["rev-parse", "--absolute-git-dir"])?).join("logs/HEAD");
    if log.is_file() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    let changed =
        git(root, &[&["--no-optional-locks", "status", "--porcelain", "--"], &SOURCES[..]].concat())?;
    Some(if changed.is_empty() { commit } else { format!("{commit}-dirty") })
}

/// Output of git; None if git fails or is not installed.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let answer = output.status.success().then(|| String::from_utf8(output.stdout).ok())??;
    Some(answer.trim_end().to_owned())
}
