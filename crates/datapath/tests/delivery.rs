//! Every path delivers the same packets: with stored headers, with headers of the session's own, generated in
//! front of a bare asset, from the middle of a packet, at odd and even offsets, over IPv4 and IPv6; and says
//! the same of what goes wrong.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod example;

use std::time::Duration;

use example::delivered::Delivered;
use example::{Example, HOSTS, KINDS};
use rustix::io::Errno;
use wirepath_datapath::{DataPath, Headers, SendContext, SendError, SendOutcome, StoredTrains, Train};
use wirepath_media::rtp::{HEADER_LENGTH, Header, Marker, Run};

/// The paths that need no module; tests/module.rs has the others.
fn unaided() -> Delivered {
    let paths = DataPath::ALL.into_iter().filter(|path| !path.needs_module());
    Delivered { paths: paths.collect(), cases: 48 }
}

/// Promise: All data paths send the same bytes, with stored, separate and generated headers.
#[test]
fn stored_headers() {
    unaided().stored_headers();
}

/// Promise: All data paths send the same bytes, with stored, separate and generated headers.
#[test]
fn own_headers() {
    unaided().own_headers();
}

/// Promise: All data paths send the same bytes, with stored, separate and generated headers.
#[test]
fn generated_headers() {
    unaided().generated_headers();
}

/// Promise: Trains that are stored one after another leave in one call, whichever headers are made for each.
#[test]
fn trains_one_after_another() {
    let paths = unaided().paths.into_iter();
    let cases = paths.flat_map(|path| KINDS[1..].iter().map(move |headers| (path, *headers)));
    for (host, (path, headers)) in
        HOSTS.into_iter().flat_map(|host| cases.clone().map(move |case| (host, case)))
    {
        let mut example = Example::new(headers, 1, 1316, 40, 188);
        let trains = pictures(&mut example, [5, 1, 34]);
        let (sink, receiver) = example.sink_to(host, path);
        let (mut scratch, mut headers, mut sent, mut calls) = (SendContext::default(), headers, 0, 0);
        while sent < 40 {
            let left: Vec<Train> = after(&trains, sent);
            let by = path.for_train(&left[0], headers, &example.medium, &scratch);
            let left = StoredTrains { file: &example.medium, trains: &left, headers };
            match by.enqueue(&sink, left, &mut scratch, 0).unwrap() {
                SendOutcome::Sent(packets) => sent += packets,
                SendOutcome::Queued => panic!("made headers are not queued"),
            }
            if let Headers::Own { marker, .. } = &mut headers {
                *marker = false;
            }
            calls += 1;
        }
        let is_one_call = matches!(path, DataPath::GsoWritev | DataPath::Sendmmsg);
        assert!(calls == 1 || !is_one_call, "{path}: {calls} calls");
        assert_eq!(example.has_arrived(&receiver), Ok(()), "{path}, {headers:?}");
    }
}

/// The train of an example as trains of so many packets, each a picture with a timestamp, a marker and padding bits of
/// its own, whose headers are then expected.
fn pictures(example: &mut Example, packets: [u32; 3]) -> Vec<Train> {
    let (mut first, mut trains) = (0, Vec::new());
    for (number, packets) in (0..).zip(packets) {
        let part = example.train.after(first).unwrap().up_to(packets);
        let header = part.run.header(first);
        let timestamp = header.timestamp.wrapping_add(3600 * number);
        let (padding, last) = (number as u16 * packets as u16, packets as u8 - 1);
        let run = Run { padding, last, marker: Marker::Last, ..Run::new(Header { timestamp, ..header }, 0) };
        for index in 0..packets {
            let expected = &mut example.expected[(first + index) as usize];
            let mut header = run.header(index);
            if let Headers::Own { sequence_offset, timestamp_offset, marker, .. } = example.headers {
                header.sequence = header.sequence.wrapping_add(sequence_offset);
                header.timestamp = header.timestamp.wrapping_add(timestamp_offset);
                header.marker |= marker && first + index == 0;
            }
            expected[..HEADER_LENGTH].copy_from_slice(&header.to_bytes());
        }
        trains.push(Train { first: 0, run, ..part });
        first += packets;
    }
    trains
}

/// The trains without their first packets.
fn after(trains: &[Train], mut packets: u32) -> Vec<Train> {
    let left = |train: &Train| {
        let left = train.after(packets);
        packets -= packets.min(train.packets());
        left
    };
    trains.iter().filter_map(left).collect()
}

#[test]
fn a_start_in_the_middle_of_a_packet() {
    unaided().a_start_in_the_middle_of_a_packet();
}

/// Promise: After any failure, no path leaves part of a packet in the socket.
#[test]
fn a_truncated_file_is_an_error_of_storage_and_leaves_nothing_behind() {
    unaided().a_truncated_file_is_an_error_of_storage_and_leaves_nothing_behind();
}

/// Wherever it ends: in the first page, later, or a byte too early.
#[test]
fn wire_sendfile_notices_every_missing_byte() {
    for length in [1, 20_000, 40 * 1328 - 1] {
        let example = Example::new(Headers::Stored, 0, 1316, 40, 1316);
        example.medium.file().set_len(length).unwrap();
        let (sink, _receiver) = example.sink_to(HOSTS[0], DataPath::WireSendfile);
        let error = example.send(DataPath::WireSendfile, &sink, &mut SendContext::default());
        assert!(matches!(error, Err(SendError::Storage { .. })), "{length}: {error:?}");
    }
}

/// Promise: On a route without segmentation, a session steps down by one path, and other sessions keep
/// theirs.
///
/// More segments than any kernel cuts (64, from Linux 6.9 on 128), in more pages than a pipe holds: the
/// kernel takes the first part of the train, refuses the last, and drops both. `sendfile` then answers what
/// was taken.
#[test]
fn what_is_refused_at_the_end_of_a_train_is_no_error_of_storage() {
    let paths = [DataPath::WireSendfile, DataPath::GsoWritev];
    for (path, host) in paths.into_iter().flat_map(|path| HOSTS.map(|host| (path, host))) {
        let example = Example::new(Headers::Stored, 4000, 288, 217, 288);
        let (sink, receiver) = example.sink_to(host, path);
        let mut scratch = SendContext::default();
        let error = example.send(path, &sink, &mut scratch).unwrap_err();
        assert!(matches!(error, SendError::Unsupported { errno: Errno::INVAL, .. }), "{path}: {error:?}");
        let few = Example::new(Headers::Stored, 0, 288, 3, 288);
        few.send(path, &sink, &mut scratch).unwrap();
        few.has_arrived(&receiver)
            .unwrap_or_else(|difference| panic!("{path}, after a refused train: {difference}"));
    }
}

#[test]
fn a_closed_port_is_told() {
    unaided().a_closed_port_is_told();
}

/// Packets that no MTU takes: paths that segment cannot and say so, the others hand fragments to the network.
#[test]
fn packets_above_the_mtu_need_a_path_without_segments() {
    let payload = 20_000; // ten times this is more than a datagram, and lo's MTU is 65,536
    let example = Example::new(Headers::Stored, 0, payload, 4, payload);
    let (sink, _receiver) = example.sink_to(HOSTS[0], DataPath::WireSendfile);
    let mut scratch = SendContext::default();
    let error = example.send(DataPath::WireSendfile, &sink, &mut scratch);
    assert!(matches!(error, Err(SendError::Unsupported { errno: Errno::MSGSIZE, .. })), "{error:?}");
    sink.prepare(DataPath::Sendmmsg).unwrap();
    assert_eq!(example.send(DataPath::Sendmmsg, &sink, &mut scratch), Ok(()));
}

/// On loopback the kernel copies what it was lent, and says so; the sink keeps count.
#[test]
fn what_gso_zerocopy_lends_comes_back() {
    for headers in KINDS {
        let example = Example::new(headers, 1, 1316, 40, 188);
        let (sink, receiver) = example.sink_to(HOSTS[0], DataPath::GsoZerocopy);
        let mut scratch = SendContext::default();
        for _ in 0..100 {
            example.send(DataPath::GsoZerocopy, &sink, &mut scratch).unwrap();
            example.has_arrived(&receiver).unwrap();
        }
        assert!(sink.wait_for_loans(Duration::from_secs(5)).unwrap());
        let counts = sink.loans();
        assert_eq!((counts.copies, counts.outstanding, counts.copied_by_kernel), (0, 0, counts.loans));
        let a_train = if headers == Headers::Stored { 1..=1 } else { 5..=6 };
        assert!(a_train.contains(&(counts.loans / 100)), "{headers:?}: {counts:?}");
    }
}

#[test]
fn a_sink_that_was_not_prepared_to_lend_says_so() {
    let example = Example::new(Headers::Stored, 0, 100, 5, 100);
    let (sink, _receiver) = example.sink_to(HOSTS[0], DataPath::GsoWritev);
    let error = example.send(DataPath::GsoZerocopy, &sink, &mut SendContext::default()).unwrap_err();
    assert!(matches!(error, SendError::Unsupported { call: "setsockopt(SO_ZEROCOPY)", .. }), "{error}");
}
