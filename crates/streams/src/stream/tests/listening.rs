//! Listening sockets, which become the accepted connection.

use super::*;
use crate::{InputOrder, StreamOptions};
use std::os::unix::net::UnixListener;
use std::thread;

fn listens() -> (std::net::SocketAddr, Object) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (listener.local_addr().unwrap(), Object::listening("listener", listener.into(), None).unwrap())
}

/// Promise: A listening socket becomes the connection that it accepts, as an input or an output.
#[test]
fn connections_of_listening_sockets_are_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("listener");
    let unix = UnixListener::bind(&path).unwrap();
    let inlet = Object::listening("inlet", unix.into(), Some(path.clone())).unwrap();
    let (address, outlet) = listens();
    let (builder, told) = events(StreamBuilder::default());
    let mut stream = builder.finish_outputs().input(inlet, Framing::Whole).output(outlet).build();
    let bytes: Vec<u8> = (0..1_000_000u32).map(|number| (number * 7 / 3) as u8).collect();
    let sent = bytes.clone();
    let source = path.clone();
    let ends = thread::spawn(move || {
        let mut source = UnixStream::connect(source).unwrap();
        let writing = thread::spawn(move || source.write_all(&sent).unwrap());
        let mut received = Vec::new();
        TcpStream::connect(address).unwrap().read_to_end(&mut received).unwrap();
        writing.join().unwrap();
        received
    });
    stream.run().unwrap();
    assert!(ends.join().unwrap() == bytes, "other bytes came");
    assert_eq!(stream.status().zero_copy_bytes, bytes.len() as u64, "nobody has to look at these");
    assert!(!path.exists(), "the socket's name is left");
    assert!(TcpStream::connect(address).is_err(), "it takes one connection only");
    // No listening event is sent if a client connected before the stream waited.
    let addresses: Vec<String> = told
        .try_iter()
        .filter_map(|event| match event {
            StreamEvent::Listening { address, .. } => Some(address),
            _ => None,
        })
        .collect();
    let known = [path.display().to_string(), address.to_string()];
    assert!(addresses.iter().all(|address| known.contains(address)), "{addresses:?}");
}

/// Promise: A stream starts when all its listening sockets have a connection.
///
/// By turns, so that the result does not depend on when a client connects.
#[test]
fn a_stream_begins_when_everybody_has_come() {
    let ((first, inlet), (second, outlet)) = (listens(), listens());
    let (also, collected) = Object::collect("also", LIMIT);
    let (builder, told) = events(StreamBuilder::default().pattern(OutputPattern::Mirror));
    let options = OutputOptions { when_full: WhenFull::Disconnect, ..OutputOptions::default() };
    let mut stream = builder
        .order(crate::InputOrder::Arrival)
        .input(memory(b"there already, "), Framing::Fixed(15))
        .input(inlet, Framing::Whole)
        .output_with(outlet, options)
        .output(also)
        .build();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    let ports = [Port(3), Port(0)]; // outputs have the first numbers
    let waits = |event: StreamEvent| match event {
        StreamEvent::Listening { port, address, .. } => (port, address),
        event => panic!("{event:?}"),
    };
    let told_of = [waits(told.recv().unwrap()), waits(told.recv().unwrap())];
    assert_eq!(told_of, [(ports[1], second.to_string()), (ports[0], first.to_string())]);

    let mut source = TcpStream::connect(first).unwrap();
    source.write_all(b"and now").unwrap();
    stream.note_ready(ports[0]);
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    assert_eq!(stream.status().bytes_in, 0, "somebody is not there yet");
    assert!(matches!(told.recv().unwrap(), StreamEvent::Connected { port, .. } if port == ports[0]));

    let mut sink = TcpStream::connect(second).unwrap();
    drop(source);
    stream.note_ready(ports[1]);
    while !matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Ok(()))) {
        stream.note_ready(ports[0]);
    }
    drop(stream);
    let mut received = String::new();
    sink.read_to_string(&mut received).unwrap();
    assert_eq!(received, "there already, and now");
    assert_eq!(collected.bytes(), received.as_bytes());
}

/// Promise: A listening socket that is attached later does not delay the stream.
///
/// In every order and pattern. After its connection, the input or output takes its turn.
#[test]
fn a_listener_that_is_attached_later_delays_nothing() {
    let orders = [
        |builder: StreamBuilder| builder.order(InputOrder::RoundRobin),
        |builder: StreamBuilder| builder.order(InputOrder::Random { seed: 7 }),
        |builder: StreamBuilder| builder.order(InputOrder::Arrival),
        |builder: StreamBuilder| {
            builder.order_by_tag(16, LIMIT, crate::Late::Drop, |record| {
                record.first().map(|byte| u64::from(*byte))
            })
        },
    ];
    let patterns = [
        OutputPattern::Stripe,
        OutputPattern::StripeBytes(4),
        OutputPattern::Random { seed: 7 },
        OutputPattern::Mirror,
        OutputPattern::Capacity,
    ];
    for (order, pattern) in orders.iter().flat_map(|order| patterns.map(|pattern| (order, pattern))) {
        let (mut feed, inlet) = UnixStream::pair().unwrap();
        let (object, collected) = Object::collect("out", LIMIT);
        let mut stream = order(StreamBuilder::default().pattern(pattern))
            .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(4))
            .output(object)
            .build();
        // Attached before the first turn, which makes no difference: the stream was built without them.
        let ((entry, input), (exit, output)) = (listens(), listens());
        let input = stream.attach_input(input, Framing::Fixed(4)).unwrap();
        let options = OutputOptions { waiting_bytes: 1, ..OutputOptions::default() };
        let output = stream.attach_output(output, options);
        feed.write_all(b"1111222233334444").unwrap();
        stream.note_ready(stream.intake.inputs[0].port);
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        assert_eq!(collected.bytes(), b"1111222233334444", "{pattern:?}");
        assert_eq!(stream.status().outputs[1].waiting_bytes, 0, "it gets nothing of before");

        let mut sink = TcpStream::connect(exit).unwrap();
        stream.note_ready(output);
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        let mut source = TcpStream::connect(entry).unwrap();
        source.write_all(b"66668888").unwrap();
        drop(source);
        feed.write_all(b"55557777").unwrap();
        drop(feed);
        stream.attach_input(memory(b"9999"), Framing::Fixed(4)).unwrap();
        stream.note_ready(input);
        stream.run().unwrap();
        drop(stream);
        let mut received = Vec::new();
        sink.read_to_end(&mut received).unwrap();
        let later = collected.bytes().split_off(16);
        if matches!(pattern, OutputPattern::Mirror) {
            assert_eq!(received, later);
        } else {
            received.extend(later);
        }
        received.sort_unstable();
        assert_eq!(received, b"55556666777788889999", "{pattern:?}");
    }
}

/// Promise: A listening socket that is attached later does not delay the stream.
///
/// Started, and another output attached at once: the stream was built without it.
#[test]
fn a_listener_that_is_attached_at_once_delays_nothing_on_an_engine() {
    let engine = engine();
    let (object, collected) = Object::collect("out", LIMIT);
    let (mut feed, inlet) = UnixStream::pair().unwrap();
    let stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(4))
        .output(object)
        .build();
    let running = stream.start(&engine, StreamOptions::default());
    let (address, output) = listens();
    running.with(move |stream| {
        stream.attach_output(output, OutputOptions::default());
    });
    // More than may wait for an output.
    let writing = thread::spawn(move || feed.write_all(&vec![7; 2_000_000]));
    let status = running.wait_for(PATIENCE).expect("it does not end").status;
    writing.join().unwrap().unwrap();
    assert_eq!((collected.bytes().len(), status.bytes_out), (2_000_000, 2_000_000));
    // Objects whose closing may block are closed after the end, by another thread.
    let until = std::time::Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_ok() {
        assert!(std::time::Instant::now() < until, "it listens on");
        thread::yield_now();
    }
}

/// Promise: A stream whose last output failed ends without an error only if another output took over.
///
/// The last output may fail while another is expected: nothing is read until the other is connected.
#[test]
fn a_stream_continues_with_a_new_output_after_its_last_one_failed() {
    let (mut feed, inlet) = UnixStream::pair().unwrap();
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(4))
        .output(Object::collect("out", 2).0)
        .build();
    let (address, output) = listens();
    let port = stream.attach_output(output, OutputOptions::default());
    feed.write_all(b"one two ").unwrap();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    assert_eq!(stream.status().gone_outputs.failed, 1);
    let mut sink = TcpStream::connect(address).unwrap();
    stream.note_ready(port);
    feed.write_all(b"tri ").unwrap();
    drop(feed);
    stream.run().unwrap();
    drop(stream);
    let mut received = String::new();
    sink.read_to_string(&mut received).unwrap();
    assert_eq!(received, "tri ");
}

/// Promise: A stream whose last output failed ends without an error only if another output took over.
///
/// If there is nothing left to send, or no connection can come any more, the stream fails with its last
/// output, as it would without the expected output.
#[test]
fn a_stream_whose_last_output_has_failed_does_not_end_well_because_another_was_to_come() {
    for is_detached in [false, true] {
        let mut stream = StreamBuilder::default()
            .pattern(OutputPattern::Mirror)
            .input(memory(b"some"), Framing::Fixed(2))
            .output(Object::collect("out", 1).0)
            .build();
        let (inlet, _feed) = UnixStream::pair().unwrap();
        let (address, output) = listens();
        let port = stream.attach_output(output, OutputOptions::default());
        if is_detached {
            stream.attach_input(Object::stream("more", inlet.into()).unwrap(), Framing::Fixed(2)).unwrap();
            assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait), "somebody may come");
            assert!(stream.detach_output(port, drop));
        }
        let error = stream.run().unwrap_err();
        assert!(matches!(&error, StreamError::NoOutput(why) if why.starts_with("out: ")), "{error}");
        drop(stream);
        assert!(TcpStream::connect(address).is_err(), "it listens on");
    }
}

/// Promise: A listening socket is detached at once, still listening.
#[test]
fn an_output_that_listens_is_detached_at_once() {
    let (object, collected) = Object::collect("out", LIMIT);
    let ((_, awaited), (address, later)) = (listens(), listens());
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .input(memory(b"some"), Framing::Fixed(4))
        .output(awaited)
        .output(object)
        .build();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    assert_eq!(stream.status().bytes_in, 0, "one is waited for");
    let ports = [Port(0), stream.attach_output(later, OutputOptions::default())];
    let told = ports.map(|port| {
        let (tell, told) = channel();
        assert!(!stream.detach_input(port, drop), "it is no input");
        assert!(stream.detach_output(port, move |object| tell.send(object).unwrap()));
        assert!(!stream.detach_output(port, drop), "it is being detached already");
        told
    });
    stream.run().unwrap();
    assert_eq!(stream.status().gone_outputs.detached, 2);
    assert_eq!(collected.bytes(), b"some");
    // The socket still listens; the next stream is built to wait for it, and reports its address.
    let [_, later] = told.map(|told| told.try_recv().unwrap());
    let (builder, told) = events(StreamBuilder::default());
    let mut other = builder.input(memory(b"here"), Framing::Whole).output(later).build();
    assert!(matches!(other.act(u64::MAX, 0).0, Acted::Wait));
    assert!(matches!(told.try_recv().unwrap(), StreamEvent::Listening { .. }));
    let mut sink = TcpStream::connect(address).unwrap();
    other.run().unwrap();
    drop(other);
    let mut received = String::new();
    sink.read_to_string(&mut received).unwrap();
    assert_eq!(received, "here");
}

/// Promise: A listening socket is detached at once, still listening.
#[test]
fn an_input_that_listens_and_was_attached_later_is_awaited_at_the_end_and_detached_at_once() {
    let (object, collected) = Object::collect("out", LIMIT);
    let mut stream =
        StreamBuilder::default().input(memory(b"some"), Framing::Fixed(4)).output(object).build();
    let (_, input) = listens();
    let port = stream.attach_input(input, Framing::Fixed(4)).unwrap();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    assert_eq!(collected.bytes(), b"some");
    let (tell, told) = channel();
    assert!(!stream.detach_output(port, drop), "it is no output");
    assert!(stream.detach_input(port, move |object| tell.send(object).unwrap()));
    let input = told.try_recv().unwrap();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Ok(()))));
    let (builder, told) = events(StreamBuilder::default());
    let mut other = builder.output(Object::collect("out", LIMIT).0).input(input, Framing::Whole).build();
    assert!(matches!(other.act(u64::MAX, 0).0, Acted::Wait));
    assert!(
        matches!(told.try_recv().unwrap(), StreamEvent::Listening { .. }),
        "whoever has it next says where"
    );
}

/// Promise: A listening socket becomes the connection that it accepts, as an input or an output.
#[test]
fn a_stream_whose_client_never_comes_is_stopped_and_taken_back() {
    let engine = engine();
    let (address, inlet) = listens();
    let (builder, told) = events(StreamBuilder::default());
    let (object, collected) = Object::collect("out", LIMIT);
    let stream = builder.input(inlet, Framing::Whole).output(object).build();
    let running = stream.start(&engine, StreamOptions::default());
    assert!(matches!(told.recv_timeout(PATIENCE).unwrap(), StreamEvent::Listening { .. }));
    // The socket still listens, wherever the stream runs.
    let running = running.take_back().ok().unwrap().start(&engine, StreamOptions::default());
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"late").unwrap();
    drop(client);
    assert_eq!(running.wait_for(PATIENCE).expect("it does not end").result, Ok(()));
    assert_eq!(collected.bytes(), b"late");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("listener");
    let unix = UnixListener::bind(&path).unwrap();
    let inlet = Object::listening("inlet", unix.into(), Some(path.clone())).unwrap();
    let (builder, told) = events(StreamBuilder::default());
    let stream = builder.input(inlet, Framing::Whole).output(Object::collect("out", LIMIT).0).build();
    let running = stream.start(&engine, StreamOptions::default());
    assert!(matches!(told.recv_timeout(PATIENCE).unwrap(), StreamEvent::Listening { .. }));
    running.stop();
    assert_eq!(running.wait_for(PATIENCE).expect("it does not end").result, Err(StreamError::Stopped));
    drop(engine);
}

/// Promise: A listening socket becomes the connection that it accepts, as an input or an output.
#[test]
fn a_client_that_resets_has_come() {
    let (address, inlet) = listens();
    let mut stream =
        StreamBuilder::default().input(inlet, Framing::Whole).output(Object::collect("out", LIMIT).0).build();
    reset(TcpStream::connect(address).unwrap());
    let error = stream.run().unwrap_err().to_string();
    assert!(error.starts_with("listener: ") && error.contains("reset"), "{error}");
}

/// Promise: A listening socket is detached at once, still listening.
#[test]
fn an_object_that_listens_is_detached_as_it_is() {
    let (address, inlet) = listens();
    let mut stream =
        StreamBuilder::default().input(inlet, Framing::Whole).output(Object::collect("out", LIMIT).0).build();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    let (tell, told) = channel();
    assert!(stream.detach_input(Port(1), move |object| tell.send(object).unwrap()));
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Ok(()))));
    let (output, collected) = Object::collect("out", LIMIT);
    let mut other =
        StreamBuilder::default().input(told.recv().unwrap(), Framing::Whole).output(output).build();
    TcpStream::connect(address).unwrap().write_all(b"here").unwrap();
    other.run().unwrap();
    assert_eq!(collected.bytes(), b"here");
}

/// Promise: A listening input or output needs a listening socket; other sockets are refused.
#[test]
fn what_does_not_listen_is_refused() {
    let (near, _far) = UnixStream::pair().unwrap();
    let of_datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    for socket in [near.into(), of_datagrams.into()] {
        let error = Object::listening("listener", socket, None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::INVAL.raw_os_error()));
    }
}
