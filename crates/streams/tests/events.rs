//! The descriptor of a stream, for event loops of the caller.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use wirepath_streams::engine::{Engine, EngineOptions};
use wirepath_streams::{
    Framing, Object, RunningStream, Stream, StreamBuilder, StreamError, StreamEvent, StreamEvents,
    StreamOptions,
};

const PATIENCE: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

fn engine() -> Engine {
    Engine::start(EngineOptions::default()).unwrap()
}

/// A stream with two inputs from sockets.
fn stream() -> ([UnixStream; 2], Stream) {
    let mut builder = StreamBuilder::default().output(Object::collect("out", 100).0);
    let nears = [(); 2].map(|()| {
        let (near, far) = UnixStream::pair().unwrap();
        let input = Object::stream("in", far.into()).unwrap();
        builder = std::mem::take(&mut builder).input(input, Framing::lines(9));
        near
    });
    (nears, builder.build())
}

/// Returns whether `poll` reports the descriptor as readable within this time.
fn is_readable(events: &StreamEvents, within: &Timespec) -> bool {
    let mut polled = [PollFd::new(events, PollFlags::IN)];
    poll(&mut polled, Some(within)).unwrap() == 1 && polled[0].revents() == PollFlags::IN
}

fn is_gone(event: Option<StreamEvent>) -> bool {
    matches!(event, Some(StreamEvent::InputGone { .. }))
}

/// Promise: The descriptor of a stream is readable if an event is pending or the stream has ended.
#[test]
fn a_descriptor_is_readable_while_an_event_waits_and_from_the_end_on() {
    let engine = engine();
    let ([mut first, second], stream) = stream();
    let events = stream.events().unwrap();
    let running = stream.start(&engine, StreamOptions::default());
    first.write_all(b"1\n").unwrap();
    assert!(!is_readable(&events, &NOW) && events.take().is_none());
    drop(second);
    assert!(is_readable(&events, &PATIENCE) && is_readable(&events, &NOW), "it stays so");
    assert!(is_gone(events.take()) && events.take().is_none() && !events.has_ended());
    assert!(!is_readable(&events, &NOW), "taking the last event clears it");
    drop(first);
    assert!(is_readable(&events, &PATIENCE));
    let end = running.wait();
    assert_eq!((end.result, events.missed()), (Ok(()), 0));
    while !events.has_ended() {
        assert!(is_readable(&events, &PATIENCE));
    }
    assert!(is_gone(events.take()) && events.take().is_none());
    drop(running);
    assert!(is_readable(&events, &NOW) && events.has_ended(), "the end is not cleared");
}

/// Promise: The descriptor of a stream is readable if an event is pending or the stream has ended.
///
/// The descriptor may be opened at any time, and reports later events.
#[test]
fn a_descriptor_may_be_had_from_a_running_stream_and_from_one_that_has_ended() {
    let engine = engine();
    let (nears, stream) = stream();
    let running: RunningStream = stream.start(&engine, StreamOptions::default());
    let events = running.events().unwrap();
    assert!(!is_readable(&events, &NOW));
    running.stop();
    assert!(is_readable(&events, &PATIENCE));
    assert_eq!(running.wait().result, Err(StreamError::Stopped));
    drop(nears);

    let (_, stream) = self::stream();
    let running = stream.start(&engine, StreamOptions::default());
    assert_eq!(running.wait().result, Ok(()));
    let events = running.events().unwrap();
    assert!(events.take().is_none() && events.has_ended() && is_readable(&events, &NOW));
}

/// Promise: The descriptor of a stream is readable if an event is pending or the stream has ended.
///
/// Each event, and the end, is an edge, also while other events are queued.
#[test]
fn every_event_is_an_edge_for_epoll() {
    let engine = engine();
    let ([first, second], stream) = stream();
    let events = stream.events().unwrap();
    let waits = epoll::create(CreateFlags::CLOEXEC).unwrap();
    epoll::add(&waits, events.as_fd(), EventData::new_u64(7), EventFlags::IN | EventFlags::ET).unwrap();
    let has_edge = |within: &Timespec| {
        let mut buffer = [const { MaybeUninit::uninit() }; 4];
        let (ready, _) = epoll::wait(&waits, &mut buffer[..], Some(within)).unwrap();
        ready.iter().any(|event| event.data.u64() == 7)
    };
    let running = stream.start(&engine, StreamOptions::default());
    drop(first);
    assert!(has_edge(&PATIENCE) && !has_edge(&NOW));
    drop(second);
    assert!(has_edge(&PATIENCE), "the first event still waits");
    running.wait();
    while !events.has_ended() {
        has_edge(&PATIENCE);
    }
    assert_eq!(std::iter::from_fn(|| events.take()).filter(|event| is_gone(Some(event.clone()))).count(), 2);
}

/// Promise: The descriptor of a stream is readable if an event is pending or the stream has ended.
#[test]
fn tokio_waits_for_the_end_of_a_stream() {
    let engine = engine();
    let ([mut first, second], stream) = stream();
    let events = stream.events().unwrap();
    let running = stream.start(&engine, StreamOptions::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let wait = async {
        #[expect(
            deprecated,
            reason = "its successor is unsafe; this descriptor stays open as long as the events"
        )]
        let events = AsyncFd::with_interest(events, Interest::READABLE).unwrap();
        let mut gone = 0;
        while !events.get_ref().has_ended() {
            let mut guard = events.readable().await.unwrap();
            while let Some(event) = events.get_ref().take() {
                gone += usize::from(is_gone(Some(event)));
            }
            guard.clear_ready();
        }
        gone + std::iter::from_fn(|| events.get_ref().take()).count()
    };
    first.write_all(b"1\n").unwrap();
    drop((first, second));
    let gone = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap() });
    assert_eq!((gone, running.wait().result), (2, Ok(())));
}
