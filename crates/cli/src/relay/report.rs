//! What a relay did, in words and as JSON.

use std::time::Duration;

use serde_json::{Value, json};
use wirepath_streams::StreamStatus;

use super::row::{Row, stuck};
use crate::format;

/// What runs for less than this has no rate worth saying: buffers took it all.
const SHORTEST: Duration = Duration::from_millis(100);

/// One line.
pub(super) fn in_words(status: &StreamStatus, time: Duration) -> String {
    let [waiting, dropped, lost] = stuck(status);
    let mut words = format!(
        "{} in, {} out in {}",
        format::size(status.bytes_in),
        format::size(status.bytes_out),
        format::clock(time.as_secs())
    );
    if time >= SHORTEST {
        let rate = status.bytes_in as f64 * 8.0 / time.as_secs_f64();
        words += &format!(" ({})", format::bit_rate(rate as u64));
    }
    for (what, bytes) in [("waiting", waiting), ("dropped", dropped), ("lost", lost)] {
        if bytes > 0 {
            words += &format!(", {} {what}", format::size(bytes));
        }
    }
    if let Some(time) = status.processor_time {
        words += &format!(", {} of processor time", format::time(time.as_micros() as u64));
    }
    if !status.ended_outputs.is_empty() {
        let names = status.ended_outputs.iter().map(|output| output.name.as_str());
        words += &format!(", without {}", names.collect::<Vec<_>>().join(", "));
    }
    let icmp_errors = status.outputs.iter().map(|output| output.icmp_errors);
    let gone = status.ended_outputs.iter().map(|output| output.icmp_errors);
    let icmp_errors: u64 = icmp_errors.chain(gone).sum();
    if icmp_errors > 0 {
        words += &format!(", datagrams came nowhere ({} ICMP errors)", format::count(icmp_errors));
    }
    if status.malformed.records > 0 {
        words += &format!(", {} malformed datagrams dropped", format::count(status.malformed.records));
    }
    for (count, is_one, are_more) in unordered(status) {
        if count > 0 {
            words += &format!(", {}", format::counted(count, is_one, are_more));
        }
    }
    for report in &status.reports {
        words += &match report {
            ("ts", "found", 0) => ", ts: the programme is not in it".to_owned(),
            (handler, "crc32c", value) => format!(", {handler}: crc32c {value:08x}"),
            (handler, what, value) => format!(", {handler}: {what} {}", format::count(*value)),
        };
    }
    words
}

/// What an order of inputs met that others did not keep to: how many, and what is said of one and of more.
fn unordered(status: &StreamStatus) -> [(u64, &'static str, &'static str); 3] {
    let merge = status.merge.unwrap_or_default();
    let lost = status.shares.map_or(0, |shares| shares.lost);
    [
        (lost, "record lost, for want of shares", "records lost, for want of shares"),
        (merge.late, "record that came too late dropped", "records that came too late dropped"),
        (merge.untagged, "record had no tag", "records had no tag"),
    ]
}

/// All streams of a configuration.
pub(super) fn all_as_json(rows: &[Row], time: Duration) -> Value {
    let streams: Vec<Value> = rows.iter().map(as_json).collect();
    json!({"schema": "wirepath-relay-streams/1", "seconds": seconds(time), "streams": streams})
}

/// One stream.
pub(super) fn as_json(row: &Row) -> Value {
    let status = &row.status;
    let reports = |reports: &[(&str, &str, u64)]| -> Vec<Value> {
        let report = |(handler, what, value): &(&str, &str, u64)| json!({"handler": handler, "what": what, "value": value});
        reports.iter().map(report).collect()
    };
    let inputs: Vec<Value> = status
        .inputs
        .iter()
        .map(|input| {
            json!({
                "name": input.name,
                "bytes": input.bytes,
                "records": input.records,
                "malformed_datagrams": input.malformed.records,
                "malformed_bytes": input.malformed.bytes,
            })
        })
        .collect();
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
                "icmp_errors": output.icmp_errors,
                "reports": reports(&output.reports),
            })
        })
        .collect();
    let ended_outputs: Vec<Value> = status
        .ended_outputs
        .iter()
        .map(|output| {
            json!({
                "name": output.name,
                "bytes": output.bytes,
                "dropped_records": output.dropped.records,
                "dropped_bytes": output.dropped.bytes,
                "lost_bytes": output.lost_bytes,
                "icmp_errors": output.icmp_errors,
                "why": output.why,
            })
        })
        .collect();
    json!({
        "schema": "wirepath-relay/1",
        "name": row.name,
        "class": row.class,
        "thread": row.thread,
        "state": row.state.name(),
        "error": row.error,
        "seconds": seconds(row.time),
        "cpu_seconds": status.processor_time.map(seconds),
        "bytes_in": status.bytes_in,
        "records_in": status.records_in,
        "bytes_unseen": status.bytes_unseen,
        "bytes_out": status.bytes_out,
        "bytes_pending": status.bytes_pending,
        "bytes_dropped": status.bytes_dropped,
        "malformed_datagrams": status.malformed.records,
        "malformed_bytes": status.malformed.bytes,
        "inputs": inputs,
        "outputs": outputs,
        "ended_outputs": ended_outputs,
        "gone_outputs": {
            "failed": status.gone_outputs.failed,
            "disconnected": status.gone_outputs.disconnected,
            "detached": status.gone_outputs.detached,
        },
        "reports": reports(&status.reports),
        "merge": status.merge.map(|merge| json!({"late": merge.late, "untagged": merge.untagged, "unawaited": merge.unawaited})),
        "shares": status.shares.map(|shares| json!({"lost": shares.lost, "spare": shares.spare})),
    })
}

/// To the microsecond: more digits would be of the clock's making.
pub(super) fn seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use wirepath_streams::{MergeCounts, ShareCounts};

    use super::*;

    /// Promise: Rates are printed with three digits, and not for runs that took no time.
    #[test]
    fn what_took_no_time_has_no_rate() {
        let status = StreamStatus { bytes_in: 1_000_000, bytes_out: 500_000, ..StreamStatus::default() };
        let words = |ms| in_words(&status, Duration::from_millis(ms));
        assert_eq!(words(99), "976.6 KiB in, 488.3 KiB out in 0:00");
        assert_eq!(words(2000), "976.6 KiB in, 488.3 KiB out in 0:02 (4.00 Mbit/s)");
    }

    /// Promise: The last line reports records that were lost, late or without a tag.
    #[test]
    fn what_an_order_met_is_said() {
        let shares = Some(ShareCounts { lost: 110, spare: 3 });
        let lost = StreamStatus { shares, ..StreamStatus::default() };
        let words = in_words(&lost, Duration::ZERO);
        assert!(words.ends_with(", 110 records lost, for want of shares"), "{words}");
        let merge = Some(MergeCounts { late: 1, untagged: 1000, unawaited: 5 });
        let words = in_words(&StreamStatus { merge, ..StreamStatus::default() }, Duration::ZERO);
        assert!(
            words.ends_with(", 1 record that came too late dropped, 1,000 records had no tag"),
            "{words}"
        );
    }

    /// Promise: A programme of a multiplex becomes a transport stream of its own; a missing one is reported.
    #[test]
    fn a_programme_that_was_not_there_is_said() {
        let reports = vec![("ts", "kept", 0), ("ts", "dropped", 1200), ("ts", "found", 0)];
        let status = StreamStatus { reports, ..StreamStatus::default() };
        let words = in_words(&status, Duration::ZERO);
        assert!(
            words.ends_with(", ts: kept 0, ts: dropped 1,200, ts: the programme is not in it"),
            "{words}"
        );
    }
}
