//! Measures what every data path costs on the machine at hand, and says which one to use.

pub mod compare;
pub mod cost;
pub mod figures;
pub mod options;
pub mod progress;
pub mod report;
pub mod result;
pub mod statistics;

pub use options::{Options, Sink};
pub use progress::Progress;
pub use result::Assessment;

// The example result of the tests is written for both sides of this room's door.
#[cfg(test)]
extern crate self as wirepath_assess;
#[cfg(test)]
#[expect(unreachable_pub, reason = "it is public on the other side of the door")]
#[path = "../../../tests/src/assessment.rs"]
mod example;
