//! Measurements of what every data path costs on the machine at hand, and advice which one to use.

mod bare;
mod calibrate;
mod calls;
mod case;
pub mod compare;
pub mod cost;
pub mod costs;
pub mod count;
mod device_kind;
mod error;
pub mod experiment;
pub mod figures;
mod findings;
mod headers;
pub mod host;
mod lending;
pub mod loan;
mod media;
pub mod options;
pub mod profile;
pub mod progress;
pub mod relay;
pub mod report;
pub mod result;
mod rounds;
mod send;
mod sent;
pub mod sink;
pub mod statistics;
pub mod subject;
pub mod test_bed;
mod test_socket;
pub mod verdict;
mod verify;
mod walk;

pub use calibrate::calibrate;
pub use error::Error;
pub use experiment::PathExperiment;
pub use findings::Soundness;
pub use lending::read as read_calibrations;
pub use media::remove_made;
pub use options::{Options, Sink};
pub use progress::Progress;
pub use result::Assessment;
/// Calibrations for servers.
pub use wirepath_datapath::calibration;

// The example result of the tests is written for the outside of this crate, too.
#[cfg(test)]
extern crate self as wirepath_assess;
#[cfg(test)]
#[expect(unreachable_pub, reason = "it is public for tests outside of this crate")]
#[path = "../../../tests/src/assessment.rs"]
mod example;
