//! Tests of the store on a full disk.

use super::*;
use crate::cache::store::writing::is_full;

use wirepath_testkit::SmallDisk;

/// Store on a disk of 1 MiB; None if the test may not create such a disk.
fn small_bed() -> Option<(SmallDisk, TestBed)> {
    match SmallDisk::new(1 << 20) {
        Ok(disk) => {
            let folder = tempfile::tempdir_in(disk.path()).unwrap();
            Some((disk, TestBed::of(folder, PLENTY)))
        }
        Err(error) => {
            println!("SKIP: no disk of its own can be made here: {error}");
            None
        }
    }
}

/// Fills the free space of the disk.
fn fill(disk: &SmallDisk) {
    let mut file = disk.create("fill").unwrap();
    let end = loop {
        if let Err(error) = file.write_all(&[7; 4096]) {
            break error;
        }
    };
    assert!(is_full(&end), "{end}");
}

/// The entry's head after a 304 with `X: new`.
fn renewed(kept: &StoredEntry) -> Entry {
    let response = OriginResponse::read(b"HTTP/1.1 304 Not Modified\r\nX: new\r\n\r\n", &Method::GET)
        .unwrap()
        .unwrap()
        .0;
    kept.entry.renewed(&HeaderMap::new(), &response, SystemTime::now()).unwrap()
}

fn is_renewed(bed: &TestBed, url: &str) -> bool {
    bed.store.find(&key(url), url).unwrap().entry.fields.contains_key("x")
}

/// Promise: On a full disk, entries are evicted for new records; a renewed head is kept in memory.
#[test]
fn a_record_has_others_go_on_a_full_disk() {
    let Some((disk, bed)) = small_bed() else { return };
    let (first, urls) = ("http://o/a", ["http://o/b", "http://o/c", "http://o/d"]);
    let kept = bed.keep(first, b"body");
    urls.iter().for_each(|url| drop(bed.keep(url, &[1; 100_000])));
    let writing = bed.reserve("http://o/new", 100_000).unwrap();
    writing.file.write_all_at(&[2; 100_000], 0).unwrap();
    fill(&disk);
    // The renewed entry is the least recently used, and stays.
    bed.store.renew(&kept, renewed(&kept)).unwrap();
    assert_eq!((bed.store.size().0, bed.counters.evictions.value()), (3, 1));
    drop(fs::remove_file(disk.path().join("fill")));
    fill(&disk);
    writing.commit(entry("http://o/new", 100_000)).unwrap();
    assert_eq!((bed.store.size().0, bed.counters.evictions.value()), (3, 2));
    let bed = bed.again(PLENTY);
    assert!(is_renewed(&bed, first));
    assert_eq!(bed.body("http://o/new").unwrap(), [2; 100_000]);
    assert_eq!(urls.map(|url| bed.body(url).is_some()), [false, false, true]);
}

/// Promise: On a full disk, entries are evicted for new records; a renewed head is kept in memory.
#[test]
fn a_head_that_cannot_be_written_down_is_used_until_the_end() {
    let Some((disk, bed)) = small_bed() else { return };
    let kept = bed.keep("http://o/a", b"body");
    fill(&disk);
    bed.store.renew(&kept, renewed(&kept)).unwrap();
    assert!(is_renewed(&bed, "http://o/a"));
    assert_eq!(bed.body("http://o/a").unwrap(), b"body");
    assert_eq!(bed.names().len(), 2);
    let bed = bed.again(PLENTY);
    assert!(!is_renewed(&bed, "http://o/a"));
    assert_eq!(bed.body("http://o/a").unwrap(), b"body");
}

/// Promise: Entries are evicted as a body grows, not for the length that its head claims.
#[test]
fn others_go_as_a_body_grows_and_not_for_what_its_head_says() {
    let budget = 10 * cost(100_000);
    let bed = TestBed::new(budget);
    for number in 0..8 {
        bed.keep(&format!("http://o/{number}"), &[1; 100_000]);
    }
    let writing = bed.reserve("http://o/large", 900_000).unwrap();
    assert!(bed.reserve("http://o/other", 200_000).is_none(), "all is promised");
    assert_eq!((bed.store.size().0, bed.counters.evictions.value()), (8, 0));
    let (mut come, mut entries) = (0, vec![]);
    while come < 900_000 {
        come = Space::next(come, 900_000);
        assert!(writing.space().take(come).unwrap());
        let (kept, bytes) = bed.store.size();
        assert!(bytes <= budget, "{bytes}");
        entries.push(kept);
    }
    // The space starts at 64 KiB and doubles each time.
    assert_eq!((entries, come), (vec![8, 8, 7, 5, 1], 900_000));
    drop(writing);
    assert_eq!(bed.store.size(), (1, cost(100_000)));
}

/// Promise: Entries are evicted as a body grows, not for the length that its head claims.
#[test]
fn no_room_is_reserved_for_an_entry_that_is_gone() {
    let bed = TestBed::new(PLENTY);
    bed.keep("http://o/a", b"body");
    let writing = bed.reserve("http://o/b", 100_000).unwrap();
    let room = writing.space();
    drop(writing);
    assert!(!room.take(100_000).unwrap());
    assert_eq!(bed.store.size(), (1, cost(4)));
}
