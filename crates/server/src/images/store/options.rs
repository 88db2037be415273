//! Options of an image store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use wirepath_engine::BlockingPool;

use crate::images::open::IDLE_TTL;
use crate::plays::Plays;

/// Assets that images are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImagePolicy {
    /// Assets that are played so often that an image pays off.
    Auto,
    /// All that are played.
    All,
    /// None, except for assets whose payload is not contiguous, and recordings that are followed. Existing images are
    /// used.
    None,
    /// All opened assets, at once: packing ahead of time. No index is made.
    AtOnce,
}

/// Options of an image store.
pub struct StoreOptions {
    /// Threads that read segments for playing.
    pub readers: BlockingPool,
    /// Number of threads that pack.
    pub packers: usize,
    /// Assets that images are made of.
    pub images: ImagePolicy,
    /// Most bytes of images written per second in the background.
    pub image_bytes_per_second: u64,
    /// Processor time in nanoseconds that an image saves for each packet sent, if measured.
    pub saved_ns_per_packet: Box<dyn Fn() -> Option<f64> + Send + Sync>,
    /// Time for which an image that nobody plays stays open.
    pub idle_ttl: Duration,
    /// Most bytes in the page cache that were read for playbacks, before sent segments are released; none for
    /// half of the memory that the process may use.
    pub page_bytes: Option<u64>,
    /// Most bytes of memory that packings and estimates hold before others wait.
    pub packing_memory_bytes: u64,
    /// Most packings of one client address, waiting or running.
    pub packings_per_address: usize,
    /// Plays of assets, which are stored with the images.
    pub plays: Arc<Plays>,
    /// True if this store stores the popularity of assets. Only a store that plays them does.
    pub keeps_popularity: bool,
}

/// Default memory of packings, enough for the tables of 500 films at once, and the largest share of the
/// machine's memory for it.
const PACKING_MEMORY: u64 = 256 << 20;
const PACKING_SHARE: u64 = 8;

/// Default memory of packings if the process may use `limit` bytes of memory.
pub fn usual_packing_memory(limit: u64) -> u64 {
    PACKING_MEMORY.min(limit / PACKING_SHARE)
}

impl StoreOptions {
    /// Options for packing ahead of time.
    pub fn new(readers: BlockingPool, packers: usize) -> StoreOptions {
        StoreOptions {
            readers,
            packers,
            images: ImagePolicy::AtOnce,
            image_bytes_per_second: 64 << 20,
            saved_ns_per_packet: Box::new(|| None),
            idle_ttl: IDLE_TTL,
            page_bytes: None,
            packing_memory_bytes: PACKING_MEMORY,
            packings_per_address: usize::MAX,
            plays: Arc::default(),
            keeps_popularity: true,
        }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StoreOptions").field("images", &self.images).finish_non_exhaustive()
    }
}
