//! Joining records from portions of several inputs, through the public interface.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use wirepath_streams::engine::{Engine, EngineOptions};
use wirepath_streams::{
    Framing, JoinCounts, Object, OutputOptions, StreamBuilder, StreamEnd, StreamEvent, StreamOptions,
};

const LIMIT: usize = 1 << 24;
const PATIENCE: Duration = Duration::from_secs(20);

/// A portion with a length prefix.
fn framed(portion: &[u8]) -> Vec<u8> {
    (portion.len() as u16).to_be_bytes().into_iter().chain(portion.iter().copied()).collect()
}

/// Key function: the number after the length.
fn key(portion: &[u8]) -> Option<u64> {
    portion.get(2..4).map(|key| u64::from(u16::from_be_bytes([key[0], key[1]])))
}

/// A portion of an input: its key, and bytes that identify both.
fn portion(number: u16, input: usize, length: usize) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize(2 + length, input as u8);
    framed(&bytes)
}

/// Runs a stream whose inputs are written in pieces of such sizes in turn, each by its own thread.
fn run(builder: StreamBuilder, inputs: &[Vec<u8>], cuts: &[usize]) -> (Vec<u8>, StreamEnd) {
    let (output, collected) = Object::collect("out", LIMIT);
    let mut builder = builder.output(output);
    let mut writers = Vec::new();
    for (input, bytes) in inputs.iter().enumerate() {
        let (mut near, far) = UnixStream::pair().unwrap();
        builder = builder.input(Object::stream("in", far.into()).unwrap(), Framing::rtp());
        let (bytes, cuts) = (bytes.clone(), cuts.to_vec());
        writers.push(thread::spawn(move || {
            let mut rest = &bytes[..];
            for cut in cuts.iter().cycle().skip(input) {
                if rest.is_empty() {
                    return;
                }
                let (piece, behind) = rest.split_at((*cut).min(rest.len()));
                near.write_all(piece).unwrap();
                rest = behind;
            }
        }));
    }
    let mut stream = builder.build();
    let result = stream.run();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    (collected.bytes(), StreamEnd { result, status: stream.status() })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Promise: Portions of several inputs are joined to one record, by position or by key, within a window.
    ///
    /// By position: records and inputs of any size, sent in any pieces; one input ends early.
    #[test]
    fn portions_are_joined_by_position_however_they_come(
        lengths in proptest::collection::vec(0usize..3000, 1..40),
        inputs in 1usize..5,
        early in 0usize..5,
        missing in 0usize..10,
        window in 1usize..8,
        waiting_bytes in 1usize..100_000,
        cuts in proptest::collection::vec(1usize..5000, 1..9),
    ) {
        let whole = lengths.len();
        let short = if inputs > 1 { whole.saturating_sub(missing) } else { whole };
        let count = |input| if input == early % inputs { short } else { whole };
        let record = |number: usize, input: usize| portion(number as u16, input, lengths[number]);
        let fed: Vec<Vec<u8>> = (0..inputs)
            .map(|input| (0..count(input)).flat_map(|number| record(number, input)).collect())
            .collect();
        let (output, end) = run(StreamBuilder::default().join(window, waiting_bytes), &fed, &cuts);
        let expected: Vec<u8> = (0..short)
            .flat_map(|number| (0..inputs).flat_map(move |input| record(number, input)))
            .collect();
        prop_assert!(output == expected, "{} bytes, {} expected", output.len(), expected.len());
        let lost: usize = fed.iter().map(Vec::len).sum::<usize>() - expected.len();
        let incomplete = (whole - short) as u64;
        prop_assert_eq!(end.status.join, Some(JoinCounts { incomplete, ..JoinCounts::default() }));
        prop_assert_eq!((end.result, end.status.bytes_dropped, end.status.bytes_pending), (Ok(()), lost as u64, 0));
    }

    /// Promise: Portions of several inputs are joined to one record, by position or by key, within a window.
    ///
    /// By key: each input has the keys in its own order, and lacks some. The window has room for all.
    #[test]
    fn portions_are_joined_by_key_in_any_order(
        keys in (1usize..4).prop_flat_map(|inputs| {
            let order = Just((0u16..30).collect::<Vec<_>>()).prop_shuffle();
            proptest::collection::vec((order, 0usize..30), inputs)
        }),
        length in 0usize..500,
        cuts in proptest::collection::vec(1usize..900, 1..9),
    ) {
        let inputs = keys.len();
        let kept = |input: usize| &keys[input].0[..30 - keys[input].1];
        let fed: Vec<Vec<u8>> = (0..inputs)
            .map(|input| kept(input).iter().flat_map(|number| portion(*number, input, length)).collect())
            .collect();
        let (output, end) = run(StreamBuilder::default().join_by_key(31, LIMIT, key), &fed, &cuts);
        let record_bytes = inputs * (4 + length);
        let mut came: Vec<&[u8]> = output.chunks(record_bytes).collect();
        came.sort_unstable_by_key(|record| key(record));
        let complete = (0u16..30).filter(|number| (0..inputs).all(|input| kept(input).contains(number)));
        let expected: Vec<Vec<u8>> = complete
            .map(|number| (0..inputs).flat_map(|input| portion(number, input, length)).collect())
            .collect();
        prop_assert_eq!(came, expected.iter().collect::<Vec<_>>());
        let any = (0u16..30).filter(|number| (0..inputs).any(|input| kept(input).contains(number))).count();
        let incomplete = (any - expected.len()) as u64;
        prop_assert_eq!(end.status.join, Some(JoinCounts { incomplete, ..JoinCounts::default() }));
        prop_assert_eq!(end.result, Ok(()));
    }
}

/// Promise: Portions of several inputs are joined to one record, by position or by key, within a window.
///
/// Datagrams cannot be made to wait: records that exceed the window are given up, the oldest first.
#[test]
fn datagrams_are_joined_by_key_and_those_that_wait_in_vain_are_given_up() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let (output, collected) = Object::collect("out", LIMIT);
    let mut builder = StreamBuilder::default().join_by_key(4, LIMIT, key).output(output);
    let senders: Vec<UdpSocket> = (0..2)
        .map(|_| {
            let [sender, receiver] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
            sender.connect(receiver.local_addr().unwrap()).unwrap();
            let object = Object::datagrams("in", receiver.into(), None, None).unwrap();
            builder = std::mem::take(&mut builder).input(object, Framing::Whole);
            sender
        })
        .collect();
    let running = builder.build().start(&engine, StreamOptions::default());
    let send = |input: usize, number: u16| assert!(senders[input].send(&portion(number, input, 5)).is_ok());
    let wait_until = |is_there: &dyn Fn() -> bool| {
        let deadline = std::time::Instant::now() + PATIENCE;
        while !is_there() {
            assert!(std::time::Instant::now() < deadline, "{:?}", running.status());
            thread::yield_now();
        }
    };
    senders[0].send(b"?").unwrap();
    (0..10).for_each(|number| send(0, number));
    wait_until(&|| running.status().join.unwrap().incomplete == 6);
    send(1, 9);
    wait_until(&|| collected.records().len() == 1);
    (5..9).for_each(|number| send(1, number));
    wait_until(&|| collected.records().len() == 4);
    running.stop();
    let end = running.wait();
    let numbers: Vec<Option<u64>> = collected.records().iter().map(|record| key(record)).collect();
    assert_eq!(numbers, [9, 6, 7, 8].map(Some), "{:?}", end.status.join);
    let counts = end.status.join.unwrap();
    assert_eq!((counts.unkeyed, counts.incomplete), (1, 6), "0 to 5");
}

/// Promise: A join does not wait for a detached input, and an attached input takes the place of one that
/// ended.
#[test]
fn inputs_of_a_join_come_and_go() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let (events, told) = channel();
    let (output, collected) = Object::collect("out", LIMIT);
    let pair = || {
        let (near, far) = UnixStream::pair().unwrap();
        (near, Object::stream("in", far.into()).unwrap())
    };
    let ((mut first, first_in), (mut second, second_in)) = (pair(), pair());
    let stream = StreamBuilder::default()
        .join(9, LIMIT)
        .on_event(move |event| drop(events.send(event)))
        .input(first_in, Framing::lines(9))
        .input(second_in, Framing::lines(9))
        .output_with(output, OutputOptions::default())
        .build();
    let second_port = stream.status().inputs[1].port;
    let running = stream.start(&engine, StreamOptions::default());
    let wait_for = |text: &str| {
        let deadline = std::time::Instant::now() + PATIENCE;
        while collected.bytes() != text.as_bytes() {
            assert!(std::time::Instant::now() < deadline, "{:?}", String::from_utf8(collected.bytes()));
            thread::yield_now();
        }
    };
    first.write_all(b"a\nb\nc\n").unwrap();
    second.write_all(b"A\n").unwrap();
    wait_for("a\nA\n");
    running.with(move |stream| assert!(stream.detach_input(second_port, drop)));
    wait_for("a\nA\nb\nc\n");
    drop(second);
    let (mut third, third_in) = pair();
    running.with(|stream| assert!(stream.attach_input(third_in, Framing::lines(9)).is_ok()));
    third.write_all(b"D\n").unwrap();
    first.write_all(b"d\n").unwrap();
    wait_for("a\nA\nb\nc\nd\nD\n");
    drop(third);
    let is_gone = |event: StreamEvent| matches!(event, StreamEvent::InputGone { .. });
    while !is_gone(told.recv_timeout(PATIENCE).unwrap()) {}
    while !is_gone(told.recv_timeout(PATIENCE).unwrap()) {}
    first.write_all(b"e\n").unwrap();
    let (mut fourth, fourth_in) = pair();
    // The portion that arrived while the place was vacant is given up first.
    let deadline = std::time::Instant::now() + PATIENCE;
    while running.status().join.unwrap().incomplete == 0 {
        assert!(std::time::Instant::now() < deadline, "{:?}", running.status());
        thread::yield_now();
    }
    running.with(|stream| assert!(stream.attach_input(fourth_in, Framing::lines(9)).is_ok()));
    fourth.write_all(b"F\n").unwrap();
    first.write_all(b"f\n").unwrap();
    wait_for("a\nA\nb\nc\nd\nD\nf\nF\n");
    drop((first, fourth));
    let end = running.wait_for(PATIENCE).unwrap();
    assert_eq!((end.result, end.status.bytes_dropped), (Ok(()), 2));
}
