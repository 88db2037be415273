//! Wire images as files: packed from assets, kept in a cache folder, played from.

mod cache;

pub use cache::{Cache, CacheError, Draft};
