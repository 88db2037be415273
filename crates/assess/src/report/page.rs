//! The report as one page that needs nothing else: no network, no script.

use askama::Template;

use super::document::{Document, Part};
use super::number::visible;
use super::sections;
use crate::result::Assessment;

/// The page.
#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    document: Document,
}

impl Page {
    /// Figures and tables are numbered through the page, as in a paper, and plots named for references inside it.
    fn new(mut document: Document) -> Page {
        let (mut figures, mut tables) = (0, 0);
        for part in document.sections.iter_mut().flat_map(|section| &mut section.parts) {
            match part {
                Part::Figure(figure) => {
                    figures += 1;
                    figure.caption = format!("Figure {figures}. {}", figure.caption);
                    for (index, panel) in figure.panels.iter_mut().enumerate() {
                        panel.scene.id = format!("f{figures}-{index}");
                    }
                }
                Part::Table(table) => {
                    tables += 1;
                    table.id = format!("t{tables}");
                    table.caption = format!("Table {tables}. {}", table.caption);
                }
                Part::Paragraph(_) => {}
            }
        }
        Page { document }
    }
}

/// The report as one self-contained page of HTML.
///
/// # Errors
/// If memory for it cannot be had.
pub fn html(assessment: &Assessment) -> Result<String, askama::Error> {
    Page::new(sections::document(assessment)).render()
}
