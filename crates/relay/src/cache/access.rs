//! The store, for tasks: what may wait for storage is done on other threads, and so are files closed.

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
use super::store::{Kept, Store};

impl Shared {
    /// Does something with the store.
    pub(super) async fn with_store<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Arc<Store>) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let store = Arc::clone(&self.store);
        tokio::task::spawn_blocking(move || act(&store)).await.map_err(io::Error::other).flatten()
    }

    /// An entry with its body, if that is what it was; else the entry is gone.
    ///
    /// # Errors
    /// That it cannot be read now, as for want of descriptors; the entry stays.
    pub(super) async fn open(&self, kept: &Arc<Kept>) -> Result<Option<Served>, Refusal> {
        let kept = Arc::clone(kept);
        let entry = Arc::clone(&kept.entry);
        let opened = self.with_store(move |store| store.open_body(&kept)).await.map_err(|error| {
            tracing::warn!(url = entry.url, %error, "an entry of the cache cannot be read now; it stays");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "what the cache has of this cannot be read now")
        })?;
        Ok(opened.map(|file| self.served(&entry, Arc::new(file), None)))
    }

    /// An entry and its body.
    pub(super) fn served(
        &self,
        entry: &Arc<Entry>,
        file: Arc<File>,
        growth: Option<Arc<WriteProgress>>,
    ) -> Served {
        let file = Arc::new(DropOnPool::new(file, self.engine.pool()));
        Served { entry: Arc::clone(entry), file, growth }
    }

    /// Drops the entry of a URL, and what is being fetched of it.
    pub(super) async fn forget(&self, key: &Arc<str>) {
        let key = Arc::clone(key);
        let fetch = self.fetches.take(&key);
        let removed = self.with_store(move |store| {
            // Before the entry goes, for it could be put in its place.
            fetch.iter().for_each(Outdated::set);
            store.remove(&key);
            Ok(())
        });
        if let Err(error) = removed.await {
            tracing::error!(%error, "removing an entry failed");
        }
    }
}
