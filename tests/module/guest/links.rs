//! Every call over a link whose device does more or less of the work: checksums, gathering, segmentation. The
//! receiver looks at the checksums that were made in software: a packet with a wrong one does not arrive.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::io::Errno;
use wirepath_module_tests::call::Call;
use wirepath_module_tests::content::Content;
use wirepath_module_tests::model::Outcome;
use wirepath_module_tests::random::Random;
use wirepath_sys::module::layout;
use wirepath_tests::namespace::{CLIENT, Link, SERVER};
use wirepath_tests::process::find;
use wirepath_tests::{kernel, require, trials};

use crate::bench::{Bench, From, RUN, packets};
use crate::bytes::{LENGTH, random_call};
use crate::files::Folder;
use crate::runs::check_random;
use crate::settings::{count, each_case, settings};
use crate::vectors::Sources;
use crate::wire::Wire;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        with_all_offloads,
        without_segmentation,
        without_lists,
        without_checksums,
        without_gathering,
        without_any,
        with_few_fragments,
        with_short_trains,
        with_short_packets
    ]
}

const CASES: u64 = 160;

/// Payload and header of a packet that fits the link with IPv6.
const FITS: u64 = 1500 - 40 - 8;

/// Promise: Every call works over devices without segmentation, fragment lists, checksums or scatter-gather.
fn with_all_offloads() -> Result<()> {
    over_link("links::with_all_offloads", "", true)
}

/// Promise: Every call works over devices without segmentation, fragment lists, checksums or scatter-gather.
fn without_segmentation() -> Result<()> {
    over_link("links::without_segmentation", "tx-udp-segmentation off", true)
}

/// Promise: Every call works over devices without segmentation, fragment lists, checksums or scatter-gather.
///
/// Segments are cut by the device, lists are not: of each member of a list it gets a buffer.
fn without_lists() -> Result<()> {
    over_link("links::without_lists", "tx-scatter-gather-fraglist off", true)
}

/// Promise: Every call works over devices without segmentation, fragment lists, checksums or scatter-gather.
fn without_checksums() -> Result<()> {
    over_link("links::without_checksums", "tx off", kernel::release()? >= (6, 12))
}

/// Promise: Every call works over devices without segmentation, fragment lists, checksums or scatter-gather.
fn without_gathering() -> Result<()> {
    over_link("links::without_gathering", "sg off", true)
}

/// Promise: Every call works over devices without segmentation, fragment lists, checksums or scatter-gather.
fn without_any() -> Result<()> {
    over_link("links::without_any", "tx off sg off gso off", kernel::release()? >= (6, 12))
}

/// Promise: Every call works over devices without segmentation, fragment lists, checksums or scatter-gather.
///
/// Less in a socket's buffer than the kernel was built for: what was sent by reference is copied, or leaves
/// in more trains.
fn with_few_fragments() -> Result<()> {
    let usual = std::fs::read_to_string(FRAGMENTS).context(FRAGMENTS)?;
    std::fs::write(FRAGMENTS, "5").context(FRAGMENTS)?;
    let result = over_link("links::with_few_fragments", "", true);
    std::fs::write(FRAGMENTS, usual).context(FRAGMENTS)?;
    result
}

/// Promise: Every call works over devices without segmentation, fragment lists, checksums or scatter-gather.
///
/// A train is no longer than what the device cuts: what is, the network would cut in software.
fn with_short_trains() -> Result<()> {
    let link = Link::new()?;
    let mut wires = [ipv4(&link)?, ipv6(&link)?];
    let content = Content::new(settings().seed, LENGTH);
    let file = Folder::tmpfs()?.file("plain", &content)?;
    let from = From::File(file.as_raw_fd(), &content);
    let mut bench = Bench::new()?;
    for (limit, least) in [("gso_max_segs 8", 8), ("gso_max_segs 65535 gso_max_size 5000", 16)] {
        link.server.ip(&format!("link set veth {limit}"))?;
        for wire in &mut wires {
            // The route is known from the first packet on.
            bench.check(&Call { packet_bytes: 1000, ..Call::packet(0, 1000) }, &from, wire)?;
            let call = Call { packet_bytes: 1000, train_packets: 64, ..Call::packet(0, 64_000) };
            let before = bench.request(&call, &from, wire)?;
            let answer = bench.send();
            wire.compare(packets(&Outcome::of(&call, from.end()), &content))?;
            let trains = bench.arena.take::<layout::Run>(RUN).trains - before.trains;
            ensure!(answer == Ok(()) && trains >= least, "{limit}: {answer:?} in {trains} trains");
        }
    }
    Ok(())
}

/// The most fragments that a buffer has.
const FRAGMENTS: &str = "/proc/sys/net/core/max_skb_frags";

/// Promise: Every call works over devices without segmentation, fragment lists, checksums or scatter-gather.
///
/// Packets a little longer than the link's, all in one page.
fn with_short_packets() -> Result<()> {
    let link = Link::new()?;
    let mut wires = [ipv4(&link)?, ipv6(&link)?];
    link.server.ip("link set veth mtu 1280")?;
    let content = Content::new(settings().seed, LENGTH);
    let file = Folder::tmpfs()?.file("plain", &content)?;
    let from = From::File(file.as_raw_fd(), &content);
    let mut bench = Bench::new()?;
    for wire in &mut wires {
        for copy in [false, true] {
            let call = Call { packet_bytes: 1300, train_packets: 3, copy, ..Call::packet(0, 3900) };
            refused(&mut bench, &call, &from, wire, &REFUSALS)?;
        }
    }
    Ok(())
}

/// Answers for a train of packets that exceed the link's MTU.
const REFUSALS: [Result<(), Errno>; 3] = [Err(Errno::MSGSIZE), Err(Errno::INVAL), Err(Errno::IO)];

/// Random calls, runs and vectors over IPv4 and IPv6; before Linux 6.12 a device without checksums takes no
/// trains.
fn over_link(group: &str, offloads: &str, takes_trains: bool) -> Result<()> {
    let link = Link::new()?;
    let mut wires = [ipv4(&link)?, ipv6(&link)?];
    if !offloads.is_empty() {
        require!(find("ethtool").is_some(), "ethtool is not installed");
        link.server.run(&format!("ethtool -K veth {offloads}"))?;
    }
    let content = Content::new(settings().seed, LENGTH);
    let file = Folder::ext4()?.file("plain", &content)?;
    let from = From::File(file.as_raw_fd(), &content);
    let mut bench = Bench::new()?;
    let mut vectors = Sources::new([Folder::ext4()?, Folder::tmpfs()?])?;
    for wire in &mut wires {
        too_long_for_a_train(&mut bench, &from, wire)?;
        if !takes_trains {
            no_train(&mut bench, &from, wire)?;
        }
    }
    each_case(group, CASES, |index| {
        let mut random = Random::of_case(settings().seed, index);
        let mut call = random_call(&mut random, &from);
        if !takes_trains || call.packet_asked() > FITS {
            call.train_packets = 0;
        }
        let wire = &mut wires[index as usize % 2];
        match index % 8 {
            0..=3 => bench.check(&call, &from, wire).with_context(|| format!("{call:?}")),
            4 | 5 => check_random(&mut bench, &mut random, call, &from, wire),
            _ => {
                let [packets, bytes] = vectors.check_over_udp(&mut random, wire)?;
                bench.counts.iter_mut().zip([1, packets, bytes]).for_each(|(count, more)| *count += more);
                Ok(())
            }
        }
    })?;
    let [calls, packets, bytes] = bench.counts;
    count(format!("{group}: {calls} calls, runs and vectors, {packets} packets, {bytes} bytes"));
    Ok(())
}

fn ipv4(link: &Link) -> Result<Wire> {
    let sender = link.server.enter(|| Ok(UdpSocket::bind((SERVER, 0))?))?;
    let receiver = link.client.enter(|| Ok(UdpSocket::bind((CLIENT, 0))?))?;
    Wire::between(sender, receiver, true)
}

fn ipv6(link: &Link) -> Result<Wire> {
    link.server.ip("addr add fd77::1/64 dev veth nodad")?;
    link.client.ip("addr add fd77::2/64 dev veth nodad")?;
    let sender = link.server.enter(|| Ok(UdpSocket::bind("[fd77::1]:0")?))?;
    let receiver = link.client.enter(|| Ok(UdpSocket::bind("[fd77::2]:0")?))?;
    Wire::between(sender, receiver, true)
}

/// Two packets longer than the link's: by themselves they are cut by IP, as a train they are refused.
fn too_long_for_a_train(bench: &mut Bench, from: &From<'_>, wire: &mut Wire) -> Result<()> {
    let call = Call { packet_bytes: 1500, ..Call::packet(0, 3000) };
    bench.check(&call, from, wire).context("by themselves")?;
    let call = Call { train_packets: 2, ..call };
    refused(bench, &call, from, wire, &REFUSALS).context("a train longer than the link's packets")
}

fn no_train(bench: &mut Bench, from: &From<'_>, wire: &mut Wire) -> Result<()> {
    let call = Call { packet_bytes: 1000, train_packets: 3, ..Call::packet(0, 3000) };
    refused(bench, &call, from, wire, &[Err(Errno::IO)]).context("a train without checksums")
}

fn refused(
    bench: &mut Bench,
    call: &Call,
    from: &From<'_>,
    wire: &mut Wire,
    answers: &[Result<(), Errno>],
) -> Result<()> {
    ensure!(Outcome::of(call, from.end()).packets.len() > 1, "a train has several packets");
    bench.request(call, from, wire)?;
    let answer = bench.send();
    ensure!(answers.contains(&answer), "it answered {answer:?} and none of {answers:?}");
    wire.compare(std::iter::empty())
}
