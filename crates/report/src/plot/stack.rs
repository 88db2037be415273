//! A bar for each path, from nothing to the whole, in parts.

use super::legend::{Look, legend};
use super::scene::{Anchor, Item, SERIES, Scene, WIDTH, shortened};
use crate::number;

/// Height of a bar, and of a row with its name above it.
const BAR: f64 = 15.0;
const ROW: f64 = 36.0;

/// Parts narrower than this have no room for their figure.
const LEGIBLE: f64 = 34.0;

/// Plot of stacked bars.
pub struct Stack<'a> {
    /// Title, in one line.
    pub title: &'a str,
    /// Names of the parts.
    pub parts: &'a [&'a str],
    /// The bars, from above.
    pub rows: Vec<StackRow>,
}

/// A bar.
pub struct StackRow {
    /// Its name.
    pub name: String,
    /// Shares, as many as there are parts.
    pub shares: Vec<f64>,
}

impl Stack<'_> {
    /// The plot; nothing where there are no bars.
    pub fn scene(&self) -> Option<Scene> {
        if self.rows.is_empty() {
            return None;
        }
        let mut scene = Scene::new(self.title, self.description());
        let mut y = legend(&mut scene, Look::Surface, self.parts) + 4.0;
        for row in &self.rows {
            scene.text((2.0, y + 11.0), Anchor::Start, "label code", &shortened(&row.name, 50));
            self.bar(&mut scene, row, y + 16.0);
            y += ROW;
        }
        scene.height = y + 2.0;
        Some(scene)
    }

    fn bar(&self, scene: &mut Scene, row: &StackRow, y: f64) {
        let full = WIDTH - 4.0;
        let mut x = 2.0;
        for (part, (name, share)) in self.parts.iter().zip(&row.shares).enumerate() {
            // Shares are others' figures: they stay within the bar.
            let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
            let width = (share * full).min(2.0 + full - x).max(0.0);
            let hint = format!("{}: {name} {}", row.name, number::percent(share));
            let class = format!("fill f{}", part % SERIES);
            scene.items.push(Item::Block { x, y, width, height: BAR, class, hint: number::visible(&hint) });
            if width >= LEGIBLE {
                let class = if part % 2 == 0 { "label on" } else { "label over" };
                scene.text((x + width / 2.0, y + 11.6), Anchor::Middle, class, &number::percent(share));
            }
            x += width;
        }
    }

    fn description(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let shares = self.parts.iter().zip(&row.shares);
            let shares = shares.map(|(part, share)| format!("{part} {}", number::percent(*share)));
            format!("{}: {}", row.name, shares.collect::<Vec<_>>().join(", "))
        });
        rows.collect::<Vec<_>>().join("; ") + "."
    }
}
