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

/// What an entry with a short head takes.
fn cost(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK) * BLOCK + 2 * BLOCK
}

/// A folder, and the store in it.
struct Stage {
    folder: TempDir,
    store: Arc<Store>,
    counters: Arc<Counters>,
}

impl Stage {
    fn new(budget: u64) -> Stage {
        Stage::of(tempfile::tempdir().unwrap(), budget)
    }

    fn of(folder: TempDir, budget: u64) -> Stage {
        Stage::within(folder, Cost { bytes: budget, memory: PLENTY })
    }

    fn within(folder: TempDir, budget: Cost) -> Stage {
        let counters = Arc::<Counters>::default();
        let store = Arc::new(Store::open(folder.path(), budget, Arc::clone(&counters)).unwrap());
        Stage { folder, store, counters }
    }

    /// The same folder, as the next process finds it.
    fn again(self, budget: u64) -> Stage {
        drop(self.store);
        Stage::of(self.folder, budget)
    }

    fn keep(&self, url: &str, body: &[u8]) -> Arc<Kept> {
        let writing = self.reserve(url, body.len()).unwrap();
        writing.file.write_all_at(body, 0).unwrap();
        writing.keep(entry(url, body.len())).unwrap()
    }

    fn reserve(&self, url: &str, bytes: usize) -> Option<Writing> {
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

/// Promise: After a crash no partial body is served, and complete ones still are.
#[test]
fn what_is_kept_is_there_in_the_next_process_and_what_is_not_is_nowhere() {
    let stage = Stage::new(PLENTY);
    stage.keep("http://o/a", b"first");
    stage.keep("http://o/a", b"second");
    stage.keep("http://o/empty", b"");
    let broken = stage.reserve("http://o/b", 1000).unwrap();
    assert_eq!(stage.names().len(), 5, "two of each entry and a part");
    drop(broken);
    assert_eq!((stage.names().len(), stage.store.size()), (4, (2, cost(6) + cost(0))));
    let stage = stage.again(PLENTY);
    assert_eq!(stage.body("http://o/a").unwrap(), b"second");
    assert_eq!(stage.body("http://o/empty").unwrap(), b"");
    assert_eq!(stage.body("http://o/b"), None);
    assert_eq!(stage.store.size(), (2, cost(6) + cost(0)));
    let [kept, next] = ["http://o/a", "http://o/new"].map(|url| stage.keep(url, b"x").body.clone());
    assert_ne!(body_number(&kept), body_number(&next));
}

/// Promise: After a crash no partial body is served, and complete ones still are.
#[test]
fn what_a_killed_process_left_is_removed_and_what_is_foreign_is_not() {
    let stage = Stage::new(PLENTY);
    stage.keep("http://o/a", b"body");
    let key = key("http://o/b");
    let left = [format!("{key}-7.body.part"), format!("{key}-8.body"), format!("{key}.json.part")];
    let foreign =
        ["notes.txt".to_owned(), format!("{key}.body"), format!("{key}-x.body"), "a.part".to_owned()];
    for name in left.iter().chain(&foreign) {
        fs::write(stage.folder.path().join(name), "something").unwrap();
    }
    let stage = stage.again(PLENTY);
    let names = stage.names();
    assert!(left.iter().all(|name| !names.contains(name)), "{names:?}");
    assert!(foreign.iter().all(|name| names.contains(name)), "{names:?}");
    assert_eq!(
        (stage.body("http://o/a").unwrap(), stage.counters.damaged.load(Relaxed)),
        (b"body".to_vec(), 0)
    );
}

/// Promise: Damaged entries are dropped; a record cannot name a file elsewhere.
#[test]
fn damaged_entries_are_dropped_at_the_start_and_when_they_are_used() {
    let stage = Stage::new(PLENTY);
    let urls = ["http://o/record", "http://o/short", "http://o/changed", "http://o/gone", "http://o/good"];
    let kept = urls.map(|url| stage.keep(url, b"body"));
    let path = |name: &str| stage.folder.path().join(name);
    let record = path(&format!("{}.json", kept[0].key));
    let text = fs::read(&record).unwrap();
    fs::write(record, &text[..text.len() / 2]).unwrap();
    fs::OpenOptions::new().write(true).open(path(&kept[1].body)).unwrap().set_len(3).unwrap();
    fs::OpenOptions::new().write(true).open(path(&kept[2].body)).unwrap().write_all(b"B").unwrap();
    fs::remove_file(path(&kept[3].body)).unwrap();
    for (url, expected) in urls.iter().zip([Some("body"), None, None, None, Some("body")]) {
        assert_eq!(
            stage.body(url).map(|body| String::from_utf8(body).unwrap()).as_deref(),
            expected,
            "{url}"
        );
        assert_eq!(stage.store.find(&key(url), url).is_some(), expected.is_some(), "{url}");
    }
    let stage = stage.again(PLENTY);
    assert_eq!((stage.body(urls[0]), stage.counters.damaged.load(Relaxed)), (None, 1));
    assert_eq!((stage.body(urls[4]).unwrap(), stage.names().len()), (b"body".to_vec(), 2));
}

/// Promise: Damaged entries are dropped; a record cannot name a file elsewhere.
#[test]
fn a_record_cannot_name_a_file_elsewhere() {
    let stage = Stage::new(PLENTY);
    let kept = stage.keep("http://o/a", b"body");
    let outside = tempfile::NamedTempFile::new().unwrap();
    fs::write(outside.path(), "body").unwrap();
    let record = stage.folder.path().join(format!("{}.json", kept.key));
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replace(&kept.body, outside.path().to_str().unwrap())).unwrap();
    let stage = stage.again(PLENTY);
    assert_eq!(stage.store.size(), (0, 0));
    assert_eq!(fs::read(outside.path()).unwrap(), b"body", "it is left alone");
}

/// Promise: The cache keeps its size, least recently used evicted first; larger answers pass through.
#[test]
fn the_least_recently_used_goes_first() {
    let stage = Stage::new(3 * cost(10_000));
    for url in ["http://o/a", "http://o/b", "http://o/c"] {
        stage.keep(url, &[1; 10_000]);
    }
    assert!(stage.body("http://o/a").is_some());
    stage.keep("http://o/d", &[2; 10_000]);
    assert!(stage.body("http://o/b").is_none());
    let writing = stage.reserve("http://o/e", 2 * 10_000).unwrap();
    assert!(stage.body("http://o/c").is_none() && stage.body("http://o/d").is_some());
    assert!(stage.reserve("http://o/f", 3 * 10_000).is_none(), "what is being written stays");
    assert_eq!(stage.store.size().0, 1, "nothing goes for what does not come");
    drop(writing);
    assert!(stage.reserve("http://o/g", 6 * 10_000).is_none(), "it is larger than the cache");
    assert_eq!(stage.store.size(), (1, cost(10_000)));
    assert_eq!(stage.counters.evictions.load(Relaxed), 3);
}

#[test]
fn a_smaller_budget_is_kept_to_from_the_start() {
    let stage = Stage::new(PLENTY);
    for url in ["http://o/a", "http://o/b", "http://o/c"] {
        stage.keep(url, &[1; 10_000]);
    }
    let stage = stage.again(2 * cost(10_000));
    assert_eq!(stage.store.size(), (2, 2 * cost(10_000)));
    assert_eq!(stage.names().len(), 4);
}

#[test]
fn a_renewed_entry_has_its_body() {
    let stage = Stage::new(PLENTY);
    let kept = stage.keep("http://o/a", b"body");
    let text = "HTTP/1.1 304 Not Modified\r\nETag: \"4\"\r\nX: new\r\n\r\n";
    let response = OriginResponse::read(text.as_bytes(), &Method::GET).unwrap().unwrap().0;
    let renewed = kept.entry.renewed(&HeaderMap::new(), &response, SystemTime::now()).unwrap();
    stage.store.renew(&kept, renewed).unwrap();
    let stage = stage.again(PLENTY);
    let kept = stage.store.find(&key("http://o/a"), "http://o/a").unwrap();
    assert_eq!(
        (kept.entry.fields["x"].as_bytes(), stage.body("http://o/a").unwrap()),
        (&b"new"[..], b"body".to_vec())
    );
    stage.store.remove(&kept.key);
    let renewed = kept.entry.renewed(&HeaderMap::new(), &response, SystemTime::now()).unwrap();
    assert!(stage.store.renew(&kept, renewed).is_err(), "it is gone");
    assert_eq!(stage.names(), [""; 0]);
}

/// Promise: A foreign or used folder, an https origin and wrong addresses are refused by name.
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
    assert!(open(foreign.path()).contains("is no cache of wirepath"));
    fs::write(foreign.path().join("CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55\n").unwrap();
    assert!(open(foreign.path()).contains("is no cache of wirepath"), "a cache of another program");
    assert_eq!(fs::read(foreign.path().join("thesis.tex")).unwrap(), b"text");
    let stage = Stage::new(PLENTY);
    assert!(open(stage.folder.path()).contains("in use"));
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(
        open(file.path()).ends_with(" is no folder, and a cache takes one; name a new or an empty folder")
    );
    let below = open(&file.path().join("kept"));
    assert!(
        below.starts_with("cannot make the cache folder ") && below.contains("kept: Not a directory"),
        "{below}"
    );
}

/// Promise: An entry that cannot be read now, such as for lack of descriptors, stays.
#[test]
fn only_what_is_about_a_body_costs_an_entry() {
    use std::io::Error;
    let damage = [Errno::NOENT, Errno::LOOP];
    assert!(damage.iter().all(|&errno| is_damage(&errno.into())));
    assert!(is_damage(&Error::new(io::ErrorKind::InvalidData, "changed")));
    let others = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::ACCESS, Errno::IO];
    assert!(!others.iter().any(|&errno| is_damage(&errno.into())));

    let stage = Stage::new(PLENTY);
    let kept = stage.keep("http://o/a", b"body");
    let body = stage.folder.path().join(&kept.body);
    fs::remove_file(&body).unwrap();
    std::os::unix::fs::symlink("/dev/null", &body).unwrap();
    assert_eq!((stage.body("http://o/a"), stage.store.size().0), (None, 0), "a link is none of ours");
}

/// Promise: An entry that cannot be read now, such as for lack of descriptors, stays.
#[test]
fn an_entry_that_cannot_be_read_now_is_there_later() {
    let stage = Stage::new(PLENTY);
    let kept = stage.keep("http://o/a", b"body");
    let (folder, away) = (stage.folder.path(), tempfile::tempdir().unwrap());
    // A folder in the way of the path is neither about the file's being there nor about what is in it.
    let moved = away.path().join("moved");
    fs::rename(folder, &moved).unwrap();
    fs::write(folder, "in the way").unwrap();
    assert!(stage.store.open_body(&kept).is_err());
    assert_eq!(stage.store.size().0, 1);
    fs::remove_file(folder).unwrap();
    fs::rename(&moved, folder).unwrap();
    assert_eq!(stage.body("http://o/a").unwrap(), b"body");
}

/// Promise: Response heads count on disk and in memory; those that are too long are not kept.
#[test]
fn long_heads_are_counted_and_those_that_are_too_long_are_not_kept() {
    let stage = Stage::new(PLENTY);
    let url = |bytes: usize| format!("http://o/{}", "a".repeat(bytes));
    stage.keep(&url(10_000), b"body");
    assert_eq!(stage.store.size(), (1, cost(4) + 2 * BLOCK));
    assert!(stage.reserve(&url(16 * 1024), 4).is_none());
    let stage = stage.again(PLENTY);
    assert_eq!(stage.store.size(), (1, cost(4) + 2 * BLOCK));
}

/// Promise: Response heads count on disk and in memory; those that are too long are not kept.
#[test]
fn memory_is_a_budget_too() {
    let one = Cost::of(&entry("http://o/a", 1), &key("http://o/a"));
    let budget = Cost { bytes: PLENTY, memory: 2 * one.memory };
    let stage = Stage::within(tempfile::tempdir().unwrap(), budget);
    for url in ["http://o/a", "http://o/b", "http://o/c"] {
        stage.keep(url, b"x");
    }
    assert_eq!((stage.store.size().0, stage.counters.evictions.load(Relaxed)), (2, 1));
    assert!(stage.body("http://o/a").is_none() && stage.body("http://o/c").is_some());
}

/// Promise: An entry that replaces another during eviction is complete in the folder.
#[test]
fn what_comes_while_what_was_goes_is_in_the_folder_if_it_is_in_the_index() {
    let stage = Stage::new(PLENTY);
    let (url, record) = ("http://o/a", format!("{}.json", key("http://o/a")));
    for _ in 0..300 {
        stage.keep(url, b"old");
        std::thread::scope(|scope| {
            scope.spawn(|| stage.store.remove(&key(url)));
            scope.spawn(|| stage.keep(url, b"new"));
        });
        let is_known = stage.store.find(&key(url), url).is_some();
        assert_eq!(stage.names().contains(&record), is_known);
        assert_eq!(stage.names().len(), if is_known { 2 } else { 0 });
    }
}
