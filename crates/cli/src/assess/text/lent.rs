//! What paths lent and what they copied.

use comfy_table::{CellAlignment, ColumnConstraint};
use wirepath_assess::result::{Loans, Measurement};

use crate::format;
use crate::table::{lines, new_table, section};

/// A row for each measurement of a path that lends, with the counts of all its runs.
pub(super) fn part(measurements: &[Measurement], width: usize, utf8: bool) -> String {
    let mut table = new_table(width, utf8);
    table.set_header(["bytes", "path", "over", "MTU", "loans", "copies", "by kernel", "out at most"]);
    table.add_rows(measurements.iter().filter_map(row));
    for index in [0, 3, 4, 5, 6, 7] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    // Names stay whole.
    table.column_iter_mut().skip(1).take(1).for_each(|paths| {
        paths.set_constraint(ColumnConstraint::ContentWidth);
    });
    if table.row_count() == 0 {
        return String::new();
    }
    let title = "Lent in all runs (copies: sends copied, by kernel: loans it copied after all)";
    section(title, &lines(&mut table))
}

fn row(measurement: &Measurement) -> Option<[String; 8]> {
    let counts = measurement.runs.iter().filter_map(|run| run.loans);
    let total = counts.reduce(|sum, run| Loans {
        loans: sum.loans + run.loans,
        copies: sum.copies + run.copies,
        copied_by_kernel: sum.copied_by_kernel + run.copied_by_kernel,
        outstanding_most: sum.outstanding_most.max(run.outstanding_most),
    })?;
    Some([
        measurement.size.map_or("whole file".to_owned(), format::count),
        measurement.path.clone(),
        measurement.transport.to_string(),
        format::count(measurement.mtu.into()),
        format::count(total.loans),
        format::count(total.copies),
        format::count(total.copied_by_kernel),
        format::count(total.outstanding_most),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirepath_assess::result::{Run, Transport};

    fn run(loans: Option<Loans>) -> Run {
        let (user_s, system_s, wall_s) = (0.0, 1.0, 1.0);
        Run { user_s, system_s, wall_s, bytes: 1, packets: 1, errors: 0, copied: None, loans }
    }

    fn measured(path: &str, runs: Vec<Run>) -> Measurement {
        Measurement {
            experiment: "download".to_owned(),
            path: path.to_owned(),
            transport: Transport::Udp,
            size: Some(1472),
            packets_per_train: 44,
            mtu: 1500,
            verified: true,
            calls_in_papers: None,
            calls_per_packet: None,
            runs,
        }
    }

    #[test]
    fn counts_of_all_runs_are_added_up() {
        let one = Loans { loans: 16_000, copies: 5, copied_by_kernel: 3, outstanding_most: 32 };
        let other = Loans { outstanding_most: 7, ..one };
        let all =
            [measured("sendfile", vec![run(None)]), measured("loan", vec![run(Some(one)), run(Some(other))])];
        let part = part(&all, 80, false);
        let long = [measured("loan:lend:unaligned", vec![run(Some(Loans { loans: 1_966_080, ..one }))])];
        let narrow = super::part(&long, 80, false);
        assert!(
            narrow.contains("loan:lend:unaligned") && narrow.lines().all(|line| line.len() <= 80),
            "{narrow}"
        );
        let row = part.lines().find(|line| line.contains("1,472")).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words, ["1,472", "loan", "UDP", "1,500", "32,000", "10", "6", "32"], "{part}");
        assert!(!part.contains("sendfile") && part.lines().all(|line| line.len() <= 80), "{part}");
        assert_eq!(super::part(&all[..1], 80, false), "");
    }
}
