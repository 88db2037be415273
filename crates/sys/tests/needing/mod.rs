//! Runs tests that need what not every machine has: io_uring, the kernel module, a C compiler. Where it is not to be had they are
//! skipped, counted, and not passed. Other rooms' tests use this file, too.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// The named functions with their names.
macro_rules! trials {
    ($($test:ident),* $(,)?) => { [$((stringify!($test), $test as fn())),*] };
}
pub(crate) use trials;

/// Runs them, unless what they need is `missing` for this reason.
pub(crate) fn run(
    missing: Option<String>,
    tests: impl IntoIterator<Item = (&'static str, fn())>,
) -> ExitCode {
    let trial = |(name, test): (&'static str, fn())| {
        let missing = missing.clone();
        Trial::ignorable_test(name, move || match missing {
            Some(reason) => {
                println!("SKIP {name}: {reason}");
                Ok(Completion::ignored_with(reason))
            }
            None => std::panic::catch_unwind(test)
                .map(|()| Completion::Completed)
                .map_err(|_| Failed::without_message()), // it was printed
        })
    };
    libtest_mimic::run(&Arguments::from_args(), tests.into_iter().map(trial).collect()).exit_code()
}
