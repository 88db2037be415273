//! Documents and tables for a terminal.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, TableStyle, Width};
use unicode_width::UnicodeWidthStr;

use crate::document::{Block, Document};
use crate::inline::plain;
use crate::number::NOTHING;
use crate::table::{Cell, Column, Detail, Kind, Table};

/// Width up to which the cells of a column of words are not broken.
const SHORT: usize = 16;

/// Blanks between two columns, besides the one in front of each.
const GAP: usize = 1;

/// Width up to which words in a table are not broken; half of a wider terminal.
const LONG_WORD: usize = 24;

/// Explanation of the mark of figures that are not to be relied on.
const NOISY_NOTE: &str = "~ marks figures that are not reliable, since the runs differ.";

/// Abilities of a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// Columns of its lines.
    pub width: usize,
    /// True if it has letters beyond ASCII.
    pub utf8: bool,
}

/// A column of a table as text.
struct TextColumn {
    head: String,
    cells: Vec<String>,
    figures: bool,
    /// Its least width, with the blank in front of it.
    least: usize,
}

impl Terminal {
    /// A document without plots and raw tables, its summary last: the end of a long text is what is seen.
    pub fn document(self, document: &Document) -> String {
        let (summary, others): (Vec<_>, Vec<_>) =
            document.sections().partition(|section| section.id == document.summary.id);
        let mut parts: Vec<String> = others.into_iter().map(|section| self.blocks(&section.blocks)).collect();
        parts.extend(document.warnings.iter().map(|warning| self.paragraph(warning)));
        parts.extend(summary.into_iter().map(|section| self.blocks(&section.blocks)));
        let tables = document.sections().flat_map(|section| &section.blocks).filter_map(shown_table);
        if tables.flat_map(|table| table.rows.iter().flatten()).any(|cell| cell.kind == Kind::Noisy) {
            parts.push(self.paragraph(NOISY_NOTE));
        }
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }

    fn blocks(self, blocks: &[Block]) -> String {
        let shown = blocks.iter().filter_map(|block| match block {
            Block::Paragraph(text) => Some(self.paragraph(text)),
            block => shown_table(block).map(|table| self.table(table)),
        });
        shown.collect::<Vec<_>>().join("\n")
    }

    /// A table below its caption, without columns that hold nothing. Figures that are not to be relied on end
    /// with a tilde. A table that is too wide becomes several below each other, which repeat the columns that
    /// name the rows. Figures are never broken: one that is wider than the terminal makes a wider line.
    pub fn table(self, table: &Table) -> String {
        let holds = |index: &usize| {
            let mut cells = table.rows.iter().map(|row| &row[*index]);
            *index == 0 || cells.any(|cell| !cell.text.is_empty() && cell.text != NOTHING)
        };
        let columns = (0..table.columns.len()).filter(holds);
        let columns: Vec<TextColumn> = columns.map(|index| self.text_column(table, index)).collect();
        let grids: Vec<String> =
            side_by_side(&columns, self.width).iter().map(|group| self.block(group)).collect();
        let notes: String = table.notes.iter().map(|note| self.paragraph(note)).collect();
        format!("{}{}{notes}", self.paragraph(&table.caption), grids.join("\n"))
    }

    /// A column with its text and its least width.
    fn text_column(self, table: &Table, index: usize) -> TextColumn {
        let Column { head, figures } = &table.columns[index];
        let head = self.text(head);
        let cells: Vec<String> = table.rows.iter().map(|row| self.cell(&row[index])).collect();
        let unbroken = LONG_WORD.max((self.width / 2).saturating_sub(1 + GAP));
        let longest_word = |text: &String| text.split(' ').map(UnicodeWidthStr::width).max().unwrap_or(0);
        let widest = cells.iter().map(|cell| cell.width()).max().unwrap_or(0);
        let least = match (*figures, widest) {
            (true, _) | (false, ..=SHORT) => widest,
            (false, _) => cells.iter().map(longest_word).max().unwrap_or(0).min(unbroken),
        };
        let least = least.max(longest_word(&head).min(unbroken)) + 1;
        TextColumn { head, cells, figures: *figures, least }
    }

    /// Columns beside each other.
    fn block(self, columns: &[&TextColumn]) -> String {
        let mut grid = self.grid();
        if columns.iter().any(|column| !column.head.is_empty()) {
            grid.set_header(columns.iter().map(|column| &column.head));
        }
        let rows = columns.first().map_or(0, |column| column.cells.len());
        grid.add_rows((0..rows).map(|row| columns.iter().map(move |column| &column.cells[row])));
        for (column, text) in grid.column_iter_mut().zip(columns) {
            if text.figures {
                column.set_cell_alignment(CellAlignment::Right);
            }
            let least = Width::Fixed(u16::try_from(text.least).unwrap_or(u16::MAX));
            column.set_constraint(ColumnConstraint::LowerBoundary(least));
        }
        lines(&mut grid, (1, 0))
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

/// The table of a block, if terminals show it.
fn shown_table(block: &Block) -> Option<&Table> {
    match block {
        Block::Table(table) if matches!(table.detail, Detail::Main | Detail::Full) => Some(table),
        _ => None,
    }
}

/// Groups of columns that fit beside each other, each with the columns that name the rows: those in front of
/// the figures that take no more than half of the width, but at least one. As few groups as possible, of
/// about the same width.
fn side_by_side(columns: &[TextColumn], width: usize) -> Vec<Vec<&TextColumn>> {
    let is_name = |count: &usize| {
        let names = &columns[..*count];
        !names.iter().any(|column| column.figures) && least_width(names) <= width / 2
    };
    let names = (1..=columns.len()).take_while(is_name).last().unwrap_or(1).min(columns.len());
    let (names, others) = columns.split_at(names);
    let fewest = groups(names, others, width);
    let narrower = (0..width).map(|width| groups(names, others, width));
    narrower.into_iter().find(|groups| groups.len() == fewest.len()).unwrap_or(fewest)
}

/// Groups of the other columns that fit such a width behind the names of rows, one column at least in each.
fn groups<'a>(names: &'a [TextColumn], others: &'a [TextColumn], width: usize) -> Vec<Vec<&'a TextColumn>> {
    let mut groups: Vec<Vec<&TextColumn>> = vec![names.iter().collect()];
    for column in others {
        let group = groups.last_mut().expect("there is one");
        if group.len() > names.len() && least_width(group.iter().copied().chain([column])) > width {
            groups.push(names.iter().chain([column]).collect());
        } else {
            group.push(column);
        }
    }
    groups
}

/// The least width of columns beside each other.
fn least_width<'a>(columns: impl IntoIterator<Item = &'a TextColumn>) -> usize {
    let width: usize = columns.into_iter().map(|column| column.least + GAP).sum();
    width.saturating_sub(GAP)
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

    /// Promise: On a terminal no figure is split over two lines, and empty columns are left out.
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

    /// Promise: On a terminal no figure is split over two lines, and empty columns are left out.
    #[test]
    fn a_wide_table_is_several_that_repeat_the_names_of_rows() {
        let heads = ["path", "size", "#first figure", "#second figure", "#third figure", "#fourth figure"];
        let mut table = Table::new("Sends.", &heads);
        let row = |path: &str| {
            let figures = ["1,000,001", "2,000,002", "3,000,003", "4,000,004"].map(Cell::plain);
            [Cell::code(path), Cell::plain("1,460 B")].into_iter().chain(figures)
        };
        table.row(row("sendfile"));
        table.row(row("漢字漢字"));
        let text = Terminal { width: 40, utf8: true }.table(&table);
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let found = |words_of: &[&str]| words.iter().filter(|words| *words == words_of).count();
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
        for path in ["sendfile", "漢字漢字"] {
            assert_eq!(found(&[path, "1,460", "B", "1,000,001", "2,000,002"]), 1, "{text}");
            assert_eq!(found(&[path, "1,460", "B", "3,000,003", "4,000,004"]), 1, "{text}");
        }
        let wide = Terminal { width: 80, utf8: true }.table(&table);
        assert_eq!(wide.matches("sendfile").count(), 1, "{wide}");
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
