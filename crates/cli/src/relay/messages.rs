//! Messages about streams: events, and a summary of each stream at its end.

use std::time::Duration;

use wirepath_relay::{GroupEvent, HandlerPlace, StreamSnapshot};
use wirepath_streams::{Dropped, StreamError, StreamEvent, StreamStatus};

use crate::format;

/// Minimum time for a meaningful rate. In a shorter time, buffers absorb all bytes.
const MIN_RATE_TIME: Duration = Duration::from_millis(100);

/// Message about an event of a stream, if the event is worth a message. `name` distinguishes several streams.
pub(super) fn event(stream: &StreamSnapshot, event: &GroupEvent, name: Option<&str>) -> Option<String> {
    let text = match event {
        GroupEvent::WaitingFor(peer) => format!("waiting for {peer}"),
        GroupEvent::Started => name.map(|_| "started".to_owned())?,
        GroupEvent::OpenFailed => {
            let error = stream.error.as_deref().unwrap_or_default();
            if name.is_some() { format!("failed: {error}") } else { error.to_owned() }
        }
        GroupEvent::HandlerPlaced(HandlerPlace::Kernel) => "the handler runs in the kernel".to_owned(),
        GroupEvent::HandlerPlaced(HandlerPlace::KernelDrops(why)) => {
            format!(
                "the handler runs in user space: {why}; the kernel drops records for it before that (XDP)"
            )
        }
        GroupEvent::HandlerPlaced(HandlerPlace::UserSpace(why)) => {
            format!("the handler runs in user space: {why}")
        }
        GroupEvent::Running(event) => running(event)?,
        GroupEvent::Ended(result) => ended(stream, result, name.is_some()),
    };
    let name = name.map(|name| format!("{name}: ")).unwrap_or_default();
    Some(format!("wirepath: {name}{text}"))
}

fn running(event: &StreamEvent) -> Option<String> {
    match event {
        StreamEvent::Listening { address, .. } => Some(format!("waiting for a connection at {address}")),
        StreamEvent::ListeningFailed { error, .. } => {
            Some(format!("cannot accept a connection: {error}; retrying every second"))
        }
        StreamEvent::InputFailed { error, .. } => {
            Some(format!("an input failed: {error}; the other inputs continue"))
        }
        StreamEvent::OutputFailed { error, dropped, .. } => {
            Some(format!("an output failed: {error}; {} not delivered to it", undelivered(*dropped)))
        }
        StreamEvent::OutputDisconnected { name, dropped, .. } => Some(format!(
            "disconnected {name}: it fell behind; {} not delivered to it",
            undelivered(*dropped)
        )),
        StreamEvent::RecordRefused { by, error } => {
            Some(format!("{by}: {error}; dropped, and further ones are only counted"))
        }
        _ => None,
    }
}

/// Streams without division into records have no record counts.
fn undelivered(dropped: Dropped) -> String {
    let bytes = format::size(dropped.bytes);
    match dropped.records {
        0 => format!("{bytes} were"),
        1 => format!("1 record ({bytes}) was"),
        records => format!("{} ({bytes}) were", format::counted(records, "record", "records")),
    }
}

fn ended(stream: &StreamSnapshot, result: &Result<(), StreamError>, named: bool) -> String {
    let mut summary = summary(&stream.status, stream.time);
    if !stream.awaited.is_empty() {
        summary += &format!(", still waiting for {}", stream.awaited.join(", "));
    }
    let error = match result {
        Ok(()) => String::new(),
        // The last output failed with its own message.
        Err(StreamError::NoOutput(_)) => "no output is left".to_owned(),
        Err(StreamError::NoInput(_)) => "no input is left".to_owned(),
        Err(error) => error.to_string(),
    };
    match (result, named) {
        (Ok(()) | Err(StreamError::Stopped), false) => summary,
        (Ok(()), true) => format!("ended: {summary}"),
        (Err(StreamError::Stopped), true) => format!("stopped: {summary}"),
        (Err(_), false) => format!("{summary}\nwirepath: {error}"),
        (Err(_), true) => format!("failed: {error}; {summary}"),
    }
}

/// One-line summary of a stream.
fn summary(status: &StreamStatus, time: Duration) -> String {
    let stream = StreamSnapshot { status: status.clone(), ..StreamSnapshot::default() };
    let [waiting, dropped, lost] = stream.undelivered();
    let mut text = format!(
        "{} in, {} out in {}",
        format::size(status.bytes_in),
        format::size(status.bytes_out),
        format::clock(time.as_secs())
    );
    if time >= MIN_RATE_TIME {
        let rate = status.bytes_in as f64 * 8.0 / time.as_secs_f64();
        text += &format!(" ({})", format::bit_rate(rate as u64));
    }
    for (what, bytes) in [("waiting", waiting), ("dropped", dropped), ("lost", lost)] {
        if bytes > 0 {
            text += &format!(", {} {what}", format::size(bytes));
        }
    }
    if let Some(time) = status.processor_time {
        text += &format!(", {} of processor time", format::time(time.as_micros() as u64));
    }
    if !status.ended_outputs.is_empty() {
        let names = status.ended_outputs.iter().map(|ended| ended.name.as_str());
        text += &format!(", without {}", names.collect::<Vec<_>>().join(", "));
    }
    text += &counts(status);
    for report in &status.reports {
        text += &match report {
            ("ts", "found", 0) => ", ts: programme not found".to_owned(),
            (handler, "crc32c", value) => format!(", {handler}: crc32c {value:08x}"),
            (handler, what, value) => format!(", {handler}: {what} {}", format::count(*value)),
        };
    }
    text
}

/// Error counts, in singular or plural form.
fn counts(status: &StreamStatus) -> String {
    let open = status.outputs.iter().map(|output| output.icmp_errors);
    let ended = status.ended_outputs.iter().map(|ended| ended.icmp_errors);
    let merge = status.merge.unwrap_or_default();
    let shares = status.shares.unwrap_or_default();
    let join = status.join.unwrap_or_default();
    let counts = [
        (
            open.chain(ended).sum(),
            "ICMP error (destination unreachable)",
            "ICMP errors (destination unreachable)",
        ),
        (status.malformed.records, "malformed datagram dropped", "malformed datagrams dropped"),
        (
            join.incomplete,
            "record without all its portions dropped",
            "records without all their portions dropped",
        ),
        (join.unkeyed, "portion without a key dropped", "portions without a key dropped"),
        (join.too_long, "joined record too long and dropped", "joined records too long and dropped"),
        (shares.lost, "record lost for want of shares", "records lost for want of shares"),
        (shares.damaged, "damaged share dropped", "damaged shares dropped"),
        (shares.foreign, "share of another threshold refused", "shares of another threshold refused"),
        (merge.late, "late record dropped", "late records dropped"),
        (merge.untagged, "record without a tag", "records without a tag"),
    ];
    let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
    counts.map(|(count, one, many)| format!(", {}", format::counted(count, one, many))).collect()
}

#[cfg(test)]
mod tests {
    use wirepath_streams::{JoinCounts, MergeCounts, ShareCounts};

    use super::*;

    /// Promise: Rates are printed with three digits, and not for runs that took no time.
    #[test]
    fn a_short_stream_has_no_rate() {
        let status = StreamStatus { bytes_in: 1_000_000, bytes_out: 500_000, ..StreamStatus::default() };
        let text = |ms| summary(&status, Duration::from_millis(ms));
        assert_eq!(text(99), "976.6 KiB in, 488.3 KiB out in 0:00");
        assert_eq!(text(2000), "976.6 KiB in, 488.3 KiB out in 0:02 (4.00 Mbit/s)");
    }

    /// Promise: The last line reports records that were lost, late or untagged.
    #[test]
    fn errors_of_orders_are_counted() {
        let shares = Some(ShareCounts { lost: 110, spare: 3, damaged: 1, foreign: 2 });
        let lost = StreamStatus { shares, ..StreamStatus::default() };
        let text = summary(&lost, Duration::ZERO);
        assert!(text.ends_with(", 110 records lost for want of shares, 1 damaged share dropped, 2 shares of another threshold refused"), "{text}");
        let join = Some(JoinCounts { incomplete: 2, spare: 4, unkeyed: 1, too_long: 1 });
        let text = summary(&StreamStatus { join, ..StreamStatus::default() }, Duration::ZERO);
        assert!(text.ends_with(", 2 records without all their portions dropped, 1 portion without a key dropped, 1 joined record too long and dropped"), "{text}");
        let merge = Some(MergeCounts { late: 1, untagged: 1000, unawaited: 5 });
        let text = summary(&StreamStatus { merge, ..StreamStatus::default() }, Duration::ZERO);
        assert!(text.ends_with(", 1 late record dropped, 1,000 records without a tag"), "{text}");
    }

    /// Promise: A programme of a multiplex becomes a separate transport stream; a missing programme is
    /// reported.
    #[test]
    fn a_missing_programme_is_reported() {
        let reports = vec![("ts", "kept", 0), ("ts", "dropped", 1200), ("ts", "found", 0)];
        let status = StreamStatus { reports, ..StreamStatus::default() };
        let text = summary(&status, Duration::ZERO);
        assert!(text.ends_with(", ts: kept 0, ts: dropped 1,200, ts: programme not found"), "{text}");
    }
}
