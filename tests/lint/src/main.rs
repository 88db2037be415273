//! Checks what the compiler does not: `cargo run -p wirepath-lint`. With `specification` it writes
//! SPECIFICATION.md.
//!
//! Every rule is a function from what it looks at to findings, so that its tests can feed it violations.
//! The last line has the form of a test runner's, so that `wirepath-check` counts rules like tests.

mod crates;
mod finding;
mod functions;
mod licences;
mod links;
mod machine_paths;
mod modules;
mod publishing;
mod reasons;
mod rust;
mod specification;
mod tree;
mod unsafe_code;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use cargo_metadata::{Metadata, MetadataCommand};

use finding::Finding;
use tree::Tree;

fn main() -> ExitCode {
    let result = match std::env::args().nth(1).as_deref() {
        None => check(),
        Some("specification") => write_specification(),
        Some(other) => Err(anyhow::anyhow!("unknown argument {other:?}: expected `specification` or none")),
    };
    match result {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("wirepath-lint: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs every rule over the workspace and answers how many failed.
fn check() -> anyhow::Result<usize> {
    let root = workspace_root();
    let tree = Tree::read(&root)?;
    let metadata = metadata(&root)?;
    let results = [
        ("crates", crates::check(&crates::members(&metadata))),
        ("publishing", publishing::check(&publishing::published(&metadata))),
        ("modules", modules::check(&tree)),
        ("unsafe_code", unsafe_code::check(&tree)),
        ("reasons", reasons::check(&tree)),
        ("specification", specification::check(&tree)),
        ("links", links::check(&tree)),
        ("machine_paths", machine_paths::check(&tree)),
        ("licences", licences::check(&tree, &licences::packages(&metadata))),
    ];
    Ok(report(&results))
}

/// Writes SPECIFICATION.md from the promises at tests.
fn write_specification() -> anyhow::Result<usize> {
    let root = workspace_root();
    let text = specification::generate(&Tree::read(&root)?);
    let file = specification::SPECIFICATION;
    std::fs::write(root.join(file), text).with_context(|| format!("writing {file}"))?;
    Ok(0)
}

fn workspace_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The workspace as cargo sees it on this kind of machine: other platforms' packages are not fetched.
fn metadata(root: &std::path::Path) -> anyhow::Result<Metadata> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .other_options(["--locked".to_owned(), "--filter-platform".to_owned(), platform])
        .exec()
        .context("cargo metadata failed; if Cargo.lock is behind, run `cargo check` and commit it")
}

fn report(results: &[(&str, Vec<Finding>)]) -> usize {
    for (rule, findings) in results {
        println!("{rule} ... {}", if findings.is_empty() { "ok" } else { "FAILED" });
        for finding in findings {
            println!("  {finding}");
        }
    }
    let failed = results.iter().filter(|(_, findings)| !findings.is_empty()).count();
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    let passed = results.len() - failed;
    println!(
        "test result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out"
    );
    failed
}
