use super::*;

struct Numbers {
    sent: u64,
    open: u64,
}

const TABLE: &[Metric<Numbers>] = &[
    Metric::new("sent_bytes", "Bytes sent", |numbers| Value::Counter(numbers.sent)),
    Metric::new("open", "Connections open", |numbers| Value::Gauge(numbers.open)),
    Metric::new("answers", "Answers by colour", |_| Value::Counters("colour", vec![("red", 1), ("blue", 2)])),
    Metric::new("lateness_seconds", "How late", |_| {
        Value::Histogram(Histogram { count: 6, sum: 1.5, at_most: vec![(0.5, 2), (1.0, 5)] })
    }),
];

fn metrics() -> Metrics {
    let mut metrics = Metrics::default();
    metrics.register("test", TABLE, || Numbers { sent: 7, open: 2 });
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
         # HELP wirepath_test_open Connections open\n\
         # TYPE wirepath_test_open gauge\n\
         wirepath_test_open 2\n\
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

/// Promise: `/metrics` and `/api/status` show bytes, drops and handler counts of each stream and output.
#[test]
fn rows_are_told_apart_by_their_labels_whatever_is_in_them() {
    const SHEEP: &[Metric<u64>] = &[
        Metric::new("legs", "Legs", |legs| Value::Gauge(*legs)),
        Metric::new("wool_bytes", "Wool", |_| Value::Counter(7)),
        Metric::new("slept_seconds", "Sleep", |_| Value::Sum(1.5)),
        Metric::new("sounds", "Sounds by what they were", |_| {
            Value::Counters("sound", vec![("baa", 1), ("maa", 2)])
        }),
    ];
    let text_of = |names: &'static [(&'static str, u64)]| {
        let mut metrics = Metrics::default();
        let rows = || names.iter().map(|&(name, legs)| (vec![("name", name.to_owned())], legs)).collect();
        metrics.register_rows("sheep", SHEEP, rows);
        assert_eq!(metrics.json(), json!({}));
        metrics.text()
    };
    assert_eq!(
        text_of(&[("Dolly", 4), ("a\"}\n", 3)]),
        "# HELP wirepath_sheep_legs Legs\n\
         # TYPE wirepath_sheep_legs gauge\n\
         wirepath_sheep_legs{name=\"Dolly\"} 4\n\
         wirepath_sheep_legs{name=\"a\\\"}\\n\"} 3\n\
         # HELP wirepath_sheep_wool_bytes Wool\n\
         # TYPE wirepath_sheep_wool_bytes counter\n\
         # UNIT wirepath_sheep_wool_bytes bytes\n\
         wirepath_sheep_wool_bytes_total{name=\"Dolly\"} 7\n\
         wirepath_sheep_wool_bytes_total{name=\"a\\\"}\\n\"} 7\n\
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

/// Promise: `/metrics` has the processor time, memory and descriptors of the process, and its version.
#[test]
fn the_process_and_its_build_are_shown() {
    let text = Metrics::of_process().text();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse::<f64>().unwrap()
    };
    assert!(value("process_cpu_seconds_total") >= 0.0);
    for name in ["resident_memory_bytes", "virtual_memory_bytes", "open_fds", "max_fds", "threads"] {
        assert!(value(&format!("process_{name}")) > 0.0, "{name}");
    }
    assert!(value("process_start_time_seconds") > 1.6e9);
    assert_eq!(value(concat!("wirepath_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}")), 1.0);
}
