//! Custom orders of inputs, patterns of outputs and scheduling policies, through the public interface.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use wirepath_engine::{
    Class, Cost, Engine, EngineOptions, Placement, Policy, ReadyClass, ReadyClasses, Sharing, TurnPolicy,
};
use wirepath_streams::{
    Collected, Framing, InputState, Object, OutputChoice, OutputState, PollingOrder, Port, Push,
    PushingOrder, ReadyInputs, StreamBuilder, StreamEnd, StreamError, StreamOptions,
};

const PATIENCE: Duration = Duration::from_secs(20);
const LARGE: usize = 32 * 1024;

/// An order or pattern implemented by a function.
struct By<F>(F);

impl<F: FnMut(&ReadyInputs<'_>) -> Option<Port> + Send> PollingOrder for By<F> {
    fn next(&mut self, ready: &ReadyInputs<'_>) -> Option<Port> {
        (self.0)(ready)
    }
}

impl<F: FnMut(&mut OutputChoice<'_>) -> Push + Send> PushingOrder for By<F> {
    fn next(&mut self, _: &[u8], outputs: &mut OutputChoice<'_>) -> Push {
        (self.0)(outputs)
    }
}

/// Round robin over the inputs that exist at the first call.
#[derive(Default)]
struct InTurn {
    inputs: Vec<Port>,
    place: usize,
}

impl PollingOrder for InTurn {
    fn next(&mut self, ready: &ReadyInputs<'_>) -> Option<Port> {
        if self.inputs.is_empty() {
            self.inputs = ready.iter().map(InputState::port).collect();
            self.inputs.sort_unstable();
        }
        let next = self.inputs[self.place % self.inputs.len()];
        ready.get(next).map(InputState::port)
    }

    fn taken(&mut self, input: Port) {
        assert_eq!(input, self.inputs[self.place % self.inputs.len()]);
        self.place += 1;
    }

    fn gone(&mut self, input: Port) {
        let place = self.inputs.iter().position(|known| *known == input).unwrap();
        let next = self.place % self.inputs.len();
        self.inputs.remove(place);
        self.place = next - usize::from(place < next);
    }
}

/// Sends records to the output with the number in their first byte, records of 'b' to the last two outputs
/// and records of 'a' to all, and drops records of 'd'.
struct ByFirstByte;

impl PushingOrder for ByFirstByte {
    fn head_bytes(&self) -> usize {
        1
    }

    fn next(&mut self, head: &[u8], outputs: &mut OutputChoice<'_>) -> Push {
        let ports: Vec<Port> = outputs.iter().map(OutputState::port).collect();
        match head {
            [b'a'] => Push::All,
            [b'b'] => {
                ports.iter().skip(1).for_each(|port| outputs.choose(*port));
                Push::Chosen
            }
            [b'd'] => Push::Drop,
            [digit] => Push::To(ports[usize::from(digit - b'0')]),
            _ => panic!("{head:?} is no byte"),
        }
    }
}

fn lines(text: &str) -> Object {
    Object::memory("lines", text.as_bytes().to_vec().into())
}

/// Runs a stream with so many outputs on this thread.
fn run(mut builder: StreamBuilder, outputs: usize) -> (Vec<String>, StreamEnd) {
    let mut collected: Vec<Collected> = Vec::new();
    for _ in 0..outputs {
        let (object, bytes) = Object::collect("out", 1 << 20);
        builder = builder.output(object);
        collected.push(bytes);
    }
    let mut stream = builder.build();
    let result = stream.run();
    let text = collected.iter().map(|bytes| String::from_utf8(bytes.bytes()).unwrap()).collect();
    (text, StreamEnd { result, status: stream.status() })
}

fn with_lines(inputs: &[&str]) -> StreamBuilder {
    inputs
        .iter()
        .fold(StreamBuilder::default(), |builder, text| builder.input(lines(text), Framing::lines(9)))
}

/// A port that streams with few inputs and outputs do not have.
fn strange_port() -> Port {
    let builder = (0..9).fold(StreamBuilder::default(), |builder, _| builder.output(lines_to_anywhere()));
    builder.build().status().outputs[8].port
}

fn lines_to_anywhere() -> Object {
    Object::collect("anywhere", 100).0
}

/// Promise: A caller's own types can order the inputs and choose the outputs.
#[test]
fn an_order_of_another_type_chooses_among_inputs_that_are_ready() {
    let inputs = ["a1\na2\n", "b1\nb2\n", "c1\nc2\nc3\n"];
    let last_attached = By(|ready: &ReadyInputs<'_>| ready.iter().map(InputState::port).max());
    let (outputs, _) = run(with_lines(&inputs).order_by(last_attached), 1);
    assert_eq!(outputs, ["c1\nc2\nc3\nb1\nb2\na1\na2\n"]);
    let (outputs, end) = run(with_lines(&inputs).order_by(InTurn::default()), 1);
    assert_eq!((&outputs[0][..], end.result), ("a1\nb1\nc1\na2\nb2\nc2\nc3\n", Ok(())));
}

/// Promise: A caller's own types can order the inputs and choose the outputs.
#[test]
fn a_pattern_of_another_type_chooses_outputs_by_the_beginning_of_a_record() {
    let text = "0x\na\n1y\nb1\nd\n2\n";
    let (outputs, end) = run(with_lines(&[text]).pattern_by(ByFirstByte), 3);
    assert_eq!(outputs, ["0x\na\n", "a\n1y\nb1\n", "a\nb1\n2\n"]);
    assert_eq!((end.result, end.status.bytes_dropped), (Ok(()), 2));
}

/// Promise: A caller's own orders and patterns that read no bytes keep large records on the zero-copy route.
#[test]
fn large_records_are_not_copied_for_an_order_and_a_pattern_that_look_at_no_bytes() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let record = |byte: u8| vec![byte; LARGE];
    let mut builder = StreamBuilder::default().order_by(InTurn::default()).finish_outputs();
    // To one output, to two attached consecutively, to two that were not, to all, and again.
    let mut count = 0;
    builder = builder.pattern_by(By(move |outputs: &mut OutputChoice<'_>| {
        let ports: Vec<Port> = outputs.iter().map(OutputState::port).collect();
        count += 1;
        match count % 4 {
            1 => return Push::To(ports[1]),
            2 => ports[1..].iter().for_each(|port| outputs.choose(*port)),
            3 => [ports[0], ports[2]].iter().for_each(|port| outputs.choose(*port)),
            _ => return Push::All,
        }
        Push::Chosen
    }));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (near, mut far) = UnixStream::pair().unwrap();
            builder = std::mem::take(&mut builder).output(Object::stream("out", near.into()).unwrap());
            thread::spawn(move || {
                let mut bytes = Vec::new();
                far.read_to_end(&mut bytes).map(|_| bytes).unwrap()
            })
        })
        .collect();
    let writers: Vec<_> = (0..2)
        .map(|input| {
            let (near, mut far) = UnixStream::pair().unwrap();
            builder = std::mem::take(&mut builder)
                .input(Object::stream("in", near.into()).unwrap(), Framing::Fixed(LARGE));
            thread::spawn(move || (0..8).for_each(|index| far.write_all(&record(2 * index + input)).unwrap()))
        })
        .collect();
    let end = builder.build().start(&engine, StreamOptions::default()).wait_for(PATIENCE).unwrap();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let outputs: Vec<Vec<u8>> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    assert_eq!((end.result, end.status.bytes_in), (Ok(()), 16 * LARGE as u64));
    assert!(end.status.zero_copy_bytes > 0, "{:?}", end.status);
    let is_at = |output: usize, number: u8| match number % 4 {
        0 => output == 1,
        1 => output > 0,
        2 => output != 1,
        _ => true,
    };
    for (output, bytes) in outputs.iter().enumerate() {
        let expected: Vec<u8> =
            (0..16).filter(|number| is_at(output, *number)).flat_map(|number| vec![number; LARGE]).collect();
        assert!(*bytes == expected, "output {output} has other records");
    }
}

/// Runs a hostile stream beside another on one engine; returns the end of the first, and whether the other
/// completed.
fn beside_another(builder: StreamBuilder) -> (StreamEnd, bool) {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let other = with_lines(&["x\ny\n"]).output(lines_to_anywhere()).build();
    let (mut near, far) = UnixStream::pair().unwrap();
    near.write_all(b"1\n2\n").unwrap();
    let hostile = builder
        .input(lines("3\n"), Framing::lines(9))
        .input(Object::stream("socket", far.into()).unwrap(), Framing::lines(9))
        .output(lines_to_anywhere())
        .output(lines_to_anywhere())
        .build()
        .start(&engine, StreamOptions::default());
    let end = hostile.wait_for(PATIENCE).unwrap();
    let other = other.start(&engine, StreamOptions::default()).wait_for(PATIENCE);
    (end, other.unwrap().result.is_ok())
}

/// Promise: A faulty order or pattern ends only its own stream, with an error that says why.
#[test]
fn a_hostile_order_or_pattern_harms_only_its_stream() {
    let strange = strange_port();
    let order = |order: fn(&ReadyInputs<'_>) -> Option<Port>| StreamBuilder::default().order_by(By(order));
    let pattern =
        |pattern: fn(&mut OutputChoice<'_>) -> Push| StreamBuilder::default().pattern_by(By(pattern));
    let cases = [
        (order(|_| None), "custom order of inputs: it chose no input, and all are ready"),
        (order(|_| panic!("on purpose")), "panicked: on purpose"),
        (
            StreamBuilder::default().order_by(By(move |_: &ReadyInputs<'_>| Some(strange))),
            "custom order of inputs: it chose input 8, which is not ready",
        ),
        (pattern(|_| Push::Wait), "custom pattern of outputs: it waits, and all outputs have room"),
        (pattern(|_| Push::Chosen), "custom pattern of outputs: it chose no output"),
        (pattern(|_| panic!("on purpose")), "panicked: on purpose"),
        (
            StreamBuilder::default().pattern_by(By(move |_: &mut OutputChoice<'_>| Push::To(strange))),
            "custom pattern of outputs: it chose output 8, which does not exist",
        ),
    ];
    for (builder, expected) in cases {
        let (end, other_ended) = beside_another(builder);
        let error = end.result.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(other_ended);
    }
}

/// Promise: A faulty order or pattern ends only its own stream, with an error that says why.
///
/// Records that were given to outputs before are sent.
#[test]
fn what_was_sent_before_a_pattern_failed_arrives() {
    let (strange, mut count) = (strange_port(), 0);
    let pattern = By(move |outputs: &mut OutputChoice<'_>| {
        count += 1;
        Push::To(if count < 3 { outputs.iter().next().unwrap().port() } else { strange })
    });
    let (outputs, end) = run(with_lines(&["1\n2\n3\n4\n"]).pattern_by(pattern), 1);
    assert_eq!((&outputs[0][..], end.status.bytes_dropped), ("1\n2\n", 4));
    assert!(matches!(end.result, Err(StreamError::Pattern(_))), "{:?}", end.result);
}

/// A scheduling policy implemented by a function.
struct Turns<F>(F);

impl<F: FnMut(&ReadyClasses<'_>) -> usize + Send> TurnPolicy for Turns<F> {
    fn next(&mut self, ready: &ReadyClasses<'_>) -> usize {
        (self.0)(ready)
    }

    fn acted(&mut self, _: usize, cost: Cost) {
        assert!(cost.rated > 0 || cost.shared < 100, "{cost:?}");
    }
}

/// Promise: A caller's own scheduling policy orders the tasks of a thread; if it fails, best effort replaces
/// it.
#[test]
fn streams_have_turns_by_a_policy_of_another_type_and_without_it_when_it_fails() {
    let last =
        || Turns(|ready: &ReadyClasses<'_>| ready.iter().map(|class: ReadyClass| class.class).max().unwrap());
    let policies = [
        (Policy::custom(move |_| Box::new(last())), 0),
        (Policy::custom(|_| Box::new(Turns(|_: &ReadyClasses<'_>| 7))), 1),
        (Policy::custom(|_| Box::new(Turns(|_: &ReadyClasses<'_>| panic!("on purpose")))), 1),
    ];
    for (policy, failures) in policies {
        let class = |name: &str| Class { name: name.to_owned(), priority: 0, share: 1, rate: None };
        let sharing = Sharing { policy, classes: vec![class("a"), class("b")] };
        let engine = Engine::start(EngineOptions { sharing, ..EngineOptions::default() }).unwrap();
        let streams: Vec<_> = (0..4)
            .map(|number| {
                let stream = with_lines(&["1\n2\n"]).output(lines_to_anywhere()).build();
                let placement = Placement { class: number % 2, ..Placement::default() };
                stream.start(&engine, StreamOptions { placement, ..StreamOptions::default() })
            })
            .collect();
        for stream in streams {
            assert_eq!(stream.wait_for(PATIENCE).unwrap().result, Ok(()));
        }
        assert_eq!(engine.counters().policy_failures, failures);
    }
}
