//! SEND, byte for byte: sizes and positions at every boundary, and random calls, from each kind of source.

use std::collections::HashSet;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_module_tests::call::{Call, Header, PACKET_MAX};
use wirepath_module_tests::content::Content;
use wirepath_module_tests::random::Random;
use wirepath_sys::module::layout;
use wirepath_tests::{require, trials};

use crate::bench::{Bench, From};
use crate::files::Folder;
use crate::settings::{count, each_case, settings};
use crate::wire::{IPV4, IPV6, Wire};

pub(crate) fn trials() -> Vec<Trial> {
    trials![of_ext4, of_tmpfs, of_huge_pages, of_overlay, of_xfs, of_memory, by_ring, of_each_size]
}

/// Seventy-three pages and a bit.
pub(crate) const LENGTH: u64 = 300_001;

/// Random calls for each kind of source.
const RANDOM_CALLS: u64 = 300;

/// Promise: SEND sends every byte of files on all supported file systems and of memory, over IPv4 and IPv6.
fn of_ext4() -> Result<()> {
    of_folder("bytes::of_ext4", &Folder::ext4()?, Bench::new()?)
}

/// Promise: SEND sends every byte of files on all supported file systems and of memory, over IPv4 and IPv6.
fn of_tmpfs() -> Result<()> {
    of_folder("bytes::of_tmpfs", &Folder::tmpfs()?, Bench::new()?)
}

/// Promise: SEND sends every byte of files on all supported file systems and of memory, over IPv4 and IPv6.
fn of_huge_pages() -> Result<()> {
    of_folder("bytes::of_huge_pages", &Folder::tmpfs_of_huge_pages()?, Bench::new()?)
}

/// Promise: SEND sends every byte of files on all supported file systems and of memory, over IPv4 and IPv6.
fn of_overlay() -> Result<()> {
    of_folder("bytes::of_overlay", &Folder::overlay()?, Bench::new()?)
}

/// Promise: SEND sends every byte of files on all supported file systems and of memory, over IPv4 and IPv6.
fn of_xfs() -> Result<()> {
    of_folder("bytes::of_xfs", &Folder::xfs()?, Bench::new()?)
}

/// Promise: SEND sends every byte of files on all supported file systems and of memory, over IPv4 and IPv6.
fn of_memory() -> Result<()> {
    let content = Content::new(settings().seed, LENGTH);
    let mut bench = Bench::new()?;
    bench.fill_memory(&content);
    of_sources("bytes::of_memory", &[From::Memory(&content)], bench)
}

/// Promise: Every call also works through an io_uring.
///
/// The same requests as commands of io_uring.
fn by_ring() -> Result<()> {
    let mut bench = Bench::new()?;
    require!(bench.has(layout::FEATURE_URING), "this module takes no commands of io_uring");
    bench.by_ring = true;
    of_folder("bytes::by_ring", &Folder::ext4()?, bench)
}

/// Of a file without holes, and of one with a hole across pages, one within a page, and one at its end.
pub(crate) fn of_folder(group: &str, folder: &Folder, bench: Bench) -> Result<()> {
    let plain = Content::new(settings().seed, LENGTH);
    let holes = plain.clone().with_hole(8191..70_001).with_hole(131_072..131_080).with_hole(290_000..LENGTH);
    let files = [folder.file("plain", &plain)?, folder.file("holes", &holes)?];
    let sources = [From::File(files[0].as_raw_fd(), &plain), From::File(files[1].as_raw_fd(), &holes)];
    of_sources(group, &sources, bench)
}

/// Each edge of each source, and random calls, over IPv4 and IPv6, to where a socket is connected and to an
/// address.
fn of_sources(group: &str, sources: &[From<'_>], mut bench: Bench) -> Result<()> {
    let mut wires = Vec::new();
    for address in [IPV4, IPV6] {
        for is_connected in [true, false] {
            wires.push((address, Wire::new(address, is_connected)?));
        }
    }
    let edges = edges();
    let of_edges = edges.len() * sources.len();
    let mut kinds = HashSet::new();
    each_case(group, of_edges as u64 + RANDOM_CALLS, |index| {
        let mut random = Random::of_case(settings().seed, index);
        let index = index as usize;
        let (call, from) = if index < of_edges {
            (edges[index / sources.len()].clone(), &sources[index % sources.len()])
        } else {
            let from = &sources[random.below(sources.len() as u64) as usize];
            (random_call(&mut random, from), from)
        };
        let which = random.below(wires.len() as u64) as usize;
        kinds.insert((std::mem::discriminant(&call.header), call.packet_bytes == 0, which));
        let (address, wire): &mut (IpAddr, Wire) = &mut wires[which];
        bench.check(&call, from, wire).with_context(|| format!("{call:?} over {address}"))
    })?;
    let all = HEADER_KINDS * 2 * wires.len();
    ensure!(
        settings().case.is_some() || kinds.len() == all,
        "of {all} kinds of calls only {} were made",
        kinds.len()
    );
    let [calls, packets, bytes] = bench.counts;
    count(format!("{group}: {calls} calls of {} kinds, {packets} packets, {bytes} bytes", kinds.len()));
    Ok(())
}

/// None, given ones, and those of the RTP engine; each before one packet and before the packets of a run.
const HEADER_KINDS: usize = 3;

/// Promise: SEND sends every byte of files on all supported file systems and of memory, over IPv4 and IPv6.
///
/// A packet of each size, from a file and from memory, wherever it lies: up to more than a page, and around
/// all boundaries after that; with `--all` of every size there is.
fn of_each_size() -> Result<()> {
    let content = Content::new(settings().seed, LENGTH);
    let file = Folder::ext4()?.file("plain", &content)?;
    let mut bench = Bench::new()?;
    bench.fill_memory(&content);
    let sources = [From::File(file.as_raw_fd(), &content), From::Memory(&content)];
    let mut wires = [Wire::new(IPV4, true)?, Wire::new(IPV6, true)?];
    let is_asked_for = settings().all || settings().case.is_some();
    let is_tried = |size: u64| is_asked_for || size <= 4200 || (size + 3) % 1024 < 7 || size + 5 > PACKET_MAX;
    each_case("bytes::of_each_size", PACKET_MAX + 1, |index| {
        let size = index + 1;
        if !is_tried(size) {
            return Ok(());
        }
        let header = if size > 12 && size % 3 == 0 { Header::Given(12) } else { Header::None };
        let offset = size * 4099 % (LENGTH - PACKET_MAX);
        let mut call = Call { header, copy: size % 5 == 0, ..Call::packet(offset, size) };
        call.length = Some(size - call.header_bytes());
        let wire = &mut wires[(size / 2) as usize % 2];
        sources
            .iter()
            .try_for_each(|from| bench.check(&call, from, wire))
            .with_context(|| format!("{call:?}"))
    })?;
    let [calls, packets, bytes] = bench.counts;
    count(format!("bytes::of_each_size: {calls} calls, {packets} packets, {bytes} bytes"));
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
