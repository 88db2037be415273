//! The results: tables for people, JSON for programs, a folder that is kept.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use wirepath_assess::statistics::Summary;

use crate::Options;
use crate::bare::{MOST_PACKETS, Pauses, Setting};
use crate::machine::Machine;
use crate::server::Load;

/// One run of a bare loop.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BareRun {
    pub(crate) path: String,
    pub(crate) setting: Setting,
    /// User and system seconds per GiB of payload.
    pub(crate) seconds_per_gib: f64,
}

/// One measured window of the server.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServerRun {
    /// The path asked for.
    pub(crate) path: String,
    /// The path that the server says it uses.
    pub(crate) path_in_use: String,
    pub(crate) load: Load,
    /// User and system, all threads.
    pub(crate) cpu_seconds_per_client_minute: f64,
    pub(crate) cpu_seconds_per_gib: f64,
    /// Engine threads alone.
    pub(crate) engine_seconds_per_gib: f64,
    /// The bare loop right after it, with as many sockets and as many packets in a train.
    pub(crate) bare_seconds_per_gib: f64,
    /// The same with the server's pauses.
    pub(crate) paced_seconds_per_gib: f64,
    pub(crate) packets_per_train: f64,
    pub(crate) trains_per_wakeup: f64,
    /// Of all engine threads.
    pub(crate) wakeups_per_second: f64,
    /// The server's account of lateness since its start.
    pub(crate) lateness_us: serde_json::Value,
}

impl ServerRun {
    /// Pauses of a loop that sends as often as the engine threads did.
    pub(crate) fn pauses(&self) -> Pauses {
        let whole = |value: f64| (value.round() as u32).max(1);
        let interval_us = whole(1e6 / self.wakeups_per_second.max(0.001));
        Pauses { trains_per_wakeup: whole(self.trains_per_wakeup), interval_us }
    }
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    window_seconds: f64,
    rounds: usize,
    server_arguments: Vec<String>,
    #[serde(skip)]
    paths: Vec<String>,
    #[serde(skip)]
    loads: Vec<Load>,
    pub(crate) bare: Vec<BareRun>,
    pub(crate) servers: Vec<ServerRun>,
}

impl Report {
    pub(crate) fn new(machine: Machine, options: &Options) -> Self {
        Self {
            machine,
            window_seconds: options.window,
            rounds: options.rounds,
            server_arguments: options.server_arguments.clone(),
            paths: options.paths.clone(),
            loads: options.loads(),
            bare: Vec::new(),
            servers: Vec::new(),
        }
    }

    pub(crate) fn json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).context("writing JSON")
    }

    /// The tables, in Markdown.
    pub(crate) fn text(&self) -> String {
        let Machine { processor, processors, kernel, commit, modified, date, load } = &self.machine;
        let state = if *modified { " with changes" } else { "" };
        let arguments = self.server_arguments.join(" ");
        format!(
            "Measured {date}: {processor}, {processors} processors, Linux {kernel}, commit {commit}{state}; load at start \
             {load}; {} rounds, windows of {} s; server arguments: `{arguments}`. Medians, with the spread (greatest less \
             least run, as a share of the median).\n\n## The server: 4 Mb/s to each client\n\n{}\n\n## Bare loops: trains of \
             {MOST_PACKETS} packets, one socket\n\n{}\n{}",
            self.rounds,
            self.window_seconds,
            self.server_table(),
            self.bare_table(),
            self.warnings(),
        )
    }

    fn server_table(&self) -> Table {
        let mut table = table(&[
            "path",
            "sessions",
            "burst",
            "CPU s per client-minute",
            "spread",
            "s per GiB",
            "engine threads",
            "bare C, same trains and sockets",
            "engine, ratio",
            "bare C, same pauses too",
            "engine, ratio",
            "packets per train",
            "trains per wake-up",
            "lateness p99, max (us)",
        ]);
        for path in &self.paths {
            for load in &self.loads {
                let of_this = |run: &&ServerRun| run.path == *path && run.load == *load;
                let runs: Vec<&ServerRun> = self.servers.iter().filter(of_this).collect();
                table.add_row(row(path, load, &runs));
            }
        }
        align(&mut table);
        table
    }

    fn bare_table(&self) -> Table {
        let mut table = table(&["path", "s per GiB", "spread"]);
        for path in &self.paths {
            let full = Setting { packets_per_train: MOST_PACKETS, sockets: 1, pauses: None };
            let runs = self.bare.iter().filter(|run| run.path == *path && run.setting == full);
            if let Some(summary) = Summary::of(runs.map(|run| run.seconds_per_gib)) {
                table.add_row([path.clone(), number(summary.median), percent(summary.range())]);
            }
        }
        align(&mut table);
        table
    }

    /// Warnings about noise and step-downs.
    fn warnings(&self) -> String {
        let mut text = String::new();
        for path in &self.paths {
            for load in &self.loads {
                let runs = self.servers.iter().filter(|run| run.path == *path && run.load == *load);
                let summary = Summary::of(runs.clone().map(|run| run.cpu_seconds_per_client_minute));
                if let Some(spread) = summary.map(|summary| summary.range()).filter(|spread| *spread > 0.15) {
                    // A string takes all that is written to it.
                    writeln!(text, "\nNoisy: {path}, {load}, spreads by {}.", percent(spread)).ok();
                }
                if let Some(run) = runs.clone().find(|run| run.path_in_use != *path) {
                    writeln!(text, "\nNot {path}: the server used {:?}.", run.path_in_use).ok();
                }
            }
        }
        text
    }

    /// Writes `results/DATE-MACHINE/`: the tables and the raw data.
    pub(crate) fn store(&self, results: &Path) -> Result<PathBuf> {
        let folder = results.join(self.machine.folder_name());
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let head = "# CPU time for each client\n\nWritten by `make bench`; raw.json has every run.\n\n";
        std::fs::write(folder.join("README.md"), format!("{head}{}", self.text())).context("README.md")?;
        std::fs::write(folder.join("raw.json"), self.json()? + "\n").context("raw.json")?;
        Ok(folder)
    }
}

fn row(path: &str, load: &Load, runs: &[&ServerRun]) -> Vec<String> {
    let summary = |value: fn(&ServerRun) -> f64| Summary::of(runs.iter().map(|run| value(run)));
    let text =
        |value: fn(&ServerRun) -> f64| summary(value).map_or(String::new(), |summary| number(summary.median));
    let cost = summary(|run| run.cpu_seconds_per_client_minute);
    let late = |key: &str| Summary::of(runs.iter().filter_map(|run| run.lateness_us[key].as_f64()));
    let lateness = late("p99").zip(late("max"));
    vec![
        path.to_owned(),
        load.sessions.to_string(),
        load.burst.clone(),
        text(|run| run.cpu_seconds_per_client_minute),
        cost.map_or(String::new(), |cost| percent(cost.range())),
        text(|run| run.cpu_seconds_per_gib),
        text(|run| run.engine_seconds_per_gib),
        text(|run| run.bare_seconds_per_gib),
        text(|run| run.engine_seconds_per_gib / run.bare_seconds_per_gib),
        text(|run| run.paced_seconds_per_gib),
        text(|run| run.engine_seconds_per_gib / run.paced_seconds_per_gib),
        text(|run| run.packets_per_train),
        text(|run| run.trains_per_wakeup),
        lateness.map_or(String::new(), |(p99, max)| format!("{:.0}, {:.0}", p99.median, max.greatest)),
    ]
}

fn table(columns: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(columns);
    table
}

fn align(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// Three significant digits, as far as that makes sense.
fn number(value: f64) -> String {
    match value.abs() {
        0.0..0.1 => format!("{value:.5}"),
        0.1..10.0 => format!("{value:.3}"),
        _ => format!("{value:.1}"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
