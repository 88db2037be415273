//! Tables of a document.

use crate::number::{NOTHING, visible};

/// A table with a caption and a head.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Caption, as a sentence; text between backticks is code.
    pub caption: String,
    /// Its columns. The first one names the rows.
    pub columns: Vec<Column>,
    /// Its rows, each as long as there are columns.
    pub rows: Vec<Vec<Cell>>,
    /// Explanations for the reader.
    pub notes: Vec<String>,
    /// Level of detail.
    pub detail: Detail,
    /// Anchor of references inside a page, which numbers its tables.
    pub(crate) id: String,
}

/// Level of detail of a table in a document. Markdown has them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Shown everywhere.
    Main,
    /// Shown on pages, and not on a terminal.
    Page,
    /// Shown on a terminal; collapsed in HTML.
    Full,
    /// Not on a terminal; collapsed in HTML.
    Raw,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its head, with the unit.
    pub head: String,
    /// True if it holds figures, which stand to the right.
    pub figures: bool,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Text.
    pub text: String,
    /// Kind of the content.
    pub kind: Kind,
}

/// Kind of a cell's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Words or a figure.
    Plain,
    /// A name that a program has: a path, a function, a setting.
    Code,
    /// A figure that is not to be relied on.
    Noisy,
    /// Success.
    Good,
    /// Failure.
    Bad,
}

impl Detail {
    /// Returns whether a page shows no more than its caption until it is asked for the rest.
    pub(crate) fn is_collapsed(self) -> bool {
        matches!(self, Detail::Full | Detail::Raw)
    }
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
        }
    }
}

impl Cell {
    /// A cell of a kind. Text of any origin: it commands no terminal.
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

    /// Returns whether it should not be broken.
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
    pub fn with_figures(caption: impl AsRef<str>, first: &str, heads: impl Iterator<Item = String>) -> Table {
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
            detail: Detail::Main,
            id: String::new(),
        }
    }

    /// The table, of such detail.
    #[must_use]
    pub fn with_detail(self, detail: Detail) -> Table {
        Table { detail, ..self }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().collect();
        debug_assert_eq!(row.len(), self.columns.len(), "{}", self.caption);
        row.resize_with(self.columns.len(), || Cell::plain(""));
        self.rows.push(row);
    }
}
