//! A process without free descriptors. The only test of its program, because the limit applies to the
//! process.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wirepath_engine::{Engine, EngineOptions};
use wirepath_streams::{Collected, Framing, Object, Stream, StreamBuilder, StreamEvent, StreamOptions};

/// Time limit that only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that has connected and sent something, the stream that is to accept it, and the stream's events.
fn with_client() -> (TcpStream, Stream, Collected, Receiver<StreamEvent>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.write_all(b"here").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let (tell, told) = channel();
    let (output, collected) = Object::collect("out", 100);
    let stream = StreamBuilder::default()
        .on_event(move |event| drop(tell.send(event)))
        .input(Object::listening("listener", listener.into(), None).unwrap(), Framing::lines(100))
        .output(output)
        .build();
    (client, stream, collected, told)
}

/// Promise: Without free descriptors, a connection waits in the queue.
#[test]
fn a_connection_waits_until_descriptors_are_free() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let (_elsewhere, stream, collected, told) = with_client();
    let (_here, mut other, also_collected, also_told) = with_client();
    let all = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum: all.maximum }).unwrap();
    let running = stream.start(&engine, StreamOptions::default());
    let on_this_thread = std::thread::spawn(move || other.run());
    let said = [told, also_told].map(|told| [told.recv_timeout(PATIENCE), told.recv_timeout(PATIENCE)]);
    setrlimit(Resource::Nofile, all).unwrap();
    for [waiting, failed] in said {
        assert!(matches!(waiting, Ok(StreamEvent::Listening { .. })), "{waiting:?}");
        let Ok(StreamEvent::ListeningFailed { error, .. }) = failed else { panic!("{failed:?}") };
        assert!(error.starts_with("listener: accept4: "), "{error}");
    }
    assert_eq!(running.wait_for(PATIENCE).expect("it does not end").result, Ok(()));
    assert_eq!(on_this_thread.join().unwrap(), Ok(()));
    assert_eq!((collected.bytes(), also_collected.bytes()), (b"here".to_vec(), b"here".to_vec()));
}
