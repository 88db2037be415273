//! Rows of the status table: a row for each stream, and for each output of a stream with several outputs, as
//! many as fit.

use std::collections::BTreeMap;
use std::path::Path;

use comfy_table::{CellAlignment, ColumnConstraint, Row as TableRow, Width};
use wirepath_relay::StreamSnapshot;
use wirepath_report::terminal::Terminal;
use wirepath_streams::OutputStatus;

use crate::format;

struct Column {
    head: &'static str,
    /// Width in characters. For names, this is the width up to which they take precedence over other columns.
    width: usize,
    /// True if the column is shown even when all its cells are empty.
    always: bool,
    removal: Removal,
    cell: fn(&Row<'_>) -> String,
}

/// Order in which columns are removed if the terminal is too narrow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Removal {
    First,
    Second,
    Third,
    Fourth,
    Fifth,
    Never,
}

/// Subject of a row.
enum Row<'a> {
    Class(&'a StreamSnapshot),
    Stream(&'a StreamSnapshot),
    /// Output with this index.
    Output(&'a StreamSnapshot, usize),
}

const MIN_NAME: usize = 8;

/// Width that distinguishes most names. Names up to this width take precedence over removable columns.
const USEFUL_NAME: usize = 16;

/// Lines besides the rows: the header, its rule, the line about omitted rows, and the line of the cursor.
const OTHER_LINES: usize = 4;

const COLUMNS: &[Column] = &[
    Column { head: "stream", width: USEFUL_NAME, always: true, removal: Removal::Never, cell: name },
    Column { head: "class", width: USEFUL_NAME, always: false, removal: Removal::First, cell: class },
    Column { head: "in", width: 11, always: true, removal: Removal::Never, cell: rate_in },
    Column { head: "out", width: 11, always: true, removal: Removal::Never, cell: rate_out },
    Column { head: "cpu", width: 7, always: false, removal: Removal::Fourth, cell: processor },
    Column { head: "moved", width: 10, always: true, removal: Removal::Second, cell: moved },
    // Always shown: a column that appears and disappears would move the others.
    Column {
        head: "waiting",
        width: 10,
        always: true,
        removal: Removal::Third,
        cell: |row| bytes(row.undelivered()[0]),
    },
    Column {
        head: "dropped",
        width: 10,
        always: false,
        removal: Removal::Fifth,
        cell: |row| bytes(row.undelivered()[1]),
    },
    Column {
        head: "lost",
        width: 10,
        always: false,
        removal: Removal::Fourth,
        cell: |row| bytes(row.undelivered()[2]),
    },
    Column { head: "state", width: 7, always: true, removal: Removal::Never, cell: state },
];

/// Renders the table for a terminal of this size. Classes that share processor time come first. Streams keep
/// the order of the configuration.
pub(super) fn render(streams: &[StreamSnapshot], width: usize, height: usize, utf8: bool) -> String {
    let room = height.saturating_sub(OTHER_LINES).max(1);
    // Streams get at least half of the lines.
    let classes: Vec<StreamSnapshot> = classes(streams).into_iter().take(room / 2).collect();
    let (stream_rows, omitted) = fit(streams, room - classes.len());
    let rows: Vec<Row<'_>> = classes.iter().map(Row::Class).chain(stream_rows).collect();
    let shown = choose_columns(&rows, width);

    let mut drawn = Terminal { width, utf8 }.grid();
    drawn.set_header(shown.iter().map(|(column, _)| column.head));
    for row in &rows {
        let cells = shown.iter().map(|(column, width)| shorten((column.cell)(row), *width, utf8));
        let mut row = TableRow::from(cells);
        row.max_height(1);
        drawn.add_row(row);
    }
    for (drawn, (column, width)) in drawn.column_iter_mut().zip(&shown) {
        drawn.set_padding((0, 0));
        drawn.set_constraint(ColumnConstraint::Absolute(Width::Fixed(*width as u16)));
        drawn.set_cell_alignment(column.alignment());
    }
    let lines = drawn.lines().map(|line| line.trim_end().to_owned());
    lines.chain(omitted).map(|line| line + "\n").collect()
}

/// Sums per class, for classes whose streams measure processor time, ordered by name.
fn classes(streams: &[StreamSnapshot]) -> Vec<StreamSnapshot> {
    let mut sums = BTreeMap::<&str, StreamSnapshot>::new();
    let accounts =
        |stream: &&StreamSnapshot| !stream.class.is_empty() && stream.status.processor_time.is_some();
    for stream in streams.iter().filter(accounts) {
        let sum = sums.entry(&stream.class).or_insert_with(|| StreamSnapshot {
            name: format!("class {}", stream.class),
            ..StreamSnapshot::default()
        });
        let (rates, more) = (&mut sum.rates, &stream.rates);
        sum.status.bytes_in += stream.status.bytes_in;
        rates.bits_in = rates.bits_in.saturating_add(more.bits_in);
        rates.bits_out = rates.bits_out.saturating_add(more.bits_out);
        rates.processor = Some(rates.processor.unwrap_or(0) + more.processor.unwrap_or(0));
    }
    sums.into_values().collect()
}

/// Rows that fit, and a line about omitted rows. Outputs are shown if all of them fit, or if there is only
/// one stream.
fn fit(streams: &[StreamSnapshot], room: usize) -> (Vec<Row<'_>>, Option<String>) {
    let outputs =
        |stream: &StreamSnapshot| Some(stream.status.outputs.len()).filter(|count| *count > 1).unwrap_or(0);
    let all_outputs: usize = streams.iter().map(outputs).sum();
    let shows_outputs = streams.len() + all_outputs <= room || streams.len() == 1;
    let rows = streams.iter().flat_map(|stream| {
        let outputs = if shows_outputs { outputs(stream) } else { 0 };
        std::iter::once(Row::Stream(stream)).chain((0..outputs).map(move |index| Row::Output(stream, index)))
    });
    let rows: Vec<Row<'_>> = rows.take(room).collect();
    let stream_rows = rows.iter().filter(|row| matches!(row, Row::Stream(_))).count();
    let more_streams = streams.len() - stream_rows;
    let more_outputs = all_outputs - (rows.len() - stream_rows);
    let more = [(more_streams, "stream", "streams"), (more_outputs, "output", "outputs")];
    let more = more.into_iter().filter(|(count, ..)| *count > 0);
    let words: Vec<String> =
        more.map(|(count, one, many)| format::counted(count as u64, one, many)).collect();
    let omitted = (!words.is_empty()).then(|| format!("and {} more", words.join(" and ")));
    (rows, omitted)
}

/// Columns that fit, with their widths.
fn choose_columns(rows: &[Row<'_>], terminal_width: usize) -> Vec<(&'static Column, usize)> {
    let longest = |column: &Column| {
        let cells = rows.iter().map(|row| (column.cell)(row).chars().count());
        cells.max().unwrap_or(0).max(column.head.len())
    };
    let width = |column: &Column| match column.head {
        "stream" => longest(column).clamp(MIN_NAME, column.width),
        "class" => longest(column).min(column.width),
        _ => column.width,
    };
    let is_used = |column: &Column| rows.iter().any(|row| !(column.cell)(row).is_empty());
    let mut shown: Vec<(&Column, usize)> = COLUMNS
        .iter()
        .filter(|column| column.always || is_used(column))
        .map(|column| (column, width(column)))
        .collect();
    // Columns are separated by a space.
    let taken = |shown: &[(&Column, usize)]| shown.iter().map(|(_, width)| width + 1).sum::<usize>() - 1;
    while taken(&shown) > terminal_width
        && let Some(first) =
            shown.iter().map(|(column, _)| column.removal).min().filter(|first| *first < Removal::Never)
        && let Some(index) = shown.iter().position(|(column, _)| column.removal == first)
    {
        // The dropped bytes are more important than the rest of a name.
        if first == Removal::Fifth && taken(&shown) - shown[0].1 + MIN_NAME <= terminal_width {
            break;
        }
        shown.remove(index);
    }
    let others = taken(&shown) - shown[0].1;
    shown[0].1 = longest(shown[0].0).clamp(MIN_NAME, terminal_width.saturating_sub(others).max(MIN_NAME));
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

impl Row<'_> {
    fn output(&self) -> Option<&OutputStatus> {
        match self {
            Row::Class(_) | Row::Stream(_) => None,
            Row::Output(stream, index) => stream.status.outputs.get(*index),
        }
    }

    fn undelivered(&self) -> [u64; 3] {
        match (self, self.output()) {
            (Row::Class(_), _) => [0; 3],
            (Row::Stream(stream), _) => stream.undelivered(),
            (Row::Output(..), output) => output
                .map_or([0; 3], |output| [output.waiting_bytes, output.dropped.bytes, output.lost_bytes]),
        }
    }
}

/// Name of the row. Names come from files and may contain any characters.
fn name(row: &Row<'_>) -> String {
    match (row, row.output()) {
        (Row::Class(stream) | Row::Stream(stream), _) => format::name(Path::new(&stream.name)),
        (Row::Output(..), output) => {
            format!("  {}", format::name(Path::new(output.map_or("", |output| &output.name))))
        }
    }
}

fn class(row: &Row<'_>) -> String {
    for_stream(row, |stream| format::name(Path::new(&stream.class)))
}

fn rate_in(row: &Row<'_>) -> String {
    for_stream_or_class(row, |stream| format::bit_rate(stream.rates.bits_in))
}

/// Processor time in percent of one processor.
fn processor(row: &Row<'_>) -> String {
    let percent = |thousandths: u64| format!("{}.{} %", thousandths / 10, thousandths % 10);
    for_stream_or_class(row, |stream| stream.rates.processor.map(percent).unwrap_or_default())
}

fn rate_out(row: &Row<'_>) -> String {
    format::bit_rate(match row {
        Row::Class(stream) | Row::Stream(stream) => stream.rates.bits_out,
        Row::Output(stream, index) => stream.rates.outputs.get(*index).copied().unwrap_or(0),
    })
}

fn moved(row: &Row<'_>) -> String {
    format::size(match (row, row.output()) {
        (Row::Class(stream) | Row::Stream(stream), _) => stream.status.bytes_in,
        (Row::Output(..), output) => output.map_or(0, |output| output.bytes),
    })
}

fn state(row: &Row<'_>) -> String {
    for_stream(row, |stream| stream.state.name().to_owned())
}

fn for_stream(row: &Row<'_>, cell: impl Fn(&StreamSnapshot) -> String) -> String {
    match row {
        Row::Stream(stream) => cell(stream),
        Row::Class(_) | Row::Output(..) => String::new(),
    }
}

fn for_stream_or_class(row: &Row<'_>, cell: impl Fn(&StreamSnapshot) -> String) -> String {
    match row {
        Row::Class(stream) | Row::Stream(stream) => cell(stream),
        Row::Output(..) => String::new(),
    }
}

/// Shortens a text that is too long. The table itself shortens texts with characters that are two columns
/// wide.
fn shorten(text: String, width: usize, utf8: bool) -> String {
    let mark = if utf8 { "…" } else { "..." };
    if text.chars().count() <= width {
        return text;
    }
    text.chars().take(width - mark.chars().count()).chain(mark.chars()).collect()
}

/// Formats bytes; 0 is empty.
fn bytes(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { format::size(bytes) }
}

#[cfg(test)]
mod tests;
