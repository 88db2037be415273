//! Playlists, kept once for all sessions that play them.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::mem::size_of;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use wirepath_media::hls::{Location, Segment};

use crate::failure::Failure;

/// Most bytes of all playlists: a server may give each session another.
const MEMORY: usize = 512 << 20;

/// Playlists that sessions play.
#[derive(Debug, Default)]
pub(crate) struct Playlists {
    /// By a keyed hash of where they are and of their text.
    known: Mutex<HashMap<u64, Weak<SharedPlaylist>>>,
    hashes: RandomState,
    bytes: Arc<AtomicUsize>,
}

/// Playlist that several sessions play.
#[derive(Debug)]
pub(crate) struct SharedPlaylist {
    segments: Vec<Segment>,
    bytes: usize,
    all_bytes: Arc<AtomicUsize>,
}

impl Playlists {
    /// The playlist with this text, if a session plays it.
    pub(super) fn known(&self, at: &Location, text: &[u8]) -> Option<Arc<SharedPlaylist>> {
        self.known.lock().get(&self.hash(at, text))?.upgrade()
    }

    /// Keeps a playlist as long as it is played.
    pub(super) fn keep(
        &self,
        at: &Location,
        text: &[u8],
        segments: Vec<Segment>,
    ) -> Result<Arc<SharedPlaylist>, Failure> {
        let bytes = segments.iter().map(|segment| size_of::<Segment>() + segment.path.len()).sum();
        let all_bytes = Arc::clone(&self.bytes);
        all_bytes.fetch_add(bytes, Relaxed);
        let playlist = Arc::new(SharedPlaylist { segments, bytes, all_bytes });
        if self.bytes.load(Relaxed) > MEMORY {
            return Err(Failure::PlaylistMemory);
        }
        let mut known = self.known.lock();
        known.retain(|_, playlist| playlist.strong_count() > 0);
        known.insert(self.hash(at, text), Arc::downgrade(&playlist));
        Ok(playlist)
    }

    fn hash(&self, at: &Location, text: &[u8]) -> u64 {
        self.hashes.hash_one((&at.authority, &at.path, text))
    }
}

impl SharedPlaylist {
    /// Its segments, at least one.
    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }
}

impl Drop for SharedPlaylist {
    fn drop(&mut self) {
        self.all_bytes.fetch_sub(self.bytes, Relaxed);
    }
}
