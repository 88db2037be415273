//! A result for people: a page, Markdown, a table of every run, figures for the documentation.
//!
//! All text of a result is taken for hostile: whoever shows it, it is shown as it is and commands nothing.

mod csv;
mod docs;
mod document;
pub(crate) mod number;
mod page;
mod papers;
mod plot;
mod sections;
mod table;

pub use self::csv::csv;
pub use docs::{FillError, fill};
pub use page::html;
pub use table::{Cell, Column, Kind, Table, in_ascii};

use crate::result::{Assessment, RelayCost};
use document::Part;

/// The report as Markdown: all tables, without the plots.
pub fn markdown(assessment: &Assessment) -> String {
    let document = sections::document(assessment);
    let mut text = format!("# {}\n\n", document.title);
    for fact in &document.facts {
        text += &format!("- {}\n", table::escaped(&number::visible(fact)));
    }
    for warning in &document.warnings {
        text += &format!("\n> {}\n", table::escaped(&number::visible(warning)));
    }
    for section in &document.sections {
        text += &format!("\n## {}\n", table::escaped(&number::visible(&section.title)));
        for part in &section.parts {
            match part {
                Part::Paragraph(paragraph) => {
                    text += &format!("\n{}\n", table::escaped(&number::visible(paragraph)))
                }
                Part::Table(table) => {
                    text += &format!("\n{}\n\n{}", table::escaped(&table.caption), table.markdown())
                }
                Part::Figure(_) => {}
            }
        }
    }
    text
}

/// Kernel calls and copies of the papers' paths, counted, beside the papers' own figures.
pub use crate::count::tables as counted_tables;

/// What moving data from sources to sinks costs, part by part, and the targets that the stream service is held to.
pub fn relay_tables(costs: &[RelayCost]) -> Vec<Table> {
    sections::relay(costs)
}

#[cfg(test)]
mod tests;
