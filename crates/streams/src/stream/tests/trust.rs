//! Outputs whose handlers come into force depending on the trust in their peers.

use super::*;
use crate::handlers::{Touch, TransportStreamFilter};
use crate::{Trust, stream::tests::slices::tcp};

fn trust(trust: u8) -> Trust {
    Trust::new(trust).unwrap()
}

fn touch(mask: u8) -> Handler {
    Handler::Modify(Box::new(Touch::new(mask)))
}

/// A mirror to memory; returns both ends as well.
fn mirror(framing: Framing) -> (Stream, UnixStream, Vec<Collected>) {
    let (source, inlet) = UnixStream::pair().unwrap();
    let (objects, collected) = collects(2);
    let builder = StreamBuilder::default().pattern(OutputPattern::Mirror);
    let builder = objects.into_iter().fold(builder, StreamBuilder::output);
    let stream = builder.input(Object::stream("inlet", inlet.into()).unwrap(), framing).build();
    (stream, source, collected)
}

fn feed(stream: &mut Stream, source: &mut UnixStream, bytes: &[u8]) {
    source.write_all(bytes).unwrap();
    stream.note_ready(Port(2));
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
}

fn in_force(stream: &Stream) -> Vec<bool> {
    stream.status().outputs[1].handlers.iter().map(|handler| handler.is_in_force).collect()
}

/// Promise: An output whose peer loses trust gets filtered records from the next record on; others are not
/// affected.
#[test]
fn an_output_that_loses_trust_changes_with_the_next_record_and_another_never() {
    let (mut stream, mut source, collected) = mirror(Framing::Fixed(4));
    let id = stream.add_output_handler_below(Port(1), trust(50), touch(0x20)).unwrap();
    feed(&mut stream, &mut source, b"aaaabb");
    assert!(stream.set_trust(Port(1), trust(49)));
    feed(&mut stream, &mut source, b"bbccccdd");
    assert!(stream.set_trust(Port(1), trust(50)));
    let status = stream.status().outputs[1].clone();
    assert_eq!((status.trust, status.handlers[0].trust_below), (trust(50), Some(trust(50))));
    assert_eq!((status.handlers[0].id, in_force(&stream)), (id, vec![true]), "a record goes by");
    feed(&mut stream, &mut source, b"ddeeee");
    assert_eq!(in_force(&stream), [false]);
    assert_eq!(collected[0].bytes(), b"aaaabbbbccccddddeeee");
    assert_eq!(collected[1].bytes(), b"aaaabbbbCCCCDDDDeeee");
    assert!(!stream.set_trust(Port(2), trust(0)), "that is the input");
    assert_eq!(stream.add_output_handler_below(Port(7), trust(1), touch(0)), None);
}

/// Promise: An output whose peer loses trust gets filtered records from the next record on; others are not
/// affected.
///
/// Several handlers come into and out of force at the same record; the last setting before the record counts.
#[test]
fn handlers_of_several_trusts_come_and_go_at_the_same_record() {
    let (mut stream, mut source, collected) = mirror(Framing::Fixed(4));
    stream.add_output_handler_below(Port(1), trust(80), touch(0x01)).unwrap();
    stream.add_output_handler_below(Port(1), trust(30), touch(0x20)).unwrap();
    feed(&mut stream, &mut source, b"````aa");
    (0..100).for_each(|value| assert!(stream.set_trust(Port(1), trust(value))));
    assert!(stream.set_trust(Port(1), trust(10)));
    assert_eq!(in_force(&stream), [true, true]);
    feed(&mut stream, &mut source, b"aabbbbdd");
    (0..100).for_each(|value| assert!(stream.set_trust(Port(1), trust(value))));
    assert!(stream.set_trust(Port(1), trust(60)));
    assert_eq!(in_force(&stream), [true, true], "a record goes by");
    feed(&mut stream, &mut source, b"ddffff");
    assert_eq!(in_force(&stream), [true, false]);
    assert_eq!(collected[0].bytes(), b"````aaaabbbbddddffff");
    assert_eq!(collected[1].bytes(), b"````aaaaCCCCEEEEgggg");
}

/// Promise: An output whose peer loses trust gets filtered records from the next record on; others are not
/// affected.
///
/// While the peer has full trust, large records move without a copy.
#[test]
fn handlers_that_are_not_in_force_cost_no_copy() {
    const RECORD: usize = 64 * 1024;
    let (mut source, inlet) = UnixStream::pair().unwrap();
    let (near, mut far) = UnixStream::pair().unwrap();
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .output(Object::stream("sink", near.into()).unwrap())
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(RECORD))
        .build();
    stream.add_output_handler_below(Port(0), trust(50), touch(0x20)).unwrap();
    let mut act = |stream: &mut Stream, bytes: &[u8]| {
        source.write_all(bytes).unwrap();
        (0..2).for_each(|port| stream.note_ready(Port(port)));
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    };
    act(&mut stream, &[b'a'; RECORD / 2]);
    assert_eq!(stream.status().zero_copy_bytes, RECORD as u64 / 2);
    assert!(stream.set_trust(Port(0), trust(0)));
    act(&mut stream, &[b'a'; RECORD / 2]);
    act(&mut stream, &[b'b'; RECORD]);
    assert!(stream.set_trust(Port(0), Trust::FULL));
    act(&mut stream, &[b'c'; RECORD]);
    let mut came = vec![0; 3 * RECORD];
    far.read_exact(&mut came).unwrap();
    assert!(came.chunks(RECORD).zip(b"aBc").all(|(record, byte)| record == [*byte; RECORD]));
    assert_eq!(stream.status().zero_copy_bytes, RECORD as u64 * 3 / 2);
}

/// Promise: An output whose peer loses trust gets filtered records from the next record on; others are not
/// affected.
///
/// A byte stream has no next record: the change applies to the bytes from then on.
#[test]
fn an_output_of_a_stream_of_bytes_changes_at_once() {
    let (mut stream, mut source, collected) = mirror(Framing::Whole);
    stream.add_output_handler_below(Port(1), trust(50), touch(0x20)).unwrap();
    for (value, bytes) in [(90, b"aa"), (10, b"bb"), (50, b"cc"), (0, b"dd")] {
        assert!(stream.set_trust(Port(1), trust(value)));
        feed(&mut stream, &mut source, bytes);
    }
    assert_eq!(collected[1].bytes(), b"aaBBccDD");
    drop(source);
    stream.note_ready(Port(2));
    stream.run().unwrap();
    assert_eq!(collected[0].bytes(), b"aabbccdd");
}

/// Promise: An output whose peer loses trust gets filtered records from the next record on; others are not
/// affected.
///
/// Also for an output that is not connected yet. The end of the stream is not passed to a handler that is not
/// in force.
#[test]
fn an_output_that_is_not_connected_yet_has_a_trust_and_handlers_out_of_force_are_not_told_the_end() {
    let (object, collected) = Object::collect("out", LIMIT);
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .output(object)
        .input(tcp(b"some bytes".to_vec(), vec![10]), Framing::Whole)
        .build();
    let programme = Handler::Select(Box::new(TransportStreamFilter::programme(1)));
    stream.add_output_handler_below(Port(0), trust(50), programme).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let listening = Object::listening("listener", listener.into(), None).unwrap();
    let expected = stream.attach_output(listening, OutputOptions::default());
    stream.add_output_handler_below(expected, trust(50), touch(0x20)).unwrap();
    assert!(stream.set_trust(expected, trust(3)));
    let status = &stream.status().outputs[1];
    assert_eq!((status.trust, status.handlers[0].is_in_force), (trust(3), true));
    stream.run().unwrap();
    drop(stream);
    let mut came = String::new();
    peer.read_to_string(&mut came).unwrap();
    assert_eq!((collected.bytes(), came.as_str()), (b"some bytes".to_vec(), "SOME\0BYTES"));
}
