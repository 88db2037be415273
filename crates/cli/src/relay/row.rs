//! A stream as it is shown: in the table, in `/metrics`, in `/api/status` and in what `--json` writes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use wirepath_streams::{OutputStatus, StreamStatus};

/// A stream at some moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// Its name.
    pub(super) name: String,
    /// The name of its class; empty if there are no classes.
    pub(super) class: String,
    /// The engine thread that it is on, or is to be on.
    pub(super) thread: usize,
    /// How far it has come.
    pub(super) state: State,
    /// Why it failed.
    pub(super) error: Option<String>,
    /// How long it has run, or ran.
    pub(super) time: Duration,
    /// What it did so far.
    pub(super) status: StreamStatus,
    /// What it did of late.
    pub(super) pace: Pace,
}

/// How far a stream has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Its addresses are being opened; connections may have to come about.
    #[default]
    Opening,
    /// It runs.
    Running,
    /// All inputs came to their end, and all was delivered.
    Ended,
    /// Something failed.
    Failed,
    /// It was told to stop.
    Stopped,
}

/// Bits a second, lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pace {
    /// What it read.
    pub(super) bits_in: u64,
    /// What its outputs took.
    pub(super) bits_out: u64,
    /// What each output took, in the order of the status.
    pub(super) outputs: Vec<u64>,
    /// Thousandths of a processor that it took, where that is what classes share.
    pub(super) processor: Option<u64>,
}

/// What was seen last, for whoever asks: asking costs the streams nothing.
#[derive(Clone, Default)]
pub(super) struct Snapshot(Arc<Mutex<Arc<Vec<Row>>>>);

impl Snapshot {
    /// Puts what is seen now in its place.
    pub(super) fn put(&self, rows: Arc<Vec<Row>>) {
        *self.0.lock() = rows;
    }

    /// What was seen last.
    pub(super) fn rows(&self) -> Arc<Vec<Row>> {
        Arc::clone(&self.0.lock())
    }
}

impl Pace {
    /// What happened between two looks.
    pub(super) fn between(before: &StreamStatus, now: &StreamStatus, time: Duration) -> Pace {
        let rate = |before: u64, now: u64| {
            // What a clock that hardly moved would make of it is no rate.
            (now.saturating_sub(before) as f64 * 8.0 / time.as_secs_f64().max(1e-3)) as u64
        };
        let took = |output: &OutputStatus| {
            let same = before.outputs.iter().find(|earlier| earlier.port == output.port);
            rate(same.map_or(0, |earlier| earlier.bytes), output.bytes)
        };
        Pace {
            bits_in: rate(before.bytes_in, now.bytes_in),
            bits_out: rate(before.bytes_out, now.bytes_out),
            outputs: now.outputs.iter().map(took).collect(),
            processor: now.processor_time.map(|now| {
                let used = now.saturating_sub(before.processor_time.unwrap_or_default());
                (used.as_secs_f64() * 1e3 / time.as_secs_f64().max(1e-3)) as u64
            }),
        }
    }
}

impl Row {
    /// Its bytes that wait, that were dropped, that were lost.
    pub(super) fn stuck(&self) -> [u64; 3] {
        stuck(&self.status)
    }
}

/// Bytes of a stream and its outputs, those that are gone too, that wait, that were dropped, that were lost.
pub(super) fn stuck(status: &StreamStatus) -> [u64; 3] {
    let sum = [status.bytes_pending, status.bytes_dropped, 0];
    let there =
        status.outputs.iter().map(|output| [output.waiting_bytes, output.dropped.bytes, output.lost_bytes]);
    let gone = status.ended_outputs.iter().map(|output| [0, output.dropped.bytes, output.lost_bytes]);
    there.chain(gone).fold(sum, |sum, output| [0, 1, 2].map(|what| sum[what] + output[what]))
}

impl State {
    /// As one word.
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Opening => "opening",
            State::Running => "running",
            State::Ended => "ended",
            State::Failed => "failed",
            State::Stopped => "stopped",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_what_came_between_two_looks() {
        let at = |bytes| StreamStatus { bytes_in: bytes, bytes_out: 2 * bytes, ..StreamStatus::default() };
        let pace = Pace::between(&at(1000), &at(3000), Duration::from_secs(2));
        assert_eq!(pace, Pace { bits_in: 8000, bits_out: 16_000, ..Pace::default() });
        assert_eq!(Pace::between(&at(5), &at(5), Duration::ZERO), Pace::default());
        let used = |time| StreamStatus { processor_time: Some(time), ..at(0) };
        let [before, after] = [100, 600].map(|ms| used(Duration::from_millis(ms)));
        assert_eq!(Pace::between(&before, &after, Duration::from_secs(2)).processor, Some(250));
    }
}
