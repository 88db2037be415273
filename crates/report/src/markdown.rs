//! A document as Markdown: prose and tables, without the plots.

use crate::document::{Block, Document};
use crate::inline::spans;
use crate::number::visible;
use crate::table::{Cell, Column, Kind, Table};

/// Renders the document.
pub fn markdown(document: &Document) -> String {
    let mut text = format!("# {}\n\n", escaped(&visible(&document.title)));
    for fact in &document.facts {
        text += &format!("- {}\n", escaped(&visible(fact)));
    }
    for warning in &document.warnings {
        text += &format!("\n> {}\n", escaped(&visible(warning)));
    }
    for section in document.sections() {
        text += &format!("\n## {}\n", escaped(&visible(&section.title)));
        for block in &section.blocks {
            match block {
                Block::Paragraph(paragraph) => text += &format!("\n{}\n", prose(paragraph)),
                Block::Table(table) => text += &format!("\n{}", self::table(table)),
                Block::Figure(_) => {}
            }
        }
    }
    text
}

/// A table below its caption, as GitHub's Markdown has tables.
pub fn table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let rule = |column: &Column| if column.figures { "---:" } else { "---" }.to_owned();
    let mut text = format!("{}\n\n", prose(&table.caption));
    text += &line(table.columns.iter().map(|column| escaped(&column.head)).collect());
    text += &line(table.columns.iter().map(rule).collect());
    for row in &table.rows {
        text += &line(row.iter().map(cell).collect());
    }
    for note in &table.notes {
        text += &format!("\n{}\n", prose(note));
    }
    text
}

fn cell(cell: &Cell) -> String {
    match cell.kind {
        Kind::Code => code(&cell.text),
        Kind::Noisy => format!("*{}*", escaped(&cell.text)),
        _ => prose(&cell.text),
    }
}

fn prose(text: &str) -> String {
    spans(text).iter().map(|span| if span.code { code(&span.text) } else { escaped(&span.text) }).collect()
}

/// A code span. Nothing ends one but a backtick, and a cell but a bar.
fn code(text: &str) -> String {
    match text.contains(['`', '|']) || text.is_empty() {
        true => escaped(text),
        false => format!("`{text}`"),
    }
}

/// Text that Markdown takes for nothing but text.
pub fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, letter| {
        if "\\`*_[]<>|&#~!".contains(letter) {
            shown.push('\\');
        }
        shown.push(letter);
        shown
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        let mut hostile = Table::new("Paths", &["path", "#s/GiB"]);
        hostile.row([Cell::code("a|b`<script>"), Cell::new("1.5", Kind::Noisy)]);
        hostile.row([Cell::code("plain"), Cell::figure(None::<f64>, |_| String::new())]);
        let expected =
            "Paths\n\n| path | s/GiB |\n| --- | ---: |\n| a\\|b\\`\\<script\\> | *1.5* |\n| `plain` | – |\n";
        assert_eq!(table(&hostile), expected);
    }
}
