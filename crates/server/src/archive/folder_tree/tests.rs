//! Folders that change, are hostile or are too many.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::super::TimeZone;
use super::*;

const DAYS: &str = "%Y-%m-%d/%H-%M-%S";
const LIMITS: TreeLimits = TreeLimits { names: 1000, folders: 1000 };

/// Archive `cam` in a served folder.
struct TestBed {
    home: TempDir,
    library: Library,
    pattern: NamePattern,
    tree: FolderTree,
    recordings: Recordings,
}

impl TestBed {
    fn new(pattern: &str, limits: TreeLimits, names: &[&str]) -> TestBed {
        let home = tempfile::tempdir().unwrap();
        let cam = home.path().join("media/cam");
        fs::create_dir_all(&cam).unwrap();
        names.iter().for_each(|name| write(&cam.join(name)));
        let library = Library::open(&[home.path().join("media")]).unwrap();
        let pattern = NamePattern::parse(pattern, TimeZone::Utc).unwrap();
        let tree = FolderTree::new(&AssetPath::from_decoded(b"cam").unwrap(), &pattern, limits);
        TestBed { home, library, pattern, tree, recordings: Recordings::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join("media/cam").join(name)
    }

    /// Checks the folders at a time; returns how many were read, and whether recordings changed.
    fn check_at(&mut self, now_s: u64) -> Result<(u64, bool), FindError> {
        let before = self.tree.reads();
        let note = |path: &AssetPath, error: FindError| panic!("{path:?}: {error}");
        let (library, pattern) = (&self.library, &self.pattern);
        self.tree.check(&TreeCheck { library, pattern, now_s, note: &note })?;
        let changed = self.tree.changed_recordings();
        let is_changed = changed.is_some();
        self.recordings = changed.unwrap_or_else(|| std::mem::take(&mut self.recordings));
        Ok((self.tree.reads() - before, is_changed))
    }

    /// Checks the folders long after they were changed; returns how many were read.
    fn check(&mut self) -> u64 {
        self.check_at(u64::MAX).unwrap().0
    }

    fn names(&self) -> Vec<String> {
        let name = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
        self.recordings.all().iter().map(|recording| name(&recording.name)).collect()
    }
}

fn write(file: &Path) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, "").unwrap();
}

/// Changes a folder, so that its version differs even if the clock of the file system is coarse.
fn change(folder: &Path, change: impl FnOnce()) {
    let version = || fs::metadata(folder).map(|stat| (stat.ctime(), stat.ctime_nsec())).unwrap();
    let before = version();
    change();
    while version() == before {
        fs::write(folder.join(".tick"), "").unwrap();
        fs::remove_file(folder.join(".tick")).unwrap();
    }
}

/// Promise: Of an archive's folders, only those that changed are read again; new and removed ones are noticed.
#[test]
fn only_changed_folders_are_read() {
    let names = ["2026-11-23/10-00-00.ts", "2026-11-23/23-59-50.ts", "2026-11-24/00-00-00.ts", "notes/1.ts"];
    let mut bed = TestBed::new(DAYS, LIMITS, &names);
    assert_eq!(bed.check(), 3);
    assert_eq!(bed.names(), names[..3]);
    assert_eq!(bed.tree.folders(), 3);
    assert_eq!(bed.check_at(u64::MAX), Ok((0, false)));

    let day = bed.path("2026-11-24");
    change(&day, || write(&day.join("00-00-10.ts")));
    assert_eq!(bed.check(), 1);
    assert_eq!(bed.names().last().unwrap(), "2026-11-24/00-00-10.ts");

    change(&bed.path(""), || write(&bed.path("2026-11-25/12-00-00.ts")));
    assert_eq!(bed.check(), 2, "the archive's folder and the new one");
    assert_eq!(bed.names().last().unwrap(), "2026-11-25/12-00-00.ts");

    let day = bed.path("2026-11-23");
    change(&day, || fs::remove_file(day.join("10-00-00.ts")).unwrap());
    assert_eq!(bed.check(), 1);
    assert_eq!(bed.names()[0], "2026-11-23/23-59-50.ts");

    change(&bed.path(""), || fs::remove_dir_all(&day).unwrap());
    assert_eq!(bed.check(), 1);
    assert_eq!((bed.names()[0].as_str(), bed.tree.folders()), ("2026-11-24/00-00-00.ts", 3));

    change(&bed.path(""), || fs::rename(bed.path("2026-11-25"), bed.path("2026-11-26")).unwrap());
    assert_eq!(bed.check(), 2);
    assert_eq!(bed.names().last().unwrap(), "2026-11-26/12-00-00.ts");

    change(&bed.path(""), || fs::create_dir(bed.path("2026-11-27")).unwrap());
    assert_eq!(bed.check(), 2);
    assert_eq!(bed.check(), 0);
    fs::remove_dir_all(bed.path("")).unwrap();
    assert_eq!(bed.check_at(u64::MAX), Err(FindError::NotFound));
}

#[test]
fn a_folder_that_just_changed_is_read_again() {
    let mut bed = TestBed::new(DAYS, LIMITS, &["2026-11-23/10-00-00.ts"]);
    let now_s = fs::metadata(bed.path("2026-11-23")).unwrap().ctime().unsigned_abs();
    assert_eq!(bed.check_at(now_s), Ok((2, true)));
    assert_eq!(bed.check_at(now_s), Ok((2, false)), "it may have changed within the clock's resolution");
    assert_eq!(bed.check_at(now_s + 10), Ok((2, false)));
    assert_eq!(bed.check_at(now_s + 10), Ok((0, false)));
    change(&bed.path("2026-11-23"), || ());
    assert_eq!(bed.check(), 1);
    assert_eq!(bed.names(), ["2026-11-23/10-00-00.ts"]);
}

#[test]
fn folders_of_fixed_names_may_come_later() {
    let names =
        ["2026-11-23/10/front/00.00.ts", "2026-11-23/10/back/00.00.ts", "2026-11-23/11/back/00.00.ts"];
    let mut bed = TestBed::new("%Y-%m-%d/%H/front/%M.%S", LIMITS, &names);
    // Folders of fixed names need not be searched.
    assert_eq!(bed.check(), 3);
    assert_eq!(bed.names(), names[..1]);
    write(&bed.path("2026-11-23/11/front/30.00.ts"));
    assert_eq!(bed.check(), 1);
    assert_eq!(bed.names().last().unwrap(), "2026-11-23/11/front/30.00.ts");
    fs::remove_dir_all(bed.path("2026-11-23/10/front")).unwrap();
    assert_eq!(bed.check(), 0);
    assert_eq!(bed.names(), ["2026-11-23/11/front/30.00.ts"]);
}

/// Promise: An archive's folders are searched to the depth of its pattern and not out of the served folder.
#[test]
fn hostile_names_are_no_folders() {
    let names = ["2026-11-23/10-00-00.ts", "2026-11-23/2026-11-24/10-00-00.ts", ".2026-11-25/10-00-00.ts"];
    let mut bed = TestBed::new(DAYS, LIMITS, &names);
    write(&bed.home.path().join("secret/10-00-00.ts"));
    write(&bed.path("2026-11-30"));
    for (name, target) in [
        ("2026-12-01", "../../secret"),
        ("2026-12-02", "/"),
        ("2026-12-03", "2026-12-03"),
        ("2026-12-04", "missing"),
        // Inside: the days are not those of the names in it.
        ("2026-12-05", "2026-11-23"),
        ("2026-12-06", "."),
        ("2026-12-07", "/dev/null"),
    ] {
        symlink(target, bed.path(name)).unwrap();
    }
    bed.check();
    assert_eq!(bed.names(), ["2026-11-23/10-00-00.ts", "2026-12-05/10-00-00.ts"]);
    assert_eq!(bed.check(), 0);
}

/// Promise: Of too many folders or names of an archive the oldest are left out, until others are removed.
#[test]
fn the_oldest_folders_are_beyond_the_limits() {
    let days = (1..=5).flat_map(|day| (0..3).map(move |hour| format!("2026-11-0{day}/{hour:02}-00-00.ts")));
    let days: Vec<String> = days.collect();
    let names: Vec<&str> = days.iter().map(String::as_str).collect();
    let mut bed = TestBed::new(DAYS, TreeLimits { folders: 3, ..LIMITS }, &names);
    bed.check();
    assert_eq!(bed.names(), names[9..]);
    change(&bed.path(""), || fs::remove_dir_all(bed.path("2026-11-05")).unwrap());
    bed.check();
    assert_eq!(bed.names(), names[6..12]);

    // The archive's folder has 7 names, and each day has 5: `.` and `..` are two of them.
    let mut bed = TestBed::new(DAYS, TreeLimits { names: 7 + 5 + 5 + 2, ..LIMITS }, &names);
    bed.check();
    assert!(bed.names().ends_with(&days[9..]) && bed.names().len() < 9, "{:?}", bed.names());
    assert_eq!(bed.check(), 0);
    change(&bed.path(""), || fs::remove_dir_all(bed.path("2026-11-05")).unwrap());
    bed.check();
    assert!(bed.names().ends_with(&days[6..12]), "{:?}", bed.names());
}
