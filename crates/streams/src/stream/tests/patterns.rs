//! Spreading records over outputs, and collecting them again.

use super::*;
use crate::InputOrder;
use crate::Late;
use proptest::prelude::*;
use std::thread;

/// Spreads records of `record_bytes` over so many outputs; returns the bytes of each.
pub(super) fn spread(
    input: &[u8],
    record_bytes: usize,
    pattern: OutputPattern,
    count: usize,
) -> Vec<Collected> {
    let (objects, collected) = collects(count);
    let builder =
        StreamBuilder::default().pattern(pattern).input(memory(input), Framing::Fixed(record_bytes));
    let mut stream = objects.into_iter().fold(builder, StreamBuilder::output).build();
    stream.run().unwrap();
    assert_eq!(stream.status().bytes_in, input.len() as u64);
    collected
}

pub(super) fn merged(
    builder: StreamBuilder,
    inputs: impl IntoIterator<Item = (Vec<u8>, Framing)>,
) -> Vec<u8> {
    let (object, collected) = Object::collect("out", LIMIT);
    let builder =
        inputs.into_iter().fold(builder, |builder, (bytes, framing)| builder.input(memory(&bytes), framing));
    builder.output(object).build().run().unwrap();
    collected.bytes()
}

proptest! {
    /// Promise: Inputs take turns in order, at random, by arrival, or by a tag with a bounded window.
    ///
    /// Records that were spread in turn or at random are collected by the same order: the same records in the
    /// same order.
    #[test]
    fn merging_undoes_striping(
        input in proptest::collection::vec(any::<u8>(), 0..2000),
        record_bytes in 1usize..40,
        count in 1usize..5,
        seed in any::<u64>(),
    ) {
        // A shorter last record could not be recognised when records are merged.
        let input = &input[..input.len() - input.len() % record_bytes];
        for (pattern, order) in [
            (OutputPattern::Stripe, InputOrder::RoundRobin),
            (OutputPattern::Random { seed }, InputOrder::Random { seed }),
        ] {
            let parts = spread(input, record_bytes, pattern, count);
            let parts = parts.iter().map(|part| (part.bytes(), Framing::Fixed(record_bytes)));
            prop_assert_eq!(merged(StreamBuilder::default().order(order), parts), input);
        }
    }

    /// Promise: Outputs get records in turn, by size, at random, by capacity, all of them, or as shares.
    #[test]
    fn stripes_of_bytes_are_of_their_size(
        input in proptest::collection::vec(any::<u8>(), 0..2000),
        unit in 1usize..100,
        count in 1usize..5,
    ) {
        let parts = spread(&input, 7, OutputPattern::StripeBytes(unit), count);
        for (place, part) in parts.iter().enumerate() {
            let expected: Vec<&[u8]> = input.chunks(unit).skip(place).step_by(count).collect();
            prop_assert_eq!(part.records(), expected);
        }
    }

    /// Promise: Outputs get records in turn, by size, at random, by capacity, all of them, or as shares.
    #[test]
    fn a_mirror_gives_all_to_each_and_capacity_each_record_once(
        input in proptest::collection::vec(any::<u8>(), 0..2000),
        record_bytes in 1usize..40,
        count in 1usize..5,
    ) {
        let records: Vec<&[u8]> = input.chunks(record_bytes).collect();
        for part in spread(&input, record_bytes, OutputPattern::Mirror, count) {
            prop_assert_eq!(part.records(), records.clone());
        }
        let parts = spread(&input, record_bytes, OutputPattern::Capacity, count);
        let mut all: Vec<Vec<u8>> = parts.iter().flat_map(Collected::records).collect();
        let mut expected: Vec<Vec<u8>> = records.iter().map(|record| record.to_vec()).collect();
        all.sort();
        expected.sort();
        prop_assert_eq!(all, expected);
    }
}

/// Promise: Inputs take turns in order, at random, by arrival, or by a tag with a bounded window.
#[test]
fn records_with_tags_are_put_in_order() {
    let builder =
        StreamBuilder::default().order_by_tag(16, LIMIT, Late::Drop, |record| Some(record[0].into()));
    let inputs = [&b"\x01a\x04b\x05c"[..], b"\x02d\x03e\x09f"];
    let output = merged(builder, inputs.map(|bytes| (bytes.to_vec(), Framing::Fixed(2))));
    assert_eq!(output, b"\x01a\x02d\x03e\x04b\x05c\x09f");
}

/// Promise: Inputs take turns in order, at random, by arrival, or by a tag with a bounded window.
///
/// The bytes of records that wait for a silent input are bounded, for long records as well as for many.
#[test]
fn records_with_tags_that_wait_take_so_much_memory() {
    const BOUND: usize = 400_000;
    let (mut source, near) = UnixStream::pair().unwrap();
    let (_silent, far) = UnixStream::pair().unwrap();
    let (object, collected) = Object::collect("out", LIMIT);
    let mut stream = StreamBuilder::default()
        .order_by_tag(1 << 20, BOUND, Late::Drop, |record| Some(record[0].into()))
        .input(Object::stream("source", near.into()).unwrap(), Framing::Fixed(100_000))
        .input(Object::stream("silent", far.into()).unwrap(), Framing::Fixed(100_000))
        .output(object)
        .build();
    for tag in 1..=20u64 {
        source.write_all(&[tag as u8; 50_000]).unwrap();
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        source.write_all(&[tag as u8; 50_000]).unwrap();
        stream.note_ready(Port(1));
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        stream.note_ready(Port(1));
        let status = stream.status();
        assert_eq!(status.bytes_in, tag * 100_000);
        assert!(status.bytes_pending < BOUND as u64, "{} bytes wait", status.bytes_pending);
    }
    let went: Vec<u8> = collected.bytes().chunks(100_000).map(|record| record[0]).collect();
    assert_eq!(went, Vec::from_iter(1..=17));
    assert_eq!(stream.status().merge.unwrap().unawaited, 17);
}

/// Promise: As configured, a full output blocks the stream, drops records or is detached; drops are counted.
#[test]
fn a_mirror_waits_for_its_slowest_or_drops_or_does_without_it_as_it_is_told() {
    let record = vec![7u8; 1000];
    let input: Vec<u8> = record.iter().copied().cycle().take(4_000_000).collect();
    for when_full in [WhenFull::Block, WhenFull::DropNewest, WhenFull::DropOldest, WhenFull::Disconnect] {
        let (stuck, reader) = UnixStream::pair().unwrap();
        let (object, collected) = Object::collect("fast", LIMIT);
        let options = OutputOptions { when_full, waiting_bytes: 50_000, ..OutputOptions::default() };
        let mut stream = StreamBuilder::default()
            .pattern(OutputPattern::Mirror)
            .input(memory(&input), Framing::Fixed(1000))
            .output(object)
            .output_with(Object::stream("stuck", stuck.into()).unwrap(), options)
            .build();
        let mut acted = stream.act(u64::MAX, 0).0;
        let status = stream.status();
        let stuck = status.outputs.iter().find(|output| output.name == "stuck");
        match when_full {
            WhenFull::Block => {
                assert!(matches!(acted, Acted::Wait));
                assert!(collected.bytes().len() < 2_000_000);
                assert!(stuck.unwrap().waiting_bytes < 50_000 + 300_000, "{status:?}");
                assert_eq!(stuck.unwrap().dropped, crate::Dropped::default());
            }
            WhenFull::DropNewest | WhenFull::DropOldest => {
                assert_eq!(collected.bytes().len(), input.len());
                let stuck = stuck.unwrap();
                assert_eq!(stuck.bytes + stuck.waiting_bytes + stuck.dropped.bytes, 4_000_000);
                assert_eq!(stuck.dropped.bytes, stuck.dropped.records * 1000);
                // The remaining records arrive whole when the peer reads.
                let reading = thread::spawn(move || {
                    let mut read = Vec::new();
                    (&reader).read_to_end(&mut read).unwrap();
                    read
                });
                stream.run().unwrap();
                drop(stream);
                let read = reading.join().unwrap();
                assert_eq!(read.len() as u64, 4_000_000 - stuck.dropped.bytes);
                acted = Acted::Ended(Ok(()));
            }
            WhenFull::Disconnect => {
                assert_eq!(collected.bytes().len(), input.len());
                assert!(stuck.is_none(), "{status:?}");
                let ended = &status.ended_outputs[0];
                assert_eq!((&*ended.name, ended.why_gone.as_deref()), ("stuck", Some("it did not keep up")));
                assert!(ended.bytes > 0 && ended.dropped.bytes > 0, "{ended:?}");
            }
        }
        assert_eq!(matches!(acted, Acted::Ended(Ok(()))), when_full != WhenFull::Block);
    }
}

/// Promise: With the pattern `capacity`, an output that drops records gets none while others have room.
#[test]
fn what_drops_records_gets_none_while_others_have_room() {
    let (stuck, _reader) = UnixStream::pair().unwrap();
    stuck.set_nonblocking(true).unwrap();
    while (&stuck).write(&[0; 1000]).is_ok() {}
    let (object, collected) = Object::collect("fast", LIMIT);
    let options = |waiting_bytes| OutputOptions {
        when_full: WhenFull::DropNewest,
        waiting_bytes,
        ..OutputOptions::default()
    };
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Capacity)
        .input(memory(&[7; 4_000_000]), Framing::Fixed(1000))
        .output_with(Object::stream("stuck", stuck.into()).unwrap(), options(5000))
        .output_with(object, options(1_000_000))
        .build();
    assert!(matches!(stream.act(u64::MAX, 1).0, Acted::Wait));
    let status = stream.status();
    assert_eq!(status.bytes_in, 4_000_000);
    assert!(status.outputs.iter().all(|output| output.dropped == Dropped::default()), "{status:?}");
    assert!(status.outputs[0].waiting_bytes > 0 && collected.bytes().len() > 3_000_000, "{status:?}");
}
