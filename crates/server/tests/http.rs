//! The HTTP door over loopback, by raw requests.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod http_support;

use http_support::{OpenDoor, content};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};
use wirepath_server::http::HttpOptions;

const WAIT: Duration = Duration::from_secs(10);

/// An answer as it came.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn value(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (other, value) = line.split_once(": ")?;
            other.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// A client's end of a connection.
struct Client {
    stream: TcpStream,
}

impl Client {
    fn new(door: &OpenDoor) -> Self {
        let stream = TcpStream::connect(door.address).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// The next answer; its body is as long as announced unless `head_only`.
    fn answer(&mut self, head_only: bool) -> Answer {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            self.stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let status = head.get(9..12).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: Vec::new() };
        let length = answer.value("Content-Length").filter(|_| !head_only).map_or(0, |l| l.parse().unwrap());
        answer.body.resize(length, 0);
        self.stream.read_exact(&mut answer.body).unwrap();
        answer
    }

    fn ask(&mut self, method: &str, path: &str, fields: &str) -> Answer {
        self.send(format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
        self.answer(method == "HEAD")
    }

    /// Waits for the server to close; answers what came before that.
    fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the server does not close: {error}"),
        }
        rest
    }
}

fn get(door: &OpenDoor, path: &str, fields: &str) -> Answer {
    Client::new(door).ask("GET", path, fields)
}

fn open() -> OpenDoor {
    OpenDoor::new(HttpOptions { rtsp_port: Some(8554), ..HttpOptions::default() })
}

#[test]
fn files_whole_and_in_part_on_one_connection() {
    let door = open();
    let bytes = content(3_000_000);
    door.file("clip.ts", &bytes);
    let mut client = Client::new(&door);
    let whole = client.ask("GET", "/clip.ts", "");
    assert_eq!((whole.status, whole.value("Content-Type")), (200, Some("video/mp2t")));
    assert!(whole.body == bytes, "other bytes arrived");
    let tag = whole.value("ETag").unwrap().to_owned();
    assert!(tag.starts_with('"'), "{tag}");

    let head = client.ask("HEAD", "/clip.ts", "");
    assert_eq!((head.status, head.value("Content-Length")), (200, Some("3000000")));
    let part = client.ask("GET", "/clip.ts", &format!("Range: bytes=2999990-\r\nIf-Range: {tag}\r\n"));
    assert_eq!((part.status, &part.body[..]), (206, &bytes[2_999_990..]));
    let suffix = client.ask("GET", "/clip.ts", "Range: bytes=-7\r\n");
    assert_eq!((suffix.status, &suffix.body[..]), (206, &bytes[2_999_993..]));
    let outside = client.ask("GET", "/clip.ts", "Range: bytes=3000000-\r\n");
    assert_eq!((outside.status, outside.value("Content-Range")), (416, Some("bytes */3000000")));
    let same = client.ask("GET", "/clip.ts", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((same.status, same.value("ETag")), (304, Some(tag.as_str())));

    let several = client.ask("GET", "/clip.ts", "Range: bytes=0-4,1000000-1000004\r\n");
    assert_eq!(several.status, 206);
    let contains = |part: &[u8]| several.body.windows(part.len()).any(|window| window == part);
    assert!(contains(&bytes[..5]) && contains(&bytes[1_000_000..1_000_005]));
    assert!(contains(b"Content-Range: bytes 1000000-1000004/3000000\r\n"));

    let closing = client.ask("GET", "/clip.ts", "Range: bytes=0-0\r\nConnection: close\r\n");
    assert_eq!((closing.status, closing.value("Connection")), (206, Some("close")));
    assert_eq!(client.rest(), b"");
}

#[test]
fn an_empty_file() {
    let door = open();
    door.file("empty.ts", b"");
    let mut client = Client::new(&door);
    let empty = client.ask("GET", "/empty.ts", "");
    assert_eq!((empty.status, empty.value("Content-Length")), (200, Some("0")));
    assert_eq!(client.ask("GET", "/empty.ts", "Range: bytes=0-\r\n").status, 416);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let door = open();
    let bytes = content(100_000);
    door.file("a.ts", &bytes);
    door.file("b.txt", b"b");
    let mut client = Client::new(&door);
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

#[test]
fn a_request_split_at_each_byte() {
    let door = open();
    door.file("a b.txt", b"found");
    let request = b"GET /a%20b.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=1-2\r\n\r\n";
    let mut client = Client::new(&door);
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
    let door = open();
    door.file("a.txt", b"a");
    let mut client = Client::new(&door);
    client.send("GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let kept = client.answer(false);
    assert_eq!((kept.text(), kept.value("Connection")), ("a", Some("keep-alive")));
    client.send("GET /a.txt HTTP/1.0\r\n\r\n");
    let answer = String::from_utf8(client.rest()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\na"), "{answer}");
}

#[test]
fn what_is_not_http_is_refused_and_closed() {
    let door = open();
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
        let mut client = Client::new(&door);
        client.send(bytes);
        let answer = String::from_utf8(client.rest()).unwrap();
        assert_eq!(answer.get(9..12), Some(status), "{answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
        assert_eq!(answer.matches("\r\nDate: ").count(), 1, "{answer}");
    }
}

#[test]
fn out_of_reach() {
    let door = open();
    door.file("a.txt", b"a");
    symlink("/etc/passwd", door.path().join("link.txt")).unwrap();
    symlink("..", door.path().join("up")).unwrap();
    let above = door.path().parent().unwrap();
    let below = door.path().strip_prefix(above).unwrap().to_str().unwrap();
    for path in ["/link.txt", "/up/", "/a.txt/", "/.hidden", &format!("/up/{below}/a.txt")] {
        assert_eq!(get(&door, path, "").status, 404, "{path}");
    }
}

#[test]
fn folders_are_listed_as_the_client_likes() {
    let door = open();
    door.file("sub folder/clip.ts", b"clip");
    let page = get(&door, "/", "Accept: text/html,*/*;q=0.8\r\n");
    assert_eq!((page.status, page.value("Content-Type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.text().contains("href=\"sub%20folder/\""), "{}", page.text());
    let moved = get(&door, "/sub%20folder", "");
    assert_eq!((moved.status, moved.value("Location")), (301, Some("sub%20folder/")));
    let page = get(&door, "/sub%20folder/", "Host2: x\r\n");
    assert!(page.text().contains("href=\"rtsp://h:8554/sub%20folder/clip.ts\""), "{}", page.text());
    let list = get(&door, "/sub%20folder/", "Accept: application/json\r\n");
    assert_eq!((list.value("Content-Type"), list.value("Vary")), (Some("application/json"), Some("Accept")));
    let list: serde_json::Value = serde_json::from_slice(&list.body).unwrap();
    assert_eq!(
        (&list["entries"][0]["name"], &list["entries"][0]["size_bytes"]),
        (&"clip.ts".into(), &4.into())
    );
    let head = Client::new(&door).ask("HEAD", "/", "");
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[test]
fn our_own_names_win() {
    let door = open();
    door.file("metrics", b"an asset");
    door.file("api/status", b"an asset");
    door.file("a.txt", b"12345");
    let mut client = Client::new(&door);
    client.ask("GET", "/a.txt", "");
    client.ask("GET", "/nothing", "");
    let metrics = client.ask("GET", "/metrics", "");
    for line in [
        "wirepath_http_connections_accepted_total 1",
        "wirepath_http_connections 1.0",
        "wirepath_http_requests_total 3",
        "wirepath_http_responses_total{class=\"2xx\"} 1",
        "wirepath_http_responses_total{class=\"4xx\"} 1",
        "# UNIT wirepath_http_body_bytes bytes",
        "# EOF",
    ] {
        assert!(metrics.text().lines().any(|other| other == line), "{line} in {}", metrics.text());
    }
    let status: serde_json::Value =
        serde_json::from_slice(&client.ask("GET", "/api/status", "").body).unwrap();
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["http"]["connections"], 1);
    assert_eq!(status["http"]["limits"]["connections"], 4096);
    assert_eq!(status["counters"]["http"]["requests"], 4);
    assert_eq!(client.ask("HEAD", "/metrics", "").status, 200);
}

#[test]
fn methods() {
    let door = open();
    door.file("a.txt", b"a");
    let mut client = Client::new(&door);
    for (method, path, status) in [
        ("OPTIONS", "*", 204),
        ("OPTIONS", "/a.txt", 204),
        ("DELETE", "/a.txt", 405),
        ("POST", "/metrics", 405),
        ("BREW", "/a.txt", 501),
        ("CONNECT", "h:443", 405),
        ("GET", "http://h/a.txt", 200),
    ] {
        let answer = client.ask(method, path, "");
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(answer.value("Allow").is_some(), status != 200);
    }
}

#[test]
fn limits_of_connections() {
    let door = OpenDoor::new(HttpOptions { max_connections_per_address: 2, ..HttpOptions::default() });
    door.file("a.txt", b"a");
    let mut first = Client::new(&door);
    let mut second = Client::new(&door);
    assert_eq!(first.ask("GET", "/a.txt", "").status, 200);
    assert_eq!(second.ask("GET", "/a.txt", "").status, 200);
    let mut third = Client::new(&door);
    let refused = third.answer(false);
    assert_eq!((refused.status, refused.value("Retry-After")), (503, Some("5")));
    second.send("GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    second.answer(false);
    assert_eq!(second.rest(), b"");
    drop(second);
    // Its place becomes free as soon as the server has seen the end of the connection.
    let until = Instant::now() + WAIT;
    let is_admitted = || {
        let mut client = Client::new(&door);
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
fn silent_and_slow_clients_are_let_go() {
    let short = Duration::from_millis(100);
    let door =
        OpenDoor::new(HttpOptions { idle_timeout: short, head_timeout: short, ..HttpOptions::default() });
    let mut silent = Client::new(&door);
    assert_eq!(silent.rest(), b"");
    let mut slow = Client::new(&door);
    slow.send("GET / HTTP/1.1\r\nHo");
    let answer = String::from_utf8(slow.rest()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    // Empty lines do not keep a connection open.
    let mut empty = Client::new(&door);
    let started = Instant::now();
    while empty.stream.write_all(b"\r\n").is_ok() {
        assert!(started.elapsed() < WAIT, "empty lines keep the connection open");
        std::thread::yield_now();
    }
}

#[test]
fn a_client_that_leaves_or_takes_nothing_costs_only_itself() {
    let door = open();
    let bytes = content(50_000_000);
    door.file("large.ts", &bytes);
    let mut leaving = Client::new(&door);
    leaving.send("GET /large.ts HTTP/1.1\r\nHost: h\r\n\r\n");
    leaving.stream.read_exact(&mut [0; 1000]).unwrap();
    drop(leaving);
    let mut stuck = Client::new(&door);
    stuck.send("GET /large.ts HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut client = Client::new(&door);
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
    let door = open();
    let bytes = content(50_000_000);
    door.file("large.ts", &bytes);
    let mut client = Client::new(&door);
    client.send("GET /large.ts HTTP/1.1\r\nHost: h\r\n\r\n");
    client.stream.read_exact(&mut [0; 1000]).unwrap();
    let file = std::fs::File::options().write(true).open(door.path().join("large.ts")).unwrap();
    file.set_len(10_000_000).unwrap();
    assert!(client.rest().len() < 50_000_000);
}

#[test]
fn draining_lets_answers_end() {
    let door = open();
    let bytes = content(20_000_000);
    door.file("large.ts", &bytes);
    let mut idle = Client::new(&door);
    assert_eq!(idle.ask("HEAD", "/large.ts", "").status, 200);
    let mut busy = Client::new(&door);
    busy.send("GET /large.ts HTTP/1.1\r\nHost: h\r\n\r\n".repeat(2));
    busy.stream.read_exact(&mut [0; 100]).unwrap();
    let mut beginning = Client::new(&door);
    // Until its first answer has come, the door may not have taken the connection.
    assert_eq!(beginning.ask("HEAD", "/large.ts", "").status, 200);
    beginning.send("GET /large.ts HTTP/1.1\r\n");
    door.drain();
    assert_eq!(idle.rest(), b"");
    let rest = busy.rest();
    assert!(rest.ends_with(&bytes[19_000_000..]), "{} bytes", rest.len());
    drop((idle, busy, beginning));
    let address = door.address;
    door.wait();
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_client_that_stops_sending_gets_its_answer() {
    let door = open();
    door.file("a.txt", b"a");
    let mut client = Client::new(&door);
    client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.answer(false).text(), "a");
    assert_eq!(client.rest(), b"");
}
