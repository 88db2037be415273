//! Records: those that somebody else wrote, and those that are written at a time.

use super::*;

/// Gives the body of an entry another number, in its name and in the record.
fn renumber(stage: &Stage, kept: &Kept, number: u64) {
    let path = |name: &str| stage.folder.path().join(name);
    let (record, body) = (path(&format!("{}.json", kept.key)), body_name(&kept.key, number));
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replace(&kept.body, &body)).unwrap();
    fs::rename(path(&kept.body), path(&body)).unwrap();
}

/// Promise: Invented numbers in a record overflow nothing.
#[test]
fn a_number_of_a_body_that_is_made_up_makes_nothing_overflow() {
    for (number, is_ours) in [(u64::MAX, false), (GREATEST_NUMBER + 1, false), (GREATEST_NUMBER, true)] {
        let stage = Stage::new(PLENTY);
        let kept = stage.keep("http://o/a", b"body");
        renumber(&stage, &kept, number);
        let stage = stage.again(PLENTY);
        assert_eq!(stage.body("http://o/a").is_some(), is_ours, "{number}");
        assert_eq!(stage.counters.damaged.load(Relaxed), u64::from(!is_ours), "{number}");
        stage.keep("http://o/a", b"new");
        stage.keep("http://o/b", b"other");
        let stage = stage.again(PLENTY);
        assert_eq!(stage.body("http://o/a").unwrap(), b"new", "{number}");
        assert_eq!(stage.body("http://o/b").unwrap(), b"other", "{number}");
    }
}

/// Promise: Invented numbers in a record overflow nothing.
///
/// The greatest number is in the folder again, and what is new has the number of what it replaces.
#[test]
fn a_body_may_have_the_name_of_the_one_that_it_replaces() {
    let stage = Stage::new(PLENTY);
    stage.keep("http://o/a", b"body");
    let other = stage.keep("http://o/b", b"other");
    renumber(&stage, &other, GREATEST_NUMBER);
    let stage = stage.again(PLENTY);
    stage.keep("http://o/a", b"new");
    assert_eq!(stage.body("http://o/a").unwrap(), b"new");
    let stage = stage.again(PLENTY);
    assert_eq!((stage.body("http://o/a").unwrap(), stage.store.size().0), (b"new".to_vec(), 2));
}

/// Promise: Invented numbers in a record overflow nothing.
#[test]
fn sums_of_what_is_claimed_do_not_overflow() {
    let most = Cost { bytes: u64::MAX, memory: u64::MAX };
    let some = Cost { bytes: 5, memory: 5 };
    assert_eq!(most.with(some), most);
    assert_eq!(some.without(most), Cost::default());
}

/// Promise: Records of one URL that are written at the same time do not touch each other.
#[test]
fn records_of_one_key_that_are_written_at_a_time_are_two_files() {
    let stage = Stage::new(PLENTY);
    let kept = stage.keep("http://o/a", b"body");
    let folder = &stage.store.folder;
    let right = kept.body_modified_ns;
    let [one, two, three] = [1, 2, right]
        .map(|time| folder.write_record(&kept.key, &kept.entry.record(&kept.body, time)).unwrap());
    assert_eq!(stage.names().len(), 5);
    let placed = || {
        let record = fs::read(stage.folder.path().join(format!("{}.json", kept.key))).unwrap();
        crate::cache::entry::Record::read(&record).unwrap().body_modified_ns
    };
    one.place().unwrap();
    assert_eq!(placed(), 1);
    three.place().unwrap();
    drop(two);
    assert_eq!((placed(), stage.names().len()), (right, 2), "what is not placed is removed");
    fs::write(stage.folder.path().join(format!("{}-12.json.part", kept.key)), "{").unwrap();
    let stage = stage.again(PLENTY);
    assert_eq!((stage.names().len(), stage.store.size().0), (2, 1));
}
