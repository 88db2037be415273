//! The table of streams: a line for each, for each of several outputs too, and never more than fits.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use comfy_table::{CellAlignment, ColumnConstraint, Row as Line, Width};
use wirepath_streams::OutputStatus;

use crate::relay::row::Row;
use crate::{format, table};

/// A column.
struct Column {
    head: &'static str,
    /// Its letters; of names, how many are shown before another column is.
    letters: usize,
    /// Whether it is there also with nothing in it.
    stays: bool,
    goes: Goes,
    cell: fn(&Entry<'_>) -> String,
}

/// Which column goes first if the terminal is too narrow for all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Goes {
    First,
    Second,
    Third,
    Fourth,
    Fifth,
    Never,
}

/// What a line is about.
enum Entry<'a> {
    /// The sum of a class's streams.
    Class(&'a Row),
    Stream(&'a Row),
    Output(&'a Row, usize),
}

/// Letters of names that are shown however narrow it is.
const LEAST_NAME: usize = 8;

/// Letters by which most names are told apart: they are shown before columns that may go.
const TELLING_NAME: usize = 16;

/// Lines that are not streams: the first (see [`render`]), the head, the line below it, what is left out, and the one that the cursor
/// is in.
const OTHER_LINES: usize = 5;

const COLUMNS: &[Column] = &[
    Column { head: "stream", letters: TELLING_NAME, stays: true, goes: Goes::Never, cell: name },
    Column { head: "class", letters: TELLING_NAME, stays: false, goes: Goes::First, cell: class },
    Column { head: "in", letters: 11, stays: true, goes: Goes::Never, cell: rate_in },
    Column { head: "out", letters: 11, stays: true, goes: Goes::Never, cell: rate_out },
    Column { head: "cpu", letters: 7, stays: false, goes: Goes::Fourth, cell: processor },
    Column { head: "moved", letters: 10, stays: true, goes: Goes::Second, cell: moved },
    // What waits comes and goes, and the table should not jump.
    Column {
        head: "waiting",
        letters: 10,
        stays: true,
        goes: Goes::Third,
        cell: |entry| bytes(entry.stuck()[0]),
    },
    Column {
        head: "dropped",
        letters: 10,
        stays: false,
        goes: Goes::Fifth,
        cell: |entry| bytes(entry.stuck()[1]),
    },
    Column {
        head: "lost",
        letters: 10,
        stays: false,
        goes: Goes::Fourth,
        cell: |entry| bytes(entry.stuck()[2]),
    },
    Column { head: "state", letters: 7, stays: true, goes: Goes::Never, cell: state },
];

/// The table, busiest first, in so many columns and lines. Where classes share processor time, they stand first.
///
/// It begins with an empty line: what Ctrl-C makes a terminal print moves all by a line that stays there, and no head of a table should.
pub(super) fn render(rows: &[Row], width: usize, height: usize, utf8: bool) -> String {
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by_key(|row| (Reverse(row.pace.bits_in.saturating_add(row.pace.bits_out)), &row.name));
    let room = height.saturating_sub(OTHER_LINES).max(1);
    // Streams have half of the room at least.
    let classes: Vec<Row> = classes(rows).into_iter().take(room / 2).collect();
    let (streams, rest) = cut(&sorted, room - classes.len());
    let entries: Vec<Entry<'_>> = classes.iter().map(Entry::Class).chain(streams).collect();
    let shown = choose(&entries, width);

    let mut drawn = table::new_table(width, utf8);
    drawn.set_header(shown.iter().map(|(column, _)| column.head));
    for entry in &entries {
        let words = shown.iter().map(|(column, letters)| shorten((column.cell)(entry), *letters, utf8));
        let mut line = Line::from(words);
        line.max_height(1);
        drawn.add_row(line);
    }
    for (drawn, (column, letters)) in drawn.column_iter_mut().zip(&shown) {
        drawn.set_padding((0, 0));
        drawn.set_constraint(ColumnConstraint::Absolute(Width::Fixed(*letters as u16)));
        drawn.set_cell_alignment(column.alignment());
    }
    let lines = drawn.lines().map(|line| line.trim_end().to_owned());
    std::iter::once(String::new()).chain(lines).chain(rest).collect::<Vec<_>>().join("\n")
}

/// The classes whose streams account for processor time, each as the sum of them, in the order of their names.
fn classes(rows: &[Row]) -> Vec<Row> {
    let mut sums = BTreeMap::<&str, Row>::new();
    for row in rows.iter().filter(|row| !row.class.is_empty() && row.status.processor_time.is_some()) {
        let sum = sums
            .entry(&row.class)
            .or_insert_with(|| Row { name: format!("class {}", row.class), ..Row::default() });
        sum.status.bytes_in += row.status.bytes_in;
        sum.pace.bits_in = sum.pace.bits_in.saturating_add(row.pace.bits_in);
        sum.pace.bits_out = sum.pace.bits_out.saturating_add(row.pace.bits_out);
        sum.pace.processor = Some(sum.pace.processor.unwrap_or(0) + row.pace.processor.unwrap_or(0));
    }
    sums.into_values().collect()
}

/// As much as there is room for, and what to say of the rest.
fn cut<'a>(rows: &[&'a Row], room: usize) -> (Vec<Entry<'a>>, Option<String>) {
    let outputs = |row: &Row| if row.status.outputs.len() > 1 { row.status.outputs.len() } else { 0 };
    let with_outputs = |row: &&'a Row| {
        std::iter::once(Entry::Stream(row)).chain((0..outputs(row)).map(|place| Entry::Output(row, place)))
    };
    let all_outputs: usize = rows.iter().map(|row| outputs(row)).sum();
    let entries: Vec<Entry<'_>> = if rows.len() + all_outputs <= room || rows.len() == 1 {
        rows.iter().flat_map(with_outputs).take(room).collect()
    } else {
        rows.iter().take(room).map(|row| Entry::Stream(row)).collect()
    };
    let streams = entries.iter().filter(|entry| matches!(entry, Entry::Stream(_))).count();
    let more_streams = rows.len() - streams;
    let more_outputs = all_outputs - (entries.len() - streams);
    let more = [(more_streams, "stream", "streams"), (more_outputs, "output", "outputs")];
    let more = more.into_iter().filter(|(count, ..)| *count > 0);
    let words: Vec<String> =
        more.map(|(count, one, many)| format::counted(count as u64, one, many)).collect();
    let rest = (!words.is_empty()).then(|| format!("and {} more", words.join(" and ")));
    (entries, rest)
}

/// The columns that fit, and the letters of each.
fn choose(entries: &[Entry<'_>], width: usize) -> Vec<(&'static Column, usize)> {
    let longest = |column: &Column| {
        let cells = entries.iter().map(|entry| (column.cell)(entry).chars().count());
        cells.max().unwrap_or(0).max(column.head.len())
    };
    let letters = |column: &Column| match column.head {
        "stream" => longest(column).clamp(LEAST_NAME, column.letters),
        "class" => longest(column).min(column.letters),
        _ => column.letters,
    };
    let is_used = |column: &Column| entries.iter().any(|entry| !(column.cell)(entry).is_empty());
    let mut shown: Vec<(&Column, usize)> = COLUMNS
        .iter()
        .filter(|column| column.stays || is_used(column))
        .map(|column| (column, letters(column)))
        .collect();
    // And a blank between columns.
    let taken = |shown: &[(&Column, usize)]| shown.iter().map(|(_, letters)| letters + 1).sum::<usize>() - 1;
    while taken(&shown) > width
        && let Some(first) =
            shown.iter().map(|(column, _)| column.goes).min().filter(|goes| *goes < Goes::Never)
        && let Some(place) = shown.iter().position(|(column, _)| column.goes == first)
    {
        // What is dropped is worth more than the rest of a name.
        if first == Goes::Fifth && taken(&shown) - shown[0].1 + LEAST_NAME <= width {
            break;
        }
        shown.remove(place);
    }
    let others = taken(&shown) - shown[0].1;
    shown[0].1 = longest(shown[0].0).clamp(LEAST_NAME, width.saturating_sub(others).max(LEAST_NAME));
    shown
}

impl Column {
    fn alignment(&self) -> CellAlignment {
        if matches!(self.head, "stream" | "class" | "state") {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        }
    }
}

impl Entry<'_> {
    fn output(&self) -> Option<&OutputStatus> {
        match self {
            Entry::Class(_) | Entry::Stream(_) => None,
            Entry::Output(row, place) => row.status.outputs.get(*place),
        }
    }

    fn stuck(&self) -> [u64; 3] {
        match (self, self.output()) {
            (Entry::Class(_), _) => [0; 3],
            (Entry::Stream(row), _) => row.stuck(),
            (Entry::Output(..), output) => output
                .map_or([0; 3], |output| [output.waiting_bytes, output.dropped.bytes, output.lost_bytes]),
        }
    }
}

/// Names come from files, and may have any letters.
fn name(entry: &Entry<'_>) -> String {
    match (entry, entry.output()) {
        (Entry::Class(row) | Entry::Stream(row), _) => format::name(Path::new(&row.name)),
        (Entry::Output(..), output) => {
            format!("  {}", format::name(Path::new(output.map_or("", |output| &output.name))))
        }
    }
}

fn class(entry: &Entry<'_>) -> String {
    of_stream(entry, |row| format::name(Path::new(&row.class)))
}

fn rate_in(entry: &Entry<'_>) -> String {
    of_sum(entry, |row| format::bit_rate(row.pace.bits_in))
}

/// Of one processor.
fn processor(entry: &Entry<'_>) -> String {
    let percent = |thousandths: u64| format!("{}.{} %", thousandths / 10, thousandths % 10);
    of_sum(entry, |row| row.pace.processor.map(percent).unwrap_or_default())
}

fn rate_out(entry: &Entry<'_>) -> String {
    format::bit_rate(match entry {
        Entry::Class(row) | Entry::Stream(row) => row.pace.bits_out,
        Entry::Output(row, place) => row.pace.outputs.get(*place).copied().unwrap_or(0),
    })
}

fn moved(entry: &Entry<'_>) -> String {
    format::size(match (entry, entry.output()) {
        (Entry::Class(row) | Entry::Stream(row), _) => row.status.bytes_in,
        (Entry::Output(..), output) => output.map_or(0, |output| output.bytes),
    })
}

fn state(entry: &Entry<'_>) -> String {
    of_stream(entry, |row| row.state.to_string())
}

fn of_stream(entry: &Entry<'_>, cell: impl Fn(&Row) -> String) -> String {
    match entry {
        Entry::Stream(row) => cell(row),
        Entry::Class(_) | Entry::Output(..) => String::new(),
    }
}

/// Of a stream or all of a class.
fn of_sum(entry: &Entry<'_>, cell: impl Fn(&Row) -> String) -> String {
    match entry {
        Entry::Class(row) | Entry::Stream(row) => cell(row),
        Entry::Output(..) => String::new(),
    }
}

/// The beginning of a text that is too long. Letters that are two columns wide are left to the table, which has one line for each.
fn shorten(text: String, letters: usize, utf8: bool) -> String {
    let mark = if utf8 { "…" } else { "..." };
    if text.chars().count() <= letters {
        return text;
    }
    text.chars().take(letters - mark.chars().count()).chain(mark.chars()).collect()
}

/// Nothing for nothing.
fn bytes(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { format::size(bytes) }
}

#[cfg(test)]
mod tests;
