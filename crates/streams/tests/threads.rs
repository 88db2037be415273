//! Placement of streams on engine threads.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::time::Duration;

use wirepath_engine::{
    BlockingPool, Class, Context, Engine, EngineOptions, Placement, Policy, Rate, Sharing, Task,
};
use wirepath_streams::handlers::Filter;
use wirepath_streams::{
    Framing, Handler, Object, RunningStream, StreamBuilder, StreamEnd, StreamError, StreamOptions,
};

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

/// Panics at its start.
struct Panicking;

impl Task for Panicking {
    fn start(&mut self, _context: &mut Context<'_>) {
        panic!("on purpose");
    }

    fn end(self: Box<Self>, _pool: &BlockingPool) {}
}

/// Promise: If an engine thread panics, its streams end with an error, and nothing waits for them for ever.
#[test]
fn streams_of_a_thread_that_panicked_have_an_end() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let (tell, told) = channel();
    let resting = || {
        let (near, far) = UnixStream::pair().unwrap();
        let stream = StreamBuilder::default()
            .input(Object::stream("in", far.into()).unwrap(), Framing::Fixed(1))
            .output(Object::collect("out", 100).0)
            .build();
        let tell = tell.clone();
        let on_end = move |end: StreamEnd| tell.send(end.result).unwrap();
        let options = StreamOptions { on_end: Some(Box::new(on_end)), ..StreamOptions::default() };
        (near, stream.start(&engine, options))
    };
    let has_panicked = |running: &RunningStream| {
        let end = running.wait_for(Duration::from_secs(60)).expect("it waits for ever");
        assert_eq!(end.result, Err(StreamError::ThreadPanicked));
        assert_eq!(told.recv_timeout(Duration::from_secs(60)).unwrap(), Err(StreamError::ThreadPanicked));
    };
    let (_near, before) = resting();
    assert_eq!(before.status().bytes_in, 0, "it runs");
    let events = before.events().unwrap();
    engine.spawn(Box::new(Panicking), Placement::default());
    has_panicked(&before);
    assert!(events.has_ended());
    let (_near, after) = resting();
    has_panicked(&after);
    assert_eq!(after.take_back().err().map(|end| end.result), Some(Err(StreamError::ThreadPanicked)));
}
