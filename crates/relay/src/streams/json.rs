//! Reports of streams as JSON.

use std::time::Duration;

use serde_json::{Value, json};
use wirepath_streams::{HandlerStatus, OutputStatus, Port, StreamOption, Trust};

use super::snapshot::StreamSnapshot;

/// Report of all streams of a configuration.
pub fn group_report(streams: &[StreamSnapshot], time: Duration) -> Value {
    let streams: Vec<Value> = streams.iter().map(stream_report).collect();
    json!({"schema": "wirepath-relay-streams/1", "seconds": seconds(time), "streams": streams})
}

/// Report of one stream.
pub fn stream_report(stream: &StreamSnapshot) -> Value {
    let status = &stream.status;
    let inputs = status.inputs.iter().map(|input| {
        json!({
            "name": input.name,
            "bytes": input.bytes,
            "records": input.records,
            "malformed_datagrams": input.malformed.records,
            "malformed_bytes": input.malformed.bytes,
        })
    });
    let outputs = status.outputs.iter().map(|output| {
        let mut json = output_report(output);
        json["waiting_bytes"] = json!(output.waiting_bytes);
        json["reports"] = handler_reports(&output.reports);
        json["handlers"] = handlers(&output.handlers);
        json
    });
    let ended_outputs = status.ended_outputs.iter().map(|output| {
        let mut json = output_report(output);
        json["why"] = json!(output.why_gone);
        json
    });
    json!({
        "schema": "wirepath-relay/1",
        "name": stream.name,
        "class": stream.class,
        "thread": stream.thread,
        "state": stream.state.name(),
        "error": stream.error,
        "seconds": seconds(stream.time),
        "cpu_seconds": status.processor_time.map(seconds),
        "bytes_in": status.bytes_in,
        "records_in": status.records_in,
        "bytes_zero_copy": status.zero_copy_bytes,
        "bytes_out": status.bytes_out,
        "bytes_lent": status.lent_bytes,
        "bytes_pending": status.bytes_pending,
        "bytes_dropped": status.bytes_dropped,
        "malformed_datagrams": status.malformed.records,
        "malformed_bytes": status.malformed.bytes,
        "inputs": inputs.collect::<Vec<_>>(),
        "outputs": outputs.collect::<Vec<_>>(),
        "ended_outputs": ended_outputs.collect::<Vec<_>>(),
        "gone_outputs": {
            "failed": status.gone_outputs.failed,
            "disconnected": status.gone_outputs.disconnected,
            "detached": status.gone_outputs.detached,
        },
        "reports": handler_reports(&status.reports),
        "handlers": handlers(&status.handlers),
        "handler_place": stream.handler_place.as_ref().map(|place| {
            json!({"place": place.name(), "reason": place.reason()})
        }),
        "merge": status.merge.map(|merge| {
            json!({"late": merge.late, "untagged": merge.untagged, "unawaited": merge.unawaited})
        }),
        "join": status.join.map(|join| json!({
            "incomplete": join.incomplete,
            "spare": join.spare,
            "unkeyed": join.unkeyed,
            "too_long": join.too_long,
        })),
        "shares": status.shares.map(|shares| json!({
            "lost": shares.lost,
            "spare": shares.spare,
            "damaged": shares.damaged,
            "foreign": shares.foreign,
        })),
    })
}

fn output_report(output: &OutputStatus) -> Value {
    json!({
        "number": output_number(output.port),
        "name": output.name,
        "trust": output.trust.value(),
        "bytes": output.bytes,
        "dropped_records": output.dropped.records,
        "dropped_bytes": output.dropped.bytes,
        "lost_bytes": output.lost_bytes,
        "icmp_errors": output.icmp_errors,
    })
}

fn handler_reports(reports: &[(&str, &str, u64)]) -> Value {
    let report = |(handler, what, value): &(&str, &str, u64)| json!({"handler": handler, "what": what, "value": value});
    reports.iter().map(report).collect()
}

fn handlers(handlers: &[HandlerStatus]) -> Value {
    let handler = |handler: &HandlerStatus| {
        json!({
            "number": handler.id.0,
            "name": handler.name,
            "state_bytes": handler.state_bytes,
            "state_limit": handler.state_limit,
            "trust_below": handler.trust_below.map(Trust::value),
            "in_force": handler.is_in_force,
            "waiting": handler.waiting.iter().map(|change| change.name()).collect::<Vec<_>>(),
        })
    };
    handlers.iter().map(handler).collect()
}

/// Options of a stream or of an output.
pub(super) fn options_report(options: &[StreamOption]) -> Value {
    let option = |option: &StreamOption| {
        let StreamOption { key, value, unit, may_change } = option;
        json!({"key": key, "value": value, "unit": unit, "may_change": may_change})
    };
    options.iter().map(option).collect()
}

/// Number of an output of a relay, counted from 1 in the order of the configuration. A stream counts the
/// outputs that it is built with first, from 0.
pub(super) fn output_number(port: Port) -> u64 {
    port.number() + 1
}

/// Seconds, rounded to the microsecond.
fn seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}
