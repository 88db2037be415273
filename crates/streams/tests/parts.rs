//! Responses to clients: file extents and bytes in memory, sent to a connection.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wirepath_engine::{Engine, EngineOptions};
use wirepath_streams::{Framing, Object, ObjectPart, StreamBuilder, StreamEnd, StreamOptions};

/// Time limit that only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Both ends of a TCP connection.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    (listener.accept().unwrap().0, client)
}

fn stored(length: usize) -> (Arc<File>, Vec<u8>) {
    let bytes: Vec<u8> = (0..length).map(|at| (at / 251 + at) as u8).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    (Arc::new(file), bytes)
}

/// Sends `parts` to `server` while a function runs; returns the end of the stream.
fn send(
    server: &TcpStream,
    parts: Vec<ObjectPart>,
    output_timeout: Duration,
    meanwhile: impl FnOnce(&Engine),
) -> StreamEnd {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let stream = StreamBuilder::default()
        .input(Object::parts("answer", parts), Framing::Whole)
        .output(Object::stream("client", server.try_clone().unwrap().into()).unwrap())
        .output_timeout(output_timeout)
        .build();
    let running = stream.start(&engine, StreamOptions::default());
    meanwhile(&engine);
    running.wait_for(PATIENCE).expect("it does not end")
}

#[test]
fn bytes_and_extents_are_sent_without_copies_and_the_connection_stays_open() {
    let (file, bytes) = stored(5_000_000);
    // Evicts the file, so that the pool must read ahead.
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let (server, mut client) = connection();
    let parts = vec![
        ObjectPart::Bytes(Bytes::from_static(b"head")),
        ObjectPart::Extent { file: Arc::clone(&file), range: 1..4_999_999 },
        ObjectPart::Bytes(Bytes::from_static(b"between")),
        ObjectPart::Extent { file, range: 7..7 },
        ObjectPart::Bytes(Bytes::new()),
    ];
    let expected = [b"head", &bytes[1..4_999_999], b"between"].concat();
    let end = send(&server, parts, PATIENCE, |_| {
        let mut received = vec![0; expected.len()];
        client.read_exact(&mut received).unwrap();
        assert!(received == expected, "other bytes arrived");
    });
    assert_eq!(end.result, Ok(()));
    assert_eq!(
        (end.status.bytes_out, end.status.zero_copy_bytes),
        (expected.len() as u64, expected.len() as u64)
    );
    (&server).write_all(b"more").unwrap();
    let mut more = [0; 4];
    client.read_exact(&mut more).unwrap();
    assert_eq!(&more, b"more");
}

#[test]
fn parts_are_copied_where_a_datagram_socket_takes_them() {
    let (file, bytes) = stored(5000);
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    let parts =
        vec![ObjectPart::Bytes(Bytes::from_static(b"head")), ObjectPart::Extent { file, range: 1000..4000 }];
    let mut stream = StreamBuilder::default()
        .input(Object::parts("answer", parts), Framing::Whole)
        .output(Object::datagrams("udp", sender.into(), None, Some(1000)).unwrap())
        .build();
    stream.run().unwrap();
    let mut received = Vec::new();
    while received.len() < 3004 {
        let mut datagram = [0; 2000];
        let length = receiver.recv(&mut datagram).unwrap();
        received.extend_from_slice(&datagram[..length]);
    }
    assert_eq!(received, [b"head", &bytes[1000..4000]].concat());
}

#[test]
fn a_file_that_ends_too_early_is_an_error() {
    let (file, _) = stored(1000);
    let (server, _client) = connection();
    let end = send(&server, vec![ObjectPart::Extent { file, range: 0..2000 }], PATIENCE, |_| ());
    assert_eq!(end.status.bytes_out, 1000);
    let error = end.result.unwrap_err().to_string();
    assert_eq!(error, "answer: reading a truncated file: No data available (os error 61)");
}

#[test]
fn a_client_that_leaves_ends_the_stream() {
    let (file, _) = stored(50_000_000);
    let (server, client) = connection();
    let end =
        send(&server, vec![ObjectPart::Extent { file, range: 0..50_000_000 }], PATIENCE, |_| drop(client));
    assert!(end.status.bytes_out < 50_000_000 && end.result.is_err(), "{end:?}");
}

#[test]
fn a_client_that_takes_nothing_ends_the_stream_after_the_output_timeout() {
    let (file, _) = stored(50_000_000);
    let (server, _client) = connection();
    let timeout = Duration::from_millis(50);
    let end = send(&server, vec![ObjectPart::Extent { file, range: 0..50_000_000 }], timeout, |_| ());
    let error = end.result.unwrap_err().to_string();
    assert_eq!(error, "client: no data accepted for too long: Connection timed out (os error 110)");
}
