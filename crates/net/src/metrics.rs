//! `GET /metrics`: all counters, as OpenMetrics text.
//!
//! A set of [`Metric`]s, which [`counters!`](wirepath_counters::counters) declares, is
//! [registered](Metrics::register) with a function that takes a snapshot. The snapshot is taken on
//! request, so counting costs nothing more than the counter. `/api/status` shows the same sets.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use serde_json::{Value as Json, json};
use wirepath_counters::{Histogram, Metric, Value};

use crate::process::{PROCESS, Process, THREADS, lasting_threads};

/// Content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Prefix of names, except those of the process.
const PREFIX: &str = "wirepath";

/// Build, described by its labels.
const BUILD: &[Metric<()>] = &[Metric::new("info", "Version of the program.", |()| Value::Gauge(1))];

/// Labels of one row of a set: names and values.
pub type Labels = Vec<(&'static str, String)>;

/// Reads a set as JSON.
type Section = Box<dyn Fn() -> Json + Send + Sync>;

/// All sets of metrics.
#[derive(Default)]
pub struct Metrics {
    sections: Vec<(&'static str, Section)>,
    registry: Registry,
}

impl Metrics {
    /// Metrics of the process, which starts now, of its engine threads and of its build.
    pub fn of_process() -> Metrics {
        let mut metrics = Metrics::default();
        let start = SystemTime::now();
        metrics.register("process", PROCESS, move || Process::read(start));
        let threads =
            || lasting_threads().into_iter().map(|(name, cpu)| (vec![("thread", name)], cpu)).collect();
        metrics.register_rows("thread", THREADS, threads);
        let version = || vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        metrics.register_rows("build", BUILD, move || vec![(version(), ())]);
        metrics
    }

    /// Adds a set under a name of one lower-case word (`http`, `engine`). `snapshot` must be quick.
    pub fn register<T: 'static>(
        &mut self,
        name: &'static str,
        metrics: &'static [Metric<T>],
        snapshot: impl Fn() -> T + Send + Sync + 'static,
    ) {
        let snapshot = Arc::new(snapshot);
        let row = Arc::clone(&snapshot);
        self.register_rows(name, metrics, move || vec![(Labels::new(), row())]);
        let json = move || {
            let snapshot = snapshot();
            let entry = |metric: &Metric<T>| (metric.name.to_owned(), to_json(&(metric.read)(&snapshot)));
            Json::Object(metrics.iter().map(entry).collect())
        };
        self.sections.push((name, Box::new(json)));
    }

    /// Adds a set with a row for each of several objects, such as streams; no two rows may have the same
    /// labels. `rows` takes a snapshot of all rows, and must be quick. Rows are not in [`Metrics::json`]: the
    /// [status](crate::status::Status) shows them, each as one object.
    pub fn register_rows<T: 'static>(
        &mut self,
        name: &'static str,
        metrics: &'static [Metric<T>],
        rows: impl Fn() -> Vec<(Labels, T)> + Send + Sync + 'static,
    ) {
        self.registry.register_collector(Box::new(Set { name, metrics, rows: Box::new(rows) }));
    }

    /// Formats all metrics as OpenMetrics text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }

    /// Formats all metrics as JSON: section, then name with unit, then value.
    pub fn json(&self) -> Json {
        Json::Object(self.sections.iter().map(|(name, json)| ((*name).to_owned(), json())).collect())
    }
}

/// Set with a value of each metric for each row.
struct Set<T: 'static> {
    name: &'static str,
    metrics: &'static [Metric<T>],
    rows: Box<dyn Fn() -> Vec<(Labels, T)> + Send + Sync>,
}

impl<T> fmt::Debug for Set<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Set({}, {} metrics)", self.name, self.metrics.len())
    }
}

impl<T> Collector for Set<T> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let rows = (self.rows)();
        self.metrics.iter().try_for_each(|metric| encode_metric(metric, self.name, &rows, &mut encoder))
    }
}

/// Encodes one metric with all its rows; nothing without rows.
fn encode_metric<T>(
    metric: &Metric<T>,
    section: &str,
    rows: &[(Labels, T)],
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let Some((_, first)) = rows.first() else { return Ok(()) };
    let unit = metric.unit().map(|unit| Unit::Other(unit.to_owned()));
    // The encoder adds the unit.
    let bare = metric.unit().map_or(metric.name, |unit| &metric.name[..metric.name.len() - unit.len() - 1]);
    let name = match section {
        // Names as in the Prometheus clients for other languages.
        "process" => format!("process_{bare}"),
        section => format!("{PREFIX}_{section}_{bare}"),
    };
    let mut family =
        encoder.encode_descriptor(&name, metric.help, unit.as_ref(), kind(&(metric.read)(first)))?;
    rows.iter().try_for_each(|(labels, row)| encode_value(&(metric.read)(row), labels, &mut family))
}

fn kind(value: &Value) -> MetricType {
    match value {
        Value::Counter(_) | Value::Counters(..) | Value::Sum(_) => MetricType::Counter,
        Value::Gauge(_) => MetricType::Gauge,
        Value::Histogram(_) => MetricType::Histogram,
    }
}

/// Exemplar type required by the encoder; there are no exemplars.
type NoExemplar<'a> = Option<&'a Exemplar<[(&'static str, &'static str); 0], f64>>;

fn encode_value(value: &Value, labels: &Labels, family: &mut MetricEncoder<'_>) -> fmt::Result {
    match value {
        Value::Counters(label, counts) => counts.iter().try_for_each(|(value, count)| {
            let own = [(*label, (*value).to_owned())];
            let all: Labels = labels.iter().cloned().chain(own).collect();
            encode_number(&Value::Counter(*count), &mut family.encode_family(&all)?)
        }),
        number if labels.is_empty() => encode_number(number, family),
        number => encode_number(number, &mut family.encode_family(labels)?),
    }
}

fn encode_number(value: &Value, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
    let none: NoExemplar<'_> = None;
    match value {
        Value::Counter(count) => encoder.encode_counter(count, none),
        Value::Sum(sum) => encoder.encode_counter(sum, none),
        Value::Gauge(value) => encoder.encode_gauge(value),
        Value::Histogram(histogram) => encoder.encode_histogram::<[(&str, &str); 0]>(
            histogram.sum,
            histogram.count,
            &buckets(histogram),
            None,
        ),
        Value::Counters(..) => unreachable!("a family is written number by number"),
    }
}

/// Counts of single buckets, which the encoder accumulates; the last bucket has no upper bound.
fn buckets(histogram: &Histogram) -> Vec<(f64, u64)> {
    let mut before = 0;
    let ends = histogram.at_most.iter().copied().chain([(f64::INFINITY, histogram.count)]);
    ends.map(|(end, at_most)| {
        let count = at_most.saturating_sub(before);
        before = before.max(at_most);
        (end, count)
    })
    .collect()
}

fn to_json(value: &Value) -> Json {
    match value {
        Value::Counter(count) | Value::Gauge(count) => json!(count),
        Value::Counters(_, counts) => {
            Json::Object(counts.iter().map(|&(value, count)| (value.to_owned(), json!(count))).collect())
        }
        Value::Sum(sum) => json!(sum),
        Value::Histogram(Histogram { count, sum, at_most }) => {
            json!({"count": count, "sum": sum, "at_most": at_most})
        }
    }
}

#[cfg(test)]
mod tests;
