//! Cost of a train or a turn on an engine thread: kernel calls and heap allocations, counted.
//!
//! In a process of its own, since it counts every allocation of the process.

#![allow(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::alloc::System;
use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use wirepath_datapath::calibration::Calibrations;
use wirepath_datapath::rtp::{HEADER_LENGTH, Header, Run};
use wirepath_datapath::srtp::MasterKey;
use wirepath_datapath::{CopyLayout, DataPath, MappedFile, SendContext, Support, Train};
use wirepath_engine::{Engine, EngineOptions, Waker};
use wirepath_playback::{
    At, Burst, Cursor, Departure, Load, Playback, PlaybackEvent, PlaybackOptions, PlaybackSettings,
    PlaybackSink, Playbacks, RingUse, Segment, StreamSink, TrainSource,
};
use wirepath_tests::{require, trials};

mod control;
mod downloads;
mod interleaved;
mod paths;
mod turns;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PACKET: usize = HEADER_LENGTH + 7 * 188;
const PACKETS_PER_TRAIN: u32 = 8;
const TRAIN_US: u64 = 20_000;
const TRAINS: u64 = 1000;
const SESSIONS: usize = 50;
/// Trains over which costs are counted, all sessions together: two seconds' worth.
const COUNTED: u64 = 5000;

fn main() -> ExitCode {
    let engine = trials![
        one_call_and_no_allocation_per_train,
        two_calls_and_no_allocation_per_encrypted_train,
        a_ring_sends_many_trains_in_a_call,
    ];
    wirepath_tests::trial::run(
        Vec::new(),
        [
            engine,
            control::trials(),
            downloads::trials(),
            interleaved::trials(),
            turns::trials(),
            paths::trials(),
        ]
        .into_iter()
        .flatten()
        .collect(),
    )
}

/// Promise: A train costs one system call and no heap allocation on the hot path.
fn one_call_and_no_allocation_per_train() -> Result<()> {
    for (path, headers) in
        [(DataPath::WireSendfile, "stored"), (DataPath::GsoWritev, "stored"), (DataPath::WireSendfile, "own")]
    {
        let cost = count(path, headers == "own", None)?;
        ensure_calls(&cost, 1, &format!("{path}, {headers} headers"))?;
    }
    Ok(())
}

/// Promise: An encrypted train (SRTP) costs two system calls and no heap allocation on the hot path.
fn two_calls_and_no_allocation_per_encrypted_train() -> Result<()> {
    let cost = count(DataPath::GsoWritev, false, Some(MasterKey::from([7; 30])))?;
    ensure_calls(&cost, 2, "SRTP")
}

/// Ensures that each train took so many kernel calls, and no allocation.
fn ensure_calls(cost: &Cost, calls_per_train: u64, what: &str) -> Result<()> {
    let Cost { trains, calls, waits, allocations } = cost;
    println!(
        "{what}: {trains} trains, {calls} kernel calls besides {waits} waits, {allocations} allocations"
    );
    ensure!(*allocations == 0, "{what}: {allocations} allocations in {trains} trains");
    // The counters are read one after the other while the engine runs on.
    let slack = 2 * SESSIONS as u64 * calls_per_train;
    ensure!(
        calls.abs_diff(calls_per_train * trains) <= slack,
        "{what}: {calls} kernel calls for {trains} trains"
    );
    Ok(())
}

/// Promise: By io_uring, trains that are due together leave in one system call, without an allocation.
///
/// Sessions of a thread that are due together leave in one call, from hot memory and from the file's mapping.
fn a_ring_sends_many_trains_in_a_call() -> Result<()> {
    let ring = SendContext::default().open_ring();
    require!(ring.is_ok(), "there is no io_uring to send with here: {:?}", ring.err());
    [DataPath::WireUring, DataPath::WireMapping].into_iter().try_for_each(ensure_trains_share_calls)
}

fn ensure_trains_share_calls(path: DataPath) -> Result<()> {
    let cost = count(path, false, None)?;
    println!(
        "{path}: {} trains, {} kernel calls besides {} waits, {} allocations",
        cost.trains, cost.calls, cost.waits, cost.allocations
    );
    ensure!(cost.allocations == 0, "{} allocations in {} trains", cost.allocations, cost.trains);
    // 50 sessions share a slot of a burst (`playback::slots`): one call for all that are due together.
    ensure!(cost.calls * 16 < cost.trains, "{} kernel calls for {} trains", cost.calls, cost.trains);
    ensure!(cost.calls > 0, "no call sent anything");
    Ok(())
}

struct Cost {
    trains: u64,
    /// Kernel calls that were not waits.
    calls: u64,
    waits: u64,
    allocations: usize,
}

/// Plays on one engine thread and counts what happens on it once all sessions are under way.
fn count(path: DataPath, own_headers: bool, key: Option<MasterKey>) -> Result<Cost> {
    let engine = Arc::new(Engine::start(EngineOptions::default())?);
    let support = Arc::new(Support::probe(Some(path), Calibrations::default(), false));
    let ring = if path.needs_ring() { RingUse::Always { maps: false } } else { RingUse::Never };
    let settings = PlaybackSettings { support, ring, burst: Burst::Fixed(TRAIN_US) };
    let playbacks = Playbacks::start(Arc::clone(&engine), settings);
    let mut calls = system_calls_of("engine-0")?;
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let source = Arc::new(OneSegment::new());
    if path == DataPath::WireUring {
        let file = &source.segment.mapped_file;
        let region = Arc::new(file.copy::<std::io::Error>(file.file().metadata()?.len(), |_| Ok(()))?);
        file.set_hot(CopyLayout::Packets, Some(&region));
        playbacks.register(&region);
    }
    let sessions = (0..SESSIONS)
        .map(|_| udp_session(&playbacks, &source, &receiver, key.clone()))
        .collect::<Result<Vec<_>>>()?;
    sessions.iter().for_each(|session| play(session, own_headers));
    let on_path = |session: &Playback| {
        own_headers || session.progress().path == Some(path) // registration takes a moment
    };
    wait_for(|| sessions.iter().all(on_path))?;
    count_trains(&playbacks, &mut calls)
}

/// Plays from the start, with headers of its own if so wished.
fn play(session: &Playback, own_headers: bool) {
    session.play(None, None, |_| ());
    session.release();
    if own_headers {
        let here = Cursor { segment: 0, at: At::Packet { train: 1, packet: 0, skip: 0 } };
        session.play(Some(here), None, |_| ());
        session.release();
    }
}

/// Counts calls of the engine thread and allocations once all sessions are under way.
fn count_trains(playbacks: &Playbacks, calls: &mut Counter) -> Result<Cost> {
    wait_for(|| playbacks.counters().trains > 10 * SESSIONS as u64)?;
    let engine = playbacks.engine();
    let before = (playbacks.counters().trains, engine.counters().wakeups, calls.read()?);
    let allocations_before = ALLOCATOR.stats().allocations;
    wait_for(|| playbacks.counters().trains >= before.0 + COUNTED)?;
    let allocations = ALLOCATOR.stats().allocations - allocations_before;
    let after = (playbacks.counters().trains, engine.counters().wakeups, calls.read()?);
    let waits = after.1 - before.1;
    Ok(Cost { trains: after.0 - before.0, calls: after.2 - before.2 - waits, waits, allocations })
}

/// Counts what the thread of this name enters the kernel for.
fn system_calls_of(name: &str) -> Result<Counter> {
    let mut thread = None;
    wait_for(|| {
        thread = thread_called("self", name); // a thread gives itself its name, some time after it was started
        thread.is_some()
    })?;
    system_calls(thread)
}

/// Counts what a thread, or the calling one, enters the kernel for.
fn system_calls(thread: Option<i32>) -> Result<Counter> {
    mount_tracefs();
    let id = fs::read_to_string("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id");
    require!(id.is_ok(), "the kernel's raw_syscalls tracepoint is not readable (root, tracefs)");
    let tracepoint = Tracepoint::with_id(id?.trim().parse().context("the number of a tracepoint")?);
    let mut builder = Builder::new(tracepoint);
    builder.include_kernel();
    if let Some(id) = thread {
        builder.observe_pid(id);
    }
    let counter = builder.build();
    require!(counter.is_ok(), "perf events are not permitted here (root, or kernel.perf_event_paranoid)");
    let mut counter = counter?;
    counter.enable()?;
    Ok(counter)
}

/// Number of the thread of this name, of the process with this name below `/proc`.
fn thread_called(process: &str, name: &str) -> Option<i32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?.filter_map(Result::ok);
    let named = |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
    threads.map(|entry| entry.path()).find(named)?.file_name()?.to_str()?.parse().ok()
}

/// Minimal systems leave it unmounted. Where that cannot be changed, reading the tracepoint says so.
fn mount_tracefs() {
    if !std::path::Path::new("/sys/kernel/tracing/events").exists() {
        let mounted =
            Command::new("mount").args(["-t", "tracefs", "tracefs", "/sys/kernel/tracing"]).status();
        println!("tracefs was not mounted; mounting it: {mounted:?}");
    }
}

fn udp_session(
    playbacks: &Playbacks,
    source: &Arc<OneSegment>,
    receiver: &UdpSocket,
    key: Option<MasterKey>,
) -> Result<Playback> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(receiver.local_addr()?)?;
    let sink = PlaybackSink::Udp { socket, packet_size: PACKET as u16 };
    session(playbacks, source, StreamSink { key, ..sink.into() })
}

fn session(playbacks: &Playbacks, source: &Arc<OneSegment>, sink: impl Into<StreamSink>) -> Result<Playback> {
    let failures = Arc::clone(&source.failures);
    let on_event = Box::new(move |event| {
        if matches!(event, PlaybackEvent::Failed(_)) {
            failures.fetch_add(1, Relaxed);
        }
    });
    let source = Arc::clone(source) as Arc<dyn TrainSource>;
    Ok(playbacks.open(PlaybackOptions {
        source,
        streams: 1,
        sink: sink.into(),
        most_burst_us: TRAIN_US,
        on_event,
    })?)
}

/// Looks until something is so; the engine has the other core.
fn wait_for(mut done: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        ensure!(Instant::now() < deadline, "the engine does not get on");
        std::thread::yield_now();
    }
    Ok(())
}

/// A source of one long segment.
struct OneSegment {
    segment: Arc<Segment>,
    failures: Arc<AtomicU64>,
}

impl OneSegment {
    fn new() -> OneSegment {
        let mut file = tempfile::tempfile().unwrap();
        let length = TRAINS as usize * PACKETS_PER_TRAIN as usize * PACKET;
        file.write_all(&vec![0; length]).unwrap();
        let mapped_file = Arc::new(MappedFile::new(file, length as u64).unwrap());
        let departures = (0..TRAINS).map(departure).collect();
        OneSegment {
            segment: Arc::new(Segment { mapped_file, departures, original: None, clock: None }),
            failures: Arc::default(),
        }
    }
}

fn departure(number: u64) -> Departure {
    let sequence = (number as u16).wrapping_mul(PACKETS_PER_TRAIN as u16);
    let first = Header { padding: false, marker: false, payload_type: 33, sequence, timestamp: 0, ssrc: 0 };
    let length = PACKETS_PER_TRAIN * PACKET as u32;
    let train = Train {
        offset: number * u64::from(length),
        length,
        packet_size: PACKET as u16,
        skip: 0,
        first: 0,
        packets_before: number as u32 * PACKETS_PER_TRAIN,
        run: Run::new(first, 225 << 16),
    };
    Departure { at_us: number * TRAIN_US, train }
}

impl TrainSource for OneSegment {
    fn segment(&self, number: u32, _waker: Option<&Waker>) -> Load {
        if number == 0 { Load::Ready(Arc::clone(&self.segment)) } else { Load::End }
    }
}
