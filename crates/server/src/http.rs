//! The HTTP door: files by range, folders as lists, `/metrics` and `/api/status`.
//!
//! One task per connection reads heads and writes small answers; the bodies of files are sent by the
//! [`Engine`](wirepath_engine::Engine), so no byte of them passes through here.

mod answer;
mod connection;
mod counters;
mod door;
mod listing;

pub use counters::{COUNTERS, Counts};
pub use door::{Door, HttpOptions, Site};
pub use wirepath_doors::Limits;
