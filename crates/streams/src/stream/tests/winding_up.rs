//! The end of a stream that fails: the bytes it still sends, and its error.

use std::fs::File;

use super::failing::Failing;
use super::*;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// Records of RFC 4571.
fn measured(records: &[&[u8]]) -> Vec<u8> {
    records.iter().flat_map(|record| [&(record.len() as u16).to_be_bytes()[..], record].concat()).collect()
}

/// Runs to the end; the time advances when nothing else happens. `wake` may mark ports as ready.
fn ended(stream: &mut Stream, mut wake: impl FnMut(&mut Stream)) -> Result<(), StreamError> {
    let mut now_us = 1;
    for _ in 0..1000 {
        match stream.act(u64::MAX, now_us).0 {
            Acted::Ended(ended) => return ended,
            Acted::Wait if stream.look_again_us().is_some() => now_us += 20_000_000,
            _ => {}
        }
        wake(stream);
    }
    panic!("it does not end: {:?}", stream.status());
}

/// A connection whose peer has sent these bytes and closed.
fn sent(bytes: &[u8]) -> Object {
    let (near, far) = UnixStream::pair().unwrap();
    (&near).write_all(bytes).unwrap();
    Object::stream("sent", far.into()).unwrap()
}

/// A connection whose peer sends nothing and stays open.
fn silent() -> (Object, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    (Object::stream("silent", far.into()).unwrap(), near)
}

/// Promise: Records read before an input or handler failed are still sent, in order.
#[test]
fn what_was_read_before_a_failure_goes_though_a_silent_input_has_it_wait() {
    let tag = |record: &[u8]| record.get(2).map(|byte| u64::from(*byte));
    let whole = measured(&[b"1aaaaa", b"2bbbb", b"3cc", b"4dddddddd"]);
    let (object, collected) = Object::collect("out", LIMIT);
    let (silent, _peer) = silent();
    let mut stream = StreamBuilder::default()
        .order_by_tag(100, LIMIT, crate::Late::Pass, tag)
        .input(sent(&[&whole[..], b"\0\x09cut"].concat()), Framing::rtp())
        .input(silent, Framing::rtp())
        .output(object)
        .build();
    let error = ended(&mut stream, |_| {}).unwrap_err().to_string();
    assert!(error.contains("ends within a record"), "{error}");
    assert_eq!(collected.bytes(), whole);
    let status = stream.status();
    assert_eq!((status.bytes_in, status.bytes_dropped, status.bytes_pending), (whole.len() as u64 + 5, 5, 0));
}

/// Runs a stream with a record, a part of a cut record, and 100,000 bytes of another input; returns its
/// output.
fn beside_a_cut(order: crate::InputOrder, part: &[u8]) -> (Vec<u8>, StreamStatus) {
    let (object, collected) = Object::collect("out", LIMIT);
    let mut stream = StreamBuilder::default()
        .order(order)
        .input(sent(&[&measured(&[b"first"])[..], part].concat()), Framing::rtp())
        .input(memory(&[7; 100_000]), Framing::Fixed(10))
        .output(object)
        .build();
    let error = ended(&mut stream, |_| {}).unwrap_err().to_string();
    assert!(error.contains("ends within a record"), "{error}");
    (collected.bytes(), stream.status())
}

/// Promise: Records read before an input or handler failed are still sent, in order.
#[test]
fn what_was_read_of_others_before_an_input_failed_goes() {
    let first = measured(&[b"first"]);
    let (bytes, status) = beside_a_cut(crate::InputOrder::RoundRobin, b"\0");
    assert_eq!(bytes, [&first[..], &[7; 100_000]].concat());
    assert_eq!((status.bytes_in, status.bytes_dropped), (bytes.len() as u64 + 1, 1), "{status:?}");
}

/// Promise: A record that is too long or truncated is an error.
///
/// Records that are longer than the limit are reported once, even if the input is read again.
#[test]
fn records_that_are_too_long_to_be_whole_end_the_stream() {
    for survives in [false, true] {
        let (object, _collected) = Object::collect("out", LIMIT);
        let (builder, told) = events(StreamBuilder::default());
        let builder = if survives { builder.survive_inputs() } else { builder };
        let mut stream = builder
            .handler(Handler::Read(Box::new(crate::handlers::Filter::new(1000, |_: &[u8]| true))))
            .input(memory(&[7; 5_000_000]), Framing::Fixed(20_000_000))
            .output(object)
            .build();
        let error = ended(&mut stream, |_| {}).unwrap_err().to_string();
        assert!(error.contains("20000000"), "{error}");
        let failures = told.try_iter().filter(|event| matches!(event, StreamEvent::InputFailed { .. }));
        assert_eq!(failures.count(), usize::from(survives));
    }
}

/// Promise: Records read before an input or handler failed are still sent, in order.
///
/// Bytes after the beginning of a cut record would be taken for its rest.
#[test]
fn nothing_goes_behind_the_beginning_of_a_record_that_is_cut() {
    for order in [crate::InputOrder::RoundRobin, crate::InputOrder::Arrival] {
        let (bytes, status) = beside_a_cut(order, b"\0\x09cut");
        assert!(bytes.ends_with(b"cut"), "{order:?}: {} bytes", bytes.len());
        assert_eq!(status.bytes_in, bytes.len() as u64 + status.bytes_dropped, "{order:?}: {status:?}");
    }
}

/// Promise: Records read before an input or handler failed are still sent, in order.
#[test]
fn a_record_of_which_enough_shares_came_goes_before_a_failure_though_one_before_it_is_not_complete() {
    let mut splitter = crate::secret::SecretSplitter::new(2);
    let dealt: Vec<_> = [b"first", b"other"].iter().map(|record| splitter.split(*record, 3)).collect();
    let (share, (first, other)) = (dealt[0][0].len(), (&dealt[0], &dealt[1]));
    let (object, collected) = Object::collect("out", LIMIT);
    let (silent, _peer) = silent();
    let mut stream = StreamBuilder::default()
        .collect_shares(2, 4, LIMIT)
        .input(sent(&[&first[0][..], &other[0], b"no share at all"].concat()), Framing::Fixed(share))
        .input(sent(&other[1]), Framing::Fixed(share))
        .input(silent, Framing::Fixed(share))
        .output(object)
        .build();
    let error = ended(&mut stream, |_| {}).unwrap_err().to_string();
    assert!(error.contains("share"), "{error}");
    assert_eq!(collected.bytes(), b"other");
}

/// Promise: Records read before an input or handler failed are still sent, in order.
///
/// A handler of one output fails: this output gets the records before, the others all records that were read.
#[test]
fn a_handler_of_an_output_that_fails_takes_nothing_from_the_others() {
    let (objects, collected) = collects(3);
    let mut objects = objects.into_iter();
    let handlers = vec![Handler::Rewrite(Box::new(Failing(0)))];
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .input(memory(b"0123456789abcdef"), Framing::Fixed(2))
        .output(objects.next().unwrap())
        .output_with(objects.next().unwrap(), OutputOptions { handlers, ..OutputOptions::default() })
        .output(objects.next().unwrap())
        .build();
    let error = stream.run().unwrap_err().to_string();
    assert!(error.contains("failing: on purpose"), "{error}");
    let taken: Vec<_> = collected.iter().map(Collected::bytes).collect();
    assert_eq!(taken, [&b"0123456789abcdef"[..], b"012345", b"0123456789abcdef"]);
    let status = stream.status();
    assert_eq!(status.outputs[1].dropped.bytes, 10, "{status:?}");
    assert_eq!((status.bytes_in, status.bytes_out, status.bytes_dropped), (16, 38, 0), "{status:?}");
}

/// Promise: After a failure, outputs without progress delay the end by at most a minute.
///
/// One output of a mirror takes nothing. After its minute, the records that waited for it go to the other.
#[test]
fn an_output_that_takes_nothing_keeps_no_other_from_what_was_read_before_a_failure() {
    let (near, _far) = narrow_connection();
    rustix::net::sockopt::set_socket_send_buffer_size(&near, 4096).unwrap();
    let (object, collected) = Object::collect("out", LIMIT);
    let (builder, told) = events(StreamBuilder::default().pattern(OutputPattern::Mirror));
    let mut stream = builder
        .handler(Handler::Rewrite(Box::new(Failing(0))))
        .input(memory(&[7; 120_000]), Framing::Fixed(30_000))
        .output_with(
            Object::stream("stuck", near.into()).unwrap(),
            OutputOptions { waiting_bytes: 10_000, ..OutputOptions::default() },
        )
        .output(object)
        .build();
    let error = ended(&mut stream, |_| {}).unwrap_err().to_string();
    assert!(error.contains("failing: on purpose"), "{error}");
    assert_eq!(collected.bytes().len(), 90_000);
    let is_lost = |event| matches!(event, StreamEvent::OutputFailed { port: Port(0), .. });
    assert!(told.try_iter().any(is_lost), "nobody was told of the one that took nothing");
}

/// Promise: If a stream fails several times, the first failure is reported.
///
/// The first error is that of the stream, whatever else fails later.
#[test]
fn the_first_failure_is_the_one_that_is_told() {
    let (near, far) = narrow_connection();
    rustix::net::sockopt::set_socket_send_buffer_size(&near, 4096).unwrap();
    let (object, collected) = Object::collect("out", LIMIT);
    let records = measured(&[&[7; 60_000][..]; 4]);
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Stripe)
        .input(memory(&[&records[..], b"\0\x09cut"].concat()), Framing::rtp())
        .output(Object::stream("resets", near.into()).unwrap())
        .output(object)
        .build();
    let mut far = Some(far);
    let error = ended(&mut stream, |stream| {
        if stream.look_again_us().is_some() {
            far.take().into_iter().for_each(reset);
        }
        stream.note_ready(Port(0));
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("ends within a record"), "{error}");
    assert_eq!(collected.bytes().len(), 2 * 60_002);
    assert_eq!(stream.status().gone_outputs.failed, 1);
}

/// Promise: A failed stream accepts no more inputs.
#[test]
fn a_stream_that_fails_takes_no_more_inputs() {
    let (near, _far) = narrow_connection();
    rustix::net::sockopt::set_socket_send_buffer_size(&near, 4096).unwrap();
    let mut stream = StreamBuilder::default()
        .input(memory(&[&measured(&[&[7; 60_000][..]])[..], b"\0\x09cut"].concat()), Framing::rtp())
        .output(Object::stream("slow", near.into()).unwrap())
        .build();
    assert!(matches!(stream.act(u64::MAX, 1).0, Acted::Wait), "it has what nobody takes");
    let refused = stream.attach_input(memory(b"more"), Framing::Whole).unwrap_err();
    assert_eq!(refused.0.name(), "memory");
}

/// Promise: A detached output without progress fails after the stall timeout.
///
/// In a stripe each record has one output, so a detached output that takes nothing has failed like any other.
#[test]
fn records_of_an_output_that_is_detached_and_takes_nothing_are_missing_at_the_end() {
    let (near, _far) = narrow_connection();
    rustix::net::sockopt::set_socket_send_buffer_size(&near, 4096).unwrap();
    let (object, _collected) = Object::collect("out", LIMIT);
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Stripe)
        .input(memory(&[7; 200_000]), Framing::Fixed(50_000))
        .output(Object::stream("stuck", near.into()).unwrap())
        .output(object)
        .build();
    assert!(matches!(stream.act(u64::MAX, 1).0, Acted::Wait));
    assert!(stream.detach_output(Port(0), drop));
    let error = ended(&mut stream, |_| {}).unwrap_err().to_string();
    assert_eq!(error, "stuck: no data accepted for too long: Connection timed out (os error 110)");
}

/// Promise: Outputs get records in turn, by size, at random, by capacity, all of them, or as shares.
///
/// The last part of a stripe does not wait for inputs that could still be connected.
#[test]
fn a_short_last_datagram_leaves_when_no_input_is_expected() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::StripeBytes(1000))
        .input(memory(&[7; 1500]), Framing::Fixed(300))
        .output(Object::datagrams("udp", sender.into(), None, None).unwrap())
        .build();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listener = Object::listening("listener", listener.into(), None).unwrap();
    let expected = stream.attach_input(listener, Framing::Fixed(300)).unwrap();
    assert!(matches!(stream.act(u64::MAX, 1).0, Acted::Wait), "somebody may come");
    assert!(stream.detach_input(expected, drop));
    let Acted::Ended(Ok(())) = stream.act(u64::MAX, 1).0 else { panic!("nothing will wake it") };
    let lengths = [0; 2].map(|_| receiver.recv(&mut [0; 2000]).unwrap());
    assert_eq!(lengths, [1000, 500]);
}

/// Promise: A handler that fails or panics ends only its own stream, with a clear cause.
///
/// The event callback of a failed output may panic, which ends the stream, and nothing else on its thread.
#[test]
fn a_panic_of_an_event_callback_ends_no_other_stream() {
    let engine = engine();
    let file = memfd_create("file", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    fcntl_add_seals(&file, SealFlags::GROW).unwrap();
    let (object, _collected) = Object::collect("out", LIMIT);
    let stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .on_event(|_| panic!("on purpose"))
        .input(memory(&[7; 1000]), Framing::Fixed(10))
        .output(Object::file("full", Arc::new(File::from(file)), 0))
        .output(object)
        .build();
    let end = stream.start(&engine, crate::StreamOptions::default()).wait_for(PATIENCE);
    let error = end.expect("nobody says that it has ended").result.unwrap_err().to_string();
    assert!(error.contains("on purpose"), "{error}");
    let (object, collected) = Object::collect("out", LIMIT);
    let stream = StreamBuilder::default().input(memory(b"next"), Framing::Whole).output(object).build();
    let end = stream.start(&engine, crate::StreamOptions::default()).wait_for(PATIENCE);
    assert_eq!(end.expect("its thread is gone").result, Ok(()));
    assert_eq!(collected.bytes(), b"next");
}

/// A full connection whose peer does not read.
fn full() -> (Object, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    while (&near).write(&[7; 1000]).is_ok() {}
    (Object::stream("full", near.into()).unwrap(), far)
}

/// Bytes of a stream whose outputs get different records that are neither at an output, nor waiting,
/// returned, or reported as dropped.
fn unaccounted(status: &StreamStatus) -> i64 {
    let here = status
        .outputs
        .iter()
        .map(|output| output.bytes + output.lost_bytes + output.waiting_bytes + output.dropped.bytes);
    let gone = status.ended_outputs.iter().map(|ended| ended.bytes + ended.lost_bytes + ended.dropped.bytes);
    let elsewhere = status.bytes_pending + status.bytes_dropped + status.bytes_returned;
    status.bytes_in as i64 - (here.sum::<u64>() + gone.sum::<u64>() + elsewhere) as i64
}

/// Promise: Records read before an input or handler failed are still sent, in order.
///
/// Otherwise the beginning of a record that is not read to its end would go before whole records of other
/// inputs.
#[test]
fn beginnings_that_were_not_sent_yet_keep_no_whole_records_back() {
    let (object, collected) = Object::collect("out", LIMIT);
    let mut stream = StreamBuilder::default()
        .input(sent(&[&measured(&[b"first"])[..], b"\0"].concat()), Framing::rtp())
        .input(memory(&[7; 1_000_000]), Framing::Fixed(10_000))
        .input(memory(&[8; 1_000_000]), Framing::Fixed(1000))
        .output(object)
        .build();
    ended(&mut stream, |_| {}).unwrap_err();
    let (bytes, status) = (collected.bytes(), stream.status());
    let count = |byte: u8| bytes.iter().filter(|one| **one == byte).count();
    assert_eq!((count(7) % 10_000, count(8) % 1000), (0, 0), "parts of records went");
    assert!(status.bytes_dropped < 11_000 && count(8) > 100_000, "{status:?}");
    assert_eq!(unaccounted(&status), 0, "{status:?}");
}

/// Promise: Records read before an input or handler failed are still sent, in order.
///
/// The end of a byte stream without framing is not a boundary after which other records could be mistaken for
/// its rest.
#[test]
fn records_go_behind_bytes_without_framing() {
    let (objects, collected) = collects(2);
    let mut objects = objects.into_iter();
    let (endless, peer) = silent();
    (&peer).write_all(b"bytes without framing").unwrap();
    let handlers = vec![Handler::Rewrite(Box::new(Failing(2)))];
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .input(memory(&[7; 1000]), Framing::Fixed(10))
        .input(endless, Framing::Whole)
        .output(objects.next().unwrap())
        .output_with(objects.next().unwrap(), OutputOptions { handlers, ..OutputOptions::default() })
        .build();
    ended(&mut stream, |_| {}).unwrap_err();
    assert_eq!(collected[0].bytes().len(), 1021);
}

/// Promise: Records read before an input or handler failed are still sent, in order.
///
/// An incomplete datagram is not stalled: its rest waits behind the output that is.
#[test]
fn an_output_that_waits_for_the_rest_of_a_datagram_has_not_failed() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    let (full, _far) = full();
    let (builder, told) = events(StreamBuilder::default());
    let mut stream = builder
        .pattern(OutputPattern::Mirror)
        .handler(Handler::Select(Box::new(crate::handlers::Prefix::new(100))))
        .order_by_tag(100, LIMIT, crate::Late::Pass, |_| Some(1))
        .input(memory(&measured(&[b"first", b"second", b"third"])), Framing::rtp())
        .input(memory(b"\0\x09cut"), Framing::rtp())
        .output_with(full, OutputOptions { waiting_bytes: 1, ..OutputOptions::default() })
        .output(Object::datagrams("udp", sender.into(), None, None).unwrap())
        .build();
    ended(&mut stream, |_| {}).unwrap_err();
    let failed = |event| match event {
        StreamEvent::OutputFailed { port, .. } => Some(port),
        _ => None,
    };
    assert_eq!(told.try_iter().filter_map(failed).collect::<Vec<_>>(), [Port(0)]);
    (0..3).for_each(|_| assert!(receiver.recv(&mut [0; 100]).unwrap() > 0));
}

/// Promise: Every byte read is accounted for: taken, pending, or dropped with the reason.
///
/// Bytes being given to outputs at the time of a failure belong to the outputs, wait, or are dropped.
#[test]
fn all_is_accounted_for_when_a_stream_of_connections_fails() {
    for pattern in [OutputPattern::Stripe, OutputPattern::Mirror, OutputPattern::Shares { threshold: 3 }] {
        let (objects, _collected) = collects(2);
        let mut builder = StreamBuilder::default()
            .pattern(pattern)
            .end_with_connections()
            .input(memory(b"0123456789abcdef"), Framing::Fixed(2));
        for (place, object) in objects.into_iter().enumerate() {
            let failing = || Handler::Rewrite(Box::new(Failing(0)) as Box<dyn crate::Rewrite>);
            let handlers = if place == 1 { vec![failing()] } else { Vec::new() };
            builder = builder.output_with(object, OutputOptions { handlers, ..OutputOptions::default() });
        }
        let mut stream = builder.build();
        ended(&mut stream, |_| {}).unwrap_err();
        let status = stream.status();
        let missing = match pattern {
            OutputPattern::Mirror => {
                let elsewhere = status.bytes_pending + status.bytes_dropped;
                let here = |output: &OutputStatus| {
                    output.bytes + output.waiting_bytes + output.dropped.bytes + elsewhere
                };
                status.outputs.iter().map(|output| status.bytes_in as i64 - here(output) as i64).max()
            }
            _ => Some(unaccounted(&status)),
        };
        assert_eq!(missing, Some(0), "{pattern:?}: {status:?}");
    }
}

/// Counts whole records, and fails at the fourth.
struct WholeOnes(u32);

impl crate::Common for WholeOnes {
    fn name(&self) -> &'static str {
        "whole ones"
    }

    fn reach(&self) -> crate::Reach {
        crate::Reach::Records { limit: 5000 }
    }
}

impl crate::Read for WholeOnes {
    fn read(&mut self, _: crate::Piece<'_>) -> Result<crate::Verdict, crate::HandlerError> {
        self.0 += 1;
        match self.0 {
            4 => Err(crate::HandlerError::Failed("on purpose".to_owned())),
            _ => Ok(crate::Verdict::Pass),
        }
    }
}

/// Promise: Every byte read is accounted for: taken, pending, or dropped with the reason.
#[test]
fn what_a_handler_had_gathered_when_it_failed_is_accounted_for() {
    let (objects, _collected) = collects(1);
    let handlers = || vec![Handler::Read(Box::new(WholeOnes(0)))];
    let builder = StreamBuilder::default()
        .pattern(OutputPattern::StripeBytes(1000))
        .input(memory(&measured(&[&[7; 298][..]; 20])), Framing::rtp());
    let with_handlers = |builder: StreamBuilder, object| {
        builder.output_with(object, OutputOptions { handlers: handlers(), ..OutputOptions::default() })
    };
    let mut stream = objects.into_iter().fold(builder, with_handlers).build();
    ended(&mut stream, |_| {}).unwrap_err();
    assert_eq!(unaccounted(&stream.status()), 0, "{:?}", stream.status());
}

/// Promise: A detached output without progress fails after the stall timeout.
///
/// A detached output that takes nothing has failed, but the stream ends with the outcome of the last
/// remaining output.
#[test]
fn a_stream_whose_last_output_did_not_keep_up_ends_with_that() {
    let ((leaves, _far), (slow, _slow_far)) = (full(), full());
    let options =
        OutputOptions { waiting_bytes: 1000, when_full: WhenFull::Disconnect, ..OutputOptions::default() };
    let (feed, inlet) = UnixStream::pair().unwrap();
    let mut stream = StreamBuilder::default()
        .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(1000))
        .output(leaves)
        .output_with(slow, options)
        .build();
    (&feed).write_all(&[7; 2000]).unwrap();
    assert!(matches!(stream.act(u64::MAX, 1).0, Acted::Wait));
    assert!(stream.detach_output(Port(0), drop));
    (&feed).write_all(&[7; 2000]).unwrap();
    stream.note_ready(Port(2));
    let error = ended(&mut stream, |_| {}).unwrap_err();
    assert!(matches!(&error, StreamError::NoOutput(why) if why.contains("did not keep up")), "{error}");
    assert_eq!((stream.status().gone_outputs.failed, stream.status().gone_outputs.detached), (1, 0));
}
