//! The result in short.

use crate::cost::Cost;
use crate::report::document::Section;
use crate::report::number;
use crate::report::table::{Cell, Kind, Table};
use crate::result::{Assessment, Cache};
use crate::statistics::Summary;
use crate::verdict::{Doubt, of_server, verdicts};

pub(super) fn section(assessment: &Assessment) -> Section {
    let mut section = Section::new("summary", "In short");
    let settings = &assessment.settings;
    let from = match settings.cache {
        Cache::Warm => "the page cache",
        Cache::Cold => "storage",
    };
    section.say(format!(
        "Cost is processor time in user space and in the kernel for each GiB of payload, read from {from} and sent to the \
         sink “{}”. Figures are medians of {}; a run moves {}. A figure is called noisy, and drawn hollow, if half of \
         its runs are spread over more than a tenth of it.",
        settings.sink,
        runs(settings.runs),
        number::about_bytes(settings.volume),
    ));
    section.table(cheapest(assessment));
    if let Some((path, why)) = of_server(assessment) {
        section.say(format!("`wirepath serve` takes {path} {why}."));
    }
    section
}

/// The cheapest path for each purpose.
pub(crate) fn cheapest(assessment: &Assessment) -> Table {
    let heads = ["purpose", "size", "cheapest path", "#s/GiB", "#relative", "to", "next"];
    let mut table = Table::new("The cheapest data path for each purpose, and the next one.", &heads);
    for verdict in verdicts(assessment) {
        let either = match verdict.doubt() {
            Some(Doubt::TooNoisy) => " (either will do)".to_owned(),
            Some(doubt) => format!(" ({} which)", doubt.in_words()),
            None => String::new(),
        };
        let next =
            |(path, cost): &(String, Summary)| format!("{path} {}{either}", number::significant(cost.median));
        let kind = |noisy: bool| if noisy { Kind::Noisy } else { Kind::Plain };
        let noisy = verdict.cost.is_noisy();
        let plain = verdict.plain.filter(|(_, plain)| *plain != verdict.path);
        let plain_noisy = plain.is_some_and(|(cost, _)| cost.is_noisy());
        let next_noisy = verdict.next.as_ref().is_some_and(|(_, cost)| cost.is_noisy());
        table.row([
            Cell::plain(verdict.purpose),
            Cell::plain(number::size(verdict.size)),
            Cell::code(&verdict.path),
            Cell { kind: kind(noisy), ..Cell::plain(number::significant(verdict.cost.median)) },
            Cell {
                kind: kind(noisy || plain_noisy),
                ..Cell::figure(verdict.times(), |times| number::ratio(1.0 / times))
            },
            Cell::code(plain.map_or("", |(_, plain)| plain)),
            Cell { kind: kind(next_noisy), ..Cell::figure(verdict.next.as_ref(), next) },
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

/// A cell with a median that says whether it is to be relied on.
pub(super) fn median(cost: &Cost<'_>) -> Cell {
    let kind = if cost.is_noisy() { Kind::Noisy } else { Kind::Plain };
    Cell { kind, ..Cell::figure(cost.median(), number::significant) }
}

fn runs(runs: u32) -> String {
    if runs == 1 { "one run".to_owned() } else { format!("{runs} runs") }
}
