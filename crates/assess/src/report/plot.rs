//! The report's kinds of plots.
//!
//! A plot is 360 units wide, which a phone shows as they are and paper in a column: letters stay legible, and nothing
//! scrolls. Series differ in shape or dash as well as in colour. Colours are the page's (`currentColor`), so that light,
//! dark and paper have their own.

mod dots;
mod legend;
mod lines;
mod scale;
mod scene;
mod stack;

pub(crate) use dots::{Dot, DotRow, Dots};
pub(crate) use lines::{Line, Lines, Point};
pub(crate) use scale::{Kind, Unit};
pub(crate) use scene::Scene;
pub(crate) use stack::{Stack, StackRow};
