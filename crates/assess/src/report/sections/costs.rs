//! What the machine charges for entering the kernel and for copying.

use crate::report::document::{Panel, Section};
use crate::report::number;
use crate::report::plot::{Kind as Axis, Line, Lines, Point, Unit};
use crate::report::table::{Cell, Kind, Table};
use crate::result::{CopyCost, Costs};
use crate::statistics::Summary;

pub(super) fn section(costs: &Costs) -> Section {
    let mut section = Section::new("costs", "Entering the kernel, and copying");
    section.table(entry(costs));
    let lines = [(true, true), (true, false), (false, true), (false, false)];
    let lines = lines.map(|(aligned, cached)| line(&costs.copies, aligned, cached));
    let plot = Lines {
        title: "Cost of memcpy by size",
        x_axis: "bytes copied at a time",
        y_axis: "time of one copy",
        y_kind: Axis::Logarithmic,
        y_unit: Unit::Time,
        lines: lines.into_iter().filter(|line| !line.points.is_empty()).collect(),
    };
    let panels = plot.scene().into_iter().map(|scene| Panel { title: String::new(), scene });
    section.figure(
        "Cost of copying by size (figure 2 of [2]): from and to pages' boundaries or beside them, the same block again \
         and again or ever other ones.",
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

fn copies(copies: &[CopyCost]) -> Table {
    let heads = ["size", "pages", "block", "#median", "#least", "#greatest", "#spread", "#runs", "#GiB/s"];
    let mut table = Table::new("Copying by size.", &heads);
    for copy in copies {
        let Some(summary) = Summary::of(copy.ns.iter().copied()) else { continue };
        let head = [
            Cell::plain(number::bytes(copy.size)),
            Cell::plain(pages(copy.aligned)),
            Cell::plain(block(copy.cached)),
        ];
        let rate = copy.size as f64 / (summary.median * 1e-9) / (1u64 << 30) as f64;
        table.row(head.into_iter().chain(cells(&summary)).chain([Cell::plain(number::significant(rate))]));
    }
    table
}

/// Median, least, greatest, spread and number of runs of nanoseconds.
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
