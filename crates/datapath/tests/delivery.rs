//! Every path delivers the same packets: with stored headers, with headers of the session's own, generated in front of a bare
//! asset, from the middle of a packet, at odd and even offsets, over IPv4 and IPv6; and says the same of what goes wrong.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use proptest::prelude::*;
use rustix::io::Errno;
use wirepath_datapath::{Headers, Medium, Path, Scratch, SendError, Train, UdpSink};
use wirepath_media::rtp::{HEADER_LENGTH, Header, Run};

/// A train in a medium, and what is to arrive of it.
struct Example {
    medium: Medium,
    train: Train,
    headers: Headers,
    bytes: Vec<u8>,
    expected: Vec<Vec<u8>>,
}

/// This host, by both families.
const HOSTS: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

/// Three ways to the headers.
const KINDS: [Headers; 3] = [
    Headers::Stored,
    Headers::Own { sequence_offset: 7, timestamp_offset: 90_000, marker: true },
    Headers::Generated,
];

impl Example {
    /// `packets` of `payload` bytes, the last of `last`, that begin at `offset` of a file.
    fn new(headers: Headers, offset: usize, payload: usize, packets: u32, last: usize) -> Example {
        let first =
            Header { marker: true, payload_type: 33, sequence: 65_530, timestamp: u32::MAX - 50, ssrc: 99 };
        let run = Run { first, step: 237 << 14 };
        let (mut stored, mut expected) = (Vec::new(), Vec::new());
        for index in 0..packets {
            let length = if index + 1 == packets { last } else { payload };
            let payload = (0..length).map(|at| (at as u32 * 7 + index * 13) as u8);
            if headers != Headers::Generated {
                stored.extend(run.header(index).to_bytes());
            }
            stored.extend(payload.clone());
            let header = sent_header(run.header(index), headers, index);
            expected.push(header.to_bytes().into_iter().chain(payload).collect());
        }
        let header_length = if headers == Headers::Generated { 0 } else { HEADER_LENGTH };
        let train = Train {
            offset: offset as u64,
            length: stored.len() as u32,
            packet_size: (header_length + payload) as u16,
            skip: 0,
            first: 0,
            run,
        };
        let mut bytes = vec![0xee; offset];
        bytes.extend(stored);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let medium = Medium::new(file, bytes.len() as u64).unwrap();
        Example { medium, train, headers, bytes, expected }
    }

    /// A sink for it, and where what it sends arrives.
    fn sink(&self, path: Path) -> (UdpSink, UdpSocket) {
        self.sink_to("127.0.0.1:0", path)
    }

    /// The same, for a host of either family.
    fn sink_to(&self, host: &str, path: Path) -> (UdpSink, UdpSocket) {
        let (sender, receiver) = connected(host);
        let length = self.expected.iter().map(Vec::len).max().unwrap();
        (UdpSink::new(sender, length as u16, path).unwrap(), receiver)
    }

    /// Sends all of the train, coming back for the rest as an engine does.
    fn send(&self, path: Path, sink: &UdpSink, scratch: &mut Scratch) -> Result<(), SendError> {
        let (mut rest, mut headers) = (Some(self.train), self.headers);
        while let Some(train) = rest {
            let sent = path.send(sink, &self.medium, &train, headers, scratch)?;
            assert!(sent > 0, "{path} sent nothing and said nothing");
            rest = train.after(sent);
            if let Headers::Own { marker, .. } = &mut headers {
                *marker = false; // it belongs to the first packet of a session's train, which has left
            }
        }
        Ok(())
    }

    /// Whether every packet arrives as it should.
    fn is_delivered(&self, path: Path) -> Result<(), String> {
        HOSTS.into_iter().try_for_each(|host| {
            let (sink, receiver) = self.sink_to(host, path);
            let sent = self.send(path, &sink, &mut Scratch::default());
            sent.map_err(|error| format!("{path} to {host}: {error}"))?;
            self.has_arrived(&receiver).map_err(|error| format!("{path} to {host}: {error}"))
        })
    }

    fn has_arrived(&self, receiver: &UdpSocket) -> Result<(), String> {
        for (index, expected) in self.expected.iter().enumerate() {
            let mut buffer = vec![0; 65_536];
            let length = receiver.recv(&mut buffer).map_err(|error| format!("packet {index}: {error}"))?;
            if length != expected.len() {
                return Err(format!("packet {index} has {length} bytes, not {}", expected.len()));
            }
            if let Some(at) = (0..length).find(|at| buffer[*at] != expected[*at]) {
                return Err(format!("packet {index} has another byte at {at}"));
            }
        }
        Ok(())
    }
}

fn sent_header(mut header: Header, headers: Headers, index: u32) -> Header {
    if let Headers::Own { sequence_offset, timestamp_offset, marker } = headers {
        header.sequence = header.sequence.wrapping_add(sequence_offset);
        header.timestamp = header.timestamp.wrapping_add(timestamp_offset);
        header.marker |= marker && index == 0;
    }
    header
}

fn connected(host: &str) -> (UdpSocket, UdpSocket) {
    let receiver = UdpSocket::bind(host).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let sender = UdpSocket::bind(host).unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    (sender, receiver)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn stored_headers(
        offset in 0usize..9000, payload in 1usize..1400, packets in 1u32..40, last in 1usize..1400,
    ) {
        let example = Example::new(Headers::Stored, offset, payload, packets, last.min(payload));
        for path in Path::ALL {
            prop_assert_eq!(example.is_delivered(path), Ok(()));
        }
    }

    #[test]
    fn own_headers(
        offset in 0usize..9000, packets in 1u32..40, sequence_offset: u16, timestamp_offset: u32, marker: bool,
    ) {
        let headers = Headers::Own { sequence_offset, timestamp_offset, marker };
        let example = Example::new(headers, offset, 1316, packets, 188);
        for path in Path::ALL {
            prop_assert_eq!(example.is_delivered(path), Ok(()));
        }
    }

    #[test]
    fn generated_headers(
        offset in 0usize..9000, payload in 1usize..9000, packets in 1u32..6, last in 1usize..9000,
    ) {
        let example = Example::new(Headers::Generated, offset, payload, packets, last.min(payload));
        for path in Path::ALL {
            prop_assert_eq!(example.is_delivered(path), Ok(()));
        }
    }
}

#[test]
fn a_start_in_the_middle_of_a_packet() {
    for headers in [Headers::Stored, Headers::Generated] {
        let mut example = Example::new(headers, 4095, 1316, 1, 1316);
        example.train.skip = 376;
        example.expected[0].drain(HEADER_LENGTH..HEADER_LENGTH + 376);
        for path in Path::ALL {
            assert_eq!(example.is_delivered(path), Ok(()));
        }
    }
}

/// The file ends inside the train: an error, never a signal, on every path; and when it is whole again, so is what is sent:
/// no part of the packet that failed waits in the socket.
#[test]
fn a_truncated_file_is_an_error_of_storage_and_leaves_nothing_behind() {
    for (path, host) in Path::ALL.into_iter().flat_map(|path| HOSTS.map(|host| (path, host))) {
        for headers in KINDS {
            let example = Example::new(headers, 0, 1316, 40, 1316);
            let (sink, receiver) = example.sink_to(host, path);
            let mut scratch = Scratch::default();
            example.medium.file().set_len(0).unwrap();
            let error = example.send(path, &sink, &mut scratch).unwrap_err();
            assert!(matches!(error, SendError::Storage { .. }), "{path}, {headers:?}: {error:?}");
            example.medium.file().write_all_at(&example.bytes, 0).unwrap();
            assert_eq!(example.send(path, &sink, &mut scratch), Ok(()), "{path}, {headers:?}");
            assert_eq!(example.has_arrived(&receiver), Ok(()), "{path}, {headers:?}");
        }
    }
}

/// Wherever it ends: in the first page, later, or a byte too early.
#[test]
fn wire_sendfile_notices_every_missing_byte() {
    for length in [1, 20_000, 40 * 1328 - 1] {
        let example = Example::new(Headers::Stored, 0, 1316, 40, 1316);
        example.medium.file().set_len(length).unwrap();
        let (sink, _receiver) = example.sink(Path::WireSendfile);
        let error = example.send(Path::WireSendfile, &sink, &mut Scratch::default());
        assert!(matches!(error, Err(SendError::Storage { .. })), "{length}: {error:?}");
    }
}

/// More segments than any kernel cuts (64, from Linux 6.9 on 128), in more pages than a pipe holds: the kernel takes the
/// first part of the train, refuses the last, and drops both. `sendfile` then answers what was taken.
#[test]
fn what_is_refused_at_the_end_of_a_train_is_no_error_of_storage() {
    let paths = [Path::WireSendfile, Path::GsoWritev];
    for (path, host) in paths.into_iter().flat_map(|path| HOSTS.map(|host| (path, host))) {
        let example = Example::new(Headers::Stored, 4000, 288, 217, 288);
        let (sink, receiver) = example.sink_to(host, path);
        let mut scratch = Scratch::default();
        let error = example.send(path, &sink, &mut scratch).unwrap_err();
        assert!(matches!(error, SendError::Unsupported { errno: Errno::INVAL, .. }), "{path}: {error:?}");
        let few = Example::new(Headers::Stored, 0, 288, 3, 288);
        few.send(path, &sink, &mut scratch).unwrap();
        few.has_arrived(&receiver)
            .unwrap_or_else(|difference| panic!("{path}, after a refused train: {difference}"));
    }
}

/// Told within two trains: a call that sent some packets before it met the error does not say it.
#[test]
fn a_closed_port_is_told() {
    for (path, host) in Path::ALL.into_iter().flat_map(|path| HOSTS.map(|host| (path, host))) {
        for headers in KINDS {
            let example = Example::new(headers, 0, 100, 5, 100);
            let (sink, receiver) = example.sink_to(host, path);
            drop(receiver);
            let mut scratch = Scratch::default();
            let mut send = || example.send(path, &sink, &mut scratch);
            let refused = send().and_then(|()| send());
            assert!(matches!(refused, Err(SendError::Refused { .. })), "{path}: {refused:?}");
        }
    }
}

/// Packets that no MTU takes: paths that segment cannot and say so, the others hand fragments to the network.
#[test]
fn packets_above_the_mtu_need_a_path_without_segments() {
    let payload = 20_000; // ten times this is more than a datagram, and lo's MTU is 65,536
    let example = Example::new(Headers::Stored, 0, payload, 4, payload);
    let (sink, _receiver) = example.sink(Path::WireSendfile);
    let mut scratch = Scratch::default();
    let error = example.send(Path::WireSendfile, &sink, &mut scratch);
    assert!(matches!(error, Err(SendError::Unsupported { errno: Errno::MSGSIZE, .. })), "{error:?}");
    sink.prepare(Path::Sendmmsg).unwrap();
    assert_eq!(example.send(Path::Sendmmsg, &sink, &mut scratch), Ok(()));
}

/// On loopback the kernel copies what it was lent, and says so; the sink keeps count.
#[test]
fn what_gso_zerocopy_lends_comes_back() {
    for headers in KINDS {
        let example = Example::new(headers, 1, 1316, 40, 188);
        let (sink, receiver) = example.sink(Path::GsoZerocopy);
        let mut scratch = Scratch::default();
        for _ in 0..100 {
            example.send(Path::GsoZerocopy, &sink, &mut scratch).unwrap();
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
    let (sink, _receiver) = example.sink(Path::GsoWritev);
    let error = example.send(Path::GsoZerocopy, &sink, &mut Scratch::default()).unwrap_err();
    assert!(matches!(error, SendError::Unsupported { call: "setsockopt(SO_ZEROCOPY)", .. }), "{error}");
}
