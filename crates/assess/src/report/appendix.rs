//! Appendix: parts left out, noise, and all figures.

use wirepath_report::{Cell, Detail, Kind, Section, Table, number};

use super::name_of;
use crate::path_costs::{Cost, Group};
use crate::quantities::Quantity;
use crate::result::{Assessment, Measurement, Run};
use crate::statistics::{NOISY_SPREAD, Summary};

pub(super) fn left_out(assessment: &Assessment) -> Section {
    let mut section = Section::new("left-out", "Left out");
    let mut table = Table::new("What was not measured, and why.", &["what", "why"]);
    for left_out in &assessment.left_out {
        table.row([Cell::plain(&left_out.what), Cell::plain(&left_out.why)]);
    }
    section.table(table);
    section
}

/// Unreliable figures by name, and outlying runs.
pub(super) fn noise(figures: &[Quantity]) -> Section {
    let mut section = Section::new("noise", "Noise");
    let limit = number::percent(NOISY_SPREAD);
    let caption =
        format!("Figures whose spread is above {limit}, and figures with outliers (Tukey's fences).");
    let mut table = Table::new(caption, &["figure", "#median", "#spread", "#outliers", "#runs", "verdict"]);
    let repeated = figures.iter().filter(|figure| figure.runs.len() > 1);
    let summaries = repeated.filter_map(|figure| Some((figure, Summary::of(figure.runs.iter().copied())?)));
    let (mut total, mut noisy) = (0, 0);
    for (figure, summary) in summaries {
        total += 1;
        noisy += usize::from(summary.is_noisy());
        if !summary.is_noisy() && summary.outliers == 0 {
            continue;
        }
        table.row([
            Cell::plain(figure.name.to_string()),
            Cell::plain(figure.unit.text(summary.median)),
            Cell::plain(number::spread(summary.spread)),
            Cell::plain(summary.outliers.to_string()),
            Cell::plain(summary.runs.to_string()),
            match summary.is_noisy() {
                true => Cell::new("noisy: do not rely on it", Kind::Noisy),
                false => Cell::plain("the median holds"),
            },
        ]);
    }
    if total == 0 {
        return section;
    }
    section.paragraph(format!(
        "The spread is the distance between the quartiles of the runs, as a share of the median. {noisy} of {total} figures \
         that were measured more than once are noisy."
    ));
    section.table(table.with_detail(Detail::Page));
    section
}

/// All measurements, with the figures that no other table has.
pub(super) fn measurements(groups: &[Group<'_>]) -> Section {
    let mut section = Section::new("measurements", "Every measurement");
    for group in groups {
        let heads = [
            "path",
            "size",
            "verified",
            "#median",
            "#least",
            "#greatest",
            "#spread",
            "#outliers",
            "#runs",
            "#user",
            "#rate",
            "#errors",
            "#copied",
        ];
        let caption = format!(
            "{}, MTU {}: cost in CPU seconds per GiB. User: share of it in user space. Rate: payload per second on the wall. \
             Errors: sends that failed. Copied: loans that the kernel made copies.",
            name_of(group.experiment, group.transport),
            number::count(group.mtu.into())
        );
        let mut table = Table::new(caption, &heads).with_detail(Detail::Raw);
        let mut costs: Vec<&Cost<'_>> = group.costs.iter().collect();
        costs.sort_by_key(|cost| (cost.is_bare(), cost.measurement.size.unwrap_or(u64::MAX)));
        costs.iter().for_each(|cost| table.row(row(cost)));
        section.table(table);
    }
    section
}

fn row(cost: &Cost<'_>) -> [Cell; 13] {
    let Measurement { size, verified, runs, .. } = cost.measurement;
    let of_runs = |figure: fn(&Run) -> f64| {
        let figures = runs.iter().map(figure).filter(|figure| figure.is_finite());
        Summary::of(figures).map(|summary| summary.median)
    };
    let figure = |figure: fn(Summary) -> f64| Cell::figure(cost.summary.map(figure), number::significant);
    let copied = runs.iter().try_fold(0u64, |sum, run| Some(sum.saturating_add(run.copied?)));
    [
        Cell::code(&cost.name),
        Cell::plain(number::size(*size)),
        match (verified, cost.is_bare()) {
            (true, _) => Cell::new("yes", Kind::Good),
            (false, true) => Cell::plain("bare"),
            (false, false) => Cell::new("no", Kind::Bad),
        },
        super::summary::median(cost),
        figure(|summary| summary.least),
        figure(|summary| summary.greatest),
        Cell::figure(cost.summary, |summary| number::spread(summary.spread)),
        Cell::figure(cost.summary, |summary| summary.outliers.to_string()),
        Cell::plain(runs.len().to_string()),
        Cell::figure(of_runs(|run| run.user_s / (run.user_s + run.system_s)), number::percent),
        Cell::figure(of_runs(|run| run.bytes as f64 / run.wall_s), number::bit_rate),
        Cell::plain(number::count(runs.iter().fold(0, |sum, run| sum.saturating_add(run.errors)))),
        Cell::figure(copied, number::count),
    ]
}

/// All runs, in the order they were made.
pub(super) fn every_run(figures: &[Quantity]) -> Section {
    let mut section = Section::new("runs", "Every run");
    let caption = "Runs in the order they were made, of everything that was measured more than once.";
    let mut table = Table::new(caption, &["figure", "unit", "runs"]).with_detail(Detail::Raw);
    for figure in figures.iter().filter(|figure| figure.runs.len() > 1) {
        let (unit, runs) = figure.every_run();
        table.row([Cell::plain(figure.name.to_string()), Cell::plain(unit), Cell::plain(runs.join(" "))]);
    }
    section.table(table);
    section
}
