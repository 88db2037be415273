//! The experiments, in the order in which they run.

use anyhow::Result;
use wirepath_assess::calibration::Calibrations;
use wirepath_assess::loan::StoredThresholds;
use wirepath_assess::result::{Experiment as Subject, LeftOut};
use wirepath_assess::{
    Assessment, Error, Options, PathExperiment, Progress, Soundness, calibrate, count, loan, machine_costs,
    profile, relay,
};

#[derive(Clone, Copy)]
pub(crate) struct Experiment {
    /// Subject. Its name is the name of the sub-command that runs only this experiment.
    pub(crate) subject: Subject,
    /// Runs the experiment, and adds the measurements to the result even if it fails. Omitted measurements go
    /// to `left_out`. An error ends the assessment.
    pub(crate) run: fn(&Options, &mut Assessment, &mut dyn Progress) -> Result<Soundness, Error>,
    /// Returns whether the experiment measured anything.
    measured: fn(&Assessment) -> bool,
    /// Approximate share of the total time in percent, taken from the stored assessments.
    pub(crate) weight: f64,
}

impl Experiment {
    /// Returns whether the experiment needs a permission that the others do not need. It may then be omitted
    /// when all experiments run.
    fn takes_permission(&self) -> bool {
        matches!(self.subject, Subject::Profile | Subject::Count)
    }

    /// Returns whether the experiment sends to a sink that may be another host.
    pub(crate) fn sends(&self) -> bool {
        !matches!(self.subject, Subject::Host | Subject::Relay)
    }
}

/// The first experiment that should have measured something, but did not. An experiment that needs a
/// permission counts only if it runs alone.
pub(crate) fn without_figures(experiments: &[Experiment], result: &Assessment) -> Option<Subject> {
    let counts = |one: &&Experiment| experiments.len() == 1 || !one.takes_permission();
    experiments.iter().filter(counts).find(|one| !(one.measured)(result)).map(|one| one.subject)
}

fn has_paths(result: &Assessment, experiment: Subject) -> bool {
    result.measurements.iter().any(|one| one.experiment == experiment && !one.runs.is_empty())
}

/// Cost of kernel entry and copies. The machine itself is examined for every experiment.
pub(crate) const HOST: Experiment = Experiment {
    subject: Subject::Host,
    weight: 1.0,
    run: machine_costs::run,
    measured: |result| result.costs.is_some(),
};

pub(crate) const DOWNLOAD: Experiment = Experiment {
    subject: Subject::Download,
    weight: 37.0,
    run: |options, result, progress| PathExperiment::Download.run(options, result, progress),
    measured: |result| has_paths(result, Subject::Download),
};

pub(crate) const STREAM: Experiment = Experiment {
    subject: Subject::Stream,
    weight: 31.0,
    run: |options, result, progress| {
        let soundness = PathExperiment::Stream.run(options, result, progress)?;
        match soundness {
            Soundness::Sound => store_calibration(options, result, progress),
            Soundness::Faulty => Ok(soundness),
        }
    },
    measured: |result| has_paths(result, Subject::Stream),
};

pub(crate) const PROFILE: Experiment = Experiment {
    subject: Subject::Profile,
    weight: 3.0,
    run: profile::run,
    measured: |result| !result.profiles.is_empty(),
};

pub(crate) const LOAN: Experiment = Experiment {
    subject: Subject::Loan,
    weight: 28.0,
    run: |options, result, progress| {
        let soundness = loan::run(options, result, progress)?;
        let (Some(found), Soundness::Sound) = (&result.loan, soundness) else { return Ok(soundness) };
        let kept = loan::keep(found, result.settings.tcp_peer, options);
        if let Ok(StoredThresholds { kept, quick }) = kept {
            let file = options.calibration.display();
            if kept > 0 {
                progress.note(&format!("from which sizes on `loan` lends is kept in {file}"));
            }
            if quick > 0 {
                progress.note(&format!("{file} keeps its results of a full measurement; this one was quick"));
            }
        }
        note_store_failure(kept.map(drop), result)
    },
    measured: |result| result.loan.is_some(),
};

/// Not in [`EXPERIMENTS`]: it needs probes, which most machines do not permit, and its counts do not differ
/// between machines.
pub(crate) const COUNT: Experiment = Experiment {
    subject: Subject::Count,
    weight: 1.0,
    run: count::run,
    measured: |result| !result.counts.is_empty(),
};

/// Not in [`EXPERIMENTS`]: it needs other programs, thousands of descriptors and a quarter of an hour, and
/// its results are not useful for serving files.
pub(crate) const RELAY: Experiment = Experiment {
    subject: Subject::Relay,
    weight: 1.0,
    run: relay::run,
    measured: |result| !result.relay.is_empty(),
};

/// Measures the costs of the server's paths on this sink, and adds them to the calibration file that servers
/// read.
fn store_calibration(
    options: &Options,
    result: &mut Assessment,
    progress: &mut dyn Progress,
) -> Result<Soundness, Error> {
    let Some(calibration) = calibrate(options, progress)? else { return Ok(Soundness::Sound) };
    result.server = Some(calibration.clone());
    let file = &options.calibration;
    let kept = Calibrations::update(file, |all| all.add(calibration));
    if kept.is_ok() {
        progress
            .note(&format!("the costs of the paths of `wirepath serve` are stored in {}", file.display()));
    }
    let doing = format!("cannot store the measured costs in {}", file.display());
    note_store_failure(kept.map_err(|source| Error::System { doing, source }), result)
}

/// Handles a failure to store a measurement. The measurement stays in the result, together with the reason,
/// and the exit code reports the failure.
fn note_store_failure(kept: Result<(), Error>, result: &mut Assessment) -> Result<Soundness, Error> {
    let Err(error) = kept else { return Ok(Soundness::Sound) };
    result.left_out.push(LeftOut { what: "the calibration file".to_owned(), why: error.to_string() });
    Ok(Soundness::Faulty)
}

/// Experiments of `wirepath assess` without a command. `loan` comes first, since the path `loan` uses its
/// thresholds.
pub(crate) const EXPERIMENTS: &[Experiment] = &[HOST, LOAN, DOWNLOAD, STREAM, PROFILE];
