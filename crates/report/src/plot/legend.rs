//! Legend of a plot.

use super::scene::{Anchor, Item, SERIES, Scene, WIDTH, width_of};

/// Height of a row of the legend.
const ROW: f64 = 17.0;

/// Look of a series.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Marks alone.
    Marks,
    /// Marks on a line.
    Line,
    /// A filled surface.
    Surface,
}

/// Writes the names of series from the top on, in as many rows as they need, and answers where these end.
pub(super) fn legend(scene: &mut Scene, look: Look, names: &[&str]) -> f64 {
    let sample = if look == Look::Line { 26.0 } else { 12.0 };
    let (mut x, mut y) = (2.0, ROW / 2.0);
    for (series, name) in names.iter().enumerate() {
        let width = sample + 5.0 + width_of(name) + 10.0;
        if x + width > WIDTH && x > 2.0 {
            (x, y) = (2.0, y + ROW);
        }
        let middle = (x + sample / 2.0, y);
        match look {
            Look::Surface => scene.items.push(Item::Block {
                x,
                y: y - 5.0,
                width: sample,
                height: 10.0,
                class: format!("fill f{}", series % SERIES),
                hint: String::new(),
            }),
            Look::Line => {
                let points = format!("{x:.1},{y:.1} {:.1},{y:.1}", x + sample);
                scene.items.push(Item::Curve { points, class: format!("curve s{}", series % SERIES) });
                scene.mark(series, middle, false, name);
            }
            Look::Marks => scene.mark(series, middle, false, name),
        }
        scene.text((x + sample + 5.0, y + 4.0), Anchor::Start, "label", name);
        x += width;
    }
    y + ROW / 2.0
}
