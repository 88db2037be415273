//! Files of a stream are closed on a thread of the pool.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use wirepath_engine::{Engine, EngineOptions};
use wirepath_streams::{Framing, Object, ObjectPart, StreamBuilder, StreamError, StreamOptions};

/// Size of a file that exceeds any socket buffer.
const LARGE: u64 = 1 << 30;

/// Blocks the thread that drops it until the sender is dropped.
struct Hold(Receiver<()>);

impl Drop for Hold {
    fn drop(&mut self) {
        assert!(self.0.recv().is_err(), "nothing is ever sent");
    }
}

/// Promise: No engine thread closes or drops the files and handlers of a stream.
#[test]
fn files_are_closed_by_the_pool_when_they_are_sent_and_when_they_are_not() {
    let engine = Engine::start(EngineOptions { threads: 1, ..EngineOptions::default() }).unwrap();
    for (length, result) in [(1000, Ok(())), (LARGE, Err(StreamError::Stopped))] {
        let stored = tempfile::NamedTempFile::new().unwrap();
        stored.as_file().set_len(length).unwrap();
        let file = File::open(stored.path()).unwrap();
        file.lock_shared().unwrap(); // until it is closed
        let is_open = || stored.as_file().try_lock().is_err();
        let (release, held) = channel();
        engine.pool().discard(Hold(held));

        let (socket, _peer) = UnixStream::pair().unwrap();
        let part = ObjectPart::Extent { file: Arc::new(file), range: 0..length };
        let stream = StreamBuilder::default()
            .input(Object::parts("file", vec![part]), Framing::Whole)
            .output(Object::stream("socket", socket.into()).unwrap())
            .build();
        let running = stream.start(&engine, StreamOptions::default());
        if result.is_err() {
            while running.status().bytes_out == 0 {
                std::thread::yield_now();
            }
            running.stop();
        }
        assert_eq!(running.wait().result, result);
        // The engine thread has finished that stream when it ends another.
        StreamBuilder::default().build().start(&engine, StreamOptions::default()).wait();
        assert!(is_open(), "the engine thread closed the file");
        drop(release);
        while is_open() {
            std::thread::yield_now();
        }
    }
}
