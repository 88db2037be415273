//! Storage jobs.

use super::*;
use crate::StreamOptions;
use std::io::{Seek, SeekFrom};

/// A stream with a read-ahead job that panics.
fn panics() -> (UnixStream, Stream) {
    let (feed, inlet) = UnixStream::pair().unwrap();
    let mut stream = StreamBuilder::default()
        .survive_inputs()
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Whole)
        .output(Object::collect("out", LIMIT).0)
        .build();
    let input = &mut stream.intake.inputs[0];
    input.busy = true;
    stream.shared.storage.push(StorageJob { port: input.port, job: Job::Panic });
    (feed, stream)
}

/// Promise: A panic in a storage thread ends only its own stream, with the cause.
#[test]
fn what_panics_where_it_may_block_ends_its_stream_with_the_cause_and_no_other() {
    let expected = Err(StreamError::StoragePanicked { name: "inlet".into(), message: "on purpose".into() });
    let (_feed, mut stream) = panics();
    assert_eq!(stream.run(), expected);

    let engine = engine();
    let (_feed, stream) = panics();
    let running = stream.start(&engine, StreamOptions::default());
    assert_eq!(running.wait_for(PATIENCE).expect("it does not end").result, expected);
    // A caller that takes the stream back gets the error, too.
    let (_feed, stream) = panics();
    let running = stream.start(&engine, StreamOptions::default());
    running.status(); // the stream has begun
    let end = running.take_back().err().unwrap();
    assert_eq!(end.result, expected);
    // The only thread of the pool still works.
    let target = tempfile::NamedTempFile::new().unwrap();
    let output = Object::file("target", Arc::new(target.reopen().unwrap()), 0);
    let stream = StreamBuilder::default().input(memory(b"bytes"), Framing::Fixed(5)).output(output).build();
    let running = stream.start(&engine, StreamOptions::default());
    assert_eq!(running.wait_for(PATIENCE).expect("it does not end").result, Ok(()));
    assert_eq!(std::fs::read(target.path()).unwrap(), b"bytes");
}

/// Promise: Standard input and output that are files keep their position for the next process.
///
/// Files inherited from a shell are read and written at their shared position, so that the next process
/// continues after it; and by threads that may wait for storage.
#[test]
fn a_file_that_is_a_standard_stream_is_read_and_written_by_storage_and_keeps_its_place() {
    for framing in [Framing::Fixed(4), Framing::Whole] {
        let (mut source, mut target) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        source.write_all(b"head some bytes").unwrap();
        source.seek(SeekFrom::Start(5)).unwrap();
        target.write_all(b"before ").unwrap();
        let inlet = Object::stream("inlet", source.try_clone().unwrap().into()).unwrap();
        let outlet = Object::stream("outlet", target.try_clone().unwrap().into()).unwrap();
        let mut stream = StreamBuilder::default().input(inlet, framing).output(outlet).build();
        let mut acted = stream.act(u64::MAX, 0).0;
        assert_eq!(source.stream_position().unwrap(), 5, "it was read on the engine's thread");
        let (mut warmed, mut written) = (0, 0);
        while let Acted::Wait = acted {
            let storage: Vec<_> = stream.take_storage().collect();
            assert!(!storage.is_empty(), "it waits for nothing");
            for one in storage {
                let before = target.stream_position().unwrap();
                let is_write = matches!(one.job, Job::Write(_));
                stream.stored(one.run(), wirepath_engine::now_us()).unwrap();
                written += u64::from(is_write);
                warmed += u64::from(!is_write);
                assert!(is_write || target.stream_position().unwrap() == before);
            }
            acted = stream.act(u64::MAX, 0).0;
        }
        assert!(matches!(acted, Acted::Ended(Ok(()))) && warmed > 0 && written > 0, "{acted:?}");
        target.write_all(b", and after").unwrap();
        target.rewind().unwrap();
        let mut bytes = String::new();
        target.read_to_string(&mut bytes).unwrap();
        assert_eq!(bytes, "before some bytes, and after");
        assert_eq!(source.stream_position().unwrap(), 15);
    }
}
