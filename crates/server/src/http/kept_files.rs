//! Small files that stay open for a while after a request.
//!
//! To open a file within its folder, to look at its metadata and to close it takes 2.9 µs of the kernel; to look
//! up the metadata of its name, 0.9 µs (AMD EPYC, Linux 6.18).

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::time::sleep;
use wirepath_http::{AssetPath, Representation};

use crate::library::{Asset, Library, Version};

/// Largest file that stays open: closing one that was deleted meanwhile frees its blocks.
const MOST_BYTES: u64 = 1 << 20;

/// Time for which a file stays open after its last request; the space of one that was deleted is in use as long. Files
/// are closed up to half of this time later.
const KEEP: Duration = Duration::from_secs(2);

/// Least age of a file's last change: one that follows within the resolution of its file system's timestamps, which
/// is a second at most, could not be seen.
const SETTLED_S: i64 = 2;

/// Most files that stay open, and the share of the limit of open files that they may take.
const MOST_FILES: usize = 256;
const SHARE_OF_LIMIT: u64 = 64;

/// Open files by the paths that they were requested by.
#[derive(Debug)]
pub(super) struct KeptFiles {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    files: HashMap<AssetPath, KeptFile>,
    /// A task closes unused files, until there are none.
    is_closing: bool,
}

/// An open file, and its metadata for HTTP.
#[derive(Clone, Debug)]
pub(super) struct OpenFile {
    pub(super) file: Arc<File>,
    pub(super) representation: Arc<Representation>,
    version: Version,
}

#[derive(Debug)]
struct KeptFile {
    open: OpenFile,
    used: Instant,
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
    /// The name is looked up each time, so a file that was replaced, changed or removed, or may not be read any more,
    /// is opened anew. That look-up follows symbolic links also out of the served folder; if they lead to another
    /// file, it is opened anew, too, and so refused.
    pub(super) fn find(
        self: &Arc<Self>,
        library: &Library,
        path: &AssetPath,
        now_s: u64,
    ) -> Option<OpenFile> {
        if let Some(open) = self.used_now(path) {
            if library.version(path) == Some(open.version) {
                return Some(open);
            }
            self.kept.lock().files.remove(path);
        }
        let Asset { file, version } = library.find_cached(path)?;
        let representation = version.representation(path.segments().last().unwrap_or_default());
        let open = OpenFile { file: Arc::new(file), representation: Arc::new(representation), version };
        if version.identity.size <= MOST_BYTES && version.age_s(now_s) >= SETTLED_S {
            self.keep(path, &open);
        }
        Some(open)
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
        kept.files.insert(path.clone(), KeptFile { open: open.clone(), used: Instant::now() });
    }

    /// Closes files that are not used, until there are none.
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

    /// Takes the files that were not used for a while, and tells whether others are left to close.
    fn take_unused(&self, now: Instant) -> (Vec<KeptFile>, bool) {
        let mut kept = self.kept.lock();
        let is_unused = |file: &KeptFile| now.saturating_duration_since(file.used) >= KEEP;
        let unused = kept.files.extract_if(|_, file| is_unused(file)).map(|(_, file)| file).collect();
        kept.is_closing = !kept.files.is_empty();
        (unused, kept.is_closing)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::read_to_string;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;
    use crate::library::FindError;

    /// Later than the last change of any file here.
    const LATER_S: u64 = 1 << 40;

    struct Bed {
        folder: TempDir,
        library: Library,
        kept: Arc<KeptFiles>,
    }

    impl Bed {
        /// `media/clip.ts` to be served, and a secret beside it; so many files stay open.
        fn new(most: u64) -> Bed {
            let folder = tempfile::tempdir().expect("a folder");
            fs::create_dir(folder.path().join("media")).expect("created");
            fs::write(folder.path().join("secret.ts"), "secret").expect("written");
            fs::write(folder.path().join("media/clip.ts"), "clip").expect("written");
            let library = Library::open(&[folder.path().join("media")]).expect("a library");
            Bed { folder, library, kept: KeptFiles::new(most * SHARE_OF_LIMIT) }
        }

        fn clip(&self) -> std::path::PathBuf {
            self.folder.path().join("media/clip.ts")
        }

        fn find(&self, name: &str, now_s: u64) -> Option<Arc<File>> {
            let path = AssetPath::decode(name).expect("a path");
            // The kernel has the name from now on.
            drop(self.library.find_file(&path));
            self.kept.find(&self.library, &path, now_s).map(|open| open.file)
        }

        fn replace(&self, content: &str) {
            let new = self.folder.path().join("new");
            fs::write(&new, content).expect("written");
            fs::rename(new, self.clip()).expect("renamed");
        }
    }

    fn with_runtime(test: impl FnOnce()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let _inside = runtime.enter();
        test();
    }

    fn content(file: &File) -> String {
        let mut file = file;
        std::io::Seek::rewind(&mut file).expect("a file");
        read_to_string(file).expect("read")
    }

    /// Promise: A small file stays open between requests; one that was changed, replaced or removed is noticed at once.
    #[test]
    fn a_file_stays_open_until_its_name_stands_for_another() {
        with_runtime(|| {
            let bed = Bed::new(4);
            let found = || bed.find("/clip.ts", LATER_S).expect("it is there");
            let same = |first: &Arc<File>| Arc::ptr_eq(first, &found());
            let first = found();
            assert!(same(&first) && content(&first) == "clip");

            bed.replace("other");
            let second = found();
            assert!(!Arc::ptr_eq(&first, &second) && content(&second) == "other");
            assert_eq!(Arc::strong_count(&first), 1, "the old one is not kept");

            fs::write(bed.clip(), "longer than before").expect("written");
            let third = found();
            assert!(!Arc::ptr_eq(&second, &third) && content(&third) == "longer than before");

            fs::set_permissions(bed.clip(), fs::Permissions::from_mode(0o640)).expect("set");
            assert!(!same(&third), "who may read it is asked anew");

            fs::remove_file(bed.clip()).expect("removed");
            assert!(bed.find("/clip.ts", LATER_S).is_none());
            let link = |target: &Path| symlink(target, bed.clip()).expect("linked");
            link(Path::new("../secret.ts"));
            assert!(bed.find("/clip.ts", LATER_S).is_none(), "links do not lead out");
        });
    }

    /// A kept file whose name becomes a link out of the folder.
    #[test]
    fn a_name_that_comes_to_lead_out_of_the_folder_is_refused() {
        with_runtime(|| {
            let bed = Bed::new(4);
            let kept = bed.find("/clip.ts", LATER_S).expect("it is there");
            fs::remove_file(bed.clip()).expect("removed");
            symlink("../secret.ts", bed.clip()).expect("linked");
            assert!(bed.find("/clip.ts", LATER_S).is_none());
            assert_eq!(Arc::strong_count(&kept), 1);
            let path = AssetPath::decode("/clip.ts").expect("a path");
            assert!(matches!(bed.library.find_file(&path), Err(FindError::NotFound)));
        });
    }

    /// Files stay open within a limit, if their timestamps would show a change, and if closing them is fast.
    #[test]
    fn few_small_settled_files_are_kept() {
        with_runtime(|| {
            let bed = Bed::new(1);
            let is_kept = |name: &str, now_s| {
                let first = bed.find(name, now_s).expect("it is there");
                Arc::ptr_eq(&first, &bed.find(name, now_s).expect("it is there"))
            };
            let changed_s = fs::metadata(bed.clip()).expect("metadata").ctime().unsigned_abs();
            assert!(!is_kept("/clip.ts", changed_s + 1), "it may have changed again within that second");
            let large = File::create(bed.folder.path().join("media/large.ts")).expect("created");
            large.set_len(MOST_BYTES + 1).expect("extended");
            assert!(!is_kept("/large.ts", LATER_S));
            assert!(is_kept("/clip.ts", changed_s + 2));
            fs::write(bed.folder.path().join("media/second.ts"), "second").expect("written");
            assert!(!is_kept("/second.ts", LATER_S), "one is the limit");
        });
    }

    /// Promise: A file that stays open is closed some seconds after its last request.
    #[test]
    fn unused_files_are_closed() {
        with_runtime(|| {
            let bed = Bed::new(4);
            let file = Arc::downgrade(&bed.find("/clip.ts", LATER_S).expect("it is there"));
            let (unused, is_closing) = bed.kept.take_unused(Instant::now());
            assert!(unused.is_empty() && is_closing && file.upgrade().is_some());
            let (unused, is_closing) = bed.kept.take_unused(Instant::now() + KEEP);
            assert!(unused.len() == 1 && !is_closing);
            drop(unused);
            assert!(file.upgrade().is_none());
        });
    }

    #[test]
    fn one_task_closes_files() {
        with_runtime(|| {
            let bed = Bed::new(4);
            for content in ["second", "third", "fourth"] {
                bed.find("/clip.ts", LATER_S).expect("it is there");
                assert_eq!(Arc::strong_count(&bed.kept), 2, "this test and the task");
                bed.replace(content);
            }
        });
    }
}
