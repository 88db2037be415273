//! One command of the whole check, with a deadline.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::Context;

use crate::tally::Tally;

/// How a command says what came out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// It is one test: exit code 0 or not.
    ExitCode,
    /// It prints `test result:` lines, as the test runners of this project do.
    TestResults,
}

/// A named command.
pub(crate) struct Step {
    name: &'static str,
    command: Vec<String>,
    count: Count,
}

/// A step that runs cargo, and is killed after so many minutes: a test that hangs is a failure, not a wait.
pub(crate) fn cargo(name: &'static str, arguments: &[&str], count: Count, minutes: u32) -> Step {
    let limit = format!("{minutes}m");
    // Whoever ends this program ends what it started.
    let prefix = ["setpriv", "--pdeathsig", "TERM", "timeout", "--kill-after=10s", &limit, "cargo"];
    let command = prefix.iter().chain(arguments).map(ToString::to_string).collect();
    Step { name, command, count }
}

impl Step {
    /// Runs it, showing its output as it comes.
    pub(crate) fn run(&self) -> Tally {
        println!("\n=== {}: {}", self.name, self.command.join(" "));
        let start = Instant::now();
        let mut counted = Tally::default();
        let status = self.output(|line| {
            println!("{line}");
            counted.read(line);
        });
        println!("=== {} took {:.0} s", self.name, start.elapsed().as_secs_f64());
        let verdict = match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) if status.code() == Some(124) => Err("did not end in time and was killed".to_owned()),
            Ok(status) => Err(format!("ended with {status}")),
            Err(error) => Err(format!("{error:#}")),
        };
        verdict_of(self.name, self.count, counted, verdict)
    }

    fn output(&self, mut line_read: impl FnMut(&str)) -> anyhow::Result<ExitStatus> {
        let mut child = Command::new(&self.command[0])
            .args(&self.command[1..])
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", self.command[0]))?;
        let stdout = child.stdout.take().context("no standard output")?;
        for line in BufReader::new(stdout).split(b'\n') {
            line_read(&String::from_utf8_lossy(&line.context("reading its output")?));
        }
        child.wait().context("waiting for it")
    }
}

/// Joins what was counted with how the command ended. Neither alone is believed: a crashed test binary prints no
/// result, and a runner whose output is no longer understood must not pass.
fn verdict_of(name: &str, count: Count, counted: Tally, verdict: Result<(), String>) -> Tally {
    match (count, verdict) {
        (Count::ExitCode, Ok(())) => Tally::passed(),
        (Count::ExitCode, Err(error)) => Tally::failed(name, &error),
        (Count::TestResults, Ok(())) if counted.passed + counted.skipped == 0 => {
            Tally::failed(name, "ran no test")
        }
        (Count::TestResults, Err(error)) if counted.failed == 0 => {
            let mut tally = counted;
            tally.add(Tally::failed(name, &error));
            tally
        }
        (Count::TestResults, _) => counted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, count: Count) -> Tally {
        let command = ["timeout", "5s", "sh", "-c", script].map(str::to_owned).to_vec();
        Step { name: "shell", command, count }.run()
    }

    const RESULT: &str = "echo 'test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out'";

    #[test]
    fn exit_codes_are_one_test() {
        assert_eq!(shell("exit 0", Count::ExitCode).passed, 1);
        assert_eq!(shell("exit 1", Count::ExitCode).failed, 1);
        assert_eq!(shell("kill -9 $$", Count::ExitCode).failed, 1);
    }

    #[test]
    fn results_are_counted() {
        let tally = shell(&format!("{RESULT}; {RESULT}"), Count::TestResults);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (6, 0, 2));
    }

    #[test]
    fn a_runner_whose_tests_cannot_run_here_is_skipped() {
        let tally = shell("echo 'test result: ok. 0 passed; 0 failed; 1 ignored'", Count::TestResults);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (0, 0, 1));
    }

    #[test]
    fn a_runner_that_crashes_or_says_nothing_fails() {
        assert_eq!(shell(&format!("{RESULT}; exit 101"), Count::TestResults).failed, 1);
        assert_eq!(shell("echo all fine", Count::TestResults).failed, 1);
    }

    #[test]
    fn a_command_that_hangs_is_killed() {
        let command = ["timeout", "0.1s", "sleep", "60"].map(str::to_owned).to_vec();
        let tally = Step { name: "hang", command, count: Count::ExitCode }.run();
        assert!(tally.summary().contains("did not end in time"), "{}", tally.summary());
    }

    #[test]
    fn a_command_that_does_not_exist_fails() {
        let command = vec!["wirepath-no-such-command".to_owned()];
        assert_eq!(Step { name: "none", command, count: Count::ExitCode }.run().failed, 1);
    }
}
