//! Outputs that are detached, and their bytes that are still to be sent.

use super::*;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::thread;

/// Promise: A detached object is returned to its caller, also if the stream ends first.
#[test]
fn a_detached_object_is_returned_also_when_the_stream_ends_first() {
    let (_feed, inlet) = UnixStream::pair().unwrap();
    let (stuck, _reader) = UnixStream::pair().unwrap();
    let mut stream = StreamBuilder::default().pattern(OutputPattern::Mirror).build();
    let input =
        stream.attach_input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(4)).unwrap();
    stream.attach_input(memory(&[7; 1_000_000]), Framing::Fixed(1000)).unwrap();
    let output =
        stream.attach_output(Object::stream("stuck", stuck.into()).unwrap(), OutputOptions::default());
    (&_feed).write_all(b"half").unwrap();
    (&_feed).write_all(b"ha").unwrap();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    let (tell, told) = channel();
    let tell_too = tell.clone();
    assert!(stream.detach_output(output, move |object| tell.send(object.name().to_owned()).unwrap()));
    assert!(stream.detach_input(input, move |object| tell_too.send(object.name().to_owned()).unwrap()));
    drop(stream);
    let mut names: Vec<String> = told.iter().collect();
    names.sort();
    assert_eq!(names, ["inlet", "stuck"]);
}

/// Promise: A detached output still gets its pending bytes if the last other output fails.
///
/// A detached output has not failed: its bytes are sent although the last other output fails meanwhile.
#[test]
fn the_last_output_that_fails_takes_none_with_it_that_leaves() {
    for when_full in [WhenFull::Block, WhenFull::Disconnect] {
        let (leaves, mut reader) = UnixStream::pair().unwrap();
        let (fails, peer) = UnixStream::pair().unwrap();
        let (given, object) = channel();
        let (mut feed, inlet) = UnixStream::pair().unwrap();
        let options = OutputOptions { when_full, waiting_bytes: 1 << 20, ..OutputOptions::default() };
        let mut stream = StreamBuilder::default()
            .pattern(OutputPattern::Mirror)
            .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(1000))
            .output(Object::stream("leaves", leaves.into()).unwrap())
            .output_with(Object::stream("fails", fails.into()).unwrap(), options)
            .build();
        let (leaves, fails) = (Port(0), Port(1));
        feed.set_nonblocking(true).unwrap();
        let mut offer = |stream: &mut Stream| {
            let fed = feed.write(&[7; 1000]).is_ok();
            stream.note_ready(Port(2));
            assert!(
                matches!(stream.act(u64::MAX, wirepath_engine::now_us()).0, Acted::Wait),
                "who leaves is waited for"
            );
            fed
        };
        while offer(&mut stream) {}
        let before = stream.status();
        let waiting = before.outputs[0].waiting_bytes;
        assert!(waiting > 0, "nobody reads: {before:?}");
        assert!(stream.detach_output(leaves, move |object| given.send(object).unwrap()));
        if when_full == WhenFull::Block {
            drop(peer);
            stream.note_ready(fails);
            offer(&mut stream);
        } else {
            // More bytes than the limit now wait for the other output alone.
            while stream.status().gone_outputs.disconnected == 0 {
                offer(&mut stream);
            }
        }
        let gone = stream.status().gone_outputs;
        assert_eq!((gone.failed + gone.disconnected, gone.detached), (1, 0), "{when_full:?}");
        let taken = before.outputs[0].bytes + waiting;
        let reading = thread::spawn(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            bytes.len() as u64
        });
        assert!(matches!(stream.run(), Err(StreamError::NoOutput(_))));
        drop(object.recv().unwrap());
        assert_eq!(reading.join().unwrap(), taken);
        let status = stream.status();
        let left = status.ended_outputs.iter().find(|output| output.port == leaves).unwrap();
        assert_eq!((left.bytes, left.dropped.bytes), (taken, 0));
    }
}

/// A full connection whose peer reads nothing, and the peer.
fn full() -> (UnixStream, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    while (&near).write(&[7; 1000]).is_ok() {}
    (near, far)
}

/// A mirror to two full outputs. The first is detached, then the peer of the second closes. Returns the
/// stream and the peer of the detached output.
fn left_alone(stall: Duration, on_detached: impl FnOnce(Object) + Send + 'static) -> (Stream, UnixStream) {
    let (leaves, reader) = full();
    let (fails, peer) = full();
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .stall(stall)
        .input(memory(&[7; 200_000]), Framing::Fixed(1000))
        .output(Object::stream("leaves", leaves.into()).unwrap())
        .output(Object::stream("fails", fails.into()).unwrap())
        .build();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    assert!(stream.detach_output(Port(0), on_detached));
    drop(peer);
    stream.note_ready(Port(1));
    (stream, reader)
}

/// Promise: A detached output without progress fails after the stall timeout.
#[test]
fn the_last_detached_output_fails_after_the_stall_time() {
    let (given, object) = channel();
    let second = |seconds: f64| (seconds * 1e6) as u64;
    let (mut stream, mut reader) =
        left_alone(Duration::from_secs(5), move |object| given.send(object).unwrap());
    assert!(matches!(stream.act(u64::MAX, second(1.0)).0, Acted::Wait));
    assert_eq!(stream.status().gone_outputs.failed, 1);
    assert!(matches!(stream.act(u64::MAX, second(5.9)).0, Acted::Wait));
    // Bytes that the output takes restart its stall time.
    reader.read_exact(&mut [0; 5000]).unwrap();
    stream.note_ready(Port(0));
    assert!(matches!(stream.act(u64::MAX, second(5.9)).0, Acted::Wait));
    let taken = stream.status().outputs[0].bytes;
    assert!(taken > 0 && taken < 200_000, "{taken}");
    assert!(matches!(stream.act(u64::MAX, second(7.2)).0, Acted::Wait));
    assert!(matches!(stream.act(u64::MAX, second(11.9)).0, Acted::Wait));
    let Acted::Ended(ended) = stream.act(u64::MAX, second(13.2)).0 else { panic!("it is waited for still") };
    let error = ended.unwrap_err().to_string();
    assert!(error.starts_with("no output is left; the last one: fails: "), "{error}");
    let status = stream.status();
    assert_eq!(status.gone_outputs.failed, 2);
    let left = status.ended_outputs.iter().find(|output| output.port == Port(0)).unwrap();
    assert_eq!(
        left.why_gone.as_deref(),
        Some("leaves: no data accepted for too long: Connection timed out (os error 110)")
    );
    assert_eq!((left.bytes, left.dropped.bytes), (taken, 200_000 - taken));
    assert_eq!(object.recv().unwrap().name(), "leaves");
}

/// Promise: A detached output without progress fails after the stall timeout.
#[test]
fn a_detached_output_at_the_end_fails_after_the_stall_time() {
    let (near, _far) = UnixStream::pair().unwrap();
    let (collecting, collected) = Object::collect("collected", LIMIT);
    let options = || OutputOptions { waiting_bytes: LIMIT, ..OutputOptions::default() };
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .stall(Duration::from_secs(5))
        .input(memory(&[7; 1_000_000]), Framing::Fixed(1000))
        .output_with(Object::stream("stalled", near.into()).unwrap(), options())
        .output_with(collecting, options())
        .build();
    while stream.status().outputs[1].bytes < 1_000_000 {
        assert!(matches!(stream.act(1 << 22, 0).0, Acted::More | Acted::Wait));
    }
    assert!(stream.detach_output(Port(0), drop));
    assert!(matches!(stream.act(1 << 22, 1_000_000).0, Acted::Wait));
    assert!(matches!(stream.act(1 << 22, 5_900_000).0, Acted::Wait));
    assert!(matches!(stream.act(1 << 22, 7_200_000).0, Acted::Ended(Ok(()))));
    assert_eq!(stream.status().gone_outputs.failed, 1);
    assert_eq!(collected.bytes().len(), 1_000_000);
}

/// Promise: A detached output without progress fails after the stall timeout.
///
/// No event reports a missing event: the runner of the stream has to poll.
#[test]
fn a_running_stream_polls_detached_outputs_for_a_stall() {
    let (mut stream, _reader) = left_alone(Duration::ZERO, drop);
    assert!(matches!(stream.run(), Err(StreamError::NoOutput(_))));
    let (stream, _reader) = left_alone(Duration::ZERO, drop);
    let engine = engine();
    let running = stream.start(&engine, crate::StreamOptions::default());
    let end = running.wait_for(PATIENCE).expect("it does not end");
    assert!(matches!(end.result, Err(StreamError::NoOutput(_))));
}

/// Promise: After writing, the position of an output file is at the end of the written bytes.
///
/// A file that accepts only a part of a write: its position is after the accepted part.
#[test]
fn the_place_in_a_file_is_behind_what_was_written() {
    for framing in [Framing::Fixed(1000), Framing::Whole] {
        let page = rustix::param::page_size();
        let file = memfd_create("file", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 2 * page as u64).unwrap();
        fcntl_add_seals(&file, SealFlags::GROW).unwrap();
        let (source, inlet) = UnixStream::pair().unwrap();
        (&source).write_all(&vec![7; 10 * page]).unwrap();
        drop(source);
        let (given, object) = channel();
        let mut stream = StreamBuilder::default()
            .pattern(OutputPattern::Mirror)
            .input(Object::stream("inlet", inlet.into()).unwrap(), framing)
            .output(Object::file("file", Arc::new(file.into()), 0))
            .build();
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        let storage: Vec<_> = stream.take_storage().collect();
        assert_eq!(storage.len(), 1);
        assert!(stream.detach_output(Port(0), move |object| given.send(object).unwrap()));
        for one in storage {
            stream.stored(one.run(), wirepath_engine::now_us()).unwrap();
        }
        let object = object.recv().unwrap();
        let crate::object::Kind::File(file) = &object.kind else { panic!("another object") };
        let status = stream.status();
        let [ended] = &status.ended_outputs[..] else { panic!("{status:?}") };
        assert_eq!((file.offset, ended.bytes), (2 * page as u64, 2 * page as u64));
        assert_eq!(status.bytes_in, ended.bytes + ended.dropped.bytes + status.bytes_pending, "{status:?}");
    }
}
