//! Wire images as files: packed from assets, kept in a cache folder, played from.

mod cache;
mod image;
mod packing;
mod store;
mod summary;
#[cfg(test)]
mod tests;

pub use cache::{Cache, CacheError};
pub use image::{Image, Located, Progress};
pub use store::{ReadImageError, Store, StoreCounters, StoreError, read_image};
pub use summary::Summary;
