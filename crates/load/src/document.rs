//! Result of a run as a document, for a terminal and as a page.

use wirepath_report::number::{NOTHING, bit_rate, count, percent, significant};
use wirepath_report::{Cell, Document, Kind, Section, Table};

use crate::outcome::{Asset, Outcome};
use crate::record::{SessionRecord, Times};

/// Sessions that are shown one by one: those with most underruns.
const WORST: usize = 5;

/// Reasons of failures and assets that are shown.
const MOST_ROWS: usize = 10;

/// Lateness of the client itself from which the result may be its own.
const LATE_CLIENT_MS: f64 = 20.0;

/// Share of a thread's processor from which the client may be the limit.
const BUSY: f64 = 0.85;

/// The document of a result.
pub fn document(outcome: &Outcome) -> Document {
    let mut summary = Section::new("summary", "Result");
    summary.table(times(outcome));
    summary.table(counts(outcome));
    summary.paragraph(verdict(outcome));
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
        format!(
            "transport {:?}, {} judged, buffer {} ms",
            asked.transport,
            percent(asked.sample),
            asked.buffer_ms
        ),
    ]
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
    format!(
        "{} of {} judged sessions were timely: no underrun of a player with {buffer} ms of buffer{rate}.{failed}",
        count(timely),
        count(judged),
    )
}

fn warnings(outcome: &Outcome) -> Vec<String> {
    let client = &outcome.client;
    let mut warnings = Vec::new();
    if outcome.partial {
        warnings.push("Stopped before its time: the result is partial.".to_owned());
    }
    if client.dropped_buffers > 0 {
        warnings.push(format!(
            "The client lost packets itself: its sockets dropped {} datagrams or trains. Raise net.core.rmem_max, \
             or judge fewer sessions with --sample.",
            count(client.dropped_buffers)
        ));
    }
    let late = [
        ("event loops were", "set-up times", &client.event_loop_ms),
        ("reading was", "what sockets dropped", &client.waiting_ms),
    ];
    for (what, suspect, times) in late {
        if let Some(times) = times.filter(|times| times.p99 > LATE_CLIENT_MS) {
            warnings.push(format!(
                "The client's own {what} {} ms late (p99): {suspect} may be due to it. Use more --threads, or \
                 judge fewer sessions with --sample.",
                significant(times.p99)
            ));
        }
    }
    if client.processors > BUSY * client.threads as f64 {
        warnings.push(format!(
            "The client used {} of its {} processors: it may be the limit. Use more --threads, or judge fewer \
             sessions with --sample.",
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
    let media = &outcome.media;
    for (name, times) in [
        ("set-up", &outcome.setup_ms),
        ("PLAY to first packet", &outcome.first_packet_ms),
        ("seek to first packet", &outcome.seek_ms),
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
    let (sessions, media, client) = (&outcome.sessions, &outcome.media, &outcome.client);
    let ended =
        format!("{} left, {} to the end of the media", count(sessions.left), count(sessions.media_over));
    row("sessions", count(sessions.started), ended);
    row("failed", count(sessions.failed), String::new());
    row("judged", count(sessions.judged), format!("{} timely", count(sessions.timely)));
    row(
        "packets",
        count(media.packets),
        format!("{} received by judged sessions", bit_rate(media.bits_per_second / 8.0)),
    );
    row(
        "lost",
        count(media.lost + media.missing_at_start),
        format!("{} of the packets", percent(outcome.loss_share)),
    );
    row("reordered", count(media.reordered), format!("{} duplicates", count(media.duplicates)));
    row("underruns", count(media.underruns), format!("{} ms of waiting", significant(media.stalled_ms)));
    if let Some(least) = media.least_pace {
        let slow = format!("{} tracks below 0.9 of their rate", count(media.slow));
        row("slowest track", format!("{} of its rate", percent(least)), slow);
    }
    row("longest gap", format!("{} ms", significant(media.longest_gap_ms)), String::new());
    let received = format!("{} sender reports received", count(outcome.sender_reports));
    row("receiver reports", count(outcome.receiver_reports), received);
    if sessions.seeks > 0 {
        row("seeks", count(sessions.seeks), String::new());
    }
    if media.clock_jumps + media.restarts > 0 {
        row("restarts", count(media.restarts), format!("{} clock discontinuities", count(media.clock_jumps)));
    }
    let threads = if client.threads == 1 { "1 thread" } else { &format!("{} threads", client.threads) };
    let used = format!("of a processor by this client, {threads}");
    row("client", significant(client.processors), used);
    table
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
    let heads = ["session", "#underruns", "#waited ms", "#late ms", "#gap ms", "#lost"];
    let mut table = Table::new("Sessions with most underruns", &heads);
    let with_media =
        |record: &'_ SessionRecord| record.media.as_ref().is_some_and(|media| media.underruns > 0);
    let mut sessions: Vec<&SessionRecord> =
        outcome.records.iter().filter(|record| with_media(record)).collect();
    sessions.sort_by_key(|record| std::cmp::Reverse(record.media.as_ref().map(|media| media.underruns)));
    for record in sessions.into_iter().take(WORST) {
        let Some(media) = &record.media else { continue };
        let late = media.lateness_ms.map_or_else(|| NOTHING.to_owned(), |times| significant(times.max));
        table.row([
            Cell::plain(record.number.to_string()),
            Cell::plain(count(media.underruns)),
            Cell::plain(significant(media.stalled_ms)),
            Cell::plain(late),
            Cell::plain(significant(media.longest_gap_ms)),
            Cell::plain(count(media.lost + media.missing_at_start)),
        ]);
    }
    table
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
