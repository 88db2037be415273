//! Payload in large folios, of which the window has one piece that is longer than a page: XFS makes them of what
//! is written at once (Linux 6.6), and reads ahead into them. The random calls of `bytes` come across them, but
//! not on purpose: few of their calls may join pages, and their files are rarely cached before.

use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use wirepath_module_tests::call::{Call, Header};
use wirepath_module_tests::content::Content;
use wirepath_module_tests::model::Outcome;
use wirepath_module_tests::random::Random;
use wirepath_module_tests::rtp::Rtp;
use wirepath_sys::module::layout;
use wirepath_sys::page_cache::cached_pages;
use wirepath_tests::namespace::{CLIENT, Link, SERVER};
use wirepath_tests::{Deadline, kernel, trials};

use crate::bench::{Bench, From, RUN, packets};
use crate::files::Folder;
use crate::settings::{count, each_case, settings};
use crate::wire::{IPV4, Wire};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        ranges_within_a_folio,
        a_socket_that_is_full_within_a_folio,
        folios_that_are_partly_cached,
        pages_that_are_partly_cached
    ]
}

/// More than eight windows of readahead, which are 128 KiB.
const LENGTH: u64 = (1 << 20) + 12_345;

/// A header and a payload of each packet, and one boundary: 8 packets of this size fit the 17 fragments of a
/// buffer if their payload is in a large folio, and not if it is in pages, since they cross two of them.
const PACKET: u32 = 1316;
const PACKETS_OF_FOLIO: u32 = 8;

/// Time in which pages are read that are read ahead.
const READ_SECONDS: f64 = 10.0;

/// Cases of each test of random ranges.
const CASES: u64 = 150;

/// Promise: Payload in large folios is sent byte for byte, in fewer buffers.
///
/// Ranges begin and end anywhere in a folio, payloads are passed over, and packets are of all sizes, also larger
/// than a page.
fn ranges_within_a_folio() -> Result<()> {
    let bed = TestBed::new(Folder::xfs()?)?;
    let (mut bench, mut wire) = (Bench::new()?, Wire::new(IPV4, true)?);
    bed.fill()?;
    if kernel::release()? >= (6, 6) {
        bed.check_that_pages_are_joined(&mut bench, &mut wire)?;
    }
    each_case("folios::ranges_within_a_folio", CASES, |index| {
        let call = call(&mut Random::of_case(settings().seed, index));
        bench.check(&call, &bed.from(), &mut wire).with_context(|| format!("{call:?}"))
    })?;
    bed.check_references()?;
    count_of("ranges_within_a_folio", &bench);
    Ok(())
}

/// Promise: A call that a full socket ends in the middle of a folio goes on there when it is repeated.
///
/// The packets of one train wait for a neighbour, and the socket has no room for the next one.
fn a_socket_that_is_full_within_a_folio() -> Result<()> {
    let bed = TestBed::new(Folder::xfs()?)?;
    let mut bench = Bench::new()?;
    let link = Link::new()?;
    // The neighbour answers no request: the test says where it is, and forgets it.
    link.client.ip(&format!("link set veth address {NEIGHBOUR}"))?;
    link.client.ip("link set veth arp off")?;
    link.server.set("net/ipv4/neigh/veth/mcast_solicit", "1000000")?;
    let sender = link.server.enter(|| Ok(UdpSocket::bind((SERVER, 0))?))?;
    let receiver = link.client.enter(|| Ok(UdpSocket::bind((CLIENT, 0))?))?;
    let mut wire = Wire::between(sender, receiver, true)?;
    set_socket_send_buffer_size(&wire.sender, 1)?;
    let mut calls = 0;
    for (train_packets, count) in [(64, 400), (PACKETS_OF_FOLIO, 90)] {
        let length = u64::from(PACKET) * count;
        let header = Header::Given(12);
        let call = Call { packet_bytes: PACKET, train_packets, header, ..Call::packet(777, length) };
        // The first half from a cache, the other half read by the calls.
        bed.fill()?;
        bed.drop_from(777 + length / 2)?;
        calls += send_in_parts(&mut bench, &bed, &call, &link, &mut wire)
            .with_context(|| format!("trains of {train_packets}"))?;
        bed.check_references()?;
    }
    count(format!("folios: {calls} calls that a full socket ended"));
    Ok(())
}

/// Promise: Cached and absent pages of a file are sent in one call, and the module keeps none of them.
fn folios_that_are_partly_cached() -> Result<()> {
    partly_cached("folios_that_are_partly_cached", Folder::xfs()?)
}

/// Promise: Cached and absent pages of a file are sent in one call, and the module keeps none of them.
fn pages_that_are_partly_cached() -> Result<()> {
    partly_cached("pages_that_are_partly_cached", Folder::ext4()?)
}

/// Each call finds some pages in the cache, single and in folios, and folios that are marked for readahead: these
/// and absent ones come by `splice_read`, all others without it.
fn partly_cached(name: &str, folder: Folder) -> Result<()> {
    let bed = TestBed::new(folder)?;
    let (mut bench, mut wire) = (Bench::new()?, Wire::new(IPV4, true)?);
    each_case(&format!("folios::{name}"), CASES, |index| {
        let mut random = Random::of_case(settings().seed, index);
        bed.check_references()?;
        bed.read_some(&mut random)?;
        let call = call(&mut random);
        bench.check(&call, &bed.from(), &mut wire).with_context(|| format!("{call:?}"))?;
        // Behind it, where readahead has put a mark.
        let next = Call { offset: call.offset + call.length.unwrap_or(0), ..call };
        bench.check(&next, &bed.from(), &mut wire).with_context(|| format!("{next:?} behind the first"))
    })?;
    bed.check_references()?;
    count_of(name, &bench);
    Ok(())
}

fn count_of(name: &str, bench: &Bench) {
    let [calls, packets, bytes] = bench.counts;
    count(format!("folios::{name}: {calls} calls, {packets} packets, {bytes} bytes"));
}

/// Link address of the client.
const NEIGHBOUR: &str = "02:00:00:00:00:02";

/// Calls without waiting until everything is sent, each time while the neighbour is not known; compares what
/// arrives each time. Answers how many calls a full socket ended.
fn send_in_parts(bench: &mut Bench, bed: &TestBed, call: &Call, link: &Link, wire: &mut Wire) -> Result<u64> {
    let outcome = Outcome::of(call, bed.from().end());
    let mut expected = packets(&outcome, &bed.content);
    let mut run = bench.request(call, &bed.from(), wire)?;
    run.flags |= layout::DONTWAIT;
    bench.arena.put(RUN, &run);
    let mut calls = 0;
    loop {
        link.server.ip("neigh flush dev veth nud permanent")?;
        let before: layout::Run = bench.arena.take(RUN);
        let answer = bench.send();
        let after: layout::Run = bench.arena.take(RUN);
        let is_again = answer == Err(Errno::AGAIN);
        ensure!(is_again || answer.is_ok(), "it answered {answer:?}");
        if is_again {
            let answer = bench.send();
            let is_same = bench.arena.take::<layout::Run>(RUN) == after;
            ensure!(answer == Err(Errno::AGAIN) && is_same, "a full socket took more: {answer:?}");
        }
        link.server.ip(&format!("neigh replace {CLIENT} lladdr {NEIGHBOUR} dev veth nud permanent"))?;
        let sent = (after.packets - before.packets) as usize;
        wire.compare(expected.by_ref().take(sent)).with_context(|| format!("call {calls}"))?;
        if !is_again {
            break;
        }
        // Pages that are absent are read in the background: then nothing may be sent.
        calls += u64::from(sent > 0);
    }
    ensure!(expected.next().is_none(), "the last packets were not sent");
    bench.check_state(call, &outcome, &run)?;
    ensure!(calls >= 5, "a full socket ended only {calls} calls");
    Ok(calls)
}

/// A file and its content.
pub(crate) struct TestBed {
    content: Content,
    file: File,
    /// Reads of single pages, and nothing ahead.
    single: File,
    _folder: Folder,
}

impl TestBed {
    pub(crate) fn new(folder: Folder) -> Result<TestBed> {
        let content = Content::new(settings().seed, LENGTH);
        let file = folder.file("plain", &content)?;
        let single = File::open(folder.path().join("plain"))?;
        fadvise(&single, 0, None, Advice::Random)?;
        Ok(TestBed { content, file, single, _folder: folder })
    }

    pub(crate) fn from(&self) -> From<'_> {
        From::File(self.file.as_raw_fd(), &self.content)
    }

    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// Has all of it in the cache: written at once, in large folios where the file system has them.
    pub(crate) fn fill(&self) -> Result<()> {
        self.check_references()?;
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let writer = File::options().write(true).open(&path).with_context(|| path.clone())?;
        writer.write_all_at(self.content.bytes(0..LENGTH), 0).context("writing")?;
        // Dirty pages would not leave the cache.
        writer.sync_all().context("syncing")
    }

    /// Has nothing of it from `offset` on in the cache.
    fn drop_from(&self, offset: u64) -> Result<()> {
        fadvise(&self.file, offset, None, Advice::DontNeed).context("dropping pages")
    }

    /// Has nothing of it in the cache: a page whose reference the module has not returned would stay, as a page
    /// stays that is being read ahead, until it was read.
    pub(crate) fn check_references(&self) -> Result<()> {
        Deadline::seconds(READ_SECONDS).wait_for("cached pages to leave: references leak", || {
            self.drop_from(0)?;
            match cached_pages(self.file.as_fd(), 0..LENGTH) {
                Ok(kept) => Ok((kept == 0).then_some(())),
                // Before Linux 6.5, and there are no joined pages.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::NOSYS) => Ok(Some(())),
                Err(error) => Err(error).context("counting cached pages"),
            }
        })
    }

    /// Reads some of it, in single pages and with readahead.
    fn read_some(&self, random: &mut Random) -> Result<()> {
        let mut bytes = vec![0; 200_000];
        for _ in 0..random.below(6) {
            let offset = random.below(LENGTH);
            let most = random.one(&[1, 5000, 200_000]);
            let file = random.one(&[&self.file, &self.single]);
            file.read_at(&mut bytes[..most], offset).context("reading ahead")?;
        }
        Ok(())
    }

    /// All packets of each train are in one buffer, which pages would not fit.
    fn check_that_pages_are_joined(&self, bench: &mut Bench, wire: &mut Wire) -> Result<()> {
        let count = 24;
        let length = u64::from(PACKET * count);
        let header = Header::Given(12);
        // A folio of 32 KiB or more, in which they lie.
        let offset = 65_536 + 100;
        let train_packets = PACKETS_OF_FOLIO;
        let call = Call { packet_bytes: PACKET, train_packets, header, ..Call::packet(offset, length) };
        let before = bench.request(&call, &self.from(), wire)?;
        bench.check(&call, &self.from(), wire)?;
        let trains = bench.arena.take::<layout::Run>(RUN).trains - before.trains;
        let joined = u64::from(count / PACKETS_OF_FOLIO);
        ensure!(trains == joined, "{trains} buffers and not {joined}: pages were not joined");
        Ok(())
    }
}

/// A call whose packets may be a list: of many packets with headers.
fn call(random: &mut Random) -> Call {
    let packet_bytes = random.one(&[100, 188, 1000, PACKET, 1460, 4096, 5000, 9000]);
    let header = if random.once_in(2) { Header::Given(12) } else { Header::Rtp(Rtp::stepped()) };
    let skip_bytes = if random.once_in(4) { random.one(&[1, 28, 256]) } else { 0 };
    let packets = 1 + random.below(80);
    let cut = random.below(u64::from(packet_bytes));
    let length = packets * u64::from(packet_bytes + skip_bytes) - cut;
    let length = length.min(LENGTH / 2);
    let offset = random.below(LENGTH / 2);
    let train_packets = random.one(&[2, PACKETS_OF_FOLIO, 16, 64]);
    Call { packet_bytes, skip_bytes, train_packets, header, ..Call::packet(offset, length) }
}
