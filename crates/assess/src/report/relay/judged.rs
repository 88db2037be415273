//! Table of an eBPF handler in the kernel and in user space.

use wirepath_report::{Cell, Kind, Table, number};

use super::caption;
use crate::result::{Method, Part, RELAY_RECORD, RelayCase, RelayCost, RelayRun};
use crate::statistics::Summary;

/// Heads of the columns.
const HEADS: [&str; 9] = [
    "method",
    "#passed",
    "#CPU / record",
    "#spread",
    "#relative",
    "#machine / record",
    "#relative by it",
    "#process / record",
    "verified",
];

/// Table of the cases of one part.
pub(super) fn table(costs: &[RelayCost]) -> Table {
    let mut table = Table::new(caption(costs[0].case.part), &HEADS);
    for cost in costs {
        let tasks = Summary::of(cost.costs());
        let is_noisy = tasks.is_some_and(|summary| summary.is_noisy());
        let kind = if is_noisy { Kind::Noisy } else { Kind::Plain };
        table.row([
            Cell::code(method(&cost.case)),
            Cell::figure(cost.case.passed, |passed| format!("{passed} %")),
            Cell::new(tasks.map_or_else(|| number::NOTHING.to_owned(), |one| number::time(one.median)), kind),
            Cell::figure(tasks, |summary| number::spread(summary.spread)),
            Cell::figure(relative(costs, cost, |run| run.tasks_s), number::significant),
            Cell::figure(for_record(cost, |run| run.machine_s), number::time),
            Cell::figure(relative(costs, cost, |run| run.machine_s), number::significant),
            Cell::figure(for_record(cost, |run| Some(run.cpu_s())), number::time),
            if cost.verified { Cell::new("yes", Kind::Good) } else { Cell::new("no", Kind::Bad) },
        ]);
    }
    table
}

/// Method of a case, with the number of receivers of a mirror.
fn method(case: &RelayCase) -> String {
    match (case.part, case.passed) {
        (Part::KernelMirror, Some(_)) => format!("{}, {} receivers", case.method, case.links),
        _ => case.method.to_string(),
    }
}

/// Seconds for a record, the median of the runs.
fn for_record(cost: &RelayCost, seconds: impl Fn(&RelayRun) -> Option<f64>) -> Option<f64> {
    let records = |run: &RelayRun| run.bytes as f64 / RELAY_RECORD as f64;
    let times = cost.runs.iter().filter_map(|run| Some(seconds(run)? / records(run)));
    Summary::of(times.collect::<Vec<f64>>()).map(|summary| summary.median)
}

/// Ratio of a case to the same handler in user space, above the cost of the source; `None` for the reference.
fn relative(costs: &[RelayCost], cost: &RelayCost, seconds: fn(&RelayRun) -> Option<f64>) -> Option<f64> {
    let passed = cost.case.passed?;
    let find = |method, links, passed| {
        costs
            .iter()
            .find(|RelayCost { case, .. }| (case.method, case.links, case.passed) == (method, links, passed))
    };
    let source = for_record(find(Method::Discard, 1, None)?, |run| Some(seconds(run)? - run.cpu_s()))?;
    let in_user_space = for_record(find(Method::Streams, cost.case.links, Some(passed))?, seconds)?;
    Some((for_record(cost, seconds)? - source) / (in_user_space - source))
}
