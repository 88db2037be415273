//! What people see of streams while they run: a table that is drawn anew, and lines above it. Where standard error is no terminal,
//! the lines alone.

mod table;

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

use super::row::Row;
use crate::terminal;

/// A terminal, if there is one.
pub(super) struct Board(Option<ProgressBar>);

impl Board {
    /// On standard error.
    pub(super) fn new() -> Board {
        let bar = || {
            let style = ProgressStyle::with_template("{msg}").expect("the template is well formed");
            ProgressBar::new_spinner().with_style(style)
        };
        Board(std::io::stderr().is_terminal().then(bar))
    }

    /// Whether there is somebody to see a table.
    pub(super) fn is_seen(&self) -> bool {
        self.0.is_some()
    }

    /// A line that stays.
    pub(super) fn say(&self, line: &str) {
        match &self.0 {
            Some(bar) => bar.println(line),
            // A terminal that was closed takes nothing more, and the report is to be written all the same.
            None => drop(writeln!(std::io::stderr(), "{line}")),
        }
    }

    /// The table as it is now.
    pub(super) fn show(&self, rows: &[Row]) {
        let Some(bar) = &self.0 else { return };
        let (width, height) = terminal::error_size();
        bar.set_message(table::render(rows, width, height, terminal::speaks_utf8()));
    }
}

impl Drop for Board {
    /// Leaves the lines, and nothing of the table.
    fn drop(&mut self) {
        self.0.iter().for_each(ProgressBar::finish_and_clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_well_formed() {
        Board(Some(ProgressBar::hidden())).show(&[]);
        drop(Board::new());
    }
}
