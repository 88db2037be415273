//! A row for each path, a mark for each size, on a logarithmic axis.

use super::legend::{Look, legend};
use super::scale::{Axis, Scale, Unit};
use super::scene::{Anchor, Item, Scene, WIDTH, shortened, width_of_code};

/// Height of a mark's line within its row.
const LINE: f64 = 9.0;

/// Room between rows.
const GAP: f64 = 7.0;

/// Most letters of a path's name.
const LETTERS: usize = 18;

/// Dot plot.
pub struct Dots<'a> {
    /// Title, in one line.
    pub title: &'a str,
    /// Title of the axis, with the unit.
    pub axis: &'a str,
    /// Names of the series, one for each size.
    pub series: &'a [String],
    /// The paths, from above.
    pub rows: &'a [DotRow],
    /// True if there is a line at 1, which is what all is relative to.
    pub relative: bool,
}

/// A path, as high as it has figures in any plot of the same paths, so that plots side by side line up.
pub struct DotRow {
    /// Its name.
    pub name: String,
    /// Its figures, in the same places in every plot of it.
    pub dots: Vec<Option<Dot>>,
}

/// A figure and its range.
pub struct Dot {
    /// The place of its size among the series.
    pub series: usize,
    /// Position on the axis.
    pub value: f64,
    /// The least and the greatest run.
    pub range: (f64, f64),
    /// True if it is not to be relied on, and drawn hollow.
    pub noisy: bool,
    /// Cost of a bare C loop.
    pub bare: Option<f64>,
}

impl Dots<'_> {
    /// The plot; nothing where no figure has a place.
    pub fn scene(&self) -> Option<Scene> {
        let letters = self.rows.iter().map(|row| width_of_code(&shortened(&row.name, LETTERS)));
        let left = letters.fold(0.0, f64::max) + 8.0;
        let figures = self.rows.iter().flat_map(|row| row.dots.iter().flatten());
        let values =
            figures.flat_map(|dot| [dot.value, dot.range.0, dot.range.1].into_iter().chain(dot.bare));
        let one = self.relative.then_some(1.0);
        let scale = Scale::of(Axis::Logarithmic, Unit::Plain, values.chain(one), (left, WIDTH - 8.0))?;
        let mut scene = Scene::new(self.title, self.description());
        let names: Vec<&str> = self.series.iter().map(String::as_str).collect();
        let top = legend(&mut scene, Look::Marks, &names) + 4.0;
        let bottom = self.rows.iter().fold(top, |y, row| y + height(row));
        self.bands(&mut scene, top);
        self.axis(&mut scene, &scale, top, bottom);
        let mut y = top;
        for row in self.rows {
            self.row(&mut scene, &scale, row, y);
            y += height(row);
        }
        scene.height = bottom + 37.0;
        Some(scene)
    }

    /// A shade behind every other row.
    fn bands(&self, scene: &mut Scene, top: f64) {
        let mut y = top;
        for (index, row) in self.rows.iter().enumerate() {
            let (height, class, hint) = (height(row), "band".to_owned(), String::new());
            if index % 2 == 1 {
                scene.items.push(Item::Block { x: 0.0, y, width: WIDTH, height, class, hint });
            }
            y += height;
        }
    }

    fn axis(&self, scene: &mut Scene, scale: &Scale, top: f64, bottom: f64) {
        for tick in scale.ticks(false) {
            scene.rule((tick.place, top), (tick.place, bottom + 3.0), "grid");
            scene.text((tick.place, bottom + 15.0), Anchor::Middle, "label", &tick.text);
        }
        if let Some(place) = scale.place(1.0).filter(|_| self.relative) {
            scene.rule((place, top), (place, bottom), "reference");
        }
        scene.text((WIDTH - 8.0, bottom + 31.0), Anchor::End, "label title", self.axis);
    }

    fn row(&self, scene: &mut Scene, scale: &Scale, row: &DotRow, top: f64) {
        let middle = top + height(row) / 2.0;
        scene.text((2.0, middle + 4.0), Anchor::Start, "label code", &shortened(&row.name, LETTERS));
        for (index, dot) in row.dots.iter().enumerate() {
            let Some(dot) = dot else { continue };
            let y = top + GAP / 2.0 + LINE * (index as f64 + 0.5);
            if let (Some(least), Some(most)) = (scale.place(dot.range.0), scale.place(dot.range.1)) {
                scene.rule((least, y), (most, y), "range");
            }
            if let Some(x) = dot.bare.and_then(|bare| scale.place(bare)) {
                scene.rule((x, y - 4.5), (x, y + 4.5), "bare");
            }
            if let Some(x) = scale.place(dot.value) {
                scene.mark(dot.series, (x, y), dot.noisy, &self.hint(row, dot));
            }
        }
    }

    fn hint(&self, row: &DotRow, dot: &Dot) -> String {
        let series = self.series.get(dot.series).map_or("", String::as_str);
        let noisy = if dot.noisy { ", noisy" } else { "" };
        format!("{}, {series}: {}{noisy}", row.name, crate::number::significant(dot.value))
    }

    fn description(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let dots = row.dots.iter().flatten().map(|dot| {
                let series = self.series.get(dot.series).map_or("", String::as_str);
                format!("{series} {}", crate::number::significant(dot.value))
            });
            format!("{}: {}", row.name, dots.collect::<Vec<_>>().join(", "))
        });
        format!("{}. {}.", self.axis, rows.collect::<Vec<_>>().join("; "))
    }
}

fn height(row: &DotRow) -> f64 {
    LINE * row.dots.len().max(1) as f64 + GAP
}
