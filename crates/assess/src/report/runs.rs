//! Table of every run, for plots and scripts.

use wirepath_report::{Cell, Table};

use crate::path_costs;
use crate::quantities::{Name, Quantity, Topic, Unit, quantities};
use crate::result::{Assessment, Experiment, Measurement, Profile, QueuePoint, RelayCost, Transport};

/// Columns; names of numeric columns begin with `#`.
const COLUMNS: [&str; 19] = [
    "experiment",
    "what",
    "transport",
    "#size",
    "#mtu",
    "#packets_per_train",
    "#run",
    "#value",
    "unit",
    "#user_s",
    "#system_s",
    "#wall_s",
    "#bytes",
    "#packets",
    "#errors",
    "#copied",
    "verified",
    "#calls_per_packet",
    "#calls_in_papers",
];

/// Row; columns that do not apply to a figure are empty.
#[derive(Default)]
struct Row {
    experiment: String,
    /// Path, call, or property of a path.
    what: String,
    transport: Option<Transport>,
    /// Bytes of a packet, a send or a copy.
    size: Option<u64>,
    mtu: Option<u32>,
    packets_per_train: Option<u32>,
    /// Run number from 1; `None` for figures measured once for all runs.
    run: Option<usize>,
    value: f64,
    unit: &'static str,
    user_s: Option<f64>,
    system_s: Option<f64>,
    wall_s: Option<f64>,
    bytes: Option<u64>,
    packets: Option<u64>,
    errors: Option<u64>,
    copied: Option<u64>,
    verified: Option<bool>,
    calls_per_packet: Option<f64>,
    calls_in_papers: Option<u32>,
}

impl Row {
    fn cells(self) -> [Cell; 19] {
        fn text<T: ToString>(value: Option<T>) -> String {
            value.map_or_else(String::new, |value| value.to_string())
        }
        // Shortest text that parses back to the same number.
        let float = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:?}"));
        [
            self.experiment,
            self.what,
            text(self.transport).to_lowercase(),
            text(self.size),
            text(self.mtu),
            text(self.packets_per_train),
            text(self.run),
            float(Some(self.value)),
            self.unit.to_owned(),
            float(self.user_s),
            float(self.system_s),
            float(self.wall_s),
            text(self.bytes),
            text(self.packets),
            text(self.errors),
            text(self.copied),
            text(self.verified),
            float(self.calls_per_packet),
            text(self.calls_in_papers),
        ]
        .map(Cell::plain)
    }
}

/// Table with a row for each run of each figure.
pub fn runs(assessment: &Assessment) -> Table {
    let mut table = Table::new("Every run.", &COLUMNS);
    let mut add = |rows: &mut dyn Iterator<Item = Row>| rows.for_each(|row| table.row(row.cells()));
    for cost in path_costs::groups(assessment).iter().flat_map(|group| &group.costs) {
        add(&mut measured(cost.measurement));
    }
    assessment.relay.iter().for_each(|cost| add(&mut relayed(cost)));
    for figure in quantities(assessment).iter().filter(|figure| !has_rows_of_its_own(figure)) {
        add(&mut values(figure));
    }
    for point in assessment.loan.iter().flat_map(|loan| &loan.points) {
        let errors =
            [("failed sends that copy", point.copied_errors), ("failed sends that lend", point.lent_errors)];
        add(&mut errors.into_iter().map(|(what, errors)| {
            let name = Name::of_loan(point, what);
            Row { value: errors as f64, unit: "sends", ..of_name(&name) }
        }));
    }
    for point in assessment.loan.iter().flat_map(|loan| &loan.queue) {
        add(&mut queued(point));
    }
    assessment.profiles.iter().for_each(|profile| add(&mut functions(profile)));
    table
}

fn measured(measurement: &Measurement) -> impl Iterator<Item = Row> + '_ {
    measurement.runs.iter().enumerate().map(|(index, run)| Row {
        experiment: measurement.experiment.to_string(),
        what: measurement.path.to_string(),
        transport: Some(measurement.transport),
        size: measurement.size,
        mtu: Some(measurement.mtu),
        packets_per_train: Some(measurement.packets_per_train),
        run: Some(index + 1),
        value: run.cpu_s_per_gib(),
        unit: unit(Unit::SecondsPerGib),
        user_s: Some(run.user_s),
        system_s: Some(run.system_s),
        wall_s: Some(run.wall_s),
        bytes: Some(run.bytes),
        packets: Some(run.packets),
        errors: Some(run.errors),
        copied: run.copied,
        verified: Some(measurement.verified),
        calls_per_packet: measurement.calls_per_packet,
        calls_in_papers: measurement.calls_in_papers,
    })
}

fn relayed(cost: &RelayCost) -> impl Iterator<Item = Row> + '_ {
    cost.runs.iter().zip(cost.costs()).enumerate().map(move |(index, (run, value))| Row {
        experiment: Topic::Relay(cost.case.part).to_string(),
        what: cost.case.what(),
        transport: Some(cost.case.transport()),
        size: cost.case.block,
        mtu: Some(cost.mtu),
        run: Some(index + 1),
        value,
        unit: unit(Unit::of_relay(cost)),
        user_s: Some(run.user_s),
        system_s: Some(run.system_s),
        wall_s: Some(run.wall_s),
        bytes: Some(run.bytes),
        verified: Some(cost.verified),
        ..Row::default()
    })
}

/// Refused sends of each accepted one.
fn queued(point: &QueuePoint) -> impl Iterator<Item = Row> + '_ {
    point.runs.iter().zip(point.errors_per_send()).enumerate().map(|(index, (run, value))| Row {
        experiment: Topic::Paths(Experiment::Loan).to_string(),
        what: format!("refused sends to a queue: {}", point.kind),
        transport: Some(Transport::Udp),
        size: Some(point.size),
        mtu: Some(point.mtu),
        run: Some(index + 1),
        value,
        unit: "refused/accepted",
        wall_s: Some(run.wall_s),
        bytes: Some(run.sent * point.size),
        packets: Some(run.sent),
        errors: Some(run.errors),
        copied: Some(run.copied_by_kernel),
        ..Row::default()
    })
}

/// Returns whether the runs of a figure already have rows, with their components.
fn has_rows_of_its_own(figure: &Quantity) -> bool {
    let is_relay = matches!(figure.name.topic, Topic::Relay(_));
    figure.unit == Unit::SecondsPerGib || (is_relay && figure.unit == Unit::Seconds)
}

fn of_name(name: &Name) -> Row {
    let Name { topic, transport, mtu, what, size, .. } = name;
    let experiment = topic.to_string();
    Row { experiment, what: what.clone(), transport: *transport, size: *size, mtu: *mtu, ..Row::default() }
}

fn values(figure: &Quantity) -> impl Iterator<Item = Row> + '_ {
    let repeated = figure.runs.len() > 1;
    figure.runs.iter().enumerate().map(move |(index, value)| Row {
        run: repeated.then_some(index + 1),
        value: *value,
        unit: unit(figure.unit),
        ..of_name(&figure.name)
    })
}

fn functions(profile: &Profile) -> impl Iterator<Item = Row> + '_ {
    profile.shares.functions.iter().map(|function| Row {
        experiment: Topic::Profile(profile.experiment).to_string(),
        what: format!("{}: {}", profile.path, function.function),
        transport: Some(profile.transport),
        size: profile.size,
        value: function.share,
        unit: unit(Unit::Share),
        ..Row::default()
    })
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::SecondsPerGib => "s/GiB",
        Unit::Seconds => "s",
        Unit::BytesPerSecond => "B/s",
        Unit::Share => "share",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    /// Promise: The CSV has a row for every run.
    #[test]
    fn there_is_a_row_for_each_run() {
        let assessment = example::full();
        let rows: Vec<Vec<String>> = runs(&assessment)
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| cell.text.clone()).collect())
            .collect();
        let runs: usize = assessment.measurements.iter().map(|measurement| measurement.runs.len()).sum();
        let (udp, tcp): (Vec<_>, Vec<_>) =
            assessment.relay.iter().partition(|cost| cost.case.is_of_datagrams());
        let relayed = |costs: &[&RelayCost]| costs.iter().map(|cost| cost.runs.len()).sum::<usize>();
        assert_eq!(rows.iter().filter(|row| &row[8] == "s/GiB").count(), runs + relayed(&tcp));
        let of_datagrams = |row: &&Vec<String>| row[0].starts_with("relay: udp") && &row[8] == "s";
        assert_eq!(rows.iter().filter(of_datagrams).count(), relayed(&udp));
        let copies: usize =
            assessment.costs.iter().flat_map(|costs| &costs.copies).map(|copy| copy.ns.len()).sum();
        assert_eq!(rows.iter().filter(|row| row[1].starts_with("memcpy")).count(), copies);
        let queue = &assessment.loan.as_ref().unwrap().queue;
        let queued: usize = queue.iter().map(|point| point.runs.len()).sum();
        assert!(queued > 0);
        assert_eq!(
            rows.iter().filter(|row| row[1].starts_with("refused sends to a queue: ")).count(),
            queued
        );
    }
}
