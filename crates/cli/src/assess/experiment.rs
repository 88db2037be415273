//! The experiments, in the order in which they are made.

use anyhow::Result;
use wirepath_assess::{Assessment, Error, Options, Progress, Soundness, costs, experiment, loan, profile};

/// An experiment.
#[derive(Clone, Copy)]
pub(crate) struct Experiment {
    /// Name of the sub-command that makes it alone.
    pub(crate) name: &'static str,
    /// Makes it, and adds what it found to the result, also when it fails. What it could not measure goes to `left_out`; an error
    /// ends the assessment.
    pub(crate) run: fn(&Options, &mut Assessment, &mut dyn Progress) -> Result<Soundness, Error>,
    /// Whether it measured anything.
    measured: fn(&Assessment) -> bool,
    /// Whether it takes a permission that the others do not: where all are made, it may be left out.
    takes_permission: bool,
}

/// The first experiment that was to measure something and did not. One that takes a permission counts if it alone was asked for.
pub(crate) fn without_figures(experiments: &[Experiment], result: &Assessment) -> Option<&'static str> {
    let counts = |one: &&Experiment| experiments.len() == 1 || !one.takes_permission;
    experiments.iter().filter(counts).find(|one| !(one.measured)(result)).map(|one| one.name)
}

fn has_paths(result: &Assessment, experiment: &str) -> bool {
    result.measurements.iter().any(|one| one.experiment == experiment && !one.runs.is_empty())
}

/// The machine itself is looked at for every experiment.
pub(crate) const HOST: Experiment = Experiment {
    name: "host",
    run: costs::run,
    measured: |result| result.costs.is_some(),
    takes_permission: false,
};

pub(crate) const DOWNLOAD: Experiment = Experiment {
    name: "download",
    run: |options, result, progress| experiment::Experiment::Download.run(options, result, progress),
    measured: |result| has_paths(result, "download"),
    takes_permission: false,
};

pub(crate) const STREAM: Experiment = Experiment {
    name: "stream",
    run: |options, result, progress| experiment::Experiment::Stream.run(options, result, progress),
    measured: |result| has_paths(result, "stream"),
    takes_permission: false,
};

pub(crate) const PROFILE: Experiment = Experiment {
    name: "profile",
    run: profile::run,
    measured: |result| !result.profiles.is_empty(),
    takes_permission: true,
};

pub(crate) const LOAN: Experiment = Experiment {
    name: "loan",
    run: |options, result, progress| {
        let soundness = loan::run(options, result, progress)?;
        if let (Some(loan), Soundness::Sound) = (&result.loan, soundness) {
            let file = options.scratch.join(crate::image_options::CALIBRATION);
            let origin = format!("measured by `wirepath assess loan` at {}", result.started);
            match loan::keep(loan, &options.sink, &origin, &file) {
                Ok(0) => {}
                Ok(_) => progress.note(&format!("the threshold of the loan is kept in {}", file.display())),
                Err(error) => progress.note(&format!(
                    "the threshold of the loan could not be kept in {}: {error}",
                    file.display()
                )),
            }
        }
        Ok(soundness)
    },
    measured: |result| result.loan.is_some(),
    takes_permission: false,
};

/// All of them.
pub(crate) const EXPERIMENTS: &[Experiment] = &[HOST, DOWNLOAD, STREAM, PROFILE, LOAN];
