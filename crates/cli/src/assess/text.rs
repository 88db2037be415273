//! A result for people.

mod columns;
mod costs;
mod host;
mod lent;
mod loan;
mod measurements;
mod profiles;
mod shown;
mod verdict;

use wirepath_assess::Assessment;
use wirepath_assess::report::{counted_tables, relay_tables};
use wirepath_assess::result::{LeftOut, Measurement};
use wirepath_assess::statistics::Summary;

pub(super) use shown::shown;

use crate::table::{lines, new_table, section};

/// What these experiments found, in lines of at most `width` columns where that is possible.
pub(super) fn of(result: &Assessment, experiments: &[&str], width: usize, utf8: bool) -> String {
    let mut parts = Vec::new();
    if experiments.contains(&"host") {
        parts.extend(host::parts(&result.host, width, utf8));
        parts.extend(result.costs.iter().map(|costs| costs::part(costs, width, utf8)));
    }
    // Those of the loan have a table of their own.
    let paths = result.measurements.iter().filter(|measurement| measurement.experiment != "loan");
    let paths: Vec<Measurement> = paths.cloned().collect();
    parts.extend(measurements::parts(&result.profiles, &paths, width, utf8));
    parts.push(measurements::remarks(&result.profiles, &paths, width, utf8));
    parts.push(lent::part(&result.measurements, width, utf8));
    parts.extend(result.loan.iter().flat_map(|loan| loan::parts(result, loan, width, utf8)));
    parts.push(profiles::part(&result.profiles, width, utf8));
    let tables = [counted_tables(&result.counts), relay_tables(&result.relay)].concat();
    parts.extend(tables.iter().map(|table| shown::shown(table, width, utf8)));
    parts.push(left_out(&result.left_out, width, utf8));
    parts.push(verdict::part(result, width, utf8));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// What was not measured, and why.
fn left_out(left_out: &[LeftOut], width: usize, utf8: bool) -> String {
    let mut table = new_table(width, utf8);
    table.add_rows(left_out.iter().map(|left| [&left.what, &left.why]));
    section("Not measured", &lines(&mut table))
}

/// The median of the runs, with a mark if they differ too much for it to be relied on.
fn median(runs: &[f64]) -> String {
    let Some(summary) = Summary::of(runs.iter().copied()) else { return String::new() };
    let mark = if summary.is_noisy() { "~" } else { "" };
    format!("{mark}{}", three_digits(summary.median))
}

/// A figure with three digits that count, and its thousands apart.
fn three_digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => crate::format::count(value.round() as u64),
    }
}

/// A share in percent.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirepath_assess::result::{CopyCost, Costs, FunctionShare, Profile, Transport};

    #[test]
    fn every_part_fits_a_narrow_terminal() {
        let copy = CopyCost { size: 1 << 25, aligned: false, cached: true, ns: vec![1e7, 2e7, 3e7] };
        let costs = Costs { kernel_entry_ns: vec![97.0], copies: vec![copy] };
        let function = FunctionShare { function: "__list_del_entry_valid_or_report".to_owned(), share: 1.0 };
        let profile = Profile {
            experiment: "download".to_owned(),
            path: "wire_sendfile".to_owned(),
            transport: Transport::Udp,
            size: None,
            samples: 1_000_000,
            lost: 0,
            functions: vec![function; 5],
            copying: 1.0,
            entering: 0.0,
            network: 0.0,
            user: 0.0,
        };
        let mut parts = host::parts(&wirepath_assess::host::examine(), 80, false);
        parts.extend([costs::part(&costs, 80, false), profiles::part(&[profile], 80, false)]);
        for line in parts.iter().flat_map(|part| part.lines()) {
            assert!(line.chars().count() <= 80 && line.is_ascii(), "{line:?}");
        }
    }

    #[test]
    fn figures_have_three_digits_that_count_and_noise_is_marked() {
        assert_eq!(
            [0.0, 1.2345, 9.999, 99.94, 123.4, 1_234_567.8].map(three_digits),
            ["0.00", "1.23", "10.0", "99.9", "123", "1,234,568"]
        );
        assert_eq!(median(&[1.0, 1.01, 0.99]), "1.00");
        assert_eq!(median(&[1.0, 2.0, 3.0]), "~2.00");
        assert_eq!(median(&[]), "");
    }
}
