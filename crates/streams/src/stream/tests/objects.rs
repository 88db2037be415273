//! Files, connections and pipes, and their failures.

use super::*;
use crate::{Common, HandlerError, Read, Verdict};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::{RecvFlags, recv, sockopt};
use std::thread;

/// Promise: Files, connections, pipes, UDP sockets and memory have one interface, on any thread.
/// Promise: Bytes that no handler reads are not copied, also to several connections.
#[test]
fn files_sockets_and_pipes_are_all_the_same() {
    let bytes: Vec<u8> = (0..3_000_000u32).map(|number| (number * 7 / 3) as u8).collect();
    let mut source = tempfile::NamedTempFile::new().unwrap();
    source.write_all(&bytes).unwrap();
    let target = tempfile::NamedTempFile::new().unwrap();

    // File to socket, socket to pipe, pipe to file; each on its own thread, so that each waits for the
    // others.
    let (near, far) = UnixStream::pair().unwrap();
    let (read, write) = rustix::pipe::pipe().unwrap();
    let file = |file: &tempfile::NamedTempFile, offset| {
        Object::file("file", Arc::new(file.reopen().unwrap()), offset)
    };
    let join = |input: Object, output: Object| {
        StreamBuilder::default().finish_outputs().input(input, Framing::Whole).output(output).build()
    };
    let stream = |name, descriptor: std::os::fd::OwnedFd| Object::stream(name, descriptor).unwrap();
    let streams = [
        join(file(&source, 500), stream("near", near.into())),
        join(stream("far", far.into()), stream("write", write)),
        join(stream("read", read), file(&target, 100)),
    ];
    let threads = streams.map(|mut stream| thread::spawn(move || stream.run().map(|()| stream.status())));
    for thread in threads {
        let status = thread.join().unwrap().unwrap();
        assert_eq!((status.bytes_in, status.bytes_out), (2_999_500, 2_999_500));
        assert_eq!(status.zero_copy_bytes, 2_999_500, "nobody has to look at these");
    }
    let mut written = Vec::new();
    target.reopen().unwrap().read_to_end(&mut written).unwrap();
    assert_eq!(written[..100], [0; 100]);
    assert!(written[100..] == bytes[500..], "what was written is not what was read");
}

/// Promise: Sinks without zero-copy get every byte, also bytes that already moved without a copy.
///
/// Bytes in a pipe must not be lost if their sink supports only copies.
#[test]
fn sinks_that_take_only_what_is_copied_get_every_byte() {
    let bytes: Vec<u8> = (0..300_000u32).map(|number| (number * 7 / 3) as u8).collect();
    let source = |bytes: &[u8]| {
        let (mut near, far) = UnixStream::pair().unwrap();
        let bytes = bytes.to_vec();
        let writing = thread::spawn(move || near.write_all(&bytes).unwrap());
        (Object::stream("source", far.into()).unwrap(), writing)
    };
    // A file in append mode.
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

    // A socket with the same flag, for which `splice` is refused.
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

/// Promise: A datagram or packet socket is refused where a byte stream is expected.
///
/// An empty datagram would look like the end of the stream.
#[test]
fn a_socket_that_is_none_of_streams_is_refused() {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    for (kind, is_taken) in
        [(SocketType::STREAM, true), (SocketType::DGRAM, false), (SocketType::SEQPACKET, false)]
    {
        for flags in [SocketFlags::empty(), SocketFlags::NONBLOCK] {
            let (near, _far) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
            let refusal = Object::stream("socket", near).err().map(|error| error.raw_os_error());
            let expected = Some(rustix::io::Errno::PROTOTYPE.raw_os_error());
            assert_eq!(refusal, (!is_taken).then_some(expected), "{kind:?}");
        }
    }
    let of_internet = UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = Object::stream("socket", of_internet.into()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::PROTOTYPE.raw_os_error()));
}

#[test]
fn an_object_that_fails_says_which_and_why() {
    let (near, far) = UnixStream::pair().unwrap();
    drop(far);
    let mut stream = StreamBuilder::default()
        .input(memory(b"abc"), Framing::Whole)
        .output(Object::stream("tcp://client", near.into()).unwrap())
        .build();
    assert_eq!(stream.run().unwrap_err().to_string(), "tcp://client: sendmsg: Broken pipe (os error 32)");
}

/// Promise: By option, a failed input ends only itself; the error names it.
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

/// Promise: By option, a failed input ends only itself; the error names it.
///
/// An input whose bytes no handler sees may fail like any other.
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
    assert!(stream.parts().can_zero_copy());
    reset(far);
    assert!(matches!(stream.run(), Err(StreamError::NoInput(_))), "where would the end have been?");
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
    stream.stored(failed, wirepath_engine::now_us()).unwrap();
    assert!(
        matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Err(StreamError::NoInput(_)))),
        "there is no other"
    );
    let StreamEvent::InputFailed { error, .. } = told.recv().unwrap() else { panic!("another event") };
    assert!(error.starts_with("file: reading ahead: "), "{error}");
}

/// Promise: Every byte read is accounted for: taken, pending, or dropped with the reason.
#[test]
fn what_an_output_that_fails_did_not_get_is_said_to_the_byte() {
    let input = vec![7u8; 4_000_000];
    let (gone, mut reader) = UnixStream::pair().unwrap();
    let (object, collected) = Object::collect("stays", LIMIT);
    let (tell, told) = channel();
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .on_event(move |event| tell.send(event).unwrap_or_default())
        .input(memory(&input), Framing::Fixed(1000))
        .output(object)
        .output(Object::stream("gone", gone.into()).unwrap())
        .build();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait), "it waits for who reads nothing");
    let status = stream.status();
    let of = status.outputs.iter().find(|output| output.name == "gone").unwrap();
    assert_eq!(status.bytes_in, of.bytes + of.waiting_bytes + status.bytes_pending, "{status:?}");
    reader.read_exact(&mut [0; 5000]).unwrap();
    drop(reader);
    stream.note_ready(of.port);
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Ok(()))));
    assert_eq!(collected.bytes().len(), input.len());
    let StreamEvent::OutputFailed { port, dropped, .. } = told.recv().unwrap() else {
        panic!("another event")
    };
    assert_eq!((port, dropped.bytes), (of.port, of.waiting_bytes));
    assert_eq!(dropped.records, of.waiting_bytes / 1000, "the record that left in part is not counted");
    let status = stream.status();
    let [ended] = &status.ended_outputs[..] else { panic!("{status:?}") };
    assert_eq!((ended.port, ended.bytes, ended.dropped), (of.port, of.bytes, dropped));
    assert_eq!(ended.why_gone.as_deref(), Some("gone: sendmsg: Broken pipe (os error 32)"));
}

struct Fails(fn());

impl Common for Fails {
    fn name(&self) -> &'static str {
        "fails"
    }
}

impl Read for Fails {
    fn read(&mut self, _: crate::Piece<'_>) -> Result<Verdict, HandlerError> {
        (self.0)();
        Err(HandlerError::Failed("on purpose".to_owned()))
    }
}

/// Promise: A handler that fails or panics ends only its own stream, with a clear cause.
#[test]
fn a_handler_that_fails_or_panics_ends_its_stream_with_a_clear_cause() {
    for (act, expected) in [
        ((|| ()) as fn(), "handler fails: on purpose"),
        (|| panic!("in a handler"), "a callback of the stream panicked: in a handler"),
    ] {
        let (object, _) = Object::collect("out", LIMIT);
        let mut stream = StreamBuilder::default()
            .handler(Handler::Read(Box::new(Fails(act))))
            .input(memory(b"abc"), Framing::Whole)
            .output(object)
            .build();
        assert_eq!(stream.run().unwrap_err().to_string(), expected);
        assert_eq!(stream.status().bytes_in, 3);
    }
}

/// Promise: The last bytes of a stream over TCP leave without waiting for an acknowledgement.
///
/// A peer that acknowledges late receives everything before it has acknowledged anything. It may acknowledge
/// before the check, so the test is repeated; with Nagle's algorithm it would never succeed.
#[test]
fn the_end_of_an_answer_leaves_before_its_beginning_is_acknowledged() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let is_seen = || {
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        far.set_read_timeout(Some(PATIENCE)).unwrap();
        sockopt::set_tcp_quickack(&far, false).unwrap();
        for part in ["beginning", ", end"] {
            let output = Object::stream("client", near.try_clone().unwrap().into()).unwrap();
            let stream = StreamBuilder::default().input(memory(part.as_bytes()), Framing::Whole);
            stream.output(output).build().run().unwrap();
        }
        let mut bytes = [0; 14];
        let (read, _) = recv(&far, &mut bytes[..], RecvFlags::PEEK | RecvFlags::WAITALL).unwrap();
        assert_eq!(&bytes[..read], b"beginning, end");
        Object::stream("client", near.into()).unwrap().unacknowledged() as usize == read
    };
    assert!((0..50).any(|_| is_seen()), "the end always came after an acknowledgement");
}
