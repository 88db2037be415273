//! Inputs and outputs that fail, are detached or finish.

use super::*;
use rustix::fs::{
    MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_getfl, fcntl_setfl, ftruncate, memfd_create,
};
use std::net::{TcpListener, TcpStream};

/// A connection over TCP of which little is under way: its two ends.
fn narrow_connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&near, 200_000).unwrap();
    (near, listener.accept().unwrap().0)
}

/// Closes a connection so that its peer sees a reset.
fn reset(connection: TcpStream) {
    let linger = Some(std::time::Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(&connection, linger).unwrap();
}

fn events(builder: StreamBuilder) -> (StreamBuilder, std::sync::mpsc::Receiver<StreamEvent>) {
    let (tell, told) = channel();
    (builder.on_event(move |event| drop(tell.send(event))), told)
}

/// Bytes that its side of a connection took, and its peer has no room for, are lost when that resets it.
#[test]
fn a_connection_that_is_reset_after_the_end_has_not_got_everything() {
    for pattern in [OutputPattern::Mirror, OutputPattern::Stripe] {
        let (near, far) = narrow_connection();
        let (builder, _) = events(StreamBuilder::default());
        let mut stream = builder
            .pattern(pattern)
            .finish_outputs()
            .input(memory(&[7; 100_000]), Framing::Whole)
            .output(Object::stream("tcp://sink", near.into()).unwrap())
            .build();
        loop {
            match stream.act(u64::MAX, 0).0 {
                Acted::Deliver => break,
                Acted::Wait | Acted::More => stream.note_ready(Port(0)),
                Acted::Ended(ended) => panic!("{ended:?}"),
            }
        }
        assert_eq!(stream.status().bytes_out, 100_000);
        reset(far);
        let error = stream.run().unwrap_err().to_string();
        assert!(error.contains("tcp://sink: shutdown: Connection reset"), "{error}");
    }
}

#[test]
fn a_connection_that_acknowledges_nothing_for_long_is_given_up() {
    let (near, _far) = narrow_connection();
    let mut stream = StreamBuilder::default()
        .finish_outputs()
        .input(memory(&[7; 100_000]), Framing::Whole)
        .output(Object::stream("tcp://sink", near.into()).unwrap())
        .build();
    let mut now_us = 1;
    let acted = loop {
        match stream.act(u64::MAX, now_us).0 {
            Acted::Deliver => now_us += 61_000_000,
            Acted::Wait | Acted::More => stream.note_ready(Port(0)),
            Acted::Ended(ended) => break ended,
        }
    };
    assert!(acted.unwrap_err().to_string().contains("timed out"));
}

#[test]
fn a_stream_ends_when_its_peer_has_everything() {
    let (near, mut far) = narrow_connection();
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).unwrap();
        bytes.len()
    });
    let mut stream = StreamBuilder::default()
        .finish_outputs()
        .input(memory(&[7; 1_000_000]), Framing::Whole)
        .output(Object::stream("tcp://sink", near.into()).unwrap())
        .build();
    stream.run().unwrap();
    drop(stream);
    assert_eq!(reading.join().unwrap(), 1_000_000);
}

/// An input of which nobody looks at the bytes may fail like any other.
#[test]
fn a_stream_survives_inputs_that_fail_unseen_and_while_they_are_read_ahead() {
    let (near, far) = narrow_connection();
    let (outlet, _reader) = UnixStream::pair().unwrap();
    let (builder, told) = events(StreamBuilder::default());
    let mut stream = builder
        .survive_inputs()
        .input(Object::stream("tcp://source", near.into()).unwrap(), Framing::Whole)
        .output(Object::stream("sink", outlet.into()).unwrap())
        .build();
    assert!(stream.can_move_unseen());
    reset(far);
    stream.run().unwrap();
    let StreamEvent::InputFailed { error, .. } = told.recv().unwrap() else { panic!("another event") };
    assert!(error.contains("tcp://source: splice: Connection reset"), "{error}");

    let (builder, told) = events(StreamBuilder::default());
    let file = tempfile::tempfile().unwrap();
    file.set_len(5000).unwrap();
    let mut stream = builder
        .survive_inputs()
        .input(Object::file("file", Arc::new(file), 0), Framing::Fixed(10))
        .output(Object::collect("out", LIMIT).0)
        .build();
    let failed = Stored::failed(Port(1), rustix::io::Errno::IO);
    stream.stored(failed).unwrap();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Ok(()))), "there is no other input");
    let StreamEvent::InputFailed { error, .. } = told.recv().unwrap() else { panic!("another event") };
    assert!(error.starts_with("file: reading ahead: "), "{error}");
}

#[test]
fn a_connection_that_fails_while_a_file_is_sent_is_named() {
    let (near, far) = UnixStream::pair().unwrap();
    drop(far);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"some bytes").unwrap();
    let mut stream = StreamBuilder::default()
        .input(Object::file("file", Arc::new(file), 0), Framing::Whole)
        .output(Object::stream("tcp://client", near.into()).unwrap())
        .build();
    assert_eq!(stream.run().unwrap_err().to_string(), "tcp://client: sendfile: Broken pipe (os error 32)");
}

/// What is in a pipe when its sink says that it takes only copies must not be lost.
#[test]
fn sinks_that_take_only_what_is_copied_get_every_byte() {
    let bytes: Vec<u8> = (0..300_000u32).map(|number| (number * 7 / 3) as u8).collect();
    let source = |bytes: &[u8]| {
        let (mut near, far) = UnixStream::pair().unwrap();
        let bytes = bytes.to_vec();
        let writing = thread::spawn(move || near.write_all(&bytes).unwrap());
        (Object::stream("source", far.into()).unwrap(), writing)
    };
    // A file that is only appended to.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "before").unwrap();
    let appending = std::fs::OpenOptions::new().append(true).open(file.path()).unwrap();
    let (input, writing) = source(&bytes);
    let output = Object::file("appending", Arc::new(appending), 0);
    let mut stream = StreamBuilder::default().input(input, Framing::Whole).output(output).build();
    stream.run().unwrap();
    writing.join().unwrap();
    assert!(std::fs::read(file.path()).unwrap() == [b"before", &bytes[..]].concat(), "other bytes");
    assert_eq!(stream.status().bytes_out, bytes.len() as u64);

    // A socket that has the same flag, with which splice refuses it.
    let (outlet, mut reader) = UnixStream::pair().unwrap();
    fcntl_setfl(&outlet, fcntl_getfl(&outlet).unwrap() | OFlags::APPEND).unwrap();
    let (input, writing) = source(&bytes);
    let output = Object::stream("socket", outlet.into()).unwrap();
    let mut stream =
        StreamBuilder::default().finish_outputs().input(input, Framing::Whole).output(output).build();
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    });
    stream.run().unwrap();
    writing.join().unwrap();
    assert!(reading.join().unwrap() == bytes, "other bytes");
}

#[test]
fn who_detached_an_object_gets_it_also_when_the_stream_ends_first() {
    let (_feed, inlet) = UnixStream::pair().unwrap();
    let (stuck, _reader) = UnixStream::pair().unwrap();
    let mut stream = StreamBuilder::default().pattern(OutputPattern::Mirror).build();
    let input =
        stream.attach_input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(4)).unwrap();
    stream.attach_input(memory(&[7; 1_000_000]), Framing::Fixed(1000)).unwrap();
    let output =
        stream.attach_output(Object::stream("stuck", stuck.into()).unwrap(), OutputOptions::default());
    (&_feed).write_all(b"half").unwrap();
    (&_feed).write_all(b"ha").unwrap();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    let (tell, told) = channel();
    let tell_too = tell.clone();
    assert!(stream.detach_output(output, move |object| tell.send(object.name().to_owned()).unwrap()));
    assert!(stream.detach_input(input, move |object| tell_too.send(object.name().to_owned()).unwrap()));
    drop(stream);
    let mut names: Vec<String> = told.iter().collect();
    names.sort();
    assert_eq!(names, ["inlet", "stuck"]);
}

#[test]
fn more_outputs_than_there_can_be_shares_are_an_error() {
    let (objects, _) = collects(256);
    let builder = StreamBuilder::default()
        .pattern(OutputPattern::Shares { threshold: 2 })
        .input(memory(b"abc"), Framing::Whole);
    let mut stream = objects.into_iter().fold(builder, StreamBuilder::output).build();
    let error = stream.run().unwrap_err();
    assert_eq!(error.to_string(), "256 outputs are more than the 255 shares that a record can have");
    assert_eq!(stream.status().bytes_in, 0);
}

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

/// Others wait while a stream has its turn: it may move what it is allowed, and one call more.
#[test]
fn a_turn_moves_what_it_may() {
    const TURN: u64 = 256 * 1024;
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![7; 20_000_000]).unwrap();
    let file = Object::file("file", Arc::new(file), 0);
    let checksum = || Handler::Read(Box::new(crate::handlers::Checksum::default()));
    let readers = || (0..30).map(|_| UnixStream::pair().unwrap());
    for (builder, outputs, most) in [
        (StreamBuilder::default().input(file, Framing::Whole), 1, TURN + (1 << 20)),
        (
            StreamBuilder::default()
                .handler(checksum())
                .input(memory(&vec![7; 2_000_000]), Framing::Fixed(1000)),
            30,
            3 * TURN,
        ),
    ] {
        let (outlets, mut readers): (Vec<UnixStream>, Vec<UnixStream>) = readers().take(outputs).unzip();
        let outlets = outlets.into_iter().map(|outlet| Object::stream("out", outlet.into()).unwrap());
        let mut stream = outlets.fold(builder.pattern(OutputPattern::Mirror), StreamBuilder::output).build();
        readers.iter_mut().for_each(|reader| reader.set_nonblocking(true).unwrap());
        let mut read = vec![0; 1 << 20];
        loop {
            let (acted, moved) = stream.act(TURN, 0);
            assert!(moved <= most, "{moved} in one turn");
            stream
                .take_storage()
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|storage| stream.stored(storage.run()).unwrap());
            match acted {
                Acted::Ended(ended) => break ended.unwrap(),
                Acted::Wait | Acted::Deliver => {
                    for reader in &mut readers {
                        while reader.read(&mut read).is_ok_and(|length| length > 0) {}
                    }
                    (0..31).for_each(|port| stream.note_ready(Port(port)));
                }
                Acted::More => {}
            }
        }
        let status = stream.status();
        assert_eq!(status.bytes_out, status.bytes_in * outputs as u64);
    }
}

/// Who was detached has failed in nothing: what waits for it leaves, though the last of the others fails meanwhile.
#[test]
fn the_last_output_that_fails_takes_none_with_it_that_leaves() {
    for when_full in [WhenFull::Block, WhenFull::Disconnect] {
        let (leaves, mut reader) = UnixStream::pair().unwrap();
        let (fails, peer) = UnixStream::pair().unwrap();
        let (given, object) = channel();
        let (mut feed, inlet) = UnixStream::pair().unwrap();
        let options = OutputOptions { when_full, waiting_bytes: 1 << 20, ..OutputOptions::default() };
        let mut stream = StreamBuilder::default()
            .pattern(OutputPattern::Mirror)
            .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(1000))
            .output(Object::stream("leaves", leaves.into()).unwrap())
            .output_with(Object::stream("fails", fails.into()).unwrap(), options)
            .build();
        let (leaves, fails) = (Port(0), Port(1));
        feed.set_nonblocking(true).unwrap();
        let mut offer = |stream: &mut Stream| {
            let fed = feed.write(&[7; 1000]).is_ok();
            stream.note_ready(Port(2));
            assert!(
                matches!(stream.act(u64::MAX, crate::now_us()).0, Acted::Wait),
                "who leaves is waited for"
            );
            fed
        };
        while offer(&mut stream) {}
        let before = stream.status();
        let waiting = before.outputs[0].waiting_bytes;
        assert!(waiting > 0, "nobody reads: {before:?}");
        assert!(stream.detach_output(leaves, move |object| given.send(object).unwrap()));
        if when_full == WhenFull::Block {
            drop(peer);
            stream.note_ready(fails);
            offer(&mut stream);
        } else {
            // More than may waits for the other alone now.
            while stream.status().gone_outputs.disconnected == 0 {
                offer(&mut stream);
            }
        }
        let gone = stream.status().gone_outputs;
        assert_eq!((gone.failed + gone.disconnected, gone.detached), (1, 0), "{when_full:?}");
        let taken = before.outputs[0].bytes + waiting;
        let reading = thread::spawn(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            bytes.len() as u64
        });
        assert!(matches!(stream.run(), Err(StreamError::NoOutput(_))));
        drop(object.recv().unwrap());
        assert_eq!(reading.join().unwrap(), taken);
        let status = stream.status();
        let left = status.ended_outputs.iter().find(|output| output.port == leaves).unwrap();
        assert_eq!((left.bytes, left.dropped.bytes), (taken, 0));
    }
}

/// A connection whose peer reads nothing and has no room, and the peer.
fn full() -> (UnixStream, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    while (&near).write(&[7; 1000]).is_ok() {}
    (near, far)
}

/// A mirror of two. The one that stays has failed when the other was detached, of which the peer is answered, and takes nothing.
fn left_alone(
    stall: std::time::Duration,
    on_detached: impl FnOnce(Object) + Send + 'static,
) -> (Stream, UnixStream) {
    let (leaves, reader) = full();
    let (fails, peer) = full();
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .stall(stall)
        .input(memory(&[7; 200_000]), Framing::Fixed(1000))
        .output(Object::stream("leaves", leaves.into()).unwrap())
        .output(Object::stream("fails", fails.into()).unwrap())
        .build();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    assert!(stream.detach_output(Port(0), on_detached));
    drop(peer);
    stream.note_ready(Port(1));
    (stream, reader)
}

#[test]
fn who_leaves_and_takes_nothing_when_nobody_else_is_left_has_so_much_time() {
    let (given, object) = channel();
    let second = |seconds: f64| (seconds * 1e6) as u64;
    let (mut stream, mut reader) =
        left_alone(std::time::Duration::from_secs(5), move |object| given.send(object).unwrap());
    assert!(matches!(stream.act(u64::MAX, second(1.0)).0, Acted::Wait));
    assert_eq!(stream.status().gone_outputs.failed, 1);
    assert!(matches!(stream.act(u64::MAX, second(5.9)).0, Acted::Wait));
    // What it takes gives it as much time again.
    reader.read_exact(&mut [0; 5000]).unwrap();
    stream.note_ready(Port(0));
    assert!(matches!(stream.act(u64::MAX, second(5.9)).0, Acted::Wait));
    let taken = stream.status().outputs[0].bytes;
    assert!(taken > 0 && taken < 200_000, "{taken}");
    assert!(matches!(stream.act(u64::MAX, second(10.9)).0, Acted::Wait));
    let Acted::Ended(ended) = stream.act(u64::MAX, second(10.91)).0 else { panic!("it is waited for still") };
    let error = ended.unwrap_err().to_string();
    assert!(error.starts_with("no output is left; the last one: fails: "), "{error}");
    let status = stream.status();
    assert_eq!(status.gone_outputs.failed, 2);
    let left = status.ended_outputs.iter().find(|output| output.port == Port(0)).unwrap();
    assert_eq!(left.why, "leaves: sending: Connection timed out (os error 110)");
    assert_eq!((left.bytes, left.dropped.bytes), (taken, 200_000 - taken));
    assert_eq!(object.recv().unwrap().name(), "leaves");
}

/// Nothing tells of what does not happen: whoever runs the stream has to look.
#[test]
fn whoever_runs_a_stream_looks_again_at_who_leaves_and_takes_nothing() {
    let (mut stream, _reader) = left_alone(std::time::Duration::ZERO, drop);
    assert!(matches!(stream.run(), Err(StreamError::NoOutput(_))));
    let (stream, _reader) = left_alone(std::time::Duration::ZERO, drop);
    let engine = engine();
    let running = engine.start_stream(stream, crate::StreamOptions::default());
    let end = running.wait_for(PATIENCE).expect("it does not end");
    assert!(matches!(end.result, Err(StreamError::NoOutput(_))));
}

/// A file that takes only some of what is to be written: its place is behind what it took, not behind what it was to take.
#[test]
fn the_place_in_a_file_is_behind_what_was_written() {
    for framing in [Framing::Fixed(1000), Framing::Whole] {
        let page = rustix::param::page_size();
        let file = memfd_create("file", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 2 * page as u64).unwrap();
        fcntl_add_seals(&file, SealFlags::GROW).unwrap();
        let (source, inlet) = UnixStream::pair().unwrap();
        (&source).write_all(&vec![7; 10 * page]).unwrap();
        drop(source);
        let (given, object) = channel();
        let mut stream = StreamBuilder::default()
            .pattern(OutputPattern::Mirror)
            .input(Object::stream("inlet", inlet.into()).unwrap(), framing)
            .output(Object::file("file", Arc::new(file.into()), 0))
            .build();
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        let storage: Vec<_> = stream.take_storage().collect();
        assert_eq!(storage.len(), 1);
        assert!(stream.detach_output(Port(0), move |object| given.send(object).unwrap()));
        for one in storage {
            stream.stored(one.run()).unwrap();
        }
        let object = object.recv().unwrap();
        let crate::object::Kind::File(file) = &object.kind else { panic!("another object") };
        let status = stream.status();
        let [ended] = &status.ended_outputs[..] else { panic!("{status:?}") };
        assert_eq!((file.offset, ended.bytes), (2 * page as u64, 2 * page as u64));
        assert_eq!(status.bytes_in, ended.bytes + ended.dropped.bytes + status.bytes_pending, "{status:?}");
    }
}

/// Its outputs were told of the end: what comes then is given back as it is, and neither lost nor read.
#[test]
fn an_input_that_comes_when_outputs_were_told_of_the_end_is_given_back() {
    let (near, mut far) = narrow_connection();
    let mut stream = StreamBuilder::default()
        .finish_outputs()
        .input(memory(&[7; 100_000]), Framing::Whole)
        .output(Object::stream("tcp://sink", near.into()).unwrap())
        .build();
    while !matches!(stream.act(u64::MAX, crate::clock::now_us()).0, Acted::Deliver) {
        stream.note_ready(Port(0));
    }
    let TooLate(object) = stream.attach_input(memory(b"late"), Framing::Whole).unwrap_err();
    assert_eq!((object.name(), stream.status().inputs.len()), ("memory", 0));
    assert!(TooLate(Box::new(memory(b""))).to_string().starts_with("memory: the stream has come to its end"));
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).unwrap();
        bytes.len()
    });
    stream.run().unwrap();
    assert_eq!(reading.join().unwrap(), 100_000);
    let (out, collected) = Object::collect("out", LIMIT);
    StreamBuilder::default().input(*object, Framing::Whole).output(out).build().run().unwrap();
    assert_eq!(collected.bytes(), b"late");
}
