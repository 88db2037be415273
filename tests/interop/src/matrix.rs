//! Results, and their tables.

use std::fmt::Write;

use anyhow::{Context, Result};
use wirepath_tests::trial::Skip;

use crate::cases::{Cannot, Case, Client, Format, Operation, Transport};

/// Result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// What came is what the file has.
    Plays,
    /// The client has not what it takes.
    Cannot(String),
    /// The client is not installed.
    Skipped(String),
    Fails(String),
}

impl Cell {
    pub(crate) fn of(result: Result<()>) -> Cell {
        match result {
            Ok(()) => Cell::Plays,
            Err(error) => match (error.downcast_ref::<Cannot>(), error.downcast_ref::<Skip>()) {
                (Some(cannot), _) => Cell::Cannot(cannot.to_string()),
                (None, Some(skip)) => Cell::Skipped(skip.to_string()),
                (None, None) => Cell::Fails(format!("{error:#}")),
            },
        }
    }

    /// The result in words.
    pub(crate) fn text(&self) -> String {
        match self {
            Cell::Plays => "plays".to_owned(),
            Cell::Cannot(why) => format!("cannot: {why}"),
            Cell::Skipped(why) => format!("skipped: {why}"),
            Cell::Fails(why) => format!("FAILS: {why}"),
        }
    }

    /// The result in a table, in which the number of a note stands for its text.
    fn short(&self, notes: &mut Vec<String>) -> String {
        let (word, why) = match self {
            Cell::Plays => return "yes".to_owned(),
            Cell::Cannot(why) => ("no", why),
            Cell::Skipped(why) => ("skipped", why),
            Cell::Fails(why) => ("**fails**", why),
        };
        let why = why.lines().next().unwrap_or_default().to_owned();
        let number = notes.iter().position(|note| *note == why).unwrap_or_else(|| {
            notes.push(why);
            notes.len() - 1
        });
        format!("{word} ({})", number + 1)
    }
}

/// All results.
#[derive(Debug, Default)]
pub(crate) struct Matrix(Vec<(Case, Cell)>);

impl Matrix {
    pub(crate) fn set(&mut self, case: &Case, cell: Cell) {
        self.0.push((*case, cell));
    }

    /// Number of cells that failed.
    pub(crate) fn failures(&self) -> usize {
        self.0.iter().filter(|(_, cell)| matches!(cell, Cell::Fails(_))).count()
    }

    /// A table for each client: formats by transports, each cell with playing to the end, then seeking.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        for client in Client::ALL {
            if self.0.iter().any(|(case, _)| case.client == client) {
                text += &self.table(client);
            }
        }
        text
    }

    fn table(&self, client: Client) -> String {
        let mut notes = Vec::new();
        let mut text = format!("\n### {}\n\n| format |", client.name());
        for transport in Transport::ALL {
            write!(text, " {} |", transport.name()).expect("a string takes all");
        }
        text += &format!("\n| --- |{}\n", " --- |".repeat(Transport::ALL.len()));
        for format in Format::ALL {
            write!(text, "| {} |", format.name).expect("a string takes all");
            for transport in Transport::ALL {
                let cells = Operation::ALL.map(|operation| Case { client, format, transport, operation });
                let cells = cells.iter().filter_map(|case| self.cell(case));
                let cells: Vec<String> = cells.map(|cell| cell.short(&mut notes)).collect();
                write!(text, " {} |", cells.join(", ")).expect("a string takes all");
            }
            text.push('\n');
        }
        text.push('\n');
        for (number, note) in notes.iter().enumerate() {
            writeln!(text, "{}. {note}", number + 1).expect("a string takes all");
        }
        text
    }

    fn cell(&self, case: &Case) -> Option<&Cell> {
        self.0.iter().find(|(other, _)| other == case).map(|(_, cell)| cell)
    }
}

/// Marks between which a document has the tables.
const MARKS: [&str; 2] =
    ["<!-- Written by `make interop`: begin -->\n", "<!-- Written by `make interop`: end -->\n"];

/// Replaces the tables of a document.
pub(crate) fn write(file: &str, tables: &str) -> Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
    let text = replace(&text, tables).with_context(|| format!("{file} has no marks: {}", MARKS.concat()))?;
    std::fs::write(file, text).with_context(|| file.to_owned())
}

fn replace(document: &str, tables: &str) -> Option<String> {
    let [begin, end] = MARKS;
    let (before, rest) = document.split_once(begin)?;
    let (_, behind) = rest.split_once(end)?;
    Some(format!("{before}{begin}{tables}\n{end}{behind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_told_apart() {
        assert_eq!(Cell::of(Ok(())), Cell::Plays);
        assert_eq!(Cell::of(Err(Cannot("no TLS").into())), Cell::Cannot("no TLS".into()));
        assert_eq!(Cell::of(Err(Skip("not installed".into()).into())), Cell::Skipped("not installed".into()));
        let error = anyhow::anyhow!("frame 3 differs").context("pictures");
        assert_eq!(Cell::of(Err(error)), Cell::Fails("pictures: frame 3 differs".into()));
    }

    #[test]
    fn tables_have_cells_and_notes() {
        let mut matrix = Matrix::default();
        for case in Case::all().filter(|case| case.client == Client::Vlc) {
            let cell = match case.transport {
                Transport::Udp => Cell::Plays,
                Transport::Tls => Cell::Fails("late\nand more".into()),
                _ => Cell::Cannot("UDP only".into()),
            };
            matrix.set(&case, cell);
        }
        let text = matrix.markdown();
        let no = "no (1), no (1)";
        let row =
            format!("| transport stream | yes, yes | {no} | {no} | {no} | **fails** (2), **fails** (2) |\n");
        assert!(text.contains(&row) && text.ends_with("\n1. UDP only\n2. late\n"), "{text}");
        assert_eq!(matrix.failures(), 2 * Format::ALL.len());
    }

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let [begin, end] = MARKS;
        let document = format!("before\n{begin}old\n{end}behind\n");
        assert_eq!(replace(&document, "new").unwrap(), format!("before\n{begin}new\n{end}behind\n"));
        assert_eq!(replace("no marks", "new"), None);
    }
}
