//! Streams on an engine thread, through the public interface.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use wirepath_datapath::datagrams;
use wirepath_engine::{Class, Engine, EngineOptions, Placement, Policy, Rate, Round, Sharing};
use wirepath_streams::handlers::{Checksum, Filter};
use wirepath_streams::{
    Collected, Common, Framing, Handler, HandlerError, Late, Object, OutputOptions, OutputPattern, Piece,
    Stream, StreamBuilder, StreamEnd, StreamError, StreamOptions, Verdict,
};

const PATIENCE: Duration = Duration::from_secs(20);
const LIMIT: usize = 1 << 30;

fn engine(sharing: Sharing) -> Engine {
    let options = EngineOptions { sharing, ..EngineOptions::default() };
    Engine::start(options).unwrap()
}

/// A stream from a socket, whose other end is returned, to memory.
fn from_socket(framing: Framing, handlers: Vec<Handler>) -> (UnixStream, Stream, Collected) {
    let (near, far) = UnixStream::pair().unwrap();
    let (object, collected) = Object::collect("out", LIMIT);
    let builder = handlers.into_iter().fold(StreamBuilder::default(), StreamBuilder::handler);
    let stream = builder.input(Object::stream("in", far.into()).unwrap(), framing).output(object).build();
    (near, stream, collected)
}

/// Promise: Hundreds of streams share a thread.
#[test]
fn hundreds_of_streams_share_a_thread_and_each_gets_its_own_bytes() {
    let engine = engine(Sharing::default());
    let mut running = Vec::new();
    for number in 0..400u32 {
        let (near, stream, collected) = from_socket(Framing::Whole, Vec::new());
        running.push((number, near, stream.start(&engine, StreamOptions::default()), collected));
    }
    for round in 0..5u32 {
        for (number, near, ..) in &mut running {
            near.write_all(&(*number * 10 + round).to_be_bytes()).unwrap();
        }
    }
    for (number, near, stream, collected) in running {
        drop(near);
        let end = stream.wait();
        assert_eq!(end.result, Ok(()));
        let expected: Vec<u8> = (0..5).flat_map(|round| (number * 10 + round).to_be_bytes()).collect();
        assert_eq!((collected.bytes(), end.status.bytes_in), (expected, 20));
        assert!(stream.has_ended());
    }
    assert_eq!(engine.counters().tasks, 0);
    assert_eq!(engine.counters().moved_bytes, 400 * 20 * 2);
}

/// Promise: The progress of a running stream is read without asking its thread.
#[test]
fn progress_is_seen_while_a_stream_runs_and_after_its_end() {
    let engine = engine(Sharing::default());
    let (mut near, stream, _) = from_socket(Framing::Whole, Vec::new());
    let begun_us = wirepath_engine::now_us();
    let running = stream.start(&engine, StreamOptions::default());
    let progress = Arc::clone(running.progress());
    near.write_all(b"1234").unwrap();
    let deadline = std::time::Instant::now() + PATIENCE;
    while (progress.bytes_in(), progress.bytes_out()) != (4, 4) {
        assert!(std::time::Instant::now() < deadline, "{progress:?}");
        std::thread::yield_now();
    }
    near.write_all(b"567").unwrap();
    drop(near);
    running.wait();
    assert_eq!((progress.bytes_in(), progress.bytes_out()), (7, 7));
    assert!((begun_us..=wirepath_engine::now_us()).contains(&progress.moved_us()));
}

/// Promise: Files, connections, pipes, UDP sockets and memory have one interface, on any thread.
#[test]
fn a_file_goes_through_a_handler_to_a_socket_and_from_there_to_a_file() {
    let engine = engine(Sharing::default());
    let bytes: Vec<u8> = (0..5_000_000u32).map(|number| (number * 7 / 3) as u8).collect();
    let mut source = tempfile::NamedTempFile::new().unwrap();
    source.write_all(&bytes).unwrap();
    let target = tempfile::NamedTempFile::new().unwrap();
    let (near, far) = UnixStream::pair().unwrap();
    let upload = StreamBuilder::default()
        .finish_outputs()
        .handler(Handler::Read(Box::new(Checksum::default())))
        .input(Object::file("source", Arc::new(File::open(source.path()).unwrap()), 0), Framing::Whole)
        .output(Object::stream("near", near.into()).unwrap())
        .build();
    let store = StreamBuilder::default()
        .input(Object::stream("far", far.into()).unwrap(), Framing::Whole)
        .output(Object::file("target", Arc::new(target.reopen().unwrap()), 0))
        .build();
    let store = store.start(&engine, StreamOptions::default());
    let upload = upload.start(&engine, StreamOptions::default());
    let end = upload.wait();
    assert_eq!(end.result, Ok(()));
    assert_eq!(end.status.reports[0], ("crc32c", "crc32c", crc32c::crc32c(&bytes).into()));
    let end = store.wait();
    assert_eq!((end.result, end.status.bytes_out), (Ok(()), bytes.len() as u64));
    assert!(std::fs::read(target.path()).unwrap() == bytes, "what was written is not what was read");
}

struct Panics;

impl Common for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }
}

impl wirepath_streams::Read for Panics {
    fn read(&mut self, _: Piece<'_>) -> Result<Verdict, HandlerError> {
        panic!("on purpose")
    }
}

/// Promise: A handler that fails or panics ends only its own stream, with a clear cause.
#[test]
fn a_handler_that_panics_ends_its_stream_and_no_other() {
    let engine = engine(Sharing::default());
    let (mut good, stream, collected) = from_socket(Framing::Whole, Vec::new());
    let good_stream = stream.start(&engine, StreamOptions::default());
    let (mut bad, stream, _) = from_socket(Framing::Whole, vec![Handler::Read(Box::new(Panics))]);
    let (tell, told) = channel();
    let on_end = Some(Box::new(move |end: StreamEnd| tell.send(end).unwrap()) as _);
    let bad_stream = stream.start(&engine, StreamOptions { on_end, ..StreamOptions::default() });
    bad.write_all(b"x").unwrap();
    let panicked = Err(StreamError::Panicked("on purpose".to_owned()));
    assert_eq!(told.recv_timeout(PATIENCE).unwrap().result, panicked);
    assert_eq!(bad_stream.wait().result, panicked);
    good.write_all(b"still here").unwrap();
    drop(good);
    assert_eq!(good_stream.wait().result, Ok(()));
    assert_eq!(collected.bytes(), b"still here");
}

/// Promise: A handler that does not return holds up only the thread of its stream.
#[test]
fn a_handler_that_does_not_return_holds_up_only_its_thread() {
    let (tell, called) = channel();
    let (release, released) = channel::<()>();
    let endless = Filter::new(LIMIT, move |_: &[u8]| {
        tell.send(()).unwrap();
        released.recv().is_ok()
    });
    let (mut near, mut stream, _) = from_socket(Framing::Fixed(1), vec![Handler::Read(Box::new(endless))]);
    near.write_all(b"x").unwrap();
    let held = std::thread::spawn(move || stream.run());
    called.recv_timeout(PATIENCE).unwrap();

    let engine = engine(Sharing::default());
    let others = [(); 2].map(|()| from_socket(Framing::Whole, Vec::new()));
    let [(mut near_engine, on_engine, first), (mut near_thread, mut on_thread, second)] = others;
    let on_engine = on_engine.start(&engine, StreamOptions::default());
    let on_thread = std::thread::spawn(move || on_thread.run());
    for near in [&mut near_engine, &mut near_thread] {
        near.write_all(b"goes on").unwrap();
    }
    drop((near_engine, near_thread));
    assert_eq!((on_engine.wait().result, on_thread.join().unwrap()), (Ok(()), Ok(())));
    assert_eq!((first.bytes(), second.bytes()), (b"goes on".to_vec(), b"goes on".to_vec()));
    assert!(!held.is_finished());

    release.send(()).unwrap();
    drop(near);
    assert_eq!(held.join().unwrap(), Ok(()));
}

/// Promise: Inputs and outputs are added and removed between records; nothing is lost or repeated.
#[test]
fn a_stream_is_asked_stopped_and_changed_while_it_runs() {
    let engine = engine(Sharing::default());
    let (mut near, stream, collected) = from_socket(Framing::lines(100), Vec::new());
    let running = stream.start(&engine, StreamOptions::default());
    near.write_all(b"one\ntwo").unwrap();
    while running.status().bytes_in < 7 {
        std::thread::yield_now();
    }
    let (mut other, far) = UnixStream::pair().unwrap();
    let (second, late) = Object::collect("second", LIMIT);
    running.with(move |stream| {
        stream.attach_input(Object::stream("other", far.into()).unwrap(), Framing::lines(100)).unwrap();
        stream.attach_output(second, OutputOptions::default());
    });
    // Round robin over two inputs and two outputs, from the current record on.
    near.write_all(b"\nthree\n").unwrap();
    other.write_all(b"red\nblue\n").unwrap();
    while running.status().records_in < 5 {
        std::thread::yield_now();
    }
    let all = [collected.records(), late.records()].concat();
    let mut words: Vec<String> = all.into_iter().map(|record| String::from_utf8(record).unwrap()).collect();
    words.sort();
    assert_eq!(words.concat(), "blue\none\nred\nthree\ntwo\n");
    assert!(!late.records().is_empty());

    running.stop();
    assert_eq!(running.wait().result, Err(StreamError::Stopped));
    assert_eq!(near.read(&mut [0]).unwrap(), 0, "the input was closed");
    running.with(|_| panic!("the stream is over"));
}

/// Promise: Inputs and outputs are added and removed between records; nothing is lost or repeated.
#[test]
fn a_detached_connection_goes_on_in_another_stream() {
    let engine = engine(Sharing::default());
    let (mut near, far) = UnixStream::pair().unwrap();
    let (first, before) = Object::collect("first", LIMIT);
    let mut stream = StreamBuilder::default().output(first).build();
    let port = stream.attach_input(Object::stream("far", far.into()).unwrap(), Framing::lines(100)).unwrap();
    let running = stream.start(&engine, StreamOptions::default());
    near.write_all(b"here\nthe").unwrap();
    while running.status().bytes_in < 8 {
        std::thread::yield_now();
    }
    let (tell, told) = channel();
    running.with(move |stream| assert!(stream.detach_input(port, move |object| tell.send(object).unwrap())));
    let object = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!(running.wait().result, Ok(()), "no input is left");
    let (second, after) = Object::collect("second", LIMIT);
    let stream = StreamBuilder::default().input(object, Framing::lines(100)).output(second).build();
    let running = stream.start(&engine, StreamOptions::default());
    near.write_all(b"re\n").unwrap();
    drop(near);
    assert_eq!(running.wait().result, Ok(()));
    assert_eq!((before.bytes(), after.bytes()), (b"here\n".to_vec(), b"there\n".to_vec()));
}

/// Promise: Scheduling policies are best effort, priority, and fair share with carry-over of unused volume.
/// Promise: Classes get their shares within 1 % over 100 rounds; no class starves, and overuse is paid back.
///
/// Of two streams with equal work that begin together, the stream with the greater share ends first, although
/// it was started last.
#[test]
fn classes_get_their_shares() {
    let class = |name: &str, share| Class { name: name.to_owned(), priority: 0, share, rate: None };
    let policy = Policy::FairShare { round: Round::Volume(1 << 20), carry_percent: 0 };
    let engine = engine(Sharing { policy, classes: vec![class("one", 1), class("three", 3)] });
    let bytes = vec![7u8; 64 << 20];
    let (tell, told) = channel();
    let mut running = Vec::new();
    // All streams begin together: the first blocks the engine thread until the others have been started.
    let (gate_open, gate) = channel::<()>();
    let waits = Filter::new(10, move |_: &[u8]| gate.recv().is_err());
    let (mut near, stream, _) = from_socket(Framing::Fixed(1), vec![Handler::Read(Box::new(waits))]);
    near.write_all(b"x").unwrap();
    running.push(stream.start(&engine, StreamOptions::default()));
    for class in [0, 1] {
        let (object, _) = Object::collect("out", LIMIT);
        let stream = StreamBuilder::default()
            .input(Object::memory("in", bytes.clone().into()), Framing::Whole)
            .output(object)
            .build();
        let tell = tell.clone();
        let on_end = Some(Box::new(move |_| tell.send(class).unwrap()) as _);
        running.push(stream.start(
            &engine,
            StreamOptions {
                placement: Placement { class, ..Placement::default() },
                on_end,
                deadline_us: None,
            },
        ));
    }
    drop(gate_open);
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), 1, "three parts are through before one part is");
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), 0);
}

/// Promise: Under the deadline policy the task with the earliest deadline runs first.
///
/// Streams with earlier deadlines run first, independent of the order of starting.
#[test]
fn the_earliest_deadline_goes_first() {
    let engine = engine(Sharing { policy: Policy::Deadline, classes: Vec::new() });
    let (tell, told) = channel();
    let mut running = Vec::new();
    // All streams begin together: the first blocks the engine thread until the others have been started.
    let (gate_open, gate) = channel::<()>();
    let (enter, entered) = channel::<()>();
    let waits = Filter::new(10, move |_: &[u8]| {
        enter.send(()).unwrap();
        gate.recv().is_err()
    });
    let (mut near, stream, _) = from_socket(Framing::Fixed(1), vec![Handler::Read(Box::new(waits))]);
    near.write_all(b"x").unwrap();
    running.push(stream.start(&engine, StreamOptions::default()));
    entered.recv_timeout(PATIENCE).unwrap();
    for hours in [None, Some(3), Some(1), Some(2)] {
        let (object, _) = Object::collect("out", LIMIT);
        let stream = StreamBuilder::default()
            .input(Object::memory("in", vec![7u8; 1 << 20].into()), Framing::Whole)
            .output(object)
            .build();
        let tell = tell.clone();
        let on_end = Some(Box::new(move |_| tell.send(hours).unwrap()) as _);
        let deadline_us = hours.map(|hours| hours * 3_600_000_000);
        running
            .push(stream.start(&engine, StreamOptions { deadline_us, on_end, ..StreamOptions::default() }));
    }
    drop(gate_open);
    let order = [0; 4].map(|_| told.recv_timeout(PATIENCE).unwrap());
    assert_eq!(order, [Some(1), Some(2), Some(3), None]);
}

/// Sends the name of the thread on which it is dropped.
struct Parting(std::sync::mpsc::Sender<String>);

impl Common for Parting {
    fn name(&self) -> &'static str {
        "parting"
    }
}

impl wirepath_streams::Read for Parting {
    fn read(&mut self, _: Piece<'_>) -> Result<Verdict, HandlerError> {
        Ok(Verdict::Pass)
    }
}

impl Drop for Parting {
    fn drop(&mut self) {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        self.0.send(name).unwrap();
    }
}

/// Promise: No engine thread closes or drops the files and handlers of a stream.
///
/// Closing a file, or dropping the resources of a handler, may take long: no engine thread waits for it.
#[test]
fn what_a_stream_had_is_dropped_where_nobody_waits() {
    let engine = engine(Sharing::default());
    let (tell, told) = channel();
    let parting = || Handler::Read(Box::new(Parting(tell.clone())));
    // Dropped with the stream.
    let (_near, stream, _) = from_socket(Framing::Whole, vec![parting()]);
    stream.start(&engine, StreamOptions::default()).stop();
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "reader-closer");
    // Dropped with an output of a stream that continues.
    let (mut near, far) = UnixStream::pair().unwrap();
    let (gone, reader) = UnixStream::pair().unwrap();
    drop(reader);
    let (stays, _) = Object::collect("stays", LIMIT);
    let stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .input(Object::stream("in", far.into()).unwrap(), Framing::Fixed(1))
        .output(stays)
        .output_with(
            Object::stream("gone", gone.into()).unwrap(),
            OutputOptions { handlers: vec![parting()], ..OutputOptions::default() },
        )
        .build();
    let running = stream.start(&engine, StreamOptions::default());
    near.write_all(b"x").unwrap();
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "reader-closer");
    assert!(!running.has_ended());
}

/// Promise: A detached object is returned to its caller, also if the stream ends first.
#[test]
fn a_stream_that_is_stopped_gives_back_what_was_to_be_detached() {
    let engine = engine(Sharing::default());
    let (_near, far) = UnixStream::pair().unwrap();
    let mut stream = StreamBuilder::default().build();
    let port = stream.attach_input(Object::stream("far", far.into()).unwrap(), Framing::Fixed(4)).unwrap();
    let (object, _) = Object::collect("out", LIMIT);
    stream.attach_output(object, OutputOptions::default());
    let running = stream.start(&engine, StreamOptions::default());
    (&_near).write_all(b"ha").unwrap();
    while running.status().bytes_in < 2 {
        std::thread::yield_now();
    }
    let (tell, told) = channel();
    running.with(move |stream| {
        assert!(stream.detach_input(port, move |object| tell.send(object.name().to_owned()).unwrap()));
    });
    running.stop();
    assert_eq!(running.wait().result, Err(StreamError::Stopped));
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "far");
}

/// Promise: A finished stream ends without an error only after its TCP peers have acknowledged everything.
///
/// Over TCP a stream ends when the peer has acknowledged everything: an edge that the engine waits for.
#[test]
fn a_stream_over_tcp_ends_when_its_peer_has_everything_or_fails_when_it_is_reset() {
    let engine = engine(Sharing::default());
    for is_reset in [false, true] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&near, 200_000).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let stream = StreamBuilder::default()
            .finish_outputs()
            .input(Object::memory("in", vec![7u8; 100_000].into()), Framing::Whole)
            .output(Object::stream("tcp://sink", near.into()).unwrap())
            .build();
        let running = stream.start(&engine, StreamOptions::default());
        while running.status().bytes_out < 100_000 {
            std::thread::yield_now();
        }
        assert!(!running.has_ended(), "the peer has no room for all of it");
        if is_reset {
            rustix::net::sockopt::set_socket_linger(&far, Some(Duration::ZERO)).unwrap();
            drop(far);
            let error = running.wait().result.unwrap_err().to_string();
            assert!(error.contains("tcp://sink: shutdown: Connection reset"), "{error}");
        } else {
            far.read_exact(&mut vec![0; 100_000]).unwrap();
            assert_eq!(running.wait_for(PATIENCE).unwrap().result, Ok(()));
        }
    }
}

/// Promise: Bytes that no handler reads are not copied, also to several connections.
#[test]
fn a_mirror_over_sockets_gives_every_byte_to_each() {
    let engine = engine(Sharing::default());
    let (mut near, far) = UnixStream::pair().unwrap();
    let outlets: Vec<(UnixStream, UnixStream)> = (0..5).map(|_| UnixStream::pair().unwrap()).collect();
    let builder = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .finish_outputs()
        .input(Object::stream("in", far.into()).unwrap(), Framing::Whole);
    let (builder, readers) =
        outlets.into_iter().fold((builder, Vec::new()), |(builder, mut readers), (write, read)| {
            readers.push(std::thread::spawn(move || {
                let mut bytes = Vec::new();
                (&read).read_to_end(&mut bytes).unwrap();
                bytes
            }));
            (builder.output(Object::stream("out", write.into()).unwrap()), readers)
        });
    let running = builder.build().start(&engine, StreamOptions::default());
    let bytes: Vec<u8> = (0..3_000_000u32).map(|number| (number * 11 / 7) as u8).collect();
    near.write_all(&bytes).unwrap();
    drop(near);
    for reader in readers {
        assert!(reader.join().unwrap() == bytes, "a mirror has other bytes");
    }
    let end = running.wait();
    assert_eq!((end.result, end.status.bytes_out), (Ok(()), 5 * bytes.len() as u64));
    assert_eq!(end.status.zero_copy_bytes, bytes.len() as u64);
}

/// Promise: A stream that is removed from its engine continues at the same position elsewhere.
#[test]
fn a_stream_that_is_taken_back_goes_on_elsewhere_and_nothing_is_lost() {
    let engine = engine(Sharing::default());
    let bytes: Vec<u8> = (0..3_000_000u32).map(|number| (number * 7 / 3) as u8).collect();
    let ((mut source, inlet), (outlet, mut reader)) =
        (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    let stream = StreamBuilder::default()
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(1000))
        .output(Object::stream("outlet", outlet.into()).unwrap())
        .build();
    let running = stream.start(&engine, StreamOptions::default());
    let sent = bytes.clone();
    let sending = std::thread::spawn(move || source.write_all(&sent).unwrap());
    // The peer does not read, so the stream fills the available buffers.
    while running.status().outputs[0].waiting_bytes == 0 {
        std::thread::yield_now();
    }
    let mut stream = running.take_back().unwrap();
    let status = stream.status();
    let waiting = status.outputs[0].waiting_bytes;
    assert_eq!(status.bytes_in, status.bytes_out + waiting + status.bytes_pending, "{status:?}");
    assert_eq!(engine.counters().tasks, 0);

    // Runs once on a thread of its own, and on the engine again after that.
    let running = stream.start(&engine, StreamOptions::default());
    stream = running.take_back().unwrap();
    let running = std::thread::spawn(move || stream.run());
    let mut received = Vec::new();
    reader.read_to_end(&mut received).unwrap();
    assert_eq!(running.join().unwrap(), Ok(()));
    sending.join().unwrap();
    assert!(received == bytes, "{} bytes came, not those that were sent", received.len());
}

/// Promise: A stream that is removed from its engine continues at the same position elsewhere.
#[test]
fn what_is_over_is_not_given_back_but_says_how_it_ended() {
    let engine = engine(Sharing::default());
    let (near, stream, _) = from_socket(Framing::Whole, Vec::new());
    let running = stream.start(&engine, StreamOptions::default());
    drop(near);
    while !running.has_ended() {
        std::thread::yield_now();
    }
    assert_eq!(running.take_back().map(|_| ()).unwrap_err().result, Ok(()));
}

/// Both ends of a TCP connection; dropping the second end resets it.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    rustix::net::sockopt::set_socket_linger(&far, Some(Duration::ZERO)).unwrap();
    (listener.accept().unwrap().0, far)
}

/// Promise: By option, a waiting stream ends if one of its connections fails.
#[test]
fn a_stream_that_cannot_move_ends_with_its_connection() {
    let engine = engine(Sharing::default());
    let start = |from: TcpStream, to: TcpStream| {
        let stream = StreamBuilder::default()
            .end_with_connections()
            .input(Object::stream("from", from.into()).unwrap(), Framing::Whole)
            .output(Object::stream("to", to.into()).unwrap())
            .build();
        stream.start(&engine, StreamOptions::default())
    };
    let is_reset = |running: &wirepath_streams::RunningStream, name: &str| {
        let end = running.wait_for(PATIENCE).unwrap();
        let Err(StreamError::Object(error)) = end.result else { panic!("{:?}", end.result) };
        assert_eq!((error.name.as_str(), error.errno), (name, rustix::io::Errno::CONNRESET));
    };

    // There is no room for the bytes that arrived before the reset.
    let ((from, mut source), (to, _sink)) = (connection(), connection());
    let running = start(from, to);
    source.set_nonblocking(true).unwrap();
    let deadline = std::time::Instant::now() + PATIENCE;
    let holds = || running.progress().bytes_in() > running.progress().bytes_out();
    while source.write(&[0; 65_536]).is_ok() || !holds() {
        assert!(std::time::Instant::now() < deadline, "{:?}", running.progress());
    }
    drop(source);
    is_reset(&running, "from");

    // There is nothing to write to the connection that is reset.
    let ((from, _source), (to, sink)) = (connection(), connection());
    let running = start(from, to);
    drop(sink);
    is_reset(&running, "to");
}

/// Promise: Inputs and outputs are added and removed between records; nothing is lost or repeated.
#[test]
fn inputs_that_wait_for_each_other_may_both_be_detached() {
    let engine = engine(Sharing::default());
    let ((mut source, first), (_silent, second)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    let (object, collected) = Object::collect("out", LIMIT);
    let mut stream = StreamBuilder::default()
        .order_by_tag(16, LIMIT, Late::Drop, |record| record.first().copied().map(u64::from))
        .output(object)
        .build();
    let ports = [("first", first), ("second", second)].map(|(name, inlet)| {
        stream.attach_input(Object::stream(name, inlet.into()).unwrap(), Framing::Fixed(1)).unwrap()
    });
    let running = stream.start(&engine, StreamOptions::default());
    source.write_all(&[1, 2, 3]).unwrap();
    while running.status().bytes_in < 3 {
        std::thread::yield_now();
    }
    let (tell, told) = channel();
    running.with(move |stream| {
        for port in ports {
            let tell = tell.clone();
            assert!(stream.detach_input(port, move |object| tell.send(object).unwrap()));
        }
    });
    let names = [(); 2].map(|()| told.recv_timeout(PATIENCE).unwrap().name().to_owned());
    assert!(names.contains(&"first".to_owned()) && names.contains(&"second".to_owned()), "{names:?}");
    assert_eq!(running.wait().result, Ok(()));
    assert_eq!(collected.bytes(), [1, 2, 3]);
}

/// Promise: Classes get their shares of the moved volume, and classes and streams keep their rates.
#[test]
fn a_low_rate_is_not_exceeded_on_the_zero_copy_route() {
    let engine = engine(Sharing::default());
    let ((_near, far), file) = (UnixStream::pair().unwrap(), tempfile::tempfile().unwrap());
    file.set_len(10_000_000).unwrap();
    let stream = StreamBuilder::default()
        .input(Object::file("file", Arc::new(file), 0), Framing::Whole)
        .output(Object::stream("out", far.into()).unwrap())
        .build();
    let rate = Some(Rate { per_second: 1000, burst: 1000 });
    let running = stream.start(
        &engine,
        StreamOptions { placement: Placement { rate, ..Placement::default() }, ..StreamOptions::default() },
    );
    while running.progress().bytes_in() == 0 {
        std::thread::yield_now();
    }
    let (read, seconds) = (running.progress().bytes_in(), 60);
    assert!(read < 1000 * seconds, "{read} bytes at once, which is the rate of more than {seconds} s");
}

/// Promise: Datagrams keep their boundaries; byte streams are divided into datagrams.
#[test]
fn datagrams_that_came_together_leave_as_they_were() {
    let socket = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let connected = |to: &UdpSocket| {
        let from = socket();
        from.connect(to.local_addr().unwrap()).unwrap();
        from
    };
    let (inlet, receiver) = (socket(), socket());
    let (sender, outlet) = (connected(&inlet), connected(&receiver));
    let engine = engine(Sharing::default());
    let stream = StreamBuilder::default()
        .input(Object::datagrams("in", inlet.into(), None, None).unwrap(), Framing::Whole)
        .output(Object::datagrams("out", outlet.into(), None, None).unwrap())
        .build();
    let _running = stream.start(&engine, StreamOptions::default());
    // Four or more records would fit into one datagram if a byte stream was divided into datagrams.
    let bytes: Vec<u8> = (0..1100u32).map(|number| number as u8).collect();
    datagrams::send(sender.as_fd(), &[IoSlice::new(&bytes)], Some(300), None).unwrap();
    let mut received = Vec::new();
    while received.len() < 4 {
        let mut buffer = [0; 2000];
        let length = receiver.recv(&mut buffer).unwrap();
        received.push(buffer[..length].to_vec());
    }
    assert_eq!(received, bytes.chunks(300).map(<[u8]>::to_vec).collect::<Vec<_>>());
}
