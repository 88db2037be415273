//! Records of fixed size that nobody looks at: they must come as those that are copied.

use std::net::Shutdown;
use std::thread::{self, JoinHandle};

use super::patterns::{merged, spread};
use super::*;
use crate::InputOrder;

/// Bytes of records, all of which are large enough.
const SIZES: [usize; 3] = [32 * 1024, 40_001, 100_000];

fn some_bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// A connection from which these bytes come, at most so many at a time.
fn source(bytes: &[u8], at_a_time: usize) -> Object {
    let (near, mut far) = UnixStream::pair().unwrap();
    let bytes = bytes.to_vec();
    thread::spawn(move || bytes.chunks(at_a_time).try_for_each(|part| far.write_all(part)));
    Object::stream("source", near.into()).unwrap()
}

/// Connections, and what comes by each.
fn sinks(count: usize) -> (Vec<Object>, Vec<JoinHandle<Vec<u8>>>) {
    let sink = |_| {
        let (near, mut far) = UnixStream::pair().unwrap();
        let reader = thread::spawn(move || {
            let mut bytes = Vec::new();
            far.read_to_end(&mut bytes).map(|_| bytes).unwrap()
        });
        (Object::stream("sink", near.into()).unwrap(), reader)
    };
    (0..count).map(sink).unzip()
}

fn join(readers: Vec<JoinHandle<Vec<u8>>>) -> Vec<Vec<u8>> {
    readers.into_iter().map(|reader| reader.join().unwrap()).collect()
}

/// Runs a stream that is to look at nothing.
fn run_unseen(builder: StreamBuilder, outputs: Vec<Object>) -> StreamStatus {
    let mut stream = outputs.into_iter().fold(builder.finish_outputs(), StreamBuilder::output).build();
    stream.run().unwrap();
    let status = stream.status();
    assert_eq!(status.bytes_unseen, status.bytes_in, "nobody has to look at these");
    status
}

#[test]
fn large_records_are_spread_unseen_as_they_are_when_seen() {
    let bytes = some_bytes(1_000_003);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    let file = Arc::new(file);
    let patterns = [
        OutputPattern::Stripe,
        OutputPattern::Random { seed: 7 },
        OutputPattern::StripeBytes(50_000),
        OutputPattern::Mirror,
    ];
    for (pattern, record_bytes) in patterns.into_iter().flat_map(|pattern| SIZES.map(|size| (pattern, size)))
    {
        let seen: Vec<Vec<u8>> =
            spread(&bytes, record_bytes, pattern, 3).iter().map(Collected::bytes).collect();
        for input in [source(&bytes, 70_000), Object::file("file", Arc::clone(&file), 0)] {
            let (outputs, readers) = sinks(3);
            let builder =
                StreamBuilder::default().pattern(pattern).input(input, Framing::Fixed(record_bytes));
            let status = run_unseen(builder, outputs);
            assert!(join(readers) == seen, "{pattern:?} of {record_bytes}");
            assert_eq!(status.records_in, bytes.len().div_ceil(record_bytes) as u64);
        }
    }
}

#[test]
fn by_capacity_large_records_go_whole_and_once() {
    let (bytes, record_bytes) = (some_bytes(2_000_000), 40_000);
    let (outputs, readers) = sinks(3);
    let builder = StreamBuilder::default()
        .pattern(OutputPattern::Capacity)
        .input(source(&bytes, 70_000), Framing::Fixed(record_bytes));
    run_unseen(builder, outputs);
    let came = join(readers);
    let mut came: Vec<&[u8]> = came.iter().flat_map(|bytes| bytes.chunks(record_bytes)).collect();
    let mut sent: Vec<&[u8]> = bytes.chunks(record_bytes).collect();
    came.sort();
    sent.sort();
    assert!(came == sent);
}

#[test]
fn large_records_are_merged_unseen_as_they_are_when_seen() {
    for record_bytes in SIZES {
        let parts = [11, 7, 9].map(|records| some_bytes(records * record_bytes - 3));
        for order in [InputOrder::RoundRobin, InputOrder::Random { seed: 3 }] {
            let with_framing = parts.iter().map(|part| (part.clone(), Framing::Fixed(record_bytes)));
            let seen = merged(StreamBuilder::default().order(order), with_framing);
            let (outputs, readers) = sinks(1);
            let add = |builder: StreamBuilder, part: &Vec<u8>| {
                builder.input(source(part, 50_000), Framing::Fixed(record_bytes))
            };
            let status = run_unseen(parts.iter().fold(StreamBuilder::default().order(order), add), outputs);
            assert!(join(readers) == [seen], "{order:?} of {record_bytes}");
            assert_eq!(status.records_in, 27);
        }
    }
}

#[test]
fn records_that_arrive_are_whole_also_when_they_come_in_parts() {
    let record_bytes = 40_000;
    let parts = [1u8, 2, 3].map(|byte| vec![byte; 10 * record_bytes]);
    let (outputs, readers) = sinks(1);
    let add = |builder: StreamBuilder, part: &Vec<u8>| {
        builder.input(source(part, 999), Framing::Fixed(record_bytes))
    };
    run_unseen(parts.iter().fold(StreamBuilder::default().order(InputOrder::Arrival), add), outputs);
    let came = join(readers).remove(0);
    assert!(came.chunks(record_bytes).all(|record| record.iter().all(|byte| *byte == record[0])));
    let count = |byte: u8| came.iter().filter(|other| **other == byte).count();
    assert_eq!([1, 2, 3].map(count), [10 * record_bytes; 3]);
}

#[test]
fn who_comes_within_a_large_record_gets_the_next_one_whole() {
    let (bytes, record_bytes) = (some_bytes(400_000), 100_000);
    let (near, mut far) = UnixStream::pair().unwrap();
    let (mut outputs, mut readers) = sinks(2);
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .finish_outputs()
        .input(Object::stream("source", near.into()).unwrap(), Framing::Fixed(record_bytes))
        .output(outputs.remove(0))
        .build();
    // Half a record, which leaves.
    far.write_all(&bytes[..50_000]).unwrap();
    while stream.status().bytes_out < 50_000 {
        assert!(matches!(stream.act(1 << 20, 0).0, Acted::More | Acted::Wait));
        stream.inputs[0].readable = true;
        stream.outputs[0].writable = true;
    }
    assert_eq!(stream.status().bytes_unseen, 50_000);
    stream.attach_output(outputs.remove(0), OutputOptions::default());
    let writer = thread::spawn(move || {
        far.write_all(&bytes[50_000..]).unwrap();
        far.shutdown(Shutdown::Write).unwrap();
        bytes
    });
    stream.run().unwrap();
    drop(stream);
    let (bytes, late) = (writer.join().unwrap(), readers.remove(1).join().unwrap());
    assert!(join(readers) == [bytes.clone()]);
    assert!(late == bytes[record_bytes..], "{} bytes", late.len());
}
