//! Results, the file that keeps them, and their tables.

use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use wirepath_tests::trial::Skip;

use crate::cases::{Cannot, Case, Client, Format, Operation, Transport};

/// Result of playing a case once.
#[derive(Debug)]
pub(crate) struct Attempt {
    result: Result<()>,
    /// Signs of an overloaded machine while it played.
    overload: Option<String>,
}

impl Attempt {
    pub(crate) fn new(result: Result<()>, overload: Option<String>) -> Attempt {
        Attempt { result, overload }
    }

    /// Returns whether the case is to be played again.
    pub(crate) fn failed(&self) -> bool {
        self.result.as_ref().is_err_and(|error| !error.is::<Cannot>() && !error.is::<Skip>())
    }

    /// The failure, and the overload at that time if there was one.
    fn reason(&self) -> String {
        let reason = self.result.as_ref().map_or_else(|error| format!("{error:#}"), |()| String::new());
        let reason = reason.lines().next().unwrap_or_default();
        self.overload.as_ref().map_or_else(|| reason.to_owned(), |seen| format!("{reason} ({seen})"))
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&Cell::of_one(&self.result).text())?;
        match &self.overload {
            Some(seen) if self.failed() => write!(out, " ({seen})"),
            _ => Ok(()),
        }
    }
}

/// Result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// The output is that of the file.
    Plays,
    /// The same at the second attempt, or [`Cell::Cannot`] then; how the first one failed.
    Unstable(String),
    /// The client lacks a feature that the case needs.
    Cannot(String),
    /// The client is not installed.
    Skipped(String),
    /// Both attempts failed, and the machine was overloaded at both.
    Overloaded(String),
    Fails(String),
}

impl Cell {
    /// Result of an attempt, and of the second one if the first one failed.
    pub(crate) fn of(first: Attempt, second: Option<Attempt>) -> Cell {
        let is_overloaded = first.overload.is_some();
        match (first.failed(), second) {
            (true, Some(second)) if second.result.is_ok() => Cell::Unstable(first.reason()),
            (true, Some(second)) if second.failed() && is_overloaded && second.overload.is_some() => {
                Cell::Overloaded(second.reason())
            }
            (true, Some(second)) => match Cell::of_one(&second.result) {
                Cell::Cannot(cannot) => Cell::Unstable(format!("{}; then no: {cannot}", first.reason())),
                cell => cell,
            },
            (_, _) => Cell::of_one(&first.result),
        }
    }

    fn of_one(result: &Result<()>) -> Cell {
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
        let (word, why) = self.parts();
        if why.is_empty() { word.to_owned() } else { format!("{word}: {why}") }
    }

    /// A word for the result, and the reason or "".
    fn parts(&self) -> (&'static str, &str) {
        match self {
            Cell::Plays => ("yes", ""),
            Cell::Unstable(why) => ("unstable", why),
            Cell::Cannot(why) => ("no", why),
            Cell::Skipped(why) => ("skipped", why),
            Cell::Overloaded(why) => ("overloaded", why),
            Cell::Fails(why) => ("fails", why),
        }
    }

    fn parse(word: &str, why: &str) -> Result<Cell> {
        Ok(match word {
            "yes" => Cell::Plays,
            "unstable" => Cell::Unstable(why.to_owned()),
            "no" => Cell::Cannot(why.to_owned()),
            "skipped" => Cell::Skipped(why.to_owned()),
            "overloaded" => Cell::Overloaded(why.to_owned()),
            "fails" => Cell::Fails(why.to_owned()),
            _ => bail!("unknown result {word}: expected yes, unstable, no, skipped, overloaded or fails"),
        })
    }
}

/// Notes below a table, each once.
#[derive(Debug, Default)]
struct Notes(Vec<String>);

impl Notes {
    /// Number of a note by its first line, from 1.
    fn number(&mut self, text: &str) -> usize {
        let note = text.lines().next().unwrap_or_default();
        let number = self.0.iter().position(|other| other == note).unwrap_or_else(|| {
            self.0.push(note.to_owned());
            self.0.len() - 1
        });
        number + 1
    }
}

/// Results of all operations in a table: those that work by their names, and the numbers of notes about the others
/// and about how the output of cells that play (`remark`) is compared.
fn summary(
    results: &[(Operation, Option<&Cell>)],
    remark: impl Fn(Operation) -> Option<&'static str>,
    notes: &mut Notes,
) -> String {
    let names = |is_wanted: &dyn Fn(Option<&Cell>) -> bool| -> Vec<&str> {
        results.iter().filter(|(_, cell)| is_wanted(*cell)).map(|(operation, _)| operation.name()).collect()
    };
    let works = names(&|cell| cell == Some(&Cell::Plays));
    let mut text = match works.len() {
        0 => "none".to_owned(),
        count if count == results.len() => "all".to_owned(),
        _ => works.join(", "),
    };
    for (what, wanted) in [
        ("unstable", names(&|cell| matches!(cell, Some(Cell::Unstable(_))))),
        ("**fails**", names(&|cell| matches!(cell, Some(Cell::Fails(_))))),
        ("overloaded", names(&|cell| matches!(cell, Some(Cell::Overloaded(_))))),
        ("not tried", names(&|cell| cell.is_none())),
    ] {
        if !wanted.is_empty() {
            write!(text, "; {what}: {}", wanted.join(", ")).expect("a string takes all");
        }
    }
    let texts = results.iter().filter_map(|(operation, cell)| match cell {
        Some(Cell::Plays) => remark(*operation).map(str::to_owned),
        Some(cell) => Some(cell.text()),
        None => None,
    });
    let numbers: BTreeSet<usize> = texts.map(|text| notes.number(&text)).collect();
    if !numbers.is_empty() {
        let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        write!(text, " ({})", numbers.join(", ")).expect("a string takes all");
    }
    text
}

/// Results, each with the day of its run.
#[derive(Debug, Default)]
pub(crate) struct Matrix(Vec<(Case, Cell, String)>);

impl Matrix {
    /// Sets a result. One of a client that is not installed, or of an overloaded machine, does not replace another.
    pub(crate) fn set(&mut self, case: &Case, cell: Cell, day: &str) {
        let is_kept = matches!(cell, Cell::Skipped(_) | Cell::Overloaded(_)) && self.cell(case).is_some();
        if !is_kept {
            self.0.retain(|(other, ..)| other != case);
            self.0.push((*case, cell, day.to_owned()));
        }
    }

    /// Adds the results of a later run.
    pub(crate) fn merge(&mut self, later: Matrix) {
        for (case, cell, day) in later.0 {
            self.set(&case, cell, &day);
        }
    }

    /// Number of cells for which a run fails: those that failed, at the first attempt only or on an overloaded
    /// machine, too.
    pub(crate) fn failures(&self) -> usize {
        let is_failure =
            |cell: &Cell| matches!(cell, Cell::Fails(_) | Cell::Unstable(_) | Cell::Overloaded(_));
        self.0.iter().filter(|(_, cell, _)| is_failure(cell)).count()
    }

    /// Number of cells with each result.
    pub(crate) fn summary(&self) -> String {
        let words = ["yes", "unstable", "no", "skipped", "overloaded", "fails"];
        let counts = words.map(|word| self.0.iter().filter(|(_, cell, _)| cell.parts().0 == word).count());
        let texts: Vec<String> =
            words.iter().zip(counts).map(|(word, count)| format!("{count} {word}")).collect();
        format!("{} cells: {}", self.0.len(), texts.join(", "))
    }

    /// Reads kept results: lines of client, format, transport, operation, day, result and reason, with tabs
    /// between.
    pub(crate) fn read(file: &Path) -> Result<Matrix> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        Matrix::parse(&text).with_context(|| file.display().to_string())
    }

    fn parse(text: &str) -> Result<Matrix> {
        let mut matrix = Matrix::default();
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            ensure!(fields.len() == 7, "{line}: expected seven fields");
            let case = Case::all().find(|case| case.fields()[..] == fields[..4]);
            let case = case.with_context(|| format!("unknown case: {line}; remove the line"))?;
            matrix.0.push((case, Cell::parse(fields[5], fields[6])?, fields[4].to_owned()));
        }
        Ok(matrix)
    }

    /// The text that [`Matrix::read`] reads.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for case in Case::all() {
            if let Some((_, cell, day)) = self.0.iter().find(|(other, ..)| *other == case) {
                let (word, why) = cell.parts();
                let why = why.lines().next().unwrap_or_default().replace('\t', " ");
                writeln!(text, "{}\t{day}\t{word}\t{why}", case.fields().join("\t"))
                    .expect("a string takes all");
            }
        }
        text
    }

    /// A table for each client: formats by transports, each cell with the operations that work.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        for client in Client::ALL {
            if self.0.iter().any(|(case, ..)| case.client == client) {
                text += &self.table(client);
            }
        }
        text
    }

    fn table(&self, client: Client) -> String {
        let mut notes = Notes::default();
        let mut text = format!("\n### {}\n\n| format |", client.name());
        for transport in Transport::ALL {
            write!(text, " {} |", transport.name()).expect("a string takes all");
        }
        text += &format!("\n| --- |{}\n", " --- |".repeat(Transport::ALL.len()));
        for format in Format::ALL {
            write!(text, "| {} |", format.name).expect("a string takes all");
            for transport in Transport::ALL {
                let case = |operation| Case { client, format, transport, operation };
                let results = Operation::ALL.map(|operation| (operation, self.cell(&case(operation))));
                let remark = |operation| case(operation).remark();
                write!(text, " {} |", summary(&results, remark, &mut notes)).expect("a string takes all");
            }
            text.push('\n');
        }
        text.push('\n');
        for (number, note) in notes.0.iter().enumerate() {
            writeln!(text, "{}. {note}", number + 1).expect("a string takes all");
        }
        text
    }

    fn cell(&self, case: &Case) -> Option<&Cell> {
        self.0.iter().find(|(other, ..)| other == case).map(|(_, cell, _)| cell)
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

    fn attempt(result: Result<()>) -> Attempt {
        Attempt::new(result, None)
    }

    fn failure(is_overloaded: bool) -> Attempt {
        let error = anyhow::anyhow!("frame 3 differs\nmore").context("pictures");
        Attempt::new(Err(error), is_overloaded.then(|| "no room".to_owned()))
    }

    #[test]
    fn results_are_told_apart() {
        let of = |result| Cell::of(attempt(result), None);
        assert_eq!(of(Ok(())), Cell::Plays);
        assert_eq!(of(Err(Cannot("no TLS").into())), Cell::Cannot("no TLS".into()));
        assert_eq!(of(Err(Skip("not installed".into()).into())), Cell::Skipped("not installed".into()));
        assert_eq!(Cell::of(failure(false), None), Cell::Fails("pictures: frame 3 differs\nmore".into()));
        assert!(failure(true).failed() && !attempt(Ok(())).failed());
        assert!(!attempt(Err(Cannot("no TLS").into())).failed());
    }

    #[test]
    fn a_second_attempt_decides() {
        let reason = "pictures: frame 3 differs";
        assert_eq!(Cell::of(failure(false), Some(attempt(Ok(())))), Cell::Unstable(reason.into()));
        let overloaded = Cell::of(failure(true), Some(attempt(Ok(()))));
        assert_eq!(overloaded, Cell::Unstable(format!("{reason} (no room)")));
        for (first, second) in [(false, false), (true, false), (false, true)] {
            assert!(matches!(Cell::of(failure(first), Some(failure(second))), Cell::Fails(_)));
        }
        let overloaded = Cell::of(failure(true), Some(failure(true)));
        assert_eq!(overloaded, Cell::Overloaded(format!("{reason} (no room)")));
        let cannot = Cell::of(failure(false), Some(attempt(Err(Cannot("no TLS").into()))));
        assert_eq!(cannot, Cell::Unstable(format!("{reason}; then no: no TLS")));
    }

    /// Results of a client, the same for all formats and operations of a transport.
    fn matrix(client: Client, result: impl Fn(Transport) -> Cell) -> Matrix {
        let mut matrix = Matrix::default();
        for case in Case::all().filter(|case| case.client == client) {
            matrix.set(&case, result(case.transport), "2026-11-30");
        }
        matrix
    }

    #[test]
    fn tables_have_cells_and_notes() {
        let matrix = matrix(Client::Vlc, |transport| match transport {
            Transport::Udp => Cell::Plays,
            Transport::Tls => Cell::Fails("late\nand more".into()),
            _ => Cell::Cannot("UDP only".into()),
        });
        let text = matrix.markdown();
        let (yes, no, fails) =
            ("all", "none (1)", "none; **fails**: play, pause, seek, speed, scale, rewind (2)");
        let row = format!("| transport stream | {yes} | {no} | {no} | {no} | {fails} | {no} | {no} |\n");
        assert!(text.contains(&row) && text.ends_with("\n1. no: UDP only\n2. fails: late\n"), "{text}");
        assert_eq!(matrix.failures(), Operation::ALL.len() * Format::ALL.len());
    }

    #[test]
    fn a_run_fails_for_cells_that_failed_once() {
        let failures = |cell: Cell| matrix(Client::Vlc, |_| cell.clone()).failures();
        for cell in [Cell::Plays, Cell::Cannot("UDP only".into()), Cell::Skipped("not installed".into())] {
            assert_eq!(failures(cell), 0);
        }
        for cell in
            [Cell::Fails("late".into()), Cell::Unstable("late".into()), Cell::Overloaded("late".into())]
        {
            assert!(failures(cell) > 0);
        }
    }

    #[test]
    fn a_cell_names_what_works() {
        let cannot = Cell::Cannot("no window".into());
        let results = [
            (Operation::ALL[0], Some(&Cell::Plays)),
            (Operation::ALL[1], Some(&cannot)),
            (Operation::ALL[2], Some(&Cell::Plays)),
            (Operation::ALL[3], None),
            (Operation::ALL[4], Some(&Cell::Unstable("late".into()))),
        ];
        let text = summary(&results, |_| None, &mut Notes::default());
        assert_eq!(text, "play, seek; unstable: scale; not tried: speed (1, 2)");
        let remark = |operation| (operation != Operation::ALL[0]).then_some("rewritten");
        let text = summary(&results, remark, &mut Notes::default());
        assert_eq!(text, "play, seek; unstable: scale; not tried: speed (1, 2, 3)");
    }

    #[test]
    fn results_are_kept_and_replaced() {
        let mut kept = matrix(Client::Vlc, |_| Cell::Cannot("UDP only".into()));
        kept = Matrix::parse(&kept.text()).unwrap();
        kept.merge(matrix(Client::Vlc, |_| Cell::Skipped("not installed".into())));
        kept.merge(matrix(Client::Retina, |_| Cell::Skipped("not installed".into())));
        kept.merge(matrix(Client::Vlc, |_| Cell::Overloaded("late".into())));
        let case = |client| Case::all().find(|case| case.client == client).unwrap();
        assert_eq!(kept.cell(&case(Client::Vlc)), Some(&Cell::Cannot("UDP only".into())));
        assert_eq!(kept.cell(&case(Client::Retina)), Some(&Cell::Skipped("not installed".into())));
        kept.merge(matrix(Client::Vlc, |_| Cell::Plays));
        assert_eq!(kept.cell(&case(Client::Vlc)), Some(&Cell::Plays));
        assert_eq!(kept.text(), Matrix::parse(&kept.text()).unwrap().text());
        assert!(Matrix::parse("VLC\tno such format\tUDP\tplay\t2026-11-30\tyes\t\n").is_err());
    }

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let [begin, end] = MARKS;
        let document = format!("before\n{begin}old\n{end}behind\n");
        assert_eq!(replace(&document, "new").unwrap(), format!("before\n{begin}new\n{end}behind\n"));
        assert_eq!(replace("no marks", "new"), None);
    }
}
