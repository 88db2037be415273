//! What each data path costs by itself: kernel calls for each train or block as its page in `docs/paths` says, no allocation.

use std::io::Write;
use std::net::UdpSocket;
use std::ops::RangeInclusive;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use wirepath_streams::datapath::rtp::{Header, Run};
use wirepath_streams::datapath::{
    BlockPath, BlockSink, Extent, Headers, LoanPolicy, LoanSwitch, Medium, Path, Scratch, Train, UdpSink,
};
use wirepath_tests::trials;

use crate::{ALLOCATOR, PACKET, system_calls};

pub(crate) fn trials() -> Vec<Trial> {
    trials![trains_cost_the_calls_of_their_path, blocks_cost_the_calls_of_their_path]
}

/// Packets of a train.
const PACKETS: u32 = 8;
const TRAINS: u64 = 500;

/// Kernel calls for a train of eight packets. (Those of a ring are shared by trains, and counted elsewhere.)
const TRAIN_CALLS: [(Path, Headers, RangeInclusive<u64>); 10] = [
    (Path::WireSendfile, Headers::Stored, 1..=1),
    (Path::GsoWritev, Headers::Generated, 1..=1),
    (Path::GsoZerocopy, Headers::Stored, 1..=1),
    (Path::GsoZerocopy, Headers::Generated, 1..=2), // seven or eight at a time
    (Path::Sendmmsg, Headers::Generated, 1..=1),
    (Path::MmapWritev, Headers::Generated, 8..=8),
    (Path::ReadSendRtp, Headers::Generated, 16..=16),
    (Path::ReadWritev, Headers::Generated, 16..=16),
    (Path::MmapSendRtp, Headers::Generated, 16..=16),
    (Path::RtpSendfile, Headers::Generated, 16..=16),
];

/// Kernel calls for a block.
const BLOCK_CALLS: [(BlockPath, u64); 5] = [
    (BlockPath::MmapZerocopy, 1),
    (BlockPath::Loan, 1),
    (BlockPath::Sendfile, 1),
    (BlockPath::MmapSend, 1),
    (BlockPath::ReadWrite, 2),
];

/// A path that lends reads the error queue once for so many loans.
const LOANS_FOR_A_READING: u64 = 32;

fn trains_cost_the_calls_of_their_path() -> Result<()> {
    for path in Path::ALL.into_iter().filter(|path| !path.needs_hot_memory()) {
        ensure!(TRAIN_CALLS.iter().any(|row| row.0 == path), "{path} has no row in the table");
    }
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let medium = medium()?;
    for (path, headers, expected) in TRAIN_CALLS {
        let sink = UdpSink::new(connected(&receiver)?, PACKET as u16, path)?;
        let mut scratch = Scratch::default();
        let cost = cost_of(|number| {
            let mut rest = Some(train(number, headers));
            while let Some(train) = rest {
                let sent = path.send(&sink, &medium, &train, headers, &mut scratch)?;
                rest = train.after(sent);
            }
            Ok(())
        })?;
        println!("{path}, {headers:?}: {} kernel calls for {TRAINS} trains of {PACKETS} packets", cost.calls);
        let readings = sink.loans().loans / LOANS_FOR_A_READING;
        let expected = expected.start() * TRAINS..=expected.end() * TRAINS + readings;
        ensure!(expected.contains(&cost.calls), "{path}: {} kernel calls, not {expected:?}", cost.calls);
        ensure!(cost.allocations == 0, "{path}: {} allocations", cost.allocations);
        ensure!(sink.loans().copies == 0, "{path}: {:?}", sink.loans());
    }
    Ok(())
}

fn blocks_cost_the_calls_of_their_path() -> Result<()> {
    for path in BlockPath::ALL.into_iter().filter(|path| !path.needs_hot_memory()) {
        ensure!(BLOCK_CALLS.iter().any(|row| row.0 == path), "{path} has no row in the table");
    }
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let medium = medium()?;
    for (path, expected) in BLOCK_CALLS {
        let sink = BlockSink::udp(connected(&receiver)?, PACKET as u16, path)?;
        let sink = sink.with_switch(LoanSwitch::new(LoanPolicy::ALWAYS));
        let mut scratch = Scratch::default();
        let length = if path.segments() { PACKETS as usize * PACKET } else { PACKET };
        let cost = cost_of(|number| {
            let extent = Extent { offset: number * length as u64, length };
            path.send(&sink, &medium, extent, &mut scratch)?;
            Ok(())
        })?;
        println!("{path}: {} kernel calls for {TRAINS} blocks", cost.calls);
        let readings = sink.loans().loans / LOANS_FOR_A_READING;
        let expected = expected * TRAINS..=expected * TRAINS + readings;
        ensure!(expected.contains(&cost.calls), "{path}: {} kernel calls, not {expected:?}", cost.calls);
        ensure!(cost.allocations == 0, "{path}: {} allocations", cost.allocations);
    }
    Ok(())
}

struct Cost {
    calls: u64,
    allocations: usize,
}

/// What the calling thread pays for so many sends.
fn cost_of(mut send: impl FnMut(u64) -> Result<()>) -> Result<Cost> {
    let mut calls = system_calls(None)?;
    let (before, allocations) = (calls.read()?, ALLOCATOR.stats().allocations);
    for number in 0..TRAINS {
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

fn medium() -> Result<Medium> {
    let mut file = tempfile::tempfile()?;
    let length = TRAINS as usize * PACKETS as usize * PACKET;
    file.write_all(&vec![0; length])?;
    Ok(Medium::new(file, length as u64)?)
}

fn train(number: u64, headers: Headers) -> Train {
    let first = Header { marker: false, payload_type: 33, sequence: 0, timestamp: 0, ssrc: 0 };
    let packet_size = if headers == Headers::Generated { 7 * 188 } else { PACKET as u16 };
    let length = PACKETS * u32::from(packet_size);
    let run = Run { first, step: 225 << 16 };
    Train { offset: number * u64::from(length), length, packet_size, skip: 0, first: 0, run }
}
