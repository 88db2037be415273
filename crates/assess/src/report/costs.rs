//! Cost of kernel entry and of copying.

use wirepath_report::plot::{Axis, Line, Lines, Point, Unit};
use wirepath_report::{Cell, Detail, Kind, Panel, Section, Table, number};

use crate::result::{CopyCost, Costs};
use crate::statistics::Summary;

/// Kinds of copies: aligned or not, and same block or different blocks.
const KINDS: [(bool, bool); 4] = [(true, true), (true, false), (false, true), (false, false)];

pub(super) fn section(costs: &Costs) -> Section {
    let mut section = Section::new("costs", "Entering the kernel, and copying");
    section.table(entry(costs));
    let lines = KINDS.map(|(aligned, cached)| line(&costs.copies, aligned, cached));
    let plot = Lines {
        title: "Cost of memcpy by size",
        x_axis: "bytes copied at a time",
        x_unit: Unit::Bytes,
        y_axis: "time of one copy",
        y_kind: Axis::Logarithmic,
        y_unit: Unit::Time,
        lines: lines.into_iter().filter(|line| !line.points.is_empty()).collect(),
    };
    let panels = plot.scene().into_iter().map(|scene| Panel { title: String::new(), scene });
    section.figure(
        "Cost of copying by size (figure 2 of [2]): from and to pages' boundaries (aligned) or beside them, the same block \
         again (cached) or another each time (uncached).",
        panels.collect(),
    );
    section.table(copies(&costs.copies));
    section
}

fn entry(costs: &Costs) -> Table {
    let heads = ["call", "#median", "#least", "#greatest", "#spread", "#runs"];
    let mut table = Table::new("Entering the kernel and returning (920 ns in 2005, [2]).", &heads);
    if let Some(summary) = Summary::of(costs.kernel_entry_ns.iter().copied()) {
        table.row(std::iter::once(Cell::code("getpid")).chain(cells(&summary)));
    }
    table
}

/// Table with a row for each size and a column for each kind of copy.
fn copies(copies: &[CopyCost]) -> Table {
    let heads = KINDS.map(|(aligned, cached)| format!("{}, {}", pages(aligned), block(cached)));
    let mut table =
        Table::with_figures("Copying by size.", "size", heads.into_iter()).with_detail(Detail::Full);
    let mut sizes: Vec<u64> = copies.iter().map(|copy| copy.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for size in sizes {
        let cell = |(aligned, cached)| {
            let wanted = |copy: &&CopyCost| (copy.size, copy.aligned, copy.cached) == (size, aligned, cached);
            let copy = copies.iter().find(wanted);
            let summary = copy.and_then(|copy| Summary::of(copy.ns.iter().copied()));
            let kind =
                if summary.is_some_and(|summary| summary.is_noisy()) { Kind::Noisy } else { Kind::Plain };
            Cell { kind, ..Cell::figure(summary, |summary| number::time(summary.median * 1e-9)) }
        };
        table.row(std::iter::once(Cell::plain(number::bytes(size))).chain(KINDS.map(cell)));
    }
    table
}

/// Cells: median, smallest, largest, spread and number of runs, from nanoseconds.
fn cells(summary: &Summary) -> [Cell; 5] {
    let time = |ns: f64| number::time(ns * 1e-9);
    [
        Cell::new(time(summary.median), if summary.is_noisy() { Kind::Noisy } else { Kind::Plain }),
        Cell::plain(time(summary.least)),
        Cell::plain(time(summary.greatest)),
        Cell::plain(number::spread(summary.spread)),
        Cell::plain(number::count(summary.runs as u64)),
    ]
}

fn line(copies: &[CopyCost], aligned: bool, cached: bool) -> Line {
    let of_kind = copies.iter().filter(|copy| (copy.aligned, copy.cached) == (aligned, cached));
    let point = |copy: &CopyCost| {
        let summary = Summary::of(copy.ns.iter().copied())?;
        let seconds = |ns: f64| ns * 1e-9;
        Some(Point {
            size: copy.size,
            value: seconds(summary.median),
            range: (seconds(summary.least), seconds(summary.greatest)),
            noisy: summary.is_noisy(),
        })
    };
    let mut points: Vec<Point> = of_kind.filter_map(point).collect();
    points.sort_by_key(|point| point.size);
    Line { name: format!("{}, {}", pages(aligned), block(cached)), points }
}

fn pages(aligned: bool) -> &'static str {
    if aligned { "aligned" } else { "unaligned" }
}

fn block(cached: bool) -> &'static str {
    if cached { "cached" } else { "uncached" }
}
