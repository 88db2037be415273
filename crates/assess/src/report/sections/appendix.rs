//! What was left out, what is noisy, and every figure there is.

use crate::cost::{Cost, Group};
use crate::figures::Figure;
use crate::report::document::Section;
use crate::report::number;
use crate::report::sections::{name_of, summary};
use crate::report::table::{Cell, Kind, Table};
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

/// Figures that are not to be relied on, by name, and runs that stand out.
pub(super) fn noise(figures: &[Figure]) -> Section {
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
    section.say(format!(
        "The spread is the distance between the quartiles of the runs, as a share of the median. {noisy} of {total} figures \
         that were measured more than once are noisy."
    ));
    section.table(table);
    section
}

/// Every measurement with all its figures.
pub(super) fn measurements(assessment: &Assessment, groups: &[Group<'_>]) -> Section {
    let mut section = Section::new("measurements", "Every measurement");
    for group in groups {
        let heads = [
            "path",
            "size",
            "#packets / call",
            "#calls / packet",
            "#in the papers",
            "#copying",
            "verified",
            "#median",
            "#least",
            "#greatest",
            "#spread",
            "#outliers",
            "#runs",
            "#user",
            "#relative",
            "#rate",
            "#errors",
            "#copied",
        ];
        let (title, mtu) = (name_of(group), number::count(group.mtu.into()));
        let mut table = Table::new(
            format!(
                "{title}, MTU {mtu}: cost in CPU seconds per GiB. In the papers: kernel calls for each packet by their tables 3 and 4. Copying: share of a path's time, where it was sampled with that size. User: share of it in user space. Rate: payload per second on the wall. Errors: sends that failed. Copied: loans that the kernel made copies."
            ),
            &heads,
        );
        let mut costs: Vec<&Cost<'_>> = group.costs.iter().collect();
        costs.sort_by_key(|cost| (cost.is_bare(), cost.measurement.size.unwrap_or(u64::MAX)));
        costs.iter().for_each(|cost| table.row(row(assessment, group, cost)));
        section.table(table);
    }
    section
}

fn row(assessment: &Assessment, group: &Group<'_>, cost: &Cost<'_>) -> Vec<Cell> {
    let Measurement { size, packets_per_train, calls_per_packet, verified, runs, .. } = cost.measurement;
    let of_runs = |figure: fn(&Run) -> f64| {
        let figures = runs.iter().map(figure).filter(|figure| figure.is_finite());
        Summary::of(figures).map(|summary| summary.median)
    };
    let figure = |figure: fn(Summary) -> f64| Cell::figure(cost.summary.map(figure), number::significant);
    let copied = runs.iter().try_fold(0u64, |sum, run| Some(sum.saturating_add(run.copied?)));
    vec![
        Cell::code(&cost.name),
        Cell::plain(number::size(*size)),
        Cell::plain(number::count((*packets_per_train).into())),
        Cell::figure(*calls_per_packet, number::significant),
        Cell::figure(cost.measurement.calls_in_papers, |calls| calls.to_string()),
        Cell::figure(cost.measurement.copying(&assessment.profiles), number::percent),
        match (verified, cost.is_bare()) {
            (true, _) => Cell::new("yes", Kind::Good),
            (false, true) => Cell::plain("bare"),
            (false, false) => Cell::new("no", Kind::Bad),
        },
        summary::median(cost),
        figure(|summary| summary.least),
        figure(|summary| summary.greatest),
        Cell::figure(cost.summary, |summary| number::spread(summary.spread)),
        Cell::figure(cost.summary, |summary| summary.outliers.to_string()),
        Cell::plain(runs.len().to_string()),
        Cell::figure(of_runs(|run| run.user_s / (run.user_s + run.system_s)), number::percent),
        Cell::figure(group.relative(cost), number::ratio),
        Cell::figure(of_runs(|run| run.bytes as f64 / run.wall_s), number::bit_rate),
        Cell::plain(number::count(runs.iter().fold(0, |sum, run| sum.saturating_add(run.errors)))),
        Cell::figure(copied, number::count),
    ]
}

/// Runs one by one, in the order they were made.
pub(super) fn every_run(figures: &[Figure]) -> Section {
    let mut section = Section::new("runs", "Every run");
    let caption = "Runs in the order they were made, of everything that was measured more than once.";
    let mut table = Table::new(caption, &["figure", "unit", "runs"]);
    for figure in figures.iter().filter(|figure| figure.runs.len() > 1) {
        let (unit, runs) = figure.every_run();
        table.row([Cell::plain(figure.name.to_string()), Cell::plain(unit), Cell::plain(runs.join(" "))]);
    }
    section.table(table);
    section
}
