//! Sends that copy against sends that lend.

use comfy_table::CellAlignment;
use wirepath_assess::result::{Loan, LoanPoint, Threshold};
use wirepath_assess::statistics::Summary;

use super::measurements::small;
use super::{median, three_digits};
use crate::format;
use crate::table::{lines, new_table, section};

/// A table for each MTU and transport, and what the columns and the thresholds say.
pub(super) fn parts(loan: &Loan, width: usize, utf8: bool) -> Vec<String> {
    let mut points: Vec<&LoanPoint> = loan.points.iter().collect();
    let group = |point: &LoanPoint| (point.mtu, point.transport, !point.aligned);
    points.sort_by_key(|point| (group(point), point.size));
    let groups = points.chunk_by(|one, other| group(one) == group(other));
    let mut parts: Vec<String> = groups.map(|points| part(points, width, utf8)).collect();
    let mut table = new_table(width, utf8);
    table.add_rows(
        loan.thresholds.iter().flat_map(|threshold| sentences(threshold, &points)).map(|text| [text]),
    );
    table.add_row([
        "ns: processor time of a send; copy: of the copy alone; loan: lent - (copied - copy), blank where noise leaves nothing. \
         Rmax/R: how much faster sends would be without copy. MB/s: sustained. refused: sends for which there was no room, copied \
         / lent. ~: runs differ by more than a tenth.",
    ]);
    parts.push(lines(&mut table));
    parts
}

fn part(points: &[&LoanPoint], width: usize, utf8: bool) -> String {
    let Some(first) = points.first() else { return String::new() };
    let mut table = new_table(width, utf8);
    table.set_header([
        "bytes",
        "copy ns",
        "loan ns",
        "copied ns",
        "lent ns",
        "lent/ copied",
        "Rmax/R",
        "copied MB/s",
        "lent MB/s",
        "refused",
    ]);
    table.add_rows(points.iter().map(|point| row(point)));
    for index in 0..10 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mtu = format::count(first.mtu.into());
    let place = if first.aligned { "from a page on" } else { "from one byte before a page on" };
    section(&format!("Page loan over {}, MTU {mtu}, sends {place}", first.transport), &lines(&mut table))
}

fn row(point: &LoanPoint) -> [String; 10] {
    let ns = |seconds: &[f64]| median(&seconds.iter().map(|seconds| seconds * 1e9).collect::<Vec<_>>());
    let noisy = [&point.copy_s, &point.copied_send_s, &point.lent_send_s]
        .into_iter()
        .filter_map(|runs| Summary::of(runs.iter().copied()))
        .any(|summary| summary.is_noisy());
    let derived = |value: Option<f64>| {
        value
            .map_or(String::new(), |value| format!("{}{}", if noisy { "~" } else { "" }, three_digits(value)))
    };
    let megabytes = |rate: f64| format::count((rate / 1e6).round() as u64);
    let gain = point.rate_without_copy().zip(point.rate()).map(|(limit, rate)| limit / rate);
    let refused = match point.lent_throughput {
        Some(_) => format!("{}/{}", point.copied_errors, point.lent_errors),
        None => point.copied_errors.to_string(),
    };
    [
        format::count(point.size),
        ns(&point.copy_s),
        derived(point.loan_alone_s().map(|seconds| seconds * 1e9)),
        ns(&point.copied_send_s),
        ns(&point.lent_send_s),
        point.lent_share().map_or(String::new(), small),
        derived(gain),
        megabytes(point.copied_throughput),
        point.lent_throughput.map_or(String::new(), megabytes),
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
        let all = parts(&loan, 80, false);
        assert!(all.iter().flat_map(|part| part.lines()).all(|line| line.len() <= 80), "{all:?}");
        let wide = parts(&loan, 200, false);
        let rows: Vec<Vec<&str>> = wide[0].lines().map(|line| line.split_whitespace().collect()).collect();
        let row = |size| rows.iter().find(|row| row.first() == Some(&size)).unwrap()[1..].to_vec();
        assert_eq!(row("64"), ["100", "250", "500", "650", "1.30", "1.25", "12,346", "98,765", "12345/6"]);
        assert_eq!(row("128"), ["100", "500", "1.25", "12,346", "12345"]);
        assert_eq!(
            row("65,507")[..3],
            ["100", "900", "700"],
            "a loan alone of less than nothing is shown: {rows:?}"
        );
        let said = |words: &str| format!("Over UDP with an MTU of 1,500, {words}");
        let elsewhere = LoanPoint { aligned: false, ..point(16_384, 900e-9, Some(950e-9)) };
        loan.points.push(elsewhere);
        let wide = parts(&loan, 200, false);
        for words in [
            "sends that begin where a page does are cheaper lent from 65,507 bytes on; of 128 that was not found.",
            "no sends that begin elsewhere are cheaper lent, of up to 16,384 bytes.",
        ] {
            assert!(wide[2].contains(&said(words)), "{}", wide[2]);
        }
        assert!(wide[1].contains("sends from one byte before a page on") && wide[1].contains("16,384"));
        loan.thresholds[0].kernel_copies = true;
        assert!(parts(&loan, 200, false)[2].contains(&said("the kernel copies whatever is lent.")));
    }
}
