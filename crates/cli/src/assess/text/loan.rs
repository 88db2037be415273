//! Sends that copy against sends that lend.

use wirepath_assess::Assessment;
use wirepath_assess::result::{Loan, LoanPoint, Threshold};
use wirepath_assess::statistics::Summary;

use super::columns::{self, Column};
use super::measurements::small;
use crate::format;
use crate::table::{lines, new_table, section};

/// A table for each MTU and transport, and what the columns and the thresholds say.
pub(super) fn parts(result: &Assessment, loan: &Loan, width: usize, utf8: bool) -> Vec<String> {
    let mut points: Vec<&LoanPoint> = loan.points.iter().collect();
    let group = |point: &LoanPoint| (point.mtu, point.transport, !point.aligned);
    points.sort_by_key(|point| (group(point), point.size));
    let groups = points.chunk_by(|one, other| group(one) == group(other));
    let mut parts: Vec<String> = groups.map(|points| part(result, points, width, utf8)).collect();
    let mut table = new_table(width, utf8);
    table.add_rows(
        loan.thresholds.iter().flat_map(|threshold| sentences(threshold, &points)).map(|text| [text]),
    );
    table.add_row([
        "Of processor time: copy, the copy alone; copied and lent, a send of each kind; loan, the loan alone: lent - (copied - \
         copy), blank where noise leaves nothing; ratio, lent/copied. Rmax/R: how much faster sends would be without copy. MB/s: \
         sustained, with copies and lent. refused: sends for which there was no room, copied/lent. ~: runs differ by more than a \
         tenth. Columns of which nothing was measured are not shown.",
    ]);
    parts.push(lines(&mut table));
    parts
}

fn part(result: &Assessment, points: &[&LoanPoint], width: usize, utf8: bool) -> String {
    let Some(first) = points.first() else { return String::new() };
    let rows: Vec<[String; 10]> = points.iter().map(|point| row(result, point)).collect();
    let column = |index: usize| Column {
        head: HEADS[index],
        cells: rows.iter().map(|row| row[index].clone()).collect(),
    };
    let table = columns::table((0..HEADS.len()).map(column).collect(), width, utf8);
    let mtu = format::count(first.mtu.into());
    let place = if first.aligned { "from a page" } else { "from before a page" };
    let title = format!("Page loan over {}, MTU {mtu}, sends {place} (microseconds, MB/s)", first.transport);
    section(&title, &table)
}

/// What [`row`] holds. Where nothing was lent, half of them are left out.
const HEADS: [&str; 10] =
    ["bytes", "copy", "loan", "copied", "lent", "ratio", "Rmax/R", "MB/s", "lent MB/s", "refused"];

fn row(result: &Assessment, point: &LoanPoint) -> [String; 10] {
    let summary = |runs: &[f64]| Summary::of(runs.iter().copied());
    let marked = |value: f64, noisy: bool| format!("{}{}", if noisy { "~" } else { "" }, small(value));
    let time = |runs: &[f64]| {
        summary(runs).map_or(String::new(), |summary| marked(summary.median * 1e6, summary.is_noisy()))
    };
    let noisy =
        |all: &[&[f64]]| all.iter().filter_map(|runs| summary(runs)).any(|summary| summary.is_noisy());
    let derived =
        |value: Option<f64>, from: &[&[f64]]| value.map_or(String::new(), |value| marked(value, noisy(from)));
    let megabytes = |rates: &[f64]| {
        let Some(rate) = summary(rates) else { return String::new() };
        let mark = if rate.is_noisy() { "~" } else { "" };
        format!("{mark}{}", format::count((rate.median / 1e6).round() as u64))
    };
    let LoanPoint { copy_s, copied_send_s, lent_send_s, .. } = point;
    let (copied_rates, lent_rates) = result.sustained(point);
    let gain = point.rate_without_copy().zip(point.rate()).map(|(limit, rate)| limit / rate);
    let refused = match (point.lent_throughput, point.copied_errors, point.lent_errors) {
        (_, 0, 0) => String::new(),
        (Some(_), copied, lent) => format!("{copied}/{lent}"),
        (None, copied, _) => copied.to_string(),
    };
    [
        format::count(point.size),
        time(copy_s),
        derived(point.loan_alone_s().map(|seconds| seconds * 1e6), &[copy_s, copied_send_s, lent_send_s]),
        time(copied_send_s),
        time(lent_send_s),
        derived(point.lent_share(), &[copied_send_s, lent_send_s]),
        derived(gain, &[copy_s, copied_send_s]),
        megabytes(&copied_rates),
        megabytes(&lent_rates),
        refused,
    ]
}

/// Where lending begins to be cheaper, in words.
fn sentences(threshold: &Threshold, points: &[&LoanPoint]) -> Vec<String> {
    let over = format!("Over {} with an MTU of {}", threshold.transport, format::count(threshold.mtu.into()));
    if threshold.kernel_copies {
        return vec![format!("{over}, the kernel copies whatever is lent.")];
    }
    let sentence = |aligned: bool, bytes: Option<u64>| {
        let of_series = |point: &&&LoanPoint| {
            (point.mtu, point.transport, point.aligned) == (threshold.mtu, threshold.transport, aligned)
        };
        let sizes = || points.iter().filter(of_series).map(|point| point.size);
        let place = if aligned { "that begin where a page does" } else { "that begin elsewhere" };
        let Some(bytes) = bytes else {
            let most = format::count(sizes().max().unwrap_or_default());
            return format!("{over}, no sends {place} are cheaper lent, of up to {most} bytes.");
        };
        let below = sizes().filter(|size| *size < bytes).max();
        let below = below.map_or(", the least that was measured".to_owned(), |below| {
            format!("; of {} that was not found", format::count(below))
        });
        format!("{over}, sends {place} are cheaper lent from {} bytes on{below}.", format::count(bytes))
    };
    vec![sentence(true, threshold.aligned_bytes), sentence(false, threshold.unaligned_bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirepath_assess::result::Transport;

    fn point(size: u64, copied: f64, lent: Option<f64>) -> LoanPoint {
        LoanPoint {
            size,
            mtu: 1500,
            transport: Transport::Udp,
            aligned: true,
            copy_s: vec![100e-9],
            copied_send_s: vec![copied],
            lent_send_s: lent.into_iter().collect(),
            copied_throughput: 12_345_678_901.0,
            lent_throughput: lent.map(|_| 98_765_432_109.0),
            copied_errors: 12_345,
            lent_errors: 6,
        }
    }

    /// One that has not the runs that points summarise.
    fn result() -> Assessment {
        Assessment {
            schema: String::new(),
            program: String::new(),
            started: String::new(),
            seconds: 0.0,
            partial: false,
            settings: wirepath_assess::Options {
                volume: 1,
                runs: 1,
                quick: true,
                cache: wirepath_assess::result::Cache::Warm,
                sink: wirepath_assess::Sink::Loopback,
                mtu: 1500,
                cpu: None,
                file: None,
                bare: None,
                scratch: std::path::PathBuf::new(),
                calibration: std::path::PathBuf::new(),
                loans: None,
                parts: Vec::new(),
            }
            .settings(&[]),
            host: wirepath_assess::host::examine(),
            costs: None,
            measurements: Vec::new(),
            profiles: Vec::new(),
            loan: None,
            relay: Vec::new(),
            counts: Vec::new(),
            server: None,
            left_out: Vec::new(),
        }
    }

    /// Promise: Tables fit 80 columns without broken figures, and omit empty columns.
    #[test]
    fn numbers_of_any_size_are_whole_at_80_columns() {
        let huge = LoanPoint { size: 1 << 20, ..point(1 << 20, 1234e-6, Some(1111e-6)) };
        let small = LoanPoint { copy_s: vec![1e-6, 2e-6, 3e-6], ..point(64, 500e-9, None) };
        let loan = Loan { points: vec![huge, small], thresholds: Vec::new() };
        let text = &parts(&result(), &loan, 80, false)[0];
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        for figure in ["1,048,576", "1,234", "1,111", "12,346", "98,765", "12345/6", "~2.00"] {
            assert!(text.split_whitespace().any(|word| word == figure), "{figure}: {text}");
        }
        let copied = Loan { points: vec![point(64, 500e-9, None)], thresholds: Vec::new() };
        let text = &parts(&result(), &copied, 80, false)[0];
        assert!(!text.contains("lent") && !text.contains("ratio"), "{text}");
    }

    #[test]
    fn rows_fit_and_the_threshold_is_a_sentence() {
        let mut loan = Loan {
            points: vec![
                point(65_507, 900e-9, Some(700e-9)),
                point(64, 500e-9, Some(650e-9)),
                point(128, 500e-9, None),
            ],
            thresholds: vec![Threshold {
                transport: Transport::Udp,
                mtu: 1500,
                aligned_bytes: Some(65_507),
                unaligned_bytes: None,
                kernel_copies: false,
            }],
        };
        let result = result();
        loan.points.push(LoanPoint { aligned: false, mtu: 65_535, ..point(16_384, 900e-9, Some(950e-9)) });
        let all = parts(&result, &loan, 80, false);
        loan.points.pop();
        assert!(all.iter().flat_map(|part| part.lines()).all(|line| line.len() <= 80), "{all:?}");
        let wide = parts(&result, &loan, 200, false);
        let rows: Vec<Vec<&str>> = wide[0].lines().map(|line| line.split_whitespace().collect()).collect();
        let row = |size| rows.iter().find(|row| row.first() == Some(&size)).unwrap()[1..].to_vec();
        assert_eq!(
            row("64"),
            ["0.100", "0.250", "0.500", "0.650", "1.30", "1.25", "12,346", "98,765", "12345/6"]
        );
        assert_eq!(row("128"), ["0.100", "0.500", "1.25", "12,346", "12345"]);
        assert_eq!(
            row("65,507")[..3],
            ["0.100", "0.900", "0.700"],
            "a loan alone of less than nothing is shown: {rows:?}"
        );
        let said = |words: &str| format!("Over UDP with an MTU of 1,500, {words}");
        let elsewhere = LoanPoint { aligned: false, ..point(16_384, 900e-9, Some(950e-9)) };
        loan.points.push(elsewhere);
        let wide = parts(&result, &loan, 200, false);
        for words in [
            "sends that begin where a page does are cheaper lent from 65,507 bytes on; of 128 that was not found.",
            "no sends that begin elsewhere are cheaper lent, of up to 16,384 bytes.",
        ] {
            assert!(wide[2].contains(&said(words)), "{}", wide[2]);
        }
        assert!(wide[1].contains("sends from before a page") && wide[1].contains("16,384"));
        loan.thresholds[0].kernel_copies = true;
        assert!(parts(&result, &loan, 200, false)[2].contains(&said("the kernel copies whatever is lent.")));
    }
}
