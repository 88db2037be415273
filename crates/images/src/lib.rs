//! Server of stored pictures: whole ones, parts of them, gray or smaller ones, made as they are sent.
//!
//! It is an application of the stream service, small enough to be read ([`docs/images.md`]). A part of a picture
//! is a list of extents of its file, so nothing of it is read. What has to be computed passes handlers:
//! [`Gray`], [`Scaled`].
//!
//! [`docs/images.md`]: ../../../docs/images.md

// In the order of their dependencies.
mod overview;
mod picture;
mod pnm;
mod query;
mod scaler;
mod tiff;

mod gray;
mod scaled;

mod open;
mod page;
mod plan;
mod site;

pub use gray::Gray;
pub use open::{find_overviews, open_overview, open_picture};
pub use overview::{DamagedOverview, Overview, Overviews};
pub use picture::{Blocks, Format, Layout, Picture, PictureError, Rectangle, Samples};
pub use plan::{Plan, PlanError};
pub use query::{Method, QueryError, Question, Ratio, Scale, Transformation};
pub use scaled::Scaled;
pub use site::PictureSite;
