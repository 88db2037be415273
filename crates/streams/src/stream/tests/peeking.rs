//! Handlers that peek at bytes that move without copies.

use super::measured;
use super::zero_copy::{join, sinks, some_bytes, source};
use super::*;
use crate::{Common, HandlerError, InputOrder, MAX_PEEK_BYTES, Peek, Piece, Read, Verdict};
use parking_lot::Mutex;
use proptest::prelude::*;

/// Keeps the heads of records, and drops records with certain bits in the first byte.
pub(super) struct Heads {
    pub(super) length: usize,
    pub(super) seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

pub(super) fn passes(head: &[u8]) -> bool {
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

/// Keeps all bytes, by record.
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

pub(super) fn file(bytes: &[u8]) -> Object {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Object::file("file", Arc::new(file), 0)
}

fn expected(bytes: &[u8], record_bytes: usize) -> Vec<u8> {
    bytes.chunks(record_bytes).filter(|record| passes(record)).flatten().copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Promise: If a handler only peeks at the beginning of records, the rest moves without a copy.
    ///
    /// For any input, record size and arrival: the handler sees each beginning once, and records that it
    /// drops are not sent.
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

    /// Promise: Handlers read, select or rewrite whole records or pieces, in order.
    ///
    /// Handlers see the bytes of a file before they are sent from the page cache, of records and of a byte
    /// stream.
    #[test]
    fn files_are_seen_before_they_are_sent(record_bytes in 32_768usize..300_000, is_framed: bool) {
        let mut bytes = some_bytes(1_000_003);
        bytes[0] |= 1; // a byte stream is one record, which passes
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
        let pairs = seen.iter().zip(bytes.chunks(record_bytes));
        for (seen, record) in pairs.filter(|(_, record)| passing(record)) {
            prop_assert!(&seen[..] == record, "{} of {} bytes were seen", seen.len(), record.len());
        }
    }
}

/// Promise: If a handler only peeks at the beginning of records, the rest moves without a copy.
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

/// Promise: A failed handler ends its stream; records after the one at which it failed are not sent.
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

/// A handler that requests more bytes than the limit sees as many as the limit.
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
    assert_eq!(seen.lock().iter().map(Vec::len).collect::<Vec<_>>(), [MAX_PEEK_BYTES; 2]);
    assert!(output.bytes() == expected(&bytes, 100_000));
}

type MakeFraming = fn() -> Framing;

/// A change of a stream that has sent a part of the bytes that its handler has seen.
#[derive(Clone, Copy, Debug)]
enum Change {
    AddWholeRecordHandler,
    AttachDatagramOutput,
    DetachInput,
}

/// A stream from a file to a full connection, whose handler has seen bytes that have not left; and the other
/// end of the connection.
fn partly_sent(handler: Handler, bytes: &[u8], framing: Framing) -> (Stream, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .handler(handler)
        .input(file(bytes), framing)
        .output(Object::stream("sink", near.into()).unwrap())
        .build();
    while !matches!(stream.act(u64::MAX, 0).0, Acted::Wait) {}
    assert!(stream.status().zero_copy_bytes > 0);
    (stream, far)
}

fn read_all(mut end: UnixStream) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut came = Vec::new();
        end.read_to_end(&mut came).map(|_| came).unwrap()
    })
}

/// Promise: Bytes that a handler has seen are sent once, also if something is attached, added or detached
/// meanwhile.
#[test]
fn what_a_handler_has_seen_leaves_once_though_the_stream_changes_before() {
    let mut plain = some_bytes(1_000_003);
    plain.iter_mut().for_each(|byte| *byte |= 1); // all records pass
    let sized = measured::records(&[100_001; 10]).concat();
    let framings: [(&str, MakeFraming, &[u8]); 3] = [
        ("whole", || Framing::Whole, &plain),
        ("fixed", || Framing::Fixed(100_000), &plain),
        ("measured", measured::framing, &sized),
    ];
    for change in [Change::AddWholeRecordHandler, Change::AttachDatagramOutput, Change::DetachInput] {
        for (name, framing, bytes) in framings {
            let what = format!("{change:?}, {name}");
            let seen = Arc::<Mutex<Vec<Vec<u8>>>>::default();
            let handler = Handler::Read(Box::new(All(Arc::clone(&seen), usize::MAX)));
            let (mut stream, sink) = partly_sent(handler, bytes, framing());
            assert!(stream.intake.has_seen(), "{what}");
            let (late, (sender, receiver)) = (Arc::<Mutex<Vec<Vec<u8>>>>::default(), channel());
            let receiving = UdpSocket::bind("127.0.0.1:0").unwrap();
            match change {
                Change::AddWholeRecordHandler => {
                    stream.add_handler(Handler::Read(Box::new(Whole(Arc::clone(&late)))));
                }
                Change::AttachDatagramOutput => {
                    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                    socket.connect(receiving.local_addr().unwrap()).unwrap();
                    let object = Object::datagrams("udp", socket.into(), None, None).unwrap();
                    stream.attach_output(object, OutputOptions::default());
                }
                Change::DetachInput => {
                    assert!(stream.detach_input(Port(1), move |object| drop(sender.send(object))));
                }
            }
            // The stream does not end while it expects a connection.
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let listener = Object::listening("listener", listener.into(), None).unwrap();
            let expected = stream.attach_input(listener, Framing::Whole).unwrap();
            let reader = read_all(sink);
            if matches!(change, Change::DetachInput) {
                while stream.intake.inputs.len() == 1 {
                    stream.note_ready(Port(0));
                    assert!(!matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Err(_))), "{what}");
                }
                // The rest comes from the same object, to the same handler.
                let object = receiver.recv().unwrap();
                if let Err(late) = stream.attach_input(object, framing()) {
                    panic!("{what}: {late}");
                }
            }
            assert!(stream.detach_input(expected, drop));
            stream.run().unwrap();
            drop(stream);
            assert!(reader.join().unwrap() == bytes, "{what}: other bytes came");
            assert!(seen.lock().concat() == bytes, "{what}: the handler saw other bytes");
            let late = late.lock().concat();
            assert!(bytes.ends_with(&late), "{what}: the handler that came later saw other bytes");
            assert!(late.is_empty() != matches!(change, Change::AddWholeRecordHandler), "{what}");
        }
    }
}

/// Takes whole records, and keeps them.
struct Whole(Arc<Mutex<Vec<Vec<u8>>>>);

impl Common for Whole {
    fn name(&self) -> &'static str {
        "whole"
    }

    fn reach(&self) -> crate::Reach {
        crate::Reach::Records { limit: 16 << 20 }
    }
}

impl Read for Whole {
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        assert!(piece.begins && piece.ends, "it takes whole records");
        self.0.lock().push(piece.bytes.to_vec());
        Ok(Verdict::Pass)
    }
}

/// Promise: Bytes that a handler has seen are sent once, also if something is attached, added or detached
/// meanwhile.
///
/// No byte of a byte stream has left when a second handler ends the zero-copy route.
#[test]
fn a_stream_of_bytes_that_a_handler_saw_begin_comes_though_nothing_of_it_has_left() {
    let mut bytes = some_bytes(300_000);
    bytes[0] |= 1;
    let (near, far) = UnixStream::pair().unwrap();
    let seen = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .handler(Handler::Read(Box::new(All(Arc::clone(&seen), usize::MAX))))
        .input(file(&bytes), Framing::Whole)
        .output(Object::stream("sink", near.into()).unwrap())
        .build();
    stream.outputs.current[0].writable = false; // as if it were full
    while !matches!(stream.act(u64::MAX, 0).0, Acted::Wait) {}
    assert_eq!((stream.status().bytes_in, seen.lock().len()), (0, 1));
    stream.add_handler(Handler::Read(Box::new(crate::handlers::Meter::default())));
    stream.note_ready(Port(0));
    let reader = read_all(far);
    stream.run().unwrap();
    drop(stream);
    assert!(reader.join().unwrap() == bytes && seen.lock().concat() == bytes);
}

/// Promise: If a handler only peeks at the beginning of records, the rest moves without a copy.
///
/// From sockets, too: only the head of each record is copied.
#[test]
fn records_of_a_socket_move_without_a_copy_behind_their_heads() {
    const RECORD: usize = 64 * 1024;
    let bytes: Vec<u8> = some_bytes(20 * RECORD)
        .chunks(RECORD)
        .flat_map(|record| {
            let mut record = record.to_vec();
            record[0] |= 1;
            record
        })
        .collect();
    let (mut feed, inlet) = UnixStream::pair().unwrap();
    let (near, mut far) = UnixStream::pair().unwrap();
    let seen = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let mut stream = StreamBuilder::default()
        .handler(Handler::Peek(Box::new(Heads { length: 16, seen: Arc::clone(&seen) })))
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(RECORD))
        .output(Object::stream("sink", near.into()).unwrap())
        .build();
    for record in bytes.chunks(RECORD) {
        feed.write_all(record).unwrap();
        (0..2).for_each(|port| stream.note_ready(Port(port)));
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        let mut came = vec![0; RECORD];
        far.read_exact(&mut came).unwrap();
        assert!(came == record);
    }
    let status = stream.status();
    let copied = status.bytes_in - status.zero_copy_bytes;
    assert_eq!((status.bytes_in, copied, status.records_in), (bytes.len() as u64, 0, 20));
    let heads: Vec<Vec<u8>> = bytes.chunks(RECORD).map(|record| record[..16].to_vec()).collect();
    assert_eq!(*seen.lock(), heads);
}

/// Refuses records that begin with an even byte.
struct Refuses;

impl Common for Refuses {
    fn name(&self) -> &'static str {
        "refuses"
    }
}

impl Peek for Refuses {
    fn length(&self) -> usize {
        1
    }

    fn peek(&mut self, head: &[u8]) -> Result<Verdict, HandlerError> {
        match head {
            [first, ..] if first % 2 == 0 => Err(HandlerError::Refused("it is even".to_owned())),
            _ => Ok(Verdict::Pass),
        }
    }
}

/// Promise: A datagram that a handler refuses is dropped and counted; the first is reported.
///
/// The same holds for records of a file that is attached after the datagram input, at which the handler
/// peeks.
#[test]
fn the_first_refusal_is_reported_where_a_handler_peeks_too() {
    let records: Vec<u8> = (0..4u8).flat_map(|number| vec![number; 40_000]).collect();
    let (_sender, inlet) = datagrams();
    let (near, far) = UnixStream::pair().unwrap();
    let (builder, told) = events(StreamBuilder::default());
    let mut stream = builder
        .handler(Handler::Peek(Box::new(Refuses)))
        .input(inlet, Framing::Whole)
        .output(Object::stream("sink", near.into()).unwrap())
        .build();
    let reader = read_all(far);
    stream.attach_input(file(&records), Framing::Fixed(40_000)).unwrap();
    assert!(stream.detach_input(Port(1), drop));
    stream.run().unwrap();
    let status = stream.status();
    drop(stream);
    assert_eq!(reader.join().unwrap(), [vec![1; 40_000], vec![3; 40_000]].concat());
    assert!(status.zero_copy_bytes > 0 && status.reports == [("refuses", "refused", 2)], "{status:?}");
    let refused: Vec<String> = told
        .try_iter()
        .filter_map(|event| match event {
            StreamEvent::RecordRefused { by, error } => Some(format!("{by}: {error}")),
            _ => None,
        })
        .collect();
    assert_eq!(refused, ["handler refuses: it is even"]);
}
