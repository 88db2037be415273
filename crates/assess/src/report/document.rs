//! A report, before it is HTML or Markdown.

use super::plot::Scene;
use super::table::Table;

/// A report: what is said, in order.
pub(crate) struct Document {
    pub(crate) title: String,
    /// Machine, kernel, date, program: a line each.
    pub(crate) facts: Vec<String>,
    /// What has to be known before anything else is believed.
    pub(crate) warnings: Vec<String>,
    pub(crate) sections: Vec<Section>,
}

/// A part with a heading.
pub(crate) struct Section {
    /// For links to it.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) parts: Vec<Part>,
}

/// What a section is made of.
pub(crate) enum Part {
    Paragraph(String),
    Figure(Figure),
    Table(Table),
}

/// One or more plots that are read together.
pub(crate) struct Figure {
    /// Sentences: what it shows, and after which figure of the papers.
    pub(crate) caption: String,
    pub(crate) panels: Vec<Panel>,
}

/// One plot.
pub(crate) struct Panel {
    /// Empty where the figure has but one.
    pub(crate) title: String,
    pub(crate) scene: Scene,
}

impl Section {
    pub(crate) fn new(id: impl Into<String>, title: impl Into<String>) -> Section {
        Section { id: id.into(), title: title.into(), parts: Vec::new() }
    }

    pub(crate) fn say(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Paragraph(text.into()));
    }

    /// Adds a table, unless it is empty.
    pub(crate) fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.parts.push(Part::Table(table));
        }
    }

    /// Adds a figure, unless it is empty.
    pub(crate) fn figure(&mut self, caption: impl Into<String>, panels: Vec<Panel>) {
        if !panels.is_empty() {
            self.parts.push(Part::Figure(Figure { caption: caption.into(), panels }));
        }
    }
}
