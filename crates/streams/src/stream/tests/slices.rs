//! Handlers that take whole records in slices, on all routes of records.

use std::fs::File;
use std::ops::Range;
use std::thread;

use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::handlers::{Key, Open, Prefix, Seal, Unprefix};
use crate::{Common, HandlerError, Late, Piece, Reach, Read, Verdict};

const LONGEST: usize = 1 << 20;

/// Keeps the addresses of the bytes that it sees, and the largest number of slices of a piece.
struct Place {
    reach: Reach,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// Ranges of addresses, adjacent ones merged.
    ranges: Vec<Range<usize>>,
    most_slices: usize,
}

impl Common for Place {
    fn name(&self) -> &'static str {
        "place"
    }

    fn reach(&self) -> Reach {
        self.reach
    }
}

impl Read for Place {
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        let mut seen = self.seen.lock();
        seen.most_slices = seen.most_slices.max(piece.slices().count());
        for slice in piece.slices() {
            let Range { start, end } = slice.as_ptr_range();
            let (start, end) = (start.addr(), end.addr());
            match seen.ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => seen.ranges.push(start..end),
            }
        }
        Ok(Verdict::Pass)
    }
}

fn place(reach: Reach) -> (Handler, Arc<Mutex<Seen>>) {
    let seen = Arc::default();
    (Handler::Read(Box::new(Place { reach, seen: Arc::clone(&seen) })), seen)
}

/// Records of these lengths, each with a length prefix, concatenated in order.
fn framed(lengths: &[usize]) -> Vec<u8> {
    let record = |(index, length): (usize, &usize)| {
        let body = (0..*length).map(move |at| (at * 7 + index) as u8);
        (*length as u32).to_be_bytes().into_iter().chain(body).collect::<Vec<u8>>()
    };
    lengths.iter().enumerate().flat_map(record).collect()
}

/// Framing of these records: the prefix counts the bytes after it.
fn framing() -> Framing {
    let measure =
        |bytes: &[u8], _| Ok(bytes.first_chunk().map(|length| 4 + u32::from_be_bytes(*length) as usize));
    Framing::With { limit: LONGEST, measure: Box::new(measure) }
}

/// Input over a TCP connection, which is written in parts of these lengths in turn.
pub(super) fn tcp(bytes: Vec<u8>, parts: Vec<usize>) -> Object {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    thread::spawn(move || {
        let (mut rest, mut parts) = (&bytes[..], parts.iter().cycle());
        while let Some(part) = parts.next().filter(|_| !rest.is_empty()) {
            let (first, behind) = rest.split_at(rest.len().min(*part));
            near.write_all(first).unwrap();
            rest = behind;
        }
    });
    Object::stream("tcp", listener.accept().unwrap().0.into()).unwrap()
}

fn file(bytes: &[u8]) -> Object {
    let stored = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(stored.path(), bytes).unwrap();
    Object::file("file", Arc::new(File::open(stored.path()).unwrap()), 0)
}

/// Promise: Handlers receive whole records as slices, without a copy.
///
/// A handler of the stream, or of an output of a mirror, sees records that several reads brought in the
/// memory of these reads.
#[test]
fn a_handler_that_takes_slices_sees_bytes_where_they_were_read() {
    let bytes = framed(&[500_000, 3, 0, 700_000, 200_000, 400_000]);
    for input in [tcp(bytes.clone(), vec![60_000]), file(&bytes)] {
        let (as_read, read) = place(Reach::Pieces);
        let ((of_stream, seen), (of_output, seen_there)) =
            (place(Reach::Slices { limit: LONGEST }), place(Reach::Slices { limit: LONGEST }));
        let (objects, collected) = collects(2);
        let handlers = [vec![], vec![of_output]];
        let mut builder = StreamBuilder::default().pattern(OutputPattern::Mirror);
        for (object, handlers) in objects.into_iter().zip(handlers) {
            builder = builder.output_with(object, OutputOptions { handlers, ..OutputOptions::default() });
        }
        builder.handler(as_read).handler(of_stream).input(input, framing()).build().run().unwrap();
        assert!(collected.iter().all(|collected| collected.bytes() == bytes));
        let read = read.lock();
        for seen in [seen.lock(), seen_there.lock()] {
            assert!(seen.most_slices > 1, "each record was read at once");
            assert!(seen.ranges == read.ranges, "bytes were copied");
        }
    }
}

/// Runs a stream whose handlers transform records and transform them back; returns its output.
fn through(input: Object, order: fn() -> StreamBuilder, handlers: Vec<Handler>, by_output: bool) -> Vec<u8> {
    let (object, collected) = Object::collect("out", LIMIT);
    let mut builder = order();
    let mut of_output = Vec::new();
    for handler in handlers {
        if by_output {
            of_output.push(handler);
        } else {
            builder = builder.handler(handler);
        }
    }
    let options = OutputOptions { handlers: of_output, ..OutputOptions::default() };
    builder.input(input, framing()).output_with(object, options).build().run().unwrap();
    collected.bytes()
}

fn by_tag() -> StreamBuilder {
    StreamBuilder::default().order_by_tag(10, LONGEST, Late::Drop, |_| None)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Promise: Handlers receive whole records as slices, without a copy.
    ///
    /// For records of any length, in any parts.
    #[test]
    fn handlers_that_take_slices_make_of_records_what_they_are_to(
        lengths in proptest::collection::vec(prop_oneof![0usize..2000, 100_000usize..400_000], 1..8),
        parts in proptest::collection::vec(1usize..150_000, 1..5),
        stored in any::<bool>(),
        by_output in any::<bool>(),
        is_merged in any::<bool>(),
    ) {
        let bytes = framed(&lengths);
        let key = Key::new(&[7; 32]);
        let handlers: Vec<Handler> = vec![
            Handler::Select(Box::new(Unprefix::default())),
            Handler::Rewrite(Box::new(Seal::new(key.clone(), LONGEST).unwrap())),
            Handler::Rewrite(Box::new(Open::new(key, LONGEST))),
            Handler::Select(Box::new(Prefix::new(LONGEST))),
        ];
        let input = if stored { file(&bytes) } else { tcp(bytes.clone(), parts) };
        let order = if is_merged { by_tag } else { StreamBuilder::default };
        prop_assert!(through(input, order, handlers, by_output) == bytes);
    }
}

/// Promise: Every byte read is delivered, pending, returned, filtered or counted as dropped.
///
/// The bytes that came of a record in slices that was never complete.
#[test]
fn slices_of_a_record_that_its_input_ends_within_are_not_sent() {
    let bytes = framed(&[300_000]);
    let (handler, seen) = place(Reach::Slices { limit: LONGEST });
    let (object, collected) = Object::collect("out", LIMIT);
    let mut stream = StreamBuilder::default()
        .handler(handler)
        .input(memory(&bytes[..200_000]), framing())
        .output(object)
        .build();
    let error = stream.run().unwrap_err().to_string();
    assert!(error.contains("the input ends within a record, after 200000 of its bytes"), "{error}");
    let status = stream.status();
    assert_eq!((status.bytes_in, status.bytes_pending + status.bytes_dropped), (200_000, 200_000));
    assert!(collected.bytes().is_empty() && seen.lock().ranges.is_empty());
}

/// Promise: Handlers receive whole records as slices, without a copy.
///
/// Undivided bytes form one record, up to the length that the handler takes.
#[test]
fn a_stream_of_bytes_is_one_record_in_slices() {
    for (limit, expected) in [(400_000, Ok(())), (399_999, Err(()))] {
        let (handler, seen) = place(Reach::Slices { limit });
        let (object, collected) = Object::collect("out", LIMIT);
        let mut stream = StreamBuilder::default()
            .handler(handler)
            .input(tcp(vec![7; 400_000], vec![50_000]), Framing::Whole)
            .output(object)
            .build();
        assert_eq!(stream.run().map_err(drop), expected);
        let bytes: usize = seen.lock().ranges.iter().map(Range::len).sum();
        assert_eq!((bytes, collected.bytes().len()), expected.map_or((0, 0), |()| (400_000, 400_000)));
    }
}
