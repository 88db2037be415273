//! Metrics and status of streams.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use wirepath_counters::Value::{Counter, Counters, Gauge, Sum};
use wirepath_counters::{FamilyCounts, Metric};
use wirepath_datapath::to_many::{self, LentTrains};
use wirepath_engine::Sharing;
use wirepath_net::metrics::{Labels, Metrics};
use wirepath_net::status::Status;
use wirepath_streams::{LendingSwitch, OutputStatus};

use super::json::stream_report;
use super::snapshot::{LatestSnapshots, StreamSnapshot, StreamState};
use crate::metrics::metrics;

/// Number of streams in each state.
type Totals = FamilyCounts<StreamState>;

/// Sums over the streams of a class.
#[derive(Default)]
struct ClassSum {
    running: u64,
    bytes_in: u64,
    bytes_out: u64,
    processor_time: Duration,
}

const RELAY: &[Metric<Totals>] = metrics! {
    "streams_opening", "Streams that open their addresses.", |totals| Gauge(totals.of(StreamState::Opening));
    "streams", "Streams that run.", |totals| Gauge(totals.of(StreamState::Running));
    "streams_ended", "Streams that ended, by outcome.", |totals| Counters("how", ended(totals));
};

/// Counts of lending of all streams of a relay.
#[derive(Clone)]
pub(super) struct Loans {
    lent_bytes: u64,
    copied_bytes: u64,
    trains: LentTrains,
}

impl Loans {
    /// Current counts of the streams with this switch, and of the process's trains.
    pub(super) fn of(switch: &LendingSwitch) -> Loans {
        let (lent_bytes, copied_bytes) = (switch.lent_bytes(), switch.copied_bytes());
        Loans { lent_bytes, copied_bytes, trains: to_many::counts() }
    }

    /// The counts as `/api/loans` shows them.
    pub(super) fn json(&self) -> Json {
        json!({
            "lent_bytes": self.lent_bytes,
            "copied_bytes": self.copied_bytes,
            "lent_trains": self.trains.lent,
            "lent_trains_copied": self.trains.copied_although_lent,
            "out_bytes": self.trains.bytes_out,
        })
    }
}

const LENDING: &[Metric<Loans>] = metrics! {
    "lent_bytes", "Bytes of files that left without a copy: lent pages of the page cache.",
        |loans| Counter(loans.lent_bytes);
    "copied_bytes", "Bytes copied because of the rule of lending.", |loans| Counter(loans.copied_bytes);
    "lent_trains", "Long trains of datagrams sent to an output from memory that outputs share.",
        |loans| Counter(loans.trains.lent);
    "lent_trains_copied", "Lent trains that the kernel copied nevertheless.",
        |loans| Counter(loans.trains.copied_although_lent);
    "out_bytes", "Memory of lent trains that the network may still use, as of the last lent train of each thread.",
        |loans| Gauge(loans.trains.bytes_out);
};

const STREAM: &[Metric<StreamSnapshot>] = metrics! {
    "in_bytes", "Bytes read by a stream.", |stream| Counter(stream.status.bytes_in);
    "in_records", "Records read by a stream that divides its inputs.", |stream| Counter(stream.status.records_in);
    "zero_copy_bytes", "Bytes moved without a copy to the process.", |stream| Counter(stream.status.zero_copy_bytes);
    "out_bytes", "Bytes written to outputs, including ended ones.", |stream| Counter(stream.status.bytes_out);
    "lent_bytes", "Bytes of long trains of datagrams that were copied once for all outputs.",
        |stream| Counter(stream.status.lent_bytes);
    "malformed_datagrams", "Malformed datagrams dropped.", |stream| Counter(stream.status.malformed.records);
    "malformed_bytes", "Bytes of malformed datagrams dropped.", |stream| Counter(stream.status.malformed.bytes);
    "outputs_failed", "Outputs that failed.", |stream| Counter(stream.status.gone_outputs.failed);
    "outputs_disconnected", "Outputs disconnected because they fell behind.",
        |stream| Counter(stream.status.gone_outputs.disconnected);
    "running", "1 for a stream that runs.", |stream| Gauge(u64::from(stream.state == StreamState::Running));
};

const OUTPUT: &[Metric<OutputStatus>] = metrics! {
    "out_bytes", "Bytes written to an output.", |output| Counter(output.bytes);
    "waiting_bytes", "Bytes that wait for an output.", |output| Gauge(output.waiting_bytes);
    "dropped_bytes", "Bytes dropped for an output that fell behind or ended.",
        |output| Counter(output.dropped.bytes);
    "dropped_records", "Records dropped for an output that fell behind or ended.",
        |output| Counter(output.dropped.records);
    "lost_bytes", "Bytes of datagrams without a route, filtered or too long.",
        |output| Counter(output.lost_bytes);
    "icmp_errors", "ICMP errors about datagrams: destination unreachable.",
        |output| Counter(output.icmp_errors);
    "gone", "1 for an ended output; the last 64 are shown.", |output| Gauge(u64::from(output.why_gone.is_some()));
};

/// Value reported by a handler, or by an order that merges records or shares.
const REPORT: &[Metric<u64>] = metrics! {
    "value", "Value that a handler or an order reports.", |value| Gauge(*value);
};

const CLASS: &[Metric<ClassSum>] = metrics! {
    "streams", "Streams of a class that run.", |class| Gauge(class.running);
    "in_bytes", "Bytes read by the streams of a class.", |class| Counter(class.bytes_in);
    "out_bytes", "Bytes written by the streams of a class.", |class| Counter(class.bytes_out);
};

/// Metrics shown if classes share processor time.
const STREAM_TIME: &[Metric<StreamSnapshot>] = metrics! {
    "cpu_seconds", "Processor time of a stream.",
        |stream| Sum(stream.status.processor_time.unwrap_or_default().as_secs_f64());
};

/// Metrics shown if classes share processor time.
const CLASS_TIME: &[Metric<ClassSum>] = metrics! {
    "cpu_seconds", "Processor time of a class's streams.", |class| Sum(class.processor_time.as_secs_f64());
};

/// Adds the latest snapshots of streams to metrics and status. Classes of `sharing` are shown even if they
/// have no streams.
pub(super) fn register(
    latest: &LatestSnapshots,
    sharing: &Sharing,
    lending: &LendingSwitch,
    metrics: &mut Metrics,
    status: &mut Status,
) {
    let load = loader(latest);
    metrics.register("relay", RELAY, move || totals(&load()));
    let load = loader(latest);
    let lending = lending.clone();
    metrics.register("loans", LENDING, move || Loans::of(&lending));
    let names: Vec<String> = sharing.classes.iter().map(|class| class.name.clone()).collect();
    let classes = move || {
        let streams = load();
        names.iter().map(|name| (vec![("class", name.clone())], ClassSum::of(name, &streams))).collect()
    };
    metrics.register_rows("class", CLASS, classes.clone());
    let load = loader(latest);
    let all = move || load().iter().map(|stream| (labels(stream), stream.clone())).collect();
    metrics.register_rows("stream", STREAM, all.clone());
    if sharing.is_of_processor_time() {
        metrics.register_rows("class", CLASS_TIME, classes);
        metrics.register_rows("stream", STREAM_TIME, all);
    }
    let load = loader(latest);
    metrics.register_rows("stream_output", OUTPUT, move || load().iter().flat_map(outputs).collect());
    let load = loader(latest);
    metrics.register_rows("stream_report", REPORT, move || load().iter().flat_map(reports).collect());
    status.add("schema", || json!("wirepath-relay-status/1"));
    let load = loader(latest);
    status.add("streams", move || load().iter().map(status_json).collect());
}

/// Loader of the latest stored snapshots.
fn loader(latest: &LatestSnapshots) -> impl Fn() -> Arc<Vec<StreamSnapshot>> + Clone + 'static {
    let latest = latest.clone();
    move || latest.load()
}

fn status_json(stream: &StreamSnapshot) -> Json {
    let mut json = stream_report(stream);
    json["bits_per_second_in"] = json!(stream.rates.bits_in);
    json["bits_per_second_out"] = json!(stream.rates.bits_out);
    json["cpu_percent"] = json!(stream.rates.processor.map(|thousandths| thousandths as f64 / 10.0));
    json
}

fn labels(stream: &StreamSnapshot) -> Labels {
    vec![("stream", stream.name.clone()), ("class", stream.class.clone())]
}

fn totals(streams: &[StreamSnapshot]) -> Totals {
    let mut totals = Totals::default();
    streams.iter().for_each(|stream| totals.add(stream.state, 1));
    totals
}

fn ended(totals: &Totals) -> Vec<(&'static str, u64)> {
    let states = [StreamState::Ended, StreamState::Failed, StreamState::Stopped];
    states.map(|state| (state.name(), totals.of(state))).into()
}

/// Outputs of a stream, including ended ones. The port label distinguishes outputs with the same name.
fn outputs(stream: &StreamSnapshot) -> impl Iterator<Item = (Labels, OutputStatus)> {
    let all = stream.status.outputs.iter().chain(&stream.status.ended_outputs);
    all.map(|output| {
        let own = [("port", output.port.to_string()), ("output", output.name.clone())];
        (labels(stream).into_iter().chain(own).collect(), output.clone())
    })
}

/// Reports of a stream's handlers, of its order, and of the handlers of each output. A number distinguishes
/// handlers with the same name.
fn reports(stream: &StreamSnapshot) -> Vec<(Labels, u64)> {
    let status = &stream.status;
    let merge = status.merge.iter().flat_map(|merge| {
        [("late", merge.late), ("untagged", merge.untagged), ("unawaited", merge.unawaited)]
            .map(|(what, value)| ("merge", what, value))
    });
    let join = status.join.iter().flat_map(|join| {
        let counts = [
            ("incomplete", join.incomplete),
            ("spare", join.spare),
            ("unkeyed", join.unkeyed),
            ("too_long", join.too_long),
        ];
        counts.map(|(what, value)| ("join", what, value))
    });
    let shares = status.shares.iter().flat_map(|shares| {
        let counts = [
            ("lost", shares.lost),
            ("spare", shares.spare),
            ("damaged", shares.damaged),
            ("foreign", shares.foreign),
        ];
        counts.map(|(what, value)| ("shares", what, value))
    });
    let of_stream = status.reports.iter().copied().chain(merge).chain(join).chain(shares);
    let of_outputs = status
        .outputs
        .iter()
        .flat_map(|output| output.reports.iter().map(|report| (output.port.to_string(), *report)));
    let all = of_stream.map(|report| (String::new(), report)).chain(of_outputs);
    let row = |(place, (port, (handler, what, value))): (usize, (String, (&str, &str, u64)))| {
        let (handler, what, place) = (handler.to_owned(), what.to_owned(), place.to_string());
        let own = [("port", port), ("handler", handler), ("what", what), ("place", place)];
        (labels(stream).into_iter().chain(own).collect(), value)
    };
    all.enumerate().map(row).collect()
}

impl ClassSum {
    fn of(name: &str, streams: &[StreamSnapshot]) -> ClassSum {
        let members = streams.iter().filter(|stream| stream.class == name);
        members.fold(ClassSum::default(), |sum, stream| ClassSum {
            running: sum.running + u64::from(stream.state == StreamState::Running),
            bytes_in: sum.bytes_in + stream.status.bytes_in,
            bytes_out: sum.bytes_out + stream.status.bytes_out,
            processor_time: sum.processor_time + stream.status.processor_time.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests;
