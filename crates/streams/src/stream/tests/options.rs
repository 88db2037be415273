//! Options by key.

use super::*;
use crate::{OptionError, StreamOption, StreamOptions, Trust};
use wirepath_engine::{Placement, Rate};

fn value(options: &[StreamOption], key: &str) -> String {
    options.iter().find(|option| option.key == key).unwrap().value.clone()
}

/// A stream from memory to memory, whose output has port 0.
fn stream() -> Stream {
    let (object, _) = Object::collect("out", LIMIT);
    StreamBuilder::default().input(memory(b"bytes"), Framing::Whole).output(object).finish_outputs().build()
}

/// Promise: Options of a stream and its outputs are listed and set by key.
#[test]
fn every_option_is_listed_and_those_that_may_change_are_set() {
    let mut stream = stream();
    let changes = [
        ("rate", "none", "5000"),
        ("burst", "500", "800"),
        ("deadline", "none", "20000"),
        ("stall", "60000000", "1000"),
    ];
    for (key, before, after) in changes {
        assert_eq!(value(&stream.options(), key), before, "{key}");
        assert_eq!(stream.set_option(key, after), Ok(()));
        assert_eq!(value(&stream.options(), key), after, "{key}");
    }
    let keys: Vec<&str> = stream.options().iter().map(|option| option.key).collect();
    for option in stream.options().iter().filter(|option| !option.may_change) {
        let error = stream.set_option(option.key, "true").unwrap_err().to_string();
        assert!(error.contains("is fixed when the stream is built"), "{error}");
    }
    assert_eq!(value(&stream.options(), "finish-outputs"), "true");
    let error = stream.set_option("colour", "red").unwrap_err();
    assert_eq!(error.to_string(), format!("no option colour: expected one of {}", keys.join(", ")));
    for (key, value) in [("rate", "0"), ("rate", "fast"), ("stall", "none"), ("burst", "-1")] {
        let error = stream.set_option(key, value).unwrap_err();
        assert!(matches!(error, OptionError::Invalid { .. }), "{key} {value}: {error}");
    }
}

/// Promise: Options of a stream and its outputs are listed and set by key.
///
/// Options of a connected output, and of an expected output.
#[test]
fn options_of_an_output_are_listed_and_set() {
    let mut stream = stream();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listener = Object::listening("listener", listener.into(), None).unwrap();
    let expected = stream.attach_output(listener, OutputOptions::default());
    for port in [Port(0), expected] {
        let changes =
            [("waiting-bytes", "262144", "5"), ("when-full", "block", "drop-oldest"), ("trust", "100", "7")];
        for (key, before, after) in changes {
            assert_eq!(value(&stream.output_options(port).unwrap(), key), before, "{key}");
            assert_eq!(stream.set_output_option(port, key, after), Ok(()));
            assert_eq!(value(&stream.output_options(port).unwrap(), key), after, "{key}");
        }
        assert_eq!(stream.status().outputs[0].trust, Trust::new(7).unwrap());
        for (key, value) in [("waiting-bytes", "0"), ("when-full", "wait"), ("trust", "101")] {
            let error = stream.set_output_option(port, key, value).unwrap_err();
            assert!(matches!(error, OptionError::Invalid { .. }), "{key} {value}: {error}");
        }
    }
    assert_eq!(stream.output_options(Port(7)), None);
    assert_eq!(stream.set_output_option(Port(7), "trust", "7"), Err(OptionError::NoOutput(Port(7))));
}

/// Promise: Options of a stream and its outputs are listed and set by key.
///
/// The rate of a stream on an engine is that of its placement; the new rate takes effect.
#[test]
fn the_rate_of_a_running_stream_is_set_by_key() {
    let engine = engine();
    let (object, collected) = Object::collect("out", LIMIT);
    let bytes = vec![7; 3_000_000];
    let builder = StreamBuilder::default().input(memory(&bytes), Framing::Fixed(1000)).output(object);
    let rate = Some(Rate { per_second: 1, burst: 1 });
    let placement = Placement { rate, ..Placement::default() };
    let running = builder.build().start(&engine, StreamOptions { placement, ..StreamOptions::default() });
    let (sender, receiver) = channel();
    running.with(move |stream| {
        let before = value(&stream.options(), "rate");
        sender.send((before, stream.set_option("rate", "none"))).unwrap();
    });
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), ("1".to_owned(), Ok(())));
    assert_eq!(running.wait_for(PATIENCE).unwrap().result, Ok(()));
    assert_eq!(collected.bytes().len(), bytes.len());
}

/// Promise: Options of a stream and its outputs are listed and set by key.
///
/// Those that were set before the start hold if the start keeps them.
#[test]
fn rate_and_deadline_that_were_set_before_the_start_are_kept() {
    let engine = engine();
    let (source, _sink) = UnixStream::pair().unwrap();
    let (object, _) = Object::collect("out", LIMIT);
    let builder = StreamBuilder::default().output(object);
    let input = Object::stream("in", source.into()).unwrap();
    let mut stream = builder.input(input, Framing::Whole).build();
    for (key, value) in [("rate", "5000"), ("burst", "800"), ("deadline", "20000")] {
        stream.set_option(key, value).unwrap();
    }
    let options = stream.options();
    let kept = StreamOptions::with_pace_of(&stream);
    assert_eq!(kept.placement.rate, Some(Rate { per_second: 5000, burst: 800 }));
    let stream = stream.start(&engine, kept).take_back().unwrap();
    assert_eq!(stream.options(), options);
    let stream = stream.start(&engine, StreamOptions::default()).take_back().unwrap();
    assert_eq!(
        (value(&stream.options(), "rate"), value(&stream.options(), "deadline")),
        ("none".to_owned(), "none".to_owned())
    );
}
