//! Each allocation of each call fails once: what is answered is right or says so (ENOMEM, ENOBUFS), the call
//! goes on from where it ended, and nothing is kept. What leaks the guest finds, in kernels that look for it.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Trial;
use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;
use rustix::system::{delete_module, finit_module};
use wirepath_module_tests::call::{Call, Header};
use wirepath_module_tests::content::Content;
use wirepath_module_tests::model::Outcome;
use wirepath_module_tests::random::Random;
use wirepath_module_tests::rtp::Rtp;
use wirepath_sys::module::{DEVICE, Module, State, layout};
use wirepath_tests::{Deadline, require, trials};

use crate::bench::{Bench, From, packets};
use crate::bytes::LENGTH;
use crate::failing::Failing;
use crate::files::Folder;
use crate::runs::{Pace, start};
use crate::settings::{count, each_case, settings};
use crate::vectors::Sources;
use crate::wire::{IPV4, IPV6, Wire};

pub(crate) fn trials() -> Vec<Trial> {
    trials![of_ext4, of_tmpfs, of_memory, of_vectors, by_ring, of_starting, of_runs_at_work, of_loading]
}

/// Calls for each source; each is made once for each of its allocations.
const CASES: u64 = 12;

/// Answers that a failed allocation may lead to.
const MISSING: [Errno; 2] = [Errno::NOMEM, Errno::NOBUFS];

/// Counts of failed allocations, and of calls that reported one.
#[derive(Default)]
struct Counts {
    failures: u64,
    refusals: u64,
}

impl Counts {
    fn say(&self, group: &str) -> Result<()> {
        let Counts { failures, refusals } = self;
        // Some failures are made good on the way. Where none is told, none was tried.
        ensure!(*failures > 0 && *refusals > 0, "{failures} allocations failed, {refusals} calls said so");
        count(format!("{group}: {failures} allocations failed, {refusals} calls said so"));
        Ok(())
    }
}

/// Promise: If an allocation fails, a call returns ENOMEM or ENOBUFS, or succeeds; a retry continues where it
/// stopped.
fn of_ext4() -> Result<()> {
    of_file("injected::of_ext4", &Folder::ext4()?, false)
}

/// Promise: If an allocation fails, a call returns ENOMEM or ENOBUFS, or succeeds; a retry continues where it
/// stopped.
fn of_tmpfs() -> Result<()> {
    of_file("injected::of_tmpfs", &Folder::tmpfs()?, false)
}

/// Promise: If an allocation fails, a call returns ENOMEM or ENOBUFS, or succeeds; a retry continues where it
/// stopped.
fn by_ring() -> Result<()> {
    of_file("injected::by_ring", &Folder::ext4()?, true)
}

fn of_file(group: &str, folder: &Folder, by_ring: bool) -> Result<()> {
    let content = Content::new(settings().seed, LENGTH);
    let file = folder.file("plain", &content)?;
    let mut bench = Bench::new()?;
    bench.by_ring = by_ring;
    of_source(group, &From::File(file.as_raw_fd(), &content), Some(&file), bench)
}

/// Promise: If an allocation fails, a call returns ENOMEM or ENOBUFS, or succeeds; a retry continues where it
/// stopped.
fn of_memory() -> Result<()> {
    let content = Content::new(settings().seed, LENGTH);
    let mut bench = Bench::new()?;
    bench.fill_memory(&content);
    of_source("injected::of_memory", &From::Memory(&content), None, bench)
}

fn of_source(group: &str, from: &From<'_>, file: Option<&File>, mut bench: Bench) -> Result<()> {
    let failing = Failing::new()?;
    let mut wires = [Wire::new(IPV4, true)?, Wire::new(IPV6, false)?];
    let mut counts = Counts::default();
    each_case(group, CASES, |index| {
        let call = small_call(&mut Random::of_case(settings().seed, index));
        let wire = &mut wires[index as usize % 2];
        let outcome = Outcome::of(&call, from.end());
        counts.failures += failing
            .each(|armed| {
                if let Some(file) = file {
                    // Every other time it must be read first.
                    if index % 4 < 2 {
                        fadvise(file, 0, None, Advice::DontNeed)?;
                    }
                }
                let before = bench.request(&call, from, wire)?;
                let mut answer = armed.call(|| bench.send())?;
                if is_missing(answer) {
                    counts.refusals += 1;
                    answer = bench.send();
                }
                wire.compare(packets(&outcome, from.content()))?;
                ensure!(answer == outcome.answer, "it answered {answer:?} and not {:?}", outcome.answer);
                bench.check_state(&call, &outcome, &before)
            })
            .with_context(|| format!("{call:?}"))?;
        Ok(())
    })?;
    counts.say(group)
}

fn is_missing<T>(answer: Result<T, Errno>) -> bool {
    answer.is_err_and(|errno| MISSING.contains(&errno))
}

/// A call of few packets, so that it has few allocations: each of them fails in an attempt of its own.
fn small_call(random: &mut Random) -> Call {
    let header = match random.below(4) {
        0 => Header::None,
        1 => Header::Given(12),
        _ => Header::Rtp(Rtp::random(random)),
    };
    let offset = random.below(LENGTH - 20_000);
    let (packet_bytes, packets) = (random.one(&[500, 1316, 1400, 4096]), 1 + random.below(6));
    let length = u64::from(packet_bytes) * packets - random.below(400);
    let (train_packets, copy) = (random.one(&[0, 3, 7]), random.once_in(4));
    let mut call = Call { packet_bytes, train_packets, header, copy, ..Call::packet(offset, length) };
    if let Header::Rtp(rtp) = &mut call.header {
        rtp.fit(random, packet_bytes, length);
    }
    call
}

/// Promise: If an allocation fails, a call returns ENOMEM or ENOBUFS, or succeeds; a retry continues where it
/// stopped.
fn of_vectors() -> Result<()> {
    let failing = Failing::new()?;
    let mut sources = Sources::new([Folder::ext4()?, Folder::tmpfs()?])?;
    let mut wire = Wire::new(IPV4, true)?;
    let mut counts = Counts::default();
    each_case("injected::of_vectors", CASES, |index| {
        let Counts { failures, refusals } = &mut counts;
        *failures += failing.each(|armed| {
            let mut random = Random::of_case(settings().seed, index);
            let asked = |ask: &mut dyn FnMut() -> Result<(), Errno>| {
                let answer = armed.call(&mut *ask)?;
                if is_missing(answer) {
                    *refusals += 1;
                    return Ok(ask());
                }
                Ok(answer)
            };
            sources.check_asked_over_udp(&mut random, &mut wire, asked).map(drop)
        })?;
        Ok(())
    })?;
    counts.say("injected::of_vectors")
}

const RUNS: u64 = 60;
const FAST: Pace = Pace::Rate(u64::MAX);

/// Promise: If an allocation fails, a call returns ENOMEM or ENOBUFS, or succeeds; a retry continues where it
/// stopped.
///
/// START, and then the run with all the memory that it wants.
fn of_starting() -> Result<()> {
    let failing = Failing::new()?;
    let Runs { bench, wire, content, file } = &mut Runs::new()?;
    let mut counts = Counts::default();
    each_case("injected::of_starting", CASES, |index| {
        let call = small_call(&mut Random::of_case(settings().seed, index));
        let from = source(file, content, index);
        let outcome = Outcome::of(&call, from.end());
        counts.failures += failing.each(|armed| {
            bench.request(&call, &from, wire)?;
            match armed.call(|| start(bench, &FAST, 0))? {
                Ok(run) => {
                    let status = run.wait().context("waiting")?;
                    ensure!(status.state == State::Ended(outcome.answer), "{status:?}");
                    wire.compare(packets(&outcome, from.content()))
                }
                Err(errno) if outcome.packets.is_empty() && Err(errno) == outcome.answer => Ok(()),
                Err(errno) if MISSING.contains(&errno) => {
                    counts.refusals += 1;
                    wire.compare(std::iter::empty())
                }
                Err(errno) => bail!("it answered {errno:?}"),
            }
        })?;
        Ok(())
    })?;
    check_pinned()?;
    counts.say("injected::of_starting")
}

/// Promise: If an allocation fails, a call returns ENOMEM or ENOBUFS, or succeeds; a retry continues where it
/// stopped.
///
/// Runs of which one in ten allocations fails while they send, on the kernel's own threads: what has left is
/// a beginning of what should.
fn of_runs_at_work() -> Result<()> {
    let failing = Failing::new()?;
    let Runs { bench, wire, content, file } = &mut Runs::new()?;
    let mut ended = [0_u64; 2];
    each_case("injected::of_runs_at_work", RUNS, |index| {
        let mut call = small_call(&mut Random::of_case(settings().seed, index));
        // Segments of a train may be lost where it is received.
        call.train_packets = 0;
        let from = source(file, content, index);
        let outcome = Outcome::of(&call, from.end());
        bench.request(&call, &from, wire)?;
        let armed = failing.one_in(10)?;
        let run = match start(bench, &FAST, 0) {
            Ok(run) => run,
            Err(errno) if MISSING.contains(&errno) => return Ok(()),
            Err(errno) if outcome.packets.is_empty() && Err(errno) == outcome.answer => return Ok(()),
            Err(errno) => bail!("it answered {errno:?}"),
        };
        let status = run.wait().context("waiting")?;
        drop(armed);
        let sent = status.counts.packets as usize;
        let is_whole = status.state == State::Ended(outcome.answer);
        match status.state {
            _ if is_whole => ensure!(sent == outcome.packets.len(), "{status:?}"),
            State::Ended(Err(errno)) if MISSING.contains(&errno) => {}
            _ => bail!("{status:?} and not {:?}", outcome.answer),
        }
        ended[usize::from(!is_whole)] += 1;
        wire.compare(packets(&outcome, from.content()).take(sent)).with_context(|| format!("{call:?}"))
    })?;
    check_pinned()?;
    let [well, early] = ended;
    ensure!(well > 0 && early > 0, "{well} runs ended well and {early} early");
    count(format!("injected::of_runs_at_work: {well} runs ended well, {early} for want of memory"));
    Ok(())
}

/// Arguments of runs.
struct Runs {
    bench: Bench,
    wire: Wire,
    content: Content,
    file: File,
}

impl Runs {
    fn new() -> Result<Runs> {
        let mut bench = Bench::new()?;
        require!(bench.has(layout::FEATURE_RUNS), "this module paces no runs");
        let content = Content::new(settings().seed, LENGTH);
        bench.fill_memory(&content);
        let file = Folder::ext4()?.file("plain", &content)?;
        Ok(Runs { bench, wire: Wire::new(IPV4, true)?, content, file })
    }
}

/// Files and memory in turn.
fn source<'a>(file: &File, content: &'a Content, index: u64) -> From<'a> {
    if index.is_multiple_of(2) { From::File(file.as_raw_fd(), content) } else { From::Memory(content) }
}

fn check_pinned() -> Result<()> {
    let pinned = Module::open()?.query()?.pinned_bytes;
    ensure!(pinned == 0, "{pinned} bytes stay pinned");
    Ok(())
}

/// Path of the module in guests, and its name in the kernel.
const FILE: &str = "/wirepath.ko";
const NAME: &CStr = c"wirepath";

/// Promise: If an allocation fails, a call returns ENOMEM or ENOBUFS, or succeeds; a retry continues where it
/// stopped.
///
/// The module's own start: it is there whole, or not at all.
fn of_loading() -> Result<()> {
    let failing = Failing::new()?;
    require!(Path::new(FILE).exists(), "{FILE} is not there");
    // It prints its callers when it fails, as faults do.
    failing.spare("__kmem_cache_create_args")?;
    // The threads of runs that ended before may be on their way out.
    let unload = || {
        Deadline::seconds(5.0).wait_for("the module's users", || match delete_module(NAME, DO_NOT_WAIT) {
            Ok(()) => Ok(Some(())),
            Err(Errno::AGAIN | Errno::BUSY) => Ok(None),
            Err(error) => bail!("unloading answered {error:?}"),
        })
    };
    let mut counts = Counts::default();
    unload()?;
    counts.failures = failing.each(|armed| {
        let module = File::open(FILE)?;
        match armed.call(|| finit_module(&module, c"", 0))? {
            Ok(()) => unload(),
            Err(errno) if MISSING.contains(&errno) => {
                counts.refusals += 1;
                ensure!(!Path::new("/sys/module/wirepath").exists(), "a part of it stays");
                ensure!(!Path::new(DEVICE).exists(), "its device stays");
                Ok(())
            }
            Err(errno) => bail!("it answered {errno:?}"),
        }
    })?;
    finit_module(File::open(FILE)?, c"", 0).context("loading")?;
    counts.say("injected::of_loading")
}

/// `O_NONBLOCK`, as `delete_module(2)` calls it.
const DO_NOT_WAIT: i32 = 0o4000;
