//! Loading, using and unloading the module a hundred times: no byte of the kernel's memory stays behind.

use std::ffi::CStr;
use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Trial;
use rustix::io::Errno;
use rustix::system::{delete_module, finit_module};
use wirepath_module_tests::content::Content;
use wirepath_sys::module::{Module, Run};
use wirepath_tests::{require, trials};

use crate::bench::Bench;
use crate::files::Folder;
use crate::settings::count;
use crate::wire::IPV4;

pub(crate) fn trials() -> Vec<Trial> {
    trials![a_module_in_use_does_not_unload, a_hundred_times_leak_nothing]
}

/// Where guests have it.
const FILE: &str = "/wirepath.ko";
const NAME: &CStr = c"wirepath";
/// `O_NONBLOCK`, as `delete_module(2)` calls it.
const DO_NOT_WAIT: i32 = 0o4000;

fn a_module_in_use_does_not_unload() -> Result<()> {
    require!(Path::new(FILE).exists(), "{FILE} is not there");
    let bench = Bench::new()?;
    let answer = delete_module(NAME, DO_NOT_WAIT);
    ensure!(answer == Err(Errno::AGAIN), "with its device open, unloading answered {answer:?}");
    bench.module.query().context("it still works")?;
    Ok(())
}

const TIMES: usize = 100;

/// What is measured moves by some pages by itself; a page that stays behind each time is more than this.
const BOUND_KIBIBYTES: u64 = TIMES as u64 * 4 / 2;

fn a_hundred_times_leak_nothing() -> Result<()> {
    require!(Path::new(FILE).exists(), "{FILE} is not there");
    let folder = Folder::ext4()?;
    let file = folder.file("plain", &Content::new(1, 50_000))?;
    // The first times fill caches that are the kernel's own.
    repeat(10, &file)?;
    let before = Memory::now()?;
    repeat(TIMES, &file)?;
    let after = Memory::now()?;
    count(format!("reload: {TIMES} times, KiB {before:?}, then {after:?}"));
    for ((name, before), (_, after)) in before.0.iter().zip(&after.0) {
        let grown = after.saturating_sub(*before);
        ensure!(grown < BOUND_KIBIBYTES, "{name} has grown by {grown} KiB, from {before}, in {TIMES} times");
    }
    kmemleak()
}

fn repeat(times: usize, file: &File) -> Result<()> {
    for _ in 0..times {
        unload()?;
        let module = File::open(FILE)?;
        finit_module(&module, c"", 0).context("loading")?;
        use_it(file)?;
    }
    Ok(())
}

fn unload() -> Result<()> {
    match delete_module(NAME, DO_NOT_WAIT) {
        Ok(()) => Ok(()),
        Err(error) => {
            let users = std::fs::read_to_string("/sys/module/wirepath/refcnt").unwrap_or_default();
            bail!("unloading answered {error:?}, {} users", users.trim())
        }
    }
}

fn use_it(file: &File) -> Result<()> {
    let module = Module::open()?;
    let receiver = UdpSocket::bind((IPV4, 0))?;
    let sender = UdpSocket::bind((IPV4, 0))?;
    sender.connect(receiver.local_addr()?)?;
    let mut run = Run::of_file(file.as_fd(), 1, None).in_packets(1316).in_trains(7);
    module.send(sender.as_fd(), &mut run)?;
    ensure!(run.sent().bytes == 49_999, "{:?}", run.sent());
    Ok(())
}

/// Memory of the kernel, in KiB.
#[derive(Debug)]
struct Memory([(&'static str, u64); 4]);

impl Memory {
    fn now() -> Result<Memory> {
        std::fs::write("/proc/sys/vm/drop_caches", "3").context("dropping caches")?;
        // Free pages of each processor come back to where they are counted.
        std::fs::write("/proc/sys/vm/compact_memory", "1").context("compacting memory")?;
        let text = std::fs::read_to_string("/proc/meminfo")?;
        let field = |name: &str| -> Result<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            number.with_context(|| format!("/proc/meminfo has no {name}"))
        };
        let others =
            ["MemFree", "Buffers", "Cached", "AnonPages", "SReclaimable", "PageTables", "KernelStack"];
        let others: u64 = others.into_iter().map(field).sum::<Result<u64>>()?;
        Ok(Memory([
            ("SUnreclaim", field("SUnreclaim")?),
            ("Percpu", field("Percpu")?),
            ("VmallocUsed", field("VmallocUsed")?),
            ("what is neither free, nor cache, nor any process's", field("MemTotal")?.saturating_sub(others)),
        ]))
    }
}

/// Where the kernel looks for leaks itself, it must find none.
fn kmemleak() -> Result<()> {
    let file = Path::new("/sys/kernel/debug/kmemleak");
    if file.exists() {
        std::fs::write(file, "scan").context("scanning for leaks")?;
        let leaks = std::fs::read_to_string(file)?;
        ensure!(leaks.is_empty(), "kmemleak found\n{leaks}");
    }
    Ok(())
}
