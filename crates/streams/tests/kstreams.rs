//! One test for each concept of KStreams, through the public interface. Details are tested elsewhere.

#![expect(clippy::unwrap_used, reason = "tests stop where they cannot go on")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use wirepath_datapath::Mapping;
use wirepath_engine::{Engine, EngineOptions, Placement, Rate};
use wirepath_streams::handlers::{Checksum, Filter, Key, Open, Prefix, Seal};
use wirepath_streams::{
    Collected, Framing, Handler, InputOrder, Late, Object, OutputOptions, OutputPattern, SHARE_HEADER,
    Stream, StreamBuilder, StreamError, StreamEvent, StreamOptions, WhenFull,
};

const PATIENCE: Duration = Duration::from_secs(20);
const LIMIT: usize = 1 << 20;

fn memory(bytes: &[u8]) -> Object {
    Object::memory("memory", bytes.to_vec().into())
}

/// Words of up to nine letters, each with a length prefix.
fn words(text: &str) -> Vec<u8> {
    text.split_whitespace().flat_map(|word| format!("{}{word}", word.len()).into_bytes()).collect()
}

/// Framing of such words: the callback of a polling size.
fn by_length() -> Framing {
    let measure =
        |bytes: &[u8], _: bool| Ok(bytes.first().map(|digit| 1 + usize::from(digit.wrapping_sub(b'0'))));
    Framing::With { limit: 10, measure: Box::new(measure) }
}

fn text(records: Vec<Vec<u8>>) -> Vec<String> {
    records.into_iter().map(|record| String::from_utf8(record).unwrap()).collect()
}

/// Runs the built stream with so many outputs in memory, on this thread.
fn run(mut builder: StreamBuilder, outputs: usize) -> Vec<Collected> {
    let mut collected = Vec::new();
    for _ in 0..outputs {
        let (object, records) = Object::collect("out", LIMIT);
        builder = builder.output(object);
        collected.push(records);
    }
    builder.build().run().unwrap();
    collected
}

/// Promise: Objects deliver and accept chunks, and keep record boundaries if they have them.
///
/// Data objects: all kinds of sources and sinks; each passes bytes on unchanged.
#[test]
fn data_objects_hand_out_and_take_chunks() {
    let bytes: Vec<u8> = (0..100_000_u32).map(|number| (number * 7 / 3) as u8).collect();
    let stored = tempfile::NamedTempFile::new().unwrap();
    let through = |from: Object, to: Object, framing: Framing| {
        StreamBuilder::default().finish_outputs().input(from, framing).output(to).build()
    };
    let file = Object::file("file", Arc::new(stored.reopen().unwrap()), 0);
    through(memory(&bytes), file, Framing::Whole).run().unwrap();

    // File to connection, connection to pipe, pipe to a mapping, each on its own thread, and from the mapping
    // to memory.
    let (near, far) = UnixStream::pair().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let memory_of_all = Arc::new(Mapping::anonymous(bytes.len()).unwrap());
    let mapping = || Object::mapping("mapping", Arc::clone(&memory_of_all), 0..bytes.len()).unwrap();
    let file = Object::file("file", Arc::new(File::open(stored.path()).unwrap()), 0);
    let connection = |end: UnixStream| Object::stream("connection", end.into()).unwrap();
    let links = [
        through(file, connection(near), Framing::Whole),
        through(connection(far), Object::stream("pipe", writer.into()).unwrap(), Framing::Whole),
        through(Object::stream("pipe", reader.into()).unwrap(), mapping(), Framing::Whole),
    ];
    let ends = links.map(|mut link| std::thread::spawn(move || link.run()));
    ends.into_iter().for_each(|end| end.join().unwrap().unwrap());
    let collected = &run(StreamBuilder::default().input(mapping(), Framing::Whole), 1)[0];
    assert!(collected.bytes() == bytes, "what came is not what was stored");
}

/// Promise: Objects deliver and accept chunks, and keep record boundaries if they have them.
///
/// A listening socket becomes the accepted connection.
#[test]
fn data_objects_wait_for_a_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = std::thread::spawn(move || TcpStream::connect(address).unwrap().write_all(b"here").unwrap());
    let source = Object::listening("listener", listener.into(), None).unwrap();
    assert_eq!(run(StreamBuilder::default().input(source, Framing::Whole), 1)[0].bytes(), b"here");
    client.join().unwrap();
}

/// Promise: Objects deliver and accept chunks, and keep record boundaries if they have them.
///
/// Datagrams keep their boundaries.
#[test]
fn data_objects_keep_boundaries_where_they_have_them() {
    let [sender, receiver] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let out = Object::datagrams("out", sender.into(), None, Some(6)).unwrap();
    StreamBuilder::default()
        .input(memory(&words("one three five")), by_length())
        .output(out)
        .build()
        .run()
        .unwrap();
    for expected in ["3one", "5three", "4five"] {
        let mut packet = [0; 100];
        let length = receiver.recv(&mut packet).unwrap();
        assert_eq!(&packet[..length], expected.as_bytes());
    }
}

/// Promise: Inputs and outputs are attached to and detached from a running stream.
///
/// `attachinput`, `detachinput`, `attachoutput`, `detachoutput`: a running stream changes between records.
#[test]
fn a_running_stream_is_changed_between_records() {
    let engine = engine();
    let (mut first, far) = UnixStream::pair().unwrap();
    let (kept, all) = Object::collect("kept", LIMIT);
    let (second_out, passed) = Object::collect("second", LIMIT);
    let mut stream =
        StreamBuilder::default().pattern(OutputPattern::Mirror).order(InputOrder::Arrival).build();
    let first_in = stream.attach_input(Object::stream("first", far.into()).unwrap(), by_length()).unwrap();
    stream.attach_output(kept, OutputOptions::default());
    let running = stream.start(&engine, StreamOptions::default());
    let records = |wanted: u64| {
        while running.status().records_in < wanted {
            std::thread::yield_now();
        }
    };
    first.write_all(&words("a")).unwrap();
    records(1);

    let (mut second, far) = UnixStream::pair().unwrap();
    let long = Filter::new(10, |word: &[u8]| word.len() > 3);
    let options = OutputOptions { handlers: vec![Handler::Read(Box::new(long))], ..OutputOptions::default() };
    let (tell, told) = channel();
    running.with(move |stream| {
        stream.attach_input(Object::stream("second", far.into()).unwrap(), by_length()).unwrap();
        tell.send(stream.attach_output(second_out, options)).unwrap();
    });
    let second_port = told.recv_timeout(PATIENCE).unwrap();
    second.write_all(&words("red b")).unwrap();
    records(3);

    let (give, given) = channel();
    running.with(move |stream| {
        assert!(stream.detach_input(first_in, move |object| give.send(object).unwrap()));
        assert!(stream.detach_output(second_port, drop));
    });
    assert_eq!(given.recv_timeout(PATIENCE).unwrap().name(), "first");
    second.write_all(&words("blue")).unwrap();
    drop(second);
    assert_eq!(running.wait().result, Ok(()));
    assert_eq!(text(all.records()), ["1a", "3red", "1b", "4blue"]);
    assert_eq!(text(passed.records()), ["3red"], "the handler of this output, while it was there");
}

/// Promise: Handlers can be added to a running stream and see the next record; no byte is lost or repeated.
///
/// `addstreamhandler`: on a running stream and on one of its outputs, from the next record on.
#[test]
fn a_running_stream_gets_more_handlers() {
    let engine = engine();
    let (mut source, far) = UnixStream::pair().unwrap();
    let [(kept, all), (second, few)] = ["kept", "second"].map(|name| Object::collect(name, LIMIT));
    let mut stream = StreamBuilder::default().pattern(OutputPattern::Mirror).build();
    stream.attach_input(Object::stream("source", far.into()).unwrap(), by_length()).unwrap();
    stream.attach_output(kept, OutputOptions::default());
    let port = stream.attach_output(second, OutputOptions::default());
    let running = stream.start(&engine, StreamOptions::default());
    let bytes = |wanted: u64| {
        while running.status().bytes_in < wanted {
            std::thread::yield_now();
        }
    };
    let longer_than =
        |bytes: usize| Handler::Read(Box::new(Filter::new(10, move |word: &[u8]| word.len() > bytes)));
    source.write_all(b"1a4b").unwrap();
    bytes(4);
    running.with(move |stream| {
        stream.add_handler(longer_than(5));
    });
    source.write_all(b"lue1c6defghi").unwrap();
    bytes(16);
    let (tell, told) = channel();
    running.with(move |stream| tell.send(stream.add_output_handler(port, longer_than(7)).is_some()).unwrap());
    assert!(told.recv_timeout(PATIENCE).unwrap());
    source.write_all(b"1f6ghijkl8mnopqrst").unwrap();
    drop(source);
    assert_eq!(running.wait().result, Ok(()));
    assert_eq!(text(all.records()), ["1a", "4blue", "6defghi", "6ghijkl", "8mnopqrst"], "one goes by unseen");
    assert_eq!(text(few.records()), ["1a", "4blue", "6defghi", "8mnopqrst"]);
}

/// Promise: Output options and rate of a running stream can be changed.
///
/// `setstreamoption`: the limit and rule of the outbox of a running stream's output, and the rate at which
/// the stream may read.
#[test]
fn a_running_stream_gets_other_options() {
    let engine = engine();
    let bytes = vec![7_u8; 4 << 20];
    let (stuck, _reader) = UnixStream::pair().unwrap();
    let (kept, all) = Object::collect("kept", 8 << 20);
    let mut stream = StreamBuilder::default().pattern(OutputPattern::Mirror).build();
    stream.attach_input(memory(&bytes), Framing::Fixed(1000)).unwrap();
    stream.attach_output(kept, OutputOptions::default());
    let stuck =
        stream.attach_output(Object::stream("stuck", stuck.into()).unwrap(), OutputOptions::default());
    // At one byte per second it would take weeks.
    let rate = Some(Rate { per_second: 1, burst: 1 });
    let running = stream.start(
        &engine,
        StreamOptions { placement: Placement { rate, ..Placement::default() }, ..StreamOptions::default() },
    );
    running.set_rate(None);
    while running.status().outputs.iter().all(|output| output.waiting_bytes == 0) {
        std::thread::yield_now(); // the full output blocks the stream
    }
    assert!(all.bytes().len() < bytes.len());
    let (tell, told) = channel();
    running.with(move |stream| {
        tell.send(stream.set_output_options(stuck, WhenFull::Disconnect, 100_000)).unwrap();
    });
    assert!(told.recv_timeout(PATIENCE).unwrap());
    let end = running.wait_for(PATIENCE).expect("it does not end");
    assert_eq!(end.result, Ok(()));
    assert_eq!(end.status.gone_outputs.disconnected, 1);
    assert!(all.bytes() == bytes, "what came is not what was sent");
}

/// Promise: A stream runs on the caller's thread or on an engine, and can be stopped, waited for and polled.
///
/// `runstream` on the caller's thread; `startstream`, `stopstream`, `waitstream` and polling on an engine
/// thread.
#[test]
fn streams_run_here_or_elsewhere() {
    assert_eq!(run(StreamBuilder::default().input(memory(b"here"), Framing::Whole), 1)[0].bytes(), b"here");

    let engine = engine();
    let start = |end: UnixStream| {
        let (out, collected) = Object::collect("out", LIMIT);
        let source = Object::stream("in", end.into()).unwrap();
        let stream = StreamBuilder::default().input(source, Framing::Whole).output(out).build();
        (stream.start(&engine, StreamOptions::default()), collected)
    };
    let [(mut ends, far), (mut endless, other)] = [(); 2].map(|()| UnixStream::pair().unwrap());
    let ((waited, collected), (stopped, _)) = (start(far), start(other));
    ends.write_all(b"elsewhere").unwrap();
    drop(ends);
    assert_eq!((waited.wait().result, collected.bytes()), (Ok(()), b"elsewhere".to_vec()));
    assert!(waited.has_ended() && !stopped.has_ended());
    stopped.stop();
    assert_eq!(stopped.wait().result, Err(StreamError::Stopped));
    assert_eq!(endless.read(&mut [0]).unwrap(), 0, "what it had is closed");
}

/// Promise: Records are found by size or by a callback.
///
/// Polling size: a number, or a callback.
#[test]
fn records_are_of_a_size_or_of_what_a_callback_finds() {
    let fixed = run(StreamBuilder::default().input(memory(b"aabbc"), Framing::Fixed(2)), 1);
    assert_eq!(text(fixed[0].records()), ["aa", "bb", "c"]);
    let found = run(StreamBuilder::default().input(memory(&words("an other word")), by_length()), 1);
    assert_eq!(text(found[0].records()), ["2an", "5other", "4word"]);
}

/// Promise: Inputs are polled in turn, at random, by arrival or by tag.
///
/// Polling order: round robin, at random, as data arrives, by tag.
#[test]
fn inputs_are_polled_in_each_order() {
    let merged = |builder: StreamBuilder| {
        let inputs = ["a1 a4 a6", "b2 b3 b5"].map(words);
        let builder = inputs.iter().fold(builder, |builder, input| builder.input(memory(input), by_length()));
        text(run(builder, 1)[0].records()).concat().replace('2', "")
    };
    assert_eq!(merged(StreamBuilder::default().order(InputOrder::RoundRobin)), "a1ba4b3a6b5");
    let random = |seed| merged(StreamBuilder::default().order(InputOrder::Random { seed }));
    assert_eq!(random(1), random(1));
    assert!((2..20).any(|seed| random(seed) != random(1)), "every seed gives the same order");
    let tag = |record: &[u8]| record.last().map(|digit| u64::from(digit - b'0'));
    assert_eq!(merged(StreamBuilder::default().order_by_tag(8, LIMIT, Late::Drop, tag)), "a1bb3a4b5a6");

    // By arrival: an input that has a record does not wait for a silent input.
    let (_silent, far) = UnixStream::pair().unwrap();
    let (out, collected) = Object::collect("out", LIMIT);
    let stream = StreamBuilder::default()
        .order(InputOrder::Arrival)
        .input(Object::stream("silent", far.into()).unwrap(), by_length())
        .input(memory(&words("loud louder")), by_length())
        .output(out)
        .build();
    let (engine, wanted) = (engine(), words("loud louder"));
    let running = stream.start(&engine, StreamOptions::default());
    while running.status().bytes_out < wanted.len() as u64 {
        std::thread::yield_now();
    }
    assert_eq!(collected.bytes(), wanted);
}

/// Promise: Outputs get records in stripes, at random, all of them, by capacity or by secret sharing.
///
/// Pushing order: striped, balanced at random, multicast, by capacity, and as shares that are combined again.
#[test]
fn outputs_are_served_in_each_pattern() {
    let letters: String = ('a'..='z').map(|letter| format!("{letter} ")).collect();
    let spread = |pattern| {
        run(StreamBuilder::default().pattern(pattern).input(memory(&words(&letters)), by_length()), 3)
    };
    let one_each = |outputs: &[Collected]| {
        let mut all: Vec<String> = outputs.iter().flat_map(|output| text(output.records())).collect();
        all.sort();
        all.concat() == String::from_utf8(words(&letters)).unwrap()
    };
    let striped = spread(OutputPattern::Stripe);
    assert_eq!(text(striped[1].records())[..3], ["1b", "1e", "1h"]);
    let random = spread(OutputPattern::Random { seed: 5 });
    for outputs in [striped, random, spread(OutputPattern::Capacity)] {
        assert!(one_each(&outputs), "a record is missing, or is there twice");
    }
    let mirrored = spread(OutputPattern::Mirror);
    assert!(mirrored.iter().all(|output| output.bytes() == words(&letters)));

    let shares = spread(OutputPattern::Shares { threshold: 2 });
    assert!(shares.iter().all(|share| share.records().len() == 26));
    let together = StreamBuilder::default().collect_shares(2, 64, LIMIT);
    let together = shares[1..].iter().fold(together, |builder, share| {
        builder.input(memory(&share.bytes()), Framing::Fixed(SHARE_HEADER + 2))
    });
    assert_eq!(run(together, 1)[0].bytes(), words(&letters), "two of three shares are the records");
}

/// Promise: Handlers are chained, on the stream and on one output.
///
/// Stream handlers of the kinds read, select and rewrite, in a chain, on the stream and on one output.
#[test]
fn handlers_see_select_and_rewrite() {
    let key = || Key::new(&[7; 32]);
    let sealed = run(
        StreamBuilder::default()
            .handler(Handler::Read(Box::new(Checksum::default())))
            .handler(Handler::Select(Box::new(Prefix::new(LIMIT))))
            .handler(Handler::Rewrite(Box::new(Seal::new(key(), LIMIT).unwrap())))
            .input(memory(b"some words"), Framing::Fixed(5)),
        1,
    );
    let records = sealed[0].records();
    assert!(records.len() == 2 && records.iter().all(|record| record.len() > 4 + 5));
    let (out, opened) = Object::collect("out", LIMIT);
    let (unseen, as_sealed) = Object::collect("sealed", LIMIT);
    let open = OutputOptions {
        handlers: vec![Handler::Rewrite(Box::new(Open::new(key(), LIMIT)))],
        ..OutputOptions::default()
    };
    StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .input(memory(&records.concat()), Framing::Fixed(records[0].len()))
        .output_with(out, open)
        .output(unseen)
        .build()
        .run()
        .unwrap();
    assert_eq!(as_sealed.records(), records);
    assert_eq!(opened.records(), [b"\0\0\0\x05some ".to_vec(), b"\0\0\0\x05words".to_vec()]);
}

/// Promise: An engine is woken by data, space and events.
///
/// The asynchronous engine: several streams on its threads, woken when data or space is available; events are
/// reported.
#[test]
fn an_engine_is_woken_by_data_and_space_and_tells_events() {
    let engine = engine();
    let [(mut source, from), (to, mut sink)] = [(); 2].map(|()| UnixStream::pair().unwrap());
    let (tell, events) = channel();
    let stream: Stream = StreamBuilder::default()
        .on_event(move |event| tell.send(event).unwrap())
        .finish_outputs()
        .input(Object::stream("source", from.into()).unwrap(), Framing::Whole)
        .output(Object::stream("sink", to.into()).unwrap())
        .build();
    let running = stream.start(&engine, StreamOptions::default());
    // More than all buffers hold: the stream has to wait for space, and the writer for the stream.
    let bytes = vec![7_u8; 8 << 20];
    let writer = std::thread::spawn(move || {
        source.write_all(&bytes).unwrap();
        bytes.len()
    });
    let mut received = Vec::new();
    sink.read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), writer.join().unwrap());
    assert_eq!(running.wait().result, Ok(()));
    let gone = |event: StreamEvent| matches!(event, StreamEvent::InputGone { name, .. } if name == "source");
    assert!(events.iter().any(gone));
}

fn engine() -> Engine {
    Engine::start(EngineOptions::default()).unwrap()
}
