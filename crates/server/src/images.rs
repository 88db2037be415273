//! Wire images as files: packed from assets, stored in a folder, and played.

mod asset_reader;
mod demand;
mod error;
mod follow;
mod hot;
mod image;
mod image_folder;
#[cfg(test)]
mod index_tests;
mod key;
mod memory_budget;
#[cfg(test)]
mod movie_tests;
mod open;
mod packing;
mod page_memory;
mod popularity;
mod progress;
mod rate_plot;
mod read;
mod segment;
mod slot;
mod store;
mod summary;
#[cfg(test)]
mod tests;
mod work_queue;

pub(crate) use error::LimitsError;
pub use error::StoreError;
pub(crate) use follow::Follow;
pub use hot::HotMemorySize;
pub(crate) use hot::{HotCounts, HotMemory, HotOptions, HotSession};
pub use image::Image;
pub use image_folder::{FolderError, ImageFolder};
pub use page_memory::PageCounts;
pub(crate) use progress::SeekResult;
pub use progress::{Contents, Failure, Progress};
pub(crate) use rate_plot::RatePlot;
pub use read::{ReadImageError, read_image};
pub use store::{ImagePolicy, Store, StoreCounts, StoreOptions, USUAL_LIMITS, usual_packing_memory};
pub use summary::Summary;

pub use crate::plays::Plays;
