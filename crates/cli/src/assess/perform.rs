//! Makes experiments, and keeps what they found.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result};
use wirepath_assess::result::SCHEMA;
use wirepath_assess::{Assessment, host};

use super::bar::Bar;
use super::experiment::Experiment;
use super::interrupt::Interrupt;
use super::measuring::Measuring;
use super::text;
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
    let mut outcome = Ok(());
    for experiment in experiments {
        let mut bar = Bar::new(experiment.name, interrupt.clone());
        outcome = (experiment.run)(&options, &mut result, &mut bar).context(experiment.name);
        if outcome.is_err() || interrupt.signal().is_some() {
            result.partial = true;
            break;
        }
    }
    result.seconds = start.elapsed().as_secs_f64();
    if let Some(file) = &measuring.json {
        write(&result, file)?;
    }
    if measuring.json.as_deref() != Some(Path::new("-")) {
        terminal::print(&text::of(&result, &names, terminal::width().into(), terminal::speaks_utf8()))?;
    }
    outcome?;
    Ok(interrupt.signal().map_or(ExitCode::SUCCESS, |signal| ExitCode::from(128 + signal)))
}

/// Writes JSON to a file, or to standard output for `-`.
fn write(result: &Assessment, file: &Path) -> Result<()> {
    let json = result.to_json().context("writing the result as JSON")?;
    match file == Path::new("-") {
        true => terminal::print(&json),
        false => std::fs::write(file, json).with_context(|| format!("cannot write {}", file.display())),
    }
}
