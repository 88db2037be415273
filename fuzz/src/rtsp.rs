//! The RTSP reader: no bytes make it panic, none make it hold more than its limits, and every typed header of
//! what it takes for a request can be asked for.

use wirepath_media::rtsp::{
    BODY_LIMIT, HEAD_LIMIT, Item, NptRange, Offer, Reader, Request, Response, Target,
};

/// Feeds `data` cut into pieces of a size that its first byte gives.
pub fn run(data: &[u8]) {
    let Some((&size, data)) = data.split_first() else { return };
    let mut reader = Reader::new();
    let mut bytes_of_requests = 0;
    for piece in data.chunks(usize::from(size) + 1) {
        reader.feed(piece);
        while let Some(item) = reader.next_item() {
            match item {
                Item::Request(request) => {
                    bytes_of_requests += request.body.len();
                    ask(&request);
                }
                Item::Refused(refusal) => assert!(!Response::refusal(&refusal).to_bytes().is_empty()),
            }
        }
    }
    assert!(bytes_of_requests <= data.len());
    assert!(reader.held_bytes() <= HEAD_LIMIT + BODY_LIMIT);
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
