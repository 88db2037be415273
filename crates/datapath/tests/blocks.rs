//! Every path for downloads delivers the same bytes, to UDP and to TCP, over IPv4 and IPv6, and says the same
//! of what goes wrong.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod block;

use std::io::Read;
use std::net::{TcpListener, TcpStream};

use block::{TIMEOUT, medium, receive, storage_fails_and_leaves_nothing_behind, to_both_hosts, udp};
use wirepath_datapath::{BlockPath, BlockSink, Extent, SendContext, SendError};

/// The paths that need no ring and no module, to both hosts; tests/uring.rs and tests/module.rs have the
/// others.
fn unaided() -> Vec<(BlockPath, &'static str)> {
    to_both_hosts(|path| !path.needs_hot_memory() && !path.needs_module())
}

fn tcp(host: &str, path: BlockPath) -> (BlockSink, TcpStream) {
    let listener = TcpListener::bind(host).unwrap();
    let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (receiver, _) = listener.accept().unwrap();
    receiver.set_read_timeout(Some(TIMEOUT)).unwrap();
    (BlockSink::tcp(sender, path).unwrap(), receiver)
}

/// Promise: All download paths send the same bytes, to UDP and to TCP.
#[test]
fn datagrams_arrive_whole() {
    block::datagrams_arrive_whole(&unaided(), 48);
}

/// Promise: All download paths send the same bytes, to UDP and to TCP.
///
/// More than a connection takes at once: what it does not take now is for later.
#[test]
fn a_file_arrives_whole_through_a_connection_that_fills_up() {
    let (medium, bytes) = medium(20_000_001);
    for (path, host) in unaided() {
        let (sink, mut receiver) = tcp(host, path);
        let mut scratch = SendContext::default();
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
        let (sink, mut receiver) = tcp(host, path);
        storage_fails_and_leaves_nothing_behind((path, host), &sink, 65_507, || {
            let mut bytes = vec![0; 65_507];
            receiver.read_exact(&mut bytes).unwrap();
            bytes
        });
        assert!(sink.wait_for_loans(TIMEOUT).unwrap(), "{path}: {:?}", sink.loans());
        let (sink, receiver) = udp(host, 65_480, path); // with IPv6 headers as much as lo's MTU
        storage_fails_and_leaves_nothing_behind((path, host), &sink, 65_507, || receive(&receiver, 65_507));
        assert!(sink.wait_for_loans(TIMEOUT).unwrap(), "{path}: {:?}", sink.loans());
    }
}

#[test]
fn a_closed_port_is_told() {
    block::a_closed_port_is_told(&unaided());
}
