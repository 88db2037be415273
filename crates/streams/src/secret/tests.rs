use super::*;
use proptest::prelude::*;

/// Takes all records that can be recovered from datagrams.
fn take_all(collector: &mut Collector, is_end: bool) -> Vec<Bytes> {
    std::iter::from_fn(|| collector.take(!is_end, |_| 0)).collect()
}

proptest! {
    /// Any `threshold` shares recover the records in order, for any order of arrival.
    #[test]
    fn enough_shares_give_the_records_back(
        records in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 1..8),
        (count, threshold) in (1usize..6).prop_flat_map(|count| (Just(count), 1..=count)),
        order in any::<u64>(),
    ) {
        let mut splitter = SecretSplitter::new(threshold as u8);
        let mut shares: Vec<Bytes> = Vec::new();
        for record in &records {
            let dealt = splitter.split(record, count);
            prop_assert_eq!(dealt.len(), count);
            // Without these shares, whichever they are, the others suffice.
            let missing = order as usize % count;
            shares.extend((0..threshold).map(|index| dealt[(missing + index) % count].clone()));
        }
        let mut random = wirepath_media::random::Random::new(order);
        for place in (1..shares.len()).rev() {
            shares.swap(place, random.below(place as u64 + 1) as usize);
        }
        let (mut collector, mut output) = (Collector::new(threshold as u8, 100, 1 << 20), Vec::new());
        for share in shares {
            collector.offer(&share, 0).unwrap();
            output.extend(take_all(&mut collector, false));
        }
        prop_assert_eq!(output, records);
        prop_assert_eq!(collector.counts, ShareCounts::default());
        prop_assert_eq!(collector.bytes, 0);
    }
}

#[test]
fn too_few_shares_give_nothing_and_are_said_to_be_lost() {
    let mut splitter = SecretSplitter::new(2);
    let mut collector = Collector::new(2, 1, 1 << 20);
    let records = [&b"one"[..], b"two", b"three"].map(|record| splitter.split(record, 3));
    collector.offer(&records[0][0], 0).unwrap();
    assert!(take_all(&mut collector, false).is_empty());
    collector.offer(&records[2][0], 0).unwrap();
    collector.offer(&records[2][1], 0).unwrap();
    collector.offer(&records[2][1], 0).unwrap();
    assert!(take_all(&mut collector, false).is_empty(), "the first is given up, the second may still come");
    assert_eq!(take_all(&mut collector, true), [&b"three"[..]]);
    collector.offer(&records[1][0], 0).unwrap();
    assert_eq!(collector.counts, ShareCounts { lost: 2, spare: 2, ..ShareCounts::default() });
}

/// Promise: Shares from connections out of step are restored without loss, within limits of records and
/// bytes.
///
/// Bytes are bounded, too, for any window: otherwise hostile datagrams could fill memory.
#[test]
fn shares_of_more_bytes_than_may_wait_give_the_oldest_record_up() {
    let mut splitter = SecretSplitter::new(2);
    let mut collector = Collector::new(2, 1000, 3 * (100 + SHARE_MEMORY));
    let record = [7; 100 - SHARE_HEADER];
    for number in 0..10 {
        collector.offer(&splitter.split(&record, 1)[0], 0).unwrap();
        assert!(take_all(&mut collector, false).is_empty());
        assert_eq!(collector.bytes, 100 * 3.min(number + 1));
    }
    assert_eq!(collector.counts.lost, 7);
}

/// Promise: Shares from connections out of step are restored without loss, within limits of records and
/// bytes.
///
/// The collector waits only for shares that a byte stream may still bring: not for late shares, and not for
/// shares that would not suffice.
#[test]
fn a_record_waits_for_streams_that_are_behind_and_can_complete_it() {
    let mut splitter = SecretSplitter::new(2);
    let records = [b"one", b"two"].map(|record| splitter.split(record, 3));
    let mut collector = Collector::new(2, 1, 1);
    collector.offer(&records[1][0], 0).unwrap();
    collector.offer(&records[1][1], 0).unwrap();
    // Two inputs that may bring the first record, then one.
    assert_eq!(collector.take(false, |_| 2), None);
    assert_eq!(collector.counts.lost, 0);
    assert_eq!(collector.take(false, |_| 1).as_deref(), Some(&b"two"[..]));
    assert_eq!(collector.counts.lost, 1);
    let third = splitter.split(b"three", 3);
    collector.offer(&third[0], 0).unwrap();
    assert_eq!(collector.take(false, |_| 1), None);
    assert_eq!(collector.take(false, |_| 0), None);
    assert_eq!(collector.counts.lost, 2);
}

/// Promise: A single share reveals nothing of the bytes.
///
/// With one share less than the threshold, every record of the length is as likely as before: for each value
/// of a byte, the probability of the share that was seen is the same.
#[test]
fn a_share_alone_tells_nothing_of_the_bytes() {
    let mut seen = [[0u32; 4]; 2];
    for _ in 0..4000 {
        for (index, secret) in [0u8, 255].into_iter().enumerate() {
            let share = SecretSplitter::new(2).split(&[secret], 1).remove(0);
            seen[index][usize::from(share[SHARE_HEADER] >> 6)] += 1;
        }
    }
    for counts in seen {
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?} of 4000 in quarters");
    }
}

#[test]
fn what_is_no_share_is_an_error() {
    let mut collector = Collector::new(2, 4, 1 << 20);
    let share = SecretSplitter::new(2).split(b"abc", 1).remove(0).to_vec();
    for length in 0..share.len() {
        let cut = collector.offer(&share[..length], 0);
        assert!(matches!(cut, Err(ShareError::Cut { came, .. }) if came == length), "{length}: {cut:?}");
    }
    let longer = [&share[..], b"x"].concat();
    let (mut of_none, mut of_another) = (share.clone(), share.clone());
    of_none[1] = 0; // a threshold of 0
    of_another[0] = 1;
    for wrong in [longer, of_none, of_another] {
        assert!(matches!(collector.offer(&wrong, 0), Err(ShareError::NoShare(_))), "{wrong:?}");
    }
    assert!(collector.is_empty(), "nothing of it is kept");
}

/// Promise: An input that fails within a share, or brings shares of another stream, does not affect the
/// others.
///
/// Sets of consistent shares are kept apart in any order of arrival, and the set that reaches the threshold
/// is the record.
#[test]
fn shares_that_do_not_agree_do_not_keep_others_from_agreeing() {
    let of = |threshold, record| SecretSplitter::new(threshold).split(record, 3);
    let (good, longer, dearer) = (of(2, b"good"), of(2, b"longer"), of(3, b"good"));
    let shares = [&good[0], &good[1], &longer[2], &dearer[2]];
    for order in (0..256).map(|code| [0, 2, 4, 6].map(|shift| code >> shift & 3)) {
        let mut sorted = order;
        sorted.sort_unstable();
        if sorted != [0, 1, 2, 3] {
            continue;
        }
        let mut collector = Collector::new(2, 4, 1 << 20);
        for place in order {
            let refused = Err(ShareError::Foreign { found: 3, expected: 2 });
            let expected = if place == 3 { refused } else { Ok(0) };
            assert_eq!(collector.offer(shares[place], 0), expected);
        }
        assert_eq!(collector.take(true, |_| 0).as_deref(), Some(&b"good"[..]), "{order:?}");
        assert_eq!(collector.counts, ShareCounts { damaged: 1, foreign: 1, ..ShareCounts::default() });
        assert_eq!((collector.bytes, collector.lost_bytes), (0, 18), "{order:?}");
    }
}

/// Promise: Shares with a different threshold than the stream's are refused and counted.
///
/// A forged share with threshold 1 would be taken for a record, and a share with a higher threshold would
/// cause its record to be given up.
#[test]
fn shares_of_another_threshold_are_refused_whatever_comes_first() {
    let mut collector = Collector::new(2, 4, 1 << 20);
    for found in [1, 3] {
        let share = SecretSplitter::new(found).split(b"bad", 1);
        assert_eq!(collector.offer(&share[0], 0), Err(ShareError::Foreign { found, expected: 2 }));
    }
    assert_eq!(collector.take(false, |_| 0), None);
    assert_eq!((collector.counts.lost, collector.counts.foreign, collector.is_empty()), (0, 2, true));
    SecretSplitter::new(2)
        .split(b"one", 2)
        .iter()
        .for_each(|share| assert_eq!(collector.offer(share, 0), Ok(0)));
    assert_eq!(collector.take(false, |_| 0).as_deref(), Some(&b"one"[..]));
}

/// A forged share, with a body of so many bytes.
fn forged(number: u64, share: u8, length: usize) -> Vec<u8> {
    let header = [&[VERSION, 2, share][..], &(length as u32).to_be_bytes()[1..], &number.to_be_bytes()[2..]];
    [&header.concat()[..], &vec![0; length]].concat()
}

/// Promise: Shares from connections out of step are restored without loss, within limits of records and
/// bytes.
///
/// Small hostile shares are bounded by the memory that they take: of many records, or of one record in many
/// lengths.
#[test]
fn many_small_shares_are_bounded_by_their_memory_and_cost_no_more_each() {
    const BOUND: usize = 1 << 20;
    for is_one_record in [false, true] {
        let mut collector = Collector::new(2, usize::MAX, BOUND);
        for index in 0..50_000u64 {
            let (number, length) = if is_one_record { (0, index as usize % 4096) } else { (index, 1) };
            collector.offer(&forged(number, 1 + (index / 4096) as u8, length), 0).unwrap();
            assert!(take_all(&mut collector, false).is_empty() || is_one_record);
            assert!(collector.memory() <= BOUND, "{} bytes wait", collector.memory());
        }
        assert!(collector.counts.lost + collector.counts.spare > 0);
    }
}
