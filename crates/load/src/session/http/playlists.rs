//! Playlists, stored once for all sessions that play them.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::mem::size_of;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use wirepath_media::hls::{Location, Segment};

use crate::failure::Failure;
use crate::session::PLAYLIST_MEMORY;

/// Playlists in use by sessions.
#[derive(Debug, Default)]
pub(crate) struct Playlists {
    /// Playlists by a keyed hash of location and text.
    known: Mutex<HashMap<u64, Weak<SharedPlaylist>>>,
    hashes: RandomState,
    bytes: Arc<AtomicUsize>,
}

/// Playlist shared by several sessions.
#[derive(Debug)]
pub(crate) struct SharedPlaylist {
    segments: Vec<Segment>,
    _memory: Reserved,
}

/// Reserved part of the memory for playlists.
#[derive(Debug)]
pub(super) struct Reserved {
    bytes: usize,
    all_bytes: Arc<AtomicUsize>,
}

impl Playlists {
    /// The playlist with this text, if a session plays it already.
    pub(super) fn known(&self, at: &Location, text: &[u8]) -> Option<Arc<SharedPlaylist>> {
        self.known.lock().get(&self.hash(at, text))?.upgrade()
    }

    /// Stores a playlist for as long as it is played.
    pub(super) fn keep(
        &self,
        at: &Location,
        text: &[u8],
        segments: Vec<Segment>,
    ) -> Result<Arc<SharedPlaylist>, Failure> {
        let bytes = segments.iter().map(|segment| size_of::<Segment>() + segment.path.len()).sum();
        let mut memory = self.reserve();
        memory.grow(bytes)?;
        let playlist = Arc::new(SharedPlaylist { segments, _memory: memory });
        let mut known = self.known.lock();
        known.retain(|_, playlist| playlist.strong_count() > 0);
        known.insert(self.hash(at, text), Arc::downgrade(&playlist));
        Ok(playlist)
    }

    /// Empty reservation for a playlist.
    pub(super) fn reserve(&self) -> Reserved {
        Reserved { bytes: 0, all_bytes: Arc::clone(&self.bytes) }
    }

    fn hash(&self, at: &Location, text: &[u8]) -> u64 {
        self.hashes.hash_one((&at.authority, &at.path, text))
    }
}

impl SharedPlaylist {
    /// Segments of the playlist, at least one.
    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }
}

impl Reserved {
    /// Reserves more bytes. Fails if the limit is exceeded.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes += bytes;
        let before = self.all_bytes.fetch_add(bytes, Relaxed);
        if before.saturating_add(bytes) > PLAYLIST_MEMORY { Err(Failure::PlaylistMemory) } else { Ok(()) }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.all_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Playlists take bounded memory, including playlists that are still being read.
    #[test]
    fn memory_is_bounded() {
        let playlists = Playlists::default();
        let (mut first, mut second) = (playlists.reserve(), playlists.reserve());
        assert!(first.grow(PLAYLIST_MEMORY - 1).is_ok() && second.grow(1).is_ok());
        assert!(matches!(second.grow(1), Err(Failure::PlaylistMemory)));
        drop((first, second));
        assert_eq!(playlists.bytes.load(Relaxed), 0);
    }
}
