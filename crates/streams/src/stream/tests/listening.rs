//! Sockets that listen, and become the connection that comes.

use super::*;
use crate::StreamOptions;
use std::os::unix::net::UnixListener;
use std::thread;

fn listens() -> (std::net::SocketAddr, Object) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (listener.local_addr().unwrap(), Object::listening("door", listener.into(), None).unwrap())
}

#[test]
fn who_connects_is_read_from_and_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("door");
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
    assert_eq!(stream.status().bytes_unseen, bytes.len() as u64, "nobody has to look at these");
    assert!(!path.exists(), "the socket's name is left");
    assert!(TcpStream::connect(address).is_err(), "it takes one connection only");
    // Who was there before it was waited for is not told of.
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

/// By turns, so that nothing depends on when somebody comes.
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
    let ports = [stream.inputs[1].port, stream.outputs[0].port];
    let waits = |event: StreamEvent| match event {
        StreamEvent::Listening { port, address, .. } => (port, address),
        event => panic!("{event:?}"),
    };
    let told_of = [waits(told.recv().unwrap()), waits(told.recv().unwrap())];
    assert_eq!(told_of, [(ports[0], first.to_string()), (ports[1], second.to_string())]);

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

#[test]
fn one_that_is_attached_later_keeps_nobody_waiting() {
    let (mut feed, inlet) = UnixStream::pair().unwrap();
    let (object, collected) = Object::collect("out", LIMIT);
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .order(crate::InputOrder::Arrival)
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(4))
        .output(object)
        .build();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    let ((_, input), (address, output)) = (listens(), listens());
    stream.attach_input(input, Framing::Fixed(4)).unwrap();
    let port = stream.attach_output(output, OutputOptions::default());
    feed.write_all(b"one two ").unwrap();
    stream.note_ready(stream.inputs[0].port);
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    assert_eq!(collected.bytes(), b"one two ");
    assert_eq!(stream.status().outputs[1].waiting_bytes, 8, "it waits for who may come");
    let mut sink = TcpStream::connect(address).unwrap();
    stream.note_ready(port);
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    let mut received = [0; 8];
    sink.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"one two ");
}

#[test]
fn a_stream_whose_client_never_comes_is_stopped_and_taken_back() {
    let engine = engine();
    let (address, inlet) = listens();
    let (builder, told) = events(StreamBuilder::default());
    let (object, collected) = Object::collect("out", LIMIT);
    let stream = builder.input(inlet, Framing::Whole).output(object).build();
    let running = engine.start_stream(stream, StreamOptions::default());
    assert!(matches!(told.recv_timeout(PATIENCE).unwrap(), StreamEvent::Listening { .. }));
    // It listens on, wherever it runs.
    let running = engine.start_stream(running.take_back().ok().unwrap(), StreamOptions::default());
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"late").unwrap();
    drop(client);
    assert_eq!(running.wait_for(PATIENCE).expect("it does not end").result, Ok(()));
    assert_eq!(collected.bytes(), b"late");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("door");
    let unix = UnixListener::bind(&path).unwrap();
    let inlet = Object::listening("inlet", unix.into(), Some(path.clone())).unwrap();
    let (builder, told) = events(StreamBuilder::default());
    let stream = builder.input(inlet, Framing::Whole).output(Object::collect("out", LIMIT).0).build();
    let running = engine.start_stream(stream, StreamOptions::default());
    assert!(matches!(told.recv_timeout(PATIENCE).unwrap(), StreamEvent::Listening { .. }));
    running.stop();
    assert_eq!(running.wait_for(PATIENCE).expect("it does not end").result, Err(StreamError::Stopped));
    drop(engine);
}

#[test]
fn a_client_that_resets_has_come() {
    let (address, inlet) = listens();
    let mut stream =
        StreamBuilder::default().input(inlet, Framing::Whole).output(Object::collect("out", LIMIT).0).build();
    reset(TcpStream::connect(address).unwrap());
    let error = stream.run().unwrap_err().to_string();
    assert!(error.starts_with("door: ") && error.contains("reset"), "{error}");
}

#[test]
fn an_object_that_listens_is_detached_as_it_is() {
    let (address, inlet) = listens();
    let mut stream =
        StreamBuilder::default().input(inlet, Framing::Whole).output(Object::collect("out", LIMIT).0).build();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    let (tell, told) = channel();
    assert!(stream.detach_input(stream.inputs[0].port, move |object| tell.send(object).unwrap()));
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Ok(()))));
    let (output, collected) = Object::collect("out", LIMIT);
    let mut other =
        StreamBuilder::default().input(told.recv().unwrap(), Framing::Whole).output(output).build();
    TcpStream::connect(address).unwrap().write_all(b"here").unwrap();
    other.run().unwrap();
    assert_eq!(collected.bytes(), b"here");
}

#[test]
fn what_does_not_listen_is_refused() {
    let (near, _far) = UnixStream::pair().unwrap();
    let of_datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    for socket in [near.into(), of_datagrams.into()] {
        let error = Object::listening("door", socket, None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::INVAL.raw_os_error()));
    }
}
