use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const LONGEST: usize = 1 << 20;

fn join(inputs: u64, key: Option<Box<Tag>>, window: usize, max_bytes: usize) -> Join {
    let mut join = Join::new(key, window, max_bytes);
    (0..inputs).for_each(|input| join.add(Port(input)));
    join
}

/// Key function: the first byte.
fn first_byte() -> Option<Box<Tag>> {
    Some(Box::new(|portion: &[u8]| portion.first().map(|byte| u64::from(*byte))))
}

fn taken(join: &mut Join) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| join.take()).map(|record| record.to_vec()).collect()
}

/// Promise: Portions of several inputs are joined to one record, by position or by key, within a window.
#[test]
fn by_position_the_nth_portions_make_the_nth_record_whatever_comes_first() {
    let mut join = join(3, None, 2, 1 << 20);
    for (input, portion) in [(2, "C"), (0, "A"), (0, "a"), (1, "B"), (1, "b")] {
        assert!(join.wants(Port(input), false));
        join.offer(Port(input), portion.as_bytes(), LONGEST);
    }
    assert_eq!(taken(&mut join), [b"ABC"]);
    join.offer(Port(0), b"1", LONGEST);
    assert_eq!(
        [0, 1, 2].map(|input| join.wants(Port(input), false)),
        [false, false, true],
        "the window is full"
    );
    join.remove(Port(1), false);
    assert!(taken(&mut join).is_empty());
    join.offer(Port(2), b"c", LONGEST);
    assert_eq!(taken(&mut join), [b"abc"]);
    join.offer(Port(2), b"3", LONGEST);
    assert_eq!((taken(&mut join).len(), join.counts.incomplete, join.lost_bytes), (0, 1, 2), "1 has ended");
    join.add(Port(7));
    for (input, portion) in [(7, "y"), (2, "z"), (0, "x")] {
        join.offer(Port(input), portion.as_bytes(), LONGEST);
    }
    assert_eq!(taken(&mut join), [b"xyz"], "another has its place");
}

/// Promise: Portions of several inputs are joined to one record, by position or by key, within a window.
#[test]
fn by_key_portions_of_one_key_make_a_record_and_the_oldest_is_given_up_when_too_many_wait() {
    let mut join = join(2, first_byte(), 2, 1 << 20);
    for (input, portion) in [(1, "2b"), (0, "1a"), (0, ""), (0, "2a"), (0, "1A")] {
        join.offer(Port(input), portion.as_bytes(), LONGEST);
    }
    assert_eq!(taken(&mut join), [b"2a2b"]);
    assert_eq!(join.counts, JoinCounts { spare: 1, unkeyed: 1, ..JoinCounts::default() });
    join.offer(Port(0), b"3a", LONGEST);
    assert_eq!([0, 1].map(|input| join.wants(Port(input), false)), [false, true], "1 has not brought key 1");
    assert!(join.wants(Port(0), true), "datagrams cannot wait");
    join.offer(Port(1), b"4b", LONGEST);
    join.offer(Port(1), b"3b", LONGEST);
    assert_eq!((taken(&mut join), join.counts.incomplete), (vec![b"3a3b".to_vec()], 1));
    join.remove(Port(0), true);
    assert_eq!((taken(&mut join), join.is_empty()), (vec![b"4b".to_vec()], true), "it was detached");
}

/// Promise: Portions of several inputs are joined to one record, by position or by key, within a window.
#[test]
fn a_record_that_would_be_too_long_is_dropped_and_counted() {
    let mut join = join(2, None, 9, 1 << 20);
    for input in [0, 1, 0, 1] {
        join.offer(Port(input), b"1234", if join.next_number < 2 && input == 1 { 7 } else { 8 });
    }
    assert_eq!((taken(&mut join), join.counts.too_long), (vec![b"12341234".to_vec()], 1));
    assert_eq!((join.bytes, join.lost_bytes, join.is_empty()), (0, 8, true));
}

/// A portion: its key, its input, and bytes that encode both.
fn portion(key: u8, input: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![key, input as u8];
    bytes.resize(2 + length, key ^ input as u8);
    bytes
}

/// The record of a key.
fn record(key: u8, inputs: u64, length: usize) -> Vec<u8> {
    (0..inputs).flat_map(|input| portion(key, input, length)).collect()
}

/// Promise: A join by key stores no more bytes than its window allows, even if an input sends nothing.
#[test]
fn records_by_key_are_bounded_in_bytes() {
    const MOST: usize = 5_000;
    let mut join = join(3, first_byte(), 100, MOST);
    for key in 0..50_u8 {
        join.offer(Port(0), &[key], LONGEST);
    }
    // The third input is silent, so no record is complete.
    for key in 0..50_u8 {
        join.offer(Port(1), &[key; 300], LONGEST);
        assert!(join.memory() <= MOST, "{} bytes", join.memory());
    }
    assert!(join.counts.incomplete > 20, "{}", join.counts.incomplete);
}

proptest! {
    /// Promise: Portions of several inputs are joined to one record, by position or by key, within a window.
    ///
    /// By position, for any arrival order and any ends of inputs: all complete records leave in order, and no
    /// others; the window is never exceeded, and every byte is accounted for.
    #[test]
    fn all_complete_records_come_in_order(
        counts in proptest::collection::vec(0usize..40, 1..5),
        lengths in proptest::collection::vec(0usize..50, 40),
        arrivals in proptest::collection::vec(any::<u16>(), 0..400),
        window in 1usize..10,
    ) {
        let inputs = counts.len() as u64;
        let mut join = join(inputs, None, window, usize::MAX);
        let (mut given, mut offered, mut output) = (vec![0; counts.len()], 0, Vec::new());
        let mut arrivals = arrivals.into_iter().map(usize::from).chain(0..);
        while (0..counts.len()).any(|input| join.member(Port(input as u64)).is_some()) {
            let input = arrivals.next().unwrap() % counts.len();
            let port = Port(input as u64);
            if join.member(port).is_none() || !join.wants(port, false) {
                continue;
            }
            if given[input] == counts[input] {
                join.remove(port, false);
            } else {
                let number = given[input];
                let portion = portion(number as u8, port.0, lengths[number]);
                offered += portion.len() as u64;
                join.offer(port, &portion, LONGEST);
                given[input] += 1;
            }
            prop_assert!(join.open.len() <= window);
            output.extend(taken(&mut join));
        }
        let complete = *counts.iter().min().unwrap();
        let expected: Vec<_> = (0..complete).map(|number| record(number as u8, inputs, lengths[number])).collect();
        let came: u64 = expected.iter().map(|record| record.len() as u64).sum();
        prop_assert_eq!(output, expected);
        prop_assert_eq!(join.counts.incomplete, (counts.iter().max().unwrap() - complete) as u64);
        prop_assert_eq!((join.lost_bytes, join.bytes, join.is_empty()), (offered - came, 0, true));
    }

    /// Promise: Portions of several inputs are joined to one record, by position or by key, within a window.
    ///
    /// By key, in any order, with missing or repeated portions: no record is wrong or repeated, none is
    /// missing if the window has room for all, and every byte is accounted for.
    #[test]
    fn records_by_key_are_whole_and_never_wrong(
        portions in proptest::collection::vec((0u8..12, 0u64..3), 0..100),
        window in 1usize..20,
        datagrams in any::<bool>(),
    ) {
        let mut join = join(3, first_byte(), window, usize::MAX);
        let (mut offered, mut output) = (0, Vec::new());
        for (key, input) in &portions {
            if !join.wants(Port(*input), datagrams) {
                continue;
            }
            let portion = portion(*key, *input, usize::from(*key));
            offered += portion.len() as u64;
            join.offer(Port(*input), &portion, LONGEST);
            prop_assert!(join.open.len() <= window && join.numbers.len() == join.open.len());
            output.extend(taken(&mut join));
        }
        let waits: usize = join.open.values().map(|open| open.bytes.len()).sum();
        prop_assert_eq!(join.bytes, waits);
        (0..3).for_each(|input| join.remove(Port(input), false));
        prop_assert!(join.is_empty() && join.portions == 0 && join.bytes == 0);
        for joined in &output {
            prop_assert_eq!(joined, &record(joined[0], 3, usize::from(joined[0])));
        }
        let came: u64 = output.iter().map(|record| record.len() as u64).sum();
        prop_assert_eq!(join.lost_bytes, offered - came);
        if window > 12 {
            let once: BTreeSet<_> = portions.iter().collect();
            let is_whole = |key: u8| (0..3).all(|input| once.contains(&(key, input)));
            let keys: BTreeSet<u8> = output.iter().map(|record| record[0]).collect();
            prop_assert_eq!(keys, (0..12).filter(|key| is_whole(*key)).collect());
        }
    }
}
