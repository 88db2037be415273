//! The HTTP door: files by range, folders as lists, `/metrics` and `/api/status`.
//!
//! One task per connection reads heads and writes small answers; the bodies of files go to a [`BodySender`], which
//! is the media engine, so no byte of them passes through here.

mod answer;
mod body;
mod connection;
mod counters;
mod door;
mod limits;
mod listing;

pub use body::{BodyEnd, BodyPart, BodySender, OnEnd};
pub use counters::{COUNTERS, Counts};
pub use door::{Door, HttpOptions, Site};
