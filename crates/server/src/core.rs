//! The core of all playing: engine, playbacks and the store of images.

use std::path::PathBuf;
use std::sync::Arc;

use wirepath_datapath::{DataPath, SendContext, Support};
use wirepath_engine::{Engine, EngineOptions};
use wirepath_net::program::end_after_panic;
use wirepath_playback::{Burst, PlaybackSettings, Playbacks, RingUse};

use crate::images::{
    HotMemory, HotMemorySize, HotOptions, ImageFolder, ImagePolicy, Store, StoreOptions, usual_packing_memory,
};
use crate::memory_limit::lockable_memory;
use crate::plays::Plays;
use crate::start_error::StartError;
use crate::{calibrated, memory_limit};

/// Options of a core, named as those of [`ServerOptions`](crate::ServerOptions).
pub(crate) struct CoreOptions {
    pub(crate) cache: PathBuf,
    pub(crate) cache_bytes: u64,
    pub(crate) images: ImagePolicy,
    pub(crate) image_bytes_per_second: u64,
    pub(crate) packing_memory_bytes: Option<u64>,
    pub(crate) packings_per_address: usize,
    /// True if the popularity of assets is kept in the cache.
    pub(crate) keeps_popularity: bool,
    pub(crate) hot_memory: HotMemorySize,
    /// False if all trains have headers of their own, which are not sent by io_uring.
    pub(crate) sends_stored_headers: bool,
    pub(crate) threads: usize,
    pub(crate) path: Option<DataPath>,
    pub(crate) calibration: PathBuf,
    pub(crate) burst: Burst,
}

/// Core.
pub(crate) struct MediaCore {
    pub(crate) engine: Arc<Engine>,
    pub(crate) playbacks: Arc<Playbacks>,
    pub(crate) hot: Option<Arc<HotMemory>>,
    pub(crate) store: Arc<Store>,
    pub(crate) plays: Arc<Plays>,
}

impl MediaCore {
    /// Starts all threads.
    pub(crate) fn start(options: &CoreOptions) -> Result<MediaCore, StartError> {
        let folder = ImageFolder::open(&options.cache, options.cache_bytes)?;
        let is_asked = matches!(options.hot_memory, HotMemorySize::Bytes(_));
        let support = calibrated::support(options.path, &options.calibration, is_asked)?;
        let hot_options = hot_options(options, &support);
        let held_bytes = hot_options.as_ref().map_or(0, |hot| hot.budget);
        let can_map = || {
            options.sends_stored_headers
                && !support.costs_more(DataPath::WireMapping)
                && can_lend_mappings(options.threads, held_bytes)
        };
        let ring = ring_use(options.path, hot_options.as_ref().map(|hot| hot.is_automatic), can_map);
        if matches!(ring, RingUse::Always { maps: true } | RingUse::UnlessCopied { maps: true }) {
            tracing::info!(
                path = %DataPath::WireMapping,
                reason = "sends from mapped files without a copy, which packets to this host would need",
                "data path of wire images to other hosts chosen"
            );
        }
        let engine = Arc::new(Engine::start(EngineOptions {
            threads: options.threads,
            pool_threads: options.threads.max(2),
            on_panic: Some(end_after_panic),
            ..EngineOptions::default()
        })?);
        let settings = PlaybackSettings { support, ring, burst: options.burst };
        let playbacks = Arc::new(Playbacks::start(Arc::clone(&engine), settings));
        let hot = hot_options.map(|hot| HotMemory::start(hot, Arc::clone(&playbacks))).transpose()?;
        let measured = Arc::clone(&playbacks);
        let plays = Arc::<Plays>::default();
        let store_options = StoreOptions {
            plays: Arc::clone(&plays),
            keeps_popularity: options.keeps_popularity,
            images: options.images,
            image_bytes_per_second: options.image_bytes_per_second,
            packing_memory_bytes: options
                .packing_memory_bytes
                .unwrap_or_else(|| usual_packing_memory(memory_limit::memory_limit())),
            packings_per_address: options.packings_per_address,
            saved_ns_per_packet: Box::new(move || measured.support().saved_by_stored_headers_ns()),
            ..StoreOptions::new(engine.pool().clone(), options.threads)
        };
        let store = Store::start(folder, store_options)?;
        Ok(MediaCore { engine, playbacks, hot, store, plays })
    }
}

/// Use of io_uring by engine threads: the operator's path or size of hot memory may require it; else it is used where
/// the kernel copies nothing. `is_hot_automatic` is `None` without hot memory. `can_map` returns whether trains may
/// also be sent from mappings; it is called only if that matters.
fn ring_use(
    path: Option<DataPath>,
    is_hot_automatic: Option<bool>,
    can_map: impl FnOnce() -> bool,
) -> RingUse {
    match (path, is_hot_automatic) {
        (Some(path), _) if path.needs_ring() => RingUse::Always { maps: false },
        // There is no hot memory beside another named path.
        (Some(_), _) => RingUse::Never,
        (None, Some(false)) => RingUse::Always { maps: can_map() },
        (None, Some(true)) => RingUse::UnlessCopied { maps: can_map() },
        (None, None) if can_map() => RingUse::UnlessCopied { maps: true },
        (None, None) => RingUse::Never,
    }
}

/// Memory that each engine thread may lock for trains from mappings: pages count as locked until the network is done
/// with them, and the thread has been told. 256 trains of 68 KiB may be in one call.
const MAPPED_BYTES: u64 = 32 << 20;

/// Returns whether so many threads, each with so many bytes of hot memory, can also send trains from mappings by
/// io_uring, and the kernel reports which it copies.
fn can_lend_mappings(threads: usize, held_bytes: u64) -> bool {
    let mut context = SendContext::default();
    let can = context.open_ring().is_ok() && context.copied_by_kernel().is_some();
    can && lockable_memory() / threads.max(1) as u64 >= held_bytes.saturating_add(MAPPED_BYTES)
}

/// Rules of the hot memory that was requested or is used by default; none if hot memory is not used.
fn hot_options(options: &CoreOptions, support: &Support) -> Option<HotOptions> {
    match options.hot_memory {
        HotMemorySize::Off => None,
        // An operator who names a path gets that path.
        HotMemorySize::Automatic if options.path.is_some() => None,
        HotMemorySize::Automatic if support.costs_more(DataPath::WireUring) => None,
        HotMemorySize::Automatic => HotOptions::automatic(options.threads).filter(|_| {
            let mut context = SendContext::default();
            let can = context.open_ring().is_ok() && context.copied_by_kernel().is_some();
            if !can {
                tracing::debug!(
                    "no hot memory by itself: io_uring cannot be used, or is older than Linux 6.2"
                );
            }
            can
        }),
        HotMemorySize::Bytes(bytes) => can_use_hot_memory(support).then(|| HotOptions::of_bytes(bytes)),
    }
}

/// Returns whether hot memory can be used; logs why not.
fn can_use_hot_memory(support: &Support) -> bool {
    let host = support.host();
    if !host.path.needs_hot_memory() {
        tracing::warn!(path = %host.path, reason = host.reason, "hot memory is not used: needs wire_uring");
        return false;
    }
    // A path that was named by the operator was not probed.
    match SendContext::default().open_ring() {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(%error, "hot memory is not used: wire_uring is unavailable; using wire_sendfile");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: An operator who names a data path gets that path, and io_uring only if the path uses it.
    #[test]
    fn io_uring_is_used_as_the_operator_asked_or_where_nothing_is_copied() {
        for maps in [false, true] {
            let ring_use = |path, is_hot_automatic| ring_use(path, is_hot_automatic, || maps);
            assert_eq!(ring_use(Some(DataPath::WireUring), Some(false)), RingUse::Always { maps: false });
            assert_eq!(ring_use(Some(DataPath::WireMapping), None), RingUse::Always { maps: false });
            assert_eq!(ring_use(Some(DataPath::GsoWritev), None), RingUse::Never);
            assert_eq!(ring_use(None, Some(false)), RingUse::Always { maps });
            assert_eq!(ring_use(None, Some(true)), RingUse::UnlessCopied { maps });
        }
        assert_eq!(ring_use(None, None, || true), RingUse::UnlessCopied { maps: true });
        assert_eq!(ring_use(None, None, || false), RingUse::Never);
    }
}
