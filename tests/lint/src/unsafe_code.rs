//! `unsafe` lives in four crates: system calls in `sys`, the boundaries to C in `capi` and `loan`, that to Python
//! in `python`.
//!
//! The workspace forbids it too; but a member can override the workspace's lints, and this sees it.

use crate::finding::Finding;
use crate::rust;
use crate::tree::Tree;

/// Folders in which `unsafe` may occur: system calls, boundaries to other languages, and code that has no
/// choice.
const ALLOWED: &[&str] =
    &["crates/sys/", "crates/capi/", "crates/loan/", "crates/python/", "fuzz/", "kernel/"];

/// Finds `unsafe` elsewhere, and files that are not Rust.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let elsewhere = |(path, _): &(&str, &str)| !ALLOWED.iter().any(|folder| path.starts_with(folder));
    tree.ending_in(".rs").filter(elsewhere).flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let stream = match rust::tokens(text) {
        Ok(stream) => stream,
        Err(error) => return vec![Finding::new(path, error, "make it valid Rust")],
    };
    let finding = |line| {
        let remedy = "move the call to crates/sys behind a safe function";
        Finding::new(format!("{path}:{line}"), "`unsafe` outside crates/sys, capi, loan and python", remedy)
    };
    rust::lines_with("unsafe", stream).into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: `unsafe` occurs only in `crates/sys`, `capi`, `loan` and `python` (and in `fuzz` and `kernel`).
    #[test]
    fn unsafe_is_found_outside_its_crates_only() {
        let code = "/// unsafe\npub fn f() {\n unsafe { g() } }";
        let tree = Tree::from([
            ("crates/sys/src/lib.rs", code),
            ("crates/capi/src/lib.rs", code),
            ("crates/server/src/lib.rs", code),
        ]);
        let places: Vec<_> = check(&tree).into_iter().map(|finding| finding.place).collect();
        assert_eq!(places, ["crates/server/src/lib.rs:3"]);
    }

    #[test]
    fn broken_source_is_found() {
        assert_eq!(check(&Tree::from([("crates/server/src/lib.rs", "fn f( {")])).len(), 1);
    }
}
