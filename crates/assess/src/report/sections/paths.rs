//! Data paths of one experiment: figures 3 to 5 of the assessment papers.

use crate::cost::{Cost, Group};
use crate::report::document::{Panel, Section};
use crate::report::number;
use crate::report::plot::{Dot, DotRow, Dots};
use crate::report::sections::{name_of, summary};
use crate::report::table::{Cell, Kind, Table};
use crate::result::Transport;
use crate::verdict::baseline;

/// Sizes that marks tell apart in a figure, and that stand side by side in a table. The figures of the page loan have more, and
/// have sizes along their axis (see `loan`).
const SIDE_BY_SIDE: usize = 6;

pub(super) fn section(index: usize, group: &Group<'_>) -> Section {
    let title = format!("{}, MTU {}", name_of(group), number::count(group.mtu.into()));
    let mut section = Section::new(format!("paths-{}", index + 1), title);
    section.say(introduction(group));
    if group.sizes().len() <= SIDE_BY_SIDE {
        figure(&mut section, group);
    }
    section.table(by_size(group));
    section.table(beside_bare(group));
    section
}

fn figure(section: &mut Section, group: &Group<'_>) {
    let mut panels = vec![panel(group, "CPU seconds per GiB", false)];
    if let Some(plain) = baseline(group.experiment) {
        panels.push(panel(group, &format!("cost relative to {plain}"), true));
    }
    let caption = format!(
        "{} by data path and packet size: processor time{}. Whiskers reach from the least to the greatest run; hollow \
         marks are noisy; an upright stroke is a bare C loop that does the same.",
        name_of(group),
        after(group)
    );
    section.figure(caption, panels.into_iter().flatten().collect());
}

fn introduction(group: &Group<'_>) -> String {
    match (group.experiment, group.transport) {
        ("stream", _) => "Each packet has an RTP header in front of its payload. Paths that send trains take many packets \
                          into the kernel with one call; wire images hold the headers already."
            .to_owned(),
        ("download", Transport::Udp) => "Payload alone, a datagram for each packet.".to_owned(),
        ("download", Transport::Tcp) => {
            "Payload alone, a call for each block of the size, or one for the whole file. TCP cuts packets by itself."
                .to_owned()
        }
        ("loan", _) => "Sends that copy, and sends that lend their pages to the kernel.".to_owned(),
        (other, _) => format!("The experiment “{other}”."),
    }
}

/// Which figures of the papers it is like.
fn after(group: &Group<'_>) -> &'static str {
    match (group.experiment, group.transport) {
        ("stream", _) => {
            " for each GiB (figure 4 of [1] and [2]; in 4b's place, today's paths), and relative to the plain path with \
             the same size (figure 5)"
        }
        ("download", Transport::Udp) => {
            " for each GiB (figure 3a of [1] and [2]), and relative to the plain path with the same size"
        }
        ("download", Transport::Tcp) => {
            " for each GiB (figure 3b of [1] and [2]), and relative to the plain path with the same size"
        }
        _ => " for each GiB",
    }
}

/// The plot of one figure of each cost; nothing if there is nothing to show.
fn panel(group: &Group<'_>, axis: &str, relative: bool) -> Option<Panel> {
    let sizes = group.sizes();
    let series: Vec<String> = sizes.iter().map(|size| number::size(*size)).collect();
    let paths = group.paths();
    let dot = |cost: &&Cost<'_>| {
        let median = cost.median()?;
        let value = if relative { group.relative(cost)? } else { median };
        // Where a figure is relative, so are its runs.
        let scale = value / median;
        let range = cost.summary.map(|summary| (summary.least * scale, summary.greatest * scale))?;
        let bare = group.bare(cost).and_then(Cost::median).filter(|_| !relative);
        let series = sizes.iter().position(|size| *size == cost.measurement.size)?;
        Some(Dot { series, value, range, noisy: cost.is_noisy(), bare })
    };
    let row = |(name, costs): &(&'_ str, Vec<&Cost<'_>>)| {
        let mut dots: Vec<Dot> = costs.iter().filter_map(dot).collect();
        dots.sort_by_key(|dot| dot.series);
        DotRow { name: name.to_string(), dots }
    };
    let rows: Vec<DotRow> = paths.iter().map(row).filter(|row| !row.dots.is_empty()).collect();
    let title = format!("{}: {axis}", name_of(group));
    let scene = Dots { title: &title, axis, series: &series, rows: &rows, relative }.scene()?;
    Some(Panel { title: String::new(), scene })
}

/// Paths by sizes; of many sizes, sizes by paths.
pub(crate) fn by_size(group: &Group<'_>) -> Table {
    let (sizes, paths) = (group.sizes(), group.paths());
    let caption =
        format!("{}, MTU {}: CPU seconds per GiB by size.", name_of(group), number::count(group.mtu.into()));
    let size_names = sizes.iter().map(|size| number::size(*size));
    let cell = |costs: &[&Cost<'_>], size: &Option<u64>| {
        let cost = costs.iter().find(|cost| cost.measurement.size == *size);
        cost.map_or_else(|| Cell::plain(number::NOTHING), |cost| summary::median(cost))
    };
    if sizes.len() <= SIDE_BY_SIDE {
        let mut table = Table::with_figures(caption, "path", size_names);
        for (name, costs) in &paths {
            let cells = sizes.iter().map(|size| cell(costs, size));
            table.row(std::iter::once(Cell::code(name)).chain(cells));
        }
        return table;
    }
    let mut table = Table::with_figures(caption, "size", paths.iter().map(|(name, _)| name.to_string()));
    for (size, name) in sizes.iter().zip(size_names) {
        let cells = paths.iter().map(|(_, costs)| cell(costs, size));
        table.row(std::iter::once(Cell::plain(name)).chain(cells));
    }
    table
}

/// Ours and bare C, side by side.
fn beside_bare(group: &Group<'_>) -> Table {
    let caption =
        "Beside bare C loops that do the same: what measuring itself costs. The goal is 1.25 at most.";
    let mut table = Table::new(caption, &["path", "size", "#s/GiB", "#bare C s/GiB", "#ratio"]);
    for (name, costs) in group.paths() {
        for cost in costs {
            let Some((bare, ratio)) = group.bare(cost).zip(group.over_bare(cost)) else { continue };
            let kind = if ratio <= 1.25 { Kind::Good } else { Kind::Bad };
            table.row([
                Cell::code(name),
                Cell::plain(number::size(cost.measurement.size)),
                summary::median(cost),
                summary::median(bare),
                Cell::new(number::significant(ratio), kind),
            ]);
        }
    }
    table
}

/// One path with every size: what its page in the documentation shows.
pub(crate) fn of_every_size(group: &Group<'_>, path: &str) -> Table {
    let plain = baseline(group.experiment).unwrap_or("the plain path");
    let relative = format!("#relative to {plain}");
    let heads = ["size", "#packets per call", "#calls per packet", "#s/GiB", "#spread", &relative];
    let mut table =
        Table::new(format!("{}, MTU {}", name_of(group), number::count(group.mtu.into())), &heads);
    let mut costs: Vec<&Cost<'_>> = group.costs.iter().filter(|cost| cost.measurement.path == path).collect();
    costs.sort_by_key(|cost| cost.measurement.size.unwrap_or(u64::MAX));
    for cost in costs {
        let measurement = cost.measurement;
        table.row([
            Cell::plain(number::size(measurement.size)),
            Cell::plain(number::count(measurement.packets_per_train.into())),
            Cell::figure(measurement.calls_per_packet, number::significant),
            summary::median(cost),
            Cell::figure(cost.summary, |summary| number::spread(summary.spread)),
            Cell::figure(group.relative(cost), number::ratio),
        ]);
    }
    table
}
