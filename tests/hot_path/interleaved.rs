//! Cost of a train over an RTSP connection for an engine thread.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use wirepath_datapath::calibration::Calibrations;
use wirepath_datapath::{CopyLayout, DataPath, SendContext, Support};
use wirepath_engine::{Engine, EngineOptions};
use wirepath_playback::{Burst, Playback, PlaybackSettings, PlaybackSink, Playbacks, RingUse};
use wirepath_tests::{require, trials};

use crate::{Cost, OneSegment, SESSIONS, TRAIN_US, count_trains, play, session, system_calls_of, wait_for};

pub(crate) fn trials() -> Vec<Trial> {
    trials![one_call_and_no_allocation_per_train_over_tcp, a_ring_sends_trains_of_many_connections_in_a_call]
}

/// Promise: A train over TCP costs one system call and no heap allocation on the hot path.
fn one_call_and_no_allocation_per_train_over_tcp() -> Result<()> {
    for own_headers in [false, true] {
        let Cost { trains, calls, waits, allocations } = count(RingUse::Never, own_headers)?;
        let headers = if own_headers { "own" } else { "stored" };
        println!(
            "interleaved, {headers} headers: {trains} trains, {calls} kernel calls besides {waits} waits, {allocations} allocations"
        );
        ensure!(allocations == 0, "{allocations} allocations in {trains} trains");
        // The counters are read one after the other while the engine runs on.
        ensure!(calls.abs_diff(trains) <= 2 * SESSIONS as u64, "{calls} kernel calls for {trains} trains");
    }
    Ok(())
}

/// Promise: From hot memory, trains over TCP that are due together leave in one system call, without an
/// allocation.
fn a_ring_sends_trains_of_many_connections_in_a_call() -> Result<()> {
    let ring = SendContext::default().open_ring();
    require!(ring.is_ok(), "there is no io_uring to send with here: {:?}", ring.err());
    let Cost { trains, calls, waits, allocations } = count(RingUse::Always { maps: false }, false)?;
    println!(
        "wire_uring over TCP: {trains} trains, {calls} kernel calls besides {waits} waits, {allocations} allocations"
    );
    ensure!(allocations == 0, "{allocations} allocations in {trains} trains");
    ensure!(calls * 16 < trains, "{calls} kernel calls for {trains} trains");
    ensure!(calls > 0, "no call sent anything");
    Ok(())
}

fn count(ring: RingUse, own_headers: bool) -> Result<Cost> {
    let engine = Arc::new(Engine::start(EngineOptions::default())?);
    let support = Arc::new(Support::probe(Some(DataPath::Sendmmsg), Calibrations::default(), false));
    let settings = PlaybackSettings { support, ring, burst: Burst::Fixed(TRAIN_US) };
    let playbacks = Playbacks::start(engine, settings);
    let mut calls = system_calls_of("engine-0")?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let source = Arc::new(OneSegment::new());
    if ring != RingUse::Never {
        register_framed(&playbacks, &source)?;
    }
    let sessions = (0..SESSIONS).map(|_| over_tcp(&playbacks, &source, &listener));
    let sessions = sessions.collect::<Result<Vec<_>>>()?;
    sessions.iter().for_each(|session| play(session, own_headers));
    // Registration takes a moment.
    let lends = |session: &Playback| session.progress().path == Some(DataPath::WireUring);
    wait_for(|| sessions.iter().all(|session| lends(session) == (ring != RingUse::Never)))?;
    count_trains(&playbacks, &mut calls)
}

/// Registers a copy of the source with framing.
fn register_framed(playbacks: &Playbacks, source: &OneSegment) -> Result<()> {
    let (file, departures) = (&source.segment.mapped_file, &source.segment.departures);
    let length = file.file().metadata()?.len();
    let packets = departures.iter().map(|departure| u64::from(departure.train.packets())).sum();
    let region = file.copy_framed::<std::io::Error>(length, packets, |copy| {
        copy.read(0..length)?;
        departures.iter().try_for_each(|departure| copy.add(&departure.train))
    })?;
    let region = Arc::new(region);
    file.set_hot(CopyLayout::Frames, Some(&region));
    playbacks.register(&region);
    Ok(())
}

/// A session to a client that reads all that comes.
fn over_tcp(playbacks: &Playbacks, source: &Arc<OneSegment>, listener: &TcpListener) -> Result<Playback> {
    let near = TcpStream::connect(listener.local_addr()?)?;
    near.set_nodelay(true)?;
    let (mut far, _) = listener.accept()?;
    std::thread::spawn(move || {
        let mut buffer = [0; 1 << 16];
        while far.read(&mut buffer).is_ok_and(|read| read > 0) {}
    });
    let writer = Arc::new(playbacks.open_writer(near.into())?);
    session(playbacks, source, PlaybackSink::Interleaved { writer, channel: 0, max_lag_us: 2_000_000 })
}
