//! Handlers that are controlled, removed, replaced, or exceed their declared bounds, while their stream runs.

use std::any::Any;
use std::sync::mpsc::Receiver;

use parking_lot::Mutex;

use super::*;
use crate::{Common, HandlerChangeError, HandlerError, HandlerId, Piece, PieceMut, Reach, Verdict};

/// Combines each byte with a mask that control messages set, and logs the order of its calls.
struct Masking {
    mask: u8,
    state_bytes: usize,
    log: Arc<Mutex<Vec<String>>>,
}

impl Common for Masking {
    fn name(&self) -> &'static str {
        "masking"
    }

    fn state_limit(&self) -> usize {
        10
    }

    fn state_bytes(&self) -> usize {
        self.state_bytes
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn control(&mut self, message: &[u8]) -> Result<Vec<u8>, HandlerError> {
        self.log.lock().push(format!("control {}", message.escape_ascii()));
        match message {
            [b'm', mask] => Ok(vec![std::mem::replace(&mut self.mask, *mask)]),
            b"grow" => {
                self.state_bytes = 11;
                Ok(Vec::new())
            }
            b"fail" => Err(HandlerError::Failed("as it was told".to_owned())),
            b"panic" => panic!("as it was told"),
            _ => Err(HandlerError::Refused("unknown message".to_owned())),
        }
    }
}

impl crate::Modify for Masking {
    fn modify(&mut self, piece: PieceMut<'_>) -> Result<Verdict, HandlerError> {
        self.log.lock().push(format!("piece {} {}", piece.begins, piece.ends));
        piece.bytes.iter_mut().for_each(|byte| *byte ^= self.mask);
        Ok(Verdict::Pass)
    }
}

type Log = Arc<Mutex<Vec<String>>>;

fn masking(mask: u8) -> (Handler, Log) {
    let log = Log::default();
    (Handler::Modify(Box::new(Masking { mask, state_bytes: 0, log: Arc::clone(&log) })), log)
}

/// A stream from a socket to memory, with a handler of the stream; returns both ends as well.
fn stream_with(handler: Handler, framing: Framing) -> (Stream, UnixStream, Collected) {
    let (feed, inlet) = UnixStream::pair().unwrap();
    let (object, collected) = Object::collect("out", LIMIT);
    let stream = StreamBuilder::default()
        .handler(handler)
        .input(Object::stream("inlet", inlet.into()).unwrap(), framing)
        .output(object)
        .build();
    (stream, feed, collected)
}

fn feed(stream: &mut Stream, feed: &mut UnixStream, bytes: &[u8]) {
    feed.write_all(bytes).unwrap();
    stream.note_ready(Port(1));
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
}

/// Sends a control message; the receiver gets the answer.
fn control(stream: &mut Stream, message: &[u8]) -> Receiver<Result<Vec<u8>, HandlerError>> {
    let (sender, receiver) = channel();
    let message = Bytes::copy_from_slice(message);
    stream.control_handler(HandlerId(0), message, move |answer| drop(sender.send(answer))).unwrap();
    receiver
}

/// Promise: Control messages reach a handler between two records and are answered.
#[test]
fn a_control_message_waits_for_the_end_of_the_record_and_is_answered() {
    let (handler, log) = masking(0);
    let (mut stream, mut source, collected) = stream_with(handler, Framing::Fixed(4));
    assert_eq!(control(&mut stream, b"m\x01").recv().unwrap(), Ok(vec![0]), "nothing has begun");
    feed(&mut stream, &mut source, b"aaaaaa");
    let answer = control(&mut stream, b"m\x20");
    let refused = control(&mut stream, b"what");
    assert!(answer.try_recv().is_err(), "a record goes by");
    feed(&mut stream, &mut source, b"aabbbb");
    assert_eq!(answer.recv().unwrap(), Ok(vec![1]));
    assert_eq!(refused.recv().unwrap(), Err(HandlerError::Refused("unknown message".to_owned())));
    assert_eq!(collected.bytes(), b"````````BBBB");
    let expected = [
        r"control m\x01",
        "piece true true",
        "piece true false",
        "piece false true",
        "control m ",
        "control what",
        "piece true true",
    ];
    assert_eq!(*log.lock(), expected);
}

/// Promise: Control messages reach a handler between two records and are answered.
///
/// A byte stream has no record boundary to wait for.
#[test]
fn a_handler_of_a_stream_of_bytes_is_changed_at_once() {
    let (handler, _) = masking(0);
    let (mut stream, mut source, collected) = stream_with(handler, Framing::Whole);
    feed(&mut stream, &mut source, b"aa");
    assert_eq!(control(&mut stream, b"m\x20").recv().unwrap(), Ok(vec![0]));
    feed(&mut stream, &mut source, b"aa");
    let (sender, receiver) = channel();
    stream.remove_handler(HandlerId(0), move |handler| sender.send(handler.name()).unwrap()).unwrap();
    assert_eq!(receiver.recv().unwrap(), "masking");
    feed(&mut stream, &mut source, b"aa");
    drop(source);
    stream.note_ready(Port(1));
    stream.run().unwrap();
    assert_eq!(collected.bytes(), b"aaAAaa");
}

/// Promise: A stream shows its handlers, by their types, and which changes of them wait for the end of a record.
#[test]
fn handlers_of_a_type_are_found_and_changes_that_wait_are_shown() {
    let masks = |stream: &Stream| -> Vec<u8> {
        let masking = |handler: &Handler| Some(handler.as_any()?.downcast_ref::<Masking>()?.mask);
        stream.handlers().filter_map(masking).collect()
    };
    let (mut stream, mut source, _) = stream_with(masking(1).0, Framing::Fixed(4));
    stream.add_handler(Handler::Read(Box::new(crate::handlers::Meter::default())));
    stream.add_handler(masking(2).0);
    assert_eq!((stream.handlers().count(), masks(&stream)), (3, vec![1, 2]));
    feed(&mut stream, &mut source, b"aa");
    stream.replace_handler(HandlerId(0), masking(3).0, drop).unwrap();
    assert_eq!((stream.has_waiting_changes(), masks(&stream)), (true, vec![1, 2]));
    stream.control_handler(HandlerId(2), &b"m\x04"[..], drop).unwrap();
    stream.remove_handler(HandlerId(0), drop).unwrap();
    let waiting = |stream: &Stream| -> Vec<Vec<&'static str>> {
        let names =
            |handler: crate::HandlerStatus| handler.waiting.iter().map(|change| change.name()).collect();
        stream.status().handlers.into_iter().map(names).collect()
    };
    assert_eq!(waiting(&stream), [vec!["replace", "remove"], vec![], vec!["control"]]);
    feed(&mut stream, &mut source, b"aa");
    assert_eq!((stream.has_waiting_changes(), masks(&stream)), (false, vec![4]));
    assert!(waiting(&stream).iter().all(Vec::is_empty));
}

/// Promise: Handlers are removed and replaced between two records while the stream runs.
#[test]
fn a_handler_is_replaced_and_removed_behind_the_current_record() {
    let (handler, _) = masking(1);
    let (mut stream, mut source, collected) = stream_with(handler, Framing::Fixed(4));
    feed(&mut stream, &mut source, b"aa");
    let (sender, receiver) = channel();
    let (other, _) = masking(0x20);
    let removed = sender.clone();
    stream.replace_handler(HandlerId(0), other, move |_| removed.send("replaced").unwrap()).unwrap();
    assert!(receiver.try_recv().is_err(), "a record goes by");
    feed(&mut stream, &mut source, b"aaaaaaaa");
    assert_eq!((receiver.recv().unwrap(), collected.bytes()), ("replaced", b"````AAAAAA".to_vec()));
    stream.remove_handler(HandlerId(0), move |_| sender.send("removed").unwrap()).unwrap();
    assert!(receiver.try_recv().is_err(), "a record goes by");
    feed(&mut stream, &mut source, b"aaaaaa");
    assert_eq!((receiver.recv().unwrap(), collected.bytes()), ("removed", b"````AAAAAAAAaaaa".to_vec()));
    assert!(stream.status().handlers.is_empty());
    let missing = stream.remove_handler(HandlerId(0), drop);
    assert_eq!(missing, Err(HandlerChangeError::Missing(HandlerId(0))));
    let words = missing.unwrap_err().to_string();
    assert!(words.starts_with("no handler 0"), "{words}");
}

/// Promise: Handlers are removed and replaced between two records while the stream runs.
///
/// Large records are no longer copied when no handler sees them.
#[test]
fn bytes_move_without_copies_again_when_the_handler_is_removed() {
    const RECORD: usize = 64 * 1024;
    let (handler, log) = masking(0);
    let (mut source, inlet) = UnixStream::pair().unwrap();
    let (near, mut far) = UnixStream::pair().unwrap();
    let mut stream = StreamBuilder::default()
        .handler(handler)
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(RECORD))
        .output(Object::stream("sink", near.into()).unwrap())
        .build();
    for number in 0..4u8 {
        if number == 2 {
            stream.remove_handler(HandlerId(0), drop).unwrap();
        }
        source.write_all(&[number; RECORD]).unwrap();
        (0..2).for_each(|port| stream.note_ready(Port(port)));
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        let mut came = vec![9; RECORD];
        far.read_exact(&mut came).unwrap();
        assert!(came == [number; RECORD]);
        assert_eq!(stream.status().zero_copy_bytes, (RECORD * usize::from(number).saturating_sub(1)) as u64);
    }
    assert!(log.lock().len() >= 2);
}

/// Promise: Handlers are removed and replaced between two records while the stream runs.
///
/// The same for a peeking handler, whose records move without copies and end in the kernel.
#[test]
fn a_handler_that_peeks_is_replaced_behind_a_record_that_moves_without_copies() {
    const RECORD: usize = 64 * 1024;
    let filter = crate::handlers::PrefixFilter::new(&b"a"[..]);
    let (mut source, inlet) = UnixStream::pair().unwrap();
    let (near, mut far) = UnixStream::pair().unwrap();
    let mut stream = StreamBuilder::default()
        .handler(Handler::Peek(Box::new(filter)))
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(RECORD))
        .output(Object::stream("sink", near.into()).unwrap())
        .build();
    let mut act = |stream: &mut Stream, bytes: &[u8]| {
        source.write_all(bytes).unwrap();
        (0..2).for_each(|port| stream.note_ready(Port(port)));
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    };
    act(&mut stream, &[b'a'; RECORD / 2]);
    assert_eq!(stream.status().zero_copy_bytes, RECORD as u64 / 2);
    let (sender, receiver) = channel();
    let (other, _) = masking(0x20);
    stream.replace_handler(HandlerId(0), other, move |_| sender.send(()).unwrap()).unwrap();
    assert!(receiver.try_recv().is_err(), "a record goes by");
    act(&mut stream, &[b'a'; RECORD / 2]);
    receiver.recv().unwrap();
    act(&mut stream, &[b'b'; RECORD]);
    let mut came = vec![0; 2 * RECORD];
    far.read_exact(&mut came).unwrap();
    assert!(came[..RECORD] == [b'a'; RECORD] && came[RECORD..] == [b'B'; RECORD]);
}

/// Promise: A handler whose state exceeds its declared size ends its own stream only.
#[test]
fn a_handler_that_exceeds_its_bound_or_fails_or_panics_harms_only_its_stream() {
    let engine = engine();
    for (message, expected) in [
        (&b"grow"[..], "handler masking: its state takes 11 bytes: at most 10 are declared"),
        (b"fail", "handler masking: as it was told"),
        (b"panic", "a callback of the stream panicked: as it was told"),
    ] {
        let (other, mut other_source, other_collected) = stream_with(masking(0).0, Framing::Fixed(1));
        let other = other.start(&engine, Default::default());
        let (stream, _source, _) = stream_with(masking(0).0, Framing::Fixed(1));
        let running = stream.start(&engine, Default::default());
        running.with(move |stream| {
            stream.control_handler(HandlerId(0), message, drop).unwrap();
        });
        let end = running.wait_for(PATIENCE).unwrap();
        assert_eq!(end.result.unwrap_err().to_string(), expected);
        other_source.write_all(b"ab").unwrap();
        drop(other_source);
        assert_eq!((other.wait().result, other_collected.bytes()), (Ok(()), b"ab".to_vec()));
    }
}

/// Promise: A handler whose state exceeds its declared size ends its own stream only.
///
/// Nothing after the record at which the bound was exceeded is sent.
#[test]
fn nothing_follows_the_record_at_which_a_handler_exceeded_its_bound() {
    struct Hoard(Vec<u8>);
    impl Common for Hoard {
        fn name(&self) -> &'static str {
            "hoard"
        }

        fn state_limit(&self) -> usize {
            8
        }

        fn state_bytes(&self) -> usize {
            self.0.len()
        }
    }
    impl crate::Read for Hoard {
        fn read(&mut self, piece: crate::Piece<'_>) -> Result<Verdict, HandlerError> {
            self.0.extend_from_slice(piece.bytes);
            Ok(Verdict::Pass)
        }
    }
    let hoard = Handler::Read(Box::new(Hoard(Vec::new())));
    let (mut stream, mut source, collected) = stream_with(hoard, Framing::Fixed(4));
    feed(&mut stream, &mut source, b"aaaa");
    feed(&mut stream, &mut source, b"bbbb");
    let status = &stream.status().handlers[0];
    assert_eq!((status.name, status.state_bytes, status.state_limit), ("hoard", 8, 8));
    source.write_all(b"cccc").unwrap();
    stream.note_ready(Port(1));
    let error = stream.run().unwrap_err().to_string();
    assert_eq!(error, "handler hoard: its state takes 12 bytes: at most 8 are declared");
    assert!(b"aaaabbbbcccc".starts_with(&collected.bytes()) && collected.bytes().len() >= 8);
}

/// Promise: Control messages reach a handler between two records and are answered.
///
/// Deferred changes are bounded.
#[test]
fn changes_that_wait_are_bounded_and_so_are_messages() {
    let (handler, _) = masking(0);
    let (mut stream, mut source, _) = stream_with(handler, Framing::Fixed(4));
    let long = vec![0; 64 * 1024 + 1];
    let refused = stream.control_handler(HandlerId(0), long, drop);
    assert_eq!(refused, Err(HandlerChangeError::TooLong(64 * 1024 + 1)));
    feed(&mut stream, &mut source, b"aa");
    let mut send = || stream.control_handler(HandlerId(0), &b"what"[..], drop);
    assert!((0..16).all(|_| send().is_ok()));
    assert_eq!(send(), Err(HandlerChangeError::Busy(HandlerId(0))));
    feed(&mut stream, &mut source, b"aa");
    assert!(stream.control_handler(HandlerId(0), &b"what"[..], drop).is_ok());
}

/// Promise: Handlers are removed and replaced between two records while the stream runs.
///
/// A handler that was added within a record, and replaced before that record ends: the first to see records
/// is the new one, from the next record on.
#[test]
fn a_handler_that_waits_for_the_next_record_is_replaced_by_one_that_waits_too() {
    let (mut source, inlet) = UnixStream::pair().unwrap();
    let (object, collected) = Object::collect("out", LIMIT);
    let mut stream = StreamBuilder::default()
        .output(object)
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(4))
        .build();
    feed(&mut stream, &mut source, b"aa");
    let id = stream.add_handler(masking(1).0);
    let of_output = stream.add_output_handler(Port(0), masking(2).0).unwrap();
    let ((handler, log), (other, log_there)) = (masking(0x20), masking(0));
    stream.replace_handler(id, handler, drop).unwrap();
    stream.replace_handler(of_output, other, drop).unwrap();
    feed(&mut stream, &mut source, b"aaaaaa");
    assert_eq!(collected.bytes(), b"aaaaAAAA");
    assert_eq!((log.lock().len(), log_there.lock().len()), (1, 1));
}

/// Handler that logs the whole records it sees.
struct Reading(Log);

impl Common for Reading {
    fn name(&self) -> &'static str {
        "reading"
    }

    fn reach(&self) -> Reach {
        Reach::Records { limit: LIMIT }
    }
}

impl crate::Read for Reading {
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        self.0.lock().push(format!("record {}", piece.length()));
        Ok(Verdict::Pass)
    }
}

/// Promise: Handlers are removed and replaced between two records while the stream runs.
///
/// A handler of whole records takes the place of one that was added within a record without an end: the record
/// ends there for the handlers behind it, too, and the new handler sees the next one.
#[test]
fn a_replacement_of_whole_records_does_not_see_the_end_of_an_endless_one() {
    let (mut source, inlet) = UnixStream::pair().unwrap();
    let (object, collected) = Object::collect("out", LIMIT);
    let mut stream = StreamBuilder::default()
        .output(object)
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Whole)
        .build();
    let (behind, pieces) = masking(0x20);
    stream.add_output_handler(Port(0), behind).unwrap();
    feed(&mut stream, &mut source, b"AA");
    let id = stream.add_handler(masking(0).0);
    let records = Log::default();
    stream.replace_handler(id, Handler::Read(Box::new(Reading(Arc::clone(&records)))), drop).unwrap();
    feed(&mut stream, &mut source, b"AAA");
    drop(source);
    stream.run().unwrap();
    assert_eq!(collected.bytes(), b"aaaaa");
    assert_eq!(*records.lock(), ["record 3"]);
    assert_eq!(*pieces.lock(), ["piece true false", "piece false true", "piece true true"]);
}

/// Promise: Handlers are removed and replaced between two records while the stream runs.
///
/// Handlers of one output, which do not affect other outputs, and of an output that is not connected yet.
#[test]
fn handlers_of_one_output_are_controlled_and_removed_by_themselves() {
    let (mut source, inlet) = UnixStream::pair().unwrap();
    let (objects, collected) = collects(2);
    let builder = StreamBuilder::default().pattern(OutputPattern::Mirror);
    let mut stream = objects
        .into_iter()
        .fold(builder, StreamBuilder::output)
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(4))
        .build();
    let id = stream.add_output_handler(Port(1), masking(0x20).0).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listener = Object::listening("listener", listener.into(), None).unwrap();
    let expected = stream.attach_output(listener, OutputOptions::default());
    let of_expected = stream.add_output_handler(expected, masking(0).0).unwrap();
    let status = stream.status();
    let ids =
        |place: usize| status.outputs[place].handlers.iter().map(|handler| handler.id).collect::<Vec<_>>();
    assert_eq!((ids(0), ids(1), ids(2)), (vec![], vec![id], vec![of_expected]));
    stream.remove_handler(of_expected, drop).unwrap();
    assert!(stream.detach_output(expected, drop));
    let mut act = |stream: &mut Stream, bytes: &[u8]| {
        source.write_all(bytes).unwrap();
        stream.note_ready(Port(2));
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    };
    act(&mut stream, b"aaaabb");
    stream.remove_handler(id, drop).unwrap();
    act(&mut stream, b"bbcccc");
    assert_eq!(collected[0].bytes(), b"aaaabbbbcccc");
    assert_eq!(collected[1].bytes(), b"AAAABBBBcccc");
}
