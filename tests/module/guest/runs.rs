//! START: the same bytes as SEND, not before their time, until they end or are ended.

use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Trial;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use wirepath_module_tests::call::{Call, Header};
use wirepath_module_tests::content::Content;
use wirepath_module_tests::model::Outcome;
use wirepath_module_tests::random::Random;
use wirepath_sys::module::arena::CommandRing;
use wirepath_sys::module::layout::{self, Departure};
use wirepath_sys::module::{Module, Started, State, Status};
use wirepath_tests::{Deadline, require, trials};

use crate::bench::{Bench, From, RUN, now_ns, packets};
use crate::bytes::{LENGTH, random_call};
use crate::descriptors::Others;
use crate::files::Folder;
use crate::settings::{count, each_case, settings};
use crate::wire::{IPV4, IPV6, Wire};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        bytes_of_a_file,
        bytes_of_other_file_systems,
        bytes_of_memory,
        nothing_leaves_before_its_time,
        a_stopped_run_sends_nothing_more,
        a_closed_run_sends_nothing_more,
        a_run_outlives_descriptors_but_no_shutdown,
        a_ring_that_closes_is_no_signal,
        each_field_wrong,
        each_field_of_a_status_wrong,
        each_descriptor_wrong,
    ]
}

/// Offsets of structures in the arena, beside those of SEND.
const START: usize = 3 << 9;
const HANDLER: usize = 7 << 8;
const DEPARTURES: usize = 32 << 10;

const CASES: u64 = 120;

/// Promise: A started run sends the same bytes as a call.
fn bytes_of_a_file() -> Result<()> {
    let content = Content::new(settings().seed, LENGTH);
    let file = Folder::ext4()?.file("plain", &content)?;
    bytes_of("runs::bytes_of_a_file", &[From::File(file.as_raw_fd(), &content)], bench()?)
}

/// Promise: A started run sends the same bytes as a call.
fn bytes_of_other_file_systems() -> Result<()> {
    let content = Content::new(settings().seed, LENGTH).with_hole(8191..70_001);
    let folders = [Folder::tmpfs()?, Folder::xfs()?, Folder::overlay()?];
    let files = folders.iter().map(|folder| folder.file("holes", &content)).collect::<Result<Vec<_>>>()?;
    let sources: Vec<From<'_>> = files.iter().map(|file| From::File(file.as_raw_fd(), &content)).collect();
    bytes_of("runs::bytes_of_other_file_systems", &sources, bench()?)
}

/// Promise: A started run sends the same bytes as a call.
fn bytes_of_memory() -> Result<()> {
    let content = Content::new(settings().seed, LENGTH);
    let mut bench = bench()?;
    bench.fill_memory(&content);
    bytes_of("runs::bytes_of_memory", &[From::Memory(&content)], bench)?;
    let pinned = Module::open()?.query()?.pinned_bytes;
    ensure!(pinned == 0, "{pinned} bytes stay pinned");
    Ok(())
}

/// A test bed whose module paces runs.
pub(crate) fn bench() -> Result<Bench> {
    let bench = Bench::new()?;
    require!(bench.has(layout::FEATURE_RUNS), "this module paces no runs");
    Ok(bench)
}

/// When a run's packets leave.
#[derive(Clone, Debug)]
pub(crate) enum Pace {
    Rate(u64),
    Table(Vec<Departure>),
}

/// Random runs of these sources.
pub(crate) fn bytes_of(group: &str, sources: &[From<'_>], mut bench: Bench) -> Result<()> {
    let mut wires = [Wire::new(IPV4, true)?, Wire::new(IPV6, false)?];
    each_case(group, CASES, |index| {
        let mut random = Random::of_case(settings().seed, index);
        let from = &sources[random.below(sources.len() as u64) as usize];
        let call = random_call(&mut random, from);
        bench.by_ring = index % 3 == 0;
        check_random(&mut bench, &mut random, call, from, &mut wires[index as usize % 2])
    })?;
    let [calls, packets, bytes] = bench.counts;
    count(format!("{group}: {calls} runs, {packets} packets, {bytes} bytes"));
    Ok(())
}

/// A call, as a run at any pace.
pub(crate) fn check_random(
    bench: &mut Bench,
    random: &mut Random,
    mut call: Call,
    from: &From<'_>,
    wire: &mut Wire,
) -> Result<()> {
    // All of a run's memory must be there when it starts.
    if matches!(from, From::Memory(_)) {
        let there = LENGTH - call.offset;
        call.length = call.length.map(|length| length.min(there));
    }
    // Headers of a run are kept, and so must be known.
    if call.length.is_none() && matches!(call.header, Header::Given(_)) || call.length == Some(0) {
        return Ok(());
    }
    let outcome = Outcome::of(&call, from.end());
    let pace = pace(random, outcome.packets.len() as u64);
    check(bench, &call, from, &pace, wire).with_context(|| format!("{call:?} at {pace:?}"))
}

/// A pace by which it takes no time to speak of: what is late leaves at once.
fn pace(random: &mut Random, packets: u64) -> Pace {
    if random.once_in(2) {
        return Pace::Rate(random.one(&[100_000_000, 10_000_000_000, u64::MAX]));
    }
    let mut table = Vec::new();
    let (mut left, mut time_ns) = (packets + 1, 0);
    while left > 0 {
        let some = (1 + random.below(12)).min(left);
        table.push(Departure { time_ns, packets: some as u32, reserved: 0 });
        time_ns += random.below(3) * random.below(200_000);
        left -= some;
    }
    Pace::Table(table)
}

fn check(bench: &mut Bench, call: &Call, from: &From<'_>, pace: &Pace, wire: &mut Wire) -> Result<()> {
    let outcome = Outcome::of(call, from.end());
    let before = bench.request(call, from, wire)?;
    let run = match start(bench, pace, 0) {
        Ok(run) => run,
        Err(answer) if outcome.packets.is_empty() => {
            ensure!(Err(answer) == outcome.answer, "it answered {answer:?} and not {:?}", outcome.answer);
            return wire.compare(std::iter::empty());
        }
        Err(answer) => bail!("it answered {answer:?}"),
    };
    let Status { state, counts } = run.wait().context("waiting")?;
    wire.compare(packets(&outcome, from.content()))?;
    ensure!(state == State::Ended(outcome.answer), "it is {state:?} and should be {:?}", outcome.answer);
    ensure!(bench.arena.take::<layout::Run>(RUN) == before, "the caller's structure was written");
    let is_right = counts.packets == outcome.packets.len() as u64
        && counts.bytes == outcome.payload()
        && counts.position == before.offset + outcome.passed(call);
    ensure!(is_right, "its status is {counts:?}, and should be of {} packets", outcome.packets.len());
    if let Header::Rtp(rtp) = &call.header {
        let after = outcome.rtp(call, rtp);
        let got = (counts.rtp_sequence, counts.rtp_timestamp, counts.rtp_packets, counts.rtp_octets);
        let expected = (after.sequence, after.timestamp, after.packets, after.octets);
        ensure!(
            outcome.packets.is_empty() || got == expected,
            "its engine is {got:?} and should be {expected:?}"
        );
        ensure!(counts.rtp_last_timestamp == after.last_timestamp.unwrap_or_default(), "{counts:?}");
    }
    bench.counts.iter_mut().zip([1, counts.packets, counts.bytes]).for_each(|(count, more)| *count += more);
    Ok(())
}

/// Has the module start what was laid down.
pub(crate) fn start(bench: &mut Bench, pace: &Pace, start_ns: u64) -> Result<Started, Errno> {
    start_by(bench, pace, start_ns, None)
}

/// The same by the handler of a name.
pub(crate) fn start_by(
    bench: &mut Bench,
    pace: &Pace,
    start_ns: u64,
    handler: Option<&str>,
) -> Result<Started, Errno> {
    let mut common = layout::Start {
        size: size_of::<layout::Start>() as u32,
        send: bench.arena.address(RUN),
        start_ns,
        ..layout::Start::default()
    };
    if let Some(name) = handler {
        bench.arena.write(HANDLER, &[name.as_bytes(), b"\0"].concat());
        common.handler = bench.arena.address(HANDLER);
    }
    let start = match pace {
        Pace::Rate(rate) => layout::Start { rate_bytes_per_second: *rate, ..common },
        Pace::Table(table) => {
            for (index, departure) in table.iter().enumerate() {
                bench.arena.put(DEPARTURES + index * size_of::<Departure>(), departure);
            }
            let departures = bench.arena.address(DEPARTURES);
            layout::Start { departures, departure_count: table.len() as u32, ..common }
        }
    };
    bench.arena.put(START, &start);
    // Without a descriptor there was no answer.
    bench.ask(layout::START, START)?.ok_or(Errno::NOSYS)
}

/// A file, a wire, and a call of two hundred packets of 1,000 bytes.
struct TestBed {
    bench: Bench,
    wire: Wire,
    content: Content,
    file: std::fs::File,
}

impl TestBed {
    fn new() -> Result<TestBed> {
        let content = Content::new(settings().seed, 200_000);
        let file = Folder::ext4()?.file("plain", &content)?;
        Ok(TestBed { bench: bench()?, wire: Wire::new(IPV4, true)?, content, file })
    }

    fn call() -> Call {
        Call { packet_bytes: 1000, ..Call::packet(0, 200_000) }
    }

    fn start(&mut self, pace: &Pace, start_ns: u64) -> Result<Started> {
        let from = From::File(self.file.as_raw_fd(), &self.content);
        self.bench.request(&TestBed::call(), &from, &self.wire)?;
        start(&mut self.bench, pace, start_ns).map_err(|errno| anyhow::anyhow!("it answered {errno:?}"))
    }

    /// With other descriptors.
    fn start_of(&mut self, socket: i32, file: i32) -> Result<Started, Errno> {
        let from = From::File(file, &self.content);
        let mut run = self.bench.request(&TestBed::call(), &from, &self.wire).map_err(|_| Errno::NOSYS)?;
        run.socket = socket;
        self.bench.arena.put(RUN, &run);
        start(&mut self.bench, &Pace::Rate(100_000_000), 0)
    }

    /// Checks that the packets so far are a beginning of all; returns their number.
    fn arrived(&mut self) -> Result<u64> {
        let got = self.wire.arrived()?;
        let outcome = Outcome::of(&TestBed::call(), wirepath_module_tests::model::Source::File(200_000));
        for (number, (got, expected)) in got.iter().zip(packets(&outcome, &self.content)).enumerate() {
            crate::wire::compare(got, &expected).with_context(|| format!("packet {number}"))?;
        }
        ensure!(got.len() <= 200, "{} packets of 200", got.len());
        Ok(got.len() as u64)
    }
}

/// Promise: A run sends nothing before its time and nothing after its end.
///
/// A packet may leave later than asked, by as much as the machine needs, but not earlier.
fn nothing_leaves_before_its_time() -> Result<()> {
    let mut bed = TestBed::new()?;
    let departures = |gap_ns: u64| {
        Pace::Table((0..200).map(|at| Departure { time_ns: at * gap_ns, packets: 1, reserved: 0 }).collect())
    };
    let gap_ns = 1_000_000;
    for (pace, delay_ns) in
        [(Pace::Rate(1_000_000), 0), (departures(gap_ns), 0), (departures(gap_ns), 50_000_000)]
    {
        let begin = now_ns();
        let start_ns = if delay_ns == 0 { 0 } else { begin + delay_ns };
        let run = bed.start(&pace, start_ns)?;
        for number in 0..200 {
            let length = bed.wire.receive()?.len();
            let (now, due) = (now_ns(), begin + delay_ns + number * gap_ns);
            ensure!(length == 1000, "packet {number} has {length} bytes");
            ensure!(now >= due, "packet {number} has left {} ns before its time at {pace:?}", due - now);
        }
        let status = run.wait()?;
        ensure!(status.state == State::Ended(Ok(())), "{status:?}");
        ensure!(is_readable(&run)?, "a run that has ended is not readable");
    }
    Ok(())
}

fn is_readable(run: &Started) -> Result<bool> {
    let mut polled = [PollFd::from_borrowed_fd(run.as_fd(), PollFlags::IN)];
    let ready = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(ready == 1)
}

/// Slow enough that it does not end by itself.
const SLOW: Pace = Pace::Rate(50_000);

/// Promise: A run sends nothing before its time and nothing after its end.
fn a_stopped_run_sends_nothing_more() -> Result<()> {
    let mut bed = TestBed::new()?;
    let run = bed.start(&SLOW, 0)?;
    // Some packets come first.
    for _ in 0..3 {
        bed.wire.receive()?;
    }
    ensure!(!is_readable(&run)?, "a run that goes is readable");
    // On several processors, a packet may arrive before it is counted.
    let going = Deadline::seconds(20.0).wait_for("three packets to be counted", || {
        let status = run.status()?;
        ensure!(status.state == State::Going, "{status:?}");
        Ok((status.counts.packets >= 3).then_some(status))
    })?;
    ensure!(going.counts.bytes == going.counts.packets * 1000, "{going:?}");
    run.stop()?;
    let stopped = run.status()?;
    ensure!(stopped.state == State::Stopped && is_readable(&run)?, "{stopped:?}");
    let left = bed.wire.arrived()?.len() as u64;
    ensure!(stopped.counts.packets == 3 + left, "{left} packets arrived after the first 3, and {stopped:?}");
    ensure!(stopped.counts.bytes == stopped.counts.packets * 1000, "{stopped:?}");
    run.stop().context("stopping again")?;
    ensure!(run.wait()? == stopped, "a stopped run changes");
    Ok(())
}

/// Promise: A run sends nothing before its time and nothing after its end.
fn a_closed_run_sends_nothing_more() -> Result<()> {
    let mut bed = TestBed::new()?;
    drop(bed.start(&SLOW, 0)?);
    let arrived = bed.arrived()?;
    ensure!(arrived < 200, "all packets arrived");
    // A time in which it would have sent.
    let begin = Instant::now();
    while begin.elapsed().as_millis() < 100 {
        std::thread::yield_now();
    }
    ensure!(bed.wire.arrived()?.is_empty(), "a closed run goes on");
    Ok(())
}

/// Promise: A run sends nothing before its time and nothing after its end.
fn a_run_outlives_descriptors_but_no_shutdown() -> Result<()> {
    let mut bed = TestBed::new()?;
    let other = UdpSocket::bind((IPV4, 0))?;
    other.connect(bed.wire.receiver.local_addr()?)?;
    let old = std::mem::replace(&mut bed.wire.sender, other);
    let fast = Pace::Rate(20_000_000);
    let run = {
        let from = From::File(bed.file.as_raw_fd(), &bed.content);
        let mut run = bed.bench.request(&TestBed::call(), &from, &bed.wire)?;
        run.socket = old.as_raw_fd();
        bed.bench.arena.put(RUN, &run);
        start(&mut bed.bench, &fast, 0).map_err(|errno| anyhow::anyhow!("it answered {errno:?}"))?
    };
    drop(old);
    bed.file = std::fs::File::open("/dev/null")?;
    let status = run.wait()?;
    ensure!(status.state == State::Ended(Ok(())), "{status:?}");
    ensure!(bed.arrived()? == 200, "packets are missing");

    let mut bed = TestBed::new()?;
    let run = bed.start(&SLOW, 0)?;
    rustix::net::shutdown(&bed.wire.sender, rustix::net::Shutdown::Write)?;
    let status = run.wait()?;
    ensure!(status.state == State::Ended(Err(Errno::PIPE)), "{status:?}");
    Ok(())
}

/// Promise: A run sends nothing before its time and nothing after its end.
///
/// A thread that lets a ring go has work to do before it returns to its program; that is no signal.
fn a_ring_that_closes_is_no_signal() -> Result<()> {
    let mut bed = TestBed::new()?;
    require!(bed.bench.has(layout::FEATURE_URING), "this module takes no commands of io_uring");
    for number in 0..20 {
        let run = bed.start(&Pace::Rate(10_000_000), 0)?;
        let argument = bed.bench.arena.address(0);
        let mut ring = CommandRing::new()?;
        ring.ask(&bed.bench.module, 0xbcff, &mut bed.bench.arena, [argument, 0]).ok();
        drop(ring);
        let status = run.wait().with_context(|| format!("waiting for run {number}"))?;
        ensure!(status.state == State::Ended(Ok(())), "{status:?}");
        ensure!(bed.arrived()? == 200, "packets are missing");
    }
    Ok(())
}

type Change = fn(&mut layout::Start, &mut [Departure; 2], u64);

/// The fault, the change that makes it, and the expected answer; the address is one that is not mapped.
#[rustfmt::skip]
const FIELDS: &[(&str, Change, Errno)] = &[
    ("no size", |start, _, _| start.size = 0, Errno::INVAL),
    ("a size below the first", |start, _, _| start.size = 47, Errno::INVAL),
    ("an endless size", |start, _, _| start.size = u32::MAX, Errno::TOOBIG),
    ("a flag", |start, _, _| start.flags = 1, Errno::INVAL),
    ("a reserved field", |start, _, _| start.reserved = 1, Errno::INVAL),
    ("nothing to send", |start, _, _| start.send = 0, Errno::FAULT),
    ("a run that is not there", |start, _, nowhere| start.send = nowhere, Errno::FAULT),
    ("no departures", |start, _, _| (start.departures, start.departure_count) = (0, 0), Errno::INVAL),
    ("departures that are not there", |start, _, nowhere| start.departures = nowhere, Errno::FAULT),
    ("departures backwards", |_, table, _| table[0].time_ns = 2000, Errno::INVAL),
    ("a departure of nothing", |_, table, _| table[1].packets = 0, Errno::INVAL),
    ("a reserved field of a departure", |_, table, _| table[1].reserved = 1, Errno::INVAL),
    ("a rate and departures", |start, _, _| start.rate_bytes_per_second = 1000, Errno::INVAL),
];

/// Promise: A wrong request is refused with the documented error and sends nothing.
fn each_field_wrong() -> Result<()> {
    let mut bed = TestBed::new()?;
    for (name, change, expected) in FIELDS {
        let from = From::File(bed.file.as_raw_fd(), &bed.content);
        bed.bench.request(&TestBed::call(), &from, &bed.wire)?;
        let arena = &mut bed.bench.arena;
        let mut table = [0, 1000].map(|time_ns| Departure { time_ns, packets: 100, reserved: 0 });
        let mut start = layout::Start {
            size: size_of::<layout::Start>() as u32,
            send: arena.address(RUN),
            departures: arena.address(DEPARTURES),
            departure_count: 2,
            ..layout::Start::default()
        };
        change(&mut start, &mut table, arena.address(arena.length()));
        arena.put(START, &start);
        table
            .iter()
            .enumerate()
            .for_each(|(index, one)| arena.put(DEPARTURES + index * size_of::<Departure>(), one));
        let answer = bed.bench.ask(layout::START, START).map(drop);
        ensure!(answer == Err(*expected), "{name}: it answered {answer:?} and not {expected:?}");
        bed.wire.compare(std::iter::empty()).with_context(|| (*name).to_owned())?;
    }
    count(format!("runs::each_field_wrong: {} requests refused", FIELDS.len()));
    Ok(())
}

/// Promise: A wrong request is refused with the documented error and sends nothing.
///
/// STATUS and WAIT of a run that has ended, and what is no request of a run.
fn each_field_of_a_status_wrong() -> Result<()> {
    let mut bed = TestBed::new()?;
    let run = bed.start(&Pace::Rate(100_000_000), 0)?;
    let ended = run.wait()?;
    let arena = &mut bed.bench.arena;
    let size = size_of::<layout::Status>() as u32;
    let nowhere = arena.length();
    let mut refused = 0;
    for (name, size, at, tail, expected) in [
        ("no size", 0, 0, 0, Err(Errno::INVAL)),
        ("a size below the first", 111, 0, 0, Err(Errno::INVAL)),
        ("as first published", 112, 0, 0, Ok(())),
        ("an endless size", u32::MAX, 0, 0, Err(Errno::TOOBIG)),
        ("longer, with something new", size + 8, 0, 1, Err(Errno::TOOBIG)),
        ("longer, with zeros", size + 8, 0, 0, Ok(())),
        ("not aligned", size, 3, 0, Ok(())),
        ("not there", size, nowhere, 0, Err(Errno::FAULT)),
        ("half there", size, nowhere - 32, 0, Err(Errno::FAULT)),
    ] {
        for request in [layout::STATUS, layout::WAIT] {
            arena.bytes_mut()[..1024].fill(0);
            if at < nowhere {
                arena.write(at, &size.to_ne_bytes());
            }
            if tail != 0 {
                arena.write(at + size as usize - 1, &[tail]);
            }
            let argument = arena.address(at);
            let answer = errno(run.ask_with(request, arena, argument));
            ensure!(answer == expected, "{name}: {request:#x} answered {answer:?} and not {expected:?}");
            refused += usize::from(answer.is_err());
        }
    }
    let argument = arena.address(0);
    for (request, expected) in [
        (layout::STOP, Errno::INVAL),
        (layout::QUERY, Errno::NOTTY),
        (layout::START, Errno::NOTTY),
        (layout::SEND, Errno::NOTTY),
        (0xbcff, Errno::NOTTY),
    ] {
        arena.bytes_mut()[..1024].fill(0);
        let answer = errno(run.ask_with(request, arena, argument));
        ensure!(answer == Err(expected), "{request:#x} answered {answer:?} and not {expected:?}");
        refused += 1;
    }
    ensure!(run.status()? == ended, "a run that has ended changes");
    count(format!("runs::each_field_of_a_status_wrong: {refused} requests refused"));
    Ok(())
}

fn errno(answer: std::io::Result<()>) -> Result<(), Errno> {
    answer.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOSYS))
}

/// Promise: A wrong request is refused with the documented error and sends nothing.
///
/// A run of what cannot be sent from, or to, does not start; without a destination it ends at once.
fn each_descriptor_wrong() -> Result<()> {
    let mut bed = TestBed::new()?;
    let folder = Folder::tmpfs()?;
    let others = Others::new(folder.path())?;
    let (right, file) = (bed.wire.sender.as_raw_fd(), bed.file.as_raw_fd());
    let sockets = others.sockets().into_iter().map(|(name, socket, answer)| (name, socket, file, answer));
    let files = others.files().into_iter().map(|(name, file, answer)| (name, right, file, answer));
    let mut refused = 0;
    for (name, socket, file, expected) in sockets.chain(files) {
        let answer = bed.start_of(socket, file).map(drop);
        ensure!(answer == Err(expected), "{name}: it answered {answer:?} and not {expected:?}");
        refused += 1;
    }
    let (name, socket, expected) = others.unconnected();
    let run = bed.start_of(socket, file).map_err(|errno| anyhow::anyhow!("{name}: {errno:?}"))?;
    let status = run.wait()?;
    ensure!(status.state == State::Ended(Err(expected)), "{name}: {status:?}");
    ensure!(bed.arrived()? == 0, "packets have arrived");
    count(format!("runs::each_descriptor_wrong: {refused} descriptors refused"));
    Ok(())
}
