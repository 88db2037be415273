//! Documents of prose, tables and plots, rendered for terminals, as HTML, as Markdown, and as CSV.
//!
//! All text is taken for hostile: a renderer shows it as it is, and it commands nothing.

mod csv;
mod document;
mod html;
mod inline;
mod markdown;
pub mod number;
pub mod plot;
mod table;
pub mod terminal;

pub use self::csv::csv;
pub use document::{Block, Document, Figure, Panel, Section};
pub use html::html;
pub use markdown::{escaped, markdown, table as markdown_table};
pub use table::{Cell, Column, Detail, Kind, Table};
