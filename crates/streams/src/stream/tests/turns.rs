//! Number of bytes moved by a turn.

use super::measured;
use super::*;
use crate::InputOrder;

/// Promise: A turn of a stream moves at most its allowance and one more call.
///
/// Other streams wait during a turn: it may move its allowance, and one call more.
#[test]
fn a_turn_moves_what_it_may() {
    const TURN: u64 = 256 * 1024;
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![7; 20_000_000]).unwrap();
    let file = Object::file("file", Arc::new(file), 0);
    let checksum = || Handler::Read(Box::new(crate::handlers::Checksum::default()));
    let readers = || (0..30).map(|_| UnixStream::pair().unwrap());
    for (builder, outputs, most) in [
        (StreamBuilder::default().input(file, Framing::Whole), 1, TURN + (1 << 20)),
        (
            StreamBuilder::default()
                .handler(checksum())
                .input(memory(&vec![7; 2_000_000]), Framing::Fixed(1000)),
            30,
            3 * TURN,
        ),
    ] {
        let (outlets, mut readers): (Vec<UnixStream>, Vec<UnixStream>) = readers().take(outputs).unzip();
        let outlets = outlets.into_iter().map(|outlet| Object::stream("out", outlet.into()).unwrap());
        let mut stream = outlets.fold(builder.pattern(OutputPattern::Mirror), StreamBuilder::output).build();
        readers.iter_mut().for_each(|reader| reader.set_nonblocking(true).unwrap());
        let mut read = vec![0; 1 << 20];
        loop {
            let (acted, moved) = stream.act(TURN, 0);
            assert!(moved <= most, "{moved} in one turn");
            stream
                .take_storage()
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|storage| stream.stored(storage.run(), wirepath_engine::now_us()).unwrap());
            match acted {
                Acted::Ended(ended) => break ended.unwrap(),
                Acted::Wait | Acted::Deliver => {
                    for reader in &mut readers {
                        while reader.read(&mut read).is_ok_and(|length| length > 0) {}
                    }
                    (0..31).for_each(|port| stream.note_ready(Port(port)));
                }
                Acted::More => {}
            }
        }
        let status = stream.status();
        assert_eq!(status.bytes_out, status.bytes_in * outputs as u64);
    }
}

/// Promise: The cost of a record does not grow with the number of silent inputs.
///
/// Silent inputs are not checked either when a record moves on the zero-copy route, or does not because of
/// one of them.
#[test]
fn silent_inputs_are_not_polled_for_a_record_on_the_zero_copy_route() {
    const INPUTS: usize = 100;
    const RECORD: usize = 32 * 1024;
    for order in [InputOrder::Arrival, InputOrder::RoundRobin] {
        let (mut nears, fars): (Vec<UnixStream>, Vec<UnixStream>) =
            (0..INPUTS).map(|_| UnixStream::pair().unwrap()).unzip();
        let inputs = fars.into_iter().map(|far| Object::stream("in", far.into()).unwrap());
        let (near, mut sink) = UnixStream::pair().unwrap();
        let builder = StreamBuilder::default()
            .order(order)
            .pattern(OutputPattern::Mirror)
            .output(Object::stream("out", near.into()).unwrap());
        let mut stream =
            inputs.fold(builder, |builder, input| builder.input(input, Framing::Fixed(RECORD))).build();
        let mut pass = |stream: &mut Stream, turn: usize| {
            let place = if matches!(order, InputOrder::Arrival) { 70 } else { turn };
            for half in [[turn as u8; RECORD / 2]; 2] {
                nears[place].write_all(&half).unwrap();
                stream.note_ready(stream.intake.inputs[place].port);
                assert!(matches!(stream.act(1 << 20, 0).0, Acted::Wait));
                let mut came = [0; RECORD / 2];
                sink.read_exact(&mut came).unwrap();
                assert!(came == half);
                stream.note_ready(Port(0));
            }
            stream.intake.inputs_looked_at()
        };
        let first = pass(&mut stream, 0);
        assert_eq!((1..20).map(|turn| pass(&mut stream, turn)).max(), Some(first));
        assert_eq!(stream.status().zero_copy_bytes, (20 * RECORD) as u64);
        // A new input must be checked, and while it is present no other input needs to be.
        let (_last, far) = UnixStream::pair().unwrap();
        stream.attach_input(Object::stream("in", far.into()).unwrap(), Framing::lines(100)).unwrap();
        let then = pass(&mut stream, 20);
        assert_eq!((21..40).map(|turn| pass(&mut stream, turn)).max(), Some(then));
        assert_eq!(stream.status().zero_copy_bytes, (20 * RECORD) as u64);
    }
}

/// Promise: The cost of a record does not grow with the number of silent inputs.
///
/// Silent inputs are not checked either when small records among large ones are copied.
#[test]
fn silent_inputs_are_not_checked_again_when_the_route_changes() {
    const INPUTS: usize = 100;
    const LONG: usize = 40_001;
    let [large, small] = [LONG, 101].map(|length| measured::records(&[length]).remove(0));
    let (mut nears, fars): (Vec<UnixStream>, Vec<UnixStream>) =
        (0..INPUTS).map(|_| UnixStream::pair().unwrap()).unzip();
    let inputs = fars.into_iter().map(|far| Object::stream("in", far.into()).unwrap());
    let (near, mut sink) = UnixStream::pair().unwrap();
    let builder = StreamBuilder::default()
        .order(InputOrder::Arrival)
        .output(Object::stream("out", near.into()).unwrap());
    let mut stream = inputs.fold(builder, |builder, input| builder.input(input, measured::framing())).build();
    let mut pass = |record: &[u8]| {
        nears[70].write_all(record).unwrap();
        stream.note_ready(stream.intake.inputs[70].port);
        assert!(matches!(stream.act(1 << 20, 0).0, Acted::Wait));
        let mut came = vec![0; record.len()];
        sink.read_exact(&mut came).unwrap();
        assert!(came == record);
        stream.note_ready(Port(0));
        (stream.intake.inputs_looked_at(), stream.status().zero_copy_bytes)
    };
    let (first, _) = pass(&large);
    for round in 2..20 {
        assert_eq!(pass(&small).0, first);
        assert_eq!(pass(&large), (first, round * LONG as u64));
    }
}

/// Promise: The cost of a record does not grow with the number of silent inputs.
///
/// The cost of a record does not depend on the number of silent inputs: an input is not read until bytes may
/// have arrived.
#[test]
fn silent_inputs_are_not_read_until_they_may_be_ready() {
    const INPUTS: usize = 100;
    let (mut nears, fars): (Vec<UnixStream>, Vec<UnixStream>) =
        (0..INPUTS).map(|_| UnixStream::pair().unwrap()).unzip();
    let inputs = fars.into_iter().map(|far| Object::stream("in", far.into()).unwrap());
    let (object, collected) = Object::collect("out", LIMIT);
    let builder = StreamBuilder::default().order(InputOrder::Arrival).output(object);
    let mut stream = inputs.fold(builder, |builder, input| builder.input(input, Framing::lines(100))).build();
    let asked = |stream: &Stream| match &stream.intake.order {
        Order::Arrival(arrivals) => arrivals.queue.len(),
        _ => panic!("another order"),
    };
    let waits = |stream: &mut Stream| matches!(stream.act(1 << 20, 0).0, Acted::Wait);
    assert_eq!(asked(&stream), INPUTS, "each may have something at first");
    assert!(waits(&mut stream) && asked(&stream) == 0);

    nears[70].write_all(b"one\n").unwrap();
    nears[30].write_all(b"two\nth").unwrap();
    for place in [70, 30, 70] {
        stream.note_ready(stream.intake.inputs[place].port);
    }
    assert_eq!(asked(&stream), 2);
    assert!(waits(&mut stream) && asked(&stream) == 0);
    assert_eq!(collected.bytes(), b"one\ntwo\n");

    // Later inputs move up, and are still found.
    nears.remove(0);
    stream.note_ready(stream.intake.inputs[0].port);
    assert!(waits(&mut stream) && stream.intake.inputs.len() == INPUTS - 1);
    nears[29].write_all(b"ree\n").unwrap();
    stream.note_ready(stream.intake.inputs[29].port);
    assert!(waits(&mut stream));
    assert_eq!(collected.bytes(), b"one\ntwo\nthree\n");
    drop(nears);
    (0..=INPUTS as u64).for_each(|port| stream.note_ready(Port(port)));
    assert!(matches!(stream.act(1 << 20, 0).0, Acted::Ended(Ok(()))));
}
