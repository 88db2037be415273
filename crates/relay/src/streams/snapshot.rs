//! Snapshots of streams, for status tables, metrics and reports.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use wirepath_counters::{Label, label};
use wirepath_streams::{OutputStatus, StreamStatus};

use super::kernel::HandlerPlace;

/// State and counters of a stream at one time.
#[derive(Clone, Debug, Default)]
pub struct StreamSnapshot {
    /// Name of the stream.
    pub name: String,
    /// Name of the stream's class; empty without classes.
    pub class: String,
    /// Index of the engine thread that runs the stream.
    pub thread: usize,
    /// State of the stream.
    pub state: StreamState,
    /// Reason for the stream's failure.
    pub error: Option<String>,
    /// Peers that the stream waits for, as phrases: `a connection at tcp://:9000?listen`.
    pub awaited: Vec<String>,
    /// Time since all peers of the stream were connected, until its end.
    pub time: Duration,
    /// Place of the stream's first `bpf` handler.
    pub handler_place: Option<HandlerPlace>,
    /// Counters of the stream.
    pub status: StreamStatus,
    /// Rates between the last two samples.
    pub rates: Rates,
}

label! {
    /// State of a stream.
    #[derive(Default)]
    pub enum StreamState: "state" {
        /// Addresses are being opened, or the stream waits for a connection.
        #[default]
        Opening = "opening",
        /// The stream runs.
        Running = "running",
        /// All inputs have ended and all bytes were delivered.
        Ended = "ended",
        /// An error ended the stream.
        Failed = "failed",
        /// The stream was stopped.
        Stopped = "stopped",
    }
}

impl StreamState {
    /// Name of the state, in metrics, tables and JSON.
    pub fn name(self) -> &'static str {
        Label::name(self)
    }
}

/// Rates of a stream between two samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Bits per second read.
    pub bits_in: u64,
    /// Bits per second written, over all outputs.
    pub bits_out: u64,
    /// Bits per second written to each output, in the order of the status.
    pub outputs: Vec<u64>,
    /// Processor time in thousandths of a processor, if classes share processor time.
    pub processor: Option<u64>,
}

/// The latest snapshots of all streams. Reading them costs the streams nothing.
#[derive(Clone, Default)]
pub(super) struct LatestSnapshots(Arc<Mutex<Arc<Vec<StreamSnapshot>>>>);

impl LatestSnapshots {
    pub(super) fn store(&self, snapshots: Vec<StreamSnapshot>) {
        *self.0.lock() = Arc::new(snapshots);
    }

    pub(super) fn load(&self) -> Arc<Vec<StreamSnapshot>> {
        Arc::clone(&self.0.lock())
    }

    /// Returns whether another reader, such as an HTTP endpoint, has a clone of this.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl Rates {
    /// Rates between two statuses, the second taken `time` after the first.
    pub(super) fn between(before: &StreamStatus, now: &StreamStatus, time: Duration) -> Rates {
        // With a tiny interval, any count would give an absurd rate.
        let seconds = time.as_secs_f64().max(1e-3);
        let rate = |before: u64, now: u64| (now.saturating_sub(before) as f64 * 8.0 / seconds) as u64;
        let output_rate = |output: &OutputStatus| {
            let earlier = before.outputs.iter().find(|earlier| earlier.port == output.port);
            rate(earlier.map_or(0, |earlier| earlier.bytes), output.bytes)
        };
        Rates {
            bits_in: rate(before.bytes_in, now.bytes_in),
            bits_out: rate(before.bytes_out, now.bytes_out),
            outputs: now.outputs.iter().map(output_rate).collect(),
            processor: now.processor_time.map(|now| {
                let used = now.saturating_sub(before.processor_time.unwrap_or_default());
                (used.as_secs_f64() * 1e3 / seconds) as u64
            }),
        }
    }
}

impl StreamSnapshot {
    /// Bytes that wait, that were dropped and that were lost, over the stream and all its outputs, including
    /// ended ones.
    pub fn undelivered(&self) -> [u64; 3] {
        let status = &self.status;
        status.outputs.iter().chain(&status.ended_outputs).fold(
            [status.bytes_pending, status.bytes_dropped, 0],
            |[waiting, dropped, lost], output| {
                [waiting + output.waiting_bytes, dropped + output.dropped.bytes, lost + output.lost_bytes]
            },
        )
    }

    /// Returns whether all bytes read were delivered, except bytes dropped on purpose: by `--when-full`, an
    /// order or a handler.
    pub fn is_complete(&self) -> bool {
        let StreamStatus { gone_outputs, shares, join, .. } = &self.status;
        gone_outputs.failed == 0
            && shares.is_none_or(|shares| shares.lost == 0)
            && join.is_none_or(|join| join.incomplete == 0 && join.too_long == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_what_came_between_two_samples() {
        let at = |bytes| StreamStatus { bytes_in: bytes, bytes_out: 2 * bytes, ..StreamStatus::default() };
        let rates = Rates::between(&at(1000), &at(3000), Duration::from_secs(2));
        assert_eq!(rates, Rates { bits_in: 8000, bits_out: 16_000, ..Rates::default() });
        assert_eq!(Rates::between(&at(5), &at(5), Duration::ZERO), Rates::default());
        let used = |time| StreamStatus { processor_time: Some(time), ..at(0) };
        let [before, after] = [100, 600].map(|ms| used(Duration::from_millis(ms)));
        assert_eq!(Rates::between(&before, &after, Duration::from_secs(2)).processor, Some(250));
    }
}
