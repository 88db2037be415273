//! Datagrams on an engine thread: the number of calls and wakeups.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;

use wirepath_datapath::datagrams;
use wirepath_engine::{Engine, EngineOptions};
use wirepath_streams::{Framing, Handler, Object, OutputPattern, Stream, StreamBuilder, StreamOptions};

const PATIENCE: Duration = Duration::from_secs(20);

fn engine() -> Engine {
    Engine::start(EngineOptions::default()).unwrap()
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn connected(to: &UdpSocket) -> UdpSocket {
    let from = socket();
    from.connect(to.local_addr().unwrap()).unwrap();
    from
}

/// A mirror to all receivers, and the socket that sends to it.
fn mirror(receivers: &[UdpSocket]) -> (UdpSocket, Stream) {
    let inlet = socket();
    let sender = connected(&inlet);
    let builder = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .input(Object::datagrams("in", inlet.into(), None, None).unwrap(), Framing::Whole);
    let outlet = |receiver| Object::datagrams("out", connected(receiver).into(), None, None).unwrap();
    (sender, receivers.iter().map(outlet).fold(builder, StreamBuilder::output).build())
}

/// Promise: Pending datagrams of one size leave in one call; one for many outputs wakes the engine once.
///
/// Trains are received as sent: over loopback the kernel does not cut trains for a receiver that takes
/// trains.
#[test]
fn datagrams_that_wait_leave_in_one_call_as_far_as_they_are_of_one_size() {
    let receivers = [socket(), socket()];
    let (sender, stream) = mirror(&receivers);
    receivers.iter().for_each(|receiver| datagrams::set_receive_offload(receiver.as_fd(), true).unwrap());
    let lengths = [700, 700, 700, 300, 900, 900, 0, 900, 200, 200, 400];
    for (number, length) in lengths.into_iter().enumerate() {
        sender.send(&vec![number as u8; length]).unwrap();
    }
    let engine = engine();
    let _running = stream.start(&engine, StreamOptions::default());
    for receiver in &receivers {
        let (mut calls, mut bytes) = (Vec::new(), bytes::BytesMut::new());
        while bytes.len() < lengths.iter().sum() {
            receiver.peek(&mut [0]).unwrap();
            let received =
                datagrams::receive(receiver.as_fd(), &mut bytes, datagrams::MAXIMUM_TRAIN).unwrap();
            calls.push((received.bytes, received.datagram_bytes));
        }
        let expected: Vec<u8> =
            (0u8..).zip(lengths).flat_map(|(number, length)| vec![number; length]).collect();
        assert_eq!(bytes, expected);
        let expected =
            [(2400, Some(700)), (1800, Some(900)), (0, None), (1100, Some(900)), (200, None), (400, None)];
        assert_eq!(calls, expected);
    }
}

/// Promise: Pending datagrams of one size leave in one call; one for many outputs wakes the engine once.
///
/// Each datagram that leaves makes room for another; epoll would report this to an output that waits for
/// room.
#[test]
fn a_datagram_wakes_the_engine_once_however_many_it_goes_to() {
    const DATAGRAMS: u64 = 100;
    let receivers: Vec<UdpSocket> = (0..16).map(|_| socket()).collect();
    let (sender, stream) = mirror(&receivers);
    let engine = engine();
    let running = stream.start(&engine, StreamOptions::default());
    running.status(); // the stream has begun
    let before = engine.counters().wakeups;
    for number in 0..DATAGRAMS {
        sender.send(&number.to_be_bytes()).unwrap();
        for receiver in &receivers {
            let mut bytes = [0; 8];
            assert_eq!((receiver.recv(&mut bytes).unwrap(), u64::from_be_bytes(bytes)), (8, number));
        }
    }
    let wakeups = engine.counters().wakeups - before;
    assert!(wakeups <= DATAGRAMS + 5, "{wakeups} wakeups for {DATAGRAMS} datagrams");
}

/// Promise: A descriptor becomes an object of its kind; each datagram of a UDP socket is a record.
#[test]
fn descriptors_of_datagrams_take_and_give_records() {
    let (inlet, receiver, engine) = (socket(), socket(), engine());
    let sender = connected(&inlet);
    let stream = StreamBuilder::default()
        .handler(Handler::passing("second", 100, |record| record == b"second"))
        .input(Object::from_fd("in", inlet.into()).unwrap(), Framing::Whole)
        .output(Object::from_fd("out", connected(&receiver).into()).unwrap())
        .build();
    let _running = stream.start(&engine, StreamOptions::default());
    for datagram in [&b"first"[..], b"second"] {
        sender.send(datagram).unwrap();
    }
    let mut datagram = [0; 100];
    let length = receiver.recv(&mut datagram).unwrap();
    assert_eq!(&datagram[..length], b"second");
}
