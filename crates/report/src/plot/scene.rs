//! Items of a plot, and its SVG.

use askama::Template;

use crate::number::visible;

/// Width of every plot.
pub(super) const WIDTH: f64 = 360.0;

/// Width of a letter of the monospaced labels (11.5 units high), a little more than most fonts have.
const CODE_LETTER: f64 = 7.1;

/// Width of a letter of the other labels (11.5 units high): that of figures, a little more than the mean of
/// words.
const LETTER: f64 = 6.7;

/// A finished plot.
#[derive(Template)]
#[template(path = "scene.svg", escape = "html")]
pub struct Scene {
    pub(super) height: f64,
    /// Title, in one line.
    pub(super) title: String,
    /// Description for readers who do not see it.
    pub(super) description: String,
    pub(super) items: Vec<Item>,
    /// Id for references inside the page, given by the renderer.
    pub id: String,
}

/// Element of a scene. Classes are those of the page's style.
pub(super) enum Item {
    Rule { x1: f64, y1: f64, x2: f64, y2: f64, class: &'static str },
    Curve { points: String, class: String },
    Block { x: f64, y: f64, width: f64, height: f64, class: String, hint: String },
    Mark { outline: String, class: String, hint: String },
    Text { x: f64, y: f64, anchor: Anchor, class: &'static str, text: String },
}

/// Alignment of a text at its place.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    /// Name in SVG.
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

impl Scene {
    pub(super) fn new(title: &str, description: String) -> Scene {
        Scene {
            height: 0.0,
            title: visible(title),
            description: visible(&description),
            items: Vec::new(),
            id: String::new(),
        }
    }

    pub(super) fn rule(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &'static str) {
        self.items.push(Item::Rule { x1, y1, x2, y2, class });
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &'static str, text: &str) {
        self.items.push(Item::Text { x, y, anchor, class, text: visible(text) });
    }

    /// A mark of a series, hollow if its figure is not to be relied on.
    pub(super) fn mark(&mut self, series: usize, at: (f64, f64), noisy: bool, hint: &str) {
        let class = format!("mark s{}{}", series % SERIES, if noisy { " hollow" } else { "" });
        self.items.push(Item::Mark { outline: outline(series, at), class, hint: visible(hint) });
    }
}

/// Number of different marks; further series begin again.
pub(super) const SERIES: usize = 6;

/// The outline of a series' mark.
fn outline(series: usize, (x, y): (f64, f64)) -> String {
    let polygon = |corners: &[(f64, f64)]| {
        let corners = corners.iter().map(|(dx, dy)| format!("{:.1} {:.1}", x + dx, y + dy));
        format!("M{}Z", corners.collect::<Vec<_>>().join("L"))
    };
    match series % SERIES {
        0 => format!("M{:.1} {y:.1}a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0Z", x - 3.2),
        1 => polygon(&[(-2.9, -2.9), (2.9, -2.9), (2.9, 2.9), (-2.9, 2.9)]),
        2 => polygon(&[(0.0, -3.8), (3.7, 2.8), (-3.7, 2.8)]),
        3 => polygon(&[(0.0, -4.2), (4.2, 0.0), (0.0, 4.2), (-4.2, 0.0)]),
        4 => polygon(&[(0.0, 3.8), (3.7, -2.8), (-3.7, -2.8)]),
        _ => polygon(&[
            (-1.2, -3.8),
            (1.2, -3.8),
            (1.2, -1.2),
            (3.8, -1.2),
            (3.8, 1.2),
            (1.2, 1.2),
            (1.2, 3.8),
            (-1.2, 3.8),
            (-1.2, 1.2),
            (-3.8, 1.2),
            (-3.8, -1.2),
            (-1.2, -1.2),
        ]),
    }
}

/// About how wide a text is.
pub(super) fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// About how wide a name is.
pub(super) fn width_of_code(text: &str) -> f64 {
    text.chars().count() as f64 * CODE_LETTER
}

/// A name that fits into so many letters.
pub(super) fn shortened(name: &str, letters: usize) -> String {
    let name = visible(name);
    match name.chars().count() > letters {
        true => name.chars().take(letters.saturating_sub(1)).chain(['…']).collect(),
        false => name,
    }
}
