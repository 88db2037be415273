//! Placement of streams on engine threads.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::time::Duration;

use wirepath_engine::{Class, Engine, EngineOptions, Placement, Policy, Rate, Sharing};
use wirepath_streams::handlers::Filter;
use wirepath_streams::{Framing, Handler, Object, StreamBuilder, StreamOptions};

const THREADS: usize = 3;

/// An engine with two classes, of which the second has a rate.
fn engine() -> Engine {
    let class = |name: &str, rate| Class { name: name.to_owned(), priority: 0, share: 1, rate };
    let rate = Some(Rate { per_second: 1 << 30, burst: 1 << 20 });
    let sharing =
        Sharing { policy: Policy::BestEffort, classes: vec![class("free", None), class("capped", rate)] };
    let options = EngineOptions { threads: THREADS, sharing, ..EngineOptions::default() };
    Engine::start(options).unwrap()
}

/// Names of the threads on which `count` simultaneous streams run.
fn threads_of(engine: &Engine, class: usize, thread: Option<usize>, count: usize) -> Vec<String> {
    let (tell, told) = channel();
    let running: Vec<_> = (0..count)
        .map(|_| {
            let tell = tell.clone();
            let says = Filter::new(100, move |_: &[u8]| {
                tell.send(std::thread::current().name().unwrap_or_default().to_owned()).unwrap();
                true
            });
            // From a connection that stays open, so that all streams exist when the next is placed.
            let (mut near, far) = UnixStream::pair().unwrap();
            near.write_all(b"x").unwrap();
            let stream = StreamBuilder::default()
                .handler(Handler::Read(Box::new(says)))
                .input(Object::stream("in", far.into()).unwrap(), Framing::Fixed(1))
                .output(Object::collect("out", 100).0)
                .build();
            let options = StreamOptions {
                placement: Placement { class, thread, rate: None },
                ..StreamOptions::default()
            };
            (near, stream.start(engine, options))
        })
        .collect();
    let mut names: Vec<String> =
        running.iter().map(|_| told.recv_timeout(Duration::from_secs(60)).unwrap()).collect();
    names.sort_unstable();
    names
}

/// Promise: Streams are spread over threads by their shares; shares hold on each thread.
#[test]
fn streams_are_spread_unless_a_class_rate_or_the_caller_places_them() {
    let engine = engine();
    assert_eq!(threads_of(&engine, 0, None, 3), ["engine-0", "engine-1", "engine-2"]);
    assert_eq!(threads_of(&engine, 1, None, 4), ["engine-1"; 4], "one bucket for all of the class");
    assert_eq!(threads_of(&engine, 9, None, 2), ["engine-1"; 2], "the last class");
    assert_eq!(threads_of(&engine, 0, Some(2), 2), ["engine-2"; 2]);
    assert_eq!(threads_of(&engine, 0, Some(THREADS), 1), ["engine-0"]);
}
