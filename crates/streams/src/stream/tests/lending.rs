//! Long trains of datagrams for many outputs: every byte arrives, whether this host lends them or copies
//! them. That they are lent is tested in `tests/lending.rs`.

use super::*;
use crate::handlers::Touch;
use crate::outputs::Output;
use wirepath_engine::TURN_BYTES;

const MASK: u8 = 0x20;
const DATAGRAM: usize = 1316;
/// The longest train that an output sends.
const TRAIN: usize = 49 * DATAGRAM;
/// A shorter train, of which a receiver has room for several.
const SHORTER: usize = 26 * DATAGRAM;

/// A mirror from a connection, whose bytes a handler changes, to datagram receivers.
struct Bed {
    source: UnixStream,
    stream: Stream,
    receivers: Vec<UdpSocket>,
    sent: Vec<u8>,
    came: Vec<Vec<u8>>,
}

impl Bed {
    fn new(receivers: usize, when_full: WhenFull) -> Bed {
        let (source, inlet) = UnixStream::pair().unwrap();
        let mut stream = StreamBuilder::default()
            .pattern(OutputPattern::Mirror)
            .handler(Handler::Modify(Box::new(Touch::new(MASK))))
            .input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(DATAGRAM))
            .build();
        let receivers: Vec<UdpSocket> = (0..receivers).map(|_| receiver()).collect();
        for receiver in &receivers {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(receiver.local_addr().unwrap()).unwrap();
            let output = Object::datagrams("udp", socket.into(), None, None).unwrap();
            stream.attach_output(output, OutputOptions { when_full, ..OutputOptions::default() });
        }
        let came = receivers.iter().map(|_| Vec::new()).collect();
        Bed { source, stream, receivers, sent: Vec::new(), came }
    }

    /// Sends a train of this many bytes through the stream, and receives the datagrams of each receiver.
    fn pass(&mut self, bytes: usize) {
        let number = self.sent.len() / DATAGRAM;
        let train: Vec<u8> = (0..bytes).map(|at| (number * 31 + at / DATAGRAM * 7 + at) as u8).collect();
        self.source.write_all(&train).unwrap();
        self.sent.extend_from_slice(&train);
        let input = self.stream.intake.inputs[0].port;
        self.stream.note_ready(input);
        self.act();
    }

    fn act(&mut self) {
        while !matches!(self.stream.act(TURN_BYTES, 0).0, Acted::Wait) {}
        let mut room = [0; 2000];
        for (receiver, came) in self.receivers.iter().zip(&mut self.came) {
            while let Ok(length) = receiver.recv(&mut room) {
                assert_eq!(length, DATAGRAM);
                came.extend_from_slice(&room[..length]);
            }
        }
    }

    fn expected(&self) -> Vec<u8> {
        self.sent.iter().map(|byte| byte ^ MASK).collect()
    }

    fn output(&mut self, place: usize) -> &mut Output {
        &mut self.stream.outputs.current[place]
    }
}

fn receiver() -> UdpSocket {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_nonblocking(true).unwrap();
    receiver
}

/// Promise: A long train of datagrams for many outputs is copied once for all outputs and arrives unchanged.
#[test]
fn trains_for_many_outputs_arrive_unchanged() {
    let mut bed = Bed::new(64, WhenFull::Block);
    for bytes in [TRAIN, 40 * DATAGRAM, DATAGRAM, 3 * DATAGRAM].into_iter().cycle().take(20) {
        bed.pass(bytes);
    }
    let expected = bed.expected();
    assert!(bed.came.iter().all(|came| *came == expected));
    assert_eq!(bed.stream.status().bytes_out, 64 * expected.len() as u64);
}

/// Promise: A long train of datagrams for many outputs is copied once for all outputs and arrives unchanged.
#[test]
fn an_output_that_is_full_gets_what_waited_for_it_and_delays_no_other() {
    let mut bed = Bed::new(8, WhenFull::DropNewest);
    bed.pass(SHORTER);
    bed.output(3).writable = false;
    for _ in 0..3 {
        bed.pass(SHORTER);
    }
    let expected = bed.expected();
    let have = |bed: &Bed| bed.came.iter().map(Vec::len).collect::<Vec<_>>();
    let mut behind = vec![expected.len(); 8];
    behind[3] = SHORTER;
    assert_eq!(have(&bed), behind);
    assert!(bed.output(3).outbox.bytes == 3 * SHORTER);
    bed.output(3).writable = true;
    bed.act();
    assert!(bed.came.iter().all(|came| *came == expected));
    assert_eq!(bed.stream.status().bytes_out, 8 * expected.len() as u64);
}

/// Promise: A long train of datagrams for many outputs is copied once for all outputs and arrives unchanged.
#[test]
fn a_receiver_that_has_vanished_is_counted_and_the_others_lose_nothing() {
    let mut bed = Bed::new(8, WhenFull::Block);
    let gone = bed.receivers.remove(5);
    bed.came.remove(5);
    drop(gone);
    for _ in 0..10 {
        bed.pass(TRAIN);
    }
    let expected = bed.expected();
    assert!(bed.came.iter().all(|came| *came == expected));
    let status = bed.stream.status();
    assert!(status.outputs[5].icmp_errors > 0 && status.gone_outputs.failed == 0, "{status:?}");
    assert!(status.outputs.iter().enumerate().all(|(place, output)| place == 5 || output.icmp_errors == 0));
}

#[test]
fn a_train_that_waits_for_its_turn_does_not_count_as_copied() {
    let mut bed = Bed::new(4, WhenFull::Block);
    for _ in 0..10 {
        bed.pass(SHORTER);
    }
    (0..4).for_each(|place| bed.output(place).writable = false);
    bed.pass(SHORTER);
    (0..4).for_each(|place| bed.output(place).writable = true);
    let lent_bytes = bed.stream.status().lent_bytes;
    let Stream { outputs, shared, .. } = &mut bed.stream;
    shared.turn.begin(u64::MAX);
    for _ in 0..2000 {
        assert!(!outputs.lend(shared, 0), "it is lent before 1,024 were copied");
    }
    bed.act();
    assert_eq!(bed.came[0].len(), 11 * SHORTER);
    assert_eq!(bed.stream.status().lent_bytes, lent_bytes);
}
