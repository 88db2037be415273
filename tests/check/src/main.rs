//! Runs every check and every test, and counts over all runners: `cargo run -p wirepath-check`.
//!
//! What it prints last is `N passed, N failed, N skipped`. A skip is never a pass: it is counted, and listed with
//! its reason.

mod step;
mod tally;

use std::process::ExitCode;

use step::{Count, Step, cargo};
use tally::Tally;

fn main() -> ExitCode {
    let mut total = Tally::default();
    for step in steps() {
        total.add(step.run());
    }
    total.add(advisories());
    print!("{}", total.summary());
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// In the order in which a failure is cheapest to know.
fn steps() -> Vec<Step> {
    // A workspace of its own, because its targets need another compiler; replaying the corpus does not.
    let fuzz =
        ["test", "--manifest-path", "fuzz/Cargo.toml", "--no-default-features", "--target-dir", "target"];
    // One build serves everything after it: the tests, and the command that they start through its public door.
    let build = ["build", "--workspace", "--bins", "--tests", "--locked"];
    vec![
        cargo("format", &["fmt", "--all", "--check"], Count::ExitCode, 2),
        // A workspace of its own, which `--all` does not reach.
        cargo(
            "format of fuzz",
            &["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"],
            Count::ExitCode,
            2,
        ),
        cargo("build", &build, Count::ExitCode, 20),
        cargo("lint", &["run", "--quiet", "--locked", "-p", "wirepath-lint"], Count::TestResults, 2),
        cargo("tests", &["test", "--workspace", "--locked", "--no-fail-fast"], Count::TestResults, 20),
        // Builds nothing that is not built by now; waits for two processors' worth of emulation.
        cargo(
            "guests",
            &["run", "--quiet", "--locked", "-p", "wirepath-vm", "--", "test"],
            Count::TestResults,
            30,
        ),
        cargo("fuzz corpus", &[&fuzz[..], &["--locked"]].concat(), Count::TestResults, 10),
        cargo(
            "clippy",
            &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"],
            Count::ExitCode,
            20,
        ),
    ]
}

/// Known vulnerabilities need a database that comes over the network, and a tool that has it.
fn advisories() -> Tally {
    let tools = [("cargo-deny", ["deny", "check", "advisories"].as_slice()), ("cargo-audit", &["audit"])];
    match tools.into_iter().find(|(tool, _)| is_installed(tool)) {
        Some((_, arguments)) => cargo("advisories", arguments, Count::ExitCode, 5).run(),
        None => Tally::skipped("advisories", "neither cargo-deny nor cargo-audit is installed"),
    }
}

/// Whether some folder of PATH holds `tool`.
fn is_installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}
