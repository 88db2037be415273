//! Data paths of one experiment: figures 3 to 5 of the assessment papers.

use wirepath_report::plot::{Dot, DotRow, Dots};
use wirepath_report::{Cell, Detail, Kind, Panel, Section, Table, number};

use super::{name_of, summary};
use crate::path_costs::{Cost, Group};
use crate::result::{Assessment, Experiment, Loans, Measurement, Transport};

pub(super) fn section(assessment: &Assessment, index: usize, group: &Group<'_>) -> Section {
    let mut section = Section::new(format!("paths-{}", index + 1), title(group));
    section.paragraph(introduction(group));
    figure(&mut section, group);
    section.table(by_size(group).with_detail(Detail::Page));
    section.table(explained(assessment, costs(assessment, group, |cost| !cost.is_bare())));
    section.table(beside_bare(group));
    section
}

fn title(group: &Group<'_>) -> String {
    format!("{}, MTU {}", name_of(group.experiment, group.transport), number::count(group.mtu.into()))
}

fn figure(section: &mut Section, group: &Group<'_>) {
    let mut panels = vec![panel(group, "CPU seconds per GiB", false)];
    if let Some(plain) = group.experiment.baseline() {
        panels.push(panel(group, &format!("cost relative to {plain}"), true));
    }
    let caption = format!(
        "{} by data path and packet size: processor time{}. Whiskers reach from the least to the greatest run; hollow \
         marks are noisy; an upright stroke is a bare C loop that does the same.",
        name_of(group.experiment, group.transport),
        after(group)
    );
    section.figure(caption, panels.into_iter().flatten().collect());
}

fn introduction(group: &Group<'_>) -> String {
    match (group.experiment, group.transport) {
        (Experiment::Stream, Transport::Tcp) => {
            "Each packet has an RTP header in front of its payload, and before it four bytes of framing, as in RTSP \
             connections (RFC 2326 section 10.12). The path interleaved, a server's own, takes a train into the kernel with \
             one call, the papers' paths a packet with one or two."
                .to_owned()
        }
        (Experiment::Stream, Transport::Udp) => "Each packet has an RTP header in front of its payload. Paths that send trains take many packets \
                          into the kernel with one call; wire images hold the headers already."
            .to_owned(),
        (Experiment::Download, Transport::Udp) => "Payload alone, a datagram for each packet.".to_owned(),
        (Experiment::Download, Transport::Tcp) => {
            "Payload alone, a call for each block of the size, or one for the whole file. TCP cuts packets by itself."
                .to_owned()
        }
        (other, _) => format!("The experiment “{other}”."),
    }
}

/// Figures of the papers that correspond to a group.
fn after(group: &Group<'_>) -> &'static str {
    match (group.experiment, group.transport) {
        (Experiment::Stream, Transport::Tcp) => {
            " for each GiB (table 2 of [1]), and relative to the plain path with the same size"
        }
        (Experiment::Stream, Transport::Udp) => {
            " for each GiB (figure 4 of [1] and [2]; in 4b's place, today's paths), and relative to the plain path with \
             the same size (figure 5)"
        }
        (Experiment::Download, Transport::Udp) => {
            " for each GiB (figure 3a of [1] and [2]), and relative to the plain path with the same size"
        }
        (Experiment::Download, Transport::Tcp) => {
            " for each GiB (figure 3b of [1] and [2]), and relative to the plain path with the same size"
        }
        _ => " for each GiB",
    }
}

/// Plot of one figure of each cost; `None` without values.
fn panel(group: &Group<'_>, axis: &str, relative: bool) -> Option<Panel> {
    let sizes = group.sizes();
    let series: Vec<String> = sizes.iter().map(|size| number::size(*size)).collect();
    let paths = group.paths();
    let dot = |cost: &Cost<'_>| {
        let median = cost.median()?;
        let value = if relative { group.relative(cost)? } else { median };
        // The range is scaled like the figure.
        let scale = value / median;
        let range = cost.summary.map(|summary| (summary.least * scale, summary.greatest * scale))?;
        let bare = group.bare(cost).and_then(Cost::median).filter(|_| !relative);
        let series = sizes.iter().position(|size| *size == cost.measurement.size)?;
        Some(Dot { series, value, range, noisy: cost.is_noisy(), bare })
    };
    let row = |(name, costs): &(&'_ str, Vec<&Cost<'_>>)| {
        let mut costs = costs.clone();
        costs.sort_by_key(|cost| cost.measurement.size.unwrap_or(u64::MAX));
        DotRow { name: name.to_string(), dots: costs.into_iter().map(dot).collect() }
    };
    let rows: Vec<DotRow> = paths.iter().map(row).collect();
    let title = format!("{}: {axis}", name_of(group.experiment, group.transport));
    let scene = Dots { title: &title, axis, series: &series, rows: &rows, relative }.scene()?;
    Some(Panel { title: String::new(), scene })
}

/// Table of paths by size.
pub(super) fn by_size(group: &Group<'_>) -> Table {
    let sizes = group.sizes();
    let size_names = sizes.iter().map(|size| number::size(*size));
    let mut table =
        Table::with_figures(format!("{}: CPU seconds per GiB by size.", title(group)), "path", size_names);
    for (name, costs) in &group.paths() {
        let cell = |size: &Option<u64>| {
            let cost = costs.iter().find(|cost| cost.measurement.size == *size);
            cost.map_or_else(|| Cell::plain(number::NOTHING), |cost| summary::median(cost))
        };
        table.row(std::iter::once(Cell::code(name)).chain(sizes.iter().map(cell)));
    }
    table
}

/// Table of costs compared with bare C.
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

/// Table of the selected paths in every size, smallest size first, and cheapest path first within a size.
pub(super) fn costs(
    assessment: &Assessment,
    group: &Group<'_>,
    is_wanted: impl Fn(&Cost<'_>) -> bool,
) -> Table {
    let plain = group.experiment.baseline().map_or("the plain path", |plain| plain.name());
    let relative = format!("#relative to {plain}");
    let heads = [
        "path",
        "size",
        "#s/GiB",
        "#spread",
        &relative,
        "#calls per packet",
        "#in papers",
        "#copying",
        "#packets per call",
    ];
    let mut table = Table::new(format!("{}.", title(group)), &heads);
    let mut costs: Vec<&Cost<'_>> = group.costs.iter().filter(|cost| is_wanted(cost)).collect();
    costs.sort_by(|one, other| {
        let size = |cost: &Cost<'_>| cost.measurement.size.unwrap_or(u64::MAX);
        let median = |cost: &Cost<'_>| cost.median().unwrap_or(f64::INFINITY);
        size(one).cmp(&size(other)).then(median(one).total_cmp(&median(other)))
    });
    for cost in costs {
        let measurement = cost.measurement;
        table.row([
            Cell::code(&cost.name),
            Cell::plain(number::size(measurement.size)),
            summary::median(cost),
            Cell::figure(cost.summary, |summary| number::spread(summary.spread)),
            Cell::figure(group.relative(cost), number::ratio),
            Cell::figure(measurement.calls_per_packet, number::significant),
            Cell::figure(measurement.calls_in_papers, |calls| calls.to_string()),
            Cell::figure(measurement.copying(&assessment.profiles), number::percent),
            Cell::plain(number::count(measurement.packets_per_train.into())),
        ]);
    }
    table
}

/// Adds the meaning of the columns to a table.
fn explained(assessment: &Assessment, mut table: Table) -> Table {
    let copying = match assessment.profiles.is_empty() {
        true => "Copying was not sampled: `wirepath assess profile` shows its share of each path's time.",
        false => {
            "Copying: its share of the path's time, where that was sampled, with packets that fill the MTU."
        }
    };
    table.notes.push(format!(
        "s/GiB: median of user and system seconds. Calls: kernel calls for each packet or block; in papers: by their tables 3 \
         and 4. Spread ?: fewer than three runs. {copying}"
    ));
    table.with_detail(Detail::Full)
}

/// Loans and copies of paths that lend, summed over all runs.
pub(super) fn lent(assessment: &Assessment) -> Section {
    let mut section = Section::new("lent", "Pages lent");
    let heads =
        ["path", "size", "over", "#MTU", "#loans", "#copies", "#by the kernel", "#outstanding at most"];
    let caption =
        "Sends that lent, sends that were copied, loans that the kernel copied after all; in all runs.";
    let mut table = Table::new(caption, &heads).with_detail(Detail::Full);
    for measurement in &assessment.measurements {
        let Some(total) = loans(measurement) else { continue };
        let counts = [total.loans, total.copies, total.copied_by_kernel, total.outstanding_most];
        let head = [
            Cell::code(measurement.path.to_string()),
            Cell::plain(number::size(measurement.size)),
            Cell::plain(measurement.transport.to_string()),
            Cell::plain(number::count(measurement.mtu.into())),
        ];
        table.row(head.into_iter().chain(counts.map(number::count).map(Cell::plain)));
    }
    section.table(table);
    section
}

/// Loans summed over all runs of a measurement; `None` for a path that does not lend.
fn loans(measurement: &Measurement) -> Option<Loans> {
    let mut counts = measurement.runs.iter().filter_map(|run| run.loans).peekable();
    counts.peek().is_some().then(|| counts.sum())
}
