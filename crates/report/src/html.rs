//! A document as one page of HTML that needs nothing else: no network, no script.

use askama::Template;

use crate::document::{Block, Document};
use crate::inline::spans;
use crate::number::visible;

#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    document: Document,
}

impl Page {
    /// Numbers figures and tables through the page, as in a paper, and names plots for references inside it.
    fn new(mut document: Document) -> Page {
        let (mut figures, mut tables) = (0, 0);
        let sections = std::iter::once(&mut document.summary).chain(&mut document.sections);
        for block in sections.flat_map(|section| &mut section.blocks) {
            match block {
                Block::Figure(figure) => {
                    figures += 1;
                    figure.caption = format!("Figure {figures}. {}", figure.caption);
                    for (index, panel) in figure.panels.iter_mut().enumerate() {
                        panel.scene.id = format!("f{figures}-{index}");
                    }
                }
                Block::Table(table) => {
                    tables += 1;
                    table.id = format!("t{tables}");
                    table.caption = format!("Table {tables}. {}", table.caption);
                }
                Block::Paragraph(_) => {}
            }
        }
        Page { document }
    }
}

/// Renders the document as one self-contained page.
///
/// # Errors
/// If memory for it cannot be had.
pub fn html(document: Document) -> Result<String, askama::Error> {
    Page::new(document).render()
}
