//! Length of random tests: `make test`, or `make test-long`.

use anyhow::{Result, bail};

use crate::step::Step;

/// Minutes for each such test, of `make test-long`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Length(Option<u32>);

impl Length {
    /// The one that `WIREPATH_LONG` asks for: minutes, or nothing.
    ///
    /// # Errors
    /// If it is anything else.
    pub(crate) fn asked_for() -> Result<Self> {
        match std::env::var("WIREPATH_LONG") {
            Ok(text) => match text.parse() {
                Ok(minutes @ 1..=600) => Ok(Self(Some(minutes))),
                _ => bail!("invalid WIREPATH_LONG={text}: expected minutes, 1 to 600"),
            },
            Err(_) => Ok(Self(None)),
        }
    }

    /// Returns whether it is that of `make test-long`.
    pub(crate) fn is_long(self) -> bool {
        self.0.is_some()
    }

    /// Minutes after which a program hangs, if it does in `minutes` at the usual length.
    pub(crate) fn limit(self, minutes: u32) -> u32 {
        // An emulated guest takes five times as long as its clock says.
        minutes + 6 * self.0.unwrap_or(0)
    }

    /// Tells a step how long to go on, and on which kernels.
    pub(crate) fn tell(self, step: Step) -> Step {
        let Some(minutes) = self.0 else {
            return step.with("WIREPATH_KERNELS", "newest").with("WIREPATH_CALLER_SECONDS", "8");
        };
        let seconds = (60 * minutes).to_string();
        ["WIREPATH_CALLER_SECONDS", "WIREPATH_MODEL_SECONDS", "WIREPATH_HOSTILE_SECONDS"]
            .into_iter()
            .fold(step, |step, variable| step.with(variable, &seconds))
            .with("PROPTEST_CASES", "4096")
    }
}
