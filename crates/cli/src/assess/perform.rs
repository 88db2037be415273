//! Makes experiments, and keeps what they found.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result};
use wirepath_assess::Assessment;
use wirepath_assess::result::{Host, SCHEMA};

use super::bar::Bar;
use super::experiment::Experiment;
use super::interrupt::Interrupt;
use super::measuring::Measuring;
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
        host: host()?,
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

/// The machine, as far as it takes no looking into.
fn host() -> Result<Host> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").context("/proc/cpuinfo")?;
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let memory = rustix::system::sysinfo();
    let load = std::fs::read_to_string("/proc/loadavg").context("/proc/loadavg")?;
    Ok(Host {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        processor: model.map_or("unknown", |(_, name)| name.trim()).to_owned(),
        processors: std::thread::available_parallelism().context("counting processors")?.get() as u32,
        memory: memory.totalram as u64 * u64::from(memory.mem_unit),
        devices: Vec::new(),
        limits: Vec::new(),
        advice: Vec::new(),
        load: load.trim().to_owned(),
    })
}
