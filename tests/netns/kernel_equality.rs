//! eBPF handlers in the kernel and in user space: of the same records both pass the same. The kernel runs loaded
//! programs on bytes of the test (`BPF_PROG_TEST_RUN`), so that nothing is sent.

use std::cell::RefCell;
use std::ffi::CStr;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use aya::maps::{Array, MapData, PerCpuArray};
use aya::programs::{SchedClassifier, Xdp};
use aya::{Ebpf, TestRun, TestRunOptions};
use libtest_mimic::Trial;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use wirepath_bpf::{BpfHandler, HandlerObject};
use wirepath_streams::{Common, Peek, Verdict};
use wirepath_sys::context_program::ContextProgram;
use wirepath_tests::{bpf, require, trials};

use crate::instructions;

pub(crate) fn trials() -> Vec<Trial> {
    trials![handlers_decide_alike, any_instructions_decide_alike]
}

/// Objects without a handler of records.
const OTHERS: [&str; 4] = ["denial", "rewrite", "shown", "thin"];

/// The handler that drops nothing.
const PASS: &str = "pass";

/// Records for each handler, and programs with records for each.
const RECORDS: u32 = 500;
const PROGRAMS: u32 = 200;
const RECORDS_A_PROGRAM: usize = 16;

/// Addresses of datagrams, and the input's port.
const SENDER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const INPUT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const PORT: u16 = 5004;

/// Answers of programs: for devices' drivers (`linux/bpf.h`), and for traffic control (`linux/pkt_cls.h`).
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const TC_ACT_SHOT: u32 = 2;

/// Bytes of a record that a handler sees, and the license of random programs.
const SEES: usize = 128;
const LICENSE: &CStr = c"Dual MIT/GPL";

/// Promise: Every eBPF handler decides alike in user space, in the kernel's mirror and in its early drops, and
/// changes no byte.
fn handlers_decide_alike() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (mut compared, mut others) = (0, Vec::new());
    for object in bpf::all(folder.path())? {
        let name = object.file_name().and_then(|name| name.to_str()).context("a name")?;
        let name = name.trim_end_matches(".bpf.o").to_owned();
        match HandlerObject::from_file(&object) {
            Ok(handler) => {
                compare(&name, &object, &handler).with_context(|| name.clone())?;
                compared += 1;
            }
            Err(_) => others.push(name),
        }
    }
    others.sort();
    ensure!(others == OTHERS, "these objects have no handler of records: {others:?}");
    ensure!(compared >= 4, "{compared} handlers");
    Ok(())
}

/// Compares the three places of a handler.
fn compare(name: &str, object: &Path, handler: &HandlerObject) -> Result<()> {
    let kernel = InKernel::load(object)?;
    let handler = RefCell::new(BpfHandler::new(handler, Arc::default()));
    check(RECORDS, record(), |record| {
        let passes = handler.borrow_mut().peek(&record[..record.len().min(SEES)])? == Verdict::Pass;
        let frame = frame(&record);
        let (mirrored, selected) = (kernel.mirror(&frame)?, kernel.select(&frame)?);
        ensure!(mirrored == passes, "user space: {passes}, the mirror: {mirrored}");
        ensure!(selected == passes, "user space: {passes}, early drops: {selected}");
        Ok(())
    })?;
    let [(_, passed), (_, dropped), _] = handler.borrow().report()[..] else { bail!("no reports") };
    ensure!(passed > 0 && (dropped > 0) == (name != PASS), "{passed} records passed, {dropped} dropped");
    Ok(())
}

/// Promise: Random instructions give the same verdicts in the kernel and in the interpreter of handlers.
fn any_instructions_decide_alike() -> Result<()> {
    let returns = [instructions::encoded(0xb7, 0, 0, 0, 0), instructions::EXIT].concat();
    let permitted = ContextProgram::load(&returns, LICENSE);
    let refused = |error: &std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
    require!(
        !permitted.is_err_and(|(error, _)| refused(&error)),
        "loading eBPF programs is not permitted here"
    );
    let records = prop::collection::vec(record(), RECORDS_A_PROGRAM);
    let counts = RefCell::new([0; 2]);
    check(PROGRAMS, (instructions::program(), records), |(program, records)| {
        let object = HandlerObject::from_instructions(&program).map_err(|why| anyhow!("{why}"))?;
        let mut handler = BpfHandler::new(&object, Arc::default());
        let kernel = ContextProgram::load(&program, LICENSE);
        let kernel = kernel.map_err(|(error, log)| anyhow!("the kernel refuses it: {error}\n{log}"))?;
        for record in records {
            let seen = &record[..record.len().min(SEES)];
            let passes = handler.peek(seen)? == Verdict::Pass;
            // struct wirepath_record
            let mut context = (seen.len() as u32).to_ne_bytes().to_vec();
            context.extend(seen);
            context.resize(size_of::<u32>() + SEES, 0);
            let before = context.clone();
            let value = kernel.run(&mut context)?;
            ensure!(context == before, "the kernel changed the record");
            ensure!((value != 0) == passes, "user space: {passes}, the kernel: {value}; {record:02x?}");
            counts.borrow_mut()[usize::from(passes)] += 1;
        }
        Ok(())
    })?;
    let [dropped, passed] = counts.into_inner();
    ensure!(dropped > 0 && passed > 0, "{passed} records passed, {dropped} dropped");
    Ok(())
}

/// Checks a property of so many values; a failure names the simplest value that was found.
fn check<S: Strategy>(cases: u32, values: S, test: impl Fn(S::Value) -> Result<()>) -> Result<()> {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let failed = |error: anyhow::Error| TestCaseError::fail(format!("{error:#}"));
    let result = TestRunner::new(config).run(&values, |value| test(value).map_err(failed));
    result.map_err(|error| anyhow!("{error}"))
}

/// Records of all lengths that fit a packet; many begin as RTP, and many of their numbers are at the end of a range.
fn record() -> impl Strategy<Value = Vec<u8>> {
    let edges = [0, 1, u32::MAX, i32::MAX as u32, 1 << 31].map(u32::to_le_bytes);
    let word = prop_oneof![any::<[u8; 4]>(), select(edges.to_vec())];
    let words = prop::collection::vec(word, SEES / 4);
    let length = prop_oneof![0..40_usize, 124..133_usize, 0..1_473_usize];
    let rtp = prop::option::of((0x80..0xc0_u8, any::<u8>()));
    (words, length, rtp).prop_map(|(words, length, rtp)| {
        let mut record = words.concat();
        if let Some((version, kind)) = rtp {
            (record[0], record[1]) = (version, kind);
        }
        record.resize(length, 7);
        record
    })
}

/// Frame of Ethernet with a record in a datagram, for the loopback device, whose address is zero.
fn frame(record: &[u8]) -> Vec<u8> {
    const IPV4: usize = 20;
    const UDP: usize = 8;
    let datagram = UDP + record.len();
    let mut frame = vec![0; 12];
    frame.extend([8, 0]);
    // Version and length, then the whole length; no fragment; time to live and protocol.
    frame.extend([0x45, 0]);
    frame.extend(((IPV4 + datagram) as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend(SENDER.octets());
    frame.extend(INPUT.octets());
    for number in [PORT, PORT, datagram as u16, 0] {
        frame.extend(number.to_be_bytes());
    }
    frame.extend(record);
    frame
}

/// The programs of a handler, loaded and attached to nothing.
struct InKernel {
    programs: Ebpf,
    /// Records that were mirrored and dropped, in this order (`enum wirepath_count`).
    counts: PerCpuArray<MapData, u64>,
}

impl InKernel {
    fn load(object: &Path) -> Result<InKernel> {
        let mut programs = bpf::load(object)?;
        let mirror: &mut SchedClassifier =
            programs.program_mut("wp_mirror").context("wp_mirror")?.try_into()?;
        mirror.load().context("loading wp_mirror")?;
        let select: &mut Xdp = programs.program_mut("wp_select").context("wp_select")?.try_into()?;
        select.load().context("loading wp_select")?;
        // struct wirepath_input, without receivers: nothing needs to be learned, and nothing is sent.
        let mut input = [0_u8; 12];
        input[..4].copy_from_slice(&INPUT.octets());
        input[4..6].copy_from_slice(&PORT.to_be_bytes());
        let mut inputs: Array<_, [u8; 12]> =
            Array::try_from(programs.take_map("wp_input").context("wp_input")?)?;
        inputs.set(0, input, 0)?;
        let counts = PerCpuArray::try_from(programs.take_map("wp_counts").context("wp_counts")?)?;
        Ok(InKernel { programs, counts })
    }

    /// Returns whether the mirror passes the record in a frame.
    fn mirror(&self, frame: &[u8]) -> Result<bool> {
        let program: &SchedClassifier =
            self.programs.program("wp_mirror").context("wp_mirror")?.try_into()?;
        let before = self.counts()?;
        let value = run(program, frame)?;
        ensure!(value == TC_ACT_SHOT, "the mirror leaves a record to user space: {value:#x}");
        let after = self.counts()?;
        match [after[0] - before[0], after[1] - before[1]] {
            [1, 0] => Ok(true),
            [0, 1] => Ok(false),
            other => bail!("one record is counted as {other:?}"),
        }
    }

    /// Returns whether early drops pass the record in a frame.
    fn select(&self, frame: &[u8]) -> Result<bool> {
        let program: &Xdp = self.programs.program("wp_select").context("wp_select")?.try_into()?;
        match run(program, frame)? {
            XDP_PASS => Ok(true),
            XDP_DROP => Ok(false),
            other => bail!("early drops answer {other}"),
        }
    }

    fn counts(&self) -> Result<[u64; 2]> {
        let sum = |place| anyhow::Ok(self.counts.get(&place, 0)?.iter().sum());
        Ok([sum(0)?, sum(1)?])
    }
}

/// Runs a program on a frame, which must stay as it is; returns its value.
fn run<P>(program: &P, frame: &[u8]) -> Result<u32>
where
    P: for<'a> TestRun<Opts<'a> = TestRunOptions<'a>, Result = aya::TestRunResult>,
{
    let mut after = vec![0; frame.len()];
    let options =
        TestRunOptions { data_in: Some(frame), data_out: Some(&mut after), ..TestRunOptions::new() };
    let result = program.test_run(options).context("BPF_PROG_TEST_RUN")?;
    ensure!(result.data_size_out as usize == frame.len() && after == frame, "the program changed the frame");
    Ok(result.return_value)
}
