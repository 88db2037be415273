//! Tables for a terminal, and parts with a title.

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};

/// A part with its title; empty where there is nothing in it.
pub(crate) fn section(title: &str, content: &str) -> String {
    if content.is_empty() { String::new() } else { format!("{title}\n{content}") }
}

/// A table without any frame, a line below its head, that fits `width`.
pub(crate) fn new_table(width: usize, utf8: bool) -> Table {
    let line = if utf8 { '─' } else { '-' };
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill(line).junction(line)));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    table.force_no_tty(); // no colours: the locale and the width were looked at already
    table
}

/// The lines of a table without blanks at their ends.
pub(crate) fn lines(table: &mut Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((1, 0)); // every column counts on a narrow terminal
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
