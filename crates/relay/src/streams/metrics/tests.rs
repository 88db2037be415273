use std::time::Instant;

use wirepath_engine::{Class, Policy, Round};
use wirepath_streams::handlers::Meter;
use wirepath_streams::{
    Dropped, Framing, GoneOutputs, Handler, JoinCounts, Object, StreamBuilder, StreamStatus,
};

use super::*;

/// Snapshots of a stream that copied three lines, and of a stream that has not started.
fn snapshot() -> LatestSnapshots {
    let mut stream = StreamBuilder::default()
        .handler(Handler::Read(Box::new(Meter::default())))
        .input(Object::memory("lines", (&b"one\ntwo\nthree\n"[..]).into()), Framing::lines(100))
        .output(Object::collect("a \"copy\"", 100).0)
        .build();
    stream.run().unwrap();
    let (status, class) = (stream.status(), "live".to_owned());
    let copy = StreamSnapshot {
        name: "copy".to_owned(),
        class: class.clone(),
        state: StreamState::Running,
        status,
        ..StreamSnapshot::default()
    };
    let mut cut = copy.clone();
    cut.name = "cut".to_owned();
    let output = cut.status.outputs.remove(0);
    let dropped = Dropped { records: 1, bytes: 4 };
    let why_gone = Some("it failed".to_owned());
    cut.status.ended_outputs.push(OutputStatus { bytes: 10, dropped, icmp_errors: 7, why_gone, ..output });
    cut.status.gone_outputs = GoneOutputs { failed: 1, disconnected: 2, detached: 3 };
    cut.status.join = Some(JoinCounts { incomplete: 3, ..JoinCounts::default() });
    cut.status.malformed = Dropped { records: 5, bytes: 50 };
    let waiting = StreamSnapshot { name: "waiting".to_owned(), class, ..StreamSnapshot::default() };
    let snapshot = LatestSnapshots::default();
    snapshot.store(vec![copy, waiting, cut]);
    snapshot
}

/// Promise: `docs/relay.md` has a row for every metric of loans, with its meaning.
#[test]
fn the_document_has_every_metric_of_loans() {
    let document = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/relay.md");
    let document = std::fs::read_to_string(document).unwrap();
    let (text, _) = shown(&LatestSnapshots::default());
    let described =
        text.lines().filter_map(|line| line.strip_prefix("# HELP wirepath_loans_")?.split_once(' '));
    let rows: Vec<String> = described
        .map(|(name, help)| {
            let is_counter = text.contains(&format!("# TYPE wirepath_loans_{name} counter"));
            let (total, kind) = if is_counter { ("_total", "counter") } else { ("", "gauge") };
            format!("| `wirepath_loans_{name}{total}` | {kind} | {help} |")
        })
        .collect();
    assert_eq!(rows.len(), LENDING.len(), "{text}");
    let known = document.lines().filter(|line| line.starts_with("| `wirepath_loans_") && !line.contains('*'));
    assert_eq!(known.collect::<Vec<_>>(), rows);
}

fn shown(snapshot: &LatestSnapshots) -> (String, Json) {
    shown_under(snapshot, Policy::BestEffort)
}

fn shown_under(snapshot: &LatestSnapshots, policy: Policy) -> (String, Json) {
    let (mut metrics, mut status) = (Metrics::default(), Status::new(Instant::now()));
    let class = |name: &str| Class { name: name.to_owned(), priority: 0, share: 1, rate: None };
    let sharing = Sharing { policy, classes: vec![class("live"), class("empty")] };
    register(snapshot, &sharing, &LendingSwitch::default(), &mut metrics, &mut status);
    (metrics.text(), status.json(&metrics, Instant::now()))
}

/// Promise: `resource = "cpu"` shares processor time, and the status shows the share of each class.
#[test]
fn processor_time_is_shown_where_it_is_shared() {
    let row = |name: &str, ms| {
        let processor_time = Some(Duration::from_millis(ms));
        let status = StreamStatus { processor_time, ..StreamStatus::default() };
        StreamSnapshot {
            name: name.to_owned(),
            class: "live".to_owned(),
            status,
            ..StreamSnapshot::default()
        }
    };
    let snapshot = LatestSnapshots::default();
    snapshot.store(vec![row("one", 1500), row("two", 250)]);
    let round = Round::ProcessorTime(1);
    let (text, status) = shown_under(&snapshot, Policy::FairShare { round, carry_percent: 0 });
    for line in [
        "wirepath_class_cpu_seconds_total{class=\"live\"} 1.75",
        "wirepath_class_cpu_seconds_total{class=\"empty\"} 0.0",
        "wirepath_stream_cpu_seconds_total{stream=\"two\",class=\"live\"} 0.25",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} in\n{text}");
    }
    assert_eq!(status["streams"][0]["cpu_seconds"], 1.5);
    assert!(!shown(&snapshot).0.contains("cpu"), "nobody measures it");
}

/// Promise: `/metrics` and `/api/status` show bytes, drops and handler counts of each stream and output.
#[test]
fn every_count_is_shown_with_whose_it_is() {
    let (text, _) = shown(&snapshot());
    for line in [
        "wirepath_relay_streams 2",
        "wirepath_relay_streams_opening 1",
        "wirepath_relay_streams_ended_total{how=\"failed\"} 0",
        "wirepath_class_streams{class=\"live\"} 2",
        "wirepath_class_in_bytes_total{class=\"live\"} 28",
        "wirepath_class_out_bytes_total{class=\"empty\"} 0",
        "wirepath_stream_in_bytes_total{stream=\"copy\",class=\"live\"} 14",
        "wirepath_stream_in_records_total{stream=\"copy\",class=\"live\"} 3",
        "wirepath_stream_running{stream=\"waiting\",class=\"live\"} 0",
        "wirepath_stream_output_out_bytes_total{stream=\"copy\",class=\"live\",port=\"0\",output=\"a \\\"copy\\\"\"} 14",
        "wirepath_stream_output_gone{stream=\"copy\",class=\"live\",port=\"0\",output=\"a \\\"copy\\\"\"} 0",
        "wirepath_stream_output_gone{stream=\"cut\",class=\"live\",port=\"0\",output=\"a \\\"copy\\\"\"} 1",
        "wirepath_stream_output_dropped_bytes_total{stream=\"cut\",class=\"live\",port=\"0\",output=\"a \\\"copy\\\"\"} 4",
        "wirepath_stream_output_icmp_errors_total{stream=\"cut\",class=\"live\",port=\"0\",output=\"a \\\"copy\\\"\"} 7",
        "wirepath_stream_outputs_failed_total{stream=\"cut\",class=\"live\"} 1",
        "wirepath_stream_outputs_disconnected_total{stream=\"cut\",class=\"live\"} 2",
        "wirepath_stream_malformed_datagrams_total{stream=\"cut\",class=\"live\"} 5",
        "wirepath_stream_malformed_bytes_total{stream=\"cut\",class=\"live\"} 50",
        "wirepath_stream_malformed_bytes_total{stream=\"copy\",class=\"live\"} 0",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} in\n{text}");
    }
    let report = "wirepath_stream_report_value{stream=\"copy\",class=\"live\",port=\"\",handler=\"meter\",what=\"bytes\"";
    assert!(text.contains(report), "{text}");
    let joined = "wirepath_stream_report_value{stream=\"cut\",class=\"live\",port=\"\",handler=\"join\",what=\"incomplete\"";
    assert!(text.lines().any(|line| line.starts_with(joined) && line.ends_with(" 3")), "{text}");
    let mut lines: Vec<&str> =
        text.lines().map(|line| line.rsplit_once(' ').map_or(line, |(name, _)| name)).collect();
    let all = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), all, "a number is there twice");
}

#[test]
fn the_status_has_each_stream() {
    let (_, status) = shown(&snapshot());
    assert_eq!(status["schema"], "wirepath-relay-status/1");
    let streams = status["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 3);
    assert_eq!((&streams[0]["bytes_in"], &streams[0]["state"]), (&json!(14), &json!("running")));
    assert_eq!((&streams[1]["name"], &streams[1]["state"]), (&json!("waiting"), &json!("opening")));
    assert_eq!(status["counters"]["relay"]["streams"], 2);
}

#[test]
fn nothing_was_seen_yet() {
    let (text, status) = shown(&LatestSnapshots::default());
    assert!(text.contains("wirepath_relay_streams 0") && !text.contains("wirepath_stream_"), "{text}");
    assert_eq!(status["streams"], json!([]));
}
