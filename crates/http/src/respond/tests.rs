//! Table of cases: request fields, response status, chosen headers and body.

use super::*;
use crate::HeadReader;

const NOW_S: u64 = 1_800_000_000;
const MODIFIED_S: u64 = 1_700_000_000;
const MODIFIED: &str = "Tue, 14 Nov 2023 22:13:20 GMT";
const EARLIER: &str = "Tue, 14 Nov 2023 22:13:19 GMT";
const LATER: &str = "Tue, 14 Nov 2023 22:13:21 GMT";

fn facts(size: u64) -> Representation {
    Representation { size, modified_s: MODIFIED_S, tag: EntityTag::strong("t"), content_type: "video/mp2t" }
}

fn request(method: &str, fields: &str) -> Request {
    let mut reader = HeadReader::default();
    let head = format!("{method} /clip.ts HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    assert_eq!(reader.feed(head.as_bytes()), head.len());
    reader.next().unwrap().unwrap()
}

fn answer(method: &str, fields: &str, facts: &Representation) -> Response {
    respond(&request(method, fields), facts, &ResponseContext { now_s: NOW_S, boundary: || 7 })
}

fn value<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers.get(name).map(|value| value.to_str().unwrap())
}

fn extents(response: &Response) -> Vec<(u64, u64)> {
    let extent = |part: &BodyPart| match part {
        BodyPart::Extent(extent) => Some((extent.offset, extent.length)),
        BodyPart::Bytes(_) => None,
    };
    response.body.iter().filter_map(extent).collect()
}

#[test]
fn conditions_in_their_order() {
    let dated = |name: &str, date: &str| format!("{name}: {date}\r\n");
    for (fields, expected) in [
        (String::new(), 200),
        // step 1
        ("If-Match: \"t\"\r\n".into(), 200),
        ("If-Match: *\r\n".into(), 200),
        ("If-Match: \"a\"\r\nIf-Match: \"t\"\r\n".into(), 200),
        ("If-Match: \"a\"\r\n".into(), 412),
        ("If-Match: W/\"t\"\r\n".into(), 412),
        ("If-Match: \"a\"\r\nIf-None-Match: \"t\"\r\n".into(), 412),
        // step 2, not evaluated after step 1
        (dated("If-Unmodified-Since", MODIFIED), 200),
        (dated("If-Unmodified-Since", EARLIER), 412),
        (dated("If-Unmodified-Since", "soon"), 200),
        (dated("If-Match: \"t\"\r\nIf-Unmodified-Since", EARLIER), 200),
        // step 3
        ("If-None-Match: \"t\"\r\n".into(), 304),
        ("If-None-Match: W/\"t\"\r\n".into(), 304),
        ("If-None-Match: \"a\", \"t\"\r\n".into(), 304),
        ("If-None-Match: *\r\n".into(), 304),
        ("If-None-Match: \"a\"\r\n".into(), 200),
        ("If-None-Match: \"t\"\r\nRange: bytes=0-1\r\n".into(), 304),
        // step 4, not evaluated after step 3
        (dated("If-Modified-Since", MODIFIED), 304),
        (dated("If-Modified-Since", LATER), 304),
        (dated("If-Modified-Since", EARLIER), 200),
        (dated("If-Modified-Since", "never"), 200),
        (dated("If-None-Match: \"a\"\r\nIf-Modified-Since", LATER), 200),
        (format!("If-Modified-Since: {LATER}\r\nIf-Modified-Since: {LATER}\r\n"), 200),
        // step 5
        ("Range: bytes=0-1\r\nIf-Range: \"t\"\r\n".into(), 206),
        ("Range: bytes=0-1\r\nIf-Range: W/\"t\"\r\n".into(), 200),
        ("Range: bytes=0-1\r\nIf-Range: \"a\"\r\n".into(), 200),
        (dated("Range: bytes=0-1\r\nIf-Range", MODIFIED), 206),
        (dated("Range: bytes=0-1\r\nIf-Range", LATER), 200),
        (dated("Range: bytes=0-1\r\nIf-Range", "once"), 200),
        ("Range: bytes=5000-\r\nIf-Range: \"a\"\r\n".into(), 200),
        ("Range: bytes=5000-\r\nIf-Range: \"t\"\r\n".into(), 416),
    ] {
        for method in ["GET", "HEAD"] {
            let response = answer(method, &fields, &facts(1000));
            // Ranges do not apply to HEAD.
            let head_status = if matches!(expected, 206 | 416) { 200 } else { expected };
            let status = if method == "HEAD" { head_status } else { expected };
            assert_eq!(response.status.as_u16(), status, "{method} {fields}");
            assert!(method == "GET" || response.body.is_empty(), "{method} {fields}");
            assert_eq!(value(&response, "ETag"), Some("\"t\""));
            assert_eq!(value(&response, "Last-Modified"), Some(MODIFIED));
        }
    }
}

#[test]
fn bodies() {
    let whole = answer("GET", "", &facts(1000));
    assert_eq!((extents(&whole), whole.content_length), (vec![(0, 1000)], Some(1000)));
    assert_eq!(value(&whole, "Accept-Ranges"), Some("bytes"));

    let head = answer("HEAD", "", &facts(1000));
    assert_eq!((head.body.len(), head.content_length), (0, Some(1000)));

    let range = answer("GET", "Range: bytes=-100\r\n", &facts(1000));
    assert_eq!((extents(&range), range.content_length), (vec![(900, 100)], Some(100)));
    assert_eq!(value(&range, "Content-Range"), Some("bytes 900-999/1000"));
    assert_eq!(value(&range, "Content-Type"), Some("video/mp2t"));

    let outside = answer("GET", "Range: bytes=1000-\r\n", &facts(1000));
    assert_eq!(
        (outside.status, value(&outside, "Content-Range")),
        (StatusCode::RANGE_NOT_SATISFIABLE, Some("bytes */1000"))
    );

    let empty = answer("GET", "", &facts(0));
    assert_eq!((empty.status, empty.body.len(), empty.content_length), (StatusCode::OK, 0, Some(0)));
    assert_eq!(answer("GET", "Range: bytes=0-\r\n", &facts(0)).status, StatusCode::RANGE_NOT_SATISFIABLE);

    let not_modified = answer("GET", "If-None-Match: *\r\n", &facts(1000));
    assert_eq!((not_modified.body.len(), not_modified.content_length), (0, None));
}

#[test]
fn several_ranges_as_parts() {
    let response = answer("GET", "Range: bytes=900-909, 0-9\r\n", &facts(1000));
    assert_eq!(
        (response.status, extents(&response)),
        (StatusCode::PARTIAL_CONTENT, vec![(900, 10), (0, 10)])
    );
    assert_eq!(value(&response, "Content-Range"), None);
    let boundary = "00000000000000000000000000000007";
    let kind = format!("multipart/byteranges; boundary={boundary}");
    assert_eq!(value(&response, "Content-Type"), Some(kind.as_str()));
    let text: String = response
        .body
        .iter()
        .map(|part| match part {
            BodyPart::Bytes(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            BodyPart::Extent(extent) => "x".repeat(extent.length as usize),
        })
        .collect();
    assert_eq!(
        text,
        format!(
            "--{boundary}\r\nContent-Type: video/mp2t\r\nContent-Range: bytes 900-909/1000\r\n\r\nxxxxxxxxxx\
             \r\n--{boundary}\r\nContent-Type: video/mp2t\r\nContent-Range: bytes 0-9/1000\r\n\r\nxxxxxxxxxx\
             \r\n--{boundary}--\r\n"
        )
    );
    assert_eq!(response.content_length, Some(text.len() as u64));
}

#[test]
fn a_file_just_modified_has_a_weak_tag() {
    for (modified_s, tag, date, if_range) in [
        (NOW_S - 2, "\"t\"", NOW_S - 2, 206),
        (NOW_S - 1, "W/\"t\"", NOW_S - 1, 200),
        (NOW_S, "W/\"t\"", NOW_S, 200),
        (NOW_S + 100, "W/\"t\"", NOW_S, 200),
        (u64::MAX, "W/\"t\"", NOW_S, 200),
    ] {
        let facts = Representation { modified_s, ..facts(1000) };
        let response = answer("GET", "Range: bytes=0-1\r\nIf-Range: \"t\"\r\n", &facts);
        assert_eq!(response.status.as_u16(), if_range);
        assert_eq!(value(&response, "ETag"), Some(tag));
        assert_eq!(value(&response, "Last-Modified"), Some(http_date(date).as_str()));
    }
}

#[test]
fn other_methods() {
    for (method, status) in [("POST", 405), ("PUT", 405), ("DELETE", 405), ("TRACE", 405), ("BREW", 501)] {
        let response = answer(method, "", &facts(1000));
        assert_eq!(
            (response.status.as_u16(), value(&response, "Allow")),
            (status, Some(ALLOWED)),
            "{method}"
        );
    }
    let options = answer("OPTIONS", "", &facts(1000));
    assert_eq!((options.status, options.content_length), (StatusCode::NO_CONTENT, None));
    assert_eq!(value(&options, "Allow"), Some(ALLOWED));
}
