//! `wirepath assess clients`.

mod arguments;

use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result};
use wirepath_assess::Error;
use wirepath_assess::clients::{self, ClientOptions};
use wirepath_report::{csv, html};

pub(super) use arguments::Clients;

use super::bar::Bar;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::{exit, terminal};

impl Clients {
    pub(super) fn run(self) -> Result<ExitCode> {
        let options = self.options()?;
        let json = Output::prepare(self.json.as_deref())?;
        let rows = Output::prepare(self.csv.as_deref())?;
        let page = Output::prepare(self.report.as_deref())?;
        let interrupt = Interrupt::watch().context("cannot watch for signals")?;
        let (result, outcome) = perform(&options, &interrupt);
        let is_empty = outcome.is_err() && result.searches.is_empty();
        if !is_empty && ![&json, &rows, &page].into_iter().any(Output::is_standard) {
            terminal::print(&terminal::output().document(&clients::document(&result)))?;
        }
        json.write(|| Ok(serde_json::to_string_pretty(&result)? + "\n"))?;
        rows.write(|| csv(&clients::steps(&result)).context("writing CSV"))?;
        page.write(|| html(clients::document(&result)).context("writing the page"))?;
        match (outcome, interrupt.signal()) {
            (Err(Error::Stopped), Some(signal)) => {
                if is_empty {
                    eprintln!("wirepath: stopped before anything was measured");
                }
                Ok(exit::by_signal(signal))
            }
            (outcome, _) => {
                outcome?;
                let is_whole = result.left_out.is_empty()
                    && result.searches.iter().all(|search| search.largest.is_some());
                Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(exit::INCOMPLETE) })
            }
        }
    }
}

/// Runs the experiment. On an error or a signal, the result has the measurements until then.
fn perform(options: &ClientOptions, interrupt: &Interrupt) -> (clients::Clients, Result<(), Error>) {
    let start = Instant::now();
    let program = format!("wirepath {}", crate::VERSION);
    let started = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let mut result = clients::Clients::begin(program, started);
    let mut bar = Bar::new(&[("clients", 1.0)], interrupt.clone());
    let outcome = clients::run(options, &mut result, &mut bar);
    (result.seconds, result.partial) = (start.elapsed().as_secs_f64(), outcome.is_err());
    (result, outcome)
}
