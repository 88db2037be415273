//! The memory that a server has for its sessions.
//!
//!     wirepath load 127.1.0.0/24 ──RTSP, UDP──► server 127.0.0.1

use std::process::Command;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::process::{Process, status_number};
use wirepath_tests::server::{self, Server};
use wirepath_tests::{Deadline, clips, trials};

use crate::packing::metric;

/// Alone: what else keeps the machine busy has threads begin meanwhile.
pub(crate) fn alone() -> Vec<Trial> {
    trials![a_session_takes_little_memory]
}

/// Sessions that begin at a time.
const STEP: usize = 300;

/// Steps after the first.
const STEPS: usize = 3;

/// The goal is 4 KiB; the rest is for threads that begin meanwhile, and for tables that have just doubled.
const MOST_BYTES: u64 = 5 << 10;

/// Promise: A further session over UDP takes at most 5 KiB of the server's own memory.
///
/// Memory that is taken once, as by calibrating, is in one of the steps: the least counts.
fn a_session_takes_little_memory() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(60)?)])?;
    let server = Server::of(folder.path()).with(["--hot-memory=0", "--burst=500ms"]).packed().start()?;
    let (mut clients, mut taken_kib) = (Vec::new(), Vec::new());
    for step in 0..=STEPS {
        clients.push(load(&server, STEP, &format!("127.1.{step}.0/24"))?);
        taken_kib.push(memory_kib(&server, STEP * (step + 1))?);
    }
    let growth = taken_kib.windows(2).map(|pair| (pair[1].saturating_sub(pair[0]) << 10) / STEP as u64);
    let bytes = growth.min().unwrap_or_default();
    println!("{taken_kib:?} KiB: {bytes} bytes a session");
    ensure!(bytes > 1 << 10, "{taken_kib:?} KiB: sessions that take nothing do not play");
    ensure!(bytes <= MOST_BYTES, "{taken_kib:?} KiB: {bytes} bytes a session");
    Ok(())
}

/// Sessions that play, from these addresses.
fn load(server: &Server, sessions: usize, from: &str) -> Result<Process> {
    let mut command = Command::new(server::binary()?);
    command.args(["load", &server.rtsp_url("clip.ts"), "--sessions", &sessions.to_string(), "--from", from]);
    command.args(["--ramp=200", "--for=120s", "--sample=0%", "--require=none"]);
    Process::start(&command, true)
}

/// Anonymous memory of the server once so many sessions play and have had a sender report. `/api/status` would tell of
/// each, which takes memory.
fn memory_kib(server: &Server, sessions: usize) -> Result<u64> {
    let sessions = sessions as u64;
    Deadline::seconds(60.0).wait_for("all sessions to play", || {
        let playing = metric(server, "wirepath_playback_playing")?;
        let reports = metric(server, "wirepath_rtsp_sender_reports_total")?;
        Ok((playing == sessions && reports >= sessions).then_some(()))
    })?;
    status_number(server.process.pid(), "RssAnon")
}
