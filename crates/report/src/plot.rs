//! The report's kinds of plots.
//!
//! A plot is 360 units wide, which a phone shows as they are and paper in a column: letters stay legible, and
//! nothing scrolls. Series differ in shape or dash as well as in colour. Colours are the page's
//! (`currentColor`), so that light, dark and paper have their own.

mod dots;
mod legend;
mod lines;
mod scale;
mod scene;
mod stack;

pub use dots::{Dot, DotRow, Dots};
pub use lines::{Line, Lines, Point};
pub use scale::{Axis, Unit};
pub use scene::Scene;
pub use stack::{Stack, StackRow};
