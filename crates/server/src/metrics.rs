//! `GET /metrics`: every number the server counts, in the OpenMetrics text format.
//!
//! Who counts something declares it once, in a table of [`Metric`]s, and [registers](Metrics::register) the table
//! with a function that takes a snapshot of the numbers. The snapshot is taken when somebody asks, so counting
//! costs nothing more than the counter. `/api/status` shows the same tables.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use serde_json::{Map, Value as Json, json};
use std::fmt;
use std::sync::Arc;

/// The content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Prefix of all names.
const PREFIX: &str = "wirepath";

/// One number of a snapshot `T`, declared.
#[derive(Debug)]
pub struct Metric<T> {
    /// Name without prefix, section, unit and `_total`, in lower case with underscores.
    pub name: &'static str,
    /// One sentence for people, without a full stop.
    pub help: &'static str,
    /// The unit, in plural: `bytes`, `seconds`. None for a count of things the name says.
    pub unit: Option<&'static str>,
    /// The number.
    pub read: fn(&T) -> Value,
}

/// A number.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// It only ever goes up.
    Counter(u64),
    /// Counters told apart by a label: the label's name, then pairs of its value and the counter.
    Counters(&'static str, Vec<(&'static str, u64)>),
    /// It only ever goes up, in parts of its unit.
    Sum(f64),
    /// It goes up and down.
    Gauge(f64),
    /// How often which size.
    Histogram(Histogram),
}

/// A histogram in the metric's unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Number of all values.
    pub count: u64,
    /// Sum of all values.
    pub sum: f64,
    /// Pairs of an upper end and the number of values at most that large, both ascending.
    pub at_most: Vec<(f64, u64)>,
}

/// What tells a row of a table from others: names of labels and their values.
pub type Labels = Vec<(&'static str, String)>;

/// All tables of numbers.
#[derive(Debug, Default)]
pub struct Metrics {
    sections: Vec<Arc<dyn Section>>,
    registry: Registry,
}

impl Metrics {
    /// Adds a table under a name of one lower-case word (`http`, `engine`). `snapshot` must be quick.
    pub fn register<T: 'static>(
        &mut self,
        name: &'static str,
        table: &'static [Metric<T>],
        snapshot: impl Fn() -> T + Send + Sync + 'static,
    ) {
        let section = Arc::new(Table { name, table, snapshot: Box::new(snapshot) });
        self.registry.register_collector(Box::new(Arc::clone(&section)));
        self.sections.push(section);
    }

    /// Adds a table of what there is many of, such as streams, which `labels` tell apart; no two rows may have the same. `rows` takes a
    /// snapshot of all of them, and must be quick. They are not in [`Metrics::json`]: whoever has rows shows them in
    /// [`Status`](crate::status::Status), each as one object.
    pub fn register_rows<T: 'static>(
        &mut self,
        name: &'static str,
        table: &'static [Metric<T>],
        labels: fn(&T) -> Labels,
        rows: impl Fn() -> Vec<T> + Send + Sync + 'static,
    ) {
        self.registry.register_collector(Box::new(Rows { name, table, labels, rows: Box::new(rows) }));
    }

    /// All numbers as OpenMetrics text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }

    /// All numbers as JSON: section, then name with unit, then value.
    pub fn json(&self) -> Json {
        Json::Object(
            self.sections.iter().map(|section| (section.name().to_owned(), section.json())).collect(),
        )
    }
}

/// A table with its numbers, whatever their type.
trait Section: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;
    fn json(&self) -> Json;
}

struct Table<T: 'static> {
    name: &'static str,
    table: &'static [Metric<T>],
    snapshot: Box<dyn Fn() -> T + Send + Sync>,
}

impl<T> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({}, {} metrics)", self.name, self.table.len())
    }
}

impl<T> Section for Table<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn json(&self) -> Json {
        let snapshot = (self.snapshot)();
        let entry = |metric: &Metric<T>| (metric.json_name(), (metric.read)(&snapshot).json());
        Json::Object(self.table.iter().map(entry).collect())
    }
}

impl<T> Collector for Table<T> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = (self.snapshot)();
        self.table.iter().try_for_each(|metric| metric.encode(self.name, &snapshot, &mut encoder))
    }
}

/// A table with as many values of each metric as there are rows.
struct Rows<T: 'static> {
    name: &'static str,
    table: &'static [Metric<T>],
    labels: fn(&T) -> Labels,
    rows: Box<dyn Fn() -> Vec<T> + Send + Sync>,
}

impl<T> fmt::Debug for Rows<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rows({}, {} metrics)", self.name, self.table.len())
    }
}

impl<T> Collector for Rows<T> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let rows = (self.rows)();
        let labelled: Vec<(Labels, &T)> = rows.iter().map(|row| ((self.labels)(row), row)).collect();
        self.table.iter().try_for_each(|metric| metric.encode_rows(self.name, &labelled, &mut encoder))
    }
}

impl<T> Metric<T> {
    fn encode_rows(
        &self,
        section: &str,
        rows: &[(Labels, &T)],
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let Some((_, first)) = rows.first() else { return Ok(()) };
        let ((name, unit), kind) = (self.described(section), (self.read)(first).kind());
        let mut family = encoder.encode_descriptor(&name, self.help, unit.as_ref(), kind)?;
        rows.iter().try_for_each(|(labels, row)| (self.read)(row).encode_labelled(labels, &mut family))
    }

    fn json_name(&self) -> String {
        self.unit.map_or_else(|| self.name.to_owned(), |unit| format!("{}_{unit}", self.name))
    }

    fn encode(&self, section: &str, snapshot: &T, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let value = (self.read)(snapshot);
        let (name, unit) = self.described(section);
        value.encode(encoder.encode_descriptor(&name, self.help, unit.as_ref(), value.kind())?)
    }

    /// What it is called, and its unit.
    fn described(&self, section: &str) -> (String, Option<Unit>) {
        let unit = self.unit.map(|unit| Unit::Other(unit.to_owned()));
        (format!("{PREFIX}_{section}_{}", self.name), unit)
    }
}

/// No exemplars here; the encoder wants their type.
type NoExemplar<'a> = Option<&'a Exemplar<[(&'static str, &'static str); 0], f64>>;

impl Value {
    fn kind(&self) -> MetricType {
        match self {
            Self::Counter(_) | Self::Counters(..) | Self::Sum(_) => MetricType::Counter,
            Self::Gauge(_) => MetricType::Gauge,
            Self::Histogram(_) => MetricType::Histogram,
        }
    }

    /// With the labels of its row.
    fn encode_labelled(&self, labels: &Labels, family: &mut MetricEncoder<'_>) -> fmt::Result {
        let Self::Counters(label, counts) = self else { return self.encode(family.encode_family(labels)?) };
        // A family within a family would have its own labels alone.
        counts.iter().try_for_each(|(value, count)| {
            let own = [(*label, (*value).to_owned())];
            let all: Labels = labels.iter().cloned().chain(own).collect();
            Self::Counter(*count).encode(family.encode_family(&all)?)
        })
    }

    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let none: NoExemplar<'_> = None;
        match self {
            Self::Counter(count) => encoder.encode_counter(count, none),
            Self::Counters(label, counts) => counts.iter().try_for_each(|(value, count)| {
                encoder.encode_family(&[(*label, *value)])?.encode_counter(count, none)
            }),
            Self::Sum(sum) => encoder.encode_counter(sum, none),
            Self::Gauge(value) => encoder.encode_gauge(value),
            Self::Histogram(histogram) => encoder.encode_histogram::<[(&str, &str); 0]>(
                histogram.sum,
                histogram.count,
                &histogram.buckets(),
                None,
            ),
        }
    }

    fn json(&self) -> Json {
        match self {
            Self::Counter(count) => json!(count),
            Self::Counters(_, counts) => {
                Json::Object(counts.iter().map(|&(value, count)| (value.to_owned(), json!(count))).collect())
            }
            // A count is written as one, as counters are; 2^53 is the last that a float has for certain.
            Self::Gauge(value) if value.fract() == 0.0 && value.abs() < 9e15 => json!(*value as i64),
            Self::Gauge(value) | Self::Sum(value) => json!(value),
            Self::Histogram(histogram) => histogram.json(),
        }
    }
}

impl Histogram {
    /// As JSON: `count`, `sum`, and `at_most` as a list of pairs.
    pub fn json(&self) -> Json {
        let mut object = Map::new();
        object.insert("count".into(), json!(self.count));
        object.insert("sum".into(), json!(self.sum));
        object.insert("at_most".into(), json!(self.at_most));
        Json::Object(object)
    }

    /// Counts of each bucket alone, which is what the encoder sums up; the last bucket has no end.
    fn buckets(&self) -> Vec<(f64, u64)> {
        let mut before = 0;
        let ends = self.at_most.iter().copied().chain([(f64::INFINITY, self.count)]);
        ends.map(|(end, at_most)| {
            let count = at_most.saturating_sub(before);
            before = before.max(at_most);
            (end, count)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers {
        sent: u64,
        open: f64,
    }

    const TABLE: &[Metric<Numbers>] = &[
        Metric {
            name: "sent",
            help: "Bytes sent",
            unit: Some("bytes"),
            read: |numbers| Value::Counter(numbers.sent),
        },
        Metric { name: "open", help: "Doors open", unit: None, read: |numbers| Value::Gauge(numbers.open) },
        Metric {
            name: "answers",
            help: "Answers by colour",
            unit: None,
            read: |_| Value::Counters("colour", vec![("red", 1), ("blue", 2)]),
        },
        Metric {
            name: "lateness",
            help: "How late",
            unit: Some("seconds"),
            read: |_| Value::Histogram(Histogram { count: 6, sum: 1.5, at_most: vec![(0.5, 2), (1.0, 5)] }),
        },
    ];

    fn metrics() -> Metrics {
        let mut metrics = Metrics::default();
        metrics.register("test", TABLE, || Numbers { sent: 7, open: 2.0 });
        metrics
    }

    #[test]
    fn text_for_prometheus() {
        assert_eq!(
            metrics().text(),
            "# HELP wirepath_test_sent_bytes Bytes sent\n\
             # TYPE wirepath_test_sent_bytes counter\n\
             # UNIT wirepath_test_sent_bytes bytes\n\
             wirepath_test_sent_bytes_total 7\n\
             # HELP wirepath_test_open Doors open\n\
             # TYPE wirepath_test_open gauge\n\
             wirepath_test_open 2.0\n\
             # HELP wirepath_test_answers Answers by colour\n\
             # TYPE wirepath_test_answers counter\n\
             wirepath_test_answers_total{colour=\"red\"} 1\n\
             wirepath_test_answers_total{colour=\"blue\"} 2\n\
             # HELP wirepath_test_lateness_seconds How late\n\
             # TYPE wirepath_test_lateness_seconds histogram\n\
             # UNIT wirepath_test_lateness_seconds seconds\n\
             wirepath_test_lateness_seconds_sum 1.5\n\
             wirepath_test_lateness_seconds_count 6\n\
             wirepath_test_lateness_seconds_bucket{le=\"0.5\"} 2\n\
             wirepath_test_lateness_seconds_bucket{le=\"1.0\"} 5\n\
             wirepath_test_lateness_seconds_bucket{le=\"+Inf\"} 6\n\
             # EOF\n"
        );
    }

    #[test]
    fn rows_are_told_apart_by_their_labels_whatever_is_in_them() {
        struct Sheep {
            name: &'static str,
            legs: u64,
        }
        const SHEEP: &[Metric<Sheep>] = &[
            Metric { name: "legs", help: "Legs", unit: None, read: |sheep| Value::Gauge(sheep.legs as f64) },
            Metric { name: "wool", help: "Wool", unit: Some("grams"), read: |_| Value::Counter(7) },
            Metric { name: "slept", help: "Sleep", unit: Some("seconds"), read: |_| Value::Sum(1.5) },
            Metric {
                name: "sounds",
                help: "Sounds by what they were",
                unit: None,
                read: |_| Value::Counters("sound", vec![("baa", 1), ("maa", 2)]),
            },
        ];
        let text_of = |names: &'static [(&'static str, u64)]| {
            let mut metrics = Metrics::default();
            let rows = || names.iter().map(|&(name, legs)| Sheep { name, legs }).collect();
            metrics.register_rows("sheep", SHEEP, |sheep| vec![("name", sheep.name.to_owned())], rows);
            assert_eq!(metrics.json(), json!({}));
            metrics.text()
        };
        assert_eq!(
            text_of(&[("Dolly", 4), ("a\"}\n", 3)]),
            "# HELP wirepath_sheep_legs Legs\n\
             # TYPE wirepath_sheep_legs gauge\n\
             wirepath_sheep_legs{name=\"Dolly\"} 4.0\n\
             wirepath_sheep_legs{name=\"a\\\"}\\n\"} 3.0\n\
             # HELP wirepath_sheep_wool_grams Wool\n\
             # TYPE wirepath_sheep_wool_grams counter\n\
             # UNIT wirepath_sheep_wool_grams grams\n\
             wirepath_sheep_wool_grams_total{name=\"Dolly\"} 7\n\
             wirepath_sheep_wool_grams_total{name=\"a\\\"}\\n\"} 7\n\
             # HELP wirepath_sheep_slept_seconds Sleep\n\
             # TYPE wirepath_sheep_slept_seconds counter\n\
             # UNIT wirepath_sheep_slept_seconds seconds\n\
             wirepath_sheep_slept_seconds_total{name=\"Dolly\"} 1.5\n\
             wirepath_sheep_slept_seconds_total{name=\"a\\\"}\\n\"} 1.5\n\
             # HELP wirepath_sheep_sounds Sounds by what they were\n\
             # TYPE wirepath_sheep_sounds counter\n\
             wirepath_sheep_sounds_total{name=\"Dolly\",sound=\"baa\"} 1\n\
             wirepath_sheep_sounds_total{name=\"Dolly\",sound=\"maa\"} 2\n\
             wirepath_sheep_sounds_total{name=\"a\\\"}\\n\",sound=\"baa\"} 1\n\
             wirepath_sheep_sounds_total{name=\"a\\\"}\\n\",sound=\"maa\"} 2\n\
             # EOF\n"
        );
        assert_eq!(text_of(&[]), "# EOF\n");
    }

    #[test]
    fn the_same_as_json() {
        let expected = json!({"test": {
            "sent_bytes": 7,
            "open": 2,
            "answers": {"red": 1, "blue": 2},
            "lateness_seconds": {"count": 6, "sum": 1.5, "at_most": [[0.5, 2], [1.0, 5]]},
        }});
        assert_eq!(metrics().json(), expected);
    }
}
