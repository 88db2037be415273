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
}

/// The machine itself is looked at for every experiment.
pub(crate) const HOST: Experiment = Experiment { name: "host", run: costs::run };

pub(crate) const DOWNLOAD: Experiment = Experiment {
    name: "download",
    run: |options, result, progress| experiment::Experiment::Download.run(options, result, progress),
};

pub(crate) const STREAM: Experiment = Experiment {
    name: "stream",
    run: |options, result, progress| experiment::Experiment::Stream.run(options, result, progress),
};

pub(crate) const PROFILE: Experiment = Experiment { name: "profile", run: profile::run };

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
};

/// All of them.
pub(crate) const EXPERIMENTS: &[Experiment] = &[HOST, DOWNLOAD, STREAM, PROFILE, LOAN];
