//! Site of the server: files by range, folders as listings, `/metrics` and `/api/status`.

mod listing;
mod site;

pub use site::LibrarySite;
