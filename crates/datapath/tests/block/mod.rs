//! Blocks of a file, where they are sent to, and what every path must do with them, for lists of paths.

use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use proptest::prelude::*;
use wirepath_datapath::{BlockPath, BlockSink, Extent, MappedFile, SendContext, SendError};
use wirepath_testkit::udp::close_port;

/// This host, by both families.
pub(crate) const HOSTS: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

/// When nothing comes, that is told after so long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// Such paths, to both hosts.
pub(crate) fn to_both_hosts(wanted: fn(BlockPath) -> bool) -> Vec<(BlockPath, &'static str)> {
    let paths = BlockPath::ALL.into_iter().filter(|path| wanted(*path));
    paths.flat_map(|path| HOSTS.map(|host| (path, host))).collect()
}

pub(crate) fn medium(length: usize) -> (MappedFile, Vec<u8>) {
    let bytes: Vec<u8> = (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    (MappedFile::new(file, length as u64).unwrap(), bytes)
}

pub(crate) fn udp(host: &str, packet_size: u16, path: BlockPath) -> (BlockSink, UdpSocket) {
    let receiver = UdpSocket::bind(host).unwrap();
    receiver.set_read_timeout(Some(TIMEOUT)).unwrap();
    let sender = UdpSocket::bind(host).unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    (BlockSink::udp(sender, packet_size, path).unwrap(), receiver)
}

/// In as few calls as each path needs.
pub(crate) fn datagrams_arrive_whole(paths: &[(BlockPath, &str)], cases: u32) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(
        offset in 0usize..9000, packet in 1usize..9000, packets in 1usize..6, last in 1usize..9000,
    )| {
        let length = packet * (packets - 1) + last.min(packet);
        let (medium, bytes) = medium(offset + length);
        for &(path, host) in paths {
            let (sink, receiver) = udp(host, packet as u16, path);
            let mut scratch = SendContext::default();
            let a_call = if path.segments() || path.takes_runs() { length } else { packet };
            let mut start = offset;
            while start < bytes.len() {
                let extent = Extent { offset: start as u64, length: a_call.min(bytes.len() - start) };
                let sent = path.send(&sink, &medium, extent, &mut scratch);
                let sent = sent.map_err(|error| TestCaseError::fail(format!("{path} to {host}: {error}")))?;
                let enough = if path.takes_runs() { 1..=extent.length } else { extent.length..=extent.length };
                prop_assert!(enough.contains(&sent), "{} to {}: {} bytes", path, host, sent);
                start += sent;
            }
            for (index, expected) in bytes[offset..].chunks(packet).enumerate() {
                let mut buffer = vec![0; 65_536];
                let length = receiver.recv(&mut buffer).unwrap();
                prop_assert!(&buffer[..length] == expected, "{} to {}: datagram {}", path, host, index);
            }
        }
    });
}

/// An error, and when the file is whole again, so is what is sent: `arrived` answers what of the sink's
/// comes.
pub(crate) fn storage_fails_and_leaves_nothing_behind(
    (path, host): (BlockPath, &str),
    sink: &BlockSink,
    length: usize,
    arrived: impl FnOnce() -> Vec<u8>,
) {
    let (medium, bytes) = medium(length);
    let extent = Extent { offset: 0, length };
    let mut scratch = SendContext::default();
    medium.file().set_len(0).unwrap();
    let error = path.send(sink, &medium, extent, &mut scratch).unwrap_err();
    assert!(matches!(error, SendError::Storage { .. }), "{path} to {host}: {error:?}");
    medium.file().write_all_at(&bytes, 0).unwrap();
    assert_eq!(path.send(sink, &medium, extent, &mut scratch), Ok(length), "{path}");
    assert!(arrived() == bytes, "{path} to {host}: other bytes arrived");
}

/// So many bytes, in datagrams.
pub(crate) fn receive(receiver: &UdpSocket, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let mut buffer = vec![0; 65_536];
        let length = receiver.recv(&mut buffer).unwrap();
        bytes.extend_from_slice(&buffer[..length]);
    }
    bytes
}

pub(crate) fn a_closed_port_is_told(paths: &[(BlockPath, &str)]) {
    let (medium, _) = medium(1000);
    for &(path, host) in paths {
        let (sink, receiver) = udp(host, 1000, path);
        close_port(&receiver);
        let mut scratch = SendContext::default();
        let mut send = || path.send(&sink, &medium, Extent { offset: 0, length: 1000 }, &mut scratch);
        let refused = send().and_then(|_| send());
        assert!(matches!(refused, Err(SendError::Refused { .. })), "{path} to {host}: {refused:?}");
    }
}
