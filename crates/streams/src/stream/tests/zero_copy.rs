//! Records that no handler sees: they must arrive like copied records.

use std::net::Shutdown;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::measured;
use super::patterns::{merged, spread};
use super::*;
use crate::InputOrder;
use wirepath_engine::now_us;

/// Record sizes that are all large enough for the zero-copy route.
const SIZES: [usize; 3] = [32 * 1024, 40_001, 100_000];

pub(super) fn some_bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// A connection that delivers these bytes, at most so many at a time.
pub(super) fn source(bytes: &[u8], at_a_time: usize) -> Object {
    let (near, mut far) = UnixStream::pair().unwrap();
    let bytes = bytes.to_vec();
    thread::spawn(move || bytes.chunks(at_a_time).try_for_each(|part| far.write_all(part)));
    Object::stream("source", near.into()).unwrap()
}

/// Connections, and threads that collect the bytes of each.
pub(super) fn sinks(count: usize) -> (Vec<Object>, Vec<JoinHandle<Vec<u8>>>) {
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

pub(super) fn join(readers: Vec<JoinHandle<Vec<u8>>>) -> Vec<Vec<u8>> {
    readers.into_iter().map(|reader| reader.join().unwrap()).collect()
}

/// Runs a stream that must not copy any byte.
fn run_unseen(builder: StreamBuilder, outputs: Vec<Object>) -> StreamStatus {
    let mut stream = outputs.into_iter().fold(builder.finish_outputs(), StreamBuilder::output).build();
    stream.run().unwrap();
    let status = stream.status();
    assert_eq!(status.zero_copy_bytes, status.bytes_in, "nobody has to look at these");
    status
}

/// Promise: Large records of a fixed size are not copied, and arrive as if they were.
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

/// Promise: Large records of a fixed size are not copied, and arrive as if they were.
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

/// Promise: Large records of a fixed size are not copied, and arrive as if they were.
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

/// Promise: Large records of a fixed size are not copied, and arrive as if they were.
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

/// Promise: Large records of a fixed size are not copied, and arrive as if they were.
#[test]
fn an_output_attached_within_a_large_record_gets_the_next_one_whole() {
    let record_bytes = 100_000;
    for (framing, bytes) in [
        (Framing::Fixed(record_bytes), some_bytes(400_000)),
        (measured::framing(), measured::records(&[record_bytes; 4]).concat()),
    ] {
        let (near, mut far) = UnixStream::pair().unwrap();
        let (mut outputs, mut readers) = sinks(2);
        let mut stream = StreamBuilder::default()
            .pattern(OutputPattern::Mirror)
            .finish_outputs()
            .input(Object::stream("source", near.into()).unwrap(), framing)
            .output(outputs.remove(0))
            .build();
        // Half a record, which is sent.
        far.write_all(&bytes[..50_000]).unwrap();
        while stream.status().bytes_out < 50_000 {
            assert!(matches!(stream.act(1 << 20, 0).0, Acted::More | Acted::Wait));
            stream.intake.inputs[0].readable = true;
            stream.outputs.current[0].writable = true;
        }
        assert_eq!(stream.status().zero_copy_bytes, 50_000);
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
}

/// Lets a stream take turns until `is_done`; every port is tried each time, because no engine reports ready
/// ports.
pub(super) fn turn_until(stream: &mut Stream, mut is_done: impl FnMut(&Stream) -> bool) {
    let patience = Instant::now() + PATIENCE;
    while !is_done(stream) {
        assert!(Instant::now() < patience, "{:?}", stream.status());
        let acted = stream.act(1 << 22, now_us()).0;
        assert!(matches!(acted, Acted::More | Acted::Wait), "{acted:?}");
        let storage: Vec<_> = stream.take_storage().collect();
        storage.into_iter().for_each(|one| stream.stored(one.run(), wirepath_engine::now_us()).unwrap());
        (0..stream.next_port).for_each(|port| stream.note_ready(Port(port)));
    }
}

/// By capacity, to an output that takes nothing and to an output that takes everything.
fn beside_a_stalled_one(inputs: Vec<Object>) -> (Stream, UnixStream, JoinHandle<Vec<u8>>) {
    let (near, stalled) = UnixStream::pair().unwrap();
    let (mut outputs, mut readers) = sinks(1);
    let builder = StreamBuilder::default().pattern(OutputPattern::Capacity).order(InputOrder::Arrival);
    let builder =
        inputs.into_iter().fold(builder, |builder, input| builder.input(input, Framing::Fixed(40_000)));
    let builder = builder.output(Object::stream("stalled", near.into()).unwrap()).output(outputs.remove(0));
    (builder.build(), stalled, readers.remove(0))
}

/// Promise: With the pattern `capacity`, a full output blocks neither other outputs, nor a detach, nor a
/// later input.
#[test]
fn by_capacity_an_output_that_takes_nothing_holds_up_no_file() {
    let bytes = some_bytes(20_000_000);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    let (mut stream, _stalled, _reader) = beside_a_stalled_one(vec![Object::file("file", Arc::new(file), 0)]);
    turn_until(&mut stream, |stream| stream.status().outputs[1].bytes > 15_000_000);
}

/// Promise: With the pattern `capacity`, a full output blocks neither other outputs, nor a detach, nor a
/// later input.
#[test]
fn inputs_end_and_leave_while_an_output_takes_nothing() {
    let (near, mut far) = UnixStream::pair().unwrap();
    let inputs = vec![source(&some_bytes(4_000_000), 70_000), Object::stream("second", near.into()).unwrap()];
    let (mut stream, _stalled, _reader) = beside_a_stalled_one(inputs);
    turn_until(&mut stream, |stream| stream.intake.inputs.len() == 1);
    far.write_all(&[1; 40_000]).unwrap();
    turn_until(&mut stream, |stream| stream.status().bytes_in == 4_040_000);
    let (tell, told) = channel();
    let port = stream.intake.inputs[0].port;
    assert!(stream.detach_input(port, move |object| tell.send(object).unwrap()));
    turn_until(&mut stream, |_| told.try_recv().is_ok());
}

/// Promise: With the pattern `capacity`, a full output blocks neither other outputs, nor a detach, nor a
/// later input.
#[test]
fn what_comes_later_is_seen_while_a_pipe_is_not_full() {
    let (near, mut far) = UnixStream::pair().unwrap();
    let input = Object::stream("source", near.into()).unwrap();
    let (mut stream, stalled, reader) = beside_a_stalled_one(vec![input]);
    let running = thread::spawn(move || stream.run().map(|()| stream.status()));
    // Parts of records, the first of which go to the output that takes nothing.
    let bytes = some_bytes(8_000_000);
    bytes.chunks(15_000).for_each(|part| far.write_all(part).unwrap());
    drop(far);
    let drained = thread::spawn(move || {
        let (mut stalled, mut bytes) = (stalled, Vec::new());
        stalled.read_to_end(&mut bytes).unwrap();
        bytes.len()
    });
    assert_eq!(running.join().unwrap().unwrap().bytes_out, 8_000_000);
    assert_eq!(drained.join().unwrap() + reader.join().unwrap().len(), 8_000_000);
}

/// Promise: Large records of a fixed size are not copied, and arrive as if they were.
///
/// If the only output with the beginning of a record fails, the rest of the record goes to no output, and is
/// counted.
#[test]
fn an_output_attached_within_a_record_does_not_get_its_rest_when_others_fail() {
    for (record_bytes, is_fixed) in [(100_000, true), (1000, true), (100_000, false), (1000, false)] {
        let (begun, more) = (record_bytes / 2, record_bytes / 10);
        let (framing, bytes) = if is_fixed {
            (Framing::Fixed(record_bytes), some_bytes(4 * record_bytes))
        } else {
            (measured::framing(), measured::records(&[record_bytes; 4]).concat())
        };
        let (near, mut far) = UnixStream::pair().unwrap();
        let (failing, gone) = UnixStream::pair().unwrap();
        let mut stream = StreamBuilder::default()
            .pattern(OutputPattern::Mirror)
            .finish_outputs()
            .input(Object::stream("source", near.into()).unwrap(), framing)
            .output(Object::stream("failing", failing.into()).unwrap())
            .build();
        far.write_all(&bytes[..begun]).unwrap();
        turn_until(&mut stream, |stream| stream.status().bytes_out == begun as u64);
        assert_eq!(stream.status().zero_copy_bytes > 0, record_bytes == 100_000);
        let (mut outputs, mut readers) = sinks(1);
        stream.attach_output(outputs.remove(0), OutputOptions::default());
        drop(gone);
        far.write_all(&bytes[begun..begun + more]).unwrap();
        turn_until(&mut stream, |stream| stream.outputs.len() == 1);
        let rest = bytes[begun + more..].to_vec();
        let writer = thread::spawn(move || far.write_all(&rest));
        stream.run().unwrap();
        let status = stream.status();
        drop(stream);
        writer.join().unwrap().unwrap();
        assert!(readers.remove(0).join().unwrap() == bytes[record_bytes..]);
        assert_eq!(status.bytes_dropped, (record_bytes - begun - more) as u64);
    }
}

/// Promise: Large records of a fixed size are not copied, and arrive as if they were.
///
/// Neither does an output that is attached after the only output with the beginning has failed, while more of
/// the record waited for room.
#[test]
fn an_output_attached_after_the_last_one_does_not_get_the_rest_of_a_record() {
    const RECORD: usize = 2_000_000;
    let (near, mut feed) = UnixStream::pair().unwrap();
    let (failing, gone) = UnixStream::pair().unwrap();
    let touch = Handler::Modify(Box::new(crate::handlers::Touch::new(0)));
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .handler(touch)
        .input(Object::stream("source", near.into()).unwrap(), Framing::Fixed(RECORD))
        .output(Object::stream("failing", failing.into()).unwrap())
        .build();
    // Keeps the stream from ending with its last output.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listener = Object::listening("listener", listener.into(), None).unwrap();
    stream.attach_output(listener, OutputOptions::default());
    let bytes = some_bytes(2 * RECORD);
    let sent = bytes.clone();
    let writer = thread::spawn(move || feed.write_all(&sent));
    turn_until(&mut stream, |stream| {
        stream.outputs.current[0].outbox.blocks() && !stream.spread.pending.is_empty()
    });
    drop(gone);
    turn_until(&mut stream, |stream| stream.outputs.is_empty());
    let (object, collected) = Object::collect("late", 1 << 30);
    stream.attach_output(object, OutputOptions::default());
    stream.run().unwrap();
    writer.join().unwrap().unwrap();
    assert!(collected.bytes() == bytes[RECORD..], "{} bytes came", collected.bytes().len());
    let status = stream.status();
    let failed = &status.ended_outputs[0];
    assert_eq!(failed.bytes + failed.dropped.bytes + status.bytes_dropped, RECORD as u64, "{status:?}");
}
