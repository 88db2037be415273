//! Cost of each data path by itself: kernel calls for each train or block as its page in `docs/paths` says,
//! no allocation.

use std::io::Write;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_datapath::interleaved::{self, FrameTrain};
use wirepath_datapath::rtp::{Header, Run};
use wirepath_datapath::{
    BlockSink, DataPath, Extent, Headers, LoanPolicy, LoanSwitch, MappedFile, SendContext, Train, UdpSink,
};
use wirepath_tests::{paths, trials};

use crate::{ALLOCATOR, PACKET, system_calls};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        trains_cost_the_calls_of_their_path,
        frames_cost_the_calls_of_their_path,
        blocks_cost_the_calls_of_their_path,
    ]
}

/// Packets of a train.
const PACKETS: u32 = 8;
const TRAINS: u64 = 500;

/// Headers that a path is sent with: one that can make them also sends those that are stored, in fewer calls
/// if it lends.
fn headers_of(path: DataPath) -> &'static [Headers] {
    match path {
        path if !path.makes_headers() => &[Headers::Stored],
        path if path.lends() => &[Headers::Stored, Headers::Generated],
        _ => &[Headers::Generated],
    }
}

/// Promise: Each path makes the system calls that its page lists, and no allocation.
fn trains_cost_the_calls_of_their_path() -> Result<()> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let medium = medium()?;
    // Those of a ring are shared by trains, and counted elsewhere.
    let alone = paths::streams().filter(|path| !path.needs_ring());
    for (path, headers) in alone.flat_map(|path| headers_of(path).iter().map(move |headers| (path, *headers)))
    {
        let expected = path
            .calls(&train(0, headers), headers)
            .with_context(|| format!("{path} has no row in the table"))?;
        let sink = UdpSink::new(connected(&receiver)?, PACKET as u16, path)?;
        let mut scratch = opened(path.needs_module())?;
        let cost = cost_of(TRAINS, |number| {
            let mut rest = Some(train(number, headers));
            while let Some(train) = rest {
                let sent = path.send(&sink, &medium, &train, headers, &mut scratch)?;
                rest = train.after(sent);
            }
            Ok(())
        })?;
        println!("{path}, {headers:?}: {} kernel calls for {TRAINS} trains of {PACKETS} packets", cost.calls);
        let readings = wirepath_datapath::most_readings(sink.loans().loans);
        let expected = expected.start() * TRAINS..=expected.end() * TRAINS + readings;
        ensure!(expected.contains(&cost.calls), "{path}: {} kernel calls, not {expected:?}", cost.calls);
        ensure!(cost.allocations == 0, "{path}: {} allocations", cost.allocations);
        ensure!(sink.loans().copies == 0, "{path}: {:?}", sink.loans());
    }
    Ok(())
}

/// Promise: Each path makes the system calls that its page lists, and no allocation.
fn frames_cost_the_calls_of_their_path() -> Result<()> {
    /// Number of trains that fit into a connection that nobody reads.
    const HELD: u64 = 4;
    let (medium, headers) = (medium()?, Headers::Generated);
    for path in DataPath::FRAMED.into_iter().map(Some).chain([None]) {
        let expected = match path {
            Some(path) => path.calls(&train(0, headers), headers).context("it has no row in the table")?,
            None => interleaved::calls(PACKETS)..=interleaved::calls(PACKETS),
        };
        let (near, _far) = UnixStream::pair()?;
        near.set_nonblocking(true)?;
        let mut scratch = SendContext::default();
        let cost = cost_of(HELD, |number| {
            let frames = FrameTrain { channel: 0, file: &medium, train: train(number, headers), headers };
            let taken = match path {
                Some(path) => frames.send_by(path, near.as_fd(), &mut scratch)?,
                None => frames.send(near.as_fd(), &mut scratch)?,
            };
            ensure!(taken.packets == PACKETS, "{taken:?}");
            Ok(())
        })?;
        let name = path.map_or("interleaved", DataPath::name);
        println!(
            "{name} in a connection: {} kernel calls for {HELD} trains of {PACKETS} packets",
            cost.calls
        );
        ensure!(cost.calls == expected.end() * HELD, "{name}: {} kernel calls, not {expected:?}", cost.calls);
        ensure!(cost.allocations == 0, "{name}: {} allocations", cost.allocations);
    }
    Ok(())
}

/// Promise: Each path makes the system calls that its page lists, and no allocation.
fn blocks_cost_the_calls_of_their_path() -> Result<()> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let medium = medium()?;
    for path in paths::blocks().filter(|path| !path.needs_hot_memory()) {
        let expected = path.calls(false).with_context(|| format!("{path} has no row in the table"))?;
        let sink = BlockSink::udp(connected(&receiver)?, PACKET as u16, path)?;
        let sink = sink.with_switch(LoanSwitch::new(LoanPolicy::ALWAYS));
        let mut scratch = opened(path.needs_module())?;
        let length = if path.segments() || path.takes_runs() { PACKETS as usize * PACKET } else { PACKET };
        let cost = cost_of(TRAINS, |number| {
            let extent = Extent { offset: number * length as u64, length };
            path.send(&sink, &medium, extent, &mut scratch)?;
            Ok(())
        })?;
        println!("{path}: {} kernel calls for {TRAINS} blocks", cost.calls);
        let readings = wirepath_datapath::most_readings(sink.loans().loans);
        let expected = expected.start() * TRAINS..=expected.end() * TRAINS + readings;
        ensure!(expected.contains(&cost.calls), "{path}: {} kernel calls, not {expected:?}", cost.calls);
        ensure!(cost.allocations == 0, "{path}: {} allocations", cost.allocations);
    }
    Ok(())
}

/// Room for a path, with the module's device open if it needs that: opening is none of its calls.
fn opened(needs_module: bool) -> Result<SendContext> {
    let mut scratch = SendContext::default();
    if needs_module {
        scratch.open_module()?;
    }
    Ok(scratch)
}

struct Cost {
    calls: u64,
    allocations: usize,
}

/// Cost of so many sends for the calling thread.
fn cost_of(sends: u64, mut send: impl FnMut(u64) -> Result<()>) -> Result<Cost> {
    let mut calls = system_calls(None)?;
    let (before, allocations) = (calls.read()?, ALLOCATOR.stats().allocations);
    for number in 0..sends {
        send(number)?;
    }
    let allocations = ALLOCATOR.stats().allocations - allocations;
    // The second reading of the counter is a call itself.
    Ok(Cost { calls: calls.read()? - before - 1, allocations })
}

fn connected(receiver: &UdpSocket) -> Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(receiver.local_addr()?)?;
    Ok(socket)
}

fn medium() -> Result<MappedFile> {
    let mut file = tempfile::tempfile()?;
    let length = TRAINS as usize * PACKETS as usize * PACKET;
    file.write_all(&vec![0; length])?;
    Ok(MappedFile::new(file, length as u64)?)
}

fn train(number: u64, headers: Headers) -> Train {
    let first =
        Header { padding: false, marker: false, payload_type: 33, sequence: 0, timestamp: 0, ssrc: 0 };
    let packet_size = if headers == Headers::Generated { 7 * 188 } else { PACKET as u16 };
    let length = PACKETS * u32::from(packet_size);
    let run = Run::new(first, 225 << 16);
    let offset = number * u64::from(length);
    Train { offset, length, packet_size, skip: 0, first: 0, packets_before: 0, run }
}
