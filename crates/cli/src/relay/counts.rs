//! What is counted of streams, declared for `/metrics` and `/api/status`.

use std::time::Duration;

use serde_json::{Value as Json, json};
use wirepath_server::metrics::{Labels, Metric, Metrics, Value};
use wirepath_server::status::Status;
use wirepath_streams::{EndedOutput, OutputStatus, Sharing};

use wirepath_relay::{
    LatestSnapshots as Snapshot, StreamSnapshot as Row, StreamState as State, stream_report,
};

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
    Metric {
        name: "streams_opening",
        help: "Streams whose addresses are being opened",
        unit: None,
        read: |totals| Value::Gauge(totals.of(State::Opening) as f64),
    },
    Metric {
        name: "streams",
        help: "Streams that run",
        unit: None,
        read: |totals| Value::Gauge(totals.of(State::Running) as f64),
    },
    Metric {
        name: "streams_ended",
        help: "Streams that ended well, failed or were stopped, by that",
        unit: None,
        read: |totals| {
            let states = [State::Ended, State::Failed, State::Stopped];
            Value::Counters("how", states.map(|state| (state.name(), totals.of(state))).into())
        },
    },
];

const STREAM: &[Metric<Row>] = &[
    Metric {
        name: "in",
        help: "Bytes that a stream read",
        unit: Some("bytes"),
        read: |row| Value::Counter(row.status.bytes_in),
    },
    Metric {
        name: "in_records",
        help: "Records that a stream began to read; without framing one, or none where nobody looked at the bytes",
        unit: None,
        read: |row| Value::Counter(row.status.records_in),
    },
    Metric {
        name: "unseen",
        help: "Bytes of those read that were moved without being copied to the program and back",
        unit: Some("bytes"),
        read: |row| Value::Counter(row.status.bytes_unseen),
    },
    Metric {
        name: "out",
        help: "Bytes that the outputs of a stream took, those that are gone too",
        unit: Some("bytes"),
        read: |row| Value::Counter(row.status.bytes_out),
    },
    Metric {
        name: "malformed_datagrams",
        help: "Datagrams that a stream dropped because they are not what they should be",
        unit: None,
        read: |row| Value::Counter(row.status.malformed.records),
    },
    Metric {
        name: "malformed",
        help: "Bytes of datagrams that a stream dropped because they are not what they should be",
        unit: Some("bytes"),
        read: |row| Value::Counter(row.status.malformed.bytes),
    },
    Metric {
        name: "outputs_failed",
        help: "Outputs of a stream that failed",
        unit: None,
        read: |row| Value::Counter(row.status.gone_outputs.failed),
    },
    Metric {
        name: "outputs_disconnected",
        help: "Outputs that did not keep up, and that a stream let go of",
        unit: None,
        read: |row| Value::Counter(row.status.gone_outputs.disconnected),
    },
    Metric {
        name: "running",
        help: "1 for a stream that runs, 0 for one that is opening or over",
        unit: None,
        read: |row| Value::Gauge(if row.state == State::Running { 1.0 } else { 0.0 }),
    },
];

const OUTPUT: &[Metric<OutputRow>] = &[
    Metric {
        name: "out",
        help: "Bytes that an output took",
        unit: Some("bytes"),
        read: |row| Value::Counter(row.output.bytes),
    },
    Metric {
        name: "waiting",
        help: "Bytes that wait for an output",
        unit: Some("bytes"),
        read: |row| Value::Gauge(row.output.waiting_bytes as f64),
    },
    Metric {
        name: "dropped",
        help: "Bytes that were dropped because an output was full, or that it never got because it is gone",
        unit: Some("bytes"),
        read: |row| Value::Counter(row.output.dropped.bytes),
    },
    Metric {
        name: "dropped_records",
        help: "Records that were dropped because an output was full, or that it never got because it is gone",
        unit: None,
        read: |row| Value::Counter(row.output.dropped.records),
    },
    Metric {
        name: "lost",
        help: "Bytes of datagrams that had no route, that a filter forbade, or that were too long",
        unit: Some("bytes"),
        read: |row| Value::Counter(row.output.lost_bytes),
    },
    Metric {
        name: "icmp_errors",
        help: "Times that the network said of an output's datagrams that they came nowhere",
        unit: None,
        read: |row| Value::Counter(row.output.icmp_errors),
    },
    Metric {
        name: "gone",
        help: "1 for an output that is gone, of which the last 64 are shown",
        unit: None,
        read: |row| Value::Gauge(if row.is_gone { 1.0 } else { 0.0 }),
    },
];

const REPORT: &[Metric<ReportRow>] = &[Metric {
    name: "value",
    help: "What a handler counted or found out, or an order of inputs that merges or puts shares together",
    unit: None,
    read: |row| Value::Gauge(row.value as f64),
}];

const CLASS: &[Metric<ClassRow>] = &[
    Metric {
        name: "streams",
        help: "Streams of a class that run",
        unit: None,
        read: |row| Value::Gauge(row.running as f64),
    },
    Metric {
        name: "in",
        help: "Bytes that the streams of a class read",
        unit: Some("bytes"),
        read: |row| Value::Counter(row.bytes_in),
    },
    Metric {
        name: "out",
        help: "Bytes that the outputs of a class's streams took",
        unit: Some("bytes"),
        read: |row| Value::Counter(row.bytes_out),
    },
];

/// Where classes share processor time.
const STREAM_TIME: &[Metric<Row>] = &[Metric {
    name: "cpu",
    help: "Processor time of a stream on its engine thread",
    unit: Some("seconds"),
    read: |row| Value::Sum(row.status.processor_time.unwrap_or_default().as_secs_f64()),
}];

/// Where classes share processor time.
const CLASS_TIME: &[Metric<ClassRow>] = &[Metric {
    name: "cpu",
    help: "Processor time of a class's streams on engine threads",
    unit: Some("seconds"),
    read: |row| Value::Sum(row.processor_time.as_secs_f64()),
}];

/// Adds what is counted of the streams in `snapshot` to what is shown, and the streams themselves to the status. The classes of
/// `sharing` are there with streams or without.
pub(super) fn register(snapshot: &Snapshot, sharing: &Sharing, metrics: &mut Metrics, status: &mut Status) {
    let with = |snapshot: &Snapshot| snapshot.clone();
    let rows = with(snapshot);
    metrics.register("relay", RELAY, move || Totals::new(&rows.load()));
    let rows = with(snapshot);
    let classes: Vec<String> = sharing.classes.iter().map(|class| class.name.clone()).collect();
    let of_classes = move || classes.iter().map(|class| ClassRow::new(class, &rows.load())).collect();
    metrics.register_rows("class", CLASS, ClassRow::labels, of_classes.clone());
    let rows = with(snapshot);
    let of_streams = move || rows.load().to_vec();
    metrics.register_rows("stream", STREAM, labels, of_streams.clone());
    if sharing.is_of_processor_time() {
        metrics.register_rows("class", CLASS_TIME, ClassRow::labels, of_classes);
        metrics.register_rows("stream", STREAM_TIME, labels, of_streams);
    }
    let rows = with(snapshot);
    metrics.register_rows("stream_output", OUTPUT, OutputRow::labels, move || {
        rows.load().iter().flat_map(OutputRow::of).collect()
    });
    let rows = with(snapshot);
    metrics.register_rows(
        "stream_report",
        REPORT,
        |row| row.labels.clone(),
        move || rows.load().iter().flat_map(ReportRow::of).collect(),
    );
    status.add("schema", || json!("wirepath-relay-status/1"));
    let rows = with(snapshot);
    status.add("streams", move || rows.load().iter().map(as_json).collect());
}

/// A stream of the status: as at the end, and its pace.
fn as_json(row: &Row) -> Json {
    let mut json = stream_report(row);
    json["bits_per_second_in"] = json!(row.rates.bits_in);
    json["bits_per_second_out"] = json!(row.rates.bits_out);
    json["cpu_percent"] = json!(row.rates.processor.map(|thousandths| thousandths as f64 / 10.0));
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
