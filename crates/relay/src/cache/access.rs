//! Access to the store from async tasks. Other threads wait for storage and close files.

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
    /// Runs `act` on a thread that may wait for storage.
    pub(super) async fn with_store<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Arc<Store>) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let store = Arc::clone(&self.store);
        tokio::task::spawn_blocking(move || act(&store)).await.map_err(io::Error::other).flatten()
    }

    /// Opens the body of an entry. A damaged entry is removed. An entry that cannot be read temporarily, such
    /// as for lack of descriptors, stays, and the result is an error.
    pub(super) async fn open(&self, kept: &Arc<StoredEntry>) -> Result<Option<Served>, Refusal> {
        let kept = Arc::clone(kept);
        let entry = Arc::clone(&kept.entry);
        let opened = self.with_store(move |store| store.open_body(&kept)).await.map_err(|error| {
            tracing::warn!(url = entry.url, %error, "cannot read a cache entry; keeping it");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "cannot read the cache entry; try again later")
        })?;
        Ok(opened.map(|file| self.served(&entry, Arc::new(file), None)))
    }

    pub(super) fn served(
        &self,
        entry: &Arc<Entry>,
        file: Arc<File>,
        progress: Option<Arc<WriteProgress>>,
    ) -> Served {
        let file = Arc::new(DropOnPool::new(file, self.engine.pool()));
        Served { entry: Arc::clone(entry), file, progress }
    }

    /// Removes the entry of a URL. The result of a running fetch of the URL will not be stored.
    pub(super) async fn invalidate(&self, key: &Arc<str>) {
        let key = Arc::clone(key);
        let fetch = self.fetches.take(&key);
        let removed = self.with_store(move |store| {
            // Marks the fetch before the entry is removed: otherwise the fetch could store its own entry in
            // between.
            fetch.iter().for_each(Outdated::set);
            store.remove(&key);
            Ok(())
        });
        if let Err(error) = removed.await {
            tracing::error!(%error, "cannot remove an entry of the cache");
        }
    }
}
