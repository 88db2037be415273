//! Folders that change, are hostile or are too many.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
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
    /// Folders that could not be read, and why.
    notes: RefCell<Vec<(String, FindError)>>,
}

impl TestBed {
    fn new(pattern: &str, limits: TreeLimits, names: &[&str]) -> TestBed {
        let home = tempfile::tempdir().unwrap();
        let cam = home.path().join("media/cam");
        fs::create_dir_all(&cam).unwrap();
        names.iter().for_each(|name| write(&cam.join(name)));
        let library = Library::open(&[home.path().join("media")]).unwrap();
        let pattern = NamePattern::parse(pattern, TimeZone::Utc).unwrap();
        let tree = FolderTree::new(&AssetPath::from_decoded(b"cam").unwrap(), &pattern, limits).unwrap();
        let (recordings, notes) = (Recordings::default(), RefCell::default());
        TestBed { home, library, pattern, tree, recordings, notes }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join("media/cam").join(name)
    }

    /// Checks the folders at a time; returns how many were read, and whether recordings changed.
    fn check_at(&mut self, now_s: u64) -> Result<(u64, bool), FindError> {
        let before = self.tree.reads();
        let path = |path: &AssetPath| String::from_utf8(path.as_bytes().to_vec()).unwrap();
        let note = |folder: &AssetPath, error| self.notes.borrow_mut().push((path(folder), error));
        let (library, pattern) = (&self.library, &self.pattern);
        self.tree.check(&TreeCheck { library, pattern, now_s, note: &note })?;
        let changed = self.tree.changed_recordings();
        let is_changed = changed.is_some();
        self.recordings = changed.unwrap_or_else(|| std::mem::take(&mut self.recordings));
        Ok((self.tree.reads() - before, is_changed))
    }

    /// Checks the folders long after they were changed; returns how many were read.
    fn check(&mut self) -> u64 {
        let reads = self.check_at(u64::MAX).unwrap().0;
        assert_eq!(self.noted(), []);
        reads
    }

    /// Folders that could not be read since the last call, and why.
    fn noted(&self) -> Vec<(String, FindError)> {
        self.notes.take()
    }

    /// Checks the folders as a user other than root, to whom permissions apply.
    fn check_without_privileges(&mut self) -> Result<(u64, bool), FindError> {
        std::thread::scope(|scope| {
            let check = scope.spawn(|| {
                let none = CapabilitySet::empty();
                let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
                // Those of this thread only.
                set_capabilities(None, none).unwrap();
                self.check_at(u64::MAX)
            });
            check.join().unwrap()
        })
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

    // The archive's folder has 5 names, and each day has 3. Files of other names do not count.
    let mut bed = TestBed::new(DAYS, TreeLimits { names: 5 + 3 + 3 + 2, ..LIMITS }, &names);
    (0..20).for_each(|number| write(&bed.path(&format!("2026-11-04/note-{number}.txt"))));
    (0..20).for_each(|number| write(&bed.path(&format!("note-{number}.txt"))));
    bed.check();
    assert_eq!(bed.names(), days[7..]);
    assert_eq!(bed.check(), 0);
    change(&bed.path(""), || fs::remove_dir_all(bed.path("2026-11-05")).unwrap());
    bed.check();
    assert_eq!(bed.names(), days[3..12]);
}

/// Promise: The limit of an archive's names also holds while it grows: new recordings replace the oldest ones.
#[test]
fn a_growing_archive_keeps_its_limits() {
    let days = (1..=4).flat_map(|day| (0..3).map(move |hour| format!("2026-11-0{day}/{hour:02}-00-00.ts")));
    let days: Vec<String> = days.collect();
    let names: Vec<&str> = days.iter().map(String::as_str).collect();
    let mut bed = TestBed::new(DAYS, TreeLimits { names: 3 + 9, ..LIMITS }, &names[..9]);
    bed.check();
    assert_eq!((bed.names(), bed.tree.is_cut), (days[..9].to_vec(), false));

    change(&bed.path(""), || names[9..].iter().for_each(|name| write(&bed.path(name))));
    bed.check();
    assert_eq!((bed.names(), bed.tree.is_cut), (days[4..].to_vec(), true));
    assert_eq!(bed.check_at(u64::MAX), Ok((0, false)));

    let day = bed.path("2026-11-04");
    change(&day, || (3..7).for_each(|hour| write(&day.join(format!("{hour:02}-00-00.ts")))));
    assert_eq!(bed.check(), 1);
    assert_eq!(bed.names()[..1], days[8..9]);
    assert_eq!(bed.names().len(), 8);

    change(&day, || {
        (1..7).for_each(|hour| fs::remove_file(day.join(format!("{hour:02}-00-00.ts"))).unwrap())
    });
    bed.check();
    assert_eq!(bed.names(), days[2..10]);

    // Of one folder, too.
    let mut bed = TestBed::new("%s", TreeLimits { names: 3, ..LIMITS }, &["5.ts", "3.ts", "8.ts", "1.ts"]);
    bed.check();
    assert_eq!(bed.names(), ["3.ts", "5.ts", "8.ts"]);
    change(&bed.path(""), || (10..90).for_each(|time| write(&bed.path(&format!("{time}.ts")))));
    bed.check();
    assert_eq!(bed.names(), ["87.ts", "88.ts", "89.ts"]);
}

#[test]
fn only_permitted_folders_are_kept() {
    let names = (1000..2000).map(|year| format!("{year}/1.ts")).collect::<Vec<_>>();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bed = TestBed::new("%Y/%j-%H%M", TreeLimits { folders: 11, ..LIMITS }, &names);
    assert_eq!(bed.check(), 11);
    let kept = bed.tree.root.folders();
    assert_eq!((kept.len(), kept[0].as_slice(), bed.tree.is_cut), (10, b"1990".as_slice(), true));
    assert_eq!(bed.check(), 0);
}

/// Promise: A folder of an archive that cannot be read now keeps its recordings until it can be read or is
/// removed.
#[test]
fn folders_that_cannot_be_read_keep_their_recordings() {
    let names = ["2026-11-23/10-00-00.ts", "2026-11-24/00-00-00.ts"];
    let permit = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let failed = |folder: &str| (format!("cam{folder}"), FindError::Forbidden);

    let mut bed = TestBed::new(DAYS, LIMITS, &names);
    permit(&bed.path(""), 0);
    assert_eq!(bed.check_without_privileges(), Err(FindError::Forbidden), "nothing is known yet");
    permit(&bed.path(""), 0o755);
    assert_eq!(bed.check(), 3);

    let day = bed.path("2026-11-24");
    permit(&day, 0);
    change(&bed.path(""), || write(&bed.path("2026-11-25/12-00-00.ts")));
    assert_eq!(bed.check_without_privileges(), Ok((2, true)));
    assert_eq!(bed.names(), [names[0], names[1], "2026-11-25/12-00-00.ts"]);
    assert_eq!(bed.noted(), [failed("/2026-11-24")]);
    // The archive's folder cannot be searched, either.
    permit(&bed.path(""), 0);
    assert_eq!(bed.check_without_privileges(), Ok((0, false)));
    assert_eq!(bed.noted(), [failed(""), failed("/2026-11-25"), failed("/2026-11-23")], "each is noted once");
    assert_eq!(bed.names().len(), 3);

    permit(&bed.path(""), 0o755);
    permit(&day, 0o755);
    fs::remove_dir_all(&day).unwrap();
    bed.check();
    assert_eq!(bed.names(), [names[0], "2026-11-25/12-00-00.ts"]);
}

/// Promise: Checks of an archive on slow storage have pauses as long as the last check, at most ten seconds.
#[test]
fn checks_that_take_long_have_pauses() {
    assert_eq!(pause(Duration::from_millis(90)), Duration::ZERO);
    assert_eq!(pause(Duration::from_secs(3)), Duration::from_millis(2900));
    assert_eq!(pause(Duration::from_secs(300)), Duration::from_secs(10));
    let mut bed = TestBed::new(DAYS, LIMITS, &["2026-11-23/10-00-00.ts"]);
    bed.check();
    change(&bed.path(""), || fs::remove_dir_all(bed.path("2026-11-23")).unwrap());
    bed.tree.next_check = Some(Instant::now() + Duration::from_secs(3600));
    assert_eq!(bed.check_at(u64::MAX), Ok((0, false)));
    bed.tree.next_check = Some(Instant::now());
    assert_eq!(bed.check_at(u64::MAX), Ok((1, true)));
    assert_eq!(bed.names(), [""; 0]);
}
