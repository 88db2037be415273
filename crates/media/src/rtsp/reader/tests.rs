//! Connections that are split or invalid in every way.

use super::super::request::BODY_LIMIT;
use super::super::{Method, Target};
use super::*;
use proptest::prelude::*;

const OPTIONS: &[u8] = b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n";
const SET_PARAMETER: &[u8] =
    b"SET_PARAMETER rtsp://h/clip.ts RTSP/1.0\r\ncseq:2\r\nContent-length: 5\r\n\r\nhello";
const FRAME: &[u8] = b"$\x00\x00\x03abc";

fn items(reader: &mut Reader) -> Vec<Item> {
    std::iter::from_fn(|| reader.next_item()).collect()
}

fn read(bytes: &[u8]) -> Vec<Item> {
    let mut reader = Reader::new();
    reader.feed(bytes);
    items(&mut reader)
}

fn request(bytes: &[u8]) -> Request {
    match read(bytes).pop() {
        Some(Item::Request(request)) => *request,
        other => panic!("{}: {other:?}", String::from_utf8_lossy(bytes)),
    }
}

fn refusal(bytes: &[u8]) -> Refusal {
    match read(bytes).pop() {
        Some(Item::Refused(refusal)) => refusal,
        other => panic!("{}: {other:?}", String::from_utf8_lossy(bytes)),
    }
}

/// Two requests and a frame, with line ends in between, which some clients send.
fn conversation() -> Vec<u8> {
    [OPTIONS, FRAME, b"\r\n\r\n", SET_PARAMETER, b"\r\n", OPTIONS].concat()
}

fn check_conversation(items: &[Item]) {
    let mut frames = Vec::new();
    let requests: Vec<_> = items
        .iter()
        .filter_map(|item| match item {
            Item::Request(request) => Some((request.cseq, request.method.clone(), request.body.len())),
            Item::Frame(channel, bytes) => {
                frames.push((*channel, bytes.as_slice()));
                None
            }
            Item::Refused(refusal) => panic!("{refusal}"),
        })
        .collect();
    assert_eq!(frames, [(0, &b"abc"[..])]);
    let expected = [(1, Method::Options, 0), (2, Method::SetParameter, 5), (1, Method::Options, 0)];
    assert_eq!(requests, expected);
}

#[test]
fn pipelined_requests_and_frames_are_told_apart() {
    let mut reader = Reader::new();
    reader.feed(&conversation());
    check_conversation(&items(&mut reader));
    assert!(!reader.is_inside_request());
}

#[test]
fn a_cut_at_any_byte_changes_nothing() {
    let conversation = conversation();
    for cut in 0..=conversation.len() {
        let mut reader = Reader::new();
        reader.feed(&conversation[..cut]);
        let mut found = items(&mut reader);
        reader.feed(&conversation[cut..]);
        found.append(&mut items(&mut reader));
        check_conversation(&found);
    }
}

#[test]
fn single_bytes_change_nothing() {
    let mut reader = Reader::new();
    let mut found = Vec::new();
    for byte in conversation() {
        reader.feed(&[byte]);
        found.append(&mut items(&mut reader));
    }
    check_conversation(&found);
}

#[test]
fn lines_may_end_as_they_like() {
    for text in [
        "OPTIONS * RTSP/1.0\nCSeq: 7\n\n",
        "OPTIONS * RTSP/1.0\r\nCSeq: 7\n\r\n",
        "OPTIONS * RTSP/1.0\nCSeq: 7\r\n\n",
        "\r\n\nOPTIONS  *  rtsp/1.0 \r\nCSEQ :\t7 \r\n\r\n",
    ] {
        let request = request(text.as_bytes());
        assert_eq!((request.cseq, request.target), (7, Target::Server), "{text:?}");
    }
}

#[test]
fn urls_may_hold_spaces_and_utf8() {
    let request = request("DESCRIBE rtsp://h/a b/fü.ts RTSP/1.0\r\nCSeq: 1\r\n\r\n".as_bytes());
    let Target::Resource(resource) = request.target else { panic!("not a resource") };
    assert_eq!(resource.path(), "a b/fü.ts".as_bytes());
}

#[test]
fn headers_are_typed() {
    let request = request(
        b"PLAY rtsp://h/x RTSP/1.0\r\nCSeq: 1\r\nSession: ab12 ;timeout=60\r\nRequire: a, b\r\nProxy-Require: c\r\n\
          Scale: 2.0\r\nSpeed: fast\r\nAccept: text/plain, application/SDP;level=1\r\n\r\n",
    );
    assert_eq!(request.session(), Some("ab12"));
    assert_eq!(request.required_options(), ["a", "b", "c"]);
    assert_eq!(request.scale(), Ok(Some(2.0)));
    assert_eq!(request.speed().map_err(|refusal| u16::from(refusal.status)), Err(400));
    assert!(request.accepts("application/sdp"));
    assert!(!request.accepts("application/xml"));
}

#[test]
fn what_a_client_accepts_is_read_as_the_rfc_says() {
    for (accept, sdp) in [
        ("application/sdp", true),
        ("*/*", true),
        ("application/*;q=0.5", true),
        ("application/rtsl, application/mheg", false),
        ("application/sdp;q=0", false),
        ("text/*", false),
        ("", true),
    ] {
        let head = format!("DESCRIBE rtsp://h/x RTSP/1.0\r\nCSeq: 1\r\nAccept: {accept}\r\n\r\n");
        assert_eq!(request(head.as_bytes()).accepts("application/sdp"), sdp, "{accept}");
    }
}

#[test]
fn wrong_requests_get_their_status_and_the_connection_goes_on() {
    for (line, status) in [
        ("OPTIONS * RTSP/2.0\r\nCSeq: 3", 505),
        ("OPTIONS * RTSP/1.1\r\nCSeq: 3", 505),
        ("GET / HTTP/1.1\r\nCSeq: 3", 400),
        ("OPTIONS\r\nCSeq: 3", 400),
        ("OPTIONS RTSP/1.0\r\nCSeq: 3", 400),
        ("OPT(IONS * RTSP/1.0\r\nCSeq: 3", 400),
        ("DESCRIBE rtsp://h/../x RTSP/1.0\r\nCSeq: 3", 400),
        ("DESCRIBE rtsp://h/%00 RTSP/1.0\r\nCSeq: 3", 400),
        ("DESCRIBE mms://h/x RTSP/1.0\r\nCSeq: 3", 400),
    ] {
        let bytes = [line.as_bytes(), b"\r\nContent-Length: 2\r\n\r\nxx", OPTIONS].concat();
        let found = read(&bytes);
        assert!(
            matches!(&found[..], [Item::Refused(refusal), Item::Request(_)]
            if u16::from(refusal.status) == status && refusal.cseq == Some(3)),
            "{line}: {found:?}"
        );
    }
}

#[test]
fn a_request_without_a_number_is_refused() {
    for head in ["", "CSeq: x\r\n", "CSeq: -1\r\n", "CSeq: 99999999999999999999999\r\n", "CSeq:\r\n"] {
        let refusal = refusal(format!("OPTIONS * RTSP/1.0\r\n{head}\r\n").as_bytes());
        assert_eq!((refusal.status, refusal.cseq, refusal.close), (StatusCode::BadRequest, None, false));
        assert!(refusal.why.contains("CSeq"), "{}", refusal.why);
    }
}

#[test]
fn lost_framing_closes() {
    for (bytes, status) in [
        (&b"\x16\x03\x01\x02\x00"[..], 400),
        (b"OPTIONS * RTSP/1.0\r\nnonsense\r\n\r\n", 400),
        (b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nContent-Length: +1\r\n\r\n", 400),
        (b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 65537\r\n\r\n", 413),
        (b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 99999999999999999999999\r\n\r\n", 413),
    ] {
        let refusal = refusal(&[bytes, OPTIONS].concat());
        assert_eq!((u16::from(refusal.status), refusal.close), (status, true), "{refusal}");
    }
}

#[test]
fn long_heads_are_refused_before_they_are_stored() {
    let mut reader = Reader::new();
    reader.feed(b"OPTIONS rtsp://h/");
    let mut found = Vec::new();
    for _ in 0..100 {
        reader.feed(&[b'a'; 1000]);
        found.append(&mut items(&mut reader));
    }
    assert!(matches!(&found[..], [Item::Refused(refusal)]
        if refusal.status == StatusCode::RequestURITooLong && refusal.close));
    assert!(reader.buffer.capacity() <= 2 * HEAD_LIMIT);

    let head = format!("OPTIONS * RTSP/1.0\r\nX: {}\r\n", "a".repeat(HEAD_LIMIT));
    assert_eq!(refusal(head.as_bytes()).status, StatusCode::BadRequest);
}

#[test]
fn the_longest_request_is_taken() {
    let body = vec![b'x'; BODY_LIMIT];
    let start = "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 65536\r\nX: ";
    let padding = "y".repeat(HEAD_LIMIT - start.len() - 4);
    let bytes = [start.as_bytes(), padding.as_bytes(), b"\r\n\r\n", &body].concat();
    assert_eq!(request(&bytes).body, body);
}

#[test]
fn long_frames_are_skipped_without_being_stored() {
    let mut reader = Reader::new();
    for _ in 0..20 {
        reader.feed(b"$\x01\xff\xff");
        for _ in 0..5 {
            reader.feed(&[b'$'; 13_107]);
            assert!(items(&mut reader).is_empty());
        }
    }
    assert!(reader.buffer.capacity() < 64 * 1024, "{}", reader.buffer.capacity());
    assert_eq!(reader.skipped_bytes(), 20 * 65_539);
    reader.feed(OPTIONS);
    assert_eq!(items(&mut reader).len(), 1);
}

#[test]
fn frames_up_to_the_limit_are_read() {
    for (length, is_read) in [(0, true), (FRAME_LIMIT, true), (FRAME_LIMIT + 1, false)] {
        let head = [b'$', 7, (length >> 8) as u8, length as u8];
        let bytes = [&head[..], &vec![b'$'; length], OPTIONS].concat();
        let frames = read(&bytes);
        assert_eq!(frames.len(), 1 + usize::from(is_read), "{length}");
        if is_read {
            assert!(matches!(&frames[0], Item::Frame(7, bytes) if bytes.len() == length));
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_panic_and_cuts_never_matter(
        pieces in proptest::collection::vec(prop_oneof![
            any::<Vec<u8>>(),
            Just(OPTIONS.to_vec()), Just(SET_PARAMETER.to_vec()), Just(FRAME.to_vec()),
            Just(b"\r\n".to_vec()), Just(b"Content-Length: 3\r\n".to_vec()), Just(b"DESCRIBE / RTSP/1.0\n".to_vec()),
        ], 0..8),
        cut in 1usize..40,
    ) {
        let bytes = pieces.concat();
        let whole: Vec<String> = read(&bytes).iter().map(|item| format!("{item:?}")).collect();
        let mut reader = Reader::new();
        let mut found = Vec::new();
        for piece in bytes.chunks(cut) {
            reader.feed(piece);
            found.extend(items(&mut reader).iter().map(|item| format!("{item:?}")));
        }
        prop_assert_eq!(whole, found);
    }
}

/// Checks that connections that wait for requests, which may be thousands, keep no buffer.
#[test]
fn an_idle_reader_has_no_buffer() {
    let mut reader = Reader::new();
    reader.feed(&conversation());
    assert_eq!(items(&mut reader).len(), 4);
    assert_eq!(reader.buffer.capacity(), 0);
}
