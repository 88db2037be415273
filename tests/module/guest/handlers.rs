//! Runs by a handler that is an eBPF program, attached as programs of users attach it.

use std::os::fd::AsRawFd;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::io::Errno;
use wirepath_bpf::{PacedHandler, PacedObject};
use wirepath_module_tests::call::{Call, Header};
use wirepath_module_tests::content::Content;
use wirepath_module_tests::model::{Outcome, Source};
use wirepath_module_tests::rtp::{Rtp, Timestamps};
use wirepath_sys::module::{State, layout};
use wirepath_tests::{bpf, require, trials};

use crate::bench::{Bench, From, packets};
use crate::files::Folder;
use crate::runs::{Pace, start_by};
use crate::settings::settings;
use crate::wire::{IPV4, Wire};

pub(crate) fn trials() -> Vec<Trial> {
    trials![a_handler_thins_a_run]
}

/// Payload of the runs: 200 packets of 1,000 bytes, and a shorter one.
const LENGTH: u64 = 200_500;
const PACKET: u32 = 1_000;

/// Name of the handler, and of none.
const NAME: &str = "thin";
const OTHER: &str = "thick";

/// Fast enough that trains of many packets are due at once.
const PACE: Pace = Pace::Rate(100_000_000);

/// Promise: A paced run drops what its eBPF handler drops, and sends the headers that the handler writes.
fn a_handler_thins_a_run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let object = PacedObject::from_file(&bpf::handler("thin", folder.path())?)?;
    let mut bench = Bench::new()?;
    let handler = PacedHandler::attach(&object, NAME);
    if !bench.has(layout::FEATURE_HANDLERS) {
        ensure!(handler.is_err(), "a module without handlers takes one");
        require!(false, "this module has no handlers: they need Linux 6.12 and BTF");
    }
    let handler = handler?;
    let again = PacedHandler::attach(&object, NAME).err().context("a name is taken twice")?.to_string();
    ensure!(again.contains("File exists"), "{again}");

    let content = Content::new(settings().seed, LENGTH);
    let file = Folder::ext4()?.file("plain", &content)?;
    let mut wire = Wire::new(IPV4, true)?;
    for train_packets in [0, 64] {
        check(&mut bench, &content, file.as_raw_fd(), &mut wire, train_packets)
            .with_context(|| format!("trains of {train_packets}"))?;
    }

    bench.request(&call(0), &From::File(file.as_raw_fd(), &content), &wire)?;
    for (name, is_attached) in [(OTHER, false), (NAME, true)] {
        let answer = start_by(&mut bench, &PACE, 0, Some(name)).map(drop);
        let expected = if is_attached { Ok(()) } else { Err(Errno::NOENT) };
        ensure!(answer == expected, "{name}: it answered {answer:?}");
    }
    drop(handler);
    let answer = start_by(&mut bench, &PACE, 0, Some(NAME)).map(drop);
    ensure!(answer == Err(Errno::NOENT), "a handler that was dropped stays attached: {answer:?}");
    Ok(())
}

/// A call of packets with headers of the engine, whose sequence numbers begin again within the run.
fn call(train_packets: u32) -> Call {
    let rtp = Rtp {
        ssrc: 0x1234_5678,
        sequence: 0xffe0,
        payload_type: 33,
        marker: layout::MARKER_NEVER,
        position: 0,
        packets: 0,
        octets: 0,
        timestamps: Timestamps::Step(5, 90, 1),
    };
    Call { packet_bytes: PACKET, train_packets, header: Header::Rtp(rtp), ..Call::packet(0, LENGTH) }
}

/// Starts a run with the handler, and compares what arrives with every other packet, numbered anew.
fn check(bench: &mut Bench, content: &Content, file: i32, wire: &mut Wire, train_packets: u32) -> Result<()> {
    let call = call(train_packets);
    let Header::Rtp(rtp) = &call.header else { unreachable!("it has headers of the engine") };
    let outcome = Outcome::of(&call, Source::File(LENGTH));
    let all: Vec<Vec<u8>> = packets(&outcome, content).collect();
    let thinned: Vec<Vec<u8>> = (0..)
        .zip(all.iter().step_by(2))
        .map(|(number, packet)| {
            let mut packet = packet.clone();
            packet[2..4].copy_from_slice(&rtp.sequence.wrapping_add(number).to_be_bytes());
            packet
        })
        .collect();
    let sent = thinned.len() as u64;
    bench.request(&call, &From::File(file, content), wire)?;
    let run =
        start_by(bench, &PACE, 0, Some(NAME)).map_err(|errno| anyhow::anyhow!("it answered {errno:?}"))?;
    let status = run.wait().context("waiting")?;
    wire.compare(thinned.into_iter())?;
    ensure!(status.state == State::Ended(Ok(())), "{status:?}");
    let counts = status.counts;
    ensure!(
        [counts.packets, counts.dropped_packets, counts.rtp_packets] == [sent, all.len() as u64 - sent, sent],
        "{sent} of {} packets were to be sent: {counts:?}",
        all.len()
    );
    // The engine numbers dropped packets, too.
    ensure!(counts.rtp_sequence == rtp.sequence.wrapping_add(all.len() as u16), "{counts:?}");
    ensure!(counts.position == LENGTH, "{counts:?}");
    Ok(())
}
