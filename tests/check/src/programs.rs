//! The workspace's programs: built once, then run by themselves.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::length::Length;
use crate::step::{Count, Done, Step, cargo, command};

/// Programs that were built.
#[derive(Debug, Default)]
pub(crate) struct Built {
    /// Test programs.
    pub(crate) tests: Vec<Program>,
    /// Other programs by their names.
    commands: BTreeMap<String, String>,
    /// Cargo's messages, a line each.
    messages: String,
}

/// A built test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The name of its target: of the crate for unit tests.
    pub(crate) name: String,
    /// Working folder that cargo gives it: its package's folder.
    folder: PathBuf,
    file: String,
}

/// Builds the tests and the commands; a failed step where that fails.
pub(crate) fn build() -> (Done, Built) {
    let arguments = [
        "build",
        "--workspace",
        "--lib",
        "--bins",
        "--tests",
        "--locked",
        "--message-format=json-render-diagnostics",
    ];
    let mut built = Built::default();
    println!("\n=== build: cargo {}", arguments.join(" "));
    let done =
        cargo("build", &arguments, Count::ExitCode, 30).run_with(|line| match line.strip_prefix('{') {
            Some(_) => built.note(line),
            None => println!("{line}"),
        });
    (done, built)
}

impl Built {
    /// Keeps what a message of cargo reports.
    fn note(&mut self, line: &str) {
        self.messages += line;
        self.messages.push('\n');
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        if let Some(program) = Program::of(&message) {
            if message["profile"]["test"] == true {
                self.tests.push(program);
            } else {
                self.commands.insert(program.name, program.file);
            }
        }
    }

    /// The file of a command.
    ///
    /// # Errors
    /// If it was not built.
    pub(crate) fn command(&self, name: &str) -> Result<&str> {
        self.commands.get(name).map(String::as_str).with_context(|| format!("{name} was not built"))
    }

    /// A file with cargo's messages, beside this program.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn messages(&self) -> Result<PathBuf> {
        let file = std::env::current_exe().context("finding this program")?.with_extension("artifacts");
        std::fs::write(&file, &self.messages).with_context(|| file.display().to_string())?;
        Ok(file)
    }
}

impl Program {
    /// The program that a message of cargo reports.
    fn of(message: &Value) -> Option<Self> {
        let manifest = PathBuf::from(message["manifest_path"].as_str()?);
        let name = message["target"]["name"].as_str()?.to_owned();
        let file = message["executable"].as_str()?.to_owned();
        Some(Self { name, folder: manifest.parent()?.to_owned(), file })
    }

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

    /// Runs one of its tests again.
    pub(crate) fn again(&self, test: &str, length: Length) -> Step {
        self.step_of(&format!("{test}, again"), &[&self.file, "--exact", test], length)
    }

    fn step(&self, name: &str, length: Length) -> Step {
        self.step_of(name, &[&self.file], length)
    }

    fn step_of(&self, name: &str, words: &[&str], length: Length) -> Step {
        let step = command(name, words, Count::TestResults, length.limit(20));
        length.tell(step.inside(self.folder.clone()))
    }
}

/// The environment variable that chooses a kind of tests.
const KIND: &str = "WIREPATH_TESTS";

#[cfg(test)]
mod tests {
    use super::*;

    fn message(is_test: bool, executable: &str) -> String {
        let target = r#""manifest_path":"/w/a/Cargo.toml","target":{"name":"a"}"#;
        format!(r#"{{{target},"profile":{{"test":{is_test}}},"executable":{executable}}}"#)
    }

    #[test]
    fn a_test_is_run_again_by_its_name() {
        let program = Program { name: "a".into(), folder: "/".into(), file: "echo".into() };
        let mut lines = Vec::new();
        program.again("b::c", Length::asked_for().unwrap()).run_with(|line| lines.push(line.to_owned()));
        assert_eq!(lines, ["--exact b::c"]);
    }

    #[test]
    fn test_programs_and_commands_are_told_apart() {
        let mut built = Built::default();
        for line in [
            message(true, r#""/w/target/debug/deps/a-1""#),
            message(false, r#""/w/target/debug/a""#),
            message(true, "null"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ] {
            built.note(&line);
        }
        let test =
            Program { name: "a".into(), folder: "/w/a".into(), file: "/w/target/debug/deps/a-1".into() };
        assert_eq!(built.tests, [test]);
        assert_eq!(built.command("a").unwrap(), "/w/target/debug/a");
        assert!(built.command("b").is_err());
        assert_eq!(built.messages.lines().count(), 4);
    }
}
