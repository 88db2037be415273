use super::*;
use bytes::Bytes;
use proptest::prelude::*;

fn records(bytes: &'static [u8], record_bytes: usize) -> Run {
    Run { bytes: Bytes::from_static(bytes), record_bytes, begins: true, ends: true }
}

fn waiting(outbox: &mut Outbox) -> Vec<u8> {
    outbox.take(usize::MAX).iter().flat_map(|run| run.bytes.to_vec()).collect()
}

#[test]
fn rules_for_a_full_outbox() {
    let full = |when_full| {
        let mut outbox = Outbox::new(size_of::<Run>() + 4, when_full);
        assert_eq!(outbox.offer(records(b"aabb", 2)), Offered::Done);
        outbox
    };
    let mut blocking = full(WhenFull::Block);
    assert!(blocking.blocks());
    blocking.consume(2);
    assert!(!blocking.blocks());

    let mut newest = full(WhenFull::DropNewest);
    assert_eq!((newest.offer(records(b"ccdd", 2)), newest.blocks()), (Offered::Done, false));
    assert_eq!(newest.dropped, Dropped { records: 2, bytes: 4 });
    assert_eq!(waiting(&mut newest), b"aabb");

    let mut oldest = full(WhenFull::DropOldest);
    assert_eq!(oldest.offer(records(b"cc", 2)), Offered::Done);
    assert_eq!(oldest.dropped, Dropped { records: 1, bytes: 2 });
    assert_eq!(waiting(&mut oldest), b"bbcc");

    let mut disconnecting = full(WhenFull::Disconnect);
    assert_eq!(disconnecting.offer(records(b"cc", 2)), Offered::Disconnect);
    disconnecting.drop_all();
    assert_eq!(disconnecting.dropped, Dropped { records: 3, bytes: 6 });
}

/// Promise: As configured, a full output blocks the stream, drops records or is detached; drops are counted.
#[test]
fn what_left_in_part_is_not_dropped() {
    let mut outbox = Outbox::new(2 * size_of::<Run>() + 3, WhenFull::DropOldest);
    outbox.offer(records(b"aabb", 2));
    outbox.consume(1);
    outbox.offer(records(b"cc", 2));
    assert_eq!(outbox.dropped, Dropped { records: 1, bytes: 2 });
    assert_eq!(waiting(&mut outbox), b"acc");
}

/// Offers a record in two parts, as from a handler that adds a length prefix.
fn offer_in_parts(outbox: &mut Outbox, head: &'static [u8], body: &'static [u8]) {
    outbox.offer(Run::single(Bytes::from_static(head), true, false));
    outbox.offer(Run::single(Bytes::from_static(body), false, true));
}

#[test]
fn records_in_parts_are_dropped_whole() {
    let room = 2 * size_of::<Run>() + 4;
    for (when_full, left) in [(WhenFull::DropNewest, b"1aaa2bbb"), (WhenFull::DropOldest, b"2bbb3ccc")] {
        let mut outbox = Outbox::new(2 * room, when_full);
        for (head, body) in [(b"1", b"aaa"), (b"2", b"bbb"), (b"3", b"ccc")] {
            offer_in_parts(&mut outbox, head, body);
        }
        assert_eq!(outbox.dropped, Dropped { records: 1, bytes: 4 });
        assert_eq!(waiting(&mut outbox), left);
    }
}

proptest! {
    /// Bytes leave in order for any amounts taken at a time, and the counts are right.
    #[test]
    fn bytes_leave_in_order(
        lengths in proptest::collection::vec((0usize..30, 1usize..10), 0..20),
        steps in proptest::collection::vec(1usize..40, 1..20),
    ) {
        let mut outbox = Outbox::new(1_000_000, WhenFull::Block);
        let mut expected: Vec<u8> = Vec::new();
        for (index, (length, record_bytes)) in lengths.iter().enumerate() {
            let bytes: Vec<u8> = (0..*length).map(|byte| (byte * 7 + index) as u8).collect();
            expected.extend(&bytes);
            outbox.offer(Run { bytes: bytes.into(), record_bytes: *record_bytes, begins: true, ends: true });
        }
        let mut left: Vec<u8> = Vec::new();
        for step in steps.iter().cycle() {
            let mut slices = [IoSlice::new(&[]); 3];
            let count = outbox.slices(&mut slices);
            let there: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            let taken = (*step).min(there.len());
            left.extend(&there[..taken]);
            outbox.consume(taken);
            prop_assert_eq!(outbox.bytes + left.len(), expected.len());
            if count == 0 {
                break;
            }
        }
        prop_assert_eq!(left, expected);
    }
}

proptest! {
    /// `has_end` is right after any sequence of offered, taken and dropped runs.
    #[test]
    fn it_is_known_whether_an_end_waits(
        parts in proptest::collection::vec((0usize..30, 1usize..10, any::<bool>(), 0usize..6), 0..100),
        when_full in
            prop_oneof![Just(WhenFull::Block), Just(WhenFull::DropNewest), Just(WhenFull::DropOldest)],
    ) {
        let mut outbox = Outbox::new(10 * size_of::<Run>(), when_full);
        let mut begins = true;
        for (length, record_bytes, ends, then) in parts {
            let bytes = Bytes::from(vec![0; length]);
            let is_whole = begins && ends;
            let record_bytes = if is_whole { record_bytes } else { length.max(1) };
            outbox.offer(Run { bytes, record_bytes, begins, ends });
            begins = ends;
            match then {
                0 => outbox.consume((outbox.bytes / 2).min(40)),
                1 => if let Some(mut run) = outbox.pop() {
                    run.take_records(1);
                    outbox.put_rest(run);
                }
                2 => begins |= outbox.end_record(),
                _ => {}
            }
            prop_assert_eq!(outbox.has_end(), outbox.runs.iter().any(|run| run.ends));
        }
        outbox.drop_all();
        prop_assert!(!outbox.has_end());
    }
}

/// An output that takes nothing of an endless record is disconnected, too, but not because of the runs that
/// one turn makes of a piece.
#[test]
fn a_record_without_end_does_not_wait_without_end() {
    static PIECE: [u8; 64 * 1024] = [7; 64 * 1024];
    let piece = |begins| Run::single(Bytes::from_static(&PIECE), begins, false);
    let mut outbox = Outbox::new(1, WhenFull::Disconnect);
    let mut offered = 1;
    assert_eq!(outbox.offer(piece(true)), Offered::Done);
    while outbox.offer(piece(false)) == Offered::Done {
        offered += 1;
    }
    assert_eq!(offered * PIECE.len() as u64, wirepath_engine::TURN_BYTES + PIECE.len() as u64);
    assert_eq!(outbox.dropped, Dropped { records: 0, bytes: PIECE.len() as u64 });

    let mut blocking = Outbox::new(1, WhenFull::Block);
    assert!((0..20).all(|number| blocking.offer(piece(number == 0)) == Offered::Done));
    assert!(blocking.blocks());
}
