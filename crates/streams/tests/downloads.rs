//! Downloads through the engine's public interface, over loopback connections.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use wirepath_streams::{Engine, EngineOptions, Part};

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_nonblocking(true).unwrap();
    (server, client)
}

fn stored(length: usize) -> (Arc<File>, Vec<u8>) {
    let bytes: Vec<u8> = (0..length).map(|at| (at / 251 + at) as u8).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    (Arc::new(file), bytes)
}

#[test]
fn a_download_sends_bytes_and_extents_and_leaves_the_connection_open() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let (file, bytes) = stored(5_000_000);
    // Drop what is cached, so that the readers have something to do.
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let (server, mut client) = connection();
    let parts = vec![
        Part::Bytes(b"head".to_vec()),
        Part::Extent { file: Arc::clone(&file), range: 1..4_999_999 },
        Part::Bytes(b"between".to_vec()),
        Part::Extent { file, range: 7..7 },
        Part::Bytes(Vec::new()),
    ];
    let (tell, ended) = channel();
    let download =
        engine.download(server.try_clone().unwrap().into(), parts, move |end| tell.send(end).unwrap());
    let mut received = vec![0; 4 + 4_999_998 + 7];
    client.read_exact(&mut received).unwrap();
    let expected = [b"head", &bytes[1..4_999_999], b"between"].concat();
    assert!(received == expected, "other bytes arrived");
    let end = ended.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(end.error.is_none(), "{:?}", end.error);
    assert_eq!(end.sent, expected.len() as u64);
    (&server).write_all(b"more").unwrap();
    client.read_exact(&mut received[..4]).unwrap();
    assert_eq!(&received[..4], b"more");
    assert_eq!(engine.counters().downloads, 0);
    drop(download);
}

#[test]
fn a_file_that_ends_too_early_and_a_client_that_leaves_are_told() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let (file, _) = stored(1000);
    let (server, _client) = connection();
    let (tell, ended) = channel();
    let tell_too = tell.clone();
    let part = Part::Extent { file: Arc::clone(&file), range: 0..2000 };
    let _short = engine.download(server.into(), vec![part], move |end| tell.send(end).unwrap());
    let end = ended.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(end.sent, 1000);
    assert!(end.error.unwrap().to_string().contains("truncated"));

    let (server, client) = connection();
    let (file, _) = stored(50_000_000);
    let part = Part::Extent { file, range: 0..50_000_000 };
    let _left = engine.download(server.into(), vec![part], move |end| tell_too.send(end).unwrap());
    drop(client);
    let end = ended.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(end.sent < 50_000_000 && end.error.is_some());
}

#[test]
fn a_client_that_takes_nothing_is_let_go() {
    let readers = BlockingPool::start("reader", 1, Importance::Equal).unwrap();
    let options =
        EngineOptions { threads: 1, download_stall_us: 50_000, ring: false, ..EngineOptions::default() };
    let support = Support::probe(None, Calibrations::default(), false);
    let engine = Engine::start(&options, Arc::new(support), &readers).unwrap();
    let (file, _) = stored(50_000_000);
    let (server, _client) = connection();
    let (tell, ended) = channel();
    let part = Part::Extent { file, range: 0..50_000_000 };
    let _stalled = engine.download(server.into(), vec![part], move |end| tell.send(end).unwrap());
    let end = ended.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(end.error.unwrap().to_string().contains("took nothing"));
}
