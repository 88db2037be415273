//! A comparison for a terminal.

use super::{AGREEMENT, Agreement, Compared, Comparison, Verdict};
use crate::figures::{Name, Unit};
use crate::report::number::{self, NOTHING};
use crate::report::{Cell, Kind, Table};

impl Comparison {
    /// As text, in lines of at most `width` columns where that is possible, in ASCII alone unless `utf8`. `names` are those of
    /// the two results.
    pub fn text(&self, names: [&str; 2], width: u16, utf8: bool) -> String {
        let mut parts: Vec<String> = self.tables(names).iter().map(|table| table.text(width, utf8)).collect();
        parts.push(self.statement() + "\n");
        parts.join("\n")
    }

    /// What differs, every figure, what only one has, and the relative figures that do not agree.
    fn tables(&self, [first, second]: [&str; 2]) -> Vec<Table> {
        let mut tables = vec![self.difference_table(first, second)];
        let figures = self.figures.chunk_by(|one, other| place(&one.name) == place(&other.name));
        tables.extend(figures.map(|figures| figure_table(figures, first, second)));
        tables.push(alone(&self.only_in_first, first));
        tables.push(alone(&self.only_in_second, second));
        tables.push(self.disagreements(first, second));
        tables.retain(|table| !table.rows.is_empty());
        tables
    }

    fn difference_table(&self, first: &str, second: &str) -> Table {
        let heads = ["", first, second];
        let mut table = Table::new("The two differ in more than their figures:", &heads);
        for difference in &self.differences {
            let shown = |text: &str| Cell::plain(if text.is_empty() { NOTHING } else { text });
            table.row([Cell::plain(&difference.what), shown(&difference.first), shown(&difference.second)]);
        }
        table
    }

    /// How many relative figures agree.
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

    fn disagreements(&self, first: &str, second: &str) -> Table {
        let (first, second) = (format!("#{first}"), format!("#{second}"));
        let heads = ["figure", "relative to", &first, &second, "#apart"];
        let caption = format!("Relative figures that do not agree within {}:", number::percent(AGREEMENT));
        let mut table = Table::new(caption, &heads);
        for Agreement { name, relative_to, first, second, apart, noisy, .. } in
            self.relative.iter().filter(|relative| !relative.agree)
        {
            let kind = if *noisy { Kind::Noisy } else { Kind::Plain };
            table.row([
                Cell::plain(name.to_string()),
                Cell::plain(relative_to),
                Cell::plain(number::significant(*first)),
                Cell::plain(number::significant(*second)),
                Cell::new(number::percent(*apart), kind),
            ]);
        }
        if !table.rows.is_empty() {
            table.notes.push("~: a figure that it is made of is noisy.".to_owned());
        }
        table
    }
}

/// What figures of one table have in common.
fn place(name: &Name) -> (&str, Option<crate::result::Transport>, Option<u32>) {
    (&name.experiment, name.transport, name.mtu)
}

fn figure_table(figures: &[Compared], first: &str, second: &str) -> Table {
    let name = &figures[0].name;
    let caption = Name { what: String::new(), size: None, whole: false, ..name.clone() }.place();
    let (first, second) = (format!("#{first}"), format!("#{second}"));
    let mut table = Table::new(caption, &["", "size", &first, &second, "#improvement"]);
    for figure in figures {
        let size = match (figure.name.size, figure.name.whole) {
            (None, false) => String::new(),
            (size, _) => number::size(size),
        };
        table.row([
            Cell::plain(&figure.name.what),
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
        Verdict::NoDifference if figure.unit == Unit::Share => Cell::plain("±0"),
        Verdict::NoDifference => Cell::plain(format!("±{}", number::percent(figure.spread))),
        Verdict::Better => Cell::new(change, Kind::Good),
        Verdict::Worse => Cell::new(change, Kind::Bad),
        Verdict::TooFewRuns => Cell::plain(format!("{change} ?")),
        Verdict::Other => Cell::plain(format!(
            "{} points",
            number::change(figure.second - figure.first).trim_end_matches(" %")
        )),
    }
}

fn alone(names: &[Name], result: &str) -> Table {
    let mut table = Table::new(format!("Only in {result}:"), &["figure"]);
    names.iter().for_each(|name| table.row([Cell::plain(name.to_string())]));
    table
}
