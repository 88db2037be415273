//! SENDFILEW, byte for byte, over UDP and over TCP, from the beginning and from where an earlier call ended.

use std::fs::File;
use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::io::Errno;
use wirepath_module_tests::content::Content;
use wirepath_module_tests::random::Random;
use wirepath_module_tests::vector::{Outcome, Part, random_parts};
use wirepath_sys::module::layout;
use wirepath_tests::namespace::{Link, Namespace};
use wirepath_tests::process::find;
use wirepath_tests::{kernel, require, trials};

use crate::bench::{ADDRESS, Bench, RUN, counter};
use crate::descriptors::Others;
use crate::files::Folder;
use crate::frames::Way;
use crate::settings::{count, each_case, settings};
use crate::stacks::both_protocols;
use crate::wire::{IPV4, IPV6, Wire, compare, sockaddr};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        over_udp,
        over_tcp,
        over_udp_of_xfs_and_overlay,
        over_tcp_of_xfs_and_overlay,
        over_udp_of_devices,
        each_field_wrong,
        each_descriptor_wrong
    ]
}

const CASES: u64 = 400;
const LENGTHS: [u64; 3] = [300_001, 100_000, 250_000];

/// Offset of parts in the arena.
const PARTS: usize = 64 << 10;

/// Two files and memory.
pub(crate) struct Sources {
    bench: Bench,
    contents: [Content; 3],
    files: [File; 2],
    folders: [Folder; 2],
}

impl Sources {
    /// With a file in each of two folders.
    pub(crate) fn new(folders: [Folder; 2]) -> Result<Sources> {
        let mut bench = Bench::new()?;
        require!(bench.has(layout::FEATURE_SENDFILEW), "this module sends no vectors");
        let seed = settings().seed;
        let contents = [0, 1, 2].map(|source| Content::new(seed + source as u64, LENGTHS[source]));
        let files = [folders[0].file("plain", &contents[0])?, folders[1].file("plain", &contents[1])?];
        bench.fill_memory(&contents[2]);
        Ok(Sources { bench, contents, files, folders })
    }

    /// Lays the request down, of which the first `sent` bytes are done.
    fn request(&mut self, parts: &[Part], socket: i32, to: &[u8], sent: u64) -> layout::Vector {
        let arena = &mut self.bench.arena;
        let memory = arena.address(arena.length() - LENGTHS[2] as usize);
        for (index, part) in parts.iter().enumerate() {
            let (file, start) = match self.files.get(part.source) {
                Some(file) => (file.as_raw_fd(), 0),
                None => (-1, memory),
            };
            let copy = if part.is_copied { layout::PART_COPY } else { 0 };
            let end = if part.is_end { layout::PART_END } else { 0 };
            let length = part.range.end - part.range.start;
            let part = layout::Part { file, flags: copy | end, offset: start + part.range.start, length };
            arena.put(PARTS + index * size_of::<layout::Part>(), &part);
        }
        arena.write(ADDRESS, to);
        let vector = layout::Vector {
            size: size_of::<layout::Vector>() as u32,
            socket,
            part_count: parts.len() as u32,
            parts: arena.address(PARTS),
            address: if to.is_empty() { 0 } else { arena.address(ADDRESS) },
            address_bytes: to.len() as u32,
            part_bytes: size_of::<layout::Part>() as u32,
            bytes: sent,
            packets: 5,
            copied_bytes: 6,
            ..layout::Vector::default()
        };
        arena.put(RUN, &vector);
        vector
    }

    fn bytes(&self, ranges: &[(usize, std::ops::Range<u64>)]) -> Vec<u8> {
        let parts: Vec<&[u8]> =
            ranges.iter().map(|(source, range)| self.contents[*source].bytes(range.clone())).collect();
        parts.concat()
    }

    /// Checks the returned structure: counts, and nothing else.
    fn check(&self, before: &layout::Vector, bytes: u64, packets: Option<u64>) -> Result<()> {
        let after: layout::Vector = self.bench.arena.take(RUN);
        let packets = packets.map_or(after.packets, |packets| before.packets + packets);
        let expected = layout::Vector { bytes, packets, copied_bytes: after.copied_bytes, ..*before };
        ensure!(after == expected, "the vector came back as\n{after:?} and not\n{expected:?}");
        let copied = after.copied_bytes - before.copied_bytes;
        ensure!(copied <= bytes - before.bytes, "{copied} bytes copied of {}", bytes - before.bytes);
        Ok(())
    }

    /// One vector, of which an earlier call may have sent some packets; answers how many packets and bytes it
    /// was.
    pub(crate) fn check_over_udp(&mut self, random: &mut Random, wire: &mut Wire) -> Result<[u64; 2]> {
        self.check_asked_over_udp(random, wire, |ask| Ok(ask()))
    }

    /// The same, where it is the caller that asks, once or more often.
    pub(crate) fn check_asked_over_udp(
        &mut self,
        random: &mut Random,
        wire: &mut Wire,
        asked: impl FnOnce(&mut dyn FnMut() -> Result<(), Errno>) -> Result<Result<(), Errno>>,
    ) -> Result<[u64; 2]> {
        let parts = random_parts(random, LENGTHS);
        let outcome = Outcome::over_udp(&parts, &LENGTHS);
        let done = random.below(3).min(outcome.packets.len() as u64) as usize;
        let sent: u64 =
            outcome.packets[..done].iter().flatten().map(|(_, range)| range.end - range.start).sum();
        let to = wire.to()?.map(sockaddr).unwrap_or_default();
        let before = self.request(&parts, wire.sender.as_raw_fd(), &to, sent);
        let answer = asked(&mut || self.bench.ask(layout::SENDFILEW, RUN).map(drop))?;
        let left = &outcome.packets[done..];
        wire.compare(left.iter().map(|ranges| self.bytes(ranges)))
            .with_context(|| format!("{parts:?} after {sent} bytes"))?;
        ensure!(answer == outcome.answer, "it answered {answer:?} and not {:?} to {parts:?}", outcome.answer);
        self.check(&before, outcome.bytes(), Some(left.len() as u64))?;
        Ok([left.len() as u64, outcome.bytes() - sent])
    }

    /// One vector, of which an earlier call may have sent some bytes; answers how many it was.
    fn check_over_tcp(&mut self, random: &mut Random, [sender, receiver]: &[TcpStream; 2]) -> Result<u64> {
        let parts = random_parts(random, LENGTHS);
        let outcome = Outcome::over_tcp(&parts, &LENGTHS);
        let all = self.bytes(&outcome.packets[0]);
        let sent = random.below(2) * random.below(all.len() as u64 + 1);
        let before = self.request(&parts, sender.as_raw_fd(), &[], sent);
        let expected = &all[sent as usize..];
        let (answer, got) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| read(receiver, expected.len()));
            let answer = self.bench.ask(layout::SENDFILEW, RUN).map(drop);
            (answer, reader.join())
        });
        let got = got.map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        compare(&got, expected).with_context(|| format!("{parts:?} after {sent} bytes"))?;
        ensure!(answer == outcome.answer, "it answered {answer:?} and not {:?} to {parts:?}", outcome.answer);
        self.check(&before, outcome.bytes(), None)?;
        Ok(expected.len() as u64)
    }
}

/// Promise: SENDFILEW sends parts in any order over UDP and TCP, and continues where it stopped.
fn over_udp() -> Result<()> {
    each_over_udp("vectors::over_udp", [Folder::ext4()?, Folder::tmpfs()?])
}

/// Promise: SENDFILEW sends parts in any order over UDP and TCP, and continues where it stopped.
fn over_udp_of_xfs_and_overlay() -> Result<()> {
    each_over_udp("vectors::over_udp_of_xfs_and_overlay", [Folder::xfs()?, Folder::overlay()?])
}

/// Random vectors of a file in each of two folders and of memory.
pub(crate) fn each_over_udp(group: &str, folders: [Folder; 2]) -> Result<()> {
    let mut sources = Sources::new(folders)?;
    let mut wires = [Wire::new(IPV4, true)?, Wire::new(IPV6, false)?];
    let mut totals = [0; 2];
    each_case(group, CASES, |index| {
        let mut random = Random::of_case(settings().seed, index);
        sources.bench.by_ring = index % 4 > 1;
        let [packets, bytes] = sources.check_over_udp(&mut random, &mut wires[index as usize % 2])?;
        totals = [totals[0] + packets, totals[1] + bytes];
        Ok(())
    })?;
    count(format!("{group}: {CASES} calls, {} packets, {} bytes", totals[0], totals[1]));
    Ok(())
}

/// Promise: SENDFILEW sends parts in any order over UDP and TCP, and continues where it stopped.
fn over_tcp() -> Result<()> {
    each_over_tcp("vectors::over_tcp", [Folder::ext4()?, Folder::tmpfs()?])
}

/// Promise: SENDFILEW sends parts in any order over UDP and TCP, and continues where it stopped.
fn over_tcp_of_xfs_and_overlay() -> Result<()> {
    each_over_tcp("vectors::over_tcp_of_xfs_and_overlay", [Folder::xfs()?, Folder::overlay()?])
}

fn each_over_tcp(group: &str, folders: [Folder; 2]) -> Result<()> {
    let mut sources = Sources::new(folders)?;
    let mut pairs = Vec::new();
    for address in [IPV4, IPV6] {
        let listener = TcpListener::bind((address, 0))?;
        pairs.push([TcpStream::connect(listener.local_addr()?)?, listener.accept()?.0]);
    }
    let mut total = 0;
    each_case(group, CASES, |index| {
        let mut random = Random::of_case(settings().seed, index);
        sources.bench.by_ring = index % 4 > 1;
        total += sources.check_over_tcp(&mut random, &pairs[index as usize % 2])?;
        Ok(())
    })?;
    count(format!("{group}: {CASES} calls, {total} bytes"));
    Ok(())
}

/// Promise: SENDFILEW sends parts in any order over UDP and TCP, and continues where it stopped.
///
/// Over a device with an MTU of 1,500 bytes, for which packets may be too long for a train: a device that
/// takes lists, that cuts segments, that does neither, and that computes no checksums. To a peer, and to an
/// address. Checks which of them leave as trains, too.
fn over_udp_of_devices() -> Result<()> {
    let group = "vectors::over_udp_of_devices";
    require!(find("ethtool").is_some(), "ethtool is not installed");
    let link = Link::new()?;
    let (near, far) = both_protocols(&link)?;
    let mut sources = Sources::new([Folder::ext4()?, Folder::tmpfs()?])?;
    let mut wires = Vec::new();
    for (near, far) in near.into_iter().zip(far) {
        wires.push(Way::new((&link.server, near), (&link.client, far))?.wire);
        let socket = |namespace: &Namespace, address| {
            namespace.enter(|| UdpSocket::bind((address, 0)).context("binding a socket"))
        };
        wires.push(Wire::between(socket(&link.server, near)?, socket(&link.client, far)?, false)?);
    }
    let mut totals = [0; 2];
    for offload in ["", "tx-scatter-gather-fraglist", "tx-udp-segmentation", "tx-checksum-ip-generic"] {
        if !offload.is_empty() {
            link.server.run(&format!("ethtool -K veth {offload} off"))?;
        }
        // Packets and trains by wire.
        let mut left = [[0; 2]; 4];
        each_case(group, CASES / 4, |index| {
            let mut random = Random::of_case(settings().seed, index);
            let (wire, before) = (index as usize % 4, counter("trains")?);
            let [packets, bytes] = sources.check_over_udp(&mut random, &mut wires[wire])?;
            left[wire] = [left[wire][0] + packets, left[wire][1] + counter("trains")? - before];
            totals = [totals[0] + packets, totals[1] + bytes];
            Ok(())
        })
        .with_context(|| format!("with {offload} off"))?;
        let sums = !offload.starts_with("tx-checksum");
        let by_lists = sums && sources.bench.has(layout::FEATURE_REFERENCES);
        let over_ipv6 = sums || kernel::release()? >= (6, 11);
        for (wire, are_trains) in [by_lists, false, over_ipv6, over_ipv6].into_iter().enumerate() {
            // A case that is repeated may have no packets of one size.
            let [packets, trains] = left[wire];
            let is_right = if are_trains { trains < packets } else { trains == packets };
            ensure!(
                is_right || settings().case.is_some(),
                "with {offload} off, wire {wire}: {packets} packets left in {trains} trains"
            );
        }
    }
    count(format!("{group}: {CASES} calls, {} packets, {} bytes", totals[0], totals[1]));
    Ok(())
}

fn read(mut receiver: &TcpStream, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    receiver.set_read_timeout(Some(std::time::Duration::from_secs(60)))?;
    receiver.read_exact(&mut bytes).context("receiving")?;
    Ok(bytes)
}

type Change = fn(&mut layout::Vector, &mut layout::Part, [u64; 2]);

/// The fault, the change that makes it, and the expected answer; addresses are one in the arena and one that
/// is not mapped.
#[rustfmt::skip]
const FIELDS: &[(&str, Change, Errno)] = &[
    ("no size", |vector, _, _| vector.size = 0, Errno::INVAL),
    ("a size below the first", |vector, _, _| vector.size = 71, Errno::INVAL),
    ("an endless size", |vector, _, _| vector.size = u32::MAX, Errno::TOOBIG),
    ("an unknown flag", |vector, _, _| vector.flags = 4, Errno::INVAL),
    ("no socket", |vector, _, _| vector.socket = -1, Errno::BADF),
    ("no parts", |vector, _, _| vector.part_count = 0, Errno::INVAL),
    ("too many parts", |vector, _, _| vector.part_count = 1025, Errno::INVAL),
    ("parts that are not there", |vector, _, [_, nowhere]| vector.parts = nowhere, Errno::FAULT),
    ("parts at 0", |vector, _, _| vector.parts = 0, Errno::FAULT),
    ("parts too small", |vector, _, _| vector.part_bytes = 16, Errno::INVAL),
    ("an address without size", |vector, _, [somewhere, _]| vector.address = somewhere, Errno::INVAL),
    ("an address that is not there", |vector, _, [_, nowhere]| (vector.address, vector.address_bytes) = (nowhere, 16), Errno::FAULT),
    ("a reserved field", |vector, _, _| vector.reserved = 1, Errno::INVAL),
    ("more sent than there is", |vector, _, _| vector.bytes = 1 << 40, Errno::INVAL),
    ("a packet sent by half", |vector, _, _| vector.bytes = 1, Errno::INVAL),
    ("a file that is not open", |_, part, _| part.file = 99_999, Errno::BADF),
    ("an unknown flag of a part", |_, part, _| part.flags = 4, Errno::INVAL),
    ("a part of a file, copied", |_, part, _| part.flags = layout::PART_COPY, Errno::INVAL),
    ("a part of nothing", |_, part, _| part.length = 0, Errno::INVAL),
    ("a part beyond numbers", |_, part, _| (part.offset, part.length) = (u64::MAX, 2), Errno::INVAL),
    ("a part beyond files", |_, part, _| part.offset = i64::MAX as u64, Errno::INVAL),
    ("a part behind the file", |_, part, _| part.offset = 1 << 30, Errno::NODATA),
    ("a part too long for a packet", |_, part, _| part.length = 65_508, Errno::MSGSIZE),
    ("memory that is not there", |_, part, [_, nowhere]| (part.file, part.offset) = (-1, nowhere), Errno::FAULT),
    ("memory to be copied that is not there", |_, part, [_, nowhere]| (part.file, part.offset, part.flags) = (-1, nowhere, 1), Errno::FAULT),
];

/// Promise: A wrong request is refused with the documented error and sends nothing.
fn each_field_wrong() -> Result<()> {
    let mut sources = Sources::new([Folder::ext4()?, Folder::tmpfs()?])?;
    let mut wire = Wire::new(IPV4, true)?;
    let right = Part { source: 0, range: 100..2000, is_copied: false, is_end: true };
    for (name, change, expected) in FIELDS {
        let mut vector = sources.request(std::slice::from_ref(&right), wire.sender.as_raw_fd(), &[], 0);
        let arena = &mut sources.bench.arena;
        let mut part = arena.take(PARTS);
        change(&mut vector, &mut part, [arena.address(PARTS), arena.address(arena.length())]);
        arena.put(RUN, &vector);
        arena.put(PARTS, &part);
        let answer = sources.bench.ask(layout::SENDFILEW, RUN).map(drop);
        ensure!(answer == Err(*expected), "{name}: it answered {answer:?} and not {expected:?}");
        ensure!(sources.bench.arena.take::<layout::Vector>(RUN) == vector, "{name}: the vector has changed");
        wire.compare(std::iter::empty()).with_context(|| (*name).to_owned())?;
    }
    count(format!("vectors::each_field_wrong: {} requests refused", FIELDS.len()));
    Ok(())
}

/// Promise: A wrong request is refused with the documented error and sends nothing.
///
/// Sockets over which no vector goes, and files that none is of.
fn each_descriptor_wrong() -> Result<()> {
    let mut sources = Sources::new([Folder::ext4()?, Folder::tmpfs()?])?;
    let mut wire = Wire::new(IPV4, true)?;
    let right = Part { source: 0, range: 100..2000, is_copied: false, is_end: true };
    let others = Others::new(sources.folders[0].path())?;
    let udp = wire.sender.as_raw_fd();
    let file = sources.files[0].as_raw_fd();
    let sockets =
        others.sockets_of_vectors().into_iter().map(|(name, socket, answer)| (name, socket, file, answer));
    let files = others.files().into_iter().map(|(name, file, answer)| (name, udp, file, answer));
    let mut refused = 0;
    for (name, socket, file, expected) in sockets.chain(files) {
        sources.request(std::slice::from_ref(&right), socket, &[], 0);
        let mut part: layout::Part = sources.bench.arena.take(PARTS);
        part.file = file;
        sources.bench.arena.put(PARTS, &part);
        let answer = sources.bench.ask(layout::SENDFILEW, RUN).map(drop);
        ensure!(answer == Err(expected), "{name}: it answered {answer:?} and not {expected:?}");
        let vector: layout::Vector = sources.bench.arena.take(RUN);
        ensure!([vector.bytes, vector.packets, vector.copied_bytes] == [0, 5, 6], "{name}: {vector:?}");
        wire.compare(std::iter::empty()).context(name)?;
        refused += 1;
    }
    count(format!("vectors::each_descriptor_wrong: {refused} descriptors refused"));
    Ok(())
}
