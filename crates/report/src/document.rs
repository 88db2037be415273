//! The document model that all renderers share.

use crate::plot::Scene;
use crate::table::Table;

/// A document.
pub struct Document {
    /// Its title.
    pub title: String,
    /// Machine, kernel, date, program: a line each.
    pub facts: Vec<String>,
    /// Warnings that stand before everything else.
    pub warnings: Vec<String>,
    /// The first section; on a terminal, whose end is what is seen, the last.
    pub summary: Section,
    /// All other sections, in order.
    pub sections: Vec<Section>,
}

/// A part with a heading.
pub struct Section {
    /// Anchor of links to it.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// Its content, in order.
    pub blocks: Vec<Block>,
}

/// A block of a section. Text between backticks is code.
pub enum Block {
    /// Prose.
    Paragraph(String),
    /// Plots.
    Figure(Figure),
    /// A table.
    Table(Table),
}

/// One or more plots that are read together.
pub struct Figure {
    /// Sentences: what it shows, and after which figure of the papers.
    pub caption: String,
    /// Its plots.
    pub panels: Vec<Panel>,
}

/// One plot.
pub struct Panel {
    /// Empty where the figure has but one.
    pub title: String,
    /// Its scene.
    pub scene: Scene,
}

impl Document {
    /// All sections with content, the summary first.
    pub fn sections(&self) -> impl DoubleEndedIterator<Item = &Section> {
        std::iter::once(&self.summary).chain(&self.sections).filter(|section| !section.blocks.is_empty())
    }
}

impl Section {
    /// An empty section.
    pub fn new(id: impl Into<String>, title: impl Into<String>) -> Section {
        Section { id: id.into(), title: title.into(), blocks: Vec::new() }
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Paragraph(text.into()));
    }

    /// Adds a table, unless it is empty.
    pub fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.blocks.push(Block::Table(table));
        }
    }

    /// Adds a figure, unless it is empty.
    pub fn figure(&mut self, caption: impl Into<String>, panels: Vec<Panel>) {
        if !panels.is_empty() {
            self.blocks.push(Block::Figure(Figure { caption: caption.into(), panels }));
        }
    }

    /// Its tables.
    pub fn into_tables(self) -> impl Iterator<Item = Table> {
        self.blocks.into_iter().filter_map(|block| match block {
            Block::Table(table) => Some(table),
            Block::Paragraph(_) | Block::Figure(_) => None,
        })
    }
}
