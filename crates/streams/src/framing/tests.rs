use super::splitter::Passed;
use super::*;
use bytes::BytesMut;
use proptest::prelude::*;

/// Returns all records of `input`, which arrives in parts of these sizes, in turn, and the error at its end.
fn records(
    framing: Framing,
    whole: bool,
    input: &[u8],
    sizes: &[usize],
) -> Result<Vec<Vec<u8>>, FramingError> {
    let mut splitter = Splitter::new(framing, whole.then_some(10_000));
    let (mut buffer, mut records, mut rest) = (BytesMut::new(), Vec::new(), input);
    for size in sizes.iter().cycle() {
        let (part, later) = rest.split_at((*size).min(rest.len()));
        buffer.extend_from_slice(part);
        rest = later;
        while let Some(run) = splitter.next(&mut buffer, rest.is_empty())? {
            assert!(!whole || run.begins && run.ends);
            for piece in run.pieces() {
                if piece.begins {
                    records.push(Vec::new());
                }
                records.last_mut().expect("a record begins before it goes on").extend_from_slice(piece.bytes);
            }
            assert_eq!(splitter.at_boundary(), run.ends);
        }
        if rest.is_empty() {
            break;
        }
    }
    assert!(buffer.is_empty() && splitter.at_boundary());
    Ok(records)
}

#[test]
fn known_framings() {
    let of = |framing, input: &[u8]| records(framing, true, input, &[3]);
    assert_eq!(of(Framing::Whole, b"abcdefg").unwrap(), [b"abcdefg"]);
    assert_eq!(of(Framing::Fixed(3), b"abcdefg").unwrap(), [&b"abc"[..], b"def", b"g"]);
    assert_eq!(of(Framing::lines(8), b"a\n\nbcd\ne").unwrap(), [&b"a\n"[..], b"\n", b"bcd\n", b"e"]);
    assert_eq!(of(Framing::rtp(), b"\0\x01a\0\0\0\x02bc").unwrap(), [&b"\0\x01a"[..], b"\0\0", b"\0\x02bc"]);
    assert_eq!(of(Framing::length32(16), b"\0\0\0\x01a").unwrap(), [b"\0\0\0\x01a"]);
    let mut packets = vec![0x47; 2 * 188];
    assert_eq!(of(Framing::transport_stream(), &packets).unwrap().len(), 2);
    packets[188] = 0;
    let error = of(Framing::transport_stream(), &packets).unwrap_err();
    assert!(error.to_string().contains("0x00"), "{error}");
}

/// Promise: A record that is too long or truncated is an error.
#[test]
fn what_is_too_long_or_cut_is_an_error() {
    let of = |framing, input: &[u8]| records(framing, true, input, &[4]).unwrap_err();
    assert_eq!(of(Framing::lines(3), b"abcdef\n"), FramingError::TooLong { bytes: 4, limit: 3 });
    assert_eq!(of(Framing::length32(8), b"\0\0\0\x05a"), FramingError::TooLong { bytes: 9, limit: 8 });
    assert_eq!(of(Framing::rtp(), b"\0\x05abc"), FramingError::Cut { bytes: 5 });
    assert_eq!(of(Framing::rtp(), b"\0"), FramingError::Cut { bytes: 1 });
    let in_parts = records(Framing::rtp(), false, b"\0\x09abcdefg", &[4]).unwrap_err();
    assert_eq!(in_parts, FramingError::Cut { bytes: 9 }, "all that came of the record");
    let nothing = Framing::With { limit: 9, measure: Box::new(|_, _| Ok(Some(0))) };
    assert!(matches!(of(nothing, b"a"), FramingError::Wrong(_)));
    let long = vec![0; 20_000];
    assert_eq!(of(Framing::Whole, &long), FramingError::Undivided { limit: 10_000 });
    assert_eq!(of(Framing::Fixed(10_001), b"a"), FramingError::TooLong { bytes: 10_001, limit: 10_000 });
}

/// Promise: A record that is too long or truncated is an error.
///
/// For every framing; a record that is passed on in pieces is not kept.
#[test]
fn no_record_is_kept_that_is_longer_than_whole_ones_may_be() {
    let header = &(1u32 << 28).to_be_bytes()[..];
    let next = |framing, whole, bytes: &[u8]| {
        Splitter::new(framing, whole).next(&mut BytesMut::from(bytes), false).map(|run| run.is_some())
    };
    let long = |bytes| Err(FramingError::TooLong { bytes, limit: LONGEST });
    assert_eq!(next(Framing::length32(1 << 30), Some(LONGEST), header), long((1 << 28) + 4));
    assert_eq!(next(Framing::length32(1 << 30), None, header), Ok(true));
    let fits = &(LONGEST as u32 - 4).to_be_bytes()[..];
    assert_eq!(next(Framing::length32(1 << 30), Some(1000), fits), Ok(false), "who takes less refuses it");
    let line = vec![b'x'; LONGEST + 1];
    assert_eq!(next(Framing::lines(1 << 30), Some(LONGEST), &line), long(LONGEST + 1));
    assert_eq!(next(Framing::lines(1 << 30), Some(LONGEST), &line[1..]), Ok(false));
}

proptest! {
    /// Promise: Records are found by size or by a bounded callback, however the bytes arrive.
    ///
    /// The records are the same for any parts in which bytes arrive, in pieces or whole.
    #[test]
    fn records_do_not_depend_on_how_bytes_come(
        lengths in proptest::collection::vec(0u8..40, 0..30),
        sizes in proptest::collection::vec(1usize..50, 1..10),
        whole: bool,
        fixed in 1usize..30,
    ) {
        let expected: Vec<Vec<u8>> = lengths.iter().enumerate()
            .map(|(index, length)| {
                let mut record = vec![0, *length];
                record.extend((0..*length).map(|byte| byte ^ index as u8));
                record
            })
            .collect();
        let input = expected.concat();
        prop_assert_eq!(&records(Framing::rtp(), whole, &input, &sizes).unwrap(), &expected);
        let expected: Vec<Vec<u8>> = input.chunks(fixed).map(<[u8]>::to_vec).collect();
        prop_assert_eq!(&records(Framing::Fixed(fixed), whole, &input, &sizes).unwrap(), &expected);
        let all = records(Framing::Whole, whole, &input, &sizes).unwrap();
        prop_assert_eq!(all.concat(), input);
    }
}

#[test]
fn what_a_record_still_needs_is_known_where_records_say_it() {
    let mut splitter = Splitter::new(Framing::Fixed(1000), None);
    assert_eq!(splitter.awaited(), 1000, "the next record");
    splitter.next(&mut BytesMut::from(&[0; 300][..]), false).unwrap();
    assert_eq!(splitter.awaited(), 700, "the rest of this one");
    splitter.next(&mut BytesMut::from(&[0; 700][..]), false).unwrap();
    assert_eq!(splitter.awaited(), 1000);
    let mut whole = Splitter::new(Framing::Whole, None);
    whole.next(&mut BytesMut::from(&[0; 300][..]), false).unwrap();
    assert_eq!(whole.awaited(), 0, "a record without end");
}

#[test]
fn what_goes_by_unseen_counts_as_much_as_what_is_seen() {
    let mut splitter = Splitter::new(Framing::Fixed(1000), None);
    assert_eq!(splitter.blind(), Some(1000));
    assert_eq!(splitter.pass(300), Some(Passed { begins: true, ends: false }));
    assert_eq!((splitter.blind(), splitter.at_boundary()), (Some(700), false));
    let mut rest = BytesMut::from(&[7; 1500][..]);
    let run = splitter.next(&mut rest, false).unwrap().unwrap();
    assert_eq!((run.bytes.len(), run.begins, run.ends), (700, false, true), "the rest of the record");
    assert_eq!(splitter.next(&mut rest, false).unwrap().unwrap().bytes.len(), 800);
    assert_eq!(splitter.pass(200), Some(Passed { begins: false, ends: true }));
    assert_eq!(splitter.pass(1000), Some(Passed { begins: true, ends: true }));
    assert!(splitter.at_boundary());
    assert_eq!(Splitter::new(Framing::Fixed(1000), Some(5000)).blind(), None, "only whole ones");
    assert_eq!(Splitter::new(Framing::rtp(), None).blind(), None, "somebody has to look");
    let mut whole = Splitter::new(Framing::Whole, None);
    assert_eq!((whole.blind(), whole.pass(10)), (Some(usize::MAX), None));
}

/// The beginning of a record of this many bytes, for `Framing::length32`.
fn prefix(length: usize) -> [u8; 4] {
    (length as u32 - 4).to_be_bytes()
}

#[test]
fn the_length_of_a_record_is_computed_before_it_is_read() {
    let mut splitter = Splitter::new(Framing::length32(1 << 20), None);
    assert!(splitter.can_zero_copy() && splitter.blind().is_none());
    assert_eq!(splitter.look_ahead(&[0, 0]), Ahead::Reads(usize::MAX), "it needs more");
    assert!(splitter.can_zero_copy(), "it may be large");
    assert_eq!(splitter.look_ahead(&prefix(LARGE)), Ahead::Moves(LARGE));
    assert_eq!((splitter.blind(), splitter.awaited(), splitter.at_boundary()), (Some(LARGE), LARGE, true));
    assert_eq!(splitter.pass(100), Some(Passed { begins: true, ends: false }));
    assert_eq!((splitter.look_ahead(&[0]), splitter.at_boundary()), (Ahead::Moves(LARGE - 100), false));
    let mut rest = BytesMut::from(&vec![7; LARGE - 100][..]);
    let run = splitter.next(&mut rest, false).unwrap().unwrap();
    assert_eq!((run.bytes.len(), run.begins, run.ends), (LARGE - 100, false, true));
    assert!(splitter.blind().is_none(), "the next one is not known");
    // A record that was looked at and did not move is read from its beginning.
    assert_eq!(splitter.look_ahead(&prefix(LARGE + 5)), Ahead::Moves(LARGE + 5));
    let run = splitter.next(&mut BytesMut::from(&prefix(LARGE + 5)[..]), false).unwrap().unwrap();
    assert_eq!((run.bytes.len(), run.begins, run.ends), (4, true, false));
    // The end comes too early, behind bytes that were read and bytes that were not.
    assert_eq!(splitter.pass(LARGE), Some(Passed { begins: false, ends: false }));
    let cut = splitter.next(&mut BytesMut::new(), true).unwrap_err();
    assert_eq!(cut, FramingError::Cut { bytes: LARGE + 4 });
}

#[test]
fn small_records_are_read_and_after_two_of_them_all_until_a_long_one_comes() {
    let small = [&prefix(10)[..], b"abcdef"].concat();
    let large = [&prefix(LARGE)[..], &vec![1; LARGE - 4]].concat();
    let mut splitter = Splitter::new(Framing::length32(1 << 20), None);
    assert_eq!(splitter.look_ahead(&[&small[..], &large].concat()), Ahead::Reads(10));
    for (record, may_be_large) in [(&small, true), (&large, true), (&small, false), (&large, false)] {
        let run = splitter.next(&mut BytesMut::from(&record[..]), false).unwrap().unwrap();
        assert_eq!((&run.bytes[..], splitter.can_zero_copy()), (&record[..], may_be_large));
    }
    splitter.next(&mut BytesMut::from(&prefix(3 * LARGE)[..]), false).unwrap();
    assert_eq!((splitter.can_zero_copy(), splitter.blind()), (true, Some(3 * LARGE - 4)));
    let mut splitter = Splitter::new(Framing::length32(1 << 20), None);
    splitter.next(&mut BytesMut::from(&small[..5]), false).unwrap();
    assert!(!splitter.can_zero_copy(), "not the rest of a small one");
    splitter.next(&mut BytesMut::from(&small[5..]), false).unwrap();
    assert!(splitter.can_zero_copy());
    let mut splitter = Splitter::new(Framing::length32(1 << 20), None);
    let ahead = splitter.look_ahead(&[255; 4]);
    assert_eq!(ahead, Ahead::Reads(usize::MAX), "an error is reported when the record is read");
    assert!(splitter.next(&mut BytesMut::from(&[255; 4][..]), false).is_err());
    assert!(!Splitter::new(Framing::length32(LARGE - 1), None).can_zero_copy(), "none is large");
    assert!(!Splitter::new(Framing::length32(1 << 20), Some(1 << 20)).can_zero_copy(), "only whole ones");
}
