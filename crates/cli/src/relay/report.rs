//! What a relay did, in words and as JSON.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wirepath_relay::cache::CacheStatus;
use wirepath_streams::{StreamEnd, StreamStatus};

use crate::{format, terminal};

/// One line.
pub(super) fn in_words(status: &StreamStatus, time: Duration) -> String {
    let rate = status.bytes_in as f64 * 8.0 / time.as_secs_f64().max(1e-3);
    let (mut waiting, mut dropped, mut lost) = (0, 0, 0);
    for output in &status.outputs {
        waiting += output.waiting_bytes;
        dropped += output.dropped.bytes;
        lost += output.lost_bytes;
    }
    let mut words = format!(
        "{} in, {} out in {} ({})",
        format::size(status.bytes_in),
        format::size(status.bytes_out),
        format::clock(time.as_secs()),
        format::bit_rate(rate as u64)
    );
    for (what, bytes) in [("waiting", waiting), ("dropped", dropped), ("lost", lost)] {
        if bytes > 0 {
            words += &format!(", {} {what}", format::size(bytes));
        }
    }
    for (handler, what, value) in &status.reports {
        words += &format!(
            ", {handler}: {what} {}",
            if *what == "crc32c" { format!("{value:08x}") } else { format::count(*value) }
        );
    }
    words
}

/// Writes it as JSON to a file, or to standard output for `-`.
pub(super) fn write(end: &StreamEnd, time: Duration, file: &Path) -> Result<()> {
    write_json(&as_json(end, time), file)
}

/// Writes what a cache did, likewise.
pub(super) fn write_cache(status: &CacheStatus, time: Duration, file: &Path) -> Result<()> {
    let mut report = json!({ "schema": "wirepath-relay-cache/1", "seconds": time.as_secs_f64() });
    if let (Value::Object(report), Value::Object(status)) = (&mut report, serde_json::to_value(status)?) {
        report.extend(status);
    }
    write_json(&report, file)
}

/// What a cache did, in one line.
pub(super) fn cache_in_words(status: &CacheStatus) -> String {
    format!(
        "{} requests: {} hits, {} misses, {} shared, {} passed, {} failed; {} from the cache, {} from the origin; {} entries, {}",
        format::count(status.requests),
        format::count(status.hits + status.stale),
        format::count(status.misses),
        format::count(status.shared),
        format::count(status.passed),
        format::count(status.failed),
        format::size(status.bytes_from_cache),
        format::size(status.bytes_from_origin),
        format::count(status.entries),
        format::size(status.bytes_kept),
    )
}

fn write_json(report: &Value, file: &Path) -> Result<()> {
    let text = format!("{report:#}\n");
    if file == Path::new("-") {
        return terminal::print(&text);
    }
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn as_json(end: &StreamEnd, time: Duration) -> Value {
    let status = &end.status;
    let reports = |reports: &[(&str, &str, u64)]| -> Vec<Value> {
        let report = |(handler, what, value): &(&str, &str, u64)| json!({"handler": handler, "what": what, "value": value});
        reports.iter().map(report).collect()
    };
    let outputs: Vec<Value> = status
        .outputs
        .iter()
        .map(|output| {
            json!({
                "name": output.name,
                "bytes": output.bytes,
                "waiting_bytes": output.waiting_bytes,
                "dropped_records": output.dropped.records,
                "dropped_bytes": output.dropped.bytes,
                "lost_bytes": output.lost_bytes,
                "reports": reports(&output.reports),
            })
        })
        .collect();
    json!({
        "schema": "wirepath-relay/1",
        "error": end.result.as_ref().err().map(ToString::to_string),
        "seconds": time.as_secs_f64(),
        "bytes_in": status.bytes_in,
        "records_in": status.records_in,
        "bytes_unseen": status.bytes_unseen,
        "bytes_out": status.bytes_out,
        "outputs": outputs,
        "reports": reports(&status.reports),
        "merge": status.merge.map(|merge| json!({"late": merge.late, "untagged": merge.untagged, "unawaited": merge.unawaited})),
        "shares": status.shares.map(|shares| json!({"lost": shares.lost, "spare": shares.spare})),
    })
}
