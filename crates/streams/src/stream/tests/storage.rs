//! What is done where it may block, and comes to nothing.

use super::*;
use crate::StreamOptions;

/// A stream that has something read ahead which panics.
fn panics() -> (UnixStream, Stream) {
    let (feed, inlet) = UnixStream::pair().unwrap();
    let mut stream = StreamBuilder::default()
        .survive_inputs()
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Whole)
        .output(Object::collect("out", LIMIT).0)
        .build();
    let input = &mut stream.inputs[0];
    input.busy = true;
    stream.storage.push(Storage { port: input.port, job: Job::Panic });
    (feed, stream)
}

#[test]
fn what_panics_where_it_may_block_ends_its_stream_with_the_cause_and_no_other() {
    let expected = Err(StreamError::StoragePanicked { name: "inlet".into(), words: "on purpose".into() });
    let (_feed, mut stream) = panics();
    assert_eq!(stream.run(), expected);

    let engine = engine();
    let (_feed, stream) = panics();
    let running = engine.start_stream(stream, StreamOptions::default());
    assert_eq!(running.wait_for(PATIENCE).expect("it does not end").result, expected);
    // Whoever wants it back hears of it as well.
    let (_feed, stream) = panics();
    let running = engine.start_stream(stream, StreamOptions::default());
    running.status(); // it has begun
    let end = running.take_back().err().unwrap();
    assert_eq!(end.result, expected);
    // The only thread of the pool goes on.
    let target = tempfile::NamedTempFile::new().unwrap();
    let output = Object::file("target", Arc::new(target.reopen().unwrap()), 0);
    let stream = StreamBuilder::default().input(memory(b"bytes"), Framing::Fixed(5)).output(output).build();
    let running = engine.start_stream(stream, StreamOptions::default());
    assert_eq!(running.wait_for(PATIENCE).expect("it does not end").result, Ok(()));
    assert_eq!(std::fs::read(target.path()).unwrap(), b"bytes");
}
