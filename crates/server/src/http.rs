//! Site of the server: files by range, folders as listings, the status page, `/metrics` and `/api`.

mod kept_files;
mod listing;
mod page;
mod response_fields;
mod site;

pub(crate) use response_fields::CurrentFields;
pub use response_fields::{FolderCacheControl, ResponseFields};
pub use site::LibrarySite;
