//! Measures what every data path costs on the machine at hand, and says which one to use.

pub mod result;
pub mod statistics;

pub use result::Assessment;
