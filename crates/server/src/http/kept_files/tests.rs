//! Kept files while their names are replaced or become links, and the rules for closing them.

use std::fs;
use std::io::read_to_string;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::library::FindError;

/// Later than the last change of any file in these tests.
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
        // From now on the name is in the kernel's cache.
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

/// Promise: A file that is kept open is not sent by a path of another library that refuses it.
#[test]
fn a_kept_file_is_of_one_library() {
    with_runtime(|| {
        let bed = Bed::new(4);
        assert!(bed.find("/clip.ts", LATER_S).is_some());
        let other = bed.folder.path().join("other");
        fs::create_dir(&other).expect("created");
        symlink("../media/clip.ts", other.join("clip.ts")).expect("linked");
        let library = Library::open(&[other]).expect("a library");
        let path = AssetPath::decode("/clip.ts").expect("a path");
        assert_eq!(library.version(&path), bed.library.version(&path), "it is the same file");
        assert!(bed.kept.prepared(&bed.library, &path, LATER_S).is_some());
        assert!(bed.kept.prepared(&library, &path, LATER_S).is_none());
        assert!(bed.kept.find(&library, &path, LATER_S).is_none());
    });
}

/// Promise: A small file stays open between requests; a change, replacement or removal is noticed at the next
/// request.
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

/// Change of the file that the name `clip.ts` in the folder `sub` refers to.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// A new file, moved to the name.
    Replace,
    /// The file itself, shorter or longer.
    Resize(u8),
    /// The file itself, of the same size.
    Rewrite,
    Remove,
    Permit,
    /// The name becomes a link to a file beside it, or out of the folder.
    Link {
        leads_out: bool,
    },
    /// The folder becomes a link to another folder, inside or outside the served one.
    LinkFolder {
        leads_out: bool,
    },
    /// The folder is one again.
    RestoreFolder,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        Just(Change::Replace),
        any::<u8>().prop_map(Change::Resize),
        Just(Change::Rewrite),
        Just(Change::Remove),
        Just(Change::Permit),
        any::<bool>().prop_map(|leads_out| Change::Link { leads_out }),
        any::<bool>().prop_map(|leads_out| Change::LinkFolder { leads_out }),
        Just(Change::RestoreFolder),
    ]
}

impl Change {
    /// Makes the change in this folder, with content of this number. A change that cannot be made is skipped.
    fn make(self, root: &Path, number: usize) {
        let (sub, clip) = (root.join("media/sub"), root.join("media/sub/clip.ts"));
        let text = format!("{number:04}");
        let link = |target: &str, name: &Path| {
            let new = root.join("link");
            symlink(target, &new).and_then(|()| fs::rename(&new, name)).or_else(|_| fs::remove_file(&new))
        };
        let made = match self {
            Change::Replace => {
                fs::write(root.join("new"), text).and_then(|()| fs::rename(root.join("new"), clip))
            }
            Change::Resize(length) => fs::write(clip, text.repeat(length.into())),
            Change::Rewrite => {
                File::options().write(true).open(clip).and_then(|file| file.write_all_at(text.as_bytes(), 0))
            }
            Change::Remove => fs::remove_file(clip),
            Change::Permit => {
                fs::set_permissions(clip, fs::Permissions::from_mode(0o600 | (number as u32 & 0o77)))
            }
            Change::Link { leads_out: true } => link("../../secret.ts", &clip),
            Change::Link { leads_out: false } => link("beside.ts", &clip),
            Change::LinkFolder { leads_out } => {
                let moved = fs::rename(&sub, root.join("media/real"));
                moved.and_then(|()| link(if leads_out { "../outside" } else { "other" }, &sub))
            }
            Change::RestoreFolder => {
                let is_link = fs::symlink_metadata(&sub).is_ok_and(|stat| stat.is_symlink());
                let restore =
                    || fs::remove_file(&sub).and_then(|()| fs::rename(root.join("media/real"), &sub));
                if is_link { restore() } else { Ok(()) }
            }
        };
        drop(made);
    }
}

/// Body of a prepared response.
fn body(prepared: &Prepared) -> String {
    content(prepared.body.file())
}

proptest! {
    /// Promise: An open file is served only if its name still refers to it at the request, confined to the
    /// folder.
    #[test]
    fn what_is_kept_is_what_a_name_stands_for_now(changes in prop::collection::vec(change(), 1..24)) {
        with_runtime(|| {
            let bed = Bed::new(4);
            let root = bed.folder.path();
            for folder in ["media/sub", "media/other", "outside"] {
                fs::create_dir(root.join(folder)).expect("created");
                fs::write(root.join(folder).join("clip.ts"), folder).expect("written");
            }
            fs::write(root.join("media/sub/beside.ts"), "beside").expect("written");
            let path = AssetPath::decode("/sub/clip.ts").expect("a path");
            for (number, change) in changes.iter().enumerate() {
                change.make(root, number);
                let expected = bed.library.find_file(&path).ok().map(|asset| content(&asset.file));
                // The first request opens the file, the second one finds it open, and the lookup of its
                // prepared response does, too.
                for _ in 0..2 {
                    let prepared = bed.kept.prepared(&bed.library, &path, LATER_S).map(|found| body(&found));
                    assert!(prepared.is_none() || prepared == expected, "{changes:?}: {prepared:?}");
                    let found = bed.kept.find(&bed.library, &path, LATER_S).map(|open| content(&open.file));
                    assert!(found.is_none() || found == expected, "{changes:?}: {found:?}");
                }
            }
        });
    }
}

/// Promise: A repeated request for an unchanged small file is answered with a prepared head.
#[test]
fn responses_are_prepared_for_the_second_request() {
    with_runtime(|| {
        let bed = Bed::new(4);
        let path = AssetPath::decode("/clip.ts").expect("a path");
        let prepared = || bed.kept.prepared(&bed.library, &path, LATER_S);
        assert!(prepared().is_none(), "it is not open");
        bed.find("/clip.ts", LATER_S).expect("it is there");
        let first = prepared().expect("it is in the page cache");
        assert_eq!(body(&first), "clip");
        assert!(Arc::ptr_eq(&first.body, &prepared().expect("as before").body));
        let modified_s = fs::metadata(bed.clip()).expect("metadata").mtime().unsigned_abs();
        assert!(bed.kept.prepared(&bed.library, &path, modified_s).is_none(), "its tag is a weak one then");
        bed.replace("other");
        assert!(prepared().is_none());
        assert_eq!(body(&first), "clip", "one that is being sent stays as it was");
    });
}

/// Files stay open only within a limit, if their timestamps would show a change, and if closing them is fast.
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

/// Promise: A cached open file is closed some seconds after its last request.
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
