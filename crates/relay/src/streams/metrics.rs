//! Metrics and status of streams.

use std::time::Duration;

use serde_json::{Value as Json, json};
use wirepath_counters::Metric;
use wirepath_counters::Value::{Counter, Counters, Gauge, Sum};
use wirepath_engine::Sharing;
use wirepath_net::metrics::{Labels, Metrics};
use wirepath_net::status::Status;
use wirepath_streams::OutputStatus;

use super::json::stream_report;
use super::snapshot::{LatestSnapshots, StreamSnapshot, StreamState};
use crate::metrics::metrics;

/// Number of streams in each state, in the order of [`StreamState::ALL`].
struct Totals([u64; 5]);

/// Output with the labels of its stream.
struct OutputRow {
    stream: Labels,
    output: OutputStatus,
    is_gone: bool,
}

/// Report of a handler, or of an order that merges records or shares.
struct ReportRow {
    labels: Labels,
    value: u64,
}

/// Sum of the streams of a class.
#[derive(Default)]
struct ClassRow {
    name: String,
    running: u64,
    bytes_in: u64,
    bytes_out: u64,
    processor_time: Duration,
}

const RELAY: &[Metric<Totals>] = metrics! {
    "streams_opening", "Streams that open their addresses.", |totals| Gauge(totals.of(StreamState::Opening));
    "streams", "Streams that run.", |totals| Gauge(totals.of(StreamState::Running));
    "streams_ended", "Streams that ended, by outcome.", |totals| Counters("how", totals.ended());
};

const STREAM: &[Metric<StreamSnapshot>] = metrics! {
    "in_bytes", "Bytes read by a stream.", |stream| Counter(stream.status.bytes_in);
    "in_records", "Records read by a stream that divides its inputs.", |stream| Counter(stream.status.records_in);
    "zero_copy_bytes", "Bytes moved without a copy to the process.", |stream| Counter(stream.status.zero_copy_bytes);
    "out_bytes", "Bytes written to outputs, including ended ones.", |stream| Counter(stream.status.bytes_out);
    "malformed_datagrams", "Malformed datagrams dropped.", |stream| Counter(stream.status.malformed.records);
    "malformed_bytes", "Bytes of malformed datagrams dropped.", |stream| Counter(stream.status.malformed.bytes);
    "outputs_failed", "Outputs that failed.", |stream| Counter(stream.status.gone_outputs.failed);
    "outputs_disconnected", "Outputs disconnected because they fell behind.",
        |stream| Counter(stream.status.gone_outputs.disconnected);
    "running", "1 for a stream that runs.", |stream| Gauge(u64::from(stream.state == StreamState::Running));
};

const OUTPUT: &[Metric<OutputRow>] = metrics! {
    "out_bytes", "Bytes written to an output.", |row| Counter(row.output.bytes);
    "waiting_bytes", "Bytes that wait for an output.", |row| Gauge(row.output.waiting_bytes);
    "dropped_bytes", "Bytes dropped for an output that fell behind or ended.", |row| Counter(row.output.dropped.bytes);
    "dropped_records", "Records dropped for an output that fell behind or ended.",
        |row| Counter(row.output.dropped.records);
    "lost_bytes", "Bytes of datagrams without a route, filtered or too long.", |row| Counter(row.output.lost_bytes);
    "icmp_errors", "ICMP errors about datagrams: destination unreachable.", |row| Counter(row.output.icmp_errors);
    "gone", "1 for an ended output; the last 64 are shown.", |row| Gauge(u64::from(row.is_gone));
};

const REPORT: &[Metric<ReportRow>] = metrics! {
    "value", "Value that a handler or an order reports.", |row| Gauge(row.value);
};

const CLASS: &[Metric<ClassRow>] = metrics! {
    "streams", "Streams of a class that run.", |class| Gauge(class.running);
    "in_bytes", "Bytes read by the streams of a class.", |class| Counter(class.bytes_in);
    "out_bytes", "Bytes written by the streams of a class.", |class| Counter(class.bytes_out);
};

/// Shown where classes share processor time.
const STREAM_TIME: &[Metric<StreamSnapshot>] = metrics! {
    "cpu_seconds", "Processor time of a stream.",
        |stream| Sum(stream.status.processor_time.unwrap_or_default().as_secs_f64());
};

/// Shown where classes share processor time.
const CLASS_TIME: &[Metric<ClassRow>] = metrics! {
    "cpu_seconds", "Processor time of a class's streams.", |class| Sum(class.processor_time.as_secs_f64());
};

/// Adds the latest snapshots of streams to metrics and status. Classes of `sharing` are shown with or without
/// streams.
pub(super) fn register(
    latest: &LatestSnapshots,
    sharing: &Sharing,
    metrics: &mut Metrics,
    status: &mut Status,
) {
    let streams = |latest: &LatestSnapshots| {
        let latest = latest.clone();
        move || latest.load()
    };
    let load = streams(latest);
    metrics.register("relay", RELAY, move || Totals::new(&load()));
    let load = streams(latest);
    let names: Vec<String> = sharing.classes.iter().map(|class| class.name.clone()).collect();
    let classes = move || names.iter().map(|name| ClassRow::new(name, &load())).collect();
    metrics.register_rows("class", CLASS, ClassRow::labels, classes.clone());
    let load = streams(latest);
    let all = move || load().to_vec();
    metrics.register_rows("stream", STREAM, labels, all.clone());
    if sharing.is_of_processor_time() {
        metrics.register_rows("class", CLASS_TIME, ClassRow::labels, classes);
        metrics.register_rows("stream", STREAM_TIME, labels, all);
    }
    let load = streams(latest);
    let outputs = move || load().iter().flat_map(OutputRow::of).collect();
    metrics.register_rows("stream_output", OUTPUT, OutputRow::labels, outputs);
    let load = streams(latest);
    let reports = move || load().iter().flat_map(ReportRow::of).collect();
    metrics.register_rows("stream_report", REPORT, |row| row.labels.clone(), reports);
    status.add("schema", || json!("wirepath-relay-status/1"));
    let load = streams(latest);
    status.add("streams", move || load().iter().map(status_json).collect());
}

/// Report of a stream with its rates.
fn status_json(stream: &StreamSnapshot) -> Json {
    let mut json = stream_report(stream);
    json["bits_per_second_in"] = json!(stream.rates.bits_in);
    json["bits_per_second_out"] = json!(stream.rates.bits_out);
    json["cpu_percent"] = json!(stream.rates.processor.map(|thousandths| thousandths as f64 / 10.0));
    json
}

/// Labels of a stream.
fn labels(stream: &StreamSnapshot) -> Labels {
    vec![("stream", stream.name.clone()), ("class", stream.class.clone())]
}

impl Totals {
    fn new(streams: &[StreamSnapshot]) -> Totals {
        let count = |state| streams.iter().filter(|stream| stream.state == state).count() as u64;
        Totals(StreamState::ALL.map(count))
    }

    fn of(&self, state: StreamState) -> u64 {
        self.0[state as usize]
    }

    fn ended(&self) -> Vec<(&'static str, u64)> {
        let states = [StreamState::Ended, StreamState::Failed, StreamState::Stopped];
        states.map(|state| (state.name(), self.of(state))).into()
    }
}

impl OutputRow {
    fn of(stream: &StreamSnapshot) -> impl Iterator<Item = OutputRow> {
        let row = |is_gone| move |output| OutputRow { stream: labels(stream), output, is_gone };
        let open = stream.status.outputs.iter().cloned().map(row(false));
        // The counters of those that are gone stay, so that drops do not vanish.
        open.chain(stream.status.ended_outputs.iter().cloned().map(row(true)))
    }

    /// Labels of the output; its port tells it from others of the same name.
    fn labels(&self) -> Labels {
        let own = [("port", self.output.port.to_string()), ("output", self.output.name.clone())];
        self.stream.iter().cloned().chain(own).collect()
    }
}

impl ReportRow {
    /// Reports of the stream's handlers, its order, and the handlers of each output. A number tells handlers
    /// of one name apart.
    fn of(stream: &StreamSnapshot) -> Vec<ReportRow> {
        let status = &stream.status;
        let merge = status.merge.iter().flat_map(|merge| {
            [("late", merge.late), ("untagged", merge.untagged), ("unawaited", merge.unawaited)]
                .map(|(what, value)| ("merge", what, value))
        });
        let shares = status.shares.iter().flat_map(|shares| {
            [("lost", shares.lost), ("spare", shares.spare)].map(|(what, value)| ("shares", what, value))
        });
        let of_stream = status.reports.iter().copied().chain(merge).chain(shares);
        let of_outputs = status
            .outputs
            .iter()
            .flat_map(|output| output.reports.iter().map(|report| (output.port.to_string(), *report)));
        let all = of_stream.map(|report| (String::new(), report)).chain(of_outputs);
        let report = |(place, (port, (handler, what, value))): (usize, (String, (&str, &str, u64)))| {
            let own = [("port", port), ("handler", handler.to_owned()), ("what", what.to_owned())];
            let place = [("place", place.to_string())];
            ReportRow { labels: labels(stream).into_iter().chain(own).chain(place).collect(), value }
        };
        all.enumerate().map(report).collect()
    }
}

impl ClassRow {
    fn new(name: &str, streams: &[StreamSnapshot]) -> ClassRow {
        let none = ClassRow { name: name.to_owned(), ..ClassRow::default() };
        streams.iter().filter(|stream| stream.class == name).fold(none, |sum, stream| ClassRow {
            running: sum.running + u64::from(stream.state == StreamState::Running),
            bytes_in: sum.bytes_in + stream.status.bytes_in,
            bytes_out: sum.bytes_out + stream.status.bytes_out,
            processor_time: sum.processor_time + stream.status.processor_time.unwrap_or_default(),
            ..sum
        })
    }

    fn labels(&self) -> Labels {
        vec![("class", self.name.clone())]
    }
}

#[cfg(test)]
mod tests;
