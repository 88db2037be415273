//! Sessions by `wirepath load`.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use wirepath_tests::Deadline;
use wirepath_tests::process::Process;
use wirepath_tests::server;

use super::{Bed, FILMS, film_name};

/// Time that a run may take beside what it is asked for.
const SPARE_S: f64 = 60.0;

/// Seconds that a crowd lasts.
const CROWD_S: u64 = 300;

/// Seconds in which no further crowd begins.
const SHORTEST_S: u64 = 10;

/// Sessions that nothing may disturb.
pub(super) fn witnesses(bed: &Bed) -> Result<Value> {
    let seconds = format!("--for={}s", bed.seconds);
    load(bed, &["witness.ts".to_owned()], &["--sessions=4", "--buffer=1s", "--require=none", &seconds])
}

/// Three quarters of the sessions, with seeks; they come, go and vanish.
pub(super) fn over_udp(bed: &Bed) -> Result<()> {
    crowds(bed, bed.sessions * 3 / 4, &["--sample=2%"])
}

/// The others, over TCP.
pub(super) fn over_tcp(bed: &Bed) -> Result<()> {
    crowds(bed, bed.sessions / 4, &["--transport=tcp", "--sample=2%"])
}

/// Crowds one after the other: sessions that fail, as those of a removed asset do, are not begun again, so
/// that a single crowd would become smaller all the time.
fn crowds(bed: &Bed, sessions: u64, others: &[&str]) -> Result<()> {
    let end = Deadline::seconds(bed.seconds as f64);
    loop {
        let left_s = end.left().as_secs();
        crowd(bed, sessions.max(1), left_s.clamp(1, CROWD_S), others)?;
        if end.left().as_secs() < SHORTEST_S {
            return Ok(());
        }
    }
}

/// A crowd for so many seconds, the time in which its sessions begin included: a tenth.
fn crowd(bed: &Bed, sessions: u64, seconds: u64, others: &[&str]) -> Result<Value> {
    let ramp_s = (seconds / 10).clamp(1, 60);
    let (count, ramp, lasting) = (
        format!("--sessions={sessions}"),
        format!("--ramp={}", sessions.div_ceil(ramp_s)),
        format!("--for={}s", seconds.saturating_sub(ramp_s).max(1)),
    );
    let (seek, churn) = (
        format!("--seek-every={}s", (seconds / 6).clamp(2, 20)),
        format!("--churn={}s", (seconds / 4).clamp(3, 60)),
    );
    let mut arguments = vec![count.as_str(), &ramp, &lasting, &seek, &churn];
    arguments.extend(["--vanish=30%", "--mix=zipf:1.1", "--from=127.1.0.0/24", "--require=none"]);
    arguments.extend(others);
    let films: Vec<String> = (0..FILMS).map(film_name).collect();
    load(bed, &films, &arguments)
}

/// A run of `wirepath load`, and its result.
fn load(bed: &Bed, assets: &[String], arguments: &[&str]) -> Result<Value> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("result.json");
    let mut command = Command::new(server::binary()?);
    command.arg("load").args(assets.iter().map(|asset| bed.server.rtsp_url(asset))).args(arguments);
    command.arg("--json").arg(&file);
    let mut process = Process::start(&command, true)?;
    let status = process.wait(Deadline::seconds(bed.seconds as f64 + SPARE_S))?;
    ensure!(status.success(), "{status}: {}", process.log());
    let text = std::fs::read(&file).with_context(|| process.log())?;
    Ok(serde_json::from_slice(&text)?)
}
