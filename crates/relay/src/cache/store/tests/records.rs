//! Tests of records: forged records, and records written at the same time.

use super::*;

/// Gives the body of an entry another number, in its name and in the record.
fn renumber(bed: &TestBed, kept: &StoredEntry, number: u64) {
    let path = |name: &str| bed.folder.path().join(name);
    let (record, body) = (path(&format!("{}.json", kept.key)), body_name(&kept.key, number));
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replace(&kept.body, &body)).unwrap();
    fs::rename(path(&kept.body), path(&body)).unwrap();
}

/// Promise: Forged numbers in a record cause no overflow.
#[test]
fn a_number_of_a_body_that_is_made_up_makes_nothing_overflow() {
    for (number, is_ours) in [(u64::MAX, false), (MAX_BODY_NUMBER + 1, false), (MAX_BODY_NUMBER, true)] {
        let bed = TestBed::new(PLENTY);
        let kept = bed.keep("http://o/a", b"body");
        renumber(&bed, &kept, number);
        let bed = bed.again(PLENTY);
        assert_eq!(bed.body("http://o/a").is_some(), is_ours, "{number}");
        assert_eq!(bed.counters.damaged.value(), u64::from(!is_ours), "{number}");
        bed.keep("http://o/a", b"new");
        bed.keep("http://o/b", b"other");
        let bed = bed.again(PLENTY);
        assert_eq!(bed.body("http://o/a").unwrap(), b"new", "{number}");
        assert_eq!(bed.body("http://o/b").unwrap(), b"other", "{number}");
    }
}

/// Promise: Forged numbers in a record cause no overflow.
///
/// The folder has a body with the maximum number, and a new body has the number of the body that it replaces.
#[test]
fn a_body_may_have_the_name_of_the_one_that_it_replaces() {
    let bed = TestBed::new(PLENTY);
    bed.keep("http://o/a", b"body");
    let other = bed.keep("http://o/b", b"other");
    renumber(&bed, &other, MAX_BODY_NUMBER);
    let bed = bed.again(PLENTY);
    bed.keep("http://o/a", b"new");
    assert_eq!(bed.body("http://o/a").unwrap(), b"new");
    let bed = bed.again(PLENTY);
    assert_eq!((bed.body("http://o/a").unwrap(), bed.store.size().0), (b"new".to_vec(), 2));
}

/// Promise: Forged numbers in a record cause no overflow.
#[test]
fn sums_of_what_is_claimed_do_not_overflow() {
    let most = Cost { bytes: u64::MAX, memory: u64::MAX };
    let some = Cost { bytes: 5, memory: 5 };
    assert_eq!(most.with(some), most);
    assert_eq!(some.without(most), Cost::default());
}

/// Promise: Concurrent writers of records for one URL do not corrupt each other's records.
#[test]
fn records_of_one_key_that_are_written_at_a_time_are_two_files() {
    let bed = TestBed::new(PLENTY);
    let kept = bed.keep("http://o/a", b"body");
    let folder = &bed.store.folder;
    let right = kept.body_modified_ns;
    let [one, two, three] = [1, 2, right]
        .map(|time| folder.write_record(&kept.key, &kept.entry.record(&kept.body, time)).unwrap());
    assert_eq!(bed.names().len(), 5);
    let placed = || {
        let record = fs::read(bed.folder.path().join(format!("{}.json", kept.key))).unwrap();
        crate::cache::entry::Record::read(&record).unwrap().body_modified_ns
    };
    folder.place_record(&kept.key, one).unwrap();
    assert_eq!(placed(), 1);
    folder.place_record(&kept.key, three).unwrap();
    drop(two);
    assert_eq!((placed(), bed.names().len()), (right, 2), "what is not placed is removed");
    fs::write(bed.folder.path().join(format!("{}-12.json.part", kept.key)), "{").unwrap();
    let bed = bed.again(PLENTY);
    assert_eq!((bed.names().len(), bed.store.size().0), (2, 1));
}
