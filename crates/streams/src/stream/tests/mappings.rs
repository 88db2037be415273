//! Mappings of files and of memory as inputs and outputs.

use super::*;
use crate::{InputOrder, StreamOptions};
use bytes::BytesMut;
use rustix::io::Errno;
use std::io::IoSlice;
use std::thread;
use wirepath_datapath::Mapping;

/// Several pages and windows, and a remainder.
const LENGTH: usize = 5_000_123;

fn some_bytes() -> Vec<u8> {
    (0..LENGTH).map(|number| (number * 7 / 3) as u8).collect()
}

fn memory_of(bytes: &[u8]) -> Arc<Mapping> {
    let mapping = Mapping::anonymous(bytes.len()).unwrap();
    assert_eq!(mapping.write(0..bytes.len(), &[IoSlice::new(bytes)]).unwrap(), bytes.len());
    Arc::new(mapping)
}

fn file_of(bytes: &[u8]) -> (std::fs::File, Arc<Mapping>) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let mapping = Mapping::writable(&file, bytes.len()).unwrap();
    (file, Arc::new(mapping))
}

fn read(mapping: &Mapping) -> BytesMut {
    let mut bytes = BytesMut::new();
    mapping.read(0..mapping.length(), &mut bytes).unwrap();
    bytes
}

fn whole(mapping: &Arc<Mapping>) -> Object {
    Object::mapping("mapping", Arc::clone(mapping), 0..mapping.length()).unwrap()
}

/// Sends one mapping over a connection into another, on engine threads, with blocking calls on storage
/// threads.
fn carried(framing: fn() -> Framing) -> (StreamStatus, StreamStatus, Arc<Mapping>) {
    let bytes = some_bytes();
    let (_, from) = file_of(&bytes);
    let to = Arc::new(Mapping::anonymous(LENGTH).unwrap());
    let (near, far) = UnixStream::pair().unwrap();
    let [near, far] = [near, far].map(|end| Object::stream("connection", end.into()).unwrap());
    let engine = engine();
    let sending =
        StreamBuilder::default().finish_outputs().input(whole(&from), framing()).output(near).build();
    let receiving = StreamBuilder::default().input(far, framing()).output(whole(&to)).build();
    let [sent, received] = [sending, receiving].map(|stream| stream.start(&engine, StreamOptions::default()));
    let [sent, received] =
        [sent, received].map(|running| running.wait_for(PATIENCE).expect("it does not end"));
    assert_eq!((sent.result, received.result), (Ok(()), Ok(())));
    assert!(read(&to) == bytes, "other bytes came");
    (sent.status, received.status, to)
}

/// Promise: Mappings of files and memory can be inputs and outputs, and are sent by reference.
#[test]
fn a_mapping_is_sent_and_received_without_being_looked_at() {
    let (sent, received, _) = carried(|| Framing::Whole);
    let length = LENGTH as u64;
    assert_eq!((sent.bytes_in, sent.zero_copy_bytes), (length, length));
    assert_eq!((received.bytes_out, received.zero_copy_bytes), (length, length));
}

/// Promise: Mappings of files and memory can be inputs and outputs, and are sent by reference.
#[test]
fn records_come_from_a_mapping_and_go_to_one() {
    let (sent, received, _) = carried(|| Framing::Fixed(1001));
    assert_eq!((sent.records_in, sent.zero_copy_bytes), (LENGTH.div_ceil(1001) as u64, 0));
    assert_eq!((received.bytes_out, received.zero_copy_bytes), (LENGTH as u64, 0));
}

/// Promise: Mappings of files and memory can be inputs and outputs, and are sent by reference.
#[test]
fn a_part_of_a_mapping_goes_to_several_and_to_a_part_of_another() {
    let bytes = some_bytes();
    let from = memory_of(&bytes);
    let part = Object::mapping("part", Arc::clone(&from), 4097..1_000_000).unwrap();
    let (file, into) = file_of(&vec![7; 1_000_000]);
    let target = Object::mapping("target", Arc::clone(&into), 100..1_000_000).unwrap();
    let (object, collected) = Object::collect("also", LIMIT);
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .order(InputOrder::Arrival)
        .input(part, Framing::Whole)
        .output(object)
        .output(target)
        .build();
    stream.run().unwrap();
    let part = &bytes[4097..1_000_000];
    assert!(collected.bytes() == part, "other bytes came");
    let mut written = vec![0; 1_000_000];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut written, 0).unwrap();
    assert_eq!(written[..100], [7; 100]);
    assert!(written[100..100 + part.len()] == *part, "the file has other bytes");
    assert_eq!(written[100 + part.len()..], vec![7; 1_000_000 - 100 - part.len()]);
}

/// Promise: A full output mapping is an error and has exactly the counted bytes.
///
/// Like a full disk: the mapping has the first bytes, as counted, and the loss of the rest is reported.
#[test]
fn a_mapping_that_is_full_says_so_and_has_what_is_counted() {
    let bytes = some_bytes();
    for framing in [Framing::Whole, Framing::Fixed(1000)] {
        let to = Arc::new(Mapping::anonymous(10_500).unwrap());
        let (mut near, far) = UnixStream::pair().unwrap();
        let sent = bytes[..40_000].to_vec();
        let writing = thread::spawn(move || near.write_all(&sent).unwrap());
        let mut stream = StreamBuilder::default()
            .input(Object::stream("inlet", far.into()).unwrap(), framing)
            .output(whole(&to))
            .build();
        let error = stream.run().unwrap_err();
        writing.join().unwrap();
        let Object { name, .. } = whole(&to);
        assert_eq!(
            error,
            StreamError::Object(crate::ObjectError { name, call: "writing", errno: Errno::NOSPC })
        );
        let status = stream.status();
        assert_eq!(status.bytes_out, 10_500);
        assert_eq!(read(&to), &bytes[..10_500]);
        let waiting = status.outputs[0].waiting_bytes;
        assert_eq!(status.bytes_in, status.bytes_out + waiting + status.bytes_pending, "{status:?}");
    }
    // Filling a mapping to the last byte is not a failure.
    let to = Arc::new(Mapping::anonymous(3000).unwrap());
    let mut stream = StreamBuilder::default()
        .input(memory(&bytes[..3000]), Framing::Fixed(1000))
        .output(whole(&to))
        .build();
    stream.run().unwrap();
    assert_eq!(read(&to), &bytes[..3000]);
}

/// Promise: Bytes that were copied from a mapping may then be changed in the mapping.
///
/// By reference, the peer would read the contents at the time of its read.
#[test]
fn what_records_or_handlers_have_copied_from_a_mapping_may_be_changed_before_it_is_read() {
    let meter = || Handler::Read(Box::new(crate::handlers::Meter::default()));
    let ways: [(Framing, Vec<Handler>); 3] =
        [(Framing::Fixed(1000), vec![]), (Framing::lines(10_000), vec![]), (Framing::Whole, vec![meter()])];
    for (framing, handlers) in ways {
        let bytes = b"seven..\n".repeat(1024);
        let mapping = memory_of(&bytes);
        let (near, mut far) = UnixStream::pair().unwrap();
        let builder = StreamBuilder::default().input(whole(&mapping), framing);
        let builder = handlers.into_iter().fold(builder, StreamBuilder::handler);
        let mut stream = builder.output(Object::stream("outlet", near.into()).unwrap()).build();
        stream.run().unwrap();
        assert_eq!((stream.status().bytes_out, stream.status().zero_copy_bytes), (8192, 0));
        drop(stream);
        mapping.write(0..8192, &[IoSlice::new(&[b'9'; 8192])]).unwrap();
        let mut read = vec![0; 8192];
        far.read_exact(&mut read).unwrap();
        assert_eq!(read, bytes);
    }
}

/// Promise: Mappings of files and memory can be inputs and outputs, and are sent by reference.
///
/// The written bytes lie before the position of the mapping, and no page after that has to be brought in.
#[test]
fn a_mapping_that_was_written_goes_on_as_an_input_where_it_is() {
    for length in [3000, 5000] {
        let to = Arc::new(Mapping::anonymous(length).unwrap());
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut stream = StreamBuilder::default()
            .input(Object::stream("inlet", far.into()).unwrap(), Framing::Fixed(1000))
            .output(whole(&to))
            .build();
        near.write_all(&[1; 3000]).unwrap();
        let (tell, told) = channel();
        while stream.status().bytes_out < 3000 {
            stream.note_ready(stream.intake.inputs[0].port);
            stream.act(u64::MAX, 0);
            let storage: Vec<_> = stream.take_storage().collect();
            storage.into_iter().for_each(|one| stream.stored(one.run(), wirepath_engine::now_us()).unwrap());
        }
        assert!(
            stream.detach_output(stream.outputs.current[0].port, move |object| tell.send(object).unwrap())
        );
        stream.act(u64::MAX, 0);
        let (output, collected) = Object::collect("out", LIMIT);
        let object = told.try_recv().unwrap();
        let mut other = StreamBuilder::default().input(object, Framing::Whole).output(output).build();
        assert_eq!(other.run(), Ok(()));
        assert_eq!(collected.bytes(), vec![0; length - 3000]);
    }
}

/// Promise: If a mapped file is truncated, its stream ends with an error, not the process.
///
/// A reader that accesses the pages itself would be killed by `SIGBUS`.
#[test]
fn a_file_that_is_cut_under_its_mapping_ends_the_stream_and_nothing_else() {
    for framing in [Framing::Whole, Framing::Fixed(1000)] {
        let (file, from) = file_of(&some_bytes());
        let (near, far) = UnixStream::pair().unwrap();
        let mut stream = StreamBuilder::default()
            .input(whole(&from), framing)
            .output(Object::stream("outlet", near.into()).unwrap())
            .build();
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait), "it waits to be brought in");
        file.set_len(8192).unwrap();
        let reading = thread::spawn(move || {
            let mut bytes = Vec::new();
            (&far).read_to_end(&mut bytes).unwrap();
        });
        let error = stream.run().unwrap_err();
        assert!(matches!(&error, StreamError::Object(error) if error.errno == Errno::FAULT), "{error}");
        drop(stream);
        reading.join().unwrap();
    }
    let (file, to) = file_of(&[7; 100_000]);
    file.set_len(8192).unwrap();
    let mut stream = StreamBuilder::default()
        .input(memory(&[1; 100_000]), Framing::Fixed(1000))
        .output(whole(&to))
        .build();
    let error = stream.run().unwrap_err();
    assert_eq!(error.to_string(), "mapping: writing: Bad address (os error 14)");
}

/// Promise: The pages of a mapping are loaded before an engine thread sends them.
#[test]
fn nothing_of_a_mapping_is_read_or_written_on_an_engine_thread_before_it_is_in_memory() {
    let bytes = some_bytes();
    let (from, to) = (memory_of(&bytes), Arc::new(Mapping::anonymous(LENGTH).unwrap()));
    for framing in [Framing::Whole, Framing::Fixed(100_000)] {
        let mut stream = StreamBuilder::default().input(whole(&from), framing).output(whole(&to)).build();
        let (mut warmed, mut written) = (0, 0);
        loop {
            match stream.act(u64::MAX, 0).0 {
                Acted::Wait => {}
                Acted::More => continue,
                acted => {
                    assert!(matches!(acted, Acted::Ended(Ok(()))), "{acted:?}");
                    break;
                }
            }
            let storage: Vec<_> = stream.take_storage().collect();
            assert!(!storage.is_empty(), "it waits for nothing");
            for one in storage {
                let is_warming = matches!(one.job, Job::Warm(_));
                warmed += usize::from(is_warming);
                written += usize::from(!is_warming);
                stream.stored(one.run(), wirepath_engine::now_us()).unwrap();
            }
        }
        assert_eq!(warmed, LENGTH.div_ceil(2 << 20), "each part is brought in once");
        assert!(written > 0 && read(&to) == bytes);
    }
}

/// Promise: A range outside its mapping is refused.
#[test]
fn a_range_that_does_not_lie_in_its_mapping_is_refused() {
    let mapping = Arc::new(Mapping::anonymous(4096).unwrap());
    for range in [0..4097, 5000..6000, std::ops::Range { start: 3, end: 2 }] {
        let error = Object::mapping("mapping", Arc::clone(&mapping), range).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
    }
}
