//! SEND, byte for byte: sizes and positions at every boundary, and random calls, from each kind of source.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};
use libtest_mimic::Trial;
use wirepath_module_tests::call::{Call, Header};
use wirepath_module_tests::content::Content;
use wirepath_module_tests::random::Random;
use wirepath_sys::module::layout;
use wirepath_tests::{require, trials};

use crate::bench::{Bench, From};
use crate::files::Folder;
use crate::settings::{count, each_case, settings};
use crate::wire::{IPV4, IPV6, Wire};

pub(crate) fn trials() -> Vec<Trial> {
    trials![of_ext4, of_tmpfs, of_huge_pages, of_overlay, of_xfs, of_holes, of_memory, by_ring]
}

/// Seventy-three pages and a bit.
pub(crate) const LENGTH: u64 = 300_001;

/// Random calls for each source.
const RANDOM_CALLS: u64 = 300;

fn of_ext4() -> Result<()> {
    of_folder("bytes::of_ext4", Folder::ext4()?)
}

fn of_tmpfs() -> Result<()> {
    of_folder("bytes::of_tmpfs", Folder::tmpfs()?)
}

fn of_huge_pages() -> Result<()> {
    of_folder("bytes::of_huge_pages", Folder::tmpfs_of_huge_pages()?)
}

fn of_overlay() -> Result<()> {
    of_folder("bytes::of_overlay", Folder::overlay()?)
}

fn of_xfs() -> Result<()> {
    of_folder("bytes::of_xfs", Folder::xfs()?)
}

/// Content with a hole across pages, one within a page, and one at its end.
fn of_holes() -> Result<()> {
    let folder = Folder::ext4()?;
    let content = Content::new(settings().seed, LENGTH);
    let content = content.with_hole(8191..70_001).with_hole(131_072..131_080).with_hole(290_000..LENGTH);
    let file = folder.file("holes", &content)?;
    of_source("bytes::of_holes", &From::File(file.as_raw_fd(), &content), Bench::new()?)
}

fn of_memory() -> Result<()> {
    let content = Content::new(settings().seed, LENGTH);
    let mut bench = Bench::new()?;
    bench.fill_memory(&content);
    of_source("bytes::of_memory", &From::Memory(&content), bench)
}

/// The same requests as commands of io_uring.
fn by_ring() -> Result<()> {
    let mut bench = Bench::new()?;
    require!(bench.has(layout::FEATURE_URING), "this module takes no commands of io_uring");
    bench.by_ring = true;
    let content = Content::new(settings().seed, LENGTH);
    let file = Folder::ext4()?.file("plain", &content)?;
    of_source("bytes::by_ring", &From::File(file.as_raw_fd(), &content), bench)
}

fn of_folder(group: &str, folder: Folder) -> Result<()> {
    let content = Content::new(settings().seed, LENGTH);
    let file: File = folder.file("plain", &content)?;
    of_source(group, &From::File(file.as_raw_fd(), &content), Bench::new()?)
}

fn of_source(group: &str, from: &From<'_>, mut bench: Bench) -> Result<()> {
    let mut wires = Vec::new();
    for address in [IPV4, IPV6] {
        for is_connected in [true, false] {
            wires.push((address, Wire::new(address, is_connected)?));
        }
    }
    let edges = edges();
    each_case(group, edges.len() as u64 + RANDOM_CALLS, |index| {
        let mut random = Random::of_case(settings().seed, index);
        let call = match edges.get(index as usize) {
            Some(call) => call.clone(),
            None => random_call(&mut random, from),
        };
        let which = random.below(wires.len() as u64) as usize;
        let (address, wire): &mut (IpAddr, Wire) = &mut wires[which];
        bench.check(&call, from, wire).with_context(|| format!("{call:?} over {address}"))
    })?;
    let [calls, packets, bytes] = bench.counts;
    count(format!("{group}: {calls} calls, {packets} packets, {bytes} bytes"));
    Ok(())
}

pub(crate) fn random_call(random: &mut Random, from: &From<'_>) -> Call {
    let mut call = Call::random(random, LENGTH);
    if random.once_in(2) {
        call.train_packets = random.below(65) as u32;
    }
    if matches!(from, From::Memory(_)) && call.length.is_none() {
        call.length = Some(LENGTH - call.offset);
    }
    call
}

/// One packet of each size that is next to a boundary, from each such position.
fn edges() -> Vec<Call> {
    let sizes =
        [1, 2, 3, 15, 16, 17, 1316, 1387, 1388, 1472, 4095, 4096, 4097, 8192, 16_385, 65_495, 65_507, 65_508];
    let offsets = [0, 1, 4095, 4096, 65_537, LENGTH - 1, LENGTH];
    let mut calls = Vec::new();
    for size in sizes {
        for offset in offsets {
            let header = [Header::None, Header::Given(12), Header::Given(1)][calls.len() % 3].clone();
            calls.push(Call { header, ..Call::packet(offset, size) });
        }
    }
    calls
}
