//! Summary of the result.

use wirepath_report::{Cell, Kind, Section, Table, number};

use crate::path_costs::Cost;
use crate::result::{Assessment, Cache, PathKind};
use crate::statistics::Summary;
use crate::verdict::{Significance, of_server, verdicts};

pub(super) fn section(assessment: &Assessment) -> Section {
    let mut section = Section::new("summary", "In short");
    let settings = &assessment.settings;
    let from = match settings.cache {
        Cache::Warm => "the page cache",
        Cache::Cold => "storage",
    };
    let runs = if settings.runs == 1 { "one run".to_owned() } else { format!("{} runs", settings.runs) };
    let volume = number::about_bytes(settings.volume);
    if !assessment.measurements.is_empty() {
        section.paragraph(format!(
            "Cost is processor time in user space and in the kernel for each GiB of payload, read from {from} and sent to the \
             sink “{}”. Figures are medians of {runs}; a run moves {volume}. A figure is called noisy, and drawn hollow, if half \
             of its runs are spread over more than a tenth of it.",
            settings.sink,
        ));
        if let Some(peer) = assessment.tcp_peer() {
            section.paragraph(format!("Over TCP the peer is {peer}."));
        }
    } else if !assessment.relay.is_empty() {
        section.paragraph(format!(
            "Cost is processor time of the process that moves data, for each GiB that sources send or for each datagram that \
             is delivered. Figures are medians of {runs}; sources send {volume} in a run, and less where each byte leaves many \
             times."
        ));
    }
    section.table(cheapest(assessment));
    if let Some((path, why)) = of_server(assessment) {
        section.paragraph(format!("`wirepath serve` takes {path} {why}."));
    }
    section
}

/// Cheapest path for each purpose.
pub(super) fn cheapest(assessment: &Assessment) -> Table {
    let heads = ["purpose", "size", "cheapest path", "#s/GiB", "next", "#relative", "to"];
    let mut table = Table::new("The cheapest data path for each purpose, and the next one.", &heads);
    for verdict in verdicts(assessment) {
        let either = match verdict.significance() {
            Significance::Significant => "",
            Significance::TooNoisy => " (either will do)",
            Significance::TooFewRuns => " (too few runs to say which)",
        };
        let next = |(path, cost): &(PathKind, Summary)| {
            format!("{path} {}{either}", number::significant(cost.median))
        };
        let kind = |noisy: bool| if noisy { Kind::Noisy } else { Kind::Plain };
        let noisy = verdict.cost.is_noisy();
        let plain = verdict.plain.filter(|(_, plain)| *plain != verdict.path);
        let plain_noisy = plain.is_some_and(|(cost, _)| cost.is_noisy());
        let next_noisy = verdict.next.as_ref().is_some_and(|(_, cost)| cost.is_noisy());
        table.row([
            Cell::plain(verdict.purpose),
            Cell::plain(number::size(verdict.size)),
            Cell::code(verdict.path.name()),
            Cell { kind: kind(noisy), ..Cell::plain(number::significant(verdict.cost.median)) },
            Cell { kind: kind(next_noisy), ..Cell::figure(verdict.next.as_ref(), next) },
            Cell {
                kind: kind(noisy || plain_noisy),
                ..Cell::figure(verdict.times(), |times| number::ratio(1.0 / times))
            },
            Cell::code(plain.map_or("", |(_, plain)| plain.name())),
        ]);
        if let Some(needs) = verdict.needs {
            let note = format!("{}: {needs}.", verdict.path);
            if !table.notes.contains(&note) {
                table.notes.push(note);
            }
        }
    }
    table
}

/// Cell with a median, marked if noisy.
pub(super) fn median(cost: &Cost<'_>) -> Cell {
    let kind = if cost.is_noisy() { Kind::Noisy } else { Kind::Plain };
    Cell { kind, ..Cell::figure(cost.median(), number::significant) }
}
