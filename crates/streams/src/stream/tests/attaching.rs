//! Inputs and outputs that are attached and detached while a stream runs.

use super::*;
use std::thread;

/// Promise: Inputs and outputs are added and removed between records; nothing is lost or repeated.
#[test]
fn inputs_and_outputs_come_and_go_at_records_and_nothing_is_lost() {
    let (mut feed, inlet) = UnixStream::pair().unwrap();
    let (objects, collected) = collects(2);
    let [first, second] = <[Object; 2]>::try_from(objects).unwrap();
    let mut stream = StreamBuilder::default().build();
    let input =
        stream.attach_input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(4)).unwrap();
    let output = stream.attach_output(first, OutputOptions::default());
    let act = |stream: &mut Stream| assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));

    feed.write_all(b"aaaabb").unwrap();
    act(&mut stream);
    assert_eq!(collected[0].bytes(), b"aaaabb");
    // Within a record: the first output gets the rest of the record, the second output the next records.
    stream.attach_output(second, OutputOptions::default());
    let (tell, told) = channel();
    assert!(stream.detach_output(output, move |object| tell.send(object.name().to_owned()).unwrap()));
    assert!(!stream.detach_output(output, drop), "it is being detached already");
    assert!(told.try_recv().is_err());
    feed.write_all(b"bbccccd").unwrap();
    stream.note_ready(input);
    act(&mut stream);
    assert_eq!(told.recv().unwrap(), "out 0");
    assert_eq!((collected[0].bytes(), collected[1].bytes()), (b"aaaabbbb".to_vec(), b"ccccd".to_vec()));

    // The input leaves at the end of its record; the bytes read after that are returned with it.
    let (tell, told) = channel();
    assert!(stream.detach_input(input, move |object| tell.send(object).unwrap()));
    feed.write_all(b"dddeeee").unwrap();
    drop(feed);
    stream.note_ready(input);
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Ok(()))), "the only input is gone");
    assert_eq!(collected[1].bytes(), b"ccccdddd");
    assert_eq!(merged_object(told.recv().unwrap()), b"eeee");
}

/// A stream from a socket that is copied, because a handler sees its bytes.
fn copied(pattern: OutputPattern) -> (UnixStream, Port, Stream) {
    let (feed, inlet) = UnixStream::pair().unwrap();
    let checksum = Handler::Read(Box::new(crate::handlers::Checksum::default()));
    let mut stream = StreamBuilder::default().pattern(pattern).handler(checksum).build();
    let input = stream.attach_input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Whole).unwrap();
    (feed, input, stream)
}

/// Promise: Inputs and outputs are added and removed between records; nothing is lost or repeated.
#[test]
fn a_stream_of_bytes_without_records_lets_go_at_once() {
    for pattern in [OutputPattern::Mirror, OutputPattern::Stripe] {
        let (mut feed, input, mut stream) = copied(pattern);
        let (objects, collected) = collects(2);
        let [first, second] = <[Object; 2]>::try_from(objects).unwrap();
        let mut feed_in = |stream: &mut Stream, bytes: &[u8]| {
            feed.write_all(bytes).unwrap();
            stream.note_ready(input);
            assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        };
        let (tell, told) = channel();
        let output = stream.attach_output(first, OutputOptions::default());
        feed_in(&mut stream, b"first ");
        assert!(stream.detach_output(output, {
            let tell = tell.clone();
            move |object| tell.send(object).unwrap()
        }));
        stream.attach_output(second, OutputOptions::default());
        feed_in(&mut stream, b"second ");
        assert_eq!(told.recv().unwrap().name(), "out 0");
        assert!(stream.detach_input(input, move |object| tell.send(object).unwrap()));
        feed.write_all(b"third").unwrap();
        drop(feed);
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Ok(()))));
        assert_eq!(merged_object(told.recv().unwrap()), b"third");
        assert_eq!([&collected[0], &collected[1]].map(Collected::bytes), [&b"first "[..], b"second "]);
    }
}

/// Promise: Inputs and outputs are added and removed between records; nothing is lost or repeated.
///
/// Both if the bytes read from the input have no room and if their output is gone: the end of its record
/// needs no room.
#[test]
fn a_stream_of_bytes_lets_go_of_its_input_at_once_also_where_no_output_has_room() {
    for is_gone in [false, true] {
        let (mut feed, input, mut stream) = copied(OutputPattern::Mirror);
        let (near, mut far) = UnixStream::pair().unwrap();
        let output =
            stream.attach_output(Object::stream("stuck", near.into()).unwrap(), OutputOptions::default());
        feed.set_nonblocking(true).unwrap();
        while feed.write(&[7; 10_000]).is_ok() {
            stream.note_ready(input);
            assert!(matches!(stream.act(1 << 20, 0).0, Acted::Wait));
        }
        let before = stream.status();
        assert!(before.bytes_pending > 0, "it has no room: {before:?}");
        if is_gone {
            assert!(stream.detach_output(output, drop));
        }
        let (tell, told) = channel();
        assert!(stream.detach_input(input, move |object| tell.send(object).unwrap()));
        assert!(matches!(stream.act(1 << 20, 0).0, Acted::Wait));
        assert_eq!(told.try_recv().unwrap().name(), "inlet");
        assert_eq!(stream.status().bytes_pending, before.bytes_pending, "what was read before still goes");
        let reader = thread::spawn(move || {
            let mut came = Vec::new();
            far.read_to_end(&mut came).map(|_| came.len() as u64).unwrap()
        });
        let (object, collected) = Object::collect("out", LIMIT);
        stream.attach_output(object, OutputOptions::default());
        stream.run().unwrap();
        drop(stream);
        let late = collected.bytes().len() as u64;
        let of_first = before.bytes_in - if is_gone { before.bytes_pending } else { 0 };
        assert_eq!(
            (reader.join().unwrap(), late),
            (of_first, if is_gone { before.bytes_pending } else { 0 })
        );
    }
}

/// Promise: The cost of a record does not grow with the number of silent inputs.
///
/// While one input keeps its turn, nothing is kept of other inputs after they were detached.
#[test]
fn nothing_is_kept_of_inputs_that_are_gone() {
    let (mut feed, inlet) = UnixStream::pair().unwrap();
    let mut stream = StreamBuilder::default()
        .order(crate::InputOrder::Arrival)
        .handler(Handler::Read(Box::new(crate::handlers::Checksum::default())))
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Whole)
        .output(Object::collect("out", LIMIT).0)
        .build();
    feed.write_all(b"some").unwrap();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    for _ in 0..3 {
        let port = stream.attach_input(memory(b"other"), Framing::Fixed(5)).unwrap();
        assert!(stream.detach_input(port, drop));
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        assert_eq!(stream.intake.inputs.len(), 1);
        assert!(matches!(&stream.intake.order, Order::Arrival(arrivals) if arrivals.queue.len() <= 1));
    }
}

/// Promise: An output that needs whole records or datagrams gets them from the next record on.
#[test]
fn an_output_that_comes_later_gets_datagrams_of_a_stream_of_bytes() {
    let (mut feed, input, mut stream) = copied(OutputPattern::Mirror);
    let (object, collected) = Object::collect("out", LIMIT);
    stream.attach_output(object, OutputOptions::default());
    feed.write_all(b"before").unwrap();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sink =
        Object::datagrams("udp", socket.into(), Some(receiver.local_addr().unwrap()), Some(100)).unwrap();
    stream.attach_output(sink, OutputOptions::default());
    feed.write_all(&[7; 250]).unwrap();
    drop(feed);
    stream.note_ready(input);
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Ok(()))));
    assert_eq!(collected.bytes(), [&b"before"[..], &[7; 250]].concat());
    assert_eq!([(); 3].map(|()| receiver.recv(&mut [0; 1000]).unwrap()), [100, 100, 50]);
}

/// Promise: An output that needs whole records or datagrams gets them from the next record on.
#[test]
fn an_output_that_comes_later_and_needs_whole_records_gets_them() {
    let (mut feed, inlet) = UnixStream::pair().unwrap();
    let (objects, collected) = collects(2);
    let [first, second] = <[Object; 2]>::try_from(objects).unwrap();
    let mut stream = StreamBuilder::default().pattern(OutputPattern::Mirror).output(first).build();
    let input =
        stream.attach_input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(4)).unwrap();
    let mut feed_in = |stream: &mut Stream, bytes: &[u8]| {
        feed.write_all(bytes).unwrap();
        stream.note_ready(input);
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    };
    feed_in(&mut stream, b"aa");
    let options = OutputOptions { when_full: WhenFull::DropNewest, ..OutputOptions::default() };
    stream.attach_output(second, options);
    feed_in(&mut stream, b"aab");
    assert_eq!(collected[0].bytes(), b"aaaa", "the next record is not whole");
    feed_in(&mut stream, b"bbb");
    assert_eq!([&collected[0], &collected[1]].map(Collected::bytes), [&b"aaaabbbb"[..], b"bbbb"]);
}

fn merged_object(object: Object) -> Vec<u8> {
    let (out, collected) = Object::collect("out", LIMIT);
    StreamBuilder::default().input(object, Framing::Whole).output(out).build().run().unwrap();
    collected.bytes()
}

/// Promise: An input that is attached after the end of the stream is returned to the caller.
///
/// The outputs were already told about the end: the input is returned unchanged, neither lost nor read.
#[test]
fn an_input_that_comes_when_outputs_were_told_of_the_end_is_given_back() {
    let (near, mut far) = narrow_connection();
    let mut stream = StreamBuilder::default()
        .finish_outputs()
        .input(memory(&[7; 100_000]), Framing::Whole)
        .output(Object::stream("tcp://sink", near.into()).unwrap())
        .build();
    while !matches!(stream.act(u64::MAX, wirepath_engine::now_us()).0, Acted::Deliver) {
        stream.note_ready(Port(0));
    }
    let TooLate(object) = stream.attach_input(memory(b"late"), Framing::Whole).unwrap_err();
    assert_eq!((object.name(), stream.status().inputs.len()), ("memory", 0));
    assert!(TooLate(Box::new(memory(b""))).to_string().starts_with("memory: the stream has ended"));
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).unwrap();
        bytes.len()
    });
    stream.run().unwrap();
    assert_eq!(reading.join().unwrap(), 100_000);
    let (out, collected) = Object::collect("out", LIMIT);
    StreamBuilder::default().input(*object, Framing::Whole).output(out).build().run().unwrap();
    assert_eq!(collected.bytes(), b"late");
}
