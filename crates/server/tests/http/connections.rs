//! Life and end of connections: pipelines, pieces, limits, times, clients that leave, draining.

use crate::http_support::{RunningListener, content};
use crate::{Client, WAIT, open};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use wirepath_net::http::{HttpOptions, Timeouts};

#[test]
fn pipelined_requests_are_answered_in_order() {
    let listener = open();
    let bytes = content(100_000);
    listener.file("a.ts", &bytes);
    listener.file("b.txt", b"b");
    let mut client = Client::new(&listener);
    let one = "GET /a.ts HTTP/1.1\r\nHost: h\r\n\r\nHEAD /a.ts HTTP/1.1\r\nHost: h\r\n\r\n\
               POST /b.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nGET /GET /b.txt HTTP/1.1\r\nHost: h\r\n\r\n\
               GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n";
    client.send(one.repeat(20));
    for _ in 0..20 {
        assert!(client.answer(false).body == bytes);
        assert_eq!(client.answer(true).value("Content-Length"), Some("100000"));
        let refused = client.answer(false);
        assert_eq!((refused.status, refused.value("Allow")), (405, Some("GET, HEAD, OPTIONS")));
        assert_eq!(client.answer(false).text(), "b");
        assert_eq!(client.answer(false).status, 404);
    }
}

/// Promise: No engine thread and no connection thread closes a deleted file.
///
/// Closing its last descriptor may take long; no connection waits for another's.
#[test]
fn deleted_files_are_closed_elsewhere() {
    struct Gate(Receiver<()>);
    impl Drop for Gate {
        fn drop(&mut self) {
            assert!(self.0.recv().is_err(), "it is only ever dropped");
        }
    }
    let listener = open();
    // The engine sends the long body, a thread that serves connections the short one.
    for (length, mut client) in [(40_000_000, Client::new(&listener)), (2_000_000, Client::slow(&listener))] {
        let bytes = content(length);
        listener.file("a.ts", &bytes);
        let path = listener.path().join("a.ts");
        let (close, gate) = channel();
        client.send("GET /a.ts HTTP/1.1\r\nHost: h\r\n\r\n");
        while !is_open(&path) {
            std::thread::yield_now();
        }
        // More is missing than the connection holds, so it is still open.
        std::fs::remove_file(&path).unwrap();
        listener.readers.discard(Gate(gate));
        assert!(client.answer(false).body == bytes);
        assert_eq!(client.ask("GET", "/metrics", "").status, 200, "that one is behind us");
        let deleted = path.with_file_name("a.ts (deleted)");
        assert!(is_open(&deleted), "a thread that serves connections closed it");
        drop(close);
        while is_open(&deleted) {
            std::thread::yield_now();
        }
    }
}

/// Returns whether this process, in which the server runs too, has a file open.
fn is_open(path: &Path) -> bool {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    descriptors.flatten().any(|entry| std::fs::read_link(entry.path()).is_ok_and(|link| link == path))
}

#[test]
fn a_request_split_at_each_byte() {
    let listener = open();
    listener.file("a b.txt", b"found");
    let request = b"GET /a%20b.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=1-2\r\n\r\n";
    let mut client = Client::new(&listener);
    for split in 1..request.len() {
        client.send(&request[..split]);
        client.send(&request[split..]);
        let answer = client.answer(false);
        assert_eq!((answer.status, answer.text()), (206, "ou"), "split at {split}");
    }
    for byte in request {
        client.send([*byte]);
    }
    assert_eq!(client.answer(false).text(), "ou");
}

#[test]
fn old_clients() {
    let listener = open();
    listener.file("a.txt", b"a");
    let mut client = Client::new(&listener);
    client.send("GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let kept = client.answer(false);
    assert_eq!((kept.text(), kept.value("Connection")), ("a", Some("keep-alive")));
    client.send("GET /a.txt HTTP/1.0\r\n\r\n");
    let answer = String::from_utf8(client.rest()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\na"), "{answer}");
}

#[test]
fn what_is_not_http_is_refused_and_closed() {
    let listener = open();
    for (bytes, status) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00"[..], "400"),
        (b"GET /../etc/passwd HTTP/1.1\r\nHost: h\r\n\r\n", "400"),
        (b"GET /%2e%2e/etc/passwd HTTP/1.1\r\nHost: h\r\n\r\n", "400"),
        (b"GET / HTTP/1.1\r\n\r\n", "400"),
        (b"GET / HTTP/3.0\r\n\r\n", "505"),
        (&[b'A'; 100_000], "414"),
        (&[&b"GET / HTTP/1.1\r\nHost: h\r\nX: "[..], &[b'y'; 100_000]].concat(), "431"),
        (b"PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "405"),
        (b"PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nhello", "405"),
    ] {
        let mut client = Client::new(&listener);
        client.send(bytes);
        let answer = String::from_utf8(client.rest()).unwrap();
        assert_eq!(answer.get(9..12), Some(status), "{answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
        assert_eq!(answer.matches("\r\nDate: ").count(), 1, "{answer}");
    }
}

#[test]
fn limits_of_connections() {
    let listener =
        RunningListener::new(HttpOptions { max_connections_per_address: 2, ..HttpOptions::default() });
    listener.file("a.txt", b"a");
    let mut first = Client::new(&listener);
    let mut second = Client::new(&listener);
    assert_eq!(first.ask("GET", "/a.txt", "").status, 200);
    assert_eq!(second.ask("GET", "/a.txt", "").status, 200);
    let mut third = Client::new(&listener);
    let refused = third.answer(false);
    assert_eq!((refused.status, refused.value("Retry-After")), (503, Some("5")));
    second.send("GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    second.answer(false);
    assert_eq!(second.rest(), b"");
    drop(second);
    // Its place becomes free as soon as the server has seen the end of the connection.
    let until = Instant::now() + WAIT;
    let is_admitted = || {
        let mut client = Client::new(&listener);
        client.send("GET /a.txt HTTP/1.0\r\n\r\n");
        client.rest().starts_with(b"HTTP/1.1 200 ")
    };
    while !is_admitted() {
        assert!(Instant::now() < until, "the place does not become free");
    }
    let metrics = first.ask("GET", "/metrics", "");
    assert!(!metrics.text().contains("connections_refused_total 0"), "{}", metrics.text());
}

#[test]
fn silent_and_slow_clients_are_disconnected() {
    let short = Duration::from_millis(100);
    let listener = RunningListener::new(HttpOptions {
        timeouts: Timeouts { idle: short, head: short, ..Timeouts::default() },
        ..HttpOptions::default()
    });
    let mut silent = Client::new(&listener);
    assert_eq!(silent.rest(), b"");
    let mut slow = Client::new(&listener);
    slow.send("GET / HTTP/1.1\r\nHo");
    let answer = String::from_utf8(slow.rest()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    // Empty lines do not keep a connection open.
    let mut empty = Client::new(&listener);
    let started = Instant::now();
    while empty.stream.write_all(b"\r\n").is_ok() {
        assert!(started.elapsed() < WAIT, "empty lines keep the connection open");
        std::thread::yield_now();
    }
}

#[test]
fn a_client_that_leaves_or_takes_nothing_costs_only_itself() {
    let listener = open();
    let bytes = content(50_000_000);
    listener.file("large.ts", &bytes);
    let mut leaving = Client::new(&listener);
    leaving.send("GET /large.ts HTTP/1.1\r\nHost: h\r\n\r\n");
    leaving.stream.read_exact(&mut [0; 1000]).unwrap();
    drop(leaving);
    let mut stuck = Client::new(&listener);
    stuck.send("GET /large.ts HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut client = Client::new(&listener);
    assert!(client.ask("GET", "/large.ts", "").body == bytes);
    // Both bodies that cannot be finished are noticed and counted.
    let until = Instant::now() + WAIT;
    loop {
        let metrics = client.ask("GET", "/metrics", "");
        if metrics.text().lines().any(|line| line == "wirepath_http_bodies_cut_total 2") {
            break;
        }
        assert!(Instant::now() < until, "{}", metrics.text());
    }
}

#[test]
fn a_file_that_shrinks_ends_the_connection() {
    let listener = open();
    let bytes = content(50_000_000);
    listener.file("large.ts", &bytes);
    let mut client = Client::new(&listener);
    client.send("GET /large.ts HTTP/1.1\r\nHost: h\r\n\r\n");
    client.stream.read_exact(&mut [0; 1000]).unwrap();
    let file = std::fs::File::options().write(true).open(listener.path().join("large.ts")).unwrap();
    file.set_len(10_000_000).unwrap();
    assert!(client.rest().len() < 50_000_000);
}

/// Promise: If a file is truncated while it is sent, its connection is closed at once.
///
/// The last bytes before the new end leave room in the connection, so no event says that it takes more.
#[test]
fn a_short_file_that_shrinks_ends_the_connection_at_once() {
    let timeouts = Timeouts { write: 6 * WAIT, ..Timeouts::default() };
    let listener = RunningListener::with_timeouts(HttpOptions { timeouts, ..HttpOptions::default() });
    listener.file("short.ts", &content(2_000_000));
    let file = std::fs::File::options().write(true).open(listener.path().join("short.ts")).unwrap();
    let mut client = Client::slow(&listener);
    client.send("GET /short.ts HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.answer(true).status, 200);
    file.set_len(1_000_001).unwrap();
    assert!(client.rest().len() <= 1_000_001);
}

#[test]
fn draining_lets_answers_end() {
    let listener = open();
    let bytes = content(20_000_000);
    listener.file("large.ts", &bytes);
    let mut idle = Client::new(&listener);
    assert_eq!(idle.ask("HEAD", "/large.ts", "").status, 200);
    let mut busy = Client::new(&listener);
    busy.send("GET /large.ts HTTP/1.1\r\nHost: h\r\n\r\n".repeat(2));
    busy.stream.read_exact(&mut [0; 100]).unwrap();
    let mut beginning = Client::new(&listener);
    // Until its first answer has come, the listener may not have taken the connection.
    assert_eq!(beginning.ask("HEAD", "/large.ts", "").status, 200);
    beginning.send("GET /large.ts HTTP/1.1\r\n");
    listener.drain();
    assert_eq!(idle.rest(), b"");
    let rest = busy.rest();
    assert!(rest.ends_with(&bytes[19_000_000..]), "{} bytes", rest.len());
    drop((idle, busy, beginning));
    let address = listener.address;
    listener.wait();
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_client_that_stops_sending_gets_its_answer() {
    let listener = open();
    listener.file("a.txt", b"a");
    let mut client = Client::new(&listener);
    client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.answer(false).text(), "a");
    assert_eq!(client.rest(), b"");
}
