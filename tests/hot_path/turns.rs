//! Cost of a stream's turn for an engine thread: no kernel calls but those that move its bytes, and two more
//! where classes share processor time; no allocation for each record by orders and patterns of others' types.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use wirepath_engine::{Engine, EngineOptions, Policy, Round, Sharing};
use wirepath_streams::handlers::Filter;
use wirepath_streams::{
    Framing, Handler, InputState, Object, OutputChoice, PollingOrder, Port, Push, PushingOrder, ReadyInputs,
    StreamBuilder, StreamOptions,
};
use wirepath_tests::trials;

use super::{ALLOCATOR, system_calls_of};

/// Most bytes of a turn.
const TURN: usize = 256 * 1024;
const TURNS: usize = 400;

/// To begin, to end, and for memory.
const BESIDES: u64 = 100;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_turn_is_measured_only_where_classes_share_processor_time,
        a_short_stream_is_not_watched,
        an_order_and_a_pattern_of_another_type_allocate_nothing_for_a_record
    ]
}

/// The input that gave its last record first; every record looked at and dropped.
struct Custom;

impl PollingOrder for Custom {
    fn next(&mut self, ready: &ReadyInputs<'_>) -> Option<Port> {
        ready.iter().next().map(InputState::port)
    }
}

impl PushingOrder for Custom {
    fn head_bytes(&self) -> usize {
        8
    }

    fn next(&mut self, head: &[u8], outputs: &mut OutputChoice<'_>) -> Push {
        outputs.iter().for_each(|output| outputs.choose(output.port()));
        if head.iter().all(|byte| *byte == 0) { Push::Drop } else { Push::Chosen }
    }
}

/// Promise: A caller's own orders and patterns cost no allocation per record.
fn an_order_and_a_pattern_of_another_type_allocate_nothing_for_a_record() -> Result<()> {
    const RECORDS: usize = 100_000;
    const RECORD: usize = 256;
    let zeros = || Object::memory("zeros", vec![0; RECORDS * RECORD / 2].into());
    let mut stream = StreamBuilder::default()
        .order_by(Custom)
        .pattern_by(Custom)
        .input(zeros(), Framing::Fixed(RECORD))
        .input(zeros(), Framing::Fixed(RECORD))
        .output(Object::collect("nothing", 0).0)
        .output(Object::collect("nothing", 0).0)
        .build();
    let before = ALLOCATOR.stats().allocations;
    stream.run()?;
    let allocations = ALLOCATOR.stats().allocations - before;
    println!("{RECORDS} records by an order and a pattern of another's type: {allocations} allocations");
    let status = stream.status();
    ensure!(status.bytes_dropped == (RECORDS * RECORD) as u64, "{status:?}");
    ensure!(allocations < RECORDS / 50, "{allocations} allocations for {RECORDS} records");
    Ok(())
}

/// Promise: Classes that share processor time get their shares, whatever a byte costs.
fn a_turn_is_measured_only_where_classes_share_processor_time() -> Result<()> {
    let volume = calls(Round::Volume(4 << 20))?;
    let time = calls(Round::ProcessorTime(10_000))?;
    println!("{TURNS} turns: {volume} kernel calls sharing volume, {time} sharing processor time");
    ensure!(volume < BESIDES, "{volume} kernel calls in {TURNS} turns that need none");
    let measured = 2 * TURNS as u64;
    ensure!(
        (measured..measured + 2 * BESIDES).contains(&time),
        "{time} kernel calls to measure {TURNS} turns"
    );
    Ok(())
}

/// Streams that are counted.
const SHORT_STREAMS: u64 = 200;

/// Kernel calls of a short stream: to take the command that starts it, to send, to close (with a check, in a debug
/// build), to wake who waits for its end, and to wake the pool that drops it, which takes two at most. In epoll it
/// would take two more and a wait.
const CALLS_OF_SHORT: u64 = 7;

/// Promise: A stream that ends in its first turn is never added to epoll.
fn a_short_stream_is_not_watched() -> Result<()> {
    let engine = Engine::start(EngineOptions::default())?;
    let mut counter = system_calls_of("engine-0")?;
    let (sender, mut receiver) = UnixStream::pair()?;
    sender.set_nonblocking(true)?;
    let run = |output: OwnedFd| -> Result<()> {
        let stream = StreamBuilder::default()
            .input(Object::memory("zeros", vec![0; 4096].into()), Framing::Whole)
            .output(Object::stream("client", output)?)
            .build();
        stream.start(&engine, StreamOptions::default()).wait().result?;
        Ok(())
    };
    let mut received = [0; 4096];
    let before = (counter.read()?, engine.counters().wakeups);
    for _ in 0..SHORT_STREAMS {
        run(sender.try_clone()?.into())?;
        receiver.read_exact(&mut received)?;
    }
    let after = (counter.read()?, engine.counters().wakeups);
    let calls = (after.0 - before.0).saturating_sub(after.1 - before.1);
    println!("{SHORT_STREAMS} short streams: {calls} kernel calls besides waits");
    ensure!(calls <= CALLS_OF_SHORT * SHORT_STREAMS, "{calls} kernel calls for {SHORT_STREAMS} streams");
    Ok(())
}

/// Kernel calls of the engine thread, besides waits, for a stream that takes none to move: from memory to
/// nowhere.
fn calls(round: Round) -> Result<u64> {
    let sharing = Sharing { policy: Policy::FairShare { round, carry_percent: 0 }, classes: Vec::new() };
    let engine = Engine::start(EngineOptions { sharing, ..EngineOptions::default() })?;
    let mut counter = system_calls_of("engine-0")?;
    let drops = Filter::new(1 << 16, |_: &[u8]| false);
    let stream = StreamBuilder::default()
        .handler(Handler::Read(Box::new(drops)))
        .input(Object::memory("zeros", vec![0; TURNS * TURN].into()), Framing::Fixed(1 << 16))
        .output(Object::collect("nothing", 0).0)
        .build();
    let before = (counter.read()?, engine.counters().wakeups);
    let end = stream.start(&engine, StreamOptions::default()).wait();
    end.result?;
    let after = (counter.read()?, engine.counters().wakeups);
    ensure!(end.status.bytes_in == (TURNS * TURN) as u64, "{:?}", end.status);
    Ok((after.0 - before.0).saturating_sub(after.1 - before.1))
}
