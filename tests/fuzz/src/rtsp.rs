//! The RTSP reader: no bytes make it panic, none make it hold more than its limits, and every typed header of
//! what it takes for a request can be asked for.

use wirepath_media::rtsp::{
    BODY_LIMIT, FRAME_LIMIT, HEAD_LIMIT, Item, NptRange, Offer, Reader, Refusal, Request, Response, Target,
};

/// Feeds `data` whole, and cut into pieces of a size that its first byte gives.
pub fn fuzz(data: &[u8]) {
    let Some((&piece, data)) = data.split_first() else { return };
    let whole = read(data, data.len().max(1));
    assert_eq!(read(data, usize::from(piece) + 1), whole, "how the bytes are cut makes a difference");
    assert!(whole.requests.iter().map(|request| request.body.len()).sum::<usize>() <= data.len());
    whole.requests.iter().for_each(ask);
    for refusal in &whole.refusals {
        check_text(&Response::refusal(refusal).to_bytes());
    }
}

/// Outcome of reading a connection's bytes.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    requests: Vec<Request>,
    refusals: Vec<Refusal>,
    frames: Vec<(u8, Vec<u8>)>,
    held_bytes: usize,
    skipped_bytes: u64,
}

fn read(data: &[u8], piece: usize) -> Outcome {
    let mut reader = Reader::new();
    let (mut requests, mut refusals, mut frames) = (Vec::new(), Vec::new(), Vec::new());
    for piece in data.chunks(piece) {
        reader.feed(piece);
        while let Some(item) = reader.next_item() {
            match item {
                Item::Request(request) => requests.push(*request),
                Item::Refused(refusal) => refusals.push(refusal),
                Item::Frame(channel, bytes) => {
                    assert!(bytes.len() <= FRAME_LIMIT);
                    frames.push((channel, bytes));
                }
            }
        }
        assert!(reader.held_bytes() <= HEAD_LIMIT + BODY_LIMIT);
    }
    let (held_bytes, skipped_bytes) = (reader.held_bytes(), reader.skipped_bytes());
    Outcome { requests, refusals, frames, held_bytes, skipped_bytes }
}

/// A refusal says why in words that may come from the request: they must not become headers of their own.
fn check_text(response: &[u8]) {
    let text = std::str::from_utf8(response).expect("a response is text");
    let (head, _) = text.split_once("\r\n\r\n").expect("a head ends in an empty line");
    for line in head.split("\r\n").skip(1) {
        let (name, _) = line.split_once(':').expect("a header has a name");
        assert!(name.chars().all(|char| char.is_ascii_alphanumeric() || char == '-'), "{name:?} is no name");
        assert!(!line.contains(char::is_control), "{line:?} holds a control character");
    }
}

fn ask(request: &Request) {
    assert!(request.body.len() <= BODY_LIMIT);
    _ = (request.session(), request.required_options(), request.accepts("application/sdp"));
    _ = (request.scale(), request.speed(), NptRange::of(request), Offer::all(&request.headers));
    if let Target::Resource(resource) = &request.target {
        let mut names = resource.path().split(|&byte| byte == b'/');
        assert!(resource.path().is_empty() || names.all(|name| !matches!(name, b"" | b"." | b"..")));
        assert!(!resource.url("rtsp://host").contains(char::is_control));
        _ = resource.split_track();
    }
}
