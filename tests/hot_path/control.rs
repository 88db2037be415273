//! Cost of keep-alives and receiver reports for the thread that answers requests: kernel calls, counted in a
//! server that runs as a process.

use std::thread::park_timeout;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use perf_event::Counter;
use tempfile::TempDir;
use wirepath_tests::playback::Playback;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, trials};

use super::system_calls;

/// Requests that are counted.
const REQUESTS: u64 = 200;

/// Reports that are counted, and the time over which they come.
const REPORTS: u64 = 600;
const SECONDS: f64 = 3.0;

/// Calls in a second for what else the thread does.
const BESIDES: f64 = 60.0;

pub(crate) fn trials() -> Vec<Trial> {
    trials![a_keep_alive_is_one_wait_one_read_and_one_write, reports_are_read_together]
}

/// Promise: A keep-alive over RTSP costs the server three system calls: wait, read and answer.
fn a_keep_alive_is_one_wait_one_read_and_one_write() -> Result<()> {
    let mut bed = TestBed::new()?;
    for method in ["OPTIONS", "GET_PARAMETER"] {
        let (before, limit) = (bed.calls.read()?, Deadline::seconds(60.0));
        for _ in 0..REQUESTS {
            ensure!(bed.playback.ask(method)?.status == 200, "{method} was refused");
        }
        let (made, seconds) = (bed.calls.read()? - before, 60.0 - limit.left().as_secs_f64());
        println!("{method}: {made} kernel calls for {REQUESTS} requests in {seconds:.3} s");
        let besides = (BESIDES * (seconds + 1.0)) as u64;
        ensure!(made <= 3 * REQUESTS + besides, "{made} kernel calls for {REQUESTS} requests");
    }
    Ok(())
}

/// Promise: Many receiver reports are read in one call, and wake the server a few times a second.
fn reports_are_read_together() -> Result<()> {
    let mut bed = TestBed::new()?;
    let mut report = vec![0x81, 201, 0, 7, 0, 0, 0, 1];
    report.extend(bed.playback.ssrc()?.to_be_bytes());
    report.extend([0; 20]);
    let to = (bed.server.rtsp.ip(), bed.playback.server_port(1)?).into();
    let before = bed.calls.read()?;
    let limit = Deadline::seconds(SECONDS);
    for number in 1..=REPORTS {
        bed.playback.receiver.send_rtcp(&report, to)?;
        let due = SECONDS * (1.0 - number as f64 / REPORTS as f64);
        while limit.left().as_secs_f64() > due {
            park_timeout(limit.left().saturating_sub(std::time::Duration::from_secs_f64(due)));
        }
    }
    let made = bed.calls.read()? - before;
    println!("{made} kernel calls for {REPORTS} reports in {SECONDS} s");
    Deadline::seconds(5.0).wait_for("the reports", || {
        let status = bed.server.status()?;
        let received = status["counters"]["rtsp"]["rtcp_received"].as_u64();
        Ok((received >= Some(REPORTS)).then_some(()))
    })?;
    ensure!(made < REPORTS / 2, "{made} kernel calls for {REPORTS} reports");
    Ok(())
}

/// A server, and a session that is set up and does not play.
struct TestBed {
    server: Server,
    playback: Playback,
    /// Calls of the thread that answers requests.
    calls: Counter,
    _folder: TempDir,
}

impl TestBed {
    fn new() -> Result<TestBed> {
        let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
        let server = Server::of(folder.path()).start()?;
        let playback = Playback::set_up(server.rtsp, "clip.ts")?;
        let calls = system_calls(Some(server.process.pid().cast_signed()))?;
        Ok(TestBed { server, playback, calls, _folder: folder })
    }
}
