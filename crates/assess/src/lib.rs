//! Measures what every data path costs on the machine at hand, and says which one to use.

pub mod costs;
pub mod host;
pub mod options;
pub mod profile;
pub mod progress;
pub mod result;
pub mod statistics;

pub use options::{Options, Sink};
pub use progress::Progress;
pub use result::Assessment;
