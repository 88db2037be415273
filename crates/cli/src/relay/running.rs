//! Runs streams and shows them, until all are over or a signal comes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use wirepath_relay::Configuration;
use wirepath_streams::datapath::Support;
use wirepath_streams::datapath::calibration::Calibrations;
use wirepath_streams::{BlockingPool, Engine, EngineOptions, Importance, StreamStatus};

use super::board::Board;
use super::door::Door;
use super::group::Group;
use super::row::{Row, Snapshot, State};
use super::{counts, report};
use crate::interrupt::Interrupt;
use crate::output::Output;

/// Exit code where all streams ended, and one of them without an output that failed or a record whose shares did not come.
const INCOMPLETE: u8 = 3;

/// How often signals are looked for.
const TICK: Duration = Duration::from_millis(100);

/// How often streams are asked how far they are, if anybody wants to know.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Ways to see what streams do.
#[derive(Args)]
pub(super) struct Showing {
    /// Open an HTTP door with /metrics (OpenMetrics) and /api/status (JSON)
    #[arg(long, value_name = "ADDR:PORT", value_parser = metrics_door)]
    pub(super) metrics: Option<SocketAddr>,

    /// Write what was done as JSON to FILE at the end; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

/// Where an exporter of metrics is usually found.
fn metrics_door(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "wanted is an address and a port up to 65535, such as 127.0.0.1:9100 or [::1]:9100")
}

/// Who sees the streams, and what they saw last.
struct Viewers {
    board: Board,
    door: Option<Door>,
    snapshot: Snapshot,
    next: Instant,
}

/// Runs all streams of `configuration` on so many threads. If they are `named`, each line about one begins with its name, and JSON is a list of them.
pub(super) fn run(
    configuration: &Configuration,
    threads: usize,
    named: bool,
    showing: &Showing,
) -> Result<ExitCode> {
    let interrupt = Interrupt::watch().context("watching for signals")?;
    wirepath_net::raise_descriptor_limit();
    let readers = BlockingPool::start("reader", 2, Importance::Equal)?;
    let support = Arc::new(Support::probe(None, Calibrations::default(), false));
    let sharing = configuration.sharing.clone();
    let options = EngineOptions { threads, sharing, ..EngineOptions::default() };
    let engine = Arc::new(Engine::start(&options, support, &readers).context("starting threads")?);
    let output = Output::prepare(showing.json.as_deref())?;
    let mut viewers = Viewers::new(configuration, &engine, showing)?;
    let begun = Instant::now();
    let mut group = Group::open(configuration, engine, named);
    attend(&mut group, &mut viewers, &interrupt);
    let rows = group.rows();
    // With them the engine ends, and what its streams had: names of sockets that nobody came to are removed.
    drop((viewers, group));
    readers.wait_for_discarded();
    output.write(|| {
        let json = match (&rows[..], named) {
            ([row], false) => report::as_json(row),
            (rows, _) => report::all_as_json(rows, begun.elapsed()),
        };
        Ok(format!("{json:#}\n"))
    })?;
    Ok(exit_code(&rows, interrupt.signal()))
}

/// Until all are over.
fn attend(group: &mut Group, viewers: &mut Viewers, interrupt: &Interrupt) {
    let mut stopping = false;
    while !group.is_over() {
        viewers.look(group);
        group.attend(TICK).iter().for_each(|line| viewers.board.say(line));
        if !stopping && interrupt.signal().is_some() {
            group.stop().iter().for_each(|line| viewers.board.say(line));
            stopping = true;
        }
    }
}

impl Viewers {
    fn new(configuration: &Configuration, engine: &Arc<Engine>, showing: &Showing) -> Result<Viewers> {
        let snapshot = Snapshot::default();
        let open = |address| {
            Door::open(address, Arc::clone(engine), |metrics, status| {
                counts::register(&snapshot, &configuration.sharing, metrics, status);
            })
        };
        let door = showing.metrics.map(open).transpose()?;
        let board = Board::new();
        if let Some(door) = &door {
            board.say(&format!("wirepath: metrics at http://{}/metrics", door.address()));
        }
        Ok(Viewers { board, door, snapshot, next: Instant::now() })
    }

    /// Shows the streams as they are, if it is time, and if there is anybody to see them.
    fn look(&mut self, group: &mut Group) {
        let now = Instant::now();
        if now < self.next || (self.door.is_none() && !self.board.is_seen()) {
            return;
        }
        self.next = now + LOOK_INTERVAL;
        group.look();
        let rows = Arc::new(group.rows());
        self.board.show(&rows);
        self.snapshot.put(rows);
    }
}

/// A failure first, then the signal that stopped some, then what is missing though all ended.
fn exit_code(rows: &[Row], signal: Option<u8>) -> ExitCode {
    let has = |state: State| rows.iter().any(|row| row.state == state);
    match signal {
        _ if has(State::Failed) => ExitCode::FAILURE,
        Some(signal) if has(State::Stopped) => ExitCode::from(128 + signal),
        _ if !rows.iter().all(|row| is_complete(&row.status)) => ExitCode::from(INCOMPLETE),
        _ => ExitCode::SUCCESS,
    }
}

/// Whether all that was read went where it was to go, but for what was asked to be dropped: by `--when-full`, an order or a handler.
fn is_complete(status: &StreamStatus) -> bool {
    status.gone_outputs.failed == 0 && status.shares.is_none_or(|shares| shares.lost == 0)
}

#[cfg(test)]
mod tests {
    use wirepath_streams::{GoneOutputs, ShareCounts};

    use super::*;

    /// Promise: A configuration file runs many streams; a failed one leaves the others alone and is reported.
    #[test]
    fn a_failure_is_said_before_a_signal() {
        let rows = |states: &[State]| -> Vec<Row> {
            states.iter().map(|state| Row { state: *state, ..Row::default() }).collect()
        };
        let code = |states: &[State], signal| format!("{:?}", exit_code(&rows(states), signal));
        let expected = |code: u8| format!("{:?}", ExitCode::from(code));
        assert_eq!(code(&[State::Ended, State::Ended], None), expected(0));
        assert_eq!(code(&[State::Ended], Some(2)), expected(0));
        assert_eq!(code(&[State::Ended, State::Stopped], Some(15)), expected(143));
        assert_eq!(code(&[State::Failed, State::Stopped], Some(2)), expected(1));
        assert_eq!(code(&[State::Failed, State::Ended], None), expected(1));
    }
    /// Promise: A lost output or missing shares make exit code 3; requested drops do not.
    #[test]
    fn what_is_missing_though_all_ended_is_a_code_of_its_own() {
        let code = |state, status: &StreamStatus, signal| {
            let rows = [
                Row { state, status: status.clone(), ..Row::default() },
                Row { state: State::Ended, ..Row::default() },
            ];
            format!("{:?}", exit_code(&rows, signal))
        };
        let expected = |code: u8| format!("{:?}", ExitCode::from(code));
        let gone = |gone_outputs| StreamStatus { gone_outputs, ..StreamStatus::default() };
        let failed = gone(GoneOutputs { failed: 1, ..GoneOutputs::default() });
        let let_go = gone(GoneOutputs { disconnected: 1, detached: 1, failed: 0 });
        let shares =
            |lost| StreamStatus { shares: Some(ShareCounts { lost, spare: 1 }), ..StreamStatus::default() };
        assert_eq!(code(State::Ended, &failed, None), expected(3));
        assert_eq!(code(State::Ended, &shares(1), None), expected(3));
        assert_eq!(code(State::Ended, &shares(0), None), expected(0));
        assert_eq!(code(State::Ended, &let_go, None), expected(0), "that was asked for");
        assert_eq!(code(State::Failed, &failed, None), expected(1));
        assert_eq!(code(State::Stopped, &failed, Some(15)), expected(143));
    }
}
