//! Terminals: their size and character set.

use std::io::{self, IsTerminal, Write};

use anyhow::{Context, Result};
use rustix::termios::tcgetwinsize;
use wirepath_report::terminal::Terminal;

const DEFAULT_WIDTH: u16 = 80;
const DEFAULT_HEIGHT: u16 = 24;

/// Minimum width of layouts. A narrower terminal wraps lines.
const MIN_WIDTH: u16 = 40;

/// Columns of standard output: the width of the terminal, else `COLUMNS`, else 80.
fn width() -> u16 {
    let output = io::stdout();
    let of_terminal = if output.is_terminal() { tcgetwinsize(&output).ok() } else { None };
    let columns = of_terminal.map(|size| size.ws_col).filter(|columns| *columns > 0);
    let stated = || std::env::var("COLUMNS").ok()?.parse().ok();
    columns.or_else(stated).unwrap_or(DEFAULT_WIDTH).max(MIN_WIDTH)
}

/// Columns and lines of the terminal on standard error; 80 by 24 if unknown.
pub(crate) fn error_size() -> (usize, usize) {
    let size = tcgetwinsize(io::stderr()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    let (columns, lines) = size.map_or((DEFAULT_WIDTH, DEFAULT_HEIGHT), |size| (size.ws_col, size.ws_row));
    (usize::from(columns.max(MIN_WIDTH)), usize::from(lines))
}

/// Returns whether the locale is UTF-8, by the first of these variables that is set (POSIX section 8.2).
pub(crate) fn supports_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(|name| std::env::var(name).ok());
    is_utf8(locale.into_iter().find(|value| !value.is_empty()).as_deref())
}

/// Standard error, for messages.
pub(crate) fn error_output() -> Terminal {
    Terminal { width: error_size().0, utf8: supports_utf8() }
}

/// Standard output, for reports.
pub(crate) fn output() -> Terminal {
    Terminal { width: width().into(), utf8: supports_utf8() }
}

/// Prints on standard output, and flushes.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).context("cannot write to standard output")
}

fn is_utf8(locale: Option<&str>) -> bool {
    let codeset =
        locale.and_then(|locale| locale.split_once('.')).map(|(_, codeset)| codeset.to_ascii_lowercase());
    codeset.is_some_and(|codeset| codeset.starts_with("utf-8") || codeset.starts_with("utf8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: The plot of the bit rate fits its width, and is ASCII if the locale is not UTF-8.
    #[test]
    fn the_locale_says_which_letters_there_are() {
        for locale in ["en_GB.UTF-8", "C.utf8", "de_DE.UTF-8@euro"] {
            assert!(is_utf8(Some(locale)), "{locale}");
        }
        for locale in [None, Some("C"), Some("POSIX"), Some("de_DE.ISO-8859-1")] {
            assert!(!is_utf8(locale), "{locale:?}");
        }
    }
}
