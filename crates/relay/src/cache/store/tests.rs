mod records;
mod room;

use super::*;
use crate::cache::cost::BLOCK;
use crate::cache::folder::body_name;
use crate::cache::head::OriginResponse;
use http::{HeaderMap, Method};
use rustix::io::Errno;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::time::SystemTime;
use tempfile::TempDir;

const PLENTY: u64 = 1 << 30;

/// Cost of an entry with a short head.
fn cost(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK) * BLOCK + 2 * BLOCK
}

/// Temporary folder with a store.
struct TestBed {
    folder: TempDir,
    store: Arc<Store>,
    counters: Arc<Counters>,
}

impl TestBed {
    fn new(budget: u64) -> TestBed {
        TestBed::of(tempfile::tempdir().unwrap(), budget)
    }

    fn of(folder: TempDir, budget: u64) -> TestBed {
        TestBed::within(folder, Cost { bytes: budget, memory: PLENTY })
    }

    fn within(folder: TempDir, budget: Cost) -> TestBed {
        let counters = Arc::<Counters>::default();
        let store = Arc::new(Store::open(folder.path(), budget, Arc::clone(&counters)).unwrap());
        TestBed { folder, store, counters }
    }

    /// Opens the same folder again, as the next process would.
    fn again(self, budget: u64) -> TestBed {
        drop(self.store);
        TestBed::of(self.folder, budget)
    }

    fn keep(&self, url: &str, body: &[u8]) -> Arc<StoredEntry> {
        let writing = self.reserve(url, body.len()).unwrap();
        writing.file.write_all_at(body, 0).unwrap();
        writing.commit(entry(url, body.len())).unwrap()
    }

    fn reserve(&self, url: &str, bytes: usize) -> Option<BodyWriter> {
        self.store.reserve(&key(url), &entry(url, bytes)).unwrap()
    }

    fn body(&self, url: &str) -> Option<Vec<u8>> {
        let kept = self.store.find(&key(url), url)?;
        let mut body = Vec::new();
        self.store.open_body(&kept).unwrap()?.read_to_end(&mut body).unwrap();
        Some(body)
    }

    fn names(&self) -> Vec<String> {
        let items = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            items.map(|item| item.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != "CACHEDIR.TAG");
        names.sort();
        names
    }
}

fn entry(url: &str, bytes: usize) -> Arc<Entry> {
    let text = format!(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"{bytes}\"\r\nContent-Length: {bytes}\r\n\r\n"
    );
    let response = OriginResponse::read(text.as_bytes(), &Method::GET).unwrap().unwrap().0;
    Arc::new(Entry::new(url, &HeaderMap::new(), &response, SystemTime::now()).unwrap())
}

/// Promise: After a crash no partial body is served, and complete bodies are still served.
#[test]
fn what_is_kept_is_there_in_the_next_process_and_what_is_not_is_nowhere() {
    let bed = TestBed::new(PLENTY);
    bed.keep("http://o/a", b"first");
    bed.keep("http://o/a", b"second");
    bed.keep("http://o/empty", b"");
    let broken = bed.reserve("http://o/b", 1000).unwrap();
    assert_eq!(bed.names().len(), 5, "two of each entry and a part");
    drop(broken);
    assert_eq!((bed.names().len(), bed.store.size()), (4, (2, cost(6) + cost(0))));
    let bed = bed.again(PLENTY);
    assert_eq!(bed.body("http://o/a").unwrap(), b"second");
    assert_eq!(bed.body("http://o/empty").unwrap(), b"");
    assert_eq!(bed.body("http://o/b"), None);
    assert_eq!(bed.store.size(), (2, cost(6) + cost(0)));
    let [kept, next] = ["http://o/a", "http://o/new"].map(|url| bed.keep(url, b"x").body.clone());
    assert_ne!(body_number(&kept), body_number(&next));
}

/// Promise: After a crash no partial body is served, and complete bodies are still served.
#[test]
fn what_a_killed_process_left_is_removed_and_what_is_foreign_is_not() {
    let bed = TestBed::new(PLENTY);
    bed.keep("http://o/a", b"body");
    let key = key("http://o/b");
    let left = [format!("{key}-7.body.part"), format!("{key}-8.body"), format!("{key}-9.json.part")];
    let foreign =
        ["notes.txt".to_owned(), format!("{key}.body"), format!("{key}-x.body"), "a.part".to_owned()];
    for name in left.iter().chain(&foreign) {
        fs::write(bed.folder.path().join(name), "something").unwrap();
    }
    let bed = bed.again(PLENTY);
    let names = bed.names();
    assert!(left.iter().all(|name| !names.contains(name)), "{names:?}");
    assert!(foreign.iter().all(|name| names.contains(name)), "{names:?}");
    assert_eq!((bed.body("http://o/a").unwrap(), bed.counters.damaged.value()), (b"body".to_vec(), 0));
}

/// Promise: Damaged entries are dropped; a record cannot name a file outside the folder.
#[test]
fn damaged_entries_are_dropped_at_the_start_and_when_they_are_used() {
    let bed = TestBed::new(PLENTY);
    let urls = ["http://o/record", "http://o/short", "http://o/changed", "http://o/gone", "http://o/good"];
    let kept = urls.map(|url| bed.keep(url, b"body"));
    let path = |name: &str| bed.folder.path().join(name);
    let record = path(&format!("{}.json", kept[0].key));
    let text = fs::read(&record).unwrap();
    fs::write(record, &text[..text.len() / 2]).unwrap();
    fs::OpenOptions::new().write(true).open(path(&kept[1].body)).unwrap().set_len(3).unwrap();
    fs::OpenOptions::new().write(true).open(path(&kept[2].body)).unwrap().write_all(b"B").unwrap();
    fs::remove_file(path(&kept[3].body)).unwrap();
    for (url, expected) in urls.iter().zip([Some("body"), None, None, None, Some("body")]) {
        assert_eq!(bed.body(url).map(|body| String::from_utf8(body).unwrap()).as_deref(), expected, "{url}");
        assert_eq!(bed.store.find(&key(url), url).is_some(), expected.is_some(), "{url}");
    }
    let bed = bed.again(PLENTY);
    assert_eq!((bed.body(urls[0]), bed.counters.damaged.value()), (None, 1));
    assert_eq!((bed.body(urls[4]).unwrap(), bed.names().len()), (b"body".to_vec(), 2));
}

/// Promise: Damaged entries are dropped; a record cannot name a file outside the folder.
#[test]
fn a_record_cannot_name_a_file_elsewhere() {
    let bed = TestBed::new(PLENTY);
    let kept = bed.keep("http://o/a", b"body");
    let outside = tempfile::NamedTempFile::new().unwrap();
    fs::write(outside.path(), "body").unwrap();
    let record = bed.folder.path().join(format!("{}.json", kept.key));
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replace(&kept.body, outside.path().to_str().unwrap())).unwrap();
    let bed = bed.again(PLENTY);
    assert_eq!(bed.store.size(), (0, 0));
    assert_eq!(fs::read(outside.path()).unwrap(), b"body", "it is left alone");
}

/// Promise: The cache keeps to its size and evicts the least recently used first; larger responses pass
/// through.
#[test]
fn the_least_recently_used_goes_first() {
    let bed = TestBed::new(3 * cost(10_000));
    for url in ["http://o/a", "http://o/b", "http://o/c"] {
        bed.keep(url, &[1; 10_000]);
    }
    assert!(bed.body("http://o/a").is_some());
    bed.keep("http://o/d", &[2; 10_000]);
    assert!(bed.body("http://o/b").is_none());
    let writing = bed.reserve("http://o/e", 2 * 10_000).unwrap();
    assert!(bed.body("http://o/c").is_none() && bed.body("http://o/d").is_some());
    assert!(bed.reserve("http://o/f", 3 * 10_000).is_none(), "what is being written stays");
    assert_eq!(bed.store.size().0, 1, "nothing goes for what does not come");
    drop(writing);
    assert!(bed.reserve("http://o/g", 6 * 10_000).is_none(), "it is larger than the cache");
    assert_eq!(bed.store.size(), (1, cost(10_000)));
    assert_eq!(bed.counters.evictions.value(), 3);
}

#[test]
fn a_smaller_budget_is_kept_to_from_the_start() {
    let bed = TestBed::new(PLENTY);
    for url in ["http://o/a", "http://o/b", "http://o/c"] {
        bed.keep(url, &[1; 10_000]);
    }
    let bed = bed.again(2 * cost(10_000));
    assert_eq!(bed.store.size(), (2, 2 * cost(10_000)));
    assert_eq!(bed.names().len(), 4);
}

#[test]
fn a_renewed_entry_has_its_body() {
    let bed = TestBed::new(PLENTY);
    let kept = bed.keep("http://o/a", b"body");
    let text = "HTTP/1.1 304 Not Modified\r\nETag: \"4\"\r\nX: new\r\n\r\n";
    let response = OriginResponse::read(text.as_bytes(), &Method::GET).unwrap().unwrap().0;
    let renewed = kept.entry.renewed(&HeaderMap::new(), &response, SystemTime::now()).unwrap();
    bed.store.renew(&kept, renewed).unwrap();
    let bed = bed.again(PLENTY);
    let kept = bed.store.find(&key("http://o/a"), "http://o/a").unwrap();
    assert_eq!(
        (kept.entry.fields["x"].as_bytes(), bed.body("http://o/a").unwrap()),
        (&b"new"[..], b"body".to_vec())
    );
    bed.store.remove(&kept.key);
    let renewed = kept.entry.renewed(&HeaderMap::new(), &response, SystemTime::now()).unwrap();
    assert!(bed.store.renew(&kept, renewed).is_err(), "it is gone");
    assert_eq!(bed.names(), [""; 0]);
}

/// Promise: A folder with other files or in use, an https origin and wrong addresses are refused by name.
#[test]
fn a_folder_of_others_or_in_use_is_refused() {
    let foreign = tempfile::tempdir().unwrap();
    fs::write(foreign.path().join("thesis.tex"), "text").unwrap();
    let open = |folder: &Path| {
        Store::open(folder, Cost { bytes: PLENTY, memory: PLENTY }, Arc::default())
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    assert!(open(foreign.path()).contains("is not a cache folder of wirepath"));
    fs::write(foreign.path().join("CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55\n").unwrap();
    assert!(open(foreign.path()).contains("is not a cache folder of wirepath"), "a cache of another program");
    assert_eq!(fs::read(foreign.path().join("thesis.tex")).unwrap(), b"text");
    let bed = TestBed::new(PLENTY);
    assert!(open(bed.folder.path()).contains("in use"));
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(open(file.path()).ends_with(" is not a folder; name a new or an empty folder"));
    let below = open(&file.path().join("kept"));
    assert!(
        below.starts_with("cannot use the cache folder ") && below.contains("kept: Not a directory"),
        "{below}"
    );
}

/// Promise: An entry that cannot be read temporarily, such as for lack of descriptors, is kept.
#[test]
fn only_what_is_about_a_body_costs_an_entry() {
    use std::io::Error;
    let damage = [Errno::NOENT, Errno::LOOP];
    assert!(damage.iter().all(|&errno| is_damage(&errno.into())));
    assert!(is_damage(&Error::new(io::ErrorKind::InvalidData, "changed")));
    let others = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::ACCESS, Errno::IO];
    assert!(!others.iter().any(|&errno| is_damage(&errno.into())));

    let bed = TestBed::new(PLENTY);
    let kept = bed.keep("http://o/a", b"body");
    let body = bed.folder.path().join(&kept.body);
    fs::remove_file(&body).unwrap();
    std::os::unix::fs::symlink("/dev/null", &body).unwrap();
    assert_eq!((bed.body("http://o/a"), bed.store.size().0), (None, 0), "a link is none of ours");
}

/// Promise: An entry that cannot be read temporarily, such as for lack of descriptors, is kept.
#[test]
fn an_entry_that_cannot_be_read_now_is_there_later() {
    let bed = TestBed::new(PLENTY);
    let kept = bed.keep("http://o/a", b"body");
    let (folder, away) = (bed.folder.path(), tempfile::tempdir().unwrap());
    // With a file in place of the folder, the error means neither that the body is missing nor that it is
    // damaged.
    let moved = away.path().join("moved");
    fs::rename(folder, &moved).unwrap();
    fs::write(folder, "in the way").unwrap();
    assert!(bed.store.open_body(&kept).is_err());
    assert_eq!(bed.store.size().0, 1);
    fs::remove_file(folder).unwrap();
    fs::rename(&moved, folder).unwrap();
    assert_eq!(bed.body("http://o/a").unwrap(), b"body");
}

/// Promise: Response heads count against disk and memory limits; heads that are too long are not stored.
#[test]
fn long_heads_are_counted_and_those_that_are_too_long_are_not_kept() {
    let bed = TestBed::new(PLENTY);
    let url = |bytes: usize| format!("http://o/{}", "a".repeat(bytes));
    bed.keep(&url(10_000), b"body");
    assert_eq!(bed.store.size(), (1, cost(4) + 2 * BLOCK));
    assert!(bed.reserve(&url(16 * 1024), 4).is_none());
    let bed = bed.again(PLENTY);
    assert_eq!(bed.store.size(), (1, cost(4) + 2 * BLOCK));
}

/// Promise: Response heads count against disk and memory limits; heads that are too long are not stored.
#[test]
fn memory_is_a_budget_too() {
    let one = Cost::of(&entry("http://o/a", 1), &key("http://o/a"));
    let budget = Cost { bytes: PLENTY, memory: 2 * one.memory };
    let bed = TestBed::within(tempfile::tempdir().unwrap(), budget);
    for url in ["http://o/a", "http://o/b", "http://o/c"] {
        bed.keep(url, b"x");
    }
    assert_eq!((bed.store.size().0, bed.counters.evictions.value()), (2, 1));
    assert!(bed.body("http://o/a").is_none() && bed.body("http://o/c").is_some());
}

/// Promise: An entry that replaces another during eviction is complete in the folder.
#[test]
fn what_comes_while_what_was_goes_is_in_the_folder_if_it_is_in_the_index() {
    let bed = TestBed::new(PLENTY);
    let (url, record) = ("http://o/a", format!("{}.json", key("http://o/a")));
    for _ in 0..300 {
        bed.keep(url, b"old");
        std::thread::scope(|scope| {
            scope.spawn(|| bed.store.remove(&key(url)));
            scope.spawn(|| bed.keep(url, b"new"));
        });
        let is_known = bed.store.find(&key(url), url).is_some();
        assert_eq!(bed.names().contains(&record), is_known);
        assert_eq!(bed.names().len(), if is_known { 2 } else { 0 });
    }
}
