//! Result of a run as a document, which can be shown on a terminal or as a page.

use wirepath_report::number::{NOTHING, about_bytes, bit_rate, count, percent, significant};
use wirepath_report::{Cell, Document, Kind, Section, Table};

use crate::outcome::{Asked, Asset, Outcome};
use crate::record::{HttpRecord, MediaRecord, SessionRecord, Times};
use crate::storm::StormOutcome;

/// Number of sessions shown individually: the sessions with most underruns.
const WORST: usize = 5;

/// Maximum number of failure reasons and of assets shown.
const MOST_ROWS: usize = 10;

/// Lateness of the client from which the measured lateness may be caused by the client itself.
const LATE_CLIENT_MS: f64 = 20.0;

/// Processor use per thread from which the client may be the bottleneck.
const BUSY: f64 = 0.85;

/// Makes the document of a result.
pub fn document(outcome: &Outcome) -> Document {
    let mut summary = Section::new("summary", "Result");
    summary.table(times(outcome));
    summary.table(counts(outcome));
    summary.paragraph(verdict(outcome));
    if let Some(storm) = &outcome.storm {
        summary.table(storm_table(storm));
    }
    let mut details = Section::new("sessions", "Sessions");
    details.table(failures(outcome));
    details.table(worst(outcome));
    details.table(assets(outcome));
    Document {
        title: "Load".to_owned(),
        facts: facts(outcome),
        warnings: warnings(outcome),
        summary,
        sections: vec![details],
    }
}

fn facts(outcome: &Outcome) -> Vec<String> {
    let asked = &outcome.asked;
    vec![
        format!("{} sessions, {} a second, {} s after that", asked.sessions, asked.ramp, asked.duration_s),
        format!(
            "{} assets of which the first is {}",
            asked.urls.len(),
            asked.urls.first().map_or("", String::as_str)
        ),
        format!("transport {}, {} judged, {}", asked.transport, percent(asked.sample), player(asked)),
    ]
}

/// Describes the player that the sessions simulate.
fn player(asked: &Asked) -> String {
    let rate = asked.rate.map_or(String::new(), |rate| format!("{}, ", bit_rate(rate as f64 / 8.0)));
    match asked.has_clock {
        true => format!("{rate}buffer {} ms", asked.buffer_ms),
        false => format!("{rate}downloads"),
    }
}

fn verdict(outcome: &Outcome) -> String {
    let (timely, judged) = (outcome.sessions.timely, outcome.sessions.judged);
    let buffer = significant(outcome.asked.buffer_ms);
    let others = |number: u64, what: &str| match number {
        0 => String::new(),
        number => format!(" {} others {what}.", count(number)),
    };
    let failed = others(outcome.unjudged.failed, "failed")
        + &others(outcome.unjudged.never_played, "had not begun to play at the end");
    let rate = if outcome.media.least_pace.is_some() { ", and 0.9 of the media's rate" } else { "" };
    let (timely, judged) = (count(timely), count(judged));
    match outcome.asked.has_clock {
        true => format!(
            "{timely} of {judged} judged sessions were timely: no underrun of a player with {buffer} ms of \
             buffer{rate}.{failed}"
        ),
        false => format!("{timely} of {judged} judged sessions downloaded without a failure.{failed}"),
    }
}

fn warnings(outcome: &Outcome) -> Vec<String> {
    let (client, is_http) = (&outcome.client, outcome.http.is_some());
    let mut warnings = Vec::new();
    if outcome.partial {
        warnings.push("Stopped before its time: the result is partial.".to_owned());
    }
    if client.dropped_buffers > 0 {
        warnings.push(format!(
            "The client lost packets itself: its sockets dropped {} datagrams or trains. Raise \
             net.core.rmem_max, or judge fewer sessions with --sample.",
            count(client.dropped_buffers)
        ));
    }
    let late = [
        (
            "event loops were",
            if is_http { "times of requests" } else { "set-up times" },
            &client.event_loop_ms,
        ),
        ("reading was", "what sockets dropped", &client.waiting_ms),
    ];
    for (what, suspect, times) in late {
        if let Some(times) = times.filter(|times| times.p99 > LATE_CLIENT_MS) {
            warnings.push(format!(
                "The client's own {what} {} ms late (p99): {suspect} may be due to it. Use more \
                 --threads, or judge fewer sessions with --sample.",
                significant(times.p99)
            ));
        }
    }
    if client.processors > BUSY * client.threads as f64 {
        warnings.push(format!(
            "The client used {} of its {} processors: it may be the limit. Use more --threads, or judge \
             fewer sessions with --sample.",
            significant(client.processors),
            client.threads
        ));
    }
    if outcome.unjudged.without_media > 0 {
        let without = count(outcome.unjudged.without_media);
        warnings.push(format!("No media came for {without} sessions that were not judged."));
    }
    warnings
}

fn times(outcome: &Outcome) -> Table {
    let heads = ["ms", "#p50", "#p90", "#p99", "#p99.9", "#max"];
    let mut table = Table::new("Times in milliseconds", &heads);
    let (media, http) = (&outcome.media, outcome.http.as_ref());
    let is_http = http.is_some();
    for (name, times) in [
        ("connecting", &http.and_then(|http| http.connect_ms)),
        ("request to first byte", &http.and_then(|http| http.first_byte_ms)),
        ("request to last byte", &http.and_then(|http| http.response_ms)),
        ("set-up", &outcome.setup_ms),
        ("PLAY to first packet", &outcome.first_packet_ms),
        (if is_http { "seek to first byte" } else { "seek to first packet" }, &outcome.seek_ms),
        ("lateness of bursts", &media.lateness_ms),
        ("length of bursts", &media.burst_ms),
        ("client: event loop late", &outcome.client.event_loop_ms),
        ("client: reading late", &outcome.client.waiting_ms),
    ] {
        if let Some(Times { p50, p90, p99, p999, max }) = times {
            let figures = [p50, p90, p99, p999, max].map(|ms| Cell::plain(significant(*ms)));
            table.row([Cell::plain(name)].into_iter().chain(figures));
        }
    }
    table
}

fn counts(outcome: &Outcome) -> Table {
    let mut table = Table::new("Counts", &["", "#", ""]);
    let mut row = |name: &str, value: String, note: String| {
        table.row([Cell::plain(name), Cell::plain(value), Cell::plain(note)]);
    };
    let (sessions, client) = (&outcome.sessions, &outcome.client);
    let ended =
        format!("{} left, {} to the end of the media", count(sessions.left), count(sessions.media_over));
    row("sessions", count(sessions.started), ended);
    row("failed", count(sessions.failed), String::new());
    row("judged", count(sessions.judged), format!("{} timely", count(sessions.timely)));
    match &outcome.http {
        Some(http) => count_responses(outcome, http, &mut row),
        None => count_packets(outcome, &outcome.media, &mut row),
    }
    if sessions.seeks > 0 {
        row("seeks", count(sessions.seeks), String::new());
    }
    let threads = if client.threads == 1 { "1 thread" } else { &format!("{} threads", client.threads) };
    let used = format!("of a processor by this client, {threads}");
    row("client", significant(client.processors), used);
    table
}

/// Table of the lateness of sessions before, during and after a storm, and of the results of its set-ups.
fn storm_table(storm: &StormOutcome) -> Table {
    let heads = ["storm", "#bursts", "#late p50", "#p99", "#max", "#lost", "#underruns"];
    let mut table = Table::new("Sessions beside a storm of set-ups, in milliseconds", &heads);
    let phases = [("before", &storm.before), ("meanwhile", &storm.during), ("afterwards", &storm.after)];
    for (name, phase) in phases {
        let late = |time: fn(&Times) -> f64| {
            Cell::plain(
                phase.lateness_ms.map_or_else(|| NOTHING.to_owned(), |times| significant(time(&times))),
            )
        };
        table.row([
            Cell::plain(name),
            Cell::plain(count(phase.bursts)),
            late(|times| times.p50),
            late(|times| times.p99),
            late(|times| times.max),
            Cell::plain(phase.lost.to_string()),
            Cell::plain(count(phase.underruns)),
        ]);
    }
    let answered = storm.setup_ms.map_or_else(String::new, |times| {
        format!(", answered in {} ms (p50), {} ms (p99)", significant(times.p50), significant(times.p99))
    });
    let refused = storm.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
    table.notes.push(format!(
        "{} of {} set-ups in {:.1} s made sessions, {} a second of {} asked for{answered}; {} refused{refused}. Each was \
         torn down at once.",
        count(storm.set_up),
        count(storm.requested),
        storm.seconds,
        significant(storm.set_up_per_second),
        significant(storm.rate),
        count(storm.refused),
    ));
    table
}

fn count_packets(outcome: &Outcome, media: &MediaRecord, row: &mut impl FnMut(&str, String, String)) {
    row(
        "packets",
        count(media.packets),
        format!("{} received by judged sessions", bit_rate(media.bits_per_second / 8.0)),
    );
    row(
        "lost",
        count(media.lost + media.missing_at_start),
        format!("{} of the packets", percent(outcome.loss_share.unwrap_or(0.0))),
    );
    row("reordered", count(media.reordered), format!("{} duplicates", count(media.duplicates)));
    row("underruns", count(media.underruns), format!("{} ms of waiting", significant(media.stalled_ms)));
    if let Some(least) = media.least_pace {
        let slow = format!("{} tracks below 0.9 of their rate", count(media.slow));
        row("slowest track", format!("{} of its rate", percent(least)), slow);
    }
    row("longest gap", format!("{} ms", significant(media.longest_gap_ms)), String::new());
    let received = format!("{} sender reports received", count(outcome.sender_reports.unwrap_or(0)));
    row("receiver reports", count(outcome.receiver_reports.unwrap_or(0)), received);
    if media.clock_jumps + media.restarts > 0 {
        row("restarts", count(media.restarts), format!("{} clock discontinuities", count(media.clock_jumps)));
    }
}

fn count_responses(outcome: &Outcome, http: &HttpRecord, row: &mut impl FnMut(&str, String, String)) {
    let kept = format!("of {} requests on {} connections", count(http.requests), count(http.connections));
    row("whole bodies", count(http.responses), kept);
    let judged = bit_rate(http.bits_per_second / 8.0);
    row("received", about_bytes(http.bytes), format!("{judged} by judged sessions"));
    if outcome.unjudged.sessions > 0 {
        let rate = outcome.unjudged.discarded_bytes as f64 / outcome.seconds.max(0.001);
        let others = format!("{} by the others", bit_rate(rate));
        row("thrown away", about_bytes(outcome.unjudged.discarded_bytes), others);
    }
    if outcome.asked.has_clock {
        row("underruns", count(http.underruns), format!("{} ms of waiting", significant(http.stalled_ms)));
    }
    row("longest gap", format!("{} ms", significant(http.longest_gap_ms)), String::new());
}

fn failures(outcome: &Outcome) -> Table {
    let mut table = Table::new("Failures", &["reason", "#sessions"]);
    let mut reasons: Vec<_> = outcome.failures.iter().collect();
    reasons.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
    for (reason, number) in reasons.into_iter().take(MOST_ROWS) {
        table.row([Cell::new(reason, Kind::Bad), Cell::plain(count(*number))]);
    }
    table
}

fn worst(outcome: &Outcome) -> Table {
    let heads = ["session", "#underruns", "#waited ms", "#gap ms", "#late ms", "#lost"];
    // Over HTTP, lateness and loss appear as underruns.
    let heads = if outcome.http.is_some() { &heads[..4] } else { &heads };
    let mut table = Table::new("Sessions with most underruns", heads);
    let mut sessions: Vec<&SessionRecord> =
        outcome.records.iter().filter(|record| underruns(record) > 0).collect();
    sessions.sort_by_key(|record| std::cmp::Reverse(underruns(record)));
    for record in sessions.into_iter().take(WORST) {
        let (stalled_ms, gap_ms) = match (&record.media, &record.http) {
            (Some(media), _) => (media.stalled_ms, media.longest_gap_ms),
            (None, Some(http)) => (http.stalled_ms, http.longest_gap_ms),
            (None, None) => continue,
        };
        let mut cells = vec![
            Cell::plain(record.number.to_string()),
            Cell::plain(count(underruns(record))),
            Cell::plain(significant(stalled_ms)),
            Cell::plain(significant(gap_ms)),
        ];
        if let Some(media) = &record.media {
            let late = media.lateness_ms.map_or_else(|| NOTHING.to_owned(), |times| significant(times.max));
            cells.push(Cell::plain(late));
            cells.push(Cell::plain(count(media.lost + media.missing_at_start)));
        }
        table.row(cells);
    }
    table
}

fn underruns(record: &SessionRecord) -> u64 {
    let media = record.media.as_ref().map(|media| media.underruns);
    media.or(record.http.as_ref().map(|http| http.underruns)).unwrap_or(0)
}

fn assets(outcome: &Outcome) -> Table {
    let mut table = Table::new("Assets", &["asset", "#sessions", "#judged", "#timely", "#failed"]);
    if outcome.assets.len() > 1 {
        for Asset { url, sessions, judged, timely, failed } in outcome.assets.iter().take(MOST_ROWS) {
            let figures = [sessions, judged, timely, failed].map(|number| Cell::plain(count(*number)));
            table.row([Cell::code(url)].into_iter().chain(figures));
        }
    }
    table
}
