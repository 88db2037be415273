//! Tables of a comparison.

use std::collections::HashMap;

use wirepath_report::number::{self, NOTHING};
use wirepath_report::{Cell, Kind, Table};

use super::{AGREEMENT, Agreement, Compared, Comparison, Verdict};
use crate::quantities::Name;

impl Comparison {
    /// Number of relative figures that agree, in words.
    pub fn statement(&self) -> String {
        let limit = number::percent(AGREEMENT);
        let (all, agree) =
            (self.relative.len(), self.relative.iter().filter(|relative| relative.agree).count());
        match all - agree {
            _ if all == 0 => "There is no relative figure that both have.".to_owned(),
            0 => format!("All {all} relative figures agree within {limit}."),
            apart => {
                format!("{agree} of {all} relative figures agree within {limit}; {apart} do not: see above.")
            }
        }
    }

    /// Tables of differences, of all figures, of figures that only one result has, and of relative figures
    /// that do not agree. The results are called A and B.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.differences()];
        tables.extend(self.figures.chunk_by(are_neighbours).map(figures));
        tables.push(alone(&self.only_in_first, "A"));
        tables.push(alone(&self.only_in_second, "B"));
        tables.push(self.disagreements());
        tables.retain(|table| !table.rows.is_empty());
        tables
    }

    fn differences(&self) -> Table {
        let mut table = Table::new("They differ in more than their figures:", &["", "A", "B"]);
        for difference in &self.differences {
            let shown = |text: &str| Cell::plain(if text.is_empty() { NOTHING } else { text });
            table.row([Cell::plain(&difference.what), shown(&difference.first), shown(&difference.second)]);
        }
        table
    }

    fn disagreements(&self) -> Table {
        let caption = format!("Relative figures that do not agree within {}:", number::percent(AGREEMENT));
        let mut table = Table::new(caption, &["figure", "relative to", "#A", "#B", "#apart"]);
        for Agreement { name, relative_to, first, second, apart, noisy, .. } in
            self.relative.iter().filter(|relative| !relative.agree)
        {
            table.row([
                Cell::plain(name.to_string()),
                Cell::plain(relative_to),
                Cell::plain(number::significant(*first)),
                Cell::plain(number::significant(*second)),
                Cell::new(number::percent(*apart), if *noisy { Kind::Noisy } else { Kind::Plain }),
            ]);
        }
        table.notes.push("~: one of the figures that it is made of is noisy.".to_owned());
        table
    }
}

/// Returns whether two figures belong to the same table: of the same experiment, transport and MTU.
fn are_neighbours(one: &Compared, other: &Compared) -> bool {
    let place = |name: &Name| (name.transport, name.mtu);
    one.name.topic == other.name.topic && place(&one.name) == place(&other.name)
}

/// Table of figures by name, then by size, as in the papers.
fn figures(figures: &[Compared]) -> Table {
    let mut table = Table::new(figures[0].name.place(), &["", "size", "#A", "#B", "#improvement"]);
    let mut first_places: HashMap<&str, usize> = HashMap::new();
    for (place, figure) in figures.iter().enumerate() {
        first_places.entry(&figure.name.what).or_insert(place);
    }
    let mut sorted: Vec<&Compared> = figures.iter().collect();
    sorted.sort_by_key(|figure| {
        (first_places[figure.name.what.as_str()], figure.name.size.unwrap_or(u64::MAX))
    });
    for (index, figure) in sorted.iter().enumerate() {
        let again = index > 0 && sorted[index - 1].name.what == figure.name.what;
        let size = match (figure.name.size, figure.name.whole) {
            (None, false) => String::new(),
            (size, _) => number::size(size),
        };
        table.row([
            Cell::plain(if again { "" } else { &figure.name.what }),
            Cell::plain(size),
            Cell::plain(figure.unit.text(figure.first)),
            Cell::plain(figure.unit.text(figure.second)),
            improvement(figure),
        ]);
    }
    table
}

fn improvement(figure: &Compared) -> Cell {
    let change = number::change(figure.improvement);
    match figure.verdict {
        Verdict::NoDifference => Cell::plain(format!("±{}", number::spread(figure.spread))),
        Verdict::Better => Cell::new(change, Kind::Good),
        Verdict::Worse => Cell::new(change, Kind::Bad),
        Verdict::TooFewRuns => Cell::plain(format!("{change} ?")),
        // Shares: percentage points.
        Verdict::Other => Cell::plain(number::change(figure.second - figure.first).replace('%', "points")),
    }
}

fn alone(names: &[Name], result: &str) -> Table {
    let mut table = Table::new(format!("Only in {result}:"), &["figure"]);
    names.iter().for_each(|name| table.row([Cell::plain(name.to_string())]));
    table
}

#[cfg(test)]
mod tests {
    use crate::compare::compare;
    use crate::example;

    /// Promise: `compare` names the other differences, and relative figures that differ by more than 10 %.
    #[test]
    fn tables_say_what_differs_and_which_relative_figures_do_not_agree() {
        let (first, mut second) = (example::full(), example::full());
        second.host.kernel = "7.3.4\u{1b}[2J".to_owned();
        let sent =
            second.measurements.iter_mut().filter(|measurement| measurement.path.to_string() == "mmap_send");
        sent.flat_map(|measurement| &mut measurement.runs).for_each(|run| {
            (run.user_s, run.system_s) = (run.user_s / 2.0, run.system_s / 2.0);
        });
        let comparison = compare(&first, &second);
        let rows: Vec<String> = comparison
            .tables()
            .iter()
            .flat_map(|table| &table.rows)
            .map(|row| row.iter().map(|cell| cell.text.as_str()).collect::<Vec<_>>().join(" "))
            .collect();
        let has =
            |start: &str, end: &str| rows.iter().any(|row| row.starts_with(start) && row.ends_with(end));
        assert!(has("kernel 6.18.44 7.3.4\\u{1b}[2J", ""), "{rows:?}");
        assert!(has("mmap_send 512 B", "+50.0 %"), "{rows:?}");
        assert!(
            rows.iter().any(|row| row.starts_with("rtp_sendfile 512 B") && row.contains('±')),
            "{rows:?}"
        );
        assert!(comparison.statement().ends_with("; 8 do not: see above."), "{}", comparison.statement());
    }
}
