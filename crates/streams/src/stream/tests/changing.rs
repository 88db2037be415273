//! Handlers and options that are changed while a stream runs.

use std::sync::Mutex;
use std::thread;

use super::*;
use crate::{Common, HandlerError, Piece, Reach, Rewrite};

/// Inverts every bit, and keeps the bytes it has seen.
struct Turned {
    reach: Reach,
    saw: Arc<Mutex<Vec<u8>>>,
}

impl Common for Turned {
    fn name(&self) -> &'static str {
        "turned"
    }

    fn reach(&self) -> Reach {
        self.reach
    }
}

impl Rewrite for Turned {
    fn room(&self, length: usize) -> usize {
        length
    }

    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError> {
        self.saw.lock().unwrap().extend(piece.slices().flatten());
        piece.slices().flatten().zip(out).for_each(|(byte, out)| *out = !byte);
        Ok(Some(piece.length()))
    }
}

fn turned(reach: Reach) -> (Handler, Arc<Mutex<Vec<u8>>>) {
    let saw = Arc::default();
    (Handler::Rewrite(Box::new(Turned { reach, saw: Arc::clone(&saw) })), saw)
}

fn some_bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// A mirror from a connection to two full connections whose peers do not read yet.
fn full_mirror(bytes: &[u8], framing: Framing) -> (Stream, [UnixStream; 2]) {
    let (inlet, mut feed) = UnixStream::pair().unwrap();
    let sent = bytes.to_vec();
    thread::spawn(move || feed.write_all(&sent));
    let [(first, first_far), (second, second_far)] = [(); 2].map(|()| UnixStream::pair().unwrap());
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .finish_outputs()
        .output(Object::stream("first", first.into()).unwrap())
        .output(Object::stream("second", second.into()).unwrap())
        .input(Object::stream("inlet", inlet.into()).unwrap(), framing)
        .build();
    while stream.status().outputs.iter().any(|output| output.waiting_bytes == 0) {
        stream.note_ready(Port(2));
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        thread::yield_now();
    }
    (stream, [first_far, second_far])
}

/// Runs the stream to its end; returns the bytes received on each connection.
fn rest(mut stream: Stream, ends: [UnixStream; 2]) -> (StreamStatus, [Vec<u8>; 2]) {
    let readers = ends.map(|mut end| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            end.read_to_end(&mut bytes).map(|_| bytes).unwrap()
        })
    });
    stream.run().unwrap();
    let status = stream.status();
    drop(stream);
    (status, readers.map(|reader| reader.join().unwrap()))
}

/// Expected output for `bytes` if a handler saw only `saw`, the last of them.
fn expected(bytes: &[u8], saw: &[u8]) -> Vec<u8> {
    let unseen = bytes.len() - saw.len();
    assert!(saw == &bytes[unseen..], "the handler saw something else than the last bytes");
    bytes[..unseen].iter().copied().chain(saw.iter().map(|byte| !byte)).collect()
}

const REACHES: [Reach; 3] =
    [Reach::Pieces, Reach::Records { limit: 16 << 20 }, Reach::Slices { limit: 16 << 20 }];

/// Promise: Handlers can be added to a running stream and see the next record; no byte is lost or repeated.
#[test]
fn a_handler_that_joins_what_moves_unseen_sees_the_rest_and_nothing_is_lost_or_doubled() {
    // More bytes than the buffers hold, so that a record is in progress when the handler is added.
    const RECORD: usize = 1_000_003;
    let bytes = some_bytes(3_000_000);
    for (is_divided, reach) in
        [false, true].into_iter().flat_map(|divided| REACHES.map(|reach| (divided, reach)))
    {
        let framing = || if is_divided { Framing::Fixed(RECORD) } else { Framing::Whole };
        let check = |status: StreamStatus, saw: &[u8]| {
            let unseen = bytes.len() - saw.len();
            assert!(status.zero_copy_bytes > 0 && !saw.is_empty(), "{status:?}");
            assert_eq!(status.bytes_in, bytes.len() as u64);
            if is_divided {
                assert!(!(status.zero_copy_bytes as usize).is_multiple_of(RECORD), "no record goes by");
                assert_eq!(
                    unseen,
                    (status.zero_copy_bytes as usize).next_multiple_of(RECORD),
                    "from a record on"
                );
            } else {
                assert_eq!(unseen as u64, status.zero_copy_bytes, "from the next byte on");
            }
        };
        // On the stream: both outputs get the handler's result.
        let (mut stream, ends) = full_mirror(&bytes, framing());
        let (handler, saw) = turned(reach);
        stream.add_handler(handler);
        let (status, came) = rest(stream, ends);
        let saw = saw.lock().unwrap();
        check(status, &saw);
        assert!(came.iter().all(|came| *came == expected(&bytes, &saw)), "divided: {is_divided}, {reach:?}");

        // On one output: the other output gets the original bytes.
        let (mut stream, ends) = full_mirror(&bytes, framing());
        let (handler, saw) = turned(reach);
        assert!(stream.add_output_handler(Port(1), handler).is_some());
        assert!(stream.add_output_handler(Port(2), turned(reach).0).is_none(), "that is the input");
        let (status, came) = rest(stream, ends);
        let saw = saw.lock().unwrap();
        check(status, &saw);
        assert!(came == [bytes.clone(), expected(&bytes, &saw)], "divided: {is_divided}, {reach:?}");
    }
}

/// Promise: Handlers can be added to a running stream and see the next record; no byte is lost or repeated.
///
/// Also if handlers already see the bytes, and bytes arrive a few at a time.
#[test]
fn a_handler_that_joins_within_a_record_begins_with_the_next() {
    for reach in REACHES {
        let (mut feed, inlet) = UnixStream::pair().unwrap();
        let (object, collected) = Object::collect("out", LIMIT);
        let mut stream = StreamBuilder::default()
            .handler(turned(Reach::Pieces).0)
            .output(object)
            .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(4))
            .build();
        let mut feed = |stream: &mut Stream, bytes: &[u8]| {
            feed.write_all(bytes).unwrap();
            stream.note_ready(Port(1));
            assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        };
        feed(&mut stream, b"aaaabb");
        let (of_stream, saw) = turned(reach);
        let (of_output, saw_there) = turned(reach);
        stream.add_handler(of_stream);
        assert!(stream.add_output_handler(Port(0), of_output).is_some());
        feed(&mut stream, b"b");
        feed(&mut stream, b"bccccdddd");
        let not = |bytes: &[u8]| bytes.iter().map(|byte| !byte).collect::<Vec<u8>>();
        assert_eq!(*saw.lock().unwrap(), not(b"ccccdddd"), "what the handler before it made");
        assert_eq!(*saw_there.lock().unwrap(), b"ccccdddd");
        assert_eq!(collected.bytes(), not(b"aaaabbbbccccdddd"));
    }
}

/// Promise: Every byte read is accounted for: taken, pending, or dropped with the reason.
///
/// The first piece of a record waits for room when a handler for whole records is added: no bytes are held
/// elsewhere.
#[test]
fn what_is_gathered_for_a_handler_that_came_later_is_accounted_for() {
    const RECORD: usize = 100_000;
    let bytes = some_bytes(3 * RECORD);
    for is_of_output in [true, false] {
        let (mut feed, inlet) = UnixStream::pair().unwrap();
        let (object, collected) = Object::collect("out", LIMIT);
        let mut stream = StreamBuilder::default()
            .output(object)
            .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(RECORD))
            .build();
        // Makes the stream copy.
        stream.add_handler(Handler::Read(Box::new(crate::handlers::Meter::default())));
        let feeds = |stream: &mut Stream, feed: &mut UnixStream, bytes: &[u8]| {
            feed.write_all(bytes).unwrap();
            stream.note_ready(Port(1));
        };
        feeds(&mut stream, &mut feed, &bytes[..RECORD / 2]);
        assert!(stream.pull(), "nothing was read");
        let (handler, saw) = turned(REACHES[1]);
        if is_of_output {
            assert!(stream.add_output_handler(Port(0), handler).is_some());
        } else {
            stream.add_handler(handler);
        }
        for part in [RECORD / 2..RECORD / 2, RECORD / 2..RECORD, RECORD..3 * RECORD] {
            let is_last = part.end == bytes.len();
            feeds(&mut stream, &mut feed, &bytes[part]);
            assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
            let status = stream.status();
            let there = status.bytes_out + status.outputs[0].waiting_bytes + status.bytes_pending;
            assert_eq!(status.bytes_in, there, "{status:?}");
            assert!(!is_last || status.bytes_out == bytes.len() as u64, "{status:?}");
        }
        assert_eq!(collected.bytes(), expected(&bytes, &saw.lock().unwrap()));
    }
}

/// Promise: Every byte read is accounted for: taken, pending, or dropped with the reason.
///
/// The beginning of a record waited for room when a handler for whole records was added; both wait for the
/// rest.
#[test]
fn what_waits_with_a_handler_for_the_rest_of_its_record_is_counted() {
    let (mut feed, inlet) = UnixStream::pair().unwrap();
    let (near, far) = UnixStream::pair().unwrap();
    let options = OutputOptions { waiting_bytes: 1, ..OutputOptions::default() };
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .output_with(Object::stream("out", near.into()).unwrap(), options)
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(4))
        .build();
    let mut feed = |stream: &mut Stream, bytes: &[u8]| {
        feed.write_all(bytes).unwrap();
        stream.note_ready(Port(1));
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    };
    stream.outputs.current[0].writable = false;
    feed(&mut stream, b"aaaa");
    feed(&mut stream, b"bb");
    assert_eq!(stream.status().bytes_pending, 2);
    assert!(stream.add_output_handler(Port(0), turned(Reach::Records { limit: 100 }).0).is_some());
    stream.note_ready(Port(0));
    feed(&mut stream, b"");
    let status = stream.status();
    assert_eq!((status.outputs[0].bytes, status.outputs[0].waiting_bytes, status.bytes_pending), (4, 2, 0));
    // The rest goes to an output that can only lose it.
    drop(far);
    let (object, _collected) = Object::collect("other", LIMIT);
    stream.attach_output(object, OutputOptions::default());
    feed(&mut stream, b"bb");
    let gone = &stream.status().ended_outputs[0];
    assert_eq!((gone.bytes, gone.dropped.bytes), (4, 4), "all that there was");
}

/// Promise: Handlers can be added to a running stream and see the next record; no byte is lost or repeated.
///
/// A part of a stripe is a record for its output, although the byte stream has no records.
#[test]
fn a_handler_of_an_output_that_has_parts_of_a_stripe_begins_with_the_next() {
    let (mut feed, inlet) = UnixStream::pair().unwrap();
    let (objects, collected) = collects(2);
    let builder = StreamBuilder::default().pattern(OutputPattern::StripeBytes(4));
    let mut stream = objects
        .into_iter()
        .fold(builder, StreamBuilder::output)
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Whole)
        .build();
    let mut feed = |stream: &mut Stream, bytes: &[u8]| {
        feed.write_all(bytes).unwrap();
        stream.note_ready(Port(2));
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    };
    feed(&mut stream, b"aa");
    let (handler, saw) = turned(Reach::Pieces);
    assert!(stream.add_output_handler(Port(0), handler).is_some());
    feed(&mut stream, b"aabbbbcccc");
    assert_eq!(*saw.lock().unwrap(), b"cccc");
    assert_eq!(collected[0].bytes(), [b"aaaa".to_vec(), vec![!b'c'; 4]].concat());
    assert_eq!(collected[1].bytes(), b"bbbb");
}

/// Promise: Handlers can be added to a running stream and see the next record; no byte is lost or repeated.
///
/// A datagram that a handler refuses is dropped, also if the handler was added later.
#[test]
fn a_handler_that_joins_a_stream_of_datagrams_ends_it_no_more_than_others() {
    let (sender, inlet) = datagrams();
    let (object, collected) = Object::collect("out", LIMIT);
    let mut stream = StreamBuilder::default().output(object).input(inlet, Framing::Whole).build();
    stream.add_handler(Handler::Select(Box::new(crate::handlers::Unprefix {})));
    sender.send(b"no").unwrap();
    sender.send(b"\0\0\0\x02ok").unwrap();
    while collected.bytes().is_empty() {
        stream.note_ready(Port(1));
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        thread::yield_now();
    }
    assert_eq!(collected.bytes(), b"ok");
}

/// Promise: Output options and rate of a running stream can be changed.
#[test]
fn an_output_drops_or_keeps_the_stream_waiting_as_it_is_told_while_it_runs() {
    const RECORD: usize = 40_001;
    let bytes = some_bytes(75 * RECORD);
    let (mut stream, ends) = full_mirror(&bytes, Framing::Fixed(RECORD));
    assert!(!stream.set_output_options(Port(2), WhenFull::Block, 1), "that is the input");
    assert!(stream.set_output_options(Port(1), WhenFull::DropNewest, 100_000));
    // Only the other end is read: all of its bytes arrive although this end is not read.
    let [mut first, second] = ends;
    let reader = thread::spawn(move || {
        let mut came = vec![0; 75 * RECORD];
        first.read_exact(&mut came).map(|()| (came, first)).unwrap()
    });
    while stream.status().outputs[0].bytes < (75 * RECORD) as u64 - 100_000 {
        (0..3).for_each(|port| stream.note_ready(Port(port)));
        assert!(matches!(stream.act(1 << 20, 0).0, Acted::More | Acted::Wait));
        thread::yield_now();
    }
    assert!(stream.set_output_options(Port(1), WhenFull::Block, 1 << 20));
    let second = thread::spawn(move || {
        let mut came = Vec::new();
        (&second).read_to_end(&mut came).map(|_| came).unwrap()
    });
    stream.run().unwrap();
    let status = stream.status();
    drop(stream);
    let dropped = status.outputs[1].dropped;
    assert!(reader.join().unwrap().0 == bytes, "what the other output got is not what was sent");
    let came = second.join().unwrap();
    assert!(dropped.records > 0, "{status:?}");
    assert_eq!(came.len() as u64 + dropped.bytes, bytes.len() as u64);
    assert_eq!(dropped.bytes, dropped.records * RECORD as u64, "whole records");
    // The received records are the sent ones, with some missing.
    let mut sent = bytes.chunks(RECORD);
    assert!(came.chunks(RECORD).all(|record| sent.any(|sent| sent == record)));
}

/// Promise: Output options and rate of a running stream can be changed.
///
/// The rest of a record is never dropped: the stream waits for it, because it would be unbounded in the
/// outbox.
#[test]
fn an_output_that_is_to_drop_records_keeps_the_stream_waiting_for_the_rest_of_one_that_goes_by() {
    const RECORD: usize = 6_000_000;
    let bytes = some_bytes(3 * RECORD);
    let (mut stream, [mut first, second]) = full_mirror(&bytes, Framing::Fixed(RECORD));
    assert!(stream.set_output_options(Port(1), WhenFull::DropNewest, 1));
    let reader = thread::spawn(move || {
        let mut came = Vec::new();
        first.read_to_end(&mut came).map(|_| came).unwrap()
    });
    while stream.spread.pending.is_empty() || !stream.outputs.current[1].outbox.blocks() {
        (0..3).for_each(|port| stream.note_ready(Port(port)));
        assert!(matches!(stream.act(1 << 20, 0).0, Acted::More | Acted::Wait));
        let status = stream.status();
        assert!(status.bytes_in < RECORD as u64, "what waits is not bounded: {status:?}");
        thread::yield_now();
    }
    let reader_of_second = thread::spawn(move || {
        let mut came = Vec::new();
        (&second).read_to_end(&mut came).map(|_| came).unwrap()
    });
    stream.run().unwrap();
    assert!(!stream.outputs.current[1].outbox.waits(), "from the next record on");
    let dropped = stream.status().outputs[1].dropped;
    drop(stream);
    assert!(reader.join().unwrap() == bytes);
    let came = reader_of_second.join().unwrap();
    assert_eq!(came.len() as u64 + dropped.bytes, bytes.len() as u64);
    assert_eq!(dropped.bytes, dropped.records * RECORD as u64, "whole records");
    assert!(came[..RECORD] == bytes[..RECORD], "the record that went by");
}

/// Promise: Output options and rate of a running stream can be changed.
///
/// Options of a listening port take effect when it is connected.
#[test]
fn an_output_that_is_still_to_come_gets_handlers_and_options() {
    let (mut feed, inlet) = UnixStream::pair().unwrap();
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(4))
        .output(Object::collect("out", LIMIT).0)
        .build();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let listener = Object::listening("listener", listener.into(), None).unwrap();
    let port = stream.attach_output(listener, OutputOptions::default());
    let (handler, saw) = turned(Reach::Pieces);
    assert!(stream.add_output_handler(port, handler).is_some());
    assert!(stream.set_output_options(port, WhenFull::DropNewest, 1));
    let mut sink = TcpStream::connect(address).unwrap();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    stream.outputs.current[1].writable = false;
    for record in [b"one ", b"two "] {
        feed.write_all(record).unwrap();
        stream.note_ready(stream.intake.inputs[0].port);
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    }
    assert_eq!(stream.status().outputs[1].dropped.records, 1, "one waits already");
    drop(feed);
    stream.note_ready(port);
    stream.run().unwrap();
    drop(stream);
    let mut came = Vec::new();
    sink.read_to_end(&mut came).unwrap();
    assert_eq!(saw.lock().unwrap()[..], b"one two "[..]);
    assert!(came.iter().map(|byte| !byte).eq(*b"one "), "{came:?}");
}

/// Promise: Output options and rate of a running stream can be changed.
///
/// Bytes that wait in a pipe are dropped and counted like other waiting bytes.
#[test]
fn an_output_with_bytes_in_a_pipe_is_detached_by_its_option() {
    let bytes = some_bytes(3_000_000);
    let (mut stream, [mut stuck, mut second]) = full_mirror(&bytes, Framing::Whole);
    assert!(stream.set_output_options(Port(0), WhenFull::Disconnect, 1));
    let reader = thread::spawn(move || {
        let mut came = Vec::new();
        second.read_to_end(&mut came).map(|_| came).unwrap()
    });
    while stream.status().outputs.iter().any(|output| output.port == Port(0)) {
        (1..3).for_each(|port| stream.note_ready(Port(port)));
        let acted = stream.act(1, wirepath_engine::now_us()).0;
        assert!(matches!(acted, Acted::More | Acted::Wait), "{acted:?}: {:?}", stream.status());
        thread::yield_now();
    }
    let status = stream.status();
    assert_eq!(status.gone_outputs.disconnected, 1);
    let (gone, other) = (&status.ended_outputs[0], &status.outputs[0]);
    // In the turn in which the output was disconnected, the other may have got more.
    let given = gone.bytes + gone.dropped.bytes;
    assert!(gone.dropped.bytes > 0 && given <= other.bytes + other.waiting_bytes, "{status:?}");
    let mut came = Vec::new();
    stuck.read_to_end(&mut came).unwrap();
    assert!(came == bytes[..gone.bytes as usize]);
    stream.run().unwrap();
    drop(stream);
    assert!(reader.join().unwrap() == bytes);
}
