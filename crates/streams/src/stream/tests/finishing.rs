//! Connections that are told about the end.

use super::*;
use std::thread;

/// Promise: A finished stream ends without an error only after its TCP peers have acknowledged everything.
///
/// Bytes that the connection took, and for which its peer has no room, are lost when the peer resets it.
#[test]
fn a_connection_that_is_reset_after_the_end_has_not_got_everything() {
    for pattern in [OutputPattern::Mirror, OutputPattern::Stripe] {
        let (near, far) = narrow_connection();
        let (builder, _) = events(StreamBuilder::default());
        let mut stream = builder
            .pattern(pattern)
            .finish_outputs()
            .input(memory(&[7; 100_000]), Framing::Whole)
            .output(Object::stream("tcp://sink", near.into()).unwrap())
            .build();
        loop {
            match stream.act(u64::MAX, 0).0 {
                Acted::Deliver => break,
                Acted::Wait | Acted::More => stream.note_ready(Port(0)),
                Acted::Ended(ended) => panic!("{ended:?}"),
            }
        }
        assert_eq!(stream.status().bytes_out, 100_000);
        reset(far);
        let error = stream.run().unwrap_err().to_string();
        assert!(error.contains("tcp://sink: shutdown: Connection reset"), "{error}");
    }
}

/// Promise: A finished stream ends without an error only after its TCP peers have acknowledged everything.
#[test]
fn a_connection_that_acknowledges_nothing_for_long_is_given_up() {
    let (near, _far) = narrow_connection();
    let mut stream = StreamBuilder::default()
        .finish_outputs()
        .input(memory(&[7; 100_000]), Framing::Whole)
        .output(Object::stream("tcp://sink", near.into()).unwrap())
        .build();
    let mut now_us = 1;
    let acted = loop {
        match stream.act(u64::MAX, now_us).0 {
            Acted::Deliver => now_us += 61_000_000,
            Acted::Wait | Acted::More => stream.note_ready(Port(0)),
            Acted::Ended(ended) => break ended,
        }
    };
    assert!(acted.unwrap_err().to_string().contains("timed out"));
}

/// Promise: A finished stream ends without an error only after its TCP peers have acknowledged everything.
#[test]
fn a_stream_ends_when_its_peer_has_everything() {
    let (near, mut far) = narrow_connection();
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).unwrap();
        bytes.len()
    });
    let mut stream = StreamBuilder::default()
        .finish_outputs()
        .input(memory(&[7; 1_000_000]), Framing::Whole)
        .output(Object::stream("tcp://sink", near.into()).unwrap())
        .build();
    stream.run().unwrap();
    drop(stream);
    assert_eq!(reading.join().unwrap(), 1_000_000);
}

/// Promise: If the origin truncates a response, the client sees it truncated.
///
/// Another holder of the same connection would see a regular end if the error had been reported to the
/// stream.
#[test]
fn asking_how_much_is_on_its_way_takes_no_error_away() {
    let (near, far) = narrow_connection();
    let reading = near.try_clone().unwrap();
    let stream = StreamBuilder::default()
        .input(memory(b"bytes"), Framing::Whole)
        .output(Object::stream("tcp://sink", near.into()).unwrap())
        .build();
    reset(far);
    assert_eq!(stream.unacknowledged(), 0);
    assert_eq!((&reading).read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}
