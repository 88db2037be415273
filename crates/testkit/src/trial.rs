//! Test programs whose tests may be skipped when they run: a third result beside pass and fail.

use std::fmt;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Result;
use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

/// The reason for which a test cannot run here. A test that returns it as its error is skipped, not failed.
#[derive(Debug)]
pub struct Skip(pub String);

impl fmt::Display for Skip {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Skip {}

/// Skips a test unless `condition` holds.
#[macro_export]
macro_rules! require {
    ($condition:expr, $($reason:tt)+) => {
        if !$condition {
            return Err($crate::trial::Skip(format!($($reason)+)).into());
        }
    };
}

/// The named functions as trials: `trials![first, second]`. Each is a `fn() -> anyhow::Result<()>`, or a
/// `fn()` that panics when it fails. `name => expression` is a trial of a closure.
#[macro_export]
macro_rules! trials {
    ($($name:ident $(=> $test:expr)?),* $(,)?) => {
        vec![$($crate::trials!(@one $name $($test)?)),*]
    };
    (@one $name:ident) => { $crate::trials!(@one $name $name) };
    (@one $name:ident $test:expr) => {
        $crate::trial::trial(concat!(module_path!(), "::", stringify!($name)), $test)
    };
}

/// Result of a test function.
pub trait Outcome {
    /// Its error, if it has one.
    fn into_result(self) -> Result<()>;
}

impl Outcome for () {
    fn into_result(self) -> Result<()> {
        Ok(())
    }
}

impl Outcome for Result<()> {
    fn into_result(self) -> Result<()> {
        self
    }
}

/// Skipped tests with their reasons: the runner prints only how many there were.
static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Time of each test.
static DURATIONS: Mutex<Vec<(Duration, String)>> = Mutex::new(Vec::new());

/// A trial; see [`trials!`](crate::trials).
pub fn trial<R: Outcome>(name: &str, test: impl FnOnce() -> R + Send + 'static) -> Trial {
    // The first part is the test program's own name.
    let name = name.split_once("::").map_or(name, |(_, rest)| rest).to_owned();
    Trial::ignorable_test(name.clone(), move || {
        let start = Instant::now();
        let result = test().into_result();
        DURATIONS.lock().expect("nothing panics holding it").push((start.elapsed(), name.clone()));
        outcome(&name, result)
    })
}

fn outcome(name: &str, result: Result<()>) -> Result<Completion, Failed> {
    match result {
        Ok(()) => Ok(Completion::Completed),
        Err(error) => match error.downcast_ref::<Skip>() {
            Some(Skip(reason)) => {
                SKIPPED.lock().expect("nothing panics holding it").push(format!("SKIP {name}: {reason}"));
                Ok(Completion::ignored_with(reason))
            }
            None => Err(format!("{error:#}").into()),
        },
    }
}

/// Runs `together` side by side, then `alone` one after another; fails if one of them failed.
///
/// Tests of the first kind wait most of their time; those of the second load the machine or measure time.
/// `WIREPATH_TESTS` chooses one kind, `together` or `alone`, for a runner of several test programs at a time.
pub fn run(together: Vec<Trial>, alone: Vec<Trial>) -> ExitCode {
    run_as(Arguments::from_args(), together, alone)
}

/// Runs tests that all need the same; all are skipped if that is `missing` for this reason.
pub fn run_needing(missing: Option<String>, tests: Vec<Trial>) -> ExitCode {
    let skipped = |reason: &String, test: Trial| {
        let reason = reason.clone();
        // `trial` takes off what is in front of a name.
        trial(&format!("::{}", test.name()), move || Result::<()>::Err(Skip(reason).into()))
    };
    let tests = match &missing {
        Some(reason) => tests.into_iter().map(|test| skipped(reason, test)).collect(),
        None => tests,
    };
    run(tests, Vec::new())
}

/// Runs tests in a program that has arguments of its own, and has taken them away.
pub fn run_as(arguments: Arguments, together: Vec<Trial>, alone: Vec<Trial>) -> ExitCode {
    let kind = std::env::var(KIND).unwrap_or_default();
    let wanted = |name: &str, tests: Vec<Trial>| {
        let is_left = !tests.is_empty() && !kind.is_empty() && kind != name;
        if is_left {
            println!("{LEFT} {name}: {}", tests.len());
        }
        if is_left { Vec::new() } else { tests }
    };
    let (together, alone) = (wanted("together", together), wanted("alone", alone));
    let side_by_side = arguments.test_threads.unwrap_or(SIDE_BY_SIDE);
    let has_failed = [(side_by_side, together), (1, alone)]
        .map(|(threads, tests)| !tests.is_empty() && run_with(&arguments, threads, tests).has_failed());
    for skip in SKIPPED.lock().expect("nothing panics holding it").iter() {
        println!("{skip}");
    }
    print!("{}", slowest(&mut DURATIONS.lock().expect("nothing panics holding it")));
    if has_failed.contains(&true) { ExitCode::from(101) } else { ExitCode::SUCCESS }
}

/// The environment variable that chooses one kind of tests.
const KIND: &str = "WIREPATH_TESTS";

/// Begins the line that says that tests of a kind are left to another run; `tests/check` reads it.
const LEFT: &str = "LEFT";

/// Many more than there are processors: most tests wait nine tenths of their time.
const SIDE_BY_SIDE: usize = 16;

fn run_with(arguments: &Arguments, threads: usize, trials: Vec<Trial>) -> Conclusion {
    libtest_mimic::run(&Arguments { test_threads: Some(threads), ..arguments.clone() }, trials)
}

/// The slowest tests, a line each, where any took long.
fn slowest(durations: &mut [(Duration, String)]) -> String {
    const LONG: Duration = Duration::from_secs(5);
    const SHOWN: usize = 10;
    durations.sort_by(|one, other| other.cmp(one));
    let long = durations.iter().take(SHOWN).filter(|(took, _)| *took >= LONG);
    long.map(|(took, name)| format!("SLOW {name}: {:.1} s\n", took.as_secs_f64())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn impossible() -> Result<()> {
        require!(1 > 2, "one is not more than {}", 2);
        Ok(())
    }

    /// Promise: `make test` runs every test and counts passed, failed and skipped.
    #[test]
    fn a_skip_is_neither_a_pass_nor_a_failure() {
        assert!(matches!(outcome("a", impossible()), Ok(Completion::Ignored { reason: Some(_) })));
        assert!(matches!(outcome("a", Ok(())), Ok(Completion::Completed)));
        assert!(outcome("a", Err(anyhow::anyhow!("wrong"))).is_err());
    }

    #[test]
    fn trials_have_names_without_their_program() {
        let trials = trials![impossible, closed => || assert_eq!(1 + 1, 2)];
        let names: Vec<&str> = trials.iter().map(Trial::name).collect();
        assert_eq!(names, ["trial::tests::impossible", "trial::tests::closed"]);
    }

    #[test]
    fn only_long_tests_are_slow() {
        let mut durations = [(1, "short"), (61, "long"), (7, "other")]
            .map(|(seconds, name)| (Duration::from_secs(seconds), name.to_owned()));
        assert_eq!(slowest(&mut durations), "SLOW long: 61.0 s\nSLOW other: 7.0 s\n");
    }
}
