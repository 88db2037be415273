//! Measurements of the cost of every data path on this machine, and recommendations.

mod bare;
mod calibrate;
mod calls;
mod case;
pub mod clients;
pub mod compare;
pub mod confidence;
pub mod count;
mod device_kind;
mod energy;
mod error;
mod findings;
mod header_sizes;
pub mod host;
mod lending;
pub mod loan;
pub mod machine_costs;
mod options;
mod packetization;
pub mod path_costs;
mod path_experiment;
pub mod profile;
mod programs;
mod progress;
mod quantities;
pub mod relay;
pub mod report;
pub mod result;
mod rounds;
mod send;
mod sent;
pub mod sink;
mod sockets;
pub mod statistics;
mod subject;
pub mod test_bed;
mod test_files;
mod test_socket;
mod verdict;
mod verify;

pub use calibrate::calibrate;
pub use error::Error;
pub use findings::Soundness;
pub use lending::read as read_calibrations;
pub use options::{Options, Sink};
pub use path_experiment::PathExperiment;
pub use progress::Progress;
pub use result::Assessment;
pub use test_files::remove_made;
/// Calibrations for servers.
pub use wirepath_datapath::calibration;

// The tests' example result refers to this crate by its external name.
#[cfg(test)]
extern crate self as wirepath_assess;
#[cfg(test)]
#[expect(unreachable_pub, reason = "it is public for tests outside of this crate")]
#[path = "../../../tests/src/assessment.rs"]
mod example;
