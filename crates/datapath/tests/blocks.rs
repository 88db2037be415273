//! Every path for downloads delivers the same bytes, to UDP and to TCP, over IPv4 and IPv6, and says the same of what goes wrong.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use proptest::prelude::*;
use wirepath_datapath::{BlockPath, BlockSink, Extent, Medium, Scratch, SendError};

const TIMEOUT: Duration = Duration::from_secs(5);

/// The paths that need no ring and no module, to both hosts; tests/uring.rs and tests/module.rs have the others.
fn unaided() -> impl Iterator<Item = (BlockPath, &'static str)> {
    let paths = BlockPath::ALL.into_iter().filter(|path| !path.needs_hot_memory() && !path.needs_module());
    paths.flat_map(|path| HOSTS.map(|host| (path, host)))
}

fn medium(length: usize) -> (Medium, Vec<u8>) {
    let bytes: Vec<u8> = (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    (Medium::new(file, length as u64).unwrap(), bytes)
}

/// This host, by both families.
const HOSTS: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

fn udp(host: &str, packet_size: u16, path: BlockPath) -> (BlockSink, UdpSocket) {
    let receiver = UdpSocket::bind(host).unwrap();
    receiver.set_read_timeout(Some(TIMEOUT)).unwrap();
    let sender = UdpSocket::bind(host).unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    (BlockSink::udp(sender, packet_size, path).unwrap(), receiver)
}

fn tcp(host: &str, path: BlockPath) -> (BlockSink, TcpStream) {
    let listener = TcpListener::bind(host).unwrap();
    let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (receiver, _) = listener.accept().unwrap();
    receiver.set_read_timeout(Some(TIMEOUT)).unwrap();
    (BlockSink::tcp(sender, path).unwrap(), receiver)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn datagrams_arrive_whole(offset in 0usize..9000, packet in 1usize..9000, packets in 1usize..6, last in 1usize..9000) {
        let length = packet * (packets - 1) + last.min(packet);
        let (medium, bytes) = medium(offset + length);
        for (path, host) in unaided() {
            let (sink, receiver) = udp(host, packet as u16, path);
            let mut scratch = Scratch::default();
            let a_call = if path.segments() { packets * packet } else { packet };
            for block in bytes[offset..].chunks(a_call) {
                let start = block.as_ptr().addr() - bytes.as_ptr().addr();
                let extent = Extent { offset: start as u64, length: block.len() };
                prop_assert_eq!(path.send(&sink, &medium, extent, &mut scratch), Ok(block.len()), "{} to {}", path, host);
            }
            for (index, expected) in bytes[offset..].chunks(packet).enumerate() {
                let mut buffer = vec![0; 65_536];
                let length = receiver.recv(&mut buffer).unwrap();
                prop_assert!(&buffer[..length] == expected, "{} to {}: datagram {}", path, host, index);
            }
        }
    }
}

/// More than a connection takes at once: what it does not take now is for later.
#[test]
fn a_file_arrives_whole_through_a_connection_that_fills_up() {
    let (medium, bytes) = medium(20_000_001);
    for (path, host) in unaided() {
        let (sink, mut receiver) = tcp(host, path);
        let mut scratch = Scratch::default();
        let (mut offset, mut received) = (0, Vec::new());
        while offset < bytes.len() {
            let extent = Extent { offset: offset as u64, length: (bytes.len() - offset).min(1 << 20) };
            match path.send(&sink, &medium, extent, &mut scratch) {
                Ok(sent) => offset += sent,
                Err(SendError::Full { .. }) => {
                    let mut buffer = vec![0; 1 << 20];
                    let length = receiver.read(&mut buffer).unwrap();
                    received.extend_from_slice(&buffer[..length]);
                }
                Err(error) => panic!("{path}: {error}"),
            }
        }
        assert!(!received.is_empty(), "{path}: the connection was never full");
        drop(sink);
        receiver.read_to_end(&mut received).unwrap();
        assert!(received == bytes, "{path} to {host}: other bytes arrived");
    }
}

#[test]
fn a_truncated_file_is_an_error_of_storage_and_leaves_nothing_behind() {
    for (path, host) in unaided() {
        for stream in [false, true] {
            let (medium, bytes) = medium(65_507);
            let extent = Extent { offset: 0, length: bytes.len() };
            let (sink, mut arrived): (BlockSink, Box<dyn FnMut() -> Vec<u8>>) = if stream {
                let (sink, mut receiver) = tcp(host, path);
                (sink, Box::new(move || read_exact(&mut receiver, 65_507)))
            } else {
                let (sink, receiver) = udp(host, 65_480, path); // with IPv6 headers as much as lo's MTU
                (sink, Box::new(move || receive(&receiver, 65_507)))
            };
            let mut scratch = Scratch::default();
            medium.file().set_len(0).unwrap();
            let error = path.send(&sink, &medium, extent, &mut scratch).unwrap_err();
            assert!(matches!(error, SendError::Storage { .. }), "{path} to {host}: {error:?}");
            medium.file().write_all_at(&bytes, 0).unwrap();
            assert_eq!(path.send(&sink, &medium, extent, &mut scratch), Ok(bytes.len()), "{path}");
            assert!(arrived() == bytes, "{path} to {host}: other bytes arrived");
            assert!(sink.wait_for_loans(TIMEOUT).unwrap(), "{path}: {:?}", sink.loans());
        }
    }
}

fn read_exact(receiver: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    receiver.read_exact(&mut bytes).unwrap();
    bytes
}

fn receive(receiver: &UdpSocket, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let mut buffer = vec![0; 65_536];
        let length = receiver.recv(&mut buffer).unwrap();
        bytes.extend_from_slice(&buffer[..length]);
    }
    bytes
}

#[test]
fn a_closed_port_is_told() {
    let (medium, _) = medium(1000);
    for (path, host) in unaided() {
        let (sink, receiver) = udp(host, 1000, path);
        drop(receiver);
        let mut scratch = Scratch::default();
        let mut send = || path.send(&sink, &medium, Extent { offset: 0, length: 1000 }, &mut scratch);
        let refused = send().and_then(|_| send());
        assert!(matches!(refused, Err(SendError::Refused { .. })), "{path} to {host}: {refused:?}");
    }
}
