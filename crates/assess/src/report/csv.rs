//! Every run as a row, for programs that draw and compute.

use serde::Serialize;

use crate::cost;
use crate::figures::{Figure, Name, Unit, figures};
use crate::result::{Assessment, Measurement, Profile, RelayCost, Transport};

/// A row; columns that a figure does not have are empty.
#[derive(Default, Serialize)]
struct Row {
    experiment: String,
    /// The path, the call, or what of a path.
    what: String,
    transport: Option<Transport>,
    /// Bytes of a packet, a send or a copy.
    size: Option<u64>,
    mtu: Option<u32>,
    packets_per_train: Option<u32>,
    /// From 1; none for what was measured once and for all runs.
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

/// The result as CSV (RFC 4180): a head, then a row for each run of each figure.
///
/// # Errors
/// If memory for it cannot be had.
pub fn csv(assessment: &Assessment) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for cost in cost::groups(assessment).iter().flat_map(|group| &group.costs) {
        runs(cost.measurement).try_for_each(|row| writer.serialize(row))?;
    }
    for cost in &assessment.relay {
        relayed(cost).try_for_each(|row| writer.serialize(row))?;
    }
    for figure in figures(assessment).iter().filter(|figure| !has_rows_of_its_own(figure)) {
        values(figure).try_for_each(|row| writer.serialize(row))?;
    }
    for point in assessment.loan.iter().flat_map(|loan| &loan.points) {
        for (what, errors) in
            [("failed sends that copy", point.copied_errors), ("failed sends that lend", point.lent_errors)]
        {
            let (transport, size, mtu) = (Some(point.transport), Some(point.size), Some(point.mtu));
            let what = format!("{what}{}", if point.aligned { "" } else { ", unaligned" });
            let (experiment, value) = ("loan".to_owned(), errors as f64);
            writer.serialize(Row {
                experiment,
                what,
                transport,
                size,
                mtu,
                value,
                unit: "sends",
                ..Row::default()
            })?;
        }
    }
    for profile in &assessment.profiles {
        functions(profile).try_for_each(|row| writer.serialize(row))?;
    }
    let bytes = writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8(bytes).expect("UTF-8 went in, and quotes"))
}

fn runs(measurement: &Measurement) -> impl Iterator<Item = Row> + '_ {
    measurement.runs.iter().enumerate().map(|(index, run)| Row {
        experiment: harmless(&measurement.experiment),
        what: harmless(&measurement.path),
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
    let (transport, unit_of_cost) = match cost.is_of_datagrams() {
        true => (Transport::Udp, Unit::Seconds),
        false => (Transport::Tcp, Unit::SecondsPerGib),
    };
    cost.runs.iter().zip(cost.costs()).enumerate().map(move |(index, (run, value))| Row {
        experiment: format!("relay: {}", cost.part),
        what: harmless(&cost.what()),
        transport: Some(transport),
        size: cost.block,
        mtu: Some(cost.mtu),
        run: Some(index + 1),
        value,
        unit: unit(unit_of_cost),
        user_s: Some(run.user_s),
        system_s: Some(run.system_s),
        wall_s: Some(run.wall_s),
        bytes: Some(run.bytes),
        verified: Some(cost.verified),
        ..Row::default()
    })
}

/// Whether the runs of a figure are rows already, with what they are made of.
fn has_rows_of_its_own(figure: &Figure) -> bool {
    let is_relay = figure.name.experiment.starts_with("relay: ");
    figure.unit == Unit::SecondsPerGib || (is_relay && figure.unit == Unit::Seconds)
}

fn values(figure: &Figure) -> impl Iterator<Item = Row> + '_ {
    let Name { experiment, transport, mtu, what, size, .. } = &figure.name;
    let repeated = figure.runs.len() > 1;
    figure.runs.iter().enumerate().map(move |(index, value)| Row {
        experiment: harmless(experiment),
        what: harmless(what),
        transport: *transport,
        size: *size,
        mtu: *mtu,
        run: repeated.then_some(index + 1),
        value: *value,
        unit: unit(figure.unit),
        ..Row::default()
    })
}

fn functions(profile: &Profile) -> impl Iterator<Item = Row> + '_ {
    profile.functions.iter().map(|function| Row {
        experiment: harmless(&format!("profile of {}", profile.experiment)),
        what: harmless(&format!("{}: {}", profile.path, function.function)),
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

/// Spreadsheets compute what begins like a formula: text of others does not.
fn harmless(text: &str) -> String {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => format!("'{text}"),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    /// Promise: Every run is a row of the CSV.
    #[test]
    fn there_is_a_row_for_each_run_and_each_has_every_column() {
        let assessment = example::full();
        let text = csv(&assessment).unwrap();
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let columns = reader.headers().unwrap().len();
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert!(rows.iter().all(|row| row.len() == columns));
        let runs: usize = assessment.measurements.iter().map(|measurement| measurement.runs.len()).sum();
        let (udp, tcp): (Vec<_>, Vec<_>) = assessment.relay.iter().partition(|cost| cost.is_of_datagrams());
        let relayed = |costs: &[&RelayCost]| costs.iter().map(|cost| cost.runs.len()).sum::<usize>();
        assert_eq!(rows.iter().filter(|row| &row[8] == "s/GiB").count(), runs + relayed(&tcp));
        let of_datagrams = |row: &&::csv::StringRecord| row[0].starts_with("relay: udp") && &row[8] == "s";
        assert_eq!(rows.iter().filter(of_datagrams).count(), relayed(&udp));
        let copies: usize =
            assessment.costs.iter().flat_map(|costs| &costs.copies).map(|copy| copy.ns.len()).sum();
        assert_eq!(rows.iter().filter(|row| row[1].starts_with("memcpy")).count(), copies);
    }

    /// Promise: No text of a result becomes markup, a formula or a terminal's control sequence.
    #[test]
    fn no_name_is_a_formula() {
        let mut assessment = example::full();
        assessment.measurements[0].path = "=1+1\",\n".to_owned();
        let text = csv(&assessment).unwrap();
        assert!(text.contains("\"'=1+1\"\",\n\""), "{}", &text[..400]);
    }
}
