//! The experiments, in the order in which they are made.

use anyhow::Result;
use wirepath_assess::{Assessment, Options, Progress};

/// An experiment.
pub(crate) struct Experiment {
    /// Name of the sub-command that makes it alone.
    pub(crate) name: &'static str,
    /// Makes it, and adds what it found to the result. What it could not measure goes to `left_out`; an error ends the
    /// assessment.
    pub(crate) run: fn(&Options, &mut Assessment, &mut dyn Progress) -> Result<()>,
}

/// All of them.
pub(crate) const EXPERIMENTS: &[Experiment] = &[];
