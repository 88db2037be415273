//! Runs experiments, and stores their results.

use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result};
use wirepath_assess::result::SCHEMA;
use wirepath_assess::{
    Assessment, Error, Options, Soundness, host, read_calibrations, remove_made, report, test_bed,
};

use super::bar::Bar;
use super::experiment::{Experiment, without_figures};
use super::measuring::Measuring;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::terminal;

/// Exit code for invalid arguments, the same as clap's.
const INVALID_ARGUMENTS: u8 = 2;

/// Runs the experiments one after the other. Shows and writes the result, even after a failure.
pub(crate) fn perform(measuring: &Measuring, experiments: &[Experiment]) -> Result<ExitCode> {
    if let Err(error) = measuring.check_processor() {
        eprintln!("wirepath: {error}");
        return Ok(ExitCode::from(INVALID_ARGUMENTS));
    }
    let (options, left_out) = measuring.options()?;
    // Checked first: minutes of measurements would be lost if the result could not be stored, or if the sink
    // were missing.
    read_calibrations(&options.calibration)?;
    if experiments.iter().any(Experiment::sends) {
        test_bed::check_sink(&options.sink)?;
    }
    let output = Output::prepare(measuring.json.as_deref())?;
    let interrupt = Interrupt::watch().context("watching for signals")?;
    let start = Instant::now();
    let mut result = Assessment {
        schema: SCHEMA.to_owned(),
        program: format!("wirepath {}", crate::VERSION),
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        seconds: 0.0,
        partial: false,
        settings: options.settings(experiments.iter().map(|experiment| experiment.subject).collect()),
        host: host::examine(),
        costs: None,
        measurements: Vec::new(),
        profiles: Vec::new(),
        loan: None,
        relay: Vec::new(),
        counts: Vec::new(),
        server: None,
        left_out: left_out.into_iter().collect(),
    };
    let outcome = make(experiments, &options, &mut result, &interrupt);
    if options.quick {
        // The files take half a gigabyte, and are generated again in seconds.
        remove_made(&options.scratch, &mut Bar::new(&[("removing", 1.0)], interrupt.clone()));
    }
    result.seconds = start.elapsed().as_secs_f64();
    // The result of an hour is shown even if the file cannot be written.
    let written = output.write(|| result.to_json().context("writing the result as JSON"));
    if !output.is_standard() {
        terminal::print(&terminal::output().document(&report::document(&result)))?;
    }
    if let (Err(_), Err(cause)) = (&written, &outcome) {
        eprintln!("wirepath: {cause}"); // the returned error is a different one
    }
    written?;
    match (outcome, interrupt.signal()) {
        (Err(Error::Stopped), Some(signal)) => {
            eprintln!("wirepath: stopped; the measurements until now are {}", output.in_words());
            Ok(ExitCode::from(128 + signal))
        }
        (outcome, _) => Ok(match outcome? {
            Soundness::Sound => match without_figures(experiments, &result) {
                None => ExitCode::SUCCESS,
                Some(experiment) => {
                    eprintln!(
                        "wirepath: {experiment} measured nothing; the reason is under “What was not measured, and why”"
                    );
                    ExitCode::FAILURE
                }
            },
            Soundness::Faulty => ExitCode::FAILURE,
        }),
    }
}

/// Runs the experiments until one fails or a signal stops them.
fn make(
    experiments: &[Experiment],
    options: &Options,
    result: &mut Assessment,
    interrupt: &Interrupt,
) -> Result<Soundness, Error> {
    let mut soundness = Soundness::Sound;
    let steps: Vec<_> = experiments.iter().map(|one| (one.subject.name(), one.weight)).collect();
    let mut bar = Bar::new(&steps, interrupt.clone());
    for (index, experiment) in experiments.iter().enumerate() {
        bar.begin(index);
        match (experiment.run)(options, result, &mut bar) {
            Ok(Soundness::Sound) => {}
            Ok(Soundness::Faulty) => soundness = Soundness::Faulty,
            Err(error) => {
                result.stopped(&format!("the rest of {}, and later experiments", experiment.subject), &error);
                return Err(error);
            }
        }
    }
    Ok(soundness)
}
