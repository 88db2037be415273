//! Tables of figures, none of which is broken.

use comfy_table::{CellAlignment, ColumnConstraint};

use crate::table::{lines, new_table};

/// A column of figures: its head, and a cell for each row.
pub(super) struct Column {
    pub(super) head: &'static str,
    pub(super) cells: Vec<String>,
}

/// The table of those columns that hold anything. Where they do not fit `width`, the table is wider: a terminal that breaks lines
/// breaks them seen, and a figure in two pieces is read as two.
pub(super) fn table(columns: Vec<Column>, width: usize, utf8: bool) -> String {
    let holds = |column: &Column| column.cells.iter().any(|cell| !cell.is_empty());
    let columns: Vec<Column> = columns.into_iter().filter(holds).collect();
    let rows = columns.iter().map(|column| column.cells.len()).max().unwrap_or_default();
    let mut table = new_table(width, utf8);
    table.set_header(columns.iter().map(|column| column.head));
    table.add_rows((0..rows).map(|row| {
        let cell = move |column: &Column| column.cells.get(row).cloned().unwrap_or_default();
        columns.iter().map(cell).collect::<Vec<_>>()
    }));
    for column in table.column_iter_mut() {
        column.set_constraint(ColumnConstraint::ContentWidth).set_cell_alignment(CellAlignment::Right);
    }
    lines(&mut table)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Tables fit 80 columns without broken figures, and omit empty columns.
    #[test]
    fn no_figure_is_broken_and_empty_columns_are_left_out() {
        let column = |head, cells: [&str; 2]| Column { head, cells: cells.map(str::to_owned).to_vec() };
        let columns = || {
            vec![
                column("bytes", ["64", "1,048,576"]),
                column("lent", ["", ""]),
                column("us", ["1", "~9,999"]),
            ]
        };
        for width in [10, 80] {
            let text = table(columns(), width, false);
            assert!(text.ends_with(" 1,048,576  ~9,999\n") && !text.contains("lent"), "{text}");
        }
    }
}
