//! Access to the store from tasks: other threads wait for storage and close files.

use std::fs::File;
use std::io;
use std::sync::Arc;

use http::StatusCode;
use wirepath_engine::DropOnPool;
use wirepath_streams::WriteProgress;

use super::Shared;
use super::answer::Served;
use super::entry::Entry;
use super::fetches::Outdated;
use super::head::Refusal;
use super::store::{Store, StoredEntry};

impl Shared {
    /// Runs `act` where it may wait for storage.
    pub(super) async fn with_store<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Arc<Store>) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let store = Arc::clone(&self.store);
        tokio::task::spawn_blocking(move || act(&store)).await.map_err(io::Error::other).flatten()
    }

    /// Opens the body of an entry; a damaged entry is removed. One that cannot be read now, as for want of
    /// descriptors, stays and is an error.
    pub(super) async fn open(&self, kept: &Arc<StoredEntry>) -> Result<Option<Served>, Refusal> {
        let kept = Arc::clone(kept);
        let entry = Arc::clone(&kept.entry);
        let opened = self.with_store(move |store| store.open_body(&kept)).await.map_err(|error| {
            tracing::warn!(url = entry.url, %error, "cannot read a cache entry; keeping it");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "cannot read the cache entry; try again later")
        })?;
        Ok(opened.map(|file| self.served(&entry, Arc::new(file), None)))
    }

    /// An entry and its body.
    pub(super) fn served(
        &self,
        entry: &Arc<Entry>,
        file: Arc<File>,
        progress: Option<Arc<WriteProgress>>,
    ) -> Served {
        let file = Arc::new(DropOnPool::new(file, self.engine.pool()));
        Served { entry: Arc::clone(entry), file, progress }
    }

    /// Removes the entry of a URL; a running fetch of it will not be stored.
    pub(super) async fn invalidate(&self, key: &Arc<str>) {
        let key = Arc::clone(key);
        let fetch = self.fetches.take(&key);
        let removed = self.with_store(move |store| {
            // Before the entry is removed: the fetch could put its own in its place.
            fetch.iter().for_each(Outdated::set);
            store.remove(&key);
            Ok(())
        });
        if let Err(error) = removed.await {
            tracing::error!(%error, "cannot remove an entry of the cache");
        }
    }
}
