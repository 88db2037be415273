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

/// Words in lines of at most `width` columns.
pub(crate) fn paragraph(text: &str, width: usize) -> String {
    let mut table = new_table(width, false);
    table.add_row([text]);
    for column in table.column_iter_mut() {
        column.set_padding((0, 0));
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The lines of a table without blanks at their ends.
pub(crate) fn lines(table: &mut Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((1, 0)); // every column counts on a narrow terminal
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_breaks_between_words() {
        let text = "what the paths of `wirepath serve` cost is kept in /var/cache/wirepath/calibration.json";
        let lines = paragraph(text, 40);
        assert!(lines.lines().all(|line| line.len() <= 40), "{lines}");
        assert_eq!(lines.split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
        assert_eq!(paragraph("short", 40), "short\n");
    }
}
