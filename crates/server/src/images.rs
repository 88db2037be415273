//! Wire images as files: packed from assets, kept in a cache folder, played from.

mod cache;
mod hot;
mod image;
mod open;
mod packing;
mod read;
mod segment;
mod store;
mod summary;
#[cfg(test)]
mod tests;
mod waiters;
mod work_queue;

pub use cache::{Cache, CacheError};
pub use hot::{HotImage, HotMemory, HotSession};
pub use image::{Contents, Failure, Image, Progress, SeekResult};
pub use read::{ReadImageError, read_image};
pub use store::{Store, StoreCounts, StoreError, USUAL_TS_PER_PACKET};
pub use summary::Summary;
