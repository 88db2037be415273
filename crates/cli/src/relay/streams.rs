//! `wirepath relay --in … --out …` and `--config`: runs streams until all have ended or a signal stops them.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use wirepath_relay::{Configuration, StreamGroup, StreamSnapshot, StreamState, group_report, stream_report};

use super::Showing;
use super::ready::Ready;
use super::status_table::StatusTable;
use crate::exit;
use crate::interrupt::Interrupt;
use crate::output::Output;

/// Runs all streams of `configuration` on `threads`. Other machines may control handlers if `remote_control`.
/// Messages about `named` streams begin with their names, and their JSON is a list.
pub(super) fn run(
    configuration: &Configuration,
    threads: usize,
    named: bool,
    remote_control: bool,
    showing: &Showing,
) -> Result<ExitCode> {
    let interrupt = Interrupt::watch().context("cannot watch for signals")?;
    let output = Output::prepare(showing.json.as_deref())?;
    let is_taken = output.is_standard() || configuration.uses_standard_output();
    let ready = (!is_taken).then(|| Ready::new(configuration));
    let mut table = StatusTable::new(named, ready);
    let mut group = StreamGroup::new(configuration, threads).context("cannot start the engine")?;
    let endpoint = showing.metrics.map(|address| group.open_metrics(address, remote_control)).transpose()?;
    if let Some(endpoint) = &endpoint {
        table.print(&format!("wirepath: metrics at http://{}/metrics", endpoint.address()));
    }
    // Opening may truncate files, so addresses are opened only after everything else that can fail at the
    // start.
    let begun = Instant::now();
    group.start(configuration);
    group.run(|| interrupt.signal().is_some(), &mut table);
    drop((table, endpoint));
    let streams = group.finish();
    output.write(|| {
        let json = match (&streams[..], named) {
            ([stream], false) => stream_report(stream),
            (streams, _) => group_report(streams, begun.elapsed()),
        };
        Ok(format!("{json:#}\n"))
    })?;
    Ok(exit_code(&streams, interrupt.signal()))
}

/// Exit code of all streams. A failure takes precedence over a signal, and a signal over an incomplete
/// stream.
fn exit_code(streams: &[StreamSnapshot], signal: Option<u8>) -> ExitCode {
    let has = |state: StreamState| streams.iter().any(|stream| stream.state == state);
    match signal {
        _ if has(StreamState::Failed) => ExitCode::FAILURE,
        Some(signal) if has(StreamState::Stopped) => exit::by_signal(signal),
        _ if !streams.iter().all(StreamSnapshot::is_complete) => ExitCode::from(exit::INCOMPLETE),
        _ => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use wirepath_streams::{GoneOutputs, JoinCounts, ShareCounts, StreamStatus};

    use super::*;

    fn code(states: &[StreamState], status: &StreamStatus, signal: Option<u8>) -> String {
        let stream = |state: &StreamState| StreamSnapshot {
            state: *state,
            status: status.clone(),
            ..Default::default()
        };
        let streams: Vec<StreamSnapshot> = states.iter().map(stream).collect();
        format!("{:?}", exit_code(&streams, signal))
    }

    fn expected(code: u8) -> String {
        format!("{:?}", ExitCode::from(code))
    }

    /// Promise: A configuration file runs many streams; a failed stream is reported and does not affect the
    /// others.
    #[test]
    fn a_failure_comes_before_a_signal() {
        use StreamState::{Ended, Failed, Stopped};
        let status = StreamStatus::default();
        assert_eq!(code(&[Ended, Ended], &status, None), expected(0));
        assert_eq!(code(&[Ended], &status, Some(2)), expected(0));
        assert_eq!(code(&[Ended, Stopped], &status, Some(15)), expected(143));
        assert_eq!(code(&[Failed, Stopped], &status, Some(2)), expected(1));
        assert_eq!(code(&[Failed, Ended], &status, None), expected(1));
    }

    /// Promise: A lost output or missing shares give exit code 3; requested drops do not.
    #[test]
    fn an_incomplete_stream_has_an_exit_code_of_its_own() {
        use StreamState::{Ended, Failed, Stopped};
        let gone = |gone_outputs| StreamStatus { gone_outputs, ..StreamStatus::default() };
        let failed = gone(GoneOutputs { failed: 1, ..GoneOutputs::default() });
        let disconnected = gone(GoneOutputs { disconnected: 1, detached: 1, failed: 0 });
        let shares = |lost| StreamStatus {
            shares: Some(ShareCounts { lost, ..ShareCounts::default() }),
            ..StreamStatus::default()
        };
        let join = |counts| StreamStatus { join: Some(counts), ..StreamStatus::default() };
        let incomplete = join(JoinCounts { incomplete: 1, ..JoinCounts::default() });
        let spare = join(JoinCounts { spare: 1, unkeyed: 1, ..JoinCounts::default() });
        assert_eq!(code(&[Ended], &incomplete, None), expected(3));
        assert_eq!(code(&[Ended], &spare, None), expected(0));
        assert_eq!(code(&[Ended], &failed, None), expected(3));
        assert_eq!(code(&[Ended], &shares(1), None), expected(3));
        assert_eq!(code(&[Ended], &shares(0), None), expected(0));
        assert_eq!(code(&[Ended], &disconnected, None), expected(0), "--when-full asked for it");
        assert_eq!(code(&[Failed], &failed, None), expected(1));
        assert_eq!(code(&[Stopped], &failed, Some(15)), expected(143));
    }
}
