//! Which path to use, in a sentence for each purpose.

use wirepath_assess::Assessment;
use wirepath_assess::statistics::Summary;
use wirepath_assess::verdict::{Doubt, Verdict, of_server, verdicts};

use super::measurements::small;
use super::percent;
use crate::format;
use crate::table::{lines, new_table, section};

/// The verdict on the sink of a result; empty where nothing was measured.
pub(super) fn part(result: &Assessment, width: usize, utf8: bool) -> String {
    let mut table = new_table(width, utf8);
    table.add_rows(verdicts(result).iter().map(row));
    table.add_rows(of_server(result).map(|(path, why)| ["`wirepath serve` takes:".to_owned(), path, why]));
    section(&format!("Verdict (sink {})", result.settings.sink), &lines(&mut table))
}

fn row(verdict: &Verdict) -> [String; 3] {
    let Verdict { purpose, path, size, cost, plain, next, needs, .. } = verdict;
    let size =
        size.map_or("for the whole file".to_owned(), |size| format!("at {} bytes", format::count(size)));
    let less = match (verdict.times(), plain) {
        (Some(times), Some((base, plain))) if times > 1.0 => {
            let mark = if cost.is_noisy() || base.is_noisy() { "~" } else { "" };
            format!(", {mark}{} of {plain}", percent(1.0 / times))
        }
        _ => String::new(),
    };
    let next = match (next, verdict.doubt()) {
        (Some((next, cost)), Some(Doubt::TooNoisy)) => {
            format!("; {next} ({}) is as good within the noise", median(cost))
        }
        (Some((next, cost)), Some(doubt)) => {
            format!("; {} whether {next} ({}) is better", doubt.in_words(), median(cost))
        }
        (Some((next, cost)), None) => format!("; next is {next} ({})", median(cost)),
        (None, _) => String::new(),
    };
    let needs = needs.map_or(String::new(), |needs| format!("; {needs}"));
    [format!("{purpose}:"), path.clone(), format!("{} s/GiB {size}{less}{next}{needs}", median(cost))]
}

/// A median with a mark where it is not to be relied on.
fn median(cost: &Summary) -> String {
    format!("{}{}", if cost.is_noisy() { "~" } else { "" }, small(cost.median))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(median: f64, spread: Option<f64>) -> Summary {
        Summary { median, least: median, greatest: median, spread, outliers: 0, runs: 3 }
    }

    /// Promise: Figures that the runs do not tell apart are not called better.
    #[test]
    fn noise_is_marked_and_what_a_path_needs_is_said() {
        let verdict = |cost: Summary, next: f64| {
            row(&Verdict {
                purpose: "streaming",
                path: "wire_uring".to_owned(),
                size: Some(1460),
                cost,
                plain: Some((summary(1.0, Some(0.01)), "read_writev")),
                next: Some(("wire_sendfile".to_owned(), summary(next, Some(0.01)))),
                close: false,
                needs: Some("it needs memory"),
            })[2]
                .clone()
        };
        assert_eq!(
            verdict(summary(0.25, Some(0.01)), 0.5),
            "0.250 s/GiB at 1,460 bytes, 25.0 % of read_writev; next is wire_sendfile (0.500); it needs memory"
        );
        let noisy = verdict(summary(0.25, Some(0.3)), 0.3);
        assert!(
            noisy.starts_with("~0.250 s/GiB at 1,460 bytes, ~25.0 % of read_writev; wire_sendfile"),
            "{noisy}"
        );
        assert!(noisy.contains("as good within the noise"), "{noisy}");
        assert!(verdict(summary(0.25, None), 0.5).contains("too few runs to say whether"));
    }
}
