//! Long trains of datagrams for many outputs, lent to the kernel. A runner of its own: where io_uring does
//! not send from registered memory, or does not report copies, that is neither a pass nor a failure.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::io::Write;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::time::Duration;

use wirepath_datapath::to_many::{self, SocketId};
use wirepath_engine::{Engine, EngineOptions};
use wirepath_streams::handlers::Touch;
use wirepath_streams::{
    Framing, Handler, Lending, LendingSwitch, Object, OutputOptions, OutputPattern, Port, RunningStream,
    StreamBuilder, StreamOptions,
};
use wirepath_testkit::{trial, trials};

/// Time limit that only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(60);

const MASK: u8 = 0x20;
const DATAGRAM: usize = 1316;
/// The longest train that an output sends.
const TRAIN: usize = 49 * DATAGRAM;

fn main() -> std::process::ExitCode {
    let reason = "io_uring does not send from registered memory here, or does not report copies";
    let tests = trials![
        trains_are_lent_to_many_outputs_until_the_kernel_copies_them,
        a_socket_that_was_lent_to_is_given_back_as_it_was,
        no_train_is_lent_by_the_rule_never,
    ];
    trial::run_needing((!can_lend()).then(|| reason.to_owned()), tests)
}

/// Returns whether this host supports lending.
fn can_lend() -> bool {
    let (receiver, sender) = (udp_socket(), udp_socket());
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    let mut can = false;
    to_many::send_to_each(b"x", [(sender.as_fd(), SocketId::unique())].into_iter(), |_, _| can = true);
    can
}

fn udp_socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// A mirror from a connection, whose bytes a handler changes, to datagram receivers.
struct Bed {
    source: UnixStream,
    running: RunningStream,
    ports: Vec<Port>,
    /// Handles of the sockets that the stream sends from.
    senders: Vec<UdpSocket>,
    receivers: Vec<UdpSocket>,
    _engine: Engine,
}

impl Bed {
    /// A running stream that has passed one train, which was there before it began and so is read at once.
    fn new(outputs: usize) -> Bed {
        Bed::with_rule(outputs, LendingSwitch::default())
    }

    fn with_rule(outputs: usize, switch: LendingSwitch) -> Bed {
        let engine = Engine::start(EngineOptions::default()).unwrap();
        let (mut source, inlet) = UnixStream::pair().unwrap();
        source.write_all(&train(0)).unwrap();
        let mut stream = StreamBuilder::default()
            .pattern(OutputPattern::Mirror)
            .lending(switch)
            .handler(Handler::Modify(Box::new(Touch::new(MASK))))
            .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(DATAGRAM))
            .build();
        let (mut ports, mut senders, mut receivers) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..outputs {
            let (receiver, sender) = (udp_socket(), udp_socket());
            sender.connect(receiver.local_addr().unwrap()).unwrap();
            let socket = sender.try_clone().unwrap();
            let object = Object::datagrams("udp", socket.into(), None, None).unwrap();
            ports.push(stream.attach_output(object, OutputOptions::default()));
            senders.push(sender);
            receivers.push(receiver);
        }
        let running = stream.start(&engine, StreamOptions::default());
        let bed = Bed { source, running, ports, senders, receivers, _engine: engine };
        bed.receive(0);
        bed
    }

    /// Receives a train at each receiver, unchanged except by the handler.
    fn receive(&self, number: u8) {
        let expected: Vec<u8> = train(number).iter().map(|byte| byte ^ MASK).collect();
        let mut room = [0; 2000];
        for receiver in &self.receivers {
            for datagram in expected.chunks(DATAGRAM) {
                let length = receiver.recv(&mut room).unwrap();
                assert!(room[..length] == *datagram, "another datagram of train {number}");
            }
        }
    }
}

fn train(number: u8) -> Vec<u8> {
    (0..TRAIN).map(|at| (usize::from(number) * 31 + at / DATAGRAM * 7 + at) as u8).collect()
}

/// Promise: A long train of datagrams for many outputs is copied once for all outputs and arrives unchanged.
///
/// On loopback the kernel copies lent memory, and reports it; then trains are copied for each output again.
fn trains_are_lent_to_many_outputs_until_the_kernel_copies_them() {
    const OUTPUTS: usize = 64;
    const TRAINS: u8 = 20;
    let mut bed = Bed::new(OUTPUTS);
    for number in 1..TRAINS {
        bed.source.write_all(&train(number)).unwrap();
        bed.receive(number);
    }
    let Bed { source, running, .. } = bed;
    drop(source);
    let end = running.wait_for(PATIENCE).unwrap();
    assert_eq!(end.result, Ok(()));
    let of_train = (OUTPUTS * TRAIN) as u64;
    assert_eq!(end.status.bytes_out, u64::from(TRAINS) * of_train);
    let lent_bytes = end.status.lent_bytes;
    assert!(
        (of_train..u64::from(TRAINS / 2) * of_train).contains(&lent_bytes),
        "{lent_bytes} bytes were lent"
    );
}

/// Promise: Under `--lend never` no train of datagrams is lent, and each output gets a copy.
fn no_train_is_lent_by_the_rule_never() {
    const OUTPUTS: usize = 8;
    let switch = LendingSwitch::new(Lending::Never);
    let mut bed = Bed::with_rule(OUTPUTS, switch.clone());
    let mut pass = |numbers: std::ops::Range<u8>| {
        for number in numbers {
            bed.source.write_all(&train(number)).unwrap();
            bed.receive(number);
        }
        bed.running.status().lent_bytes
    };
    assert_eq!(pass(1..10), 0);
    switch.set(Lending::Safe);
    assert!(pass(10..30) > 0, "nothing is lent by another rule either");
}

fn a_socket_that_was_lent_to_is_given_back_as_it_was() {
    let bed = Bed::new(4);
    assert!(bed.running.status().lent_bytes > 0);
    let (sender, handed) = channel();
    let port = bed.ports[0];
    bed.running.with(move |stream| {
        stream.detach_output(port, move |object| sender.send(object).unwrap());
    });
    let _object: Object = handed.recv_timeout(PATIENCE).unwrap();
    assert_eq!(bed.senders[0].send(&[7; 3000]).unwrap(), 3000);
    assert_eq!(bed.receivers[0].recv(&mut [0; 4000]).unwrap(), 3000, "in one datagram");
}
