//! Site of the server: files by range, folders as listings, the status page, `/metrics` and `/api`.

mod kept_files;
mod listing;
mod page;
mod site;

pub use site::LibrarySite;
