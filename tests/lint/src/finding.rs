//! A rule's finding.

use std::fmt;

/// A violation: its place, problem and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// File, with a line where there is one.
    pub(crate) place: String,
    /// The problem, as a sentence without its full stop.
    pub(crate) problem: String,
    /// The remedy, as an imperative.
    pub(crate) remedy: String,
}

impl Finding {
    pub(crate) fn new(
        place: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { place: place.into(), problem: problem.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}; {}", self.place, self.problem, self.remedy)
    }
}
