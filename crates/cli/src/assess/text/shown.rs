//! Tables of reports, on a terminal.

use comfy_table::CellAlignment;
use wirepath_assess::report::{Cell, Kind, Table};

use crate::table::{lines, new_table, section};

/// A table for a terminal. A figure that is not to be relied on says so without colours.
pub(in crate::assess) fn shown(table: &Table, width: usize, utf8: bool) -> String {
    let mut grid = new_table(width, utf8);
    grid.set_header(table.columns.iter().map(|column| column.head.as_str()));
    for row in &table.rows {
        let noisy = |cell: &Cell| if cell.kind == Kind::Noisy { " ~" } else { "" };
        grid.add_row(row.iter().map(|cell| format!("{}{}", cell.text, noisy(cell))));
    }
    for (column, shown) in table.columns.iter().zip(grid.column_iter_mut()) {
        if column.figures {
            shown.set_cell_alignment(CellAlignment::Right);
        }
    }
    let notes: String = table.notes.iter().map(|note| format!("{note}\n")).collect();
    section(&table.caption, &lines(&mut grid)) + &notes
}
