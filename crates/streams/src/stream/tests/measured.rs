//! Records whose lengths are computed from their first bytes: large ones move without a copy.

use std::thread::{self, JoinHandle};

use super::patterns::merged;
use super::peeking::{Heads, file, passes};
use super::zero_copy::{join, sinks, some_bytes, source, turn_until};
use super::*;
use crate::framing::LARGE;
use crate::{InputOrder, Lending, LendingSwitch, hot_blocks};
use parking_lot::Mutex;
use proptest::prelude::*;

/// Records of these lengths. Each begins with its length in four bytes, the least significant first, so
/// [`Heads`] drops a record whose length is a multiple of four.
pub(super) fn records(lengths: &[usize]) -> Vec<Vec<u8>> {
    let record = |(index, length): (usize, &usize)| {
        let mut record = some_bytes(length + index).split_off(index);
        record[..4].copy_from_slice(&(*length as u32).to_le_bytes());
        record
    };
    lengths.iter().enumerate().map(record).collect()
}

/// Framing of such records.
pub(super) fn framing() -> Framing {
    let measure =
        |bytes: &[u8], _| Ok(bytes.first_chunk().map(|length| u32::from_le_bytes(*length) as usize));
    Framing::With { limit: 1 << 24, measure: Box::new(measure) }
}

type Seen = Arc<Mutex<Vec<Vec<u8>>>>;

fn with_heads(builder: StreamBuilder, length: Option<usize>, seen: &Seen) -> StreamBuilder {
    let heads = |length| Handler::Peek(Box::new(Heads { length, seen: Arc::clone(seen) }));
    length.map(heads).into_iter().fold(builder, StreamBuilder::handler)
}

/// Connections, and threads that collect the bytes of each: some bytes at a time, with pauses.
fn slow_sinks(count: usize, at_a_time: usize) -> (Vec<Object>, Vec<JoinHandle<Vec<u8>>>) {
    let sink = |_| {
        let (near, mut far) = UnixStream::pair().unwrap();
        let reader = thread::spawn(move || {
            let (mut bytes, mut room) = (Vec::new(), vec![0; at_a_time]);
            loop {
                match far.read(&mut room).unwrap() {
                    0 => return bytes,
                    read => bytes.extend_from_slice(&room[..read]),
                }
                thread::sleep(Duration::from_micros(100));
            }
        });
        (Object::stream("sink", near.into()).unwrap(), reader)
    };
    (0..count).map(sink).unzip()
}

/// Promise: Large records behind their lengths move without a copy.
///
/// From a socket, record by record, with and without a handler that sees the beginnings.
#[test]
fn large_records_of_a_socket_are_not_copied() {
    let records = records(&[LARGE + 1, LARGE + 2, 65_537, 40_001, 60_003, 50_002]);
    for length in [None, Some(16), Some(1000)] {
        let (mut feed, inlet) = UnixStream::pair().unwrap();
        let (near, mut far) = UnixStream::pair().unwrap();
        let seen = Seen::default();
        let mut stream = with_heads(StreamBuilder::default(), length, &seen)
            .input(Object::stream("inlet", inlet.into()).unwrap(), framing())
            .output(Object::stream("sink", near.into()).unwrap())
            .build();
        for record in &records {
            feed.write_all(record).unwrap();
            (0..2).for_each(|port| stream.note_ready(Port(port)));
            assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
            let mut came = vec![0; record.len()];
            far.read_exact(&mut came).unwrap();
            assert!(came == *record, "{length:?}");
        }
        let status = stream.status();
        let bytes = records.concat().len() as u64;
        assert_eq!((status.bytes_in, status.zero_copy_bytes, status.records_in), (bytes, bytes, 6));
        let heads = records.iter().filter_map(|record| Some(record[..length?].to_vec()));
        assert!(*seen.lock() == heads.collect::<Vec<_>>(), "{length:?}");
    }
}

/// Promise: Large records behind their lengths move without a copy.
///
/// A small record among large ones is copied alone; after two of them many are read at once, and with them the
/// beginning of the next large one.
#[test]
fn small_records_among_large_ones_are_copied() {
    const LONG: usize = (1 << 20) + 1;
    let run = |lengths: &[usize]| {
        let bytes = records(lengths).concat();
        let (outputs, readers) = sinks(1);
        let builder = StreamBuilder::default().input(file(&bytes), framing()).finish_outputs();
        let mut stream = outputs.into_iter().fold(builder, StreamBuilder::output).build();
        stream.run().unwrap();
        let status = stream.status();
        drop(stream);
        assert!(join(readers)[0] == bytes);
        assert_eq!((status.bytes_in, status.records_in), (bytes.len() as u64, lengths.len() as u64));
        status
    };
    let copied = |lengths: &[usize]| {
        let status = run(lengths);
        status.bytes_in - status.zero_copy_bytes
    };
    assert_eq!(copied(&[[LONG, 101]; 10].concat()), 10 * 101);
    let many = copied(&[&[LONG][..], &[101; 5]].concat().repeat(10));
    assert!((10 * 505..=10 * (202 + hot_blocks::piece() as u64)).contains(&many), "{many} bytes were copied");
    assert_eq!(run(&[101; 3000]).zero_copy_bytes, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Promise: Large records behind their lengths move without a copy.
    ///
    /// Records of any length arrive as if they were copied, wherever the bytes are cut on their way, and
    /// handlers see the same; no byte of a small record takes the zero-copy route.
    #[test]
    fn records_of_any_length_arrive_as_if_they_were_copied(
        lengths in proptest::collection::vec(
            prop_oneof![4usize..3000, LARGE - 50..LARGE + 50, LARGE..200_000, LARGE..200_000],
            1..30,
        ),
        cuts in 500usize..100_000,
        length in proptest::option::of(1usize..2000),
        pattern in prop_oneof![
            Just(OutputPattern::Stripe),
            Just(OutputPattern::Random { seed: 5 }),
            Just(OutputPattern::Mirror),
            Just(OutputPattern::StripeBytes(50_000)),
        ],
        count in 1usize..4,
        room in 1000usize..50_000,
        is_file: bool,
    ) {
        let records = records(&lengths);
        let bytes = records.concat();
        let run = |input: Object, outputs: Vec<Object>| {
            let seen = Seen::default();
            let builder = with_heads(StreamBuilder::default().pattern(pattern), length, &seen)
                .input(input, framing())
                .finish_outputs();
            let mut stream = outputs.into_iter().fold(builder, StreamBuilder::output).build();
            stream.run().unwrap();
            let status = stream.status();
            drop(stream);
            let seen = std::mem::take(&mut *seen.lock());
            (seen, status)
        };
        let (objects, collected) = collects(count);
        let (seen, copied) = run(memory(&bytes), objects);
        let expected: Vec<Vec<u8>> = collected.iter().map(Collected::bytes).collect();

        let (outputs, readers) = slow_sinks(count, room);
        let input = if is_file { file(&bytes) } else { source(&bytes, cuts) };
        let (also_seen, status) = run(input, outputs);
        prop_assert!(join(readers) == expected);
        prop_assert!(seen == also_seen);
        prop_assert_eq!((status.bytes_in, status.records_in), (copied.bytes_in, copied.records_in));
        let goes = |record: &&Vec<u8>| record.len() >= LARGE && (length.is_none() || passes(record));
        let large: u64 = records.iter().filter(goes).map(|record| record.len() as u64).sum();
        prop_assert!(status.zero_copy_bytes <= large);
        let divides = length.is_some() && matches!(pattern, OutputPattern::StripeBytes(_));
        if is_file && !divides && lengths.iter().all(|length| *length >= LARGE) {
            prop_assert_eq!(status.zero_copy_bytes, large);
        }
    }

    /// Promise: Large records behind their lengths move without a copy.
    ///
    /// Inputs take turns by record, as with copied records.
    #[test]
    fn records_of_several_inputs_are_merged_as_if_they_were_copied(
        lengths in proptest::collection::vec(
            proptest::collection::vec(prop_oneof![4usize..3000, LARGE - 50..150_000, LARGE..150_000], 1..8),
            2..4,
        ),
        cuts in 500usize..100_000,
        order in prop_oneof![Just(InputOrder::RoundRobin), Just(InputOrder::Random { seed: 9 })],
    ) {
        let parts: Vec<Vec<u8>> = lengths.iter().map(|lengths| records(lengths).concat()).collect();
        let builder = || StreamBuilder::default().order(order);
        let expected = merged(builder(), parts.iter().map(|part| (part.clone(), framing())));
        let (outputs, readers) = slow_sinks(1, 30_000);
        let builder = parts
            .iter()
            .fold(builder().finish_outputs(), |builder, part| builder.input(source(part, cuts), framing()));
        let mut stream = outputs.into_iter().fold(builder, StreamBuilder::output).build();
        stream.run().unwrap();
        drop(stream);
        prop_assert!(join(readers) == [expected]);
    }
}

/// Promise: Large records behind their lengths move without a copy.
///
/// By arrival, records of several inputs stay whole.
#[test]
fn records_that_arrive_in_parts_stay_whole() {
    let parts = [[50_001, 40_002, 9, 33_003], [34_005, 10, 70_006, 90_007], [60_009, 60_009, 60_009, 60_009]];
    let (outputs, readers) = sinks(1);
    let builder = StreamBuilder::default().order(InputOrder::Arrival).finish_outputs();
    let add = |builder: StreamBuilder, part: &[usize; 4]| {
        builder.input(source(&records(part).concat(), 999), framing())
    };
    let builder = parts.iter().fold(builder, add);
    let mut stream = outputs.into_iter().fold(builder, StreamBuilder::output).build();
    stream.run().unwrap();
    let status = stream.status();
    drop(stream);
    assert!(status.zero_copy_bytes > 0, "{status:?}");
    let (came, mut found) = (join(readers).remove(0), Vec::new());
    let mut rest = &came[..];
    while let Some(length) = rest.first_chunk().map(|length| u32::from_le_bytes(*length) as usize) {
        found.push(rest[..length].to_vec());
        rest = &rest[length..];
    }
    let mut sent: Vec<Vec<u8>> = parts.iter().flat_map(|part| records(part)).collect();
    found.sort();
    sent.sort();
    assert!(found == sent);
}

/// Promise: If a handler only peeks at the beginning of records, the rest moves without a copy.
///
/// A mirror, too, copies nothing of the records behind a dropped one that is read in several steps.
#[test]
fn what_follows_a_dropped_record_is_not_copied_to_the_outputs_of_a_mirror() {
    let lengths = [300_001, 3_000_000, 300_001, 4_000_000, 300_003];
    for framing in [framing(), Framing::Fixed(1_000_001)] {
        let is_fixed = matches!(framing, Framing::Fixed(_));
        let mut records = records(if is_fixed { &[1_000_001; 5] } else { &lengths });
        if is_fixed {
            [1, 3].iter().for_each(|index| records[*index][0] = 4);
        }
        let (seen, (outputs, readers)) = (Seen::default(), sinks(2));
        let builder = with_heads(StreamBuilder::default().pattern(OutputPattern::Mirror), Some(10), &seen)
            .input(file(&records.concat()), framing)
            .finish_outputs();
        let mut stream = outputs.into_iter().fold(builder, StreamBuilder::output).build();
        stream.run().unwrap();
        let status = stream.status();
        drop(stream);
        let passed = [&records[0][..], &records[2], &records[4]].concat();
        assert!(join(readers) == [passed.clone(), passed.clone()]);
        assert_eq!(status.zero_copy_bytes, passed.len() as u64, "fixed: {is_fixed}");
        assert_eq!(seen.lock().len(), 5);
    }
}

/// Promise: Large records behind their lengths move without a copy.
///
/// An output that is detached within such a record gets the rest of it; the others get the next ones.
#[test]
fn an_output_detached_within_a_record_gets_its_end() {
    let records = records(&[100_001; 12]);
    let bytes = records.concat();
    let (near, mut far) = UnixStream::pair().unwrap();
    let (mut outputs, mut readers) = sinks(2);
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .finish_outputs()
        .input(Object::stream("source", near.into()).unwrap(), framing())
        .output(outputs.remove(0))
        .output(outputs.remove(0))
        .build();
    far.write_all(&bytes[..50_000]).unwrap();
    turn_until(&mut stream, |stream| stream.status().bytes_out == 100_000);
    assert_eq!(stream.status().zero_copy_bytes, 50_000);
    let leaving = stream.outputs.current[0].port;
    assert!(stream.detach_output(leaving, drop));
    assert_eq!(stream.outputs.len(), 2, "it leaves at the end of the record");
    let rest = bytes[50_000..].to_vec();
    let writer = thread::spawn(move || far.write_all(&rest).unwrap());
    stream.run().unwrap();
    let status = stream.status();
    drop(stream);
    writer.join().unwrap();
    assert!(readers.remove(0).join().unwrap() == records[0]);
    assert!(join(readers) == [bytes]);
    assert!(status.zero_copy_bytes > 150_000, "{status:?}");
}

/// Promise: Records read before an input or handler failed are still sent, in order.
///
/// A record that is cut or invalid is the same error on the zero-copy route as for copied records.
#[test]
fn a_record_that_is_cut_or_too_long_is_an_error_behind_those_before_it() {
    let (whole, last) = (records(&[40_001, 101, 50_002, 60_003]).concat(), records(&[70_001]).concat());
    for (last, message) in [
        (&last[..1000], "the input ends within a record, after 1000 of its bytes"),
        (&last[..69_000], "the input ends within a record, after 69000 of its bytes"),
        (&last[..3], "the input ends within a record, after 3 of its bytes"),
        (&[255; 10], "record of 4294967295 bytes or more: at most 16777216 are allowed"),
    ] {
        let bytes = [&whole[..], last].concat();
        for input in [memory(&bytes), file(&bytes), source(&bytes, 7_777)] {
            let (what, is_memory) = (format!("{}: {message}", input.name()), input.name() == "memory");
            let (outputs, readers) = sinks(1);
            let builder = StreamBuilder::default().input(input, framing());
            let mut stream = outputs.into_iter().fold(builder, StreamBuilder::output).build();
            let error = stream.run().unwrap_err().to_string();
            let status = stream.status();
            drop(stream);
            assert!(error.contains(message), "{what}: {error}");
            let came = join(readers).remove(0);
            assert!(bytes.starts_with(&came) && came.len() >= whole.len(), "{what}: {} bytes", came.len());
            assert_eq!(status.zero_copy_bytes > 0, !is_memory, "{what}");
            assert_eq!(status.bytes_in - status.bytes_dropped, came.len() as u64, "{what}");
        }
    }
}

/// Promise: Large records behind their lengths move without a copy.
///
/// Only where the rule of lending allows it.
#[test]
fn the_rule_of_lending_decides_whether_records_are_copied() {
    let bytes = records(&[100_001; 20]).concat();
    for rule in Lending::ALL {
        for is_file in [true, false] {
            let switch = LendingSwitch::new(rule);
            let (outputs, readers) = sinks(1);
            let input = if is_file { file(&bytes) } else { source(&bytes, bytes.len()) };
            let builder = StreamBuilder::default().lending(switch.clone()).input(input, framing());
            let mut stream = outputs.into_iter().fold(builder, StreamBuilder::output).build();
            stream.run().unwrap();
            let status = stream.status();
            drop(stream);
            assert!(join(readers) == [bytes.clone()]);
            let may_lend = rule == Lending::Always || rule == Lending::Safe && !is_file;
            let what = format!("{rule}, file: {is_file}, {status:?}");
            assert_eq!(status.zero_copy_bytes > 0, may_lend, "{what}");
            assert_eq!(switch.copied_bytes() > 0, !may_lend, "{what}");
            let lent = if is_file { status.zero_copy_bytes } else { 0 };
            assert_eq!(switch.lent_bytes(), lent, "{what}");
        }
    }
}
