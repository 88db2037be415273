//! Small files that stay open for a while after a request.
//!
//! Opening a file within its folder, reading its metadata and closing it takes 2.9 µs in the kernel; looking
//! up the metadata of its name takes 0.9 µs (AMD EPYC, Linux 6.18). The heads of files of up to 32 KiB are
//! written once, and their bodies are sent from a mapping, with the current content of the page cache.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::time::sleep;
use wirepath_http::{AssetPath, Representation, respond_in_full};
use wirepath_net::http::Prepared;

use crate::library::{Asset, Library, Version};

/// Largest file that stays open: if a file was deleted, closing it frees its blocks, which takes time.
const MOST_BYTES: u64 = 1 << 20;

/// Time for which a file stays open after its last request. The space of a deleted file stays in use as long.
/// Files are closed up to half of this time later.
const KEEP: Duration = Duration::from_secs(2);

/// Least age of a file's last change. A further change within the resolution of its file system's timestamps,
/// at most a second, could not be detected.
const SETTLED_S: i64 = 2;

/// Most files that stay open, and the share of the limit of open files that they may take.
const MOST_FILES: usize = 256;
const SHARE_OF_LIMIT: u64 = 64;

/// Time for which a check of the page cache stays valid.
const TRUST: Duration = Duration::from_secs(1);

/// Open files by the paths that they were requested by.
#[derive(Debug)]
pub(super) struct KeptFiles {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    files: HashMap<AssetPath, KeptFile>,
    /// True while a task closes unused files; the task ends when there are none.
    is_closing: bool,
}

/// An open file, and its metadata for HTTP.
#[derive(Clone, Debug)]
pub(super) struct OpenFile {
    pub(super) file: Arc<File>,
    pub(super) representation: Arc<Representation>,
    version: Version,
    /// Number of the library that served it.
    library: u64,
}

impl OpenFile {
    /// Returns whether a path of this library still names the unchanged file.
    fn is_current(&self, library: &Library, path: &AssetPath) -> bool {
        self.library == library.number() && library.version(path) == Some(self.version)
    }
}

#[derive(Debug)]
struct KeptFile {
    open: OpenFile,
    /// Response to GET, made at the second request; none if there cannot be one.
    prepared: OnceCell<Option<Prepared>>,
    /// When the page cache had it.
    in_memory: Instant,
    used: Instant,
}

impl KeptFile {
    fn new(open: OpenFile) -> Self {
        let now = Instant::now();
        Self { open, prepared: OnceCell::new(), in_memory: now, used: now }
    }

    /// The response to GET at this time in seconds since 1970, if sending it does not wait for storage.
    fn prepared(&mut self, now_s: u64) -> Option<Prepared> {
        let OpenFile { file, representation, .. } = &self.open;
        if !representation.is_settled(now_s) {
            return None;
        }
        self.used = Instant::now();
        let prepare = || Prepared::new(&respond_in_full(representation, now_s), file);
        let prepared = self.prepared.get_or_init(prepare).as_ref()?;
        if self.used.saturating_duration_since(self.in_memory) > TRUST {
            if !prepared.is_in_memory() {
                return None;
            }
            self.in_memory = self.used;
        }
        Some(prepared.clone())
    }
}

impl KeptFiles {
    /// Keeps a share of the `limit` of open files.
    pub(super) fn new(limit: u64) -> Arc<Self> {
        let share = usize::try_from(limit / SHARE_OF_LIMIT).unwrap_or(usize::MAX);
        Arc::new(Self { most: share.min(MOST_FILES), kept: Mutex::default() })
    }

    /// Finds a file of this library without waiting for storage, and keeps it open if it is small. `now_s` is the
    /// time in seconds since 1970. Must be called on a tokio runtime.
    ///
    /// The name is looked up each time, so a file that was replaced, changed or removed, or may not be read
    /// any more, is opened again. The lookup also follows symbolic links out of the served folder. If a link
    /// leads to another file, that file is opened again, too, which refuses it. Files of another library are
    /// opened again, since their paths may lead elsewhere.
    pub(super) fn find(
        self: &Arc<Self>,
        library: &Library,
        path: &AssetPath,
        now_s: u64,
    ) -> Option<OpenFile> {
        if let Some(open) = self.used_now(path) {
            if open.is_current(library, path) {
                return Some(open);
            }
            self.kept.lock().files.remove(path);
        }
        let Asset { file, version } = library.find_cached(path)?;
        let representation = version.representation(path.segments().last().unwrap_or_default());
        let (file, representation) = (Arc::new(file), Arc::new(representation));
        let open = OpenFile { file, representation, version, library: library.number() };
        if version.identity.size <= MOST_BYTES && version.age_s(now_s) >= SETTLED_S {
            self.keep(path, &open);
        }
        Some(open)
    }

    /// The response to GET for a small file that is kept open, if its name still refers to the unchanged
    /// file. Never waits for storage, like [`find`](Self::find).
    pub(super) fn prepared(&self, library: &Library, path: &AssetPath, now_s: u64) -> Option<Prepared> {
        let (prepared, version) = {
            let mut kept = self.kept.lock();
            let file = kept.files.get_mut(path).filter(|file| file.open.library == library.number())?;
            (file.prepared(now_s)?, file.open.version)
        };
        (library.version(path) == Some(version)).then_some(prepared)
    }

    fn used_now(&self, path: &AssetPath) -> Option<OpenFile> {
        let mut kept = self.kept.lock();
        let file = kept.files.get_mut(path)?;
        file.used = Instant::now();
        Some(file.open.clone())
    }

    fn keep(self: &Arc<Self>, path: &AssetPath, open: &OpenFile) {
        let mut kept = self.kept.lock();
        if kept.files.len() >= self.most {
            return;
        }
        if !std::mem::replace(&mut kept.is_closing, true) {
            tokio::spawn(Arc::clone(self).close_unused());
        }
        kept.files.insert(path.clone(), KeptFile::new(open.clone()));
    }

    /// Closes unused files, until there are none.
    async fn close_unused(self: Arc<Self>) {
        loop {
            sleep(KEEP / 2).await;
            let (unused, is_closing) = self.take_unused(Instant::now());
            drop(unused);
            if !is_closing {
                return;
            }
        }
    }

    /// Takes the files that were not used for a while, and returns whether others are left to close.
    fn take_unused(&self, now: Instant) -> (Vec<KeptFile>, bool) {
        let mut kept = self.kept.lock();
        let is_unused = |file: &KeptFile| now.saturating_duration_since(file.used) >= KEEP;
        let unused = kept.files.extract_if(|_, file| is_unused(file)).map(|(_, file)| file).collect();
        kept.is_closing = !kept.files.is_empty();
        (unused, kept.is_closing)
    }
}

#[cfg(test)]
mod tests;
