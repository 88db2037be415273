//! Loading, using and unloading the module: not while it is used, and a hundred times without a leaked byte.

use std::ffi::CStr;
use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Trial;
use rustix::io::Errno;
use rustix::system::{delete_module, finit_module};
use wirepath_module_tests::content::Content;
use wirepath_module_tests::random::Random;
use wirepath_sys::module::{Module, OpenError, Run};
use wirepath_tests::kernel_memory::KernelMemory;
use wirepath_tests::{Deadline, require, trials};

use crate::files::Folder;
use crate::objects::Objects;
use crate::settings::{count, settings};
use crate::wire::IPV4;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_module_in_use_does_not_unload,
        nor_while_threads_send,
        loading_races_with_use,
        a_hundred_times_leak_nothing
    ]
}

/// Path of the module in guests.
const FILE: &str = "/wirepath.ko";
const NAME: &CStr = c"wirepath";
/// `O_NONBLOCK`, as `delete_module(2)` calls it.
const DO_NOT_WAIT: i32 = 0o4000;

/// Generous: what is waited for comes in a moment of the guest's clock.
const LIMIT_SECONDS: f64 = 60.0;

/// A file to send, and where to.
struct TestBed {
    sender: UdpSocket,
    _receiver: UdpSocket,
    file: File,
    _folder: Folder,
}

impl TestBed {
    fn new() -> Result<TestBed> {
        require!(Path::new(FILE).exists(), "{FILE} is not there");
        let folder = Folder::ext4()?;
        let file = folder.file("plain", &Content::new(1, LENGTH))?;
        let receiver = UdpSocket::bind((IPV4, 0))?;
        let sender = UdpSocket::bind((IPV4, 0))?;
        sender.connect(receiver.local_addr()?)?;
        Ok(TestBed { sender, _receiver: receiver, file, _folder: folder })
    }

    fn run(&self) -> Run<'_> {
        Run::of_file(self.file.as_fd(), 1, None).in_packets(1316).in_trains(7)
    }

    fn send(&self, module: &Module) -> Result<()> {
        let mut run = self.run();
        module.send(self.sender.as_fd(), &mut run).context("sending")?;
        ensure!(run.sent().bytes == LENGTH - 1, "{:?}", run.sent());
        Ok(())
    }
}

const LENGTH: u64 = 50_000;

/// Promise: A module in use does not unload; loading and unloading races with use safely.
///
/// By an open device, and by a run alone; when that is closed, it does.
fn a_module_in_use_does_not_unload() -> Result<()> {
    let bed = TestBed::new()?;
    let module = Module::open()?;
    ensure!(delete() == Err(Errno::AGAIN), "with its device open, it answered {:?}", delete());
    let run = module.start(bed.sender.as_fd(), &mut bed.run(), 1000)?;
    drop(module);
    ensure!(delete() == Err(Errno::AGAIN), "with a run that goes, it answered {:?}", delete());
    ensure!(run.status()?.counts.error == 0, "{:?}", run.status()?);
    drop(run);
    // A run's work in progress may outlast its descriptor.
    unload()?;
    load()?;
    bed.send(&Module::open()?)
}

/// Promise: A module in use does not unload; loading and unloading races with use safely.
///
/// Threads send while another tries to unload it all the time.
fn nor_while_threads_send() -> Result<()> {
    let bed = TestBed::new()?;
    let module = Module::open()?;
    let done = AtomicBool::new(false);
    let tries = std::thread::scope(|scope| -> Result<u64> {
        let unloader = scope.spawn(|| {
            let mut tries = 0;
            while !done.load(Ordering::Relaxed) {
                let answer = delete();
                ensure!(answer == Err(Errno::AGAIN), "try {tries} answered {answer:?}");
                tries += 1;
                std::thread::yield_now();
            }
            Ok(tries)
        });
        let send = || (0..60).try_for_each(|_| bed.send(&module));
        let senders: Vec<_> = (0..3).map(|_| scope.spawn(send)).collect();
        let sent: Result<()> = senders.into_iter().try_for_each(|sender| joined(sender.join()));
        done.store(true, Ordering::Relaxed);
        let tries = joined(unloader.join())?;
        sent.map(|()| tries)
    })?;
    ensure!(tries > 0, "nobody tried to unload it");
    count(format!("reload: {tries} tries to unload it while 3 threads sent"));
    Ok(())
}

/// Promise: A module in use does not unload; loading and unloading races with use safely.
///
/// It is loaded and unloaded while threads open it, send, start runs and close them: they can, or there is no
/// device.
fn loading_races_with_use() -> Result<()> {
    let bed = TestBed::new()?;
    let done = AtomicBool::new(false);
    let [opened, missed] = [const { AtomicU64::new(0) }; 2];
    let use_it = |user: u64| -> Result<()> {
        let mut random = Random::of_case(settings().seed, user);
        while !done.load(Ordering::Relaxed) {
            let begun = Instant::now();
            match Module::open() {
                Ok(module) => {
                    bed.send(&module)?;
                    let rate = 1_000_000;
                    drop(module.start(bed.sender.as_fd(), &mut bed.run(), rate).context("starting")?);
                    opened.fetch_add(1, Ordering::Relaxed);
                }
                Err(OpenError::Missing) => _ = missed.fetch_add(1, Ordering::Relaxed),
                Err(error) => return Err(error).context("opening the device"),
            }
            // Or it would never be free to be unloaded; on a kernel that checks itself using it takes twenty
            // times as long.
            let used_us = begun.elapsed().as_micros() as u64;
            std::thread::sleep(Duration::from_micros(random.below(3 * used_us + 3000)));
        }
        Ok(())
    };
    let rounds = 60;
    std::thread::scope(|scope| -> Result<()> {
        let use_it = &use_it;
        let users: Vec<_> = (0..3).map(|user| scope.spawn(move || use_it(user))).collect();
        let reloaded = (0..rounds).try_for_each(|_| unload().and_then(|()| load()));
        done.store(true, Ordering::Relaxed);
        let used = users.into_iter().try_for_each(|user| joined(user.join()));
        reloaded.and(used)
    })?;
    let (opened, missed) = (opened.into_inner(), missed.into_inner());
    ensure!(opened > 0, "nobody ever opened it, and it was missed {missed} times");
    count(format!(
        "reload: {rounds} times while 3 threads opened it {opened} times and missed it {missed} times"
    ));
    Ok(())
}

fn joined<T>(ended: std::thread::Result<Result<T>>) -> Result<T> {
    ended.map_err(|_| anyhow::anyhow!("a thread panicked"))?
}

const TIMES: u64 = 100;

/// Page counts vary by themselves; a page that leaks each time is more than this.
const BOUND_KIBIBYTES: u64 = TIMES * 4 / 2;

/// Promise: Loaded, used and unloaded a hundred times, the module leaks no page.
///
/// Counted in pages everywhere, and object by object where the kernel knows who allocated each.
fn a_hundred_times_leak_nothing() -> Result<()> {
    let bed = TestBed::new()?;
    let repeat = |times: u64| -> Result<()> {
        for _ in 0..times {
            unload()?;
            load()?;
            bed.send(&Module::open()?)?;
        }
        Ok(())
    };
    // The first times fill caches that are the kernel's own, as does the first reading of its counts.
    repeat(10)?;
    Objects::now()?;
    let (before, objects) = (KernelMemory::now()?, Objects::now()?);
    repeat(TIMES)?;
    if Path::new(KMEMLEAK).exists() {
        count(format!("reload: {TIMES} times, on a kernel that looks for leaks itself"));
        return Ok(());
    }
    // The kernel frees some of it only after a while.
    let mut leak = None;
    let settled = Deadline::seconds(LIMIT_SECONDS).wait_for("the end of a leak", || {
        leak = leaks(&before, objects.as_ref())?;
        Ok(leak.is_none().then_some(()))
    });
    settled.with_context(|| format!("loaded, used and unloaded {TIMES} times: {leak:?}"))?;
    let kept =
        objects.map_or("nobody counts objects".to_owned(), |objects| format!("{} objects", objects.sum()));
    count(format!("reload: {TIMES} times, KiB {before:?}, then {:?}; {kept}", KernelMemory::now()?));
    Ok(())
}

/// Looks for leaks itself, and keeps what was freed for a while: the guest asks it when the module is gone.
const KMEMLEAK: &str = "/sys/kernel/debug/kmemleak";

/// Memory that has grown too much.
fn leaks(before: &KernelMemory, objects: Option<&Objects>) -> Result<Option<String>> {
    if let Some(before) = objects {
        let grown = Objects::now()?.context("objects are not counted any more")?.grown(before, TIMES);
        if !grown.is_empty() {
            return Ok(Some(grown.join(", ")));
        }
    }
    let after = KernelMemory::now()?;
    let grown = [
        ("what is neither free, nor cache, nor any process's", before.unaccounted, after.unaccounted),
        ("slabs", before.slabs, after.slabs),
        ("what each processor has", before.per_processor, after.per_processor),
        ("mapped memory", before.mapped, after.mapped),
    ]
    .into_iter()
    .find(|(_, before, after)| after.saturating_sub(*before) >= BOUND_KIBIBYTES);
    Ok(grown.map(|(name, before, after)| format!("{name}: {before} KiB before, {after} KiB after")))
}

fn delete() -> Result<(), Errno> {
    delete_module(NAME, DO_NOT_WAIT)
}

/// Unloads it as soon as nobody uses it.
fn unload() -> Result<()> {
    Deadline::seconds(LIMIT_SECONDS).wait_for("the module's users", || match delete() {
        Ok(()) => Ok(Some(())),
        Err(Errno::AGAIN | Errno::BUSY) => Ok(None),
        Err(error) => bail!("unloading answered {error:?}"),
    })
}

fn load() -> Result<()> {
    finit_module(&File::open(FILE)?, c"", 0).context("loading")
}
