//! What every path costs.

use comfy_table::CellAlignment;
use wirepath_assess::result::{Measurement, Profile, Transport};
use wirepath_assess::statistics::NOISY_SPREAD;
use wirepath_assess::verdict::{baseline, cost};

use super::{percent, three_digits};
use crate::format;
use crate::table::{lines, new_table, section};

/// A table for each experiment, transport and MTU.
pub(super) fn parts(
    profiles: &[Profile],
    measurements: &[Measurement],
    width: usize,
    utf8: bool,
) -> Vec<String> {
    measurements.chunk_by(together).map(|group| part(profiles, group, width, utf8)).collect()
}

/// What the columns mean, and the names of figures that are not to be relied on.
pub(super) fn remarks(
    profiles: &[Profile],
    measurements: &[Measurement],
    width: usize,
    utf8: bool,
) -> String {
    if measurements.is_empty() {
        return String::new();
    }
    let is_noisy = |measurement: &&Measurement| cost(measurement).is_some_and(|cost| cost.is_noisy());
    let noisy: Vec<String> = measurements.iter().filter(is_noisy).map(name).collect();
    let mut remarks = vec![
        "s/GiB: median of user and system seconds. calls: kernel calls for each packet or block; papers: by the papers' tables 3 and 4. batch: most packets in a call. spread ?: fewer than three runs."
            .to_owned(),
    ];
    remarks.push(match profiles.is_empty() {
        true => "Copying was not looked at: `wirepath assess profile` shows its share of each path's time."
            .to_owned(),
        false => {
            "copying: its share of the path's time, where that was sampled, with packets that fill the MTU."
                .to_owned()
        }
    });
    if !noisy.is_empty() {
        let limit = percent(NOISY_SPREAD);
        let names = noisy.join("; ");
        remarks
            .push(format!("~ noisy, half of the runs spread over more than {limit} of the median: {names}."));
    }
    let mut table = new_table(width, utf8);
    table.add_rows(remarks.iter().map(|remark| [remark]));
    lines(&mut table)
}

fn together(one: &Measurement, other: &Measurement) -> bool {
    (&one.experiment, one.transport, one.mtu) == (&other.experiment, other.transport, other.mtu)
}

fn part(profiles: &[Profile], group: &[Measurement], width: usize, utf8: bool) -> String {
    let Some(first) = group.first() else { return String::new() };
    let plain = baseline(&first.experiment);
    let mut rows: Vec<(&Measurement, _)> =
        group.iter().filter_map(|measurement| Some((measurement, cost(measurement)?))).collect();
    rows.sort_by(|(one, cost), (other, other_cost)| {
        (one.size.unwrap_or(u64::MAX).cmp(&other.size.unwrap_or(u64::MAX)))
            .then(cost.median.total_cmp(&other_cost.median))
    });
    let median_of = |path: &str, size| {
        rows.iter().find(|(row, _)| row.path == path && row.size == size).map(|(_, cost)| cost.median)
    };
    let mut table = new_table(width, utf8);
    table.set_header(["bytes", "path", "s/GiB", "spread", "ratio", "calls", "papers", "copying", "batch"]);
    table.add_rows(rows.iter().map(|(measurement, cost)| {
        let ratio = plain.and_then(|plain| Some(cost.median / median_of(plain, measurement.size)?));
        [
            size(measurement),
            measurement.path.clone(),
            format!("{}{}", if cost.is_noisy() { "~" } else { "" }, small(cost.median)),
            cost.spread.map_or("?".to_owned(), percent),
            ratio.map_or(String::new(), small),
            measurement.calls_per_packet.map_or("?".to_owned(), small),
            measurement.calls_in_papers.map_or(String::new(), |calls| calls.to_string()),
            measurement.copying(profiles).map_or(String::new(), percent),
            format::count(measurement.packets_per_train.into()),
        ]
    }));
    for index in [0, 2, 3, 4, 5, 6, 7, 8] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let against = plain.map_or(String::new(), |plain| format!(" (ratio to {plain})"));
    let mtu = format::count(first.mtu.into());
    section(
        &format!("{} over {}, MTU {mtu}, {}{against}", first.experiment, transport(first), runs_of(group)),
        &lines(&mut table),
    )
}

/// How many runs there are of each: where it was stopped, of some one more.
fn runs_of(group: &[Measurement]) -> String {
    let runs = || group.iter().map(|measurement| measurement.runs.len());
    match (runs().min().unwrap_or_default(), runs().max().unwrap_or_default()) {
        (1, 1) => "1 run".to_owned(),
        (least, most) if least == most => format!("{most} runs"),
        (least, most) => format!("{least} to {most} runs"),
    }
}

fn name(measurement: &Measurement) -> String {
    format!("{} {} over {}", measurement.path, size(measurement), transport(measurement))
}

fn size(measurement: &Measurement) -> String {
    measurement.size.map_or("whole file".to_owned(), format::count)
}

fn transport(measurement: &Measurement) -> &'static str {
    if measurement.transport == Transport::Udp { "UDP" } else { "TCP" }
}

/// A figure that may be far below one.
pub(super) fn small(value: f64) -> String {
    match value {
        value if value < 0.00995 => format!("{value:.4}"),
        value if value < 0.995 => format!("{value:.3}"),
        value => three_digits(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirepath_assess::result::Run;

    fn measured(path: &str, size: Option<u64>, seconds: &[f64]) -> Measurement {
        let run = |system_s: &f64| Run {
            user_s: 0.0,
            system_s: *system_s,
            wall_s: 1.0,
            bytes: 1 << 30,
            packets: 1,
            errors: 0,
            copied: None,
            loans: None,
        };
        Measurement {
            experiment: "stream".to_owned(),
            path: path.to_owned(),
            transport: Transport::Udp,
            size,
            packets_per_train: 48,
            mtu: 1500,
            verified: true,
            calls_per_packet: Some(1.0 / 48.0),
            calls_in_papers: Some(2),
            runs: seconds.iter().map(run).collect(),
        }
    }

    /// Promise: The share of copying of each path is shown, from its profile.
    #[test]
    fn rows_are_sorted_compared_and_marked() {
        let measurements = [
            measured("read_writev", Some(1460), &[1.0, 1.0]),
            measured("wire_sendfile", Some(1460), &[0.05, 0.05]),
            measured("sendmmsg", Some(512), &[1.0, 2.0, 3.0]),
        ];
        let profile = |path: &str| Profile {
            experiment: "stream".to_owned(),
            path: path.to_owned(),
            transport: Transport::Udp,
            size: Some(1460),
            samples: 2000,
            lost: 0,
            functions: Vec::new(),
            copying: 0.315,
            entering: 0.1,
            network: 0.5,
            user: 0.05,
        };
        let profiles = [profile("read_writev")];
        let parts = parts(&profiles, &measurements, 80, false);
        let [part] = &parts[..] else { panic!("{parts:?}") };
        let rows: Vec<Vec<&str>> = part.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[3][..3], ["512", "sendmmsg", "~2.00"]);
        assert_eq!(rows[4][..5], ["1,460", "wire_sendfile", "0.050", "?", "0.050"]);
        assert_eq!(rows[5][..5], ["1,460", "read_writev", "1.00", "?", "1.00"]);
        assert_eq!(rows[5][5..], ["0.021", "2", "31.5", "%", "48"]);
        assert_eq!(rows[4][5..], ["0.021", "2", "48"], "no profile of that path");
        assert!(part.lines().all(|line| line.len() <= 80), "{part}");
        let all = remarks(&profiles, &measurements, 500, false);
        assert!(all.contains("copying: its share"), "{all}");
        assert!(all.ends_with("median: sendmmsg 512 over UDP.\n"), "{all}");
        assert!(!remarks(&profiles, &measurements[..2], 500, false).contains("noisy"));
        assert!(remarks(&[], &measurements, 500, false).contains("Copying was not looked at"));
    }
}
