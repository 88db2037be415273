//! Trains to many sockets from one block, to a device that copies nothing, in a network namespace of its own. A
//! runner of its own: without one, or without io_uring, that is neither a pass nor a failure.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::Command;

use wirepath_datapath::to_many::{SocketId, may_lend, send_to_each};
use wirepath_datapath::{SendContext, socket};
use wirepath_testkit::{trial, trials};

const DATAGRAM: usize = 1316;
const TRAIN: usize = 49 * DATAGRAM;

fn main() -> std::process::ExitCode {
    let tests = trials![
        a_device_that_drops_is_given_every_train_by_reference,
        what_the_network_keeps_is_bounded_and_never_written_to,
    ];
    trial::run_needing(prepare().err(), tests)
}

/// Makes the network of all tests, for threads that begin later; says why that cannot be.
fn prepare() -> Result<(), String> {
    SendContext::default().open_ring().map_err(|error| error.to_string())?;
    wirepath_sys::namespace::leave_network().map_err(|error| format!("no network namespace: {error}"))?;
    // A device that drops all, and one whose other end answers nobody.
    ip("link add sink type ifb")?;
    ip("address add 10.80.0.1/24 dev sink")?;
    ip("link set sink up")?;
    ip("link add near type veth peer name far")?;
    ip("address add 10.81.0.1/24 dev near")?;
    ip("link set near up")?;
    ip("link set far up")
}

fn ip(arguments: &str) -> Result<(), String> {
    let done = Command::new("ip").args(arguments.split(' ')).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {said}")) }
}

fn sender(address: &str) -> (UdpSocket, SocketId) {
    let sender = UdpSocket::bind("0.0.0.0:0").unwrap();
    sender.connect(address).unwrap();
    socket::set_segment(sender.as_fd(), DATAGRAM as u16).unwrap();
    (sender, SocketId::unique())
}

/// Bytes that a device has taken: an ifb counts them as received.
fn taken(device: &str) -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let mut rows = table.lines();
    let row = rows.find_map(|row| row.trim_start().strip_prefix(device)?.strip_prefix(':')).unwrap();
    let figures: Vec<u64> = row.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
    figures[0] + figures[8]
}

/// Returns what each socket took of the train, in order; nothing if it was not sent.
fn send(train: &[u8], senders: &[(UdpSocket, SocketId)]) -> Vec<(usize, usize)> {
    let mut answers = Vec::new();
    let sockets = senders.iter().map(|(socket, id)| (socket.as_fd(), *id));
    send_to_each(train, sockets, |place, taken| answers.push((place, taken.unwrap())));
    answers.sort_unstable();
    answers
}

/// Promise: A long train of datagrams for many outputs is copied once for all outputs and arrives unchanged.
fn a_device_that_drops_is_given_every_train_by_reference() {
    let senders: Vec<_> = (0..64).map(|number| sender(&format!("10.80.0.2:{}", 9000 + number))).collect();
    let expected: Vec<_> = (0..64).map(|place| (place, TRAIN)).collect();
    for round in 0..40 {
        assert_eq!(send(&[round; TRAIN], &senders), expected, "round {round}");
    }
    assert!(taken("sink") >= 40 * 64 * TRAIN as u64, "{}", taken("sink"));
    assert!(senders.iter().all(|(_, id)| may_lend(*id)), "the kernel copied nothing");
}

/// Promise: If the kernel does not release lent memory, streams copy, and at most one mebibyte stays lent.
fn what_the_network_keeps_is_bounded_and_never_written_to() {
    // Their neighbours are asked for and never answer, so the kernel keeps what is sent to them for a while.
    let senders: Vec<_> = (2..12).map(|host| [sender(&format!("10.81.0.{host}:9000"))]).collect();
    let mut sent = 0;
    for round in 0..3 {
        for sender in &senders {
            sent += send(&[round; TRAIN], sender).len();
        }
    }
    assert_eq!(sent, 16, "there are so many blocks, and all are with the kernel");
    assert!(taken("near") < TRAIN as u64, "nothing but questions has left");
    assert_eq!(send(&[9; TRAIN], &senders[0]), [], "and so it is copied by whoever wanted to lend");
}
