//! The result in short.

use crate::cost::{Cost, Group, baseline};
use crate::report::document::Section;
use crate::report::number;
use crate::report::sections::name_of;
use crate::report::table::{Cell, Kind, Table};
use crate::result::{Assessment, Cache};

pub(super) fn section(assessment: &Assessment, groups: &[Group<'_>]) -> Section {
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
    section.table(cheapest(groups));
    section
}

/// The cheapest verified path of each group with full packets.
pub(crate) fn cheapest(groups: &[Group<'_>]) -> Table {
    let heads = ["", "size", "cheapest path", "#s/GiB", "#relative", "#calls per packet", "next"];
    let mut table = Table::new("The cheapest data path for full packets, and the next one.", &heads);
    for group in groups {
        let paths = group.paths();
        let full = group.full_size();
        let costs =
            paths.iter().filter_map(|(_, costs)| costs.iter().find(|cost| cost.measurement.size == full));
        let mut costs = costs.filter(|cost| cost.measurement.verified && cost.summary.is_some());
        let Some(best) = costs.next() else { continue };
        let calls = best.measurement.calls_per_packet;
        table.row([
            Cell::plain(format!("{}, MTU {}", name_of(group), number::count(group.mtu.into()))),
            Cell::plain(number::size(full)),
            Cell::code(&best.name),
            median(best),
            Cell::figure(group.relative(best), number::ratio),
            Cell::figure(calls, number::significant),
            Cell::plain(costs.next().map_or_else(|| number::NOTHING.to_owned(), described)),
        ]);
    }
    let plain = |experiment| baseline(experiment).unwrap_or_default();
    table.notes.push(format!(
        "Relative: to {} when streaming, to {} when downloading, with the same size.",
        plain("stream"),
        plain("download")
    ));
    table
}

/// A cell with a median that says whether it is to be relied on.
pub(super) fn median(cost: &Cost<'_>) -> Cell {
    let kind = if cost.is_noisy() { Kind::Noisy } else { Kind::Plain };
    Cell { kind, ..Cell::figure(cost.median(), number::significant) }
}

fn described(cost: &&Cost<'_>) -> String {
    format!("{} {}", cost.name, cost.median().map_or_else(String::new, number::significant))
}

fn runs(runs: u32) -> String {
    if runs == 1 { "one run".to_owned() } else { format!("{runs} runs") }
}
