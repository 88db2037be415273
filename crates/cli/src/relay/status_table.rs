//! Status of streams on the terminal: a table that is redrawn, with messages above it. Without a terminal,
//! only the messages are printed.

mod rows;

use std::io::{IsTerminal, Write};

use wirepath_relay::{GroupEvent, Observer, StreamSnapshot};

use super::messages;
use super::ready::Ready;
use crate::terminal;

/// Status table on standard error, if that is a terminal.
pub(super) struct StatusTable {
    is_terminal: bool,
    /// True if the streams have names, which then begin each message.
    named: bool,
    /// The table as last drawn. The cursor is on the line below it.
    drawn: String,
    ready: Option<Ready>,
}

impl StatusTable {
    /// Status table. `ready` announces the streams, if they are to be announced.
    pub(super) fn new(named: bool, ready: Option<Ready>) -> StatusTable {
        StatusTable { is_terminal: std::io::stderr().is_terminal(), named, drawn: String::new(), ready }
    }

    /// Prints a message above the table.
    pub(super) fn print(&mut self, message: &str) {
        let table = std::mem::take(&mut self.drawn);
        self.draw(&table, &format!("{message}\n"), table.clone());
    }

    /// Prints a line on standard output. If this is the same terminal, the line also appears above the table.
    fn announce(&mut self, line: &str) {
        let table = std::mem::take(&mut self.drawn);
        self.draw(&table, "", String::new());
        let printed = terminal::print(&format!("{line}\n"));
        self.draw("", "", table);
        if let Err(error) = printed {
            // The reader of standard output has closed it and does not wait for the line; the streams
            // continue.
            self.print(&format!("wirepath: {error:#}"));
        }
    }

    fn draw(&mut self, previous: &str, messages: &str, table: String) {
        let clearing = clear(previous, terminal::error_size().0);
        // Writing to a closed terminal fails; the report is written nevertheless.
        drop(std::io::stderr().write_all(format!("{clearing}{messages}{table}").as_bytes()));
        self.drawn = table;
    }
}

impl Observer for StatusTable {
    fn event(&mut self, stream: &StreamSnapshot, event: &GroupEvent) {
        let name = self.named.then_some(stream.name.as_str());
        if let Some(message) = messages::event(stream, event, name) {
            self.print(&message);
        }
        if let Some(line) = self.ready.as_mut().and_then(|ready| ready.note(stream, event)) {
            self.announce(&line);
        }
    }

    fn wants_samples(&self) -> bool {
        self.is_terminal
    }

    fn sample(&mut self, streams: &[StreamSnapshot]) {
        if self.is_terminal {
            let (width, height) = terminal::error_size();
            let table = rows::render(streams, width, height, terminal::supports_utf8());
            let previous = std::mem::take(&mut self.drawn);
            self.draw(&previous, "", table);
        }
    }
}

impl Drop for StatusTable {
    /// Clears the table. The messages stay.
    fn drop(&mut self) {
        let previous = std::mem::take(&mut self.drawn);
        self.draw(&previous, "", String::new());
    }
}

/// Escape sequence that clears a table above the cursor, on a terminal `width` columns wide. If the terminal
/// was made narrower since, it has wrapped the lines of the table, which then takes more lines than were
/// drawn.
fn clear(table: &str, width: usize) -> String {
    let lines: usize = table.lines().map(|line| line.chars().count().div_ceil(width).max(1)).sum();
    if lines == 0 { String::new() } else { format!("\x1b[{lines}A\r\x1b[J") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: The table of streams keeps the order of its rows and survives a resize of the terminal.
    #[test]
    fn a_narrower_terminal_has_wrapped_the_table() {
        let table = "123456\n\n1234567\n";
        assert_eq!(clear(table, 80), "\x1b[3A\r\x1b[J");
        assert_eq!(clear(table, 6), "\x1b[4A\r\x1b[J");
        assert_eq!(clear("", 80), "");
    }
}
