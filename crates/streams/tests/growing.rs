//! A file that one stream writes and others follow at the same time.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bytes::Bytes;
use wirepath_engine::{Engine, EngineOptions};
use wirepath_streams::{
    Framing, Object, ObjectPart, RunningStream, Stream, StreamBuilder, StreamEnd, StreamOptions,
    WriteProgress,
};

const PATIENCE: Duration = Duration::from_secs(20);

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 251 + at) as u8).collect()
}

/// A file being written, and its followers.
struct Written {
    file: Arc<File>,
    progress: Arc<WriteProgress>,
}

impl Written {
    fn new() -> Written {
        Written { file: Arc::new(tempfile::tempfile().unwrap()), progress: WriteProgress::new() }
    }

    /// Starts a stream from this socket that writes up to so many bytes to the file.
    fn write(&self, engine: &Engine, source: UnixStream, first: &[u8], length: u64) -> RunningStream {
        let source = Object::stream("source", source.into()).unwrap().up_to(length).preceded_by(first.into());
        let sink = Object::written("file", Arc::clone(&self.file), Arc::clone(&self.progress));
        let stream: Stream = StreamBuilder::default().input(source, Framing::Whole).output(sink).build();
        stream.start(engine, StreamOptions::default())
    }

    /// Starts a stream that follows the file; returns its receiver.
    fn follow(&self, engine: &Engine, range: Range<u64>) -> Follower {
        let (server, client) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let (tell, ended) = channel();
        let following = ObjectPart::Following {
            file: Arc::clone(&self.file),
            range,
            progress: Arc::clone(&self.progress),
        };
        let parts = vec![
            ObjectPart::Bytes(Bytes::from_static(b"head")),
            following,
            ObjectPart::Bytes(Bytes::from_static(b"tail")),
        ];
        let stream = StreamBuilder::default()
            .input(Object::parts("answer", parts), Framing::Whole)
            .output(Object::stream("client", server.into()).unwrap())
            .build();
        let on_end = Some(Box::new(move |end| tell.send(end).unwrap()) as Box<dyn FnOnce(StreamEnd) + Send>);
        let running = stream.start(engine, StreamOptions { on_end, ..StreamOptions::default() });
        Follower { client, ended, _running: running }
    }
}

struct Follower {
    client: UnixStream,
    ended: Receiver<StreamEnd>,
    _running: RunningStream,
}

impl Follower {
    fn expect(&mut self, expected: &[u8]) {
        let mut received = vec![0; expected.len()];
        self.client.read_exact(&mut received).unwrap();
        assert!(received == expected, "other bytes came");
    }

    fn end(&self) -> StreamEnd {
        self.ended.recv_timeout(PATIENCE).unwrap()
    }
}

/// Promise: Downloads follow a file while it is written, from any position, and fail if writing fails.
#[test]
fn readers_follow_from_anywhere_while_the_file_is_written() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let (written, stored) = (Written::new(), bytes(3_000_000));
    let (mut source, inlet) = UnixStream::pair().unwrap();
    let mut whole = written.follow(&engine, 0..3_000_000);
    let mut behind = written.follow(&engine, 2_000_000..2_500_000);
    // Nothing has been written yet, but the head is sent.
    whole.expect(b"head");
    behind.expect(b"head");
    let running = written.write(&engine, inlet, &stored[..10], 3_000_000 - 10);
    source.write_all(&stored[10..1000]).unwrap();
    whole.expect(&stored[..1000]);
    let mut late = written.follow(&engine, 500..2_000_001);
    late.expect(b"head");
    late.expect(&stored[500..1000]);
    source.write_all(&stored[1000..]).unwrap();
    // A stream that has taken all of its bytes may have closed already.
    if let Err(error) = source.write_all(b"what follows is of another message") {
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    }
    for (follower, range) in
        [(&mut whole, 1000..3_000_000), (&mut behind, 2_000_000..2_500_000), (&mut late, 1000..2_000_001)]
    {
        follower.expect(&stored[range]);
        follower.expect(b"tail");
        assert_eq!(follower.end().result, Ok(()));
    }
    let end = running.wait();
    assert_eq!((end.result, end.status.bytes_out), (Ok(()), 3_000_000));
    assert_eq!(written.progress.bytes(), 3_000_000);
    assert_eq!(end.status.zero_copy_bytes, 3_000_000 - 10, "all but what came before the stream");
    let mut kept = Vec::new();
    let mut file = written.file.as_ref();
    std::io::Seek::rewind(&mut file).unwrap();
    file.read_to_end(&mut kept).unwrap();
    assert!(kept == stored);
}

/// Promise: Downloads follow a file while it is written, from any position, and fail if writing fails.
#[test]
fn readers_hear_that_the_rest_will_not_come() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let written = Written::new();
    let (mut source, inlet) = UnixStream::pair().unwrap();
    let mut early = written.follow(&engine, 0..1000);
    let running = written.write(&engine, inlet, b"", 1000);
    source.write_all(&bytes(400)).unwrap();
    early.expect(b"head");
    early.expect(&bytes(400));
    drop(source);
    assert_eq!(running.wait().status.bytes_out, 400);
    written.progress.fail();
    let late = written.follow(&engine, 0..100);
    for (follower, sent) in [(&early, 404), (&late, 4)] {
        let end = follower.end();
        let error = end.result.unwrap_err().to_string();
        assert_eq!(
            (end.status.bytes_out, &error[..]),
            (sent, "answer: the writer ended too early: Operation canceled (os error 125)")
        );
    }
}

#[test]
fn what_is_there_already_is_moved_unseen_all_the_same() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let (written, stored) = (Written::new(), bytes(100_000));
    let (mut source, inlet) = UnixStream::pair().unwrap();
    source.write_all(&stored[10..]).unwrap();
    let end = written.write(&engine, inlet, &stored[..10], 100_000 - 10).wait();
    assert_eq!((end.result, end.status.bytes_out), (Ok(()), 100_000));
    assert_eq!(end.status.zero_copy_bytes, 100_000 - 10, "all but what came before the stream");
}
