//! Documents and tables for a terminal.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, TableStyle, Width};

use crate::document::{Block, Document};
use crate::inline::plain;
use crate::number::NOTHING;
use crate::table::{Cell, Detail, Kind, Table};

/// Abilities of a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// Columns of its lines.
    pub width: usize,
    /// True if it has letters beyond ASCII.
    pub utf8: bool,
}

impl Terminal {
    /// A document without plots and raw tables, its summary last: the end of a long text is what is seen.
    pub fn document(self, document: &Document) -> String {
        let (summary, others): (Vec<_>, Vec<_>) =
            document.sections().partition(|section| section.id == document.summary.id);
        let mut parts: Vec<String> = others.into_iter().map(|section| self.blocks(&section.blocks)).collect();
        parts.extend(document.warnings.iter().map(|warning| self.paragraph(warning)));
        parts.extend(summary.into_iter().map(|section| self.blocks(&section.blocks)));
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }

    fn blocks(self, blocks: &[Block]) -> String {
        let shown = blocks.iter().filter_map(|block| match block {
            Block::Paragraph(text) => Some(self.paragraph(text)),
            Block::Table(table) if matches!(table.detail, Detail::Main | Detail::Full) => {
                Some(self.table(table))
            }
            Block::Table(_) | Block::Figure(_) => None,
        });
        shown.collect::<Vec<_>>().join("\n")
    }

    /// A table below its caption, without columns that hold nothing. Figures that are not to be relied on end
    /// with a tilde. Figures and names are never broken: where they do not fit, the table is wider than the
    /// terminal, which breaks lines visibly.
    pub fn table(self, table: &Table) -> String {
        let holds = |index: &usize| {
            let mut cells = table.rows.iter().map(|row| &row[*index]);
            *index == 0 || cells.any(|cell| !cell.text.is_empty() && cell.text != NOTHING)
        };
        let columns: Vec<usize> = (0..table.columns.len()).filter(holds).collect();
        let mut grid = self.grid();
        if table.columns.iter().any(|column| !column.head.is_empty()) {
            grid.set_header(columns.iter().map(|index| self.text(&table.columns[*index].head)));
        }
        grid.add_rows(
            table
                .rows
                .iter()
                .map(|row| columns.iter().map(|index| self.cell(&row[*index])).collect::<Vec<_>>()),
        );
        for (index, column) in columns.iter().zip(grid.column_iter_mut()) {
            let is_figure = table.columns[*index].figures;
            if is_figure {
                column.set_cell_alignment(CellAlignment::Right);
            }
            let names = table.rows.iter().all(|row| row[*index].kind == Kind::Code);
            let widest = table.rows.iter().map(|row| self.cell(&row[*index]).chars().count()).max();
            if let Some(Ok(widest)) =
                widest.map(u16::try_from).filter(|_| is_figure || (names && *index == 0))
            {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(widest + 1)));
            }
        }
        let notes: String = table.notes.iter().map(|note| self.paragraph(note)).collect();
        format!("{}{}{notes}", self.paragraph(&table.caption), lines(&mut grid, (1, 0)))
    }

    /// Words in lines that fit.
    pub fn paragraph(self, text: &str) -> String {
        let mut grid = self.grid();
        grid.add_row([self.text(text)]);
        lines(&mut grid, (0, 0))
    }

    fn cell(self, cell: &Cell) -> String {
        let mark = if cell.kind == Kind::Noisy { " ~" } else { "" };
        format!("{}{mark}", self.text(&cell.text))
    }

    fn text(self, text: &str) -> String {
        let text = plain(text);
        if self.utf8 { text } else { in_ascii(&text) }
    }

    /// A table without any frame, a line below its head.
    pub fn grid(self) -> comfy_table::Table {
        let line = if self.utf8 { '─' } else { '-' };
        let mut grid = comfy_table::Table::new();
        grid.load_style(TableStyle::new().header_separator(LineStyle::none().fill(line).junction(line)));
        grid.set_content_arrangement(ContentArrangement::Dynamic);
        grid.set_width(u16::try_from(self.width).unwrap_or(u16::MAX));
        grid.force_no_tty(); // no colours: the locale and the width were looked at already
        grid
    }
}

/// The lines of a table without blanks at their ends; every column counts on a narrow terminal.
pub fn lines(grid: &mut comfy_table::Table, padding: (u16, u16)) -> String {
    for column in grid.column_iter_mut() {
        column.set_padding(padding);
    }
    grid.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Text for terminals that know nothing but ASCII.
fn in_ascii(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, letter| {
        match letter {
            '–' | '−' => shown.push('-'),
            'µ' => shown.push('u'),
            '±' => shown.push_str("+-"),
            '×' => shown.push('x'),
            '…' => shown.push_str("..."),
            '“' | '”' => shown.push('"'),
            letter if letter.is_ascii() => shown.push(letter),
            letter => shown.extend(letter.escape_default()),
        }
        shown
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: On a terminal no figure is broken, and empty columns are left out.
    #[test]
    fn no_figure_is_broken_and_empty_columns_are_left_out() {
        let mut table = Table::new("Sends.", &["path", "#lent", "#µs each"]);
        table.row([Cell::code("loan:lend:unaligned"), Cell::plain(""), Cell::plain("1")]);
        table.row([Cell::code("loan:copy"), Cell::plain(NOTHING), Cell::new("9,999", Kind::Noisy)]);
        for width in [10, 80] {
            let text = Terminal { width, utf8: false }.table(&table);
            assert!(text.contains("9,999 ~") && !text.contains("lent"), "{text}");
            assert!(text.contains("loan:lend:unaligned") && text.is_ascii(), "{text}");
        }
    }

    #[test]
    fn words_break_between_lines_and_code_has_no_backticks() {
        let text = "what the paths of `wirepath serve` cost is kept in /var/cache/wirepath/calibration.json";
        let lines = Terminal { width: 40, utf8: true }.paragraph(text);
        assert!(lines.lines().all(|line| line.len() <= 40) && !lines.contains('`'), "{lines}");
    }

    #[test]
    fn text_can_be_ascii() {
        assert_eq!(in_ascii("±2 % – 5 µs\n−1"), "+-2 % - 5 us\n-1");
        assert!(in_ascii("é\u{202e}…").is_ascii());
    }
}
