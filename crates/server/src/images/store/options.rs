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
    /// Those that are played so often that an image pays for itself.
    Auto,
    /// All that are played.
    All,
    /// None, but for assets whose payload is not contiguous; those that there are serve.
    None,
    /// All that are opened, before anything else: packing ahead of time. No index is made.
    AtOnce,
}

/// Options of an image store.
pub struct StoreOptions {
    /// Threads that read the segments that are played.
    pub readers: BlockingPool,
    /// Number of threads that pack.
    pub packers: usize,
    /// Assets that images are made of.
    pub images: ImagePolicy,
    /// Most bytes of images written in a second while they are made in the background.
    pub image_bytes_per_second: u64,
    /// Processor time in nanoseconds that a packet of an image saves when it is sent, if that was measured.
    pub saved_ns_per_packet: Box<dyn Fn() -> Option<f64> + Send + Sync>,
    /// Time for which an image that nobody plays stays open.
    pub idle_ttl: Duration,
    /// Most bytes in the page cache that were read for playbacks, before what was sent is released; none for
    /// half of the memory that the process may use.
    pub page_bytes: Option<u64>,
    /// Most bytes of memory that packings and estimates hold before others wait.
    pub packing_memory_bytes: u64,
    /// Most packings of one client address, waiting or running.
    pub packings_per_address: usize,
    /// Plays of assets, which are kept with the images.
    pub plays: Arc<Plays>,
    /// True if this store keeps the popularity of assets. Only one that plays them does.
    pub keeps_popularity: bool,
}

/// Memory of packings unless another is asked for, enough for the tables of 500 films at once, and the share
/// of the memory that it takes at most.
const PACKING_MEMORY: u64 = 256 << 20;
const PACKING_SHARE: u64 = 8;

/// Memory of packings where the process may use `limit` bytes of memory.
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
