//! Every path delivers the same packets: with stored headers, with headers of the session's own, from the middle of a packet,
//! at odd and even offsets, and says the same of what goes wrong.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::io::Write;
use std::net::UdpSocket;
use std::time::Duration;

use proptest::prelude::*;
use rustix::io::Errno;
use wirepath_datapath::{Headers, Medium, Path, Scratch, SendError, Train, UdpSink};
use wirepath_media::rtp::{HEADER_LENGTH, Header, Run};

/// A train at `offset` of a medium, and the bytes stored for it.
fn stored(
    offset: usize,
    payload_length: usize,
    packets: u32,
    last_length: usize,
) -> (Medium, Train, Vec<Vec<u8>>) {
    let first =
        Header { marker: true, payload_type: 33, sequence: 65_530, timestamp: u32::MAX - 50, ssrc: 99 };
    let run = Run { first, step: 237 << 14 };
    let stored: Vec<Vec<u8>> = (0..packets)
        .map(|index| {
            let length = if index + 1 == packets { last_length } else { payload_length };
            let mut packet = run.header(index).to_bytes().to_vec();
            packet.extend((0..length).map(|at| (at as u32 * 7 + index * 13) as u8));
            packet
        })
        .collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![0xee; offset]).unwrap();
    file.write_all(&stored.concat()).unwrap();
    let length: usize = stored.iter().map(Vec::len).sum();
    let train = Train {
        offset: offset as u64,
        length: length as u32,
        packet_size: (HEADER_LENGTH + payload_length) as u16,
        skip: 0,
        first: 0,
        run,
    };
    (Medium::new(file, (offset + length) as u64).unwrap(), train, stored)
}

fn connected() -> (UdpSocket, UdpSocket) {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    (sender, receiver)
}

/// Sends all of the train, coming back for the rest as an engine does, and answers what arrived.
fn deliver(path: Path, medium: &Medium, train: Train, headers: Headers) -> Vec<Vec<u8>> {
    let (sender, receiver) = connected();
    let sink = UdpSink::new(sender, train.packet_size, path).unwrap();
    let mut scratch = Scratch::default();
    let mut rest = Some(train);
    while let Some(train) = rest {
        let sent = path.send(&sink, medium, &train, headers, &mut scratch).unwrap();
        rest = train.after(sent);
    }
    (0..train.packets())
        .map(|_| {
            let mut buffer = vec![0; 65_536];
            let length = receiver.recv(&mut buffer).unwrap();
            buffer.truncate(length);
            buffer
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn stored_headers(
        offset in 0usize..9000, payload in 1usize..1400, packets in 1u32..40, last in 1usize..1400,
    ) {
        let (medium, train, stored) = stored(offset, payload, packets, last.min(payload));
        for path in Path::ALL {
            prop_assert_eq!(&deliver(path, &medium, train, Headers::Stored), &stored, "{}", path);
        }
    }

    #[test]
    fn own_headers(
        offset in 0usize..9000, packets in 1u32..40, sequence_offset: u16, timestamp_offset: u32, marker: bool,
    ) {
        let (medium, train, mut expected) = stored(offset, 1316, packets, 188);
        for (index, packet) in expected.iter_mut().enumerate() {
            let mut header = train.run.header(index as u32);
            header.sequence = header.sequence.wrapping_add(sequence_offset);
            header.timestamp = header.timestamp.wrapping_add(timestamp_offset);
            header.marker |= marker && index == 0;
            packet[..HEADER_LENGTH].copy_from_slice(&header.to_bytes());
        }
        let headers = Headers::Own { sequence_offset, timestamp_offset, marker };
        for path in Path::ALL {
            prop_assert_eq!(&deliver(path, &medium, train, headers), &expected, "{}", path);
        }
    }
}

#[test]
fn a_start_in_the_middle_of_a_packet() {
    let (medium, train, stored) = stored(4095, 1316, 3, 1316);
    let start = Train { skip: 376, ..train.up_to(1) };
    let mut expected = stored[0][..HEADER_LENGTH].to_vec();
    expected.extend_from_slice(&stored[0][HEADER_LENGTH + 376..]);
    for path in Path::ALL {
        assert_eq!(deliver(path, &medium, start, Headers::Stored), [expected.clone()], "{path}");
    }
}

/// The file ends inside the train: an error, never a signal, on every path.
#[test]
fn a_truncated_file_is_an_error_of_storage() {
    for path in Path::ALL {
        let (medium, train, _) = stored(0, 1316, 40, 1316);
        medium.file().set_len(0).unwrap();
        let (sender, _receiver) = connected();
        let sink = UdpSink::new(sender, train.packet_size, path).unwrap();
        let error = path.send(&sink, &medium, &train, Headers::Stored, &mut Scratch::default()).unwrap_err();
        assert!(matches!(error, SendError::Storage { .. }), "{path}: {error:?}");
    }
}

/// Wherever it ends: in the first page, later, or a byte too early.
#[test]
fn wire_sendfile_notices_every_missing_byte() {
    for length in [1, 20_000, 40 * 1328 - 1] {
        let (medium, train, _) = stored(0, 1316, 40, 1316);
        medium.file().set_len(length).unwrap();
        let (sender, _receiver) = connected();
        let sink = UdpSink::new(sender, train.packet_size, Path::WireSendfile).unwrap();
        let error = Path::WireSendfile.send(&sink, &medium, &train, Headers::Stored, &mut Scratch::default());
        assert!(matches!(error, Err(SendError::Storage { .. })), "{length}: {error:?}");
    }
}

/// More segments than any kernel cuts (64, from Linux 6.9 on 128), in more pages than a pipe holds: the kernel takes the
/// first part of the train, refuses the last, and drops both. `sendfile` then answers what was taken.
#[test]
fn what_is_refused_at_the_end_of_a_train_is_no_error_of_storage() {
    let (medium, train, _) = stored(4000, 288, 217, 288);
    for path in [Path::WireSendfile, Path::GsoWritev] {
        let (sender, receiver) = connected();
        let sink = UdpSink::new(sender, train.packet_size, path).unwrap();
        let mut scratch = Scratch::default();
        let error = path.send(&sink, &medium, &train, Headers::Stored, &mut scratch).unwrap_err();
        assert!(matches!(error, SendError::Unsupported { errno: Errno::INVAL, .. }), "{path}: {error:?}");
        let (medium, train, stored) = stored(0, 288, 3, 288);
        path.send(&sink, &medium, &train, Headers::Stored, &mut scratch).unwrap();
        let mut buffer = [0; 400];
        let length = receiver.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], stored[0], "{path}: nothing of the refused train is left");
    }
}

/// Told within two trains: a call that sent some packets before it met the error does not say it.
#[test]
fn a_closed_port_is_told() {
    for path in Path::ALL {
        let (medium, train, _) = stored(0, 100, 5, 100);
        let (sender, receiver) = connected();
        drop(receiver);
        let sink = UdpSink::new(sender, train.packet_size, path).unwrap();
        let mut scratch = Scratch::default();
        let mut send_all = || {
            let mut rest = Some(train);
            while let Some(train) = rest {
                rest = train.after(path.send(&sink, &medium, &train, Headers::Stored, &mut scratch)?);
            }
            Ok(())
        };
        let refused = send_all().and_then(|()| send_all());
        assert!(matches!(refused, Err(SendError::Refused { .. })), "{path}: {refused:?}");
    }
}

/// Packets that no MTU takes: paths that segment cannot and say so, the others hand fragments to the network.
#[test]
fn packets_above_the_mtu_need_a_path_without_segments() {
    let payload = 20_000; // ten times this is more than a datagram, and lo's MTU is 65,536
    let (medium, train, _) = stored(0, payload, 4, payload);
    let (sender, _receiver) = connected();
    let sink = UdpSink::new(sender, train.packet_size, Path::WireSendfile).unwrap();
    let error = Path::WireSendfile.send(&sink, &medium, &train, Headers::Stored, &mut Scratch::default());
    assert_eq!(error, Err(SendError::Unsupported { call: "sendfile", errno: Errno::MSGSIZE }));
    sink.prepare(Path::Sendmmsg).unwrap();
    let sent = Path::Sendmmsg.send(&sink, &medium, &train, Headers::Stored, &mut Scratch::default());
    assert_eq!(sent, Ok(4));
}
