//! Makes experiments, and keeps what they found.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result};
use wirepath_assess::calibration::Calibrations;
use wirepath_assess::result::{LeftOut, SCHEMA};
use wirepath_assess::{Assessment, Error, Options, Soundness, calibrate, host};

use super::bar::Bar;
use super::experiment::{Experiment, STREAM};
use super::measuring::Measuring;
use super::text;
use crate::interrupt::Interrupt;
use crate::terminal;

/// Makes the experiments one after the other and writes the result, whatever became of them.
pub(crate) fn perform(measuring: &Measuring, experiments: &[Experiment]) -> Result<ExitCode> {
    let options = measuring.options()?;
    let interrupt = Interrupt::watch().context("watching for signals")?;
    let start = Instant::now();
    let names: Vec<&str> = experiments.iter().map(|experiment| experiment.name).collect();
    let mut result = Assessment {
        schema: SCHEMA.to_owned(),
        program: format!("wirepath {}", env!("CARGO_PKG_VERSION")),
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        seconds: 0.0,
        partial: false,
        settings: options.settings(&names),
        host: host::examine(),
        costs: None,
        measurements: Vec::new(),
        profiles: Vec::new(),
        loan: None,
        left_out: Vec::new(),
    };
    let mut outcome = make(experiments, &options, &mut result, &interrupt);
    result.seconds = start.elapsed().as_secs_f64();
    if let Some(file) = &measuring.json {
        write(&result, file)?;
    }
    if measuring.json.as_deref() != Some(Path::new("-")) {
        terminal::print(&text::of(&result, &names, terminal::width().into(), terminal::speaks_utf8()))?;
    }
    if matches!(outcome, Ok(Soundness::Sound)) && names.contains(&STREAM.name) {
        outcome = tell_the_server(measuring, &options, &interrupt)?;
    }
    match (outcome, interrupt.signal()) {
        (Err(Error::Stopped), Some(signal)) => {
            eprintln!("wirepath: stopped; what was measured until now is kept and marked partial");
            Ok(ExitCode::from(128 + signal))
        }
        (outcome, _) => Ok(match outcome? {
            Soundness::Sound => ExitCode::SUCCESS,
            Soundness::Faulty => ExitCode::FAILURE,
        }),
    }
}

/// Makes the experiments until one fails or is stopped.
fn make(
    experiments: &[Experiment],
    options: &Options,
    result: &mut Assessment,
    interrupt: &Interrupt,
) -> Result<Soundness, Error> {
    let mut soundness = Soundness::Sound;
    for experiment in experiments {
        let mut bar = Bar::new(experiment.name, interrupt.clone());
        match (experiment.run)(options, result, &mut bar) {
            Ok(Soundness::Sound) => {}
            Ok(Soundness::Faulty) => soundness = Soundness::Faulty,
            Err(error) => {
                result.partial = true;
                let what = format!("the rest of {}, and what would have followed", experiment.name);
                result.left_out.push(LeftOut { what, why: error.to_string() });
                return Err(error);
            }
        }
    }
    Ok(soundness)
}

/// Measures what a server's paths cost on this sink, and adds that to the file that servers read. A file that is something else is
/// left as it is.
fn tell_the_server(
    measuring: &Measuring,
    options: &Options,
    interrupt: &Interrupt,
) -> Result<Result<Soundness, Error>> {
    let calibration = match calibrate(options, &mut Bar::new("calibration", interrupt.clone())) {
        Ok(Some(calibration)) => calibration,
        Ok(None) => return Ok(Ok(Soundness::Sound)),
        Err(error) => return Ok(Err(error)),
    };
    let file = measuring.calibration()?;
    let known = Calibrations::load(&file).with_context(|| {
        format!("{} is left as it is; remove it or use --calibration FILE", file.display())
    })?;
    let mut calibrations = known.unwrap_or_default();
    let in_words = calibration.in_words();
    calibrations.add(calibration);
    calibrations.store(&file).with_context(|| format!("cannot write {}", file.display()))?;
    eprintln!("wirepath: `wirepath serve` finds in {}: {in_words}", file.display());
    Ok(Ok(Soundness::Sound))
}

/// Writes JSON to a file, or to standard output for `-`.
fn write(result: &Assessment, file: &Path) -> Result<()> {
    let json = result.to_json().context("writing the result as JSON")?;
    match file == Path::new("-") {
        true => terminal::print(&json),
        false => std::fs::write(file, json).with_context(|| format!("cannot write {}", file.display())),
    }
}
