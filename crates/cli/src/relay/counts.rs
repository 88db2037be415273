//! What is counted of streams, declared for `/metrics` and `/api/status`.

use std::time::Duration;

use serde_json::{Value as Json, json};
use wirepath_counters::{Metric, Value};
use wirepath_net::metrics::{Labels, Metrics};
use wirepath_net::status::Status;
use wirepath_streams::{EndedOutput, OutputStatus, Sharing};

use super::report;
use super::row::{Row, Snapshot, State};

/// How many streams are how far.
struct Totals([u64; 5]);

/// An output and the stream that it is of.
struct OutputRow {
    stream: Labels,
    output: OutputStatus,
    is_gone: bool,
}

/// What a handler, a merge or a putting together of shares reports.
struct ReportRow {
    labels: Labels,
    value: u64,
}

/// The streams of a class, summed up.
#[derive(Default)]
struct ClassRow {
    name: String,
    running: u64,
    bytes_in: u64,
    bytes_out: u64,
    processor_time: Duration,
}

const RELAY: &[Metric<Totals>] = &[
    Metric::new("streams_opening", "Streams whose addresses are being opened.", |totals| {
        Value::Gauge(totals.of(State::Opening))
    }),
    Metric::new("streams", "Streams that run.", |totals| Value::Gauge(totals.of(State::Running))),
    Metric::new("streams_ended", "Streams that ended well, failed or were stopped, by that.", |totals| {
        let states = [State::Ended, State::Failed, State::Stopped];
        Value::Counters("how", states.map(|state| (state.name(), totals.of(state))).into())
    }),
];

const STREAM: &[Metric<Row>] = &[
    Metric::new("in_bytes", "Bytes that a stream read.", |row| Value::Counter(row.status.bytes_in)),
    Metric::new(
        "in_records",
        "Records that a stream began to read; without framing one, or none where nobody looked at the bytes.",
        |row| Value::Counter(row.status.records_in),
    ),
    Metric::new(
        "unseen_bytes",
        "Bytes of those read that were moved without being copied to the program and back.",
        |row| Value::Counter(row.status.bytes_unseen),
    ),
    Metric::new("out_bytes", "Bytes that the outputs of a stream took, those that are gone too.", |row| {
        Value::Counter(row.status.bytes_out)
    }),
    Metric::new(
        "malformed_datagrams",
        "Datagrams that a stream dropped because they are not what they should be.",
        |row| Value::Counter(row.status.malformed.records),
    ),
    Metric::new(
        "malformed_bytes",
        "Bytes of datagrams that a stream dropped because they are not what they should be.",
        |row| Value::Counter(row.status.malformed.bytes),
    ),
    Metric::new("outputs_failed", "Outputs of a stream that failed.", |row| {
        Value::Counter(row.status.gone_outputs.failed)
    }),
    Metric::new(
        "outputs_disconnected",
        "Outputs that did not keep up, and that a stream let go of.",
        |row| Value::Counter(row.status.gone_outputs.disconnected),
    ),
    Metric::new("running", "1 for a stream that runs, 0 for one that is opening or over.", |row| {
        Value::Gauge(u64::from(row.state == State::Running))
    }),
];

const OUTPUT: &[Metric<OutputRow>] = &[
    Metric::new("out_bytes", "Bytes that an output took.", |row| Value::Counter(row.output.bytes)),
    Metric::new("waiting_bytes", "Bytes that wait for an output.", |row| {
        Value::Gauge(row.output.waiting_bytes)
    }),
    Metric::new(
        "dropped_bytes",
        "Bytes that were dropped because an output was full, or that it never got because it is gone.",
        |row| Value::Counter(row.output.dropped.bytes),
    ),
    Metric::new(
        "dropped_records",
        "Records that were dropped because an output was full, or that it never got because it is gone.",
        |row| Value::Counter(row.output.dropped.records),
    ),
    Metric::new(
        "lost_bytes",
        "Bytes of datagrams that had no route, that a filter forbade, or that were too long.",
        |row| Value::Counter(row.output.lost_bytes),
    ),
    Metric::new(
        "icmp_errors",
        "Times that the network said of an output's datagrams that they came nowhere.",
        |row| Value::Counter(row.output.icmp_errors),
    ),
    Metric::new("gone", "1 for an output that is gone, of which the last 64 are shown.", |row| {
        Value::Gauge(u64::from(row.is_gone))
    }),
];

const REPORT: &[Metric<ReportRow>] = &[Metric::new(
    "value",
    "What a handler counted or found out, or an order of inputs that merges or puts shares together.",
    |row| Value::Gauge(row.value),
)];

const CLASS: &[Metric<ClassRow>] = &[
    Metric::new("streams", "Streams of a class that run.", |row| Value::Gauge(row.running)),
    Metric::new("in_bytes", "Bytes that the streams of a class read.", |row| Value::Counter(row.bytes_in)),
    Metric::new("out_bytes", "Bytes that the outputs of a class's streams took.", |row| {
        Value::Counter(row.bytes_out)
    }),
];

/// Where classes share processor time.
const STREAM_TIME: &[Metric<Row>] =
    &[Metric::new("cpu_seconds", "Processor time of a stream on its engine thread.", |row| {
        Value::Sum(row.status.processor_time.unwrap_or_default().as_secs_f64())
    })];

/// Where classes share processor time.
const CLASS_TIME: &[Metric<ClassRow>] =
    &[Metric::new("cpu_seconds", "Processor time of a class's streams on engine threads.", |row| {
        Value::Sum(row.processor_time.as_secs_f64())
    })];

/// Adds what is counted of the streams in `snapshot` to what is shown, and the streams themselves to the status. The classes of
/// `sharing` are there with streams or without.
pub(super) fn register(snapshot: &Snapshot, sharing: &Sharing, metrics: &mut Metrics, status: &mut Status) {
    let with = |snapshot: &Snapshot| snapshot.clone();
    let rows = with(snapshot);
    metrics.register("relay", RELAY, move || Totals::new(&rows.rows()));
    let rows = with(snapshot);
    let classes: Vec<String> = sharing.classes.iter().map(|class| class.name.clone()).collect();
    let of_classes = move || classes.iter().map(|class| ClassRow::new(class, &rows.rows())).collect();
    metrics.register_rows("class", CLASS, ClassRow::labels, of_classes.clone());
    let rows = with(snapshot);
    let of_streams = move || rows.rows().to_vec();
    metrics.register_rows("stream", STREAM, labels, of_streams.clone());
    if sharing.is_of_processor_time() {
        metrics.register_rows("class", CLASS_TIME, ClassRow::labels, of_classes);
        metrics.register_rows("stream", STREAM_TIME, labels, of_streams);
    }
    let rows = with(snapshot);
    metrics.register_rows("stream_output", OUTPUT, OutputRow::labels, move || {
        rows.rows().iter().flat_map(OutputRow::of).collect()
    });
    let rows = with(snapshot);
    metrics.register_rows(
        "stream_report",
        REPORT,
        |row| row.labels.clone(),
        move || rows.rows().iter().flat_map(ReportRow::of).collect(),
    );
    status.add("schema", || json!("wirepath-relay-status/1"));
    let rows = with(snapshot);
    status.add("streams", move || rows.rows().iter().map(as_json).collect());
}

/// A stream of the status: as at the end, and its pace.
fn as_json(row: &Row) -> Json {
    let mut json = report::as_json(row);
    json["bits_per_second_in"] = json!(row.pace.bits_in);
    json["bits_per_second_out"] = json!(row.pace.bits_out);
    json["cpu_percent"] = json!(row.pace.processor.map(|thousandths| thousandths as f64 / 10.0));
    json
}

/// What tells a stream from others.
fn labels(row: &Row) -> Labels {
    vec![("stream", row.name.clone()), ("class", row.class.clone())]
}

impl Totals {
    const STATES: [State; 5] = [State::Opening, State::Running, State::Ended, State::Failed, State::Stopped];

    fn new(rows: &[Row]) -> Totals {
        Totals(Totals::STATES.map(|state| rows.iter().filter(|row| row.state == state).count() as u64))
    }

    fn of(&self, state: State) -> u64 {
        Totals::STATES.iter().zip(self.0).filter(|(of, _)| **of == state).map(|(_, count)| count).sum()
    }
}

impl OutputRow {
    fn of(row: &Row) -> impl Iterator<Item = OutputRow> {
        let of = |is_gone| move |output| OutputRow { stream: labels(row), output, is_gone };
        let there = row.status.outputs.iter().cloned().map(of(false));
        there.chain(row.status.ended_outputs.iter().map(as_it_went).map(of(true)))
    }

    /// Several outputs may have one name.
    fn labels(&self) -> Labels {
        let own = [("port", self.output.port.to_string()), ("output", self.output.name.clone())];
        self.stream.iter().cloned().chain(own).collect()
    }
}

/// An output that is gone, as it was last: its counters go on being shown, or what it did not get would vanish with it.
fn as_it_went(ended: &EndedOutput) -> OutputStatus {
    OutputStatus {
        port: ended.port,
        name: ended.name.clone(),
        bytes: ended.bytes,
        waiting_bytes: 0,
        dropped: ended.dropped,
        lost_bytes: ended.lost_bytes,
        icmp_errors: ended.icmp_errors,
        reports: Vec::new(),
    }
}

impl ReportRow {
    /// Handlers of the stream, those of each output, and orders of inputs. Several handlers may have one name.
    fn of(row: &Row) -> Vec<ReportRow> {
        let status = &row.status;
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
            ReportRow { labels: labels(row).into_iter().chain(own).chain(place).collect(), value }
        };
        all.enumerate().map(report).collect()
    }
}

impl ClassRow {
    fn new(name: &str, rows: &[Row]) -> ClassRow {
        let none = ClassRow { name: name.to_owned(), ..ClassRow::default() };
        rows.iter().filter(|row| row.class == name).fold(none, |sum, row| ClassRow {
            running: sum.running + u64::from(row.state == State::Running),
            bytes_in: sum.bytes_in + row.status.bytes_in,
            bytes_out: sum.bytes_out + row.status.bytes_out,
            processor_time: sum.processor_time + row.status.processor_time.unwrap_or_default(),
            ..sum
        })
    }

    fn labels(&self) -> Labels {
        vec![("class", self.name.clone())]
    }
}

#[cfg(test)]
mod tests;
