//! One command of the whole check, with a deadline.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::tally::Tally;

/// Format of a command's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// It is one test: exit code 0 or not.
    ExitCode,
    /// It prints `test result:` lines, as the test programs of this project do.
    TestResults,
}

/// A named command.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) name: String,
    command: Vec<String>,
    folder: Option<PathBuf>,
    environment: Vec<(&'static str, String)>,
    count: Count,
}

/// Destination of a command's standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Errors {
    /// To this program's own.
    Ours,
    /// The same as its standard output's.
    InTheOutput,
}

/// A step that came to its end.
pub(crate) struct Done {
    pub(crate) name: String,
    pub(crate) tally: Tally,
    /// From its start to its end.
    pub(crate) took: Duration,
    /// Processor time of its processes.
    pub(crate) processor: Duration,
}

impl Done {
    /// A step that cannot run here.
    pub(crate) fn skipped(name: &str, reason: &str) -> Self {
        let (took, processor) = (Duration::ZERO, Duration::ZERO);
        Self { name: name.to_owned(), tally: Tally::skipped(name, reason), took, processor }
    }
}

/// A command that is killed after so many minutes: a test that hangs is a failure, not a wait.
pub(crate) fn command(name: &str, words: &[&str], count: Count, minutes: u32) -> Step {
    let limit = format!("{minutes}m");
    // The end of this program ends its children.
    let prefix = ["setpriv", "--pdeathsig", "TERM", "timeout", "--kill-after=10s", &limit];
    let command = prefix.iter().chain(words).map(ToString::to_string).collect();
    Step { name: name.to_owned(), command, folder: None, environment: Vec::new(), count }
}

/// A step that runs cargo.
pub(crate) fn cargo(name: &str, arguments: &[&str], count: Count, minutes: u32) -> Step {
    command(name, &[&["cargo"], arguments].concat(), count, minutes)
}

impl Step {
    /// Runs it in this folder.
    #[must_use]
    pub(crate) fn inside(self, folder: PathBuf) -> Self {
        Self { folder: Some(folder), ..self }
    }

    /// Runs it with this variable in its environment.
    #[must_use]
    pub(crate) fn with(mut self, variable: &'static str, value: &str) -> Self {
        self.environment.push((variable, value.to_owned()));
        self
    }

    /// Runs it only while a processor has nothing else to do (`SCHED_IDLE`).
    #[must_use]
    pub(crate) fn when_idle(mut self) -> Self {
        self.command.splice(..0, ["chrt", "--idle", "0"].map(str::to_owned));
        self
    }

    /// Runs it behind others (nice 10). Guests have time limits: while others compute, they must get some
    /// time.
    #[must_use]
    pub(crate) fn behind_others(mut self) -> Self {
        self.command.splice(..0, ["nice", "-n", "10"].map(str::to_owned));
        self
    }

    /// Runs it, and shows its output as it comes.
    pub(crate) fn run(&self) -> Done {
        println!("\n=== {}: {}", self.name, self.command.join(" "));
        self.run_with(|line| println!("{line}"))
    }

    /// Runs it beside others, and shows its whole output when it has ended.
    pub(crate) fn run_quietly(&self) -> Done {
        let mut output = String::new();
        let done = self.run_to(Errors::InTheOutput, |line| {
            output += line;
            output.push('\n');
        });
        // One call, so that the output of others does not come between.
        print!("\n=== {}: {}\n{output}", self.name, self.command.join(" "));
        done
    }

    /// Runs it; `line_read` gets each line of its standard output.
    pub(crate) fn run_with(&self, line_read: impl FnMut(&str)) -> Done {
        self.run_to(Errors::Ours, line_read)
    }

    fn run_to(&self, errors: Errors, mut line_read: impl FnMut(&str)) -> Done {
        let start = Instant::now();
        let (mut counted, mut processor) = (Tally::default(), Duration::ZERO);
        let status = self.execute(errors, &mut processor, |line| {
            counted.read(line);
            line_read(line);
        });
        let verdict = match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) if status.code() == Some(124) => Err("did not end in time and was killed".to_owned()),
            Ok(status) => Err(format!("ended with {status}")),
            Err(error) => Err(format!("{error:#}")),
        };
        let tally = verdict_of(&self.name, self.count, counted, verdict);
        Done { name: self.name.clone(), tally, took: start.elapsed(), processor }
    }

    fn execute(
        &self,
        errors: Errors,
        processor: &mut Duration,
        mut line_read: impl FnMut(&str),
    ) -> anyhow::Result<ExitStatus> {
        let (output, input) = std::io::pipe().context("making a pipe")?;
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).stdin(Stdio::null());
        if errors == Errors::InTheOutput {
            command.stderr(input.try_clone().context("duplicating a pipe")?);
        }
        command.stdout(input);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let mut child = command.spawn().with_context(|| format!("cannot run {}", self.command[0]))?;
        drop(command); // and with it our end of the pipe
        for line in BufReader::new(output).split(b'\n') {
            line_read(&String::from_utf8_lossy(&line.context("reading its output")?));
        }
        let pid = Pid::from_child(&child);
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).context("waiting for it")?;
        *processor = processor_time(pid).unwrap_or_default();
        child.wait().context("waiting for it")
    }
}

/// Processor time of a process that has ended, and of all that it waited for (`proc_pid_stat(5)`).
fn processor_time(process: Pid) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    // Fields begin behind the name, which is in parentheses; the first of them is the third of all.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: u64 = fields.split(' ').skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

/// Joins what was counted with how the command ended. Neither alone is believed: a crashed test program
/// prints no result, and a runner whose output is no longer understood must not pass.
fn verdict_of(name: &str, count: Count, counted: Tally, verdict: Result<(), String>) -> Tally {
    match (count, verdict) {
        (Count::ExitCode, Ok(())) => Tally::passed(),
        (Count::ExitCode, Err(error)) => Tally::failed(name, &error),
        // A program may leave all its tests to a run of its own.
        (Count::TestResults, Ok(())) if counted.results == 0 && !counted.is_left => {
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
        command("shell", &["sh", "-c", script], count, 1).run().tally
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

    /// Promise: If no guest can run, the tests are skipped, counted and reported.
    #[test]
    fn a_runner_whose_tests_cannot_run_here_is_skipped() {
        let tally = shell("echo 'test result: ok. 0 passed; 0 failed; 1 ignored'", Count::TestResults);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (0, 0, 1));
    }

    /// Promise: `make test` runs every test and counts passed, failed and skipped.
    #[test]
    fn a_runner_that_crashes_or_says_nothing_fails() {
        assert_eq!(shell(&format!("{RESULT}; exit 101"), Count::TestResults).failed, 1);
        assert_eq!(shell("echo all fine", Count::TestResults).failed, 1);
    }

    #[test]
    fn a_program_that_leaves_all_its_tests_to_another_run_has_not_failed() {
        let tally = shell("echo LEFT alone: 2", Count::TestResults);
        assert!((tally.failed, tally.is_left) == (0, true), "{}", tally.summary());
    }

    #[test]
    fn a_command_that_hangs_is_killed() {
        let mut hang = command("hang", &["sleep", "60"], Count::ExitCode, 1);
        let limit = hang.command.iter().position(|word| word == "1m").unwrap();
        hang.command[limit] = "0.1s".to_owned();
        let tally = hang.run().tally;
        assert!(tally.summary().contains("did not end in time"), "{}", tally.summary());
    }

    #[test]
    fn a_command_that_does_not_exist_fails() {
        assert_eq!(command("none", &["wirepath-no-such-command"], Count::ExitCode, 1).run().tally.failed, 1);
    }

    #[test]
    fn what_a_step_is_told_it_knows() {
        let step = command("told", &["sh", "-c", "echo $PWD $WORD"], Count::ExitCode, 1);
        let mut lines = Vec::new();
        let step = step.inside("/".into()).with("WORD", "word").when_idle();
        step.run_with(|line| lines.push(line.to_owned()));
        assert_eq!(lines, ["/ word"]);
    }

    #[test]
    fn processor_time_is_that_of_all_its_processes() {
        let busy = "timeout 0.3s sh -c 'while :; do :; done'; true";
        let done = command("busy", &["sh", "-c", busy], Count::ExitCode, 1).run();
        assert!(
            done.processor > Duration::ZERO && done.took >= Duration::from_millis(300),
            "{:?}",
            done.processor
        );
    }
}
