//! Exit codes. In addition, 0 means success, 1 a failure, and 2 (from the argument parser) invalid arguments.

use std::process::ExitCode;

/// The work was completed, but data were truncated or lost, or a criterion was not met.
pub(crate) const INCOMPLETE: u8 = 3;

/// The reader of the output closed it. This is the exit code of programs that SIGPIPE ends.
pub(crate) const BROKEN_PIPE: u8 = 128 + 13;

/// Exit codes, for the help text.
pub(crate) const HELP: &str = "\
Exit codes of all commands:
  0      success
  1      failure; standard error has the reason
  2      invalid arguments
  3      ended, but cut short or incomplete: connections were reset when the
         drain timed out, or a stream lost an output or records; or a
         criterion of `load --require` was not met; or a server had no timely
         client in a case of `assess clients`
  128+N  stopped by signal N, such as 130 for SIGINT; 141: output closed";

/// Exit code of a program that a signal stopped, as in shells.
pub(crate) fn by_signal(signal: u8) -> ExitCode {
    ExitCode::from(128 + signal)
}
