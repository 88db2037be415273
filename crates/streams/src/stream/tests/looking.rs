//! Handlers that look at bytes which move without copies.

use super::zero_copy::{join, sinks, some_bytes, source};
use super::*;
use crate::{Common, HandlerError, InputOrder, MOST_PEEKED, Peek, Piece, Read, Verdict};
use parking_lot::Mutex;
use proptest::prelude::*;

/// Sees heads, keeps them, and drops records of which a byte of the head has a bit.
struct Heads {
    length: usize,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

fn passes(head: &[u8]) -> bool {
    head.first().is_none_or(|byte| byte & 3 > 0)
}

impl Common for Heads {
    fn name(&self) -> &'static str {
        "heads"
    }
}

impl Peek for Heads {
    fn length(&self) -> usize {
        self.length
    }

    fn peek(&mut self, head: &[u8]) -> Result<Verdict, HandlerError> {
        self.seen.lock().push(head.to_vec());
        Ok(if passes(head) { Verdict::Pass } else { Verdict::Drop })
    }
}

/// Sees all bytes, and keeps them by record.
struct All(Arc<Mutex<Vec<Vec<u8>>>>, usize);

impl Common for All {
    fn name(&self) -> &'static str {
        "all"
    }
}

impl Read for All {
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        let mut seen = self.0.lock();
        if piece.begins {
            seen.push(Vec::new());
        }
        let record = seen.last_mut().ok_or(HandlerError::Failed("no record has begun".to_owned()))?;
        record.extend_from_slice(piece.bytes);
        self.1 -= piece.bytes.len().min(self.1);
        if self.1 == 0 {
            return Err(HandlerError::Failed("enough".to_owned()));
        }
        Ok(if passes(record) { Verdict::Pass } else { Verdict::Drop })
    }
}

fn file(bytes: &[u8]) -> Object {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Object::file("file", Arc::new(file), 0)
}

fn expected(bytes: &[u8], record_bytes: usize) -> Vec<u8> {
    bytes.chunks(record_bytes).filter(|record| passes(record)).flatten().copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Promise: Handlers that look at the beginning of records have the others move without copies.
    ///
    /// Whatever the input, the size of records and how they come: the handler sees each beginning once, and
    /// what it drops goes nowhere.
    #[test]
    fn beginnings_of_records_are_seen_once_and_the_rest_moves_unseen(
        length in 1usize..2000,
        record_bytes in 32_768usize..100_000,
        at_a_time in 1000usize..200_000,
        is_file: bool,
    ) {
        let bytes = some_bytes(1_000_003);
        let seen = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let input = if is_file { file(&bytes) } else { source(&bytes, at_a_time) };
        let (outputs, readers) = sinks(1);
        let builder = StreamBuilder::default()
            .handler(Handler::Peek(Box::new(Heads { length, seen: Arc::clone(&seen) })))
            .input(input, Framing::Fixed(record_bytes));
        let mut stream = outputs.into_iter().fold(builder.finish_outputs(), StreamBuilder::output).build();
        stream.run().unwrap();
        let status = stream.status();
        drop(stream);
        let heads: Vec<Vec<u8>> =
            bytes.chunks(record_bytes).map(|record| record[..length.min(record.len())].to_vec()).collect();
        prop_assert_eq!(&*seen.lock(), &heads);
        let expected = expected(&bytes, record_bytes);
        prop_assert!(join(readers)[0] == expected);
        prop_assert_eq!((status.bytes_in, status.records_in), (1_000_003, heads.len() as u64));
        if is_file {
            let last = 1_000_003 % record_bytes as u64;
            prop_assert!(status.zero_copy_bytes + last >= expected.len() as u64, "{:?}", status);
        }
    }

    /// Promise: Handlers read, select or rewrite, in order, whole records or pieces.
    ///
    /// The bytes of a file are seen before they are sent from the page cache, of records and of a stream of
    /// bytes.
    #[test]
    fn files_are_seen_before_they_are_sent(record_bytes in 32_768usize..300_000, is_framed: bool) {
        let mut bytes = some_bytes(1_000_003);
        bytes[0] |= 1; // a stream of bytes is one record, which passes
        let seen = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let (outputs, readers) = sinks(1);
        let framing = if is_framed { Framing::Fixed(record_bytes) } else { Framing::Whole };
        let builder = StreamBuilder::default()
            .handler(Handler::Read(Box::new(All(Arc::clone(&seen), usize::MAX))))
            .input(file(&bytes), framing);
        let mut stream = outputs.into_iter().fold(builder.finish_outputs(), StreamBuilder::output).build();
        stream.run().unwrap();
        let status = stream.status();
        drop(stream);
        let record_bytes = if is_framed { record_bytes } else { bytes.len() };
        let expected = expected(&bytes, record_bytes);
        prop_assert!(join(readers)[0] == expected);
        prop_assert_eq!(status.zero_copy_bytes, expected.len() as u64);
        let passing = |record: &&[u8]| passes(record);
        let seen = seen.lock();
        prop_assert_eq!(seen.len(), bytes.chunks(record_bytes).count());
        for (seen, record) in seen.iter().zip(bytes.chunks(record_bytes)).filter(|(_, record)| passing(record)) {
            prop_assert!(&seen[..] == record, "{} of {} bytes were seen", seen.len(), record.len());
        }
    }
}

/// Promise: Handlers that look at the beginning of records have the others move without copies.
#[test]
fn beginnings_are_seen_whatever_stands_before_and_however_records_come() {
    for (framing, order) in
        [(Framing::Fixed(1000), InputOrder::Arrival), (Framing::lines(5000), InputOrder::RoundRobin)]
    {
        let bytes = some_bytes(300_000);
        let records: Vec<&[u8]> = match framing {
            Framing::Fixed(length) => bytes.chunks(length).collect(),
            _ => bytes.split_inclusive(|byte| *byte == b'\n').collect(),
        };
        let seen = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let (object, output) = Object::collect("out", LIMIT);
        let mut stream = StreamBuilder::default()
            .order(order)
            .handler(Handler::Peek(Box::new(Heads { length: 700, seen: Arc::clone(&seen) })))
            .input(source(&bytes, 333), framing)
            .output(object)
            .build();
        stream.run().unwrap();
        let heads: Vec<Vec<u8>> =
            records.iter().map(|record| record[..700.min(record.len())].to_vec()).collect();
        assert!(*seen.lock() == heads);
        let passed: Vec<u8> =
            records.iter().filter(|record| passes(record)).copied().flatten().copied().collect();
        assert!(output.bytes() == passed);
    }
}

/// Promise: A failed handler ends its stream; nothing behind the record at which it failed is sent.
#[test]
fn a_handler_that_fails_has_nothing_sent_that_it_did_not_see() {
    let mut bytes = some_bytes(1_000_000);
    bytes[0] |= 1;
    let (outputs, readers) = sinks(1);
    let builder = StreamBuilder::default()
        .handler(Handler::Read(Box::new(All(Arc::default(), 300_000))))
        .input(file(&bytes), Framing::Whole);
    let mut stream = outputs.into_iter().fold(builder, StreamBuilder::output).build();
    let error = stream.run().unwrap_err();
    assert_eq!(error.to_string(), "handler all: enough");
    drop(stream);
    let came = join(readers).remove(0);
    assert!(came.len() < 300_000 && bytes.starts_with(&came), "{} bytes came", came.len());
}

/// A handler that wants more than may be seen gets as much as may be.
#[test]
fn no_more_than_the_most_is_seen() {
    let bytes = some_bytes(200_000);
    let seen = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let (object, output) = Object::collect("out", LIMIT);
    let mut stream = StreamBuilder::default()
        .handler(Handler::Peek(Box::new(Heads { length: usize::MAX, seen: Arc::clone(&seen) })))
        .input(source(&bytes, 50_000), Framing::Fixed(100_000))
        .output(object)
        .build();
    stream.run().unwrap();
    assert_eq!(seen.lock().iter().map(Vec::len).collect::<Vec<_>>(), [MOST_PEEKED; 2]);
    assert!(output.bytes() == expected(&bytes, 100_000));
}
