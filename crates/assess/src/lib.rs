//! Measures what every data path costs on the machine at hand, and says which one to use.

mod bare;
mod calls;
pub mod costs;
mod error;
pub mod experiment;
pub mod host;
pub mod loan;
mod media;
pub mod options;
mod outlet;
pub mod profile;
pub mod progress;
pub mod result;
mod rounds;
mod send;
pub mod sink;
pub mod stage;
pub mod statistics;
pub mod verdict;
mod verify;
mod walk;
mod way;

pub use error::Error;
pub use experiment::{Experiment, Soundness};
pub use options::{Options, Sink};
pub use progress::Progress;
pub use result::Assessment;
