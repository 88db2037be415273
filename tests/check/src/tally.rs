//! Counting results over runners.

use std::fmt::Write;

/// Characters of a failure's reason that the summary has.
const REASON: usize = 300;

/// Results so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed.
    pub(crate) failed: u64,
    /// Tests that failed beside others, and passed when they were tried again alone.
    pub(crate) unstable: u64,
    /// Tests that could not run here.
    pub(crate) skipped: u64,
    /// Programs that printed a result.
    pub(crate) results: u64,
    /// True if tests of a program were left to another run of it.
    pub(crate) is_left: bool,
    /// Names of tests that failed, of a program that prints them.
    pub(crate) failed_tests: Vec<String>,
    /// Failures and skips, with reasons where they are known.
    remarks: Vec<String>,
    /// Failed test whose reason the next lines say.
    explained: Option<String>,
}

impl Tally {
    /// One test passed.
    pub(crate) fn passed() -> Self {
        Self { passed: 1, ..Self::default() }
    }

    /// One test failed.
    pub(crate) fn failed(name: &str, reason: &str) -> Self {
        Self { failed: 1, remarks: vec![format!("FAIL {name}: {reason}")], ..Self::default() }
    }

    /// One test could not run.
    pub(crate) fn skipped(name: &str, reason: &str) -> Self {
        Self { skipped: 1, remarks: vec![format!("SKIP {name}: {reason}")], ..Self::default() }
    }

    /// Counts a test as unstable that was tried again and passed.
    pub(crate) fn passed_again(&mut self, name: &str) {
        let failure = format!("FAIL {name}");
        let is_its = |remark: &&mut String| {
            remark.strip_prefix(&failure).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        };
        if let Some(remark) = self.remarks.iter_mut().find(is_its) {
            remark.replace_range(.."FAIL".len(), "UNSTABLE");
            self.failed -= 1;
            self.unstable += 1;
        }
    }

    /// Adds another's results.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.unstable += other.unstable;
        self.skipped += other.skipped;
        self.results += other.results;
        self.remarks.extend(other.remarks);
    }

    /// Reads one line of a runner's output: its result, a failed test's name, or a skip's reason.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.results += 1;
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
            self.skipped += count(counts, "ignored");
        } else if line.starts_with("LEFT ") {
            self.is_left = true;
        } else if line.starts_with("SKIP ") {
            self.remarks.push(line.to_owned());
        } else if let Some(name) = failed_test(line) {
            self.remarks.push(format!("FAIL {name}"));
            self.failed_tests.push(name.to_owned());
        } else if let Some(name) = explained_test(line) {
            self.explained = Some(format!("FAIL {name}"));
        } else if is_reason(line) {
            self.explain(line.trim());
        }
    }

    /// Adds the reason to the failed test that it belongs to.
    fn explain(&mut self, reason: &str) {
        let Some(failure) = self.explained.take() else { return };
        let Some(remark) = self.remarks.iter_mut().find(|remark| **remark == failure) else { return };
        remark.push_str(": ");
        remark.extend(reason.chars().take(REASON));
    }

    /// The remarks, then one line with the counts.
    pub(crate) fn summary(&self) -> String {
        let mut text = String::from("\n");
        for remark in &self.remarks {
            text += remark;
            text.push('\n');
        }
        let Self { passed, failed, unstable, skipped, .. } = self;
        let unstable = if *unstable > 0 { format!("{unstable} unstable, ") } else { String::new() };
        writeln!(text, "{passed} passed, {failed} failed, {unstable}{skipped} skipped")
            .expect("a string takes all");
        text
    }
}

/// The number before `word` in `ok. 3 passed; 0 failed; 1 ignored; …`.
fn count(counts: &str, word: &str) -> u64 {
    let words: Vec<&str> = counts.split([' ', ';']).filter(|part| !part.is_empty()).collect();
    let pair = words.windows(2).find(|pair| pair[1] == word);
    pair.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

/// The name in `test NAME ... FAILED`.
fn failed_test(line: &str) -> Option<&str> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    outcome.starts_with("FAILED").then_some(name.trim())
}

/// The name in `---- NAME ----` or `---- NAME stdout ----`, the lines after which say why a test failed.
fn explained_test(line: &str) -> Option<&str> {
    let name = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
    Some(name.strip_suffix(" stdout").unwrap_or(name))
}

/// True for a line with words of the test's own, which the place of a panic is not.
fn is_reason(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with("thread '")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: `make test` runs every test and counts passed, failed and skipped.
    #[test]
    fn results_of_several_runners_add_up() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test b::c ... FAILED",
            "test d ... ignored, no ffmpeg",
            "SKIP d: no ffmpeg",
            "LEFT alone: 2",
            "---- b::c stdout ----",
            "",
            "thread 'b::c' (17) panicked at tests/b.rs:3:5:",
            "2 of 3 packets came",
            "note: run with RUST_BACKTRACE=1",
            "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.01s",
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        ] {
            tally.read(line);
        }
        tally.add(Tally::passed());
        let expected =
            "\nFAIL b::c: 2 of 3 packets came\nSKIP d: no ffmpeg\n14 passed, 1 failed, 1 skipped\n";
        assert_eq!(tally.summary(), expected);
        assert!(tally.is_left && tally.results == 2);
        assert_eq!(tally.failed_tests, ["b::c"]);
    }

    /// Promise: A test that fails but passes alone in a second try is reported as unstable with its reason.
    #[test]
    fn a_test_that_passes_again_is_unstable() {
        let mut tally = Tally::default();
        for name in ["b", "b::c", "d"] {
            tally.add(Tally::failed(name, "late"));
        }
        tally.passed_again("b::c");
        tally.passed_again("nobody");
        let expected =
            "\nFAIL b: late\nUNSTABLE b::c: late\nFAIL d: late\n0 passed, 2 failed, 1 unstable, 0 skipped\n";
        assert_eq!(tally.summary(), expected);
    }
}
