//! Running tests that may turn out to be impossible here.

use std::fmt;
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::Result;
use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

/// The reason for which a test cannot run here. Returned as an error by a test, it makes it skipped, not failed.
#[derive(Debug)]
pub struct Skip(pub String);

impl fmt::Display for Skip {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Skip {}

/// Leaves a test as skipped unless `condition` holds.
#[macro_export]
macro_rules! require {
    ($condition:expr, $($reason:tt)+) => {
        if !$condition {
            return Err($crate::trial::Skip(format!($($reason)+)).into());
        }
    };
}

/// The named functions as trials: `trials![first, second]`. Each is a `fn() -> anyhow::Result<()>`.
#[macro_export]
macro_rules! trials {
    ($($function:ident),* $(,)?) => {
        vec![$($crate::trial::trial(concat!(module_path!(), "::", stringify!($function)), $function)),*]
    };
}

/// Skips with their reasons: the runner prints only that there were some.
static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// One trial; see [`trials!`](crate::trials).
pub fn trial(name: &'static str, test: fn() -> Result<()>) -> Trial {
    // The first part is the test binary's own name.
    let name = name.split_once("::").map_or(name, |(_, rest)| rest);
    Trial::ignorable_test(name, move || outcome(name, test()))
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

/// Runs `together` side by side, then `alone` one after another, and answers whether none failed.
///
/// Tests of the first kind wait most of their time; those of the second load the machine or measure time.
pub fn run(together: Vec<Trial>, alone: Vec<Trial>) -> ExitCode {
    run_as(Arguments::from_args(), together, alone)
}

/// The same for a runner that has arguments of its own, and has taken them away.
pub fn run_as(arguments: Arguments, together: Vec<Trial>, alone: Vec<Trial>) -> ExitCode {
    let side_by_side = arguments.test_threads.unwrap_or(6);
    let first = run_with(&arguments, side_by_side, together);
    let second = run_with(&arguments, 1, alone);
    for skip in SKIPPED.lock().expect("nothing panics holding it").iter() {
        println!("{skip}");
    }
    if first.has_failed() || second.has_failed() { ExitCode::from(101) } else { ExitCode::SUCCESS }
}

fn run_with(arguments: &Arguments, threads: usize, trials: Vec<Trial>) -> Conclusion {
    libtest_mimic::run(&Arguments { test_threads: Some(threads), ..arguments.clone() }, trials)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn impossible() -> Result<()> {
        require!(1 > 2, "one is not more than {}", 2);
        Ok(())
    }

    #[test]
    fn a_skip_is_neither_a_pass_nor_a_failure() {
        assert!(matches!(outcome("a", impossible()), Ok(Completion::Ignored { reason: Some(_) })));
        assert!(matches!(outcome("a", Ok(())), Ok(Completion::Completed)));
        assert!(outcome("a", Err(anyhow::anyhow!("wrong"))).is_err());
    }
}
