//! What the server answers to HTTP: files by range, folders as listings, `/metrics` and `/api/status`.

mod listing;
mod site;

pub use site::LibrarySite;
