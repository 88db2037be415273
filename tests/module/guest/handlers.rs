//! Runs by a handler that is an eBPF program, attached as programs of users attach it.

use std::os::fd::AsRawFd;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::io::Errno;
use wirepath_bpf::{PacedHandler, PacedObject};
use wirepath_module_tests::call::{Call, Header};
use wirepath_module_tests::content::Content;
use wirepath_module_tests::model::{Outcome, Source};
use wirepath_module_tests::rtp::Rtp;
use wirepath_sys::module::{State, layout};
use wirepath_tests::{bpf, require, trials};

use crate::bench::{Bench, From, packets};
use crate::files::Folder;
use crate::folios::TestBed;
use crate::runs::{Pace, start_by};
use crate::settings::settings;
use crate::wire::{IPV4, Wire};

pub(crate) fn trials() -> Vec<Trial> {
    trials![a_handler_thins_a_run, a_handler_sees_payload_in_folios]
}

/// Payload of the runs: 200 packets of 1,000 bytes, and a shorter one.
const LENGTH: u64 = 200_500;
const PACKET: u32 = 1_000;

/// Bytes of a header of the engine.
const HEADER: usize = 12;

/// Bytes of the payload that a handler sees (WIREPATH_HANDLER_SEES).
const SHOWN: usize = 64;

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
        let (call, from) = (call(train_packets), From::File(file.as_raw_fd(), &content));
        check(&mut bench, &call, &from, &mut wire, &thinned(&call, &content))
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

/// Promise: A handler of a paced run is shown the beginning of each payload, also across pages of a large folio.
fn a_handler_sees_payload_in_folios() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let object = PacedObject::from_file(&bpf::program("shown", folder.path())?)?;
    let mut bench = Bench::new()?;
    require!(
        bench.has(layout::FEATURE_HANDLERS),
        "this module has no handlers: they need Linux 6.12 and BTF"
    );
    let _handler = PacedHandler::attach(&object, NAME)?;
    let bed = TestBed::new(Folder::xfs()?)?;
    let mut wire = Wire::new(IPV4, true)?;
    for train_packets in [0, 8, 64] {
        bed.fill()?;
        let call = Call { offset: 3_333, ..call(train_packets) };
        let sent = |(number, mut packet): (u64, Vec<u8>)| {
            let (first, last) = (packet[HEADER], packet[HEADER + SHOWN - 1]);
            let position = call.offset + number * u64::from(PACKET);
            packet[4..7].copy_from_slice(&[first, last, position as u8]);
            (first & 1 == 0).then_some(packet)
        };
        let all = packets(&Outcome::of(&call, bed.from().end()), bed.content()).collect::<Vec<_>>();
        let expected: Vec<_> = (0..).zip(all).filter_map(sent).collect();
        check(&mut bench, &call, &bed.from(), &mut wire, &expected)
            .with_context(|| format!("trains of {train_packets}"))?;
        bed.check_references()?;
    }
    Ok(())
}

/// A call of packets with headers of the engine, whose sequence numbers begin again within the run.
fn call(train_packets: u32) -> Call {
    let header = Header::Rtp(Rtp { sequence: 0xffe0, ..Rtp::stepped() });
    Call { packet_bytes: PACKET, train_packets, header, ..Call::packet(0, LENGTH) }
}

/// Every other packet, numbered anew.
fn thinned(call: &Call, content: &Content) -> Vec<Vec<u8>> {
    let outcome = Outcome::of(call, Source::File(LENGTH));
    let all: Vec<Vec<u8>> = packets(&outcome, content).collect();
    let first = u16::from_be_bytes([all[0][2], all[0][3]]);
    let sent = (0..).zip(all.into_iter().step_by(2)).map(|(number, mut packet)| {
        packet[2..4].copy_from_slice(&first.wrapping_add(number).to_be_bytes());
        packet
    });
    sent.collect()
}

/// Starts a run with the handler, and compares what arrives with `expected`.
fn check(
    bench: &mut Bench,
    call: &Call,
    from: &From<'_>,
    wire: &mut Wire,
    expected: &[Vec<u8>],
) -> Result<()> {
    let Header::Rtp(rtp) = &call.header else { unreachable!("it has headers of the engine") };
    let all = Outcome::of(call, from.end()).packets.len() as u64;
    let sent = expected.len() as u64;
    bench.request(call, from, wire)?;
    let run =
        start_by(bench, &PACE, 0, Some(NAME)).map_err(|errno| anyhow::anyhow!("it answered {errno:?}"))?;
    let status = run.wait().context("waiting")?;
    wire.compare(expected.iter().cloned())?;
    ensure!(status.state == State::Ended(Ok(())), "{status:?}");
    let counts = status.counts;
    ensure!(
        [counts.packets, counts.dropped_packets, counts.rtp_packets] == [sent, all - sent, sent],
        "{sent} of {all} packets were to be sent: {counts:?}"
    );
    // The engine numbers dropped packets, too.
    ensure!(counts.rtp_sequence == rtp.sequence.wrapping_add(all as u16), "{counts:?}");
    ensure!(counts.position == call.offset + LENGTH, "{counts:?}");
    Ok(())
}
