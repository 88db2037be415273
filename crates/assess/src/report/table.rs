//! A table, before it is HTML, Markdown or text.

use super::number::{NOTHING, visible};

/// A table with a caption and a head.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What it shows, as a sentence.
    pub caption: String,
    /// Its columns. The first one names the rows.
    pub columns: Vec<Column>,
    /// Its rows, each as long as there are columns.
    pub rows: Vec<Vec<Cell>>,
    /// What has to be known to read it.
    pub notes: Vec<String>,
    /// For references inside a page; given by whoever puts the table there.
    pub(crate) id: String,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its head, with the unit.
    pub head: String,
    /// Whether it holds figures, which stand to the right.
    pub figures: bool,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// What kind of thing it says.
    pub kind: Kind,
}

/// What a cell says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Words or a figure.
    Plain,
    /// A name that a program has: a path, a function, a setting.
    Code,
    /// A figure that is not to be relied on.
    Noisy,
    /// Something that went right.
    Good,
    /// Something that went wrong.
    Bad,
    /// The same name as in the row above.
    Again,
}

impl Kind {
    /// The name of its class in HTML.
    pub fn class(self) -> &'static str {
        match self {
            Kind::Plain => "",
            Kind::Code => "code",
            Kind::Noisy => "noisy",
            Kind::Good => "good",
            Kind::Bad => "bad",
            Kind::Again => "code again",
        }
    }
}

impl Cell {
    /// A cell of a kind. Whoever wrote the text: it commands no terminal.
    pub fn new(text: impl AsRef<str>, kind: Kind) -> Cell {
        Cell { text: visible(text.as_ref()), kind }
    }

    /// A cell of words or of a figure.
    pub fn plain(text: impl AsRef<str>) -> Cell {
        Cell::new(text, Kind::Plain)
    }

    /// A cell with a name.
    pub fn code(text: impl AsRef<str>) -> Cell {
        Cell::new(text, Kind::Code)
    }

    /// Whether it should not be broken.
    pub(crate) fn is_short(&self) -> bool {
        self.text.len() <= 16
    }

    /// A figure, or a dash where there is none.
    pub fn figure<T>(value: Option<T>, format: impl FnOnce(T) -> String) -> Cell {
        Cell::plain(value.map_or_else(|| NOTHING.to_owned(), format))
    }
}

impl Table {
    /// An empty one whose columns after the first hold figures.
    pub(crate) fn with_figures(
        caption: impl AsRef<str>,
        first: &str,
        heads: impl Iterator<Item = String>,
    ) -> Table {
        let heads: Vec<String> = heads.map(|head| format!("#{head}")).collect();
        let heads: Vec<&str> = std::iter::once(first).chain(heads.iter().map(String::as_str)).collect();
        Table::new(caption, &heads)
    }

    /// An empty one. Heads that begin with `#` are those of columns of figures.
    pub fn new(caption: impl AsRef<str>, heads: &[&str]) -> Table {
        let column = |head: &&str| match head.strip_prefix('#') {
            Some(head) => Column { head: visible(head), figures: true },
            None => Column { head: visible(head), figures: false },
        };
        let columns = heads.iter().map(column).collect();
        Table {
            caption: visible(caption.as_ref()),
            columns,
            rows: Vec::new(),
            notes: Vec::new(),
            id: String::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().collect();
        debug_assert_eq!(row.len(), self.columns.len(), "{}", self.caption);
        row.resize_with(self.columns.len(), || Cell::plain(""));
        self.rows.push(row);
    }

    /// As GitHub's Markdown has tables.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.columns.iter().map(|column| escaped(&column.head)).collect());
        let rule = |column: &Column| if column.figures { "---:" } else { "---" }.to_owned();
        text += &line(self.columns.iter().map(rule).collect());
        for row in &self.rows {
            text += &line(row.iter().map(in_markdown).collect());
        }
        for note in &self.notes {
            text += &format!("\n{}\n", escaped(note));
        }
        text
    }
}

fn in_markdown(cell: &Cell) -> String {
    match cell.kind {
        // Nothing ends a code span but a backtick, and a cell but a bar.
        Kind::Code if !cell.text.contains(['`', '|']) && !cell.text.is_empty() => format!("`{}`", cell.text),
        Kind::Noisy => format!("*{}*", escaped(&cell.text)),
        _ => escaped(&cell.text),
    }
}

/// Text that Markdown takes for nothing but text.
pub(crate) fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, letter| {
        if "\\`*_[]<>|&#~!".contains(letter) {
            shown.push('\\');
        }
        shown.push(letter);
        shown
    })
}

/// Text of tables for terminals that know nothing but ASCII.
pub fn in_ascii(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, letter| {
        match letter {
            '–' | '−' => shown.push('-'),
            'µ' => shown.push('u'),
            '±' => shown.push_str("+-"),
            '×' => shown.push('x'),
            '…' => shown.push_str("..."),
            letter if letter.is_ascii() => shown.push(letter),
            letter => shown.extend(letter.escape_default()),
        }
        shown
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hostile() -> Table {
        let mut table = Table::new("Paths", &["path", "#s/GiB"]);
        table.row([Cell::code("a|b`<script>"), Cell::new("1.5", Kind::Noisy)]);
        table.row([Cell::code("plain"), Cell::figure(None::<f64>, |_| String::new())]);
        table
    }

    #[test]
    fn markdown_takes_hostile_text_for_text() {
        let expected =
            "| path | s/GiB |\n| --- | ---: |\n| a\\|b\\`\\<script\\> | *1.5* |\n| `plain` | – |\n";
        assert_eq!(hostile().markdown(), expected);
    }

    #[test]
    fn text_can_be_ascii() {
        assert_eq!(in_ascii("±2 % – 5 µs\n−1"), "+-2 % - 5 us\n-1");
        assert!(in_ascii("é\u{202e}…").is_ascii());
    }
}
