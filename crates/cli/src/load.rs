//! `wirepath load`.

mod arguments;
mod live;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::error::ErrorKind;
use wirepath_load::{Observer, Options, Snapshot};
use wirepath_net::raise_descriptor_limit;
use wirepath_report::html;

pub(crate) use arguments::Load;
use live::Live;

use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::{exit, terminal};

/// Descriptors used besides the sessions.
const OTHER_DESCRIPTORS: u64 = 64;

/// Watches for signals, and shows the progress of the run.
struct Watch {
    interrupt: Interrupt,
    live: Live,
}

impl Observer for Watch {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.live.draw(snapshot);
    }

    fn is_stopped(&mut self) -> bool {
        self.interrupt.signal().is_some()
    }
}

impl Load {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if let Some(conflict) = self.conflict() {
            clap::Error::raw(ErrorKind::ArgumentConflict, format!("{conflict}\n")).exit();
        }
        let json = Output::prepare(self.json.as_deref())?;
        let page = Output::prepare(self.report.as_deref())?;
        let options = self.options()?;
        ensure_descriptors(&options)?;
        let interrupt = Interrupt::watch().context("cannot watch for signals")?;
        let live = Live::new(options.sessions);
        let mut watch = Watch { interrupt: interrupt.clone(), live };
        let outcome = wirepath_load::run(options, &mut watch)?;
        drop(watch);
        if !json.is_standard() && !page.is_standard() {
            terminal::print(&terminal::output().document(&wirepath_load::document(&outcome)))?;
        }
        json.write(|| Ok(serde_json::to_string_pretty(&outcome)? + "\n"))?;
        page.write(|| html(wirepath_load::document(&outcome)).context("writing the page"))?;
        match interrupt.signal() {
            Some(signal) => Ok(exit::by_signal(signal)),
            None => Ok(judge(&self.failures(&outcome))),
        }
    }
}

/// Exit code according to the criteria that are not met.
fn judge(failures: &[String]) -> ExitCode {
    for failure in failures {
        // If standard error is closed, only the exit code reports the failure.
        drop(writeln!(io::stderr(), "wirepath: {failure}"));
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::INCOMPLETE) }
}

/// Checks that there are enough descriptors for all sessions.
fn ensure_descriptors(options: &Options) -> Result<()> {
    let (limit, needed) = (raise_descriptor_limit(), options.descriptors() + OTHER_DESCRIPTORS);
    ensure!(
        needed <= limit,
        "{} sessions need {needed} open files, and the limit is {limit}: raise it with `ulimit -n {needed}`, or \
         spread sessions over several addresses with --from",
        options.sessions
    );
    Ok(())
}
