//! The HTTP head reader and the answers to what it reads: no bytes make them panic, how the bytes are cut
//! makes no difference, and no answer refers to bytes outside the file or announces another length than it
//! has.

use http::Method;
use wirepath_http::{
    AssetPath, BodyPart, EntityTag, HEAD_LIMIT, HeadError, HeadReader, Representation, Request,
    ResponseContext, Target, respond,
};

/// Feeds `data` whole, and cut into pieces of a size that its first byte gives.
pub fn fuzz(data: &[u8]) {
    let Some((&piece, data)) = data.split_first() else { return };
    let (requests, error) = read(data, data.len().max(1));
    assert_eq!(read(data, usize::from(piece) + 1), (requests.clone(), error));
    for request in &requests {
        check_path(request);
        for size in [0, 1, 1000, i64::MAX as u64] {
            check_answer(request, size);
        }
    }
}

fn read(data: &[u8], piece: usize) -> (Vec<Request>, Option<HeadError>) {
    let mut reader = HeadReader::default();
    let mut requests = Vec::new();
    for mut piece in data.chunks(piece) {
        while !piece.is_empty() {
            let room = reader.room();
            let taken = reader.feed(piece);
            assert!(taken > 0 && taken >= room.min(piece.len()) && room <= HEAD_LIMIT);
            piece = &piece[taken..];
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

fn check_path(request: &Request) {
    if let Target::Path(path) = &request.target {
        assert!(path.segments().all(|name| !matches!(name, b"" | b"." | b"..") && !name.contains(&0)));
        let again =
            AssetPath::decode(&format!("/{}", path.encoded())).expect("what was decoded can be encoded");
        assert_eq!(again.as_bytes(), path.as_bytes());
    }
}

fn check_answer(request: &Request, size: u64) {
    let file = Representation {
        size,
        modified_s: 1_700_000_000,
        tag: EntityTag::strong("tag"),
        content_type: "video/mp2t",
    };
    let response = respond(request, &file, &ResponseContext { now_s: 1_800_000_000, boundary: || 1 });
    let mut from_file = 0u64;
    for part in &response.body {
        if let BodyPart::Extent(extent) = part {
            assert!(extent.length > 0 && extent.end() <= size);
            from_file = from_file.checked_add(extent.length).expect("no byte of the file is sent twice");
        }
    }
    assert!(from_file <= size);
    if request.method == Method::GET {
        assert_eq!(response.content_length.unwrap_or(0), response.body_length());
    }
    let head = response.head(request.version, request.keep_alive, 1_800_000_000);
    let text = std::str::from_utf8(&head).expect("a head is text");
    let lines = text.strip_suffix("\r\n\r\n").expect("a head ends in an empty line").split("\r\n");
    assert!(lines.into_iter().all(|line| !line.is_empty() && !line.contains(['\r', '\n', '\0'])));
}
