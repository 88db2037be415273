//! Popularity of assets, kept in the cache folder across restarts.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use wirepath_media::image::{Identity, PayloadRecipe, Recipe};

use super::key::Key;
use crate::plays::{Plays, forget_half};

/// Name of the file in the cache folder.
const FILE: &str = "popularity.json";

/// Version of the file's format.
const VERSION: u32 = 1;

/// Most assets that are counted; beyond that, the least played ones are dropped.
const MOST_ASSETS: usize = 4096;

/// A larger file was not written by us: it can have 4,096 names of 4,096 bytes, each escaped, and numbers.
const MOST_BYTES: u64 = 32 << 20;

/// Counts of what was played.
pub(super) struct Popularity {
    /// None if they are not kept.
    file: Option<PathBuf>,
    plays: Arc<Plays>,
    played: Mutex<HashMap<Key, Played>>,
    /// Text of the file when it was last written or read; locked while it is written.
    kept: Mutex<Kept>,
}

/// Bytes of packets that were sent without an image, of one version of an asset.
struct Played {
    identity: Identity,
    bytes: Arc<AtomicU64>,
}

#[derive(Default)]
struct Kept {
    text: String,
    has_failed: bool,
}

/// Contents of the file.
#[derive(Default, Deserialize, Serialize)]
struct Stored {
    version: u32,
    /// Starts of sessions, by names of assets.
    plays: HashMap<String, u64>,
    played: Vec<StoredPlayed>,
}

#[derive(Deserialize, Serialize)]
struct StoredPlayed {
    device: u64,
    inode: u64,
    size: u64,
    mtime_ns: i64,
    /// 0 for images of tracks.
    ts_per_packet: u16,
    /// For images of tracks: largest payload in bytes, and number of frames in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tracks: Option<(u16, u8)>,
    /// True of images of the tracks of a transport stream.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    demuxed: bool,
    burst_us: u32,
    bytes: u64,
}

impl Popularity {
    /// Counts stored in `folder`; empty if there is no file or a damaged one, which is logged.
    pub(super) fn load(folder: &Path, plays: Arc<Plays>) -> Popularity {
        let file = folder.join(FILE);
        let read = read(&file).unwrap_or_else(|error| {
            tracing::warn!(
                file = %file.display(), %error,
                "cannot read the popularity of assets: counting starts at zero, and the file will be replaced"
            );
            None
        });
        let (stored, text) = read.unwrap_or_default();
        plays.restore(stored.plays);
        let played = stored.played.into_iter().take(MOST_ASSETS).map(StoredPlayed::take_out).collect();
        let kept = Mutex::new(Kept { text, has_failed: false });
        Popularity { file: Some(file), plays, played: Mutex::new(played), kept }
    }

    /// Counts that are neither read from nor written to a file.
    pub(super) fn not_kept(plays: Arc<Plays>) -> Popularity {
        Popularity { file: None, plays, played: Mutex::default(), kept: Mutex::default() }
    }

    /// The counter of an asset's bytes.
    pub(super) fn counter(&self, key: Key, identity: Identity) -> Arc<AtomicU64> {
        let mut played = self.played.lock();
        if let Some(known) = played.get(&key).filter(|known| known.identity == identity) {
            return Arc::clone(&known.bytes);
        }
        if played.len() >= MOST_ASSETS {
            forget_half(&mut played, Played::bytes, Played::is_open);
        }
        let bytes = Arc::default();
        played.insert(key, Played { identity, bytes: Arc::clone(&bytes) });
        bytes
    }

    /// Writes the file atomically if something was played since the last time. Waits for the disk.
    pub(super) fn keep(&self) {
        let Some(file) = &self.file else { return };
        let mut kept = self.kept.lock();
        let result = self.text().and_then(|text| {
            if text.is_none() || text.as_ref() == Some(&kept.text) {
                return Ok(());
            }
            let text = text.unwrap_or_default();
            write(file, &text)?;
            kept.text = text;
            Ok(())
        });
        match &result {
            // Logged once: images in a folder without write permission are still served.
            Err(error) if !kept.has_failed => {
                tracing::warn!(file = %file.display(), %error, "cannot store the popularity of assets");
            }
            _ => {}
        }
        kept.has_failed = result.is_err();
    }

    /// Content of the file; none if nothing was played.
    fn text(&self) -> io::Result<Option<String>> {
        let of = |(key, played): (&Key, &Played)| StoredPlayed::new(key, played);
        let mut played: Vec<_> =
            self.played.lock().iter().map(of).filter(|played| played.bytes > 0).collect();
        played.sort_unstable_by_key(|played| {
            (played.device, played.inode, played.ts_per_packet, played.tracks, played.burst_us)
        });
        let plays = self.plays.read();
        if played.is_empty() && plays.is_empty() {
            return Ok(None);
        }
        // A JSON map is ordered by keys, so equal counts give equal texts.
        let stored = serde_json::to_value(Stored { version: VERSION, plays, played })?;
        Ok(Some(stored.to_string() + "\n"))
    }
}

/// Writes the file atomically.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let draft = file.with_extension(format!("json.{:016x}", getrandom::u64()?));
    let written = File::create_new(&draft)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&draft, file));
    if written.is_err() {
        _ = fs::remove_file(&draft); // the first error says more than a second one would
    }
    written
}

/// Reads the file and returns it with its text; none if there is no file.
fn read(file: &Path) -> io::Result<Option<(Stored, String)>> {
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    opened.take(MOST_BYTES).read_to_string(&mut text)?;
    let stored: Stored = serde_json::from_str(&text)?;
    if stored.version != VERSION {
        return Err(io::Error::other(format!("version {} is unknown: expected {VERSION}", stored.version)));
    }
    Ok(Some((stored, text)))
}

impl Played {
    fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Returns whether an image counts.
    fn is_open(&self) -> bool {
        Arc::strong_count(&self.bytes) > 1
    }
}

impl StoredPlayed {
    fn new(key: &Key, played: &Played) -> StoredPlayed {
        let Identity { size, mtime_ns, .. } = played.identity;
        let Key { device, inode, recipe: Recipe { payload, burst_us } } = *key;
        let (ts_per_packet, tracks, demuxed) = match payload {
            PayloadRecipe::TransportStream { ts_per_packet } => (ts_per_packet, None, false),
            PayloadRecipe::Tracks { limit, frames, demuxed } => (0, Some((limit, frames)), demuxed),
        };
        let bytes = played.bytes();
        StoredPlayed { device, inode, size, mtime_ns, ts_per_packet, tracks, demuxed, burst_us, bytes }
    }

    fn take_out(self) -> (Key, Played) {
        let StoredPlayed { device, inode, size, mtime_ns, ts_per_packet, tracks, demuxed, burst_us, bytes } =
            self;
        let payload = match tracks {
            Some((limit, frames)) => PayloadRecipe::Tracks { limit, frames, demuxed },
            None => PayloadRecipe::TransportStream { ts_per_packet },
        };
        let identity = Identity { size, mtime_ns, inode, device };
        let key = Key { device, inode, recipe: Recipe { payload, burst_us } };
        (key, Played { identity, bytes: Arc::new(bytes.into()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(inode: u64) -> (Key, Identity) {
        let identity = Identity { size: 1000, mtime_ns: -7, inode, device: 2 };
        (Key::of(identity, Recipe::transport_stream(7, 20_000)), identity)
    }

    fn load(folder: &tempfile::TempDir) -> Popularity {
        Popularity::load(folder.path(), Arc::default())
    }

    /// Promise: Play counts of assets survive a restart, unless the assets have changed.
    #[test]
    fn counts_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let popularity = load(&folder);
        popularity.keep();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was played");
        let (key, identity) = identity(5);
        popularity.counter(key, identity).store(300, Relaxed);
        popularity.plays.count("a \"film\".ts");
        popularity.keep();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");

        let again = load(&folder);
        // Counts that were only read are not written again.
        fs::remove_file(folder.path().join(FILE)).unwrap();
        again.keep();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(again.counter(key, identity).load(Relaxed), 300);
        assert_eq!(again.plays.read()["a \"film\".ts"], 1);
        let changed = Identity { mtime_ns: 8, ..identity };
        assert_eq!(again.counter(key, changed).load(Relaxed), 0, "another version of the file");
    }

    /// Promise: A damaged popularity file is logged and replaced.
    #[test]
    fn what_cannot_be_read_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        for text in [&b""[..], b"{}", b"\xff\xfe", b"{\"version\": 2, \"plays\": {}, \"played\": []}"] {
            fs::write(&file, text).unwrap();
            let popularity = load(&folder);
            assert!(popularity.plays.read().is_empty());
            popularity.plays.count("a.ts");
            popularity.keep();
            assert_eq!(load(&folder).plays.read()["a.ts"], 1);
        }
    }

    #[test]
    fn so_many_assets_are_counted_and_the_most_played_stay() {
        let folder = tempfile::tempdir().unwrap();
        let popularity = load(&folder);
        for inode in 0..3 * MOST_ASSETS as u64 {
            let (key, identity) = identity(inode);
            popularity.counter(key, identity).store(if inode == 0 { u64::MAX } else { inode % 7 }, Relaxed);
        }
        assert!(popularity.played.lock().len() <= MOST_ASSETS);
        let (key, identity) = identity(0);
        assert_eq!(popularity.counter(key, identity).load(Relaxed), u64::MAX);
    }
}
