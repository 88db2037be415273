//! One request of a keep-alive connection, and its response: `cargo bench -p wirepath-http`.

use std::hint::black_box;

use divan::Bencher;
use http::Version;
use wirepath_http::{
    BodyPart, EntityTag, HeadReader, Representation, Request, ResponseContext, content_type, respond,
};

/// Request as sent by curl.
const REQUEST: &[u8] =
    b"GET /folder/clip.ts HTTP/1.1\r\nHost: server:8080\r\nUser-Agent: curl/8\r\nAccept: */*\r\n\r\n";

const NOW_S: u64 = 1_800_000_000;

fn main() {
    divan::main();
}

fn read(reader: &mut HeadReader) -> Request {
    assert_eq!(reader.feed(REQUEST), REQUEST.len());
    reader.next().expect("a valid head").expect("a whole head")
}

/// Reads a request.
#[divan::bench]
fn request(bencher: Bencher<'_, '_>) {
    let mut reader = HeadReader::default();
    bencher.bench_local(|| read(black_box(&mut reader)));
}

/// Builds the response for a small file, with its body.
#[divan::bench]
fn response(bencher: Bencher<'_, '_>) {
    let request = read(&mut HeadReader::default());
    bencher.bench_local(|| {
        let file = Representation {
            size: 4096,
            modified_s: black_box(1_700_000_000),
            tag: EntityTag::strong("1000-17a1b2c3d4e5f6-1234"),
            content_type: content_type(black_box(b"clip.ts")),
        };
        let context = ResponseContext { now_s: black_box(NOW_S), boundary: || 7 };
        let mut response = respond(&request, &file, &context);
        response.body = vec![BodyPart::Bytes(vec![0; 4096])];
        response.into_bytes(Version::HTTP_11, true, NOW_S)
    });
}
