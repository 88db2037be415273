//! Tests with heads whole, in pieces, several at once, and malformed.

use super::*;
use crate::error::HEADER_LIMIT;
use crate::{AssetPath, RangeSet, Target};
use http::{Method, Version};
use proptest::prelude::*;

/// All requests in `bytes`, fed in pieces of `piece` bytes, up to the first error.
fn read(bytes: &[u8], piece: usize) -> (Vec<Request>, Option<HeadError>) {
    let mut reader = HeadReader::default();
    let mut requests = Vec::new();
    for piece in bytes.chunks(piece) {
        let mut fed = 0;
        while fed < piece.len() {
            fed += reader.feed(&piece[fed..]);
            loop {
                match reader.next() {
                    Ok(Some(request)) => requests.push(request),
                    Ok(None) => break,
                    Err(error) => return (requests, Some(error)),
                }
            }
        }
    }
    (requests, None)
}

fn one(head: &str) -> Request {
    let (requests, error) = read(head.as_bytes(), usize::MAX);
    assert_eq!((requests.len(), error), (1, None), "{head}");
    requests[0].clone()
}

fn refused(head: &str) -> (HeadError, u16) {
    let (requests, error) = read(head.as_bytes(), usize::MAX);
    assert_eq!(requests.len(), 0, "{head}");
    let error = error.expect("an error");
    (error, error.status().as_u16())
}

#[test]
fn reads_a_request() {
    let request = one("GET /a%20b/clip.ts?x HTTP/1.1\r\nhOsT: host:8080 \r\nRange: bytes=1-2\r\n\r\n");
    assert_eq!(request.method, Method::GET);
    assert_eq!(request.target, Target::Path(AssetPath::decode("/a b/clip.ts").unwrap()));
    assert_eq!((request.version, request.keep_alive), (Version::HTTP_11, true));
    assert_eq!(request.host, "host:8080");
    assert_eq!(request.range, RangeSet::parse("bytes=1-2"));
}

#[test]
fn forms_of_the_target() {
    let other = |name: &str| name.parse::<Method>().unwrap();
    let root = || Target::Path(AssetPath::decode("/").unwrap());
    for (line, method, target, host) in [
        (
            "GET http://other:1/a HTTP/1.1",
            Method::GET,
            Target::Path(AssetPath::decode("/a").unwrap()),
            "other:1",
        ),
        ("GET HTTP://other?q HTTP/1.1", Method::GET, root(), "other"),
        ("OPTIONS * HTTP/1.1", Method::OPTIONS, Target::Asterisk, "h"),
        ("CONNECT host:443 HTTP/1.1", Method::CONNECT, Target::Authority, "h"),
        ("BREW / HTTP/1.1", other("BREW"), root(), "h"),
        ("get / HTTP/1.1", other("get"), root(), "h"),
    ] {
        let request = one(&format!("{line}\r\nHost: h\r\n\r\n"));
        assert_eq!((request.method, request.target, request.host.as_str()), (method, target, host), "{line}");
    }
}

#[test]
fn keep_alive() {
    for (head, expected) in [
        ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", true),
        ("GET / HTTP/1.1\r\nHost: h\r\nConnection: x, CLOSE\r\n\r\n", false),
        ("GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", false),
        ("GET / HTTP/1.0\r\n\r\n", false),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true),
        ("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false),
        ("GET / HTTP/1.1\nHost: h\n\n", true),
        ("\r\n\n\r\nGET / HTTP/1.1\r\nHost:\r\n\r\n", true),
        // bodies
        ("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", true),
        ("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 65536\r\n\r\n", true),
        ("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 65537\r\n\r\n", false),
        ("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", false),
        ("PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", false),
    ] {
        assert_eq!(one(head).keep_alive, expected, "{head}");
    }
}

#[test]
fn refuses() {
    for (head, status) in [
        ("\x16\x03\x01\x02\x00", 400), // TLS
        (" / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400), // no Host
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: \"><script>\r\n\r\n", 400),
        ("GET http://\"/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\0\r\n\r\n", 400),
        ("GET /\r\n\r\n", 400), // HTTP/0.9
        ("GET / x HTTP/1.1\r\n\r\n", 505),
        ("GET clip.ts HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET /%2e%2e/x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ] {
        let (error, code) = refused(head);
        assert_eq!(code, status, "{head:?}: {error}");
    }
}

#[test]
fn limits() {
    let line = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(HEAD_LIMIT));
    assert_eq!(refused(&line), (HeadError::LineTooLong(HEAD_LIMIT), 414));
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(HEAD_LIMIT));
    assert_eq!(refused(&long), (HeadError::TooLong(HEAD_LIMIT), 431));
    let many = |count| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(count));
    assert_eq!(refused(&many(HEADER_LIMIT)), (HeadError::TooManyFields, 431));
    one(&many(HEADER_LIMIT - 1));
    let start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
    one(&format!("{start}{}\r\n\r\n", "a".repeat(HEAD_LIMIT - start.len() - 4)));
    assert_eq!(refused(&format!("{start}{}\r\n\r\n", "a".repeat(HEAD_LIMIT - start.len() - 3))).1, 431);
}

#[test]
fn pipelined_and_split_anywhere() {
    let stream =
        b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n\r\nPUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 27\r\n\r\n\
                   GET /not HTTP/1.1\r\nHost:\r\n\r\nHEAD /c HTTP/1.0\n\nGET /d HTTP/1.1\r\nHost: h\r\n\r\n";
    let (whole, error) = read(stream, usize::MAX);
    assert_eq!(error, None);
    let paths: Vec<_> = whole
        .iter()
        .map(|request| match &request.target {
            Target::Path(path) => path.encoded(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(paths, ["a", "b", "c", "d"]);
    for piece in 1..stream.len() {
        assert_eq!(read(stream, piece), (whole.clone(), None), "in pieces of {piece}");
    }
}

#[test]
fn tells_idle_from_inside() {
    let mut reader = HeadReader::default();
    for (bytes, inside) in [
        (&b"\r\n"[..], false),
        (b"G", true),
        (b"ET / HTTP/1.1\r\nHost:\r\nContent-Length: 2\r\n\r\n", true),
        (b"x", true),
        (b"x", false),
    ] {
        assert_eq!(reader.feed(bytes), bytes.len());
        while reader.next().unwrap().is_some() {}
        assert_eq!(reader.is_inside(), inside, "{bytes:?}");
    }
}

#[test]
fn a_full_buffer_of_requests_is_read_a_piece_at_a_time() {
    let stream = b"GET / HTTP/1.0\n\n".repeat(10_000);
    assert_eq!(read(&stream, usize::MAX).0.len(), 10_000);
    let mut reader = HeadReader::default();
    assert_eq!((reader.room(), reader.feed(&stream)), (HEAD_LIMIT, HEAD_LIMIT));
    assert_eq!((reader.room(), reader.feed(&stream)), (0, 0));
    reader.next().unwrap().unwrap();
    assert_eq!((reader.room(), reader.feed(&stream)), (16, 16));
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces(
        bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1usize..40,
    ) {
        prop_assert_eq!(read(&bytes, piece), read(&bytes, usize::MAX));
    }

    #[test]
    fn near_requests_in_any_pieces(
        stream in concat!(
            "((GET|PUT|HEAD|X) (/|[*]|/%2e|/a)( HTTP/1[.][01])?\r?\n",
            "((Host|Range|Expect|Content-Length): ?[0-9a=-]{0,3}\r?\n){0,4}\r?\n){1,5}",
        ),
        piece in 1usize..40,
    ) {
        prop_assert_eq!(read(stream.as_bytes(), piece), read(stream.as_bytes(), usize::MAX));
    }
}

#[test]
fn bodies_between_heads_are_taken_by_the_caller() {
    let text = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nbody!GET /b HTTP/1.1\r\n\r\n";
    let mut reader = HeadReader::default();
    assert_eq!(reader.feed(text), text.len());
    let first = reader.next_head().unwrap().unwrap();
    assert_eq!((first.target.as_str(), first.body_length()), ("/a", Ok(Some(5))));
    assert_eq!((reader.take(4), reader.take(1)), (b"body".to_vec(), b"!".to_vec()));
    assert_eq!(reader.next_head().unwrap().unwrap().target, "/b");
    assert_eq!((reader.take(10), reader.next_head()), (Vec::new(), Ok(None)));
}

#[test]
fn responses_are_read_however_they_are_cut() {
    let text = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nin";
    let mut reader = HeadReader::with_limit(64);
    let mut statuses = Vec::new();
    for byte in text {
        assert_eq!(reader.feed(&[*byte]), 1);
        if statuses.len() < 2 {
            statuses.extend(reader.next_response().unwrap().map(|head| head.status.as_u16()));
        }
    }
    assert_eq!((statuses, reader.take(10)), (vec![100, 200], b"in".to_vec()));

    let mut reader = HeadReader::default();
    reader.feed(b"HTTX");
    assert!(reader.next_response().is_err(), "before the head is complete");
    let mut reader = HeadReader::with_limit(16);
    reader.feed(b"HTTP/1.1 200 OK\r\n");
    assert_eq!(reader.next_response(), Err(HeadError::LineTooLong(16)));
}

/// Field lines that the reader interprets, and other lines.
fn field_line() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "Host",
        "hOST",
        "Connection",
        "Content-Length",
        "Transfer-Encoding",
        "Expect",
        "Range",
        "If-Range",
        "ETag",
        "If-None-Match",
        "If-Match",
        "If-Modified-Since",
        "Authorization",
        "Accept",
        "Origin",
        "User-Agent",
        "X-A",
        "x-sessioncookie",
    ]);
    let value = prop_oneof![
        "[ -~\\t\u{e4}]{0,12}",
        prop::sample::select(vec![
            "close",
            "keep-alive, Close",
            "0",
            "7",
            "bytes=0-3",
            "\"a\"",
            "Thu, 01 Jan 1970 00:00:00 GMT",
            "*/*",
            "chunked",
        ])
        .prop_map(str::to_owned),
    ];
    (name, value).prop_map(|(name, value)| format!("{name}: {value}\r\n"))
}

proptest! {
    /// Requests parsed directly are equal to requests parsed by way of a head value.
    #[test]
    fn requests_are_read_alike_with_and_without_a_map(
        line in prop::sample::select(vec!["GET /a%20b?c", "HEAD http://h/x", "POST /a", "OPTIONS *", "CONNECT h:1"]),
        version in prop::sample::select(vec!["HTTP/1.1", "HTTP/1.0"]),
        lines in prop::collection::vec(field_line(), 0..6),
        has_host: bool,
    ) {
        let host = if has_host { "Host: h:80\r\n" } else { "" };
        let head = format!("{line} {version}\r\n{host}{}\r\n", lines.concat());
        let by_value = RequestHead::parse(head.as_bytes()).and_then(|head| Request::read(&head));
        prop_assert_eq!(Request::parse(head.as_bytes()), by_value);
    }
}
