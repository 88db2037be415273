//! Room on a disk that is full.

use super::*;
use crate::cache::store::writing::is_full;

use wirepath_testkit::SmallDisk;

/// A store on a disk of 1 MiB, if such a disk can be made here.
fn small_stage() -> Option<(SmallDisk, Stage)> {
    match SmallDisk::new(1 << 20) {
        Ok(disk) => {
            let folder = tempfile::tempdir_in(disk.path()).unwrap();
            Some((disk, Stage::of(folder, PLENTY)))
        }
        Err(error) => {
            println!("SKIP: no disk of its own can be made here: {error}");
            None
        }
    }
}

/// Fills what is left of the disk.
fn fill(disk: &SmallDisk) {
    let mut file = disk.create("fill").unwrap();
    let end = loop {
        if let Err(error) = file.write_all(&[7; 4096]) {
            break error;
        }
    };
    assert!(is_full(&end), "{end}");
}

/// The entry's head as a 304 makes it that says `X: new`.
fn renewed(kept: &Kept) -> Entry {
    let response = OriginResponse::read(b"HTTP/1.1 304 Not Modified\r\nX: new\r\n\r\n", &Method::GET)
        .unwrap()
        .unwrap()
        .0;
    kept.entry.renewed(&HeaderMap::new(), &response, SystemTime::now()).unwrap()
}

fn is_renewed(stage: &Stage, url: &str) -> bool {
    stage.store.find(&key(url), url).unwrap().entry.fields.contains_key("x")
}

/// Promise: On a full disk entries make room for records; a renewed head is kept in memory.
#[test]
fn a_record_has_others_go_on_a_full_disk() {
    let Some((disk, stage)) = small_stage() else { return };
    let (first, urls) = ("http://o/a", ["http://o/b", "http://o/c", "http://o/d"]);
    let kept = stage.keep(first, b"body");
    urls.iter().for_each(|url| drop(stage.keep(url, &[1; 100_000])));
    let writing = stage.reserve("http://o/new", 100_000).unwrap();
    writing.file.write_all_at(&[2; 100_000], 0).unwrap();
    fill(&disk);
    // What is renewed was not used for longest, and stays.
    stage.store.renew(&kept, renewed(&kept)).unwrap();
    assert_eq!((stage.store.size().0, stage.counters.evictions.load(Relaxed)), (3, 1));
    drop(fs::remove_file(disk.path().join("fill")));
    fill(&disk);
    writing.keep(entry("http://o/new", 100_000)).unwrap();
    assert_eq!((stage.store.size().0, stage.counters.evictions.load(Relaxed)), (3, 2));
    let stage = stage.again(PLENTY);
    assert!(is_renewed(&stage, first));
    assert_eq!(stage.body("http://o/new").unwrap(), [2; 100_000]);
    assert_eq!(urls.map(|url| stage.body(url).is_some()), [false, false, true]);
}

/// Promise: On a full disk entries make room for records; a renewed head is kept in memory.
#[test]
fn a_head_that_cannot_be_written_down_is_used_until_the_end() {
    let Some((disk, stage)) = small_stage() else { return };
    let kept = stage.keep("http://o/a", b"body");
    fill(&disk);
    stage.store.renew(&kept, renewed(&kept)).unwrap();
    assert!(is_renewed(&stage, "http://o/a"));
    assert_eq!(stage.body("http://o/a").unwrap(), b"body");
    assert_eq!(stage.names().len(), 2);
    let stage = stage.again(PLENTY);
    assert!(!is_renewed(&stage, "http://o/a"));
    assert_eq!(stage.body("http://o/a").unwrap(), b"body");
}

/// Promise: Entries are evicted as a body grows, not for the length that its head claims.
#[test]
fn others_go_as_a_body_grows_and_not_for_what_its_head_says() {
    let budget = 10 * cost(100_000);
    let stage = Stage::new(budget);
    for number in 0..8 {
        stage.keep(&format!("http://o/{number}"), &[1; 100_000]);
    }
    let writing = stage.reserve("http://o/large", 900_000).unwrap();
    assert!(stage.reserve("http://o/other", 200_000).is_none(), "all is promised");
    assert_eq!((stage.store.size().0, stage.counters.evictions.load(Relaxed)), (8, 0));
    let (mut come, mut entries) = (0, vec![]);
    while come < 900_000 {
        come = Room::next(come, 900_000);
        assert!(writing.room().take(come).unwrap());
        let (kept, bytes) = stage.store.size();
        assert!(bytes <= budget, "{bytes}");
        entries.push(kept);
    }
    // 64 KiB, and then twice as much each time.
    assert_eq!((entries, come), (vec![8, 8, 7, 5, 1], 900_000));
    drop(writing);
    assert_eq!(stage.store.size(), (1, cost(100_000)));
}

/// Promise: Entries are evicted as a body grows, not for the length that its head claims.
#[test]
fn room_is_taken_for_nobody_who_is_gone() {
    let stage = Stage::new(PLENTY);
    stage.keep("http://o/a", b"body");
    let writing = stage.reserve("http://o/b", 100_000).unwrap();
    let room = writing.room();
    drop(writing);
    assert!(!room.take(100_000).unwrap());
    assert_eq!(stage.store.size(), (1, cost(4)));
}
