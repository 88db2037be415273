//! A train, where it is stored, and what is to arrive of it: for tests of paths that need nothing and of
//! those that do.

pub(crate) mod delivered;

use std::io::Write;
use std::net::UdpSocket;
use std::time::Duration;

use wirepath_datapath::{DataPath, Headers, MappedFile, SendContext, SendError, Train, UdpSink};
use wirepath_media::rtp::{HEADER_LENGTH, Header, Run};

/// A train in a medium, and what is to arrive of it.
pub(crate) struct Example {
    pub(crate) medium: MappedFile,
    pub(crate) train: Train,
    pub(crate) headers: Headers,
    pub(crate) bytes: Vec<u8>,
    pub(crate) expected: Vec<Vec<u8>>,
}

/// This host, by both families.
pub(crate) const HOSTS: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

/// Four ways to the headers.
pub(crate) const KINDS: [Headers; 4] = [
    Headers::Stored,
    Headers::Own { sequence_offset: 7, timestamp_offset: 90_000, marker: true, stored: true },
    Headers::Own { sequence_offset: 7, timestamp_offset: 90_000, marker: true, stored: false },
    Headers::Generated,
];

impl Example {
    /// `packets` of `payload` bytes, the last of `last`, that begin at `offset` of a file.
    pub(crate) fn new(headers: Headers, offset: usize, payload: usize, packets: u32, last: usize) -> Example {
        Example::with_step(237 << 14, headers, offset, payload, packets, last)
    }

    /// The same, with such a step from one timestamp to the next.
    pub(crate) fn with_step(
        step: u32,
        headers: Headers,
        offset: usize,
        payload: usize,
        packets: u32,
        last: usize,
    ) -> Example {
        let first = Header {
            padding: false,
            marker: true,
            payload_type: 33,
            sequence: 65_530,
            timestamp: u32::MAX - 50,
            ssrc: 99,
        };
        let run = Run::new(first, step);
        let (mut stored, mut expected) = (Vec::new(), Vec::new());
        for index in 0..packets {
            let length = if index + 1 == packets { last } else { payload };
            let payload = (0..length).map(|at| (at as u32 * 7 + index * 13) as u8);
            let in_file = stored_header(run.header(index), headers, index);
            if has_headers(headers) {
                stored.extend(in_file.to_bytes());
            }
            stored.extend(payload.clone());
            let header = sent_header(in_file, headers, index);
            expected.push(header.to_bytes().into_iter().chain(payload).collect());
        }
        let header_length = if has_headers(headers) { HEADER_LENGTH } else { 0 };
        let train = Train {
            offset: offset as u64,
            length: stored.len() as u32,
            packet_size: (header_length + payload) as u16,
            skip: 0,
            first: 0,
            packets_before: 0,
            run,
        };
        let mut bytes = vec![0xee; offset];
        bytes.extend(stored);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let medium = MappedFile::new(file, bytes.len() as u64).unwrap();
        Example { medium, train, headers, bytes, expected }
    }

    /// A sink for it, and where what it sends to this host arrives.
    pub(crate) fn sink_to(&self, host: &str, path: DataPath) -> (UdpSink, UdpSocket) {
        let (sender, receiver) = connected(host);
        let length = self.expected.iter().map(Vec::len).max().unwrap();
        (UdpSink::new(sender, length as u16, path).unwrap(), receiver)
    }

    /// Sends all of the train, coming back for the rest as an engine does.
    pub(crate) fn send(
        &self,
        path: DataPath,
        sink: &UdpSink,
        scratch: &mut SendContext,
    ) -> Result<(), SendError> {
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

    /// Returns whether every packet arrives as it should.
    pub(crate) fn is_delivered(&self, path: DataPath) -> Result<(), String> {
        HOSTS.into_iter().try_for_each(|host| {
            let (sink, receiver) = self.sink_to(host, path);
            let sent = self.send(path, &sink, &mut SendContext::default());
            sent.map_err(|error| format!("{path} to {host}: {error}"))?;
            self.has_arrived(&receiver).map_err(|error| format!("{path} to {host}: {error}"))
        })
    }

    pub(crate) fn has_arrived(&self, receiver: &UdpSocket) -> Result<(), String> {
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

/// Returns whether the file has headers in front of payloads.
fn has_headers(headers: Headers) -> bool {
    matches!(headers, Headers::Stored | Headers::Own { stored: true, .. })
}

/// Header in the file. Stored headers are sent as they are: as in joined trains, those after the first packet do not
/// follow from the run.
fn stored_header(header: Header, headers: Headers, index: u32) -> Header {
    if headers != Headers::Stored || index == 0 {
        return header;
    }
    let (padding, marker) = (index % 3 == 1, index.is_multiple_of(2));
    Header { padding, marker, timestamp: header.timestamp.wrapping_add(777 * (index / 4)), ..header }
}

fn sent_header(mut header: Header, headers: Headers, index: u32) -> Header {
    if let Headers::Own { sequence_offset, timestamp_offset, marker, .. } = headers {
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
