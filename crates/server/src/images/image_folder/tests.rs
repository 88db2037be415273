//! The cache folder: budget, full disks, and files of others.

use super::*;
use std::time::Duration;

fn cache(budget: u64) -> (tempfile::TempDir, ImageFolder) {
    let folder = tempfile::tempdir().unwrap();
    let cache = ImageFolder::open(&folder.path().join("images"), budget).unwrap();
    (folder, cache)
}

/// The name of a test image.
fn named(label: &str) -> String {
    let inode = label.bytes().fold(0u64, |inode, byte| inode << 8 | u64::from(byte));
    format!("fd00-{inode:x}-7x20000")
}

/// An image of 10,000 bytes that was last used `age` seconds ago.
fn add(cache: &ImageFolder, name: &str, age: u64) {
    let draft = cache.begin(&named(name), 12_000).unwrap();
    let handle = draft.file().try_clone().unwrap();
    draft.publish(10_000).unwrap();
    handle.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
}

/// Promise: A wire image is written atomically: the cache has a complete image or none.
#[test]
fn there_is_a_whole_image_or_none() {
    let (_folder, cache) = cache(100_000);
    let draft = cache.begin(&named("a"), 5000).unwrap();
    assert!(cache.find(&named("a")).unwrap().is_none());
    drop(draft);
    assert_eq!(cache.used(), 0);
    add(&cache, "a", 0);
    assert_eq!(cache.find(&named("a")).unwrap().unwrap().metadata().unwrap().len(), 10_000);
}

/// Promise: An image packed by root belongs to the owner of the cache folder.
#[test]
fn an_image_belongs_to_the_owner_of_the_folder() {
    let (_folder, cache) = cache(100_000);
    if geteuid().is_root() {
        std::os::unix::fs::chown(cache.path.as_path(), Some(65_534), Some(65_534)).unwrap();
    }
    add(&cache, "a", 0);
    let owner = |path: &Path| (fs::metadata(path).unwrap().uid(), fs::metadata(path).unwrap().gid());
    assert_eq!(owner(&cache.path_of(&named("a"))), owner(cache.path.as_path()));
}

/// Promise: The image cache keeps to its budget and evicts the least recently used first, never an image in
/// use.
#[test]
fn the_least_recently_used_goes_first_and_never_one_in_use() {
    let (_folder, cache) = cache(40_000);
    add(&cache, "old", 300);
    add(&cache, "older", 400);
    add(&cache, "new", 100);
    let in_use = cache.find(&named("older")).unwrap().unwrap();
    // Now `older` is the most recently used and in use; keep it only for the second reason.
    in_use.set_modified(SystemTime::now() - Duration::from_secs(400)).unwrap();
    add(&cache, "another", 0);
    let there = ["old", "older", "new", "another"].map(|name| cache.find(&named(name)).unwrap().is_some());
    assert_eq!(there, [false, true, true, true]);
}

#[test]
fn what_does_not_fit_is_an_error_that_says_what_to_do() {
    let (_folder, cache) = cache(20_000);
    add(&cache, "a", 0);
    let _in_use = cache.find(&named("a")).unwrap().unwrap();
    let error = cache.begin(&named("b"), 12_000).unwrap_err().to_string();
    assert!(error.contains("--cache-size") && error.contains("12000"), "{error}");
    assert!(cache.find(&named("a")).unwrap().is_some());
}

/// Promise: On a full disk, images are evicted one by one, least recently used first, never an image in use.
#[test]
fn a_full_disk_or_quota_costs_the_least_recently_used_one_by_one_and_never_one_in_use() {
    for full in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
        let (_folder, cache) = cache(1 << 30);
        for (name, age) in [("in-use", 400), ("older", 300), ("old", 200), ("new", 100)] {
            add(&cache, name, age);
        }
        let in_use = cache.find(&named("in-use")).unwrap().unwrap();
        in_use.set_modified(SystemTime::now() - Duration::from_secs(400)).unwrap();
        let full_until = |images: usize| {
            let folder = cache.path.as_path().to_owned();
            move |_: &File, _: u64| {
                let left = fs::read_dir(&folder).unwrap().count() - 1; // without the draft
                if left > images { Err(full.into()) } else { Ok(()) }
            }
        };
        drop(cache.begin_with(&named("a"), 5000, full_until(2)).unwrap());
        let names = ["in-use", "older", "old", "new"];
        assert_eq!(names.map(|name| cache.path_of(&named(name)).exists()), [true, false, false, true]);

        let error = cache.begin_with(&named("a"), 5000, full_until(0)).unwrap_err().to_string();
        assert!(error.contains("5000") && error.contains("--cache-size"), "{error}");
        assert_eq!(names.map(|name| cache.path_of(&named(name)).exists()), [true, false, false, false]);
        assert_eq!(fs::read_dir(cache.path.as_path()).unwrap().count(), 1, "nothing unfinished is left");
    }
}

#[test]
fn only_the_file_that_was_found_damaged_is_removed() {
    let (_folder, cache) = cache(100_000);
    add(&cache, "a", 0);
    let damaged = cache.find(&named("a")).unwrap().unwrap();
    add(&cache, "a", 0);
    cache.remove(&named("a"), &damaged).unwrap();
    let good = cache.find(&named("a")).unwrap().expect("another file has the name by now");
    cache.remove(&named("a"), &good).unwrap();
    assert!(cache.find(&named("a")).unwrap().is_none());
    cache.remove(&named("a"), &good).unwrap();
}

/// Promise: Only files with image names are counted or removed in the cache folder.
/// Promise: If packing is killed, a later start does not use the incomplete files.
#[test]
fn what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not() {
    let (folder, cache) = cache(100_000);
    let path = folder.path().join("images");
    let left = path.join(format!("{}.0123456789abcdef.part", named("x")));
    fs::write(&left, [0; 100]).unwrap();
    let of_others = [
        "somebody-else.txt".to_owned(),
        "film.mkv.part".to_owned(),
        "film.wpi".to_owned(),
        format!("{}.part", named("x")),
        format!("{}.0123.part", named("x")),
        "film.0123456789abcdef.part".to_owned(),
    ];
    of_others.iter().for_each(|name| fs::write(path.join(name), "kept").unwrap());
    let living = cache.begin(&named("y"), 5000).unwrap();
    ImageFolder::open(&path, 100_000).unwrap();
    assert!(!left.exists());
    for name in &of_others {
        assert!(path.join(name).exists(), "{name} is not ours to remove");
    }
    living.publish(5000).unwrap();
    assert!(cache.find(&named("y")).unwrap().is_some());
}

#[test]
fn what_is_used_is_known_whatever_happened() {
    let (_folder, cache) = cache(1 << 20);
    let taken = || taken_by(&entries(cache.path.as_path()).unwrap());
    let draft = cache.begin(&named("a"), 200_000).unwrap();
    assert!(cache.used() >= 200_000 && cache.used() == taken());
    draft.publish(10_000).unwrap();
    assert!((10_000..100_000).contains(&cache.used()) && cache.used() == taken(), "{}", cache.used());
    let one = cache.used();
    drop(cache.begin(&named("b"), 200_000).unwrap());
    assert_eq!(cache.used(), one, "what was not finished takes nothing");
    cache.begin(&named("a"), 10_000).unwrap().publish(10_000).unwrap();
    assert_eq!(cache.used(), one, "one in place of the other");
    let file = cache.find(&named("a")).unwrap().unwrap();
    cache.remove(&named("a"), &file).unwrap();
    assert_eq!(cache.used(), 0);
}

#[test]
fn names_of_images_are_known_from_others() {
    for (name, is_one) in [
        (named("a"), true),
        ("0-1-7x20000".to_owned(), true),
        ("0-1-7x".to_owned(), false),
        ("0-1-07x20000".to_owned(), false),
        ("0-1-+7x20000".to_owned(), false),
        ("0-A-7x20000".to_owned(), false),
        ("0-1-2-7x20000".to_owned(), false),
        (String::new(), false),
    ] {
        assert_eq!(Key::is_name(&name), is_one, "{name}");
    }
}
