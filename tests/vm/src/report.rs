//! Results of a guest: its tests, and its kernel's complaints.

use std::fmt::Write;

use crate::judge;
use crate::plan::Event;

/// One test, of a program or of the guest itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// `GUEST PROGRAM TEST`.
    pub name: String,
    /// Its outcome.
    pub outcome: Outcome,
}

/// Outcome of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Passed,
    /// It does not, and why.
    Failed(String),
    /// It could not run there, and why.
    Skipped(String),
}

/// Results of a guest.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order in which they ran.
    pub tests: Vec<Test>,
    /// Everything that programs printed.
    pub output: String,
}

impl Report {
    /// Reads the lines that guest `name` reported, and its kernel's log. `ended` says what was wrong with its
    /// end, if anything was.
    ///
    /// There is always a test of the kernel: it passes if the guest did all that was planned, and its kernel
    /// complained about nothing.
    pub fn new(name: &str, reported: &str, log: &str, ended: &str) -> Self {
        let mut reader = Reader { guest: name, ..Reader::default() };
        for line in reported.lines() {
            reader.read(line);
        }
        let mut problems = reader.faults.clone();
        if !reader.done {
            problems.push(format!("the guest did not come to its end; {}", last_words(ended, log)));
            reader.end_program(&Err("it did not end".to_owned()));
        }
        problems.extend(judge::complaints(log).into_iter().map(|complaint| complaint.excerpt));
        let outcome =
            if problems.is_empty() { Outcome::Passed } else { Outcome::Failed(problems.join("\n")) };
        reader.tests.push(Test { name: format!("{name} kernel"), outcome });
        let output = reported.lines().filter(|line| Event::read(line).is_none());
        Self { tests: reader.tests, output: output.map(|line| format!("{line}\n")).collect() }
    }

    /// A guest that cannot be had.
    pub fn skipped(name: &str, why: &str) -> Self {
        let outcome = Outcome::Skipped(why.trim().replace('\n', "; "));
        Self { tests: vec![Test { name: name.to_owned(), outcome }], output: String::new() }
    }

    /// Reasons of failed tests.
    pub fn problems(&self) -> String {
        let failed = self.tests.iter().filter_map(|test| match &test.outcome {
            Outcome::Failed(why) => Some(format!("{why}\n")),
            _ => None,
        });
        failed.collect()
    }

    /// Passed, failed, skipped.
    pub fn counts(&self) -> [usize; 3] {
        let count =
            |wanted: fn(&Outcome) -> bool| self.tests.iter().filter(|test| wanted(&test.outcome)).count();
        [
            count(|outcome| *outcome == Outcome::Passed),
            count(|outcome| matches!(outcome, Outcome::Failed(_))),
            count(|outcome| matches!(outcome, Outcome::Skipped(_))),
        ]
    }

    /// Counts that programs report.
    pub fn counted(&self) -> String {
        self.output.lines().filter(|line| line.starts_with(COUNTED)).map(|line| format!("{line}\n")).collect()
    }

    /// In the form of the project's test runners, with the reasons for what failed and what was skipped.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut reasons = String::new();
        for Test { name, outcome } in &self.tests {
            let word = match outcome {
                Outcome::Passed => "ok",
                Outcome::Failed(_) => "FAILED",
                Outcome::Skipped(_) => "ignored",
            };
            writeln!(text, "test {name} ... {word}").expect("a string takes all");
            match outcome {
                Outcome::Passed => Ok(()),
                Outcome::Failed(why) => writeln!(reasons, "\n---- {name} ----\n{why}\n"),
                Outcome::Skipped(why) => writeln!(reasons, "SKIP {name}: {why}"),
            }
            .expect("a string takes all");
        }
        let [passed, failed, skipped] = self.counts();
        let word = if failed == 0 { "ok" } else { "FAILED" };
        format!("{text}{reasons}test result: {word}. {passed} passed; {failed} failed; {skipped} ignored\n\n")
    }
}

/// Beginning of a line that reports a test's counts.
const COUNTED: &str = "counted: ";

/// Reason why a guest ended before it was done.
fn last_words(ended: &str, log: &str) -> String {
    let last = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
    let how = if ended.is_empty() { "the machine was switched off" } else { ended };
    format!("{how}; its kernel's last words: {last}")
}

#[derive(Default)]
struct Reader<'a> {
    guest: &'a str,
    program: Option<String>,
    /// The program's output.
    output: Vec<&'a str>,
    tests: Vec<Test>,
    faults: Vec<String>,
    done: bool,
}

impl<'a> Reader<'a> {
    fn read(&mut self, line: &'a str) {
        match Event::read(line) {
            Some(Event::Begin(name)) => self.program = Some(name),
            Some(Event::End(result)) => self.end_program(&result),
            Some(Event::Fault(problem)) => self.faults.push(problem),
            Some(Event::Done) => self.done = true,
            None => self.output.push(line),
        }
    }

    /// A program is a runner of tests, or a test itself.
    fn end_program(&mut self, result: &Result<(), String>) {
        let Some(program) = self.program.take() else { return };
        let output = std::mem::take(&mut self.output);
        let name = format!("{} {program}", self.guest);
        let tests: Vec<Test> = output.iter().filter_map(|line| test(&name, line, &output)).collect();
        let failed = tests.iter().any(|test| matches!(test.outcome, Outcome::Failed(_)));
        let ran_none = !tests.iter().any(|test| test.outcome == Outcome::Passed);
        let is_runner = output.iter().any(|line| line.starts_with("running ") && line.contains(" test"));
        self.tests.extend(tests);
        if !is_runner {
            self.tests.extend(output.iter().filter_map(|line| left_out(&name, line)));
        }
        let outcome = match result {
            Err(reason) if !failed => {
                Outcome::Failed(format!("{reason}; it printed:\n{}", output.join("\n")))
            }
            Err(_) => return,
            Ok(()) if is_runner && ran_none => Outcome::Failed("it ran no test".to_owned()),
            Ok(()) if is_runner => return,
            Ok(()) => Outcome::Passed,
        };
        self.tests.push(Test { name, outcome });
    }
}

/// The test that `test NAME ... RESULT` tells of.
fn test(program: &str, line: &str, output: &[&str]) -> Option<Test> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let outcome = match result.split([',', ' ']).next()? {
        "ok" => Outcome::Passed,
        "FAILED" => Outcome::Failed(why(name, output)),
        "ignored" => Outcome::Skipped(reason(name, output)),
        _ => return None,
    };
    Some(Test { name: format!("{program} {name}", name = name.trim()), outcome })
}

/// Skipped test of a line `SKIP NAME: REASON` by a program that is no runner.
fn left_out(program: &str, line: &str) -> Option<Test> {
    let (name, why) = line.strip_prefix("SKIP ")?.split_once(": ")?;
    Some(Test { name: format!("{program} {name}"), outcome: Outcome::Skipped(why.to_owned()) })
}

/// The runner's text below `---- NAME ----`.
fn why(name: &str, output: &[&str]) -> String {
    let title = format!("---- {} ----", name.trim());
    let lines = output.iter().skip_while(|line| **line != title).skip(1);
    let told = lines.take_while(|line| !line.starts_with("---- ") && **line != "failures:");
    told.map(|line| format!("{line}\n")).collect::<String>().trim().to_owned()
}

fn reason(name: &str, output: &[&str]) -> String {
    let start = format!("SKIP {}: ", name.trim());
    output.iter().find_map(|line| line.strip_prefix(&start)).unwrap_or("no reason given").to_owned()
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
