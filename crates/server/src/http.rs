//! Site of the server: files by range, folders as listings, the status page, `/metrics` and `/api`.

mod administration;
mod asset_rate;
mod kept_files;
mod listing;
mod loans;
mod page;
mod response_fields;
mod session_end;
mod site;

pub(crate) use asset_rate::AssetRates;
pub(crate) use loans::LoanControl;
pub(crate) use response_fields::CurrentFields;
pub use response_fields::{Disposition, FolderCacheControl, FolderDisposition, ResponseFields};
pub(crate) use session_end::SessionEnd;
pub use site::LibrarySite;
