//! Figures by size: marks on lines.

use super::legend::{Look, legend};
use super::scale::{Axis, Scale, Unit};
use super::scene::{Anchor, Item, SERIES, Scene, WIDTH, width_of};
use crate::number;

/// Height of the field.
const HEIGHT: f64 = 190.0;

/// Line plot.
pub struct Lines<'a> {
    /// Title, in one line.
    pub title: &'a str,
    /// Title of the horizontal axis.
    pub x_axis: &'a str,
    /// Unit of the horizontal axis, which is logarithmic.
    pub x_unit: Unit,
    /// Title of the vertical axis.
    pub y_axis: &'a str,
    /// Kind of the vertical axis.
    pub y_kind: Axis,
    /// Unit of the vertical axis.
    pub y_unit: Unit,
    /// The series.
    pub lines: Vec<Line>,
}

/// A series.
pub struct Line {
    /// Its name.
    pub name: String,
    /// By ascending place.
    pub points: Vec<Point>,
}

/// A figure and its range.
pub struct Point {
    /// Place on the horizontal axis.
    pub size: u64,
    /// Position on the vertical axis.
    pub value: f64,
    /// The least and the greatest run.
    pub range: (f64, f64),
    /// True if it is not to be relied on, and drawn hollow.
    pub noisy: bool,
}

impl Lines<'_> {
    /// The plot; nothing where no figure has a place.
    pub fn scene(&self) -> Option<Scene> {
        let mut scene = Scene::new(self.title, self.description());
        let names: Vec<&str> = self.lines.iter().map(|line| line.name.as_str()).collect();
        let legend_end = legend(&mut scene, Look::Line, &names);
        scene.text((2.0, legend_end + 12.0), Anchor::Start, "label title", self.y_axis);
        let (top, bottom) = (legend_end + 24.0, legend_end + 24.0 + HEIGHT);
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let values = points().flat_map(|point| [point.value, point.range.0, point.range.1]);
        let y = Scale::of(self.y_kind, self.y_unit, values, (bottom, top))?;
        let ticks = y.ticks(true);
        let left = ticks.iter().map(|tick| width_of(&tick.text)).fold(0.0, f64::max) + 8.0;
        let sizes = points().map(|point| point.size as f64);
        let x = Scale::of(Axis::Logarithmic, self.x_unit, sizes, (left, WIDTH - 12.0))?;
        for tick in ticks {
            scene.rule((left, tick.place), (WIDTH - 4.0, tick.place), "grid");
            scene.text((left - 4.0, tick.place + 4.0), Anchor::End, "label", &tick.text);
        }
        for tick in x.ticks(false) {
            scene.rule((tick.place, top), (tick.place, bottom + 3.0), "grid");
            scene.text((tick.place, bottom + 18.0), Anchor::Middle, "label", &tick.text);
        }
        scene.rule((left, bottom), (WIDTH - 4.0, bottom), "axis");
        scene.text((WIDTH - 8.0, bottom + 34.0), Anchor::End, "label title", self.x_axis);
        for (series, line) in self.lines.iter().enumerate() {
            self.line(&mut scene, &x, &y, series, line);
        }
        scene.height = bottom + 40.0;
        Some(scene)
    }

    fn line(&self, scene: &mut Scene, x: &Scale, y: &Scale, series: usize, line: &Line) {
        let place = |point: &Point, value: f64| x.place(point.size as f64).zip(y.place(value));
        let places = line.points.iter().filter_map(|point| place(point, point.value));
        let points: Vec<String> = places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let class = format!("curve s{}", series % SERIES);
        scene.items.push(Item::Curve { points: points.join(" "), class });
        for point in &line.points {
            if let (Some(least), Some(most)) = (place(point, point.range.0), place(point, point.range.1)) {
                scene.rule(least, most, "range");
            }
            if let Some(place) = place(point, point.value) {
                let noisy = if point.noisy { ", noisy" } else { "" };
                let hint =
                    format!("{}, {}: {}{noisy}", line.name, self.place(point), self.y_unit.text(point.value));
                scene.mark(series, place, point.noisy, &hint);
            }
        }
    }

    /// Place of a point in words.
    fn place(&self, point: &Point) -> String {
        match self.x_unit {
            Unit::Bytes => number::bytes(point.size),
            Unit::Plain | Unit::Time | Unit::Rate => number::count(point.size),
        }
    }

    fn description(&self) -> String {
        let lines = self.lines.iter().map(|line| {
            let ends: Vec<String> = [line.points.first(), line.points.last()]
                .into_iter()
                .flatten()
                .map(|point| format!("{} at {}", self.y_unit.text(point.value), self.place(point)))
                .collect();
            format!("{}: {}", line.name, ends.join(" to "))
        });
        format!("{} by {}. {}.", self.y_axis, self.x_axis, lines.collect::<Vec<_>>().join("; "))
    }
}
