//! Datagram inputs and outputs.

use super::*;
use crate::intake::Pulled;
use crate::object::{Kind, WriteOutcome};
use crate::outbox::{Offered, Outbox};
use crate::record::Run;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{self, Ipv6PathMtuDiscovery};
use std::os::fd::AsFd;
use wirepath_datapath::socket::set_ipv6_mtu;

/// Promise: Datagrams keep their boundaries; byte streams are divided into datagrams.
#[test]
fn datagrams_keep_their_boundaries_and_byte_streams_get_some() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let to = receiver.local_addr().unwrap();
    let sink = |packet_bytes| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Object::datagrams("udp", socket.into(), Some(to), packet_bytes).unwrap()
    };
    let sizes = |count: usize| {
        let mut buffer = [0; 65_536];
        (0..count).map(|_| receiver.recv(&mut buffer).unwrap()).collect::<Vec<_>>()
    };
    let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
    let run = |framing, packet_bytes| {
        StreamBuilder::default()
            .input(memory(&bytes), framing)
            .output(sink(packet_bytes))
            .build()
            .run()
            .unwrap();
    };
    run(Framing::Whole, None);
    assert_eq!(sizes(4), [1316, 1316, 1316, 1052]);
    run(Framing::Fixed(188), None);
    assert_eq!(sizes(5), [1316, 1316, 1316, 940, 112], "the last record is shorter and came alone");
    run(Framing::Fixed(2000), None);
    assert_eq!(sizes(3), [2000, 2000, 1000]);
    run(Framing::Fixed(1000), Some(2500));
    assert_eq!(sizes(3), [2000, 2000, 1000]);
    // Parts that are longer than the records, and longer than one read.
    let striped = |input: &[u8], unit: usize| {
        StreamBuilder::default()
            .pattern(OutputPattern::StripeBytes(unit))
            .input(memory(input), Framing::Fixed(100))
            .output(sink(None))
            .build()
            .run()
            .unwrap();
    };
    striped(&bytes, 1950);
    assert_eq!(sizes(3), [1950, 1950, 1100]);
    striped(&bytes.repeat(30), 60_000);
    assert_eq!(sizes(3), [60_000, 60_000, 30_000]);
}

/// Promise: Datagrams keep their boundaries; byte streams are divided into datagrams.
#[test]
fn a_train_of_datagrams_goes_to_every_mirror_as_it_came() {
    let source = UdpSocket::bind("127.0.0.1:0").unwrap();
    let inlet = UdpSocket::bind("127.0.0.1:0").unwrap();
    source.connect(inlet.local_addr().unwrap()).unwrap();
    let receivers: Vec<UdpSocket> = (0..3).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let outlet = |receiver: &UdpSocket| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Object::datagrams("udp", socket.into(), Some(receiver.local_addr().unwrap()), None).unwrap()
    };
    let builder = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .input(Object::datagrams("inlet", inlet.into(), None, None).unwrap(), Framing::Whole);
    let mut stream = receivers.iter().map(outlet).fold(builder, StreamBuilder::output).build();
    let datagrams: Vec<Vec<u8>> =
        (0..40u8).map(|number| vec![number; if number == 39 { 300 } else { 700 }]).collect();
    datagrams.iter().for_each(|datagram| assert_eq!(source.send(datagram).unwrap(), datagram.len()));
    while stream.status().bytes_out < 3 * datagrams.iter().map(|datagram| datagram.len() as u64).sum::<u64>()
    {
        assert!(!matches!(stream.act(u64::MAX, 0).0, Acted::Ended(_)));
    }
    for receiver in &receivers {
        let mut buffer = [0; 2000];
        for datagram in &datagrams {
            let length = receiver.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], datagram);
        }
    }
}

/// Promise: Datagrams are read in bounded numbers at a time, whatever their sizes.
///
/// Anyone may send datagrams of many sizes, or empty ones, as fast as they are read: only a limited number is
/// taken at a time, and other streams get their turns.
#[test]
fn so_many_datagrams_are_taken_at_a_time_whatever_their_sizes() {
    const SENT: u64 = 100;
    for lengths in [[700, 300], [0, 0]] {
        let (sender, inlet) = datagrams();
        let (object, _collected) = Object::collect("out", LIMIT);
        let mut stream = StreamBuilder::default().input(inlet, Framing::Whole).output(object).build();
        for length in lengths.into_iter().cycle().take(SENT as usize) {
            assert_eq!(sender.send(&vec![1; length]).unwrap(), length);
        }
        stream.note_ready(Port(1));
        while stream.intake.inputs[0].records < SENT {
            let before = stream.intake.inputs[0].records;
            stream.intake.inputs[0].ready.clear();
            assert!(matches!(stream.intake.read(0, &mut stream.shared), Pulled::Run(_)), "not all came");
            let taken = stream.intake.inputs[0].records - before;
            assert!(taken <= 65, "{taken} at a time");
        }
    }
}

/// Promise: A datagram that does not match its framing, or is not a share, is dropped and counted.
///
/// Anyone may send a datagram: an invalid datagram is dropped and counted as a whole, and the stream
/// continues.
#[test]
fn datagrams_that_do_not_fit_their_framing_are_dropped_and_counted() {
    let packet = |first: u8| [vec![first], vec![0; 187]].concat();
    let good = [packet(0x47), packet(0x47)].concat();
    let half_good = [packet(0x47), packet(0x48)].concat();
    let (sender, inlet) = datagrams();
    let (object, collected) = Object::collect("out", LIMIT);
    let (tell, told) = channel();
    let mut stream = StreamBuilder::default()
        .on_event(move |event| tell.send(event).unwrap())
        .input(inlet, Framing::transport_stream())
        .output(object)
        .build();
    for datagram in [&b"garbage"[..], &good, &half_good, &good[..200], &good] {
        assert_eq!(sender.send(datagram).unwrap(), datagram.len());
    }
    while stream.status().bytes_in < 7 + 2 * 376 + 376 + 200 {
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        stream.note_ready(Port(1));
    }
    assert_eq!(collected.bytes(), [&good[..], &good].concat());
    let input = &stream.status().inputs[0];
    assert_eq!(input.malformed, crate::Dropped { records: 3, bytes: 7 + 376 + 200 });
    assert_eq!(input.records, 4);
    assert_eq!(stream.status().malformed, input.malformed);
    // The input that received them may be removed; the count stays.
    stream.detach_input(Port(1), |_| {});
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Ok(()))));
    let status = stream.status();
    assert!(
        status.inputs.is_empty() && status.malformed == crate::Dropped { records: 3, bytes: 7 + 376 + 200 }
    );
    assert_eq!((status.bytes_dropped, status.bytes_in), (7 + 376 + 200, 7 + 2 * 376 + 376 + 200));
    let StreamEvent::RecordRefused { by, error } = told.recv().unwrap() else { panic!("another event") };
    assert_eq!(by, "udp");
    assert!(error.contains("begins with 0x47, this one with 0x67"), "{error}");
    assert!(
        !told.try_iter().any(|event| matches!(event, StreamEvent::RecordRefused { .. })),
        "it is told once"
    );
}

/// Promise: A datagram that does not match its framing, or is not a share, is dropped and counted.
#[test]
fn records_that_a_handler_refuses_are_dropped_of_datagrams_and_end_a_stream_of_bytes() {
    let filter = || Handler::Select(Box::new(crate::handlers::TransportStreamFilter::pids([0])));
    let packet = [&[0x47][..], &[0; 187]].concat();
    let (sender, inlet) = datagrams();
    let (object, collected) = Object::collect("out", LIMIT);
    let options = OutputOptions { handlers: vec![filter()], ..OutputOptions::default() };
    let mut stream = StreamBuilder::default()
        .handler(filter())
        .input(inlet, Framing::Whole)
        .output_with(object, options)
        .build();
    for datagram in [b"no packet", &packet[..]] {
        assert_eq!(sender.send(datagram).unwrap(), datagram.len());
    }
    while collected.bytes().is_empty() {
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        stream.note_ready(Port(1));
    }
    assert_eq!(collected.bytes(), packet);
    let reports = stream.status().reports;
    assert_eq!(reports, [("ts", "kept", 1), ("ts", "dropped", 0), ("ts", "refused", 1)]);

    let (object, _) = Object::collect("out", LIMIT);
    let mut stream = StreamBuilder::default()
        .handler(filter())
        .input(memory(b"no packet"), Framing::Whole)
        .output(object)
        .build();
    let error = stream.run().unwrap_err().to_string();
    assert!(error.contains("is not packets of 188 bytes; use --framing ts"), "{error}");
}

/// Promise: Unreachable receivers of datagrams are counted and affect no other datagram.
///
/// An ICMP error for earlier datagrams must not affect the datagrams that are sent next, in a train or one by
/// one.
#[test]
fn datagrams_are_sent_though_earlier_ones_came_nowhere() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let own = std::net::Ipv4Addr::new(127, 128 | high, low, 1); // an address of this test only
    let records: Vec<u8> = (0..1000u32).map(|number| number as u8).collect();
    for (pattern, sizes) in
        [(OutputPattern::Stripe, vec![100; 10]), (OutputPattern::StripeBytes(250), vec![250; 4])]
    {
        let nobody = UdpSocket::bind((own, 0)).unwrap();
        let to = nobody.local_addr().unwrap();
        let socket = UdpSocket::bind((own, 0)).unwrap();
        socket.connect(to).unwrap();
        drop(nobody);
        socket.send(b"to nobody").unwrap();
        let mut polled = [PollFd::new(&socket, PollFlags::empty())];
        let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
        assert_eq!(poll(&mut polled, Some(&limit)).unwrap(), 1, "the network says nothing of it");
        let receiver = UdpSocket::bind(to).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut stream = StreamBuilder::default()
            .pattern(pattern)
            .input(memory(&records), Framing::Fixed(100))
            .output(Object::datagrams("udp", socket.into(), None, Some(100)).unwrap())
            .build();
        stream.run().unwrap();
        let mut buffer = [0; 2000];
        let mut received = Vec::new();
        for size in sizes {
            assert_eq!(receiver.recv(&mut buffer).unwrap(), size);
            received.extend_from_slice(&buffer[..size]);
        }
        assert!(received == records, "other bytes came");
        let output = &stream.status().outputs[0];
        assert_eq!((output.bytes, output.lost_bytes, output.icmp_errors), (1000, 0, 1));
    }
}

/// A datagram output to `host`, and the socket at its other end.
fn outlet(host: &str) -> (UdpSocket, Object) {
    let (near, far) = (UdpSocket::bind((host, 0)).unwrap(), UdpSocket::bind((host, 0)).unwrap());
    near.connect(far.local_addr().unwrap()).unwrap();
    far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (far, Object::datagrams("outlet", near.into(), None, None).unwrap())
}

/// Promise: A datagram that is too long is dropped and counted, the first is reported, and the output
/// continues.
///
/// A sender over UDP may lose a datagram, and is not disconnected because of it.
#[test]
fn a_datagram_that_is_too_long_is_lost_and_the_first_is_told() {
    // Longer than any datagram, and longer than the path allows without fragmentation.
    for (host, bytes) in [("127.0.0.1", 65_508), ("::1", 65_500)] {
        let (receiver, object) = outlet(host);
        if let Kind::Datagrams(datagrams) = &object.kind
            && host == "::1"
        {
            sockopt::set_ipv6_mtu_discover(&datagrams.socket, Ipv6PathMtuDiscovery::DO).unwrap();
        }
        let long = [vec![b'x'; bytes - 1], vec![b'\n']].concat();
        let lines = [b"first\n", &long[..], b"second\n", &long, &long, b"third\n"].concat();
        let (builder, told) = events(StreamBuilder::default());
        let mut stream = builder.input(memory(&lines), Framing::lines(LIMIT)).output(object).build();
        stream.run().unwrap();
        for line in ["first\n", "second\n", "third\n"] {
            let mut buffer = [0; 100];
            let length = receiver.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], line.as_bytes());
        }
        let output = &stream.status().outputs[0];
        assert_eq!((output.bytes, output.lost_bytes, output.icmp_errors), (19, 3 * bytes as u64, 0));
        let refused: Vec<_> =
            told.try_iter().filter(|event| matches!(event, StreamEvent::RecordRefused { .. })).collect();
        let error = format!("a datagram of {bytes} bytes is longer than the path takes");
        assert_eq!(refused, [StreamEvent::RecordRefused { by: "outlet".to_owned(), error }]);
    }
}

/// Promise: A datagram that is too long is dropped and counted, the first is reported, and the output
/// continues.
///
/// More bytes wait than the outbox allows, for a part that is too long: its beginning is lost, and its rest
/// must not be sent as a separate datagram.
#[test]
fn the_rest_of_a_datagram_that_is_too_long_is_lost_as_well() {
    let (receiver, object) = outlet("127.0.0.1");
    let bytes = [vec![1; 600_000], vec![2; 100]].concat();
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::StripeBytes(300_000))
        .input(memory(&bytes), Framing::Fixed(100))
        .output(object)
        .build();
    stream.run().unwrap();
    let mut buffer = [0; 65_536];
    let length = receiver.recv(&mut buffer).unwrap();
    assert_eq!(buffer[..length], [2; 100]);
    let output = &stream.status().outputs[0];
    assert_eq!((output.bytes, output.lost_bytes), (100, 600_000));
}

/// Promise: A datagram that is too long is dropped and counted, the first is reported, and the output
/// continues.
///
/// The kernel takes 1,024 slices at a time.
#[test]
fn a_datagram_may_be_of_any_number_of_parts() {
    let (receiver, object) = outlet("127.0.0.1");
    // Two lengths in turn, because records of one length are contiguous.
    let line = |number: usize| format!("{number:0width$}\n", width = 18 + 2 * (number % 2)).into_bytes();
    let lines: Vec<u8> = (0..6000).flat_map(line).collect();
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::StripeBytes(60_000))
        .input(memory(&lines), Framing::lines(100))
        .output(object)
        .build();
    stream.run().unwrap();
    for part in lines.chunks(60_000) {
        let mut buffer = [0; 65_536];
        assert_eq!(receiver.recv(&mut buffer).unwrap(), 60_000);
        assert!(buffer[..60_000] == *part, "other bytes came");
    }
    assert_eq!(stream.status().outputs[0].lost_bytes, 0);
}

/// Promise: Datagrams that are too long for a train are sent singly, shorter ones in trains.
///
/// The failure of a datagram that is too long for a path implies nothing about shorter datagrams.
#[test]
fn trains_of_datagrams_that_are_too_long_for_one_leave_one_by_one_and_others_as_before() {
    let (receiver, mut object) = outlet("::1");
    let Kind::Datagrams(datagrams) = &object.kind else { panic!("another kind") };
    set_ipv6_mtu(datagrams.socket.as_fd(), 1500).unwrap();
    let mut outbox = Outbox::new(LIMIT, WhenFull::Block);
    let mut taken = |size: usize| {
        let run = Run { bytes: vec![7; 4 * size].into(), record_bytes: size, begins: true, ends: true };
        assert!(matches!(outbox.offer(run), Offered::Done));
        let mut calls = Vec::new();
        while !outbox.is_empty() {
            match object.write_from(&mut outbox).unwrap() {
                WriteOutcome::Written(bytes) => calls.push(bytes),
                other => panic!("{other:?}"),
            }
        }
        for _ in 0..4 {
            assert_eq!(receiver.recv(&mut [0; 2000]).unwrap(), size);
        }
        calls
    };
    assert_eq!(taken(1600), [0, 1600, 1600, 1600, 1600], "they are cut by IP");
    assert_eq!(taken(1400), [5600]);
    assert_eq!(taken(1700), [1700; 4]);
    assert_eq!(taken(1400), [5600]);
}
