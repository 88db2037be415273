//! The published crate for its users: the example of the README in a project of its own, and the comparison
//! of the interface with the last release. A runner of its own, since `make test` skips the first.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use anyhow::Result;
use wirepath_testkit::{require, trial, trials};

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn main() -> ExitCode {
    let tests = trials![
        the_example_of_the_readme_runs_in_a_new_project,
        the_interface_is_compared_or_what_is_missing_is_said,
    ];
    trial::run(tests, Vec::new())
}

/// Promise: The README's example runs in a new project that adds the crate by its path, without network.
///
/// With the versions of the workspace's lock file, which are downloaded already. A wrong expectation fails:
/// the example does check something.
fn the_example_of_the_readme_runs_in_a_new_project() -> Result<()> {
    let is_long = std::env::var_os("WIREPATH_LONG").is_some();
    require!(is_long, "it builds the library once more; run: make test-long");
    let readme = include_str!("../README.md");
    let (_, rest) = readme.split_once("```rust\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    assert_eq!(example[example.find("fn main").unwrap()..].lines().count(), 10, "{example}");

    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("first");
    succeeded(&cargo(folder.path()).args(["new", "--quiet", "--vcs", "none", "first"]).output().unwrap());
    let mut add = cargo(&project);
    add.args(["add", "--quiet", "--offline", "--path"]).arg(Path::new(WORKSPACE).join("crates/streams"));
    succeeded(&add.output().unwrap());
    fs::copy(Path::new(WORKSPACE).join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    fs::write(project.join("src/main.rs"), example).unwrap();
    let said = succeeded(&cargo(&project).args(["run", "--quiet", "--offline"]).output().unwrap());
    assert_eq!(said, "");

    let wrong = example.replace(r#"b"error 1\nerror 2\n""#, r#"b"error 1\nerror 3\n""#);
    assert_ne!(wrong, example);
    fs::write(project.join("src/main.rs"), wrong).unwrap();
    let output = cargo(&project).args(["run", "--quiet", "--offline"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("assertion `left == right` failed"), "{errors}");
    Ok(())
}

/// The cargo that built this test, with the compiler beside it: outside the workspace, rustup may choose
/// another. What it builds is kept for the next run. Behind other tests (nice 10), which measure time.
fn cargo(folder: &Path) -> Command {
    let program = Path::new(env!("CARGO"));
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(program);
    command.current_dir(folder).env("CARGO_PROFILE_DEV_DEBUG", "0");
    command.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("first-project"));
    let compiler = program.with_file_name("rustc");
    if compiler.exists() {
        command.env("RUSTC", compiler);
    }
    command
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Promise: `make semver` compares the interface of the published crates with a version, or says what it
/// needs.
fn the_interface_is_compared_or_what_is_missing_is_said() {
    let compared = semver(&["v0.1.0"], true);
    let said = succeeded(&compared);
    let mut words = said.split_whitespace();
    let (first, packages): (Vec<&str>, Vec<&str>) =
        (words.by_ref().take(4).collect(), words.filter(|word| *word != "--package").collect());
    assert_eq!(first, ["semver-checks", "check-release", "--baseline-rev", "v0.1.0"]);
    let steps = fs::read_to_string(Path::new(WORKSPACE).join("tests/check/src/main.rs")).unwrap();
    let (_, list) = steps.split_once("const PUBLISHED").unwrap();
    let (list, _) = list.split_once("];").unwrap();
    let mut published: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    published.sort_unstable();
    assert_eq!(packages, published);

    for (arguments, has_tool, code, words) in [
        (["v0.1.0"].as_slice(), false, 69, "cargo install --locked cargo-semver-checks"),
        (&[], true, 64, "make semver BASELINE=v0.1.0"),
        (&[""], true, 64, "make semver BASELINE=v0.1.0"),
    ] {
        let output = semver(arguments, has_tool);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{errors}");
        assert!(errors.contains(words), "{errors}");
    }
}

/// Runs `scripts/semver.sh` where only the programs are found that it needs, with `echo` in place of cargo.
fn semver(arguments: &[&str], has_tool: bool) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let tool = [("cargo-semver-checks", "echo")];
    let programs = ["bash", "dirname", "grep", "sed"].map(|name| (name, name));
    for (name, program) in programs.iter().chain(&[("cargo", "echo")]).chain(&tool[usize::from(!has_tool)..])
    {
        symlink(found(program), folder.path().join(name)).unwrap();
    }
    let mut command = Command::new(folder.path().join("bash"));
    command.arg(Path::new(WORKSPACE).join("scripts/semver.sh")).args(arguments);
    command.env("PATH", folder.path()).env("CARGO_HOME", folder.path()).output().unwrap()
}

/// A program of the machine.
fn found(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file()).unwrap()
}
