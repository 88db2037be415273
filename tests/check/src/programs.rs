//! The workspace's test programs: built once, then run by themselves.

use std::path::PathBuf;

use serde_json::Value;

use crate::length::Length;
use crate::step::{Count, Done, Step, cargo, command};

/// A built test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The name of its target: of the crate for unit tests.
    pub(crate) name: String,
    /// Where cargo runs it: its package's folder.
    folder: PathBuf,
    file: String,
}

/// Builds the tests and the command that they start; a failed step where that fails.
pub(crate) fn build() -> (Done, Vec<Program>) {
    let arguments =
        ["build", "--workspace", "--bins", "--tests", "--locked", "--message-format=json-render-diagnostics"];
    let mut programs = Vec::new();
    println!("\n=== build: cargo {}", arguments.join(" "));
    let done =
        cargo("build", &arguments, Count::ExitCode, 30).run_with(|line| match line.strip_prefix('{') {
            Some(_) => programs.extend(program_of(line)),
            None => println!("{line}"),
        });
    (done, programs)
}

/// The test program that a line of cargo's output reports.
fn program_of(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let name = message["target"]["name"].as_str()?.to_owned();
    let file = message["executable"].as_str()?.to_owned();
    Some(Program { name, folder: manifest.parent()?.to_owned(), file })
}

impl Program {
    /// Runs all of its tests.
    pub(crate) fn whole(&self, length: Length) -> Step {
        self.step(&self.name, length)
    }

    /// Runs those of its tests that others may run beside (see `wirepath_testkit::trial::run`).
    pub(crate) fn together(&self, length: Length) -> Step {
        self.whole(length).with(KIND, "together")
    }

    /// Runs its other tests.
    pub(crate) fn alone(&self, length: Length) -> Step {
        self.step(&format!("{}, alone", self.name), length).with(KIND, "alone")
    }

    fn step(&self, name: &str, length: Length) -> Step {
        let step = command(name, &[&self.file], Count::TestResults, length.limit(20));
        length.tell(step.inside(self.folder.clone()))
    }
}

/// The environment variable that chooses a kind of tests.
const KIND: &str = "WIREPATH_TESTS";

#[cfg(test)]
mod tests {
    use super::*;

    fn message(is_test: bool, executable: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{{"name":"a"}},
            "profile":{{"test":{is_test}}},"executable":{executable}}}"#
        )
    }

    #[test]
    fn test_programs_are_found_and_nothing_else() {
        let found = program_of(&message(true, r#""/w/target/debug/deps/a-1""#));
        let expected =
            Program { name: "a".into(), folder: "/w/a".into(), file: "/w/target/debug/deps/a-1".into() };
        assert_eq!(found, Some(expected));
        assert_eq!(program_of(&message(false, r#""/w/target/debug/a""#)), None);
        assert_eq!(program_of(&message(true, "null")), None);
        assert_eq!(program_of(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
