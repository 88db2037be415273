//! Twice the clients that fit: those that are admitted stay timely, and afterwards all is as before.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::Value;
use wirepath_tests::playback::Playback;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, trials};

use crate::load::Run;

/// One thread, of which sessions may take so little that at most 80 fit, and their receivers fit beside them.
const LITTLE_TIME: [&str; 6] = ["--admission", "measured", "--threads", "1", "--reserve", "99.6%"];

/// Bounds of how many sessions are taken to fit.
const FIT: std::ops::RangeInclusive<u64> = 4..=150;

/// Threads for blocking work end when they had none for ten seconds (tokio's default).
const THREADS_END_S: f64 = 20.0;

/// Least memory of a thousand sessions.
const MUCH_KIB: u64 = 4 << 10;

/// This loads the machine and judges times.
pub(crate) fn alone() -> Vec<Trial> {
    trials![twice_the_clients_that_fit_disturb_nobody, memory_of_sessions_goes_back]
}

/// Promise: With twice the tens of clients that fit, admitted ones stay timely and others get 453; the server recovers.
fn twice_the_clients_that_fit_disturb_nobody() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(20)?)])?;
    let server = Server::of(folder.path()).with(LITTLE_TIME).packed().start()?;
    let url = server.rtsp_url("clip.ts");
    Playback::set_up(server.rtsp, "clip.ts")?.play(None)?;
    let before = settled(&server)?;
    // What a session costs is known when some have played.
    ensure_served(&server, &url)?;
    let mut asked = 2 * capacity(&server)?.clamp(*FIT.start(), *FIT.end());
    let run = loop {
        idle(&server)?;
        let run = load(&url, asked, "--require=none")?;
        // The more sessions, the longer the bursts, and the less each costs.
        if refused(&run.json) > 0 || asked > 4 * FIT.end() {
            break run;
        }
        asked *= 2;
    };
    let (sessions, refused) = (&run.json["sessions"], refused(&run.json));
    let count = |name: &str| sessions[name].as_u64().with_context(|| format!("no {name} in {sessions}"));
    let (timely, failed) = (count("timely")?, count("failed")?);
    let admitted = count("started")? - failed;
    println!("overload: of {asked} sessions {admitted} were admitted and {timely} timely, {refused} refused");
    ensure!(admitted > 0 && timely == admitted && refused > 0, "{sessions}: {}", run.json["media"]);
    ensure!(failed == refused, "sessions failed for other reasons: {}", run.json["failures"]);
    ensure!(run.json["media"]["lost"] == 0, "{}", run.json["media"]);

    idle(&server)?;
    let now = || Ok((server.descriptors()?, server.threads()?));
    let as_before = Deadline::seconds(THREADS_END_S).wait_for("descriptors and threads as before", || {
        now().map(|now: (usize, u64)| (now.0 <= before.0 && now.1 <= before.1).then_some(()))
    });
    as_before.with_context(|| format!("before {before:?}, now {:?}", now()))?;
    ensure_served(&server, &url)
}

/// Promise: Memory of sessions goes back to the system some seconds after they have ended.
fn memory_of_sessions_goes_back() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(20)?)])?;
    let limits = ["--max-sessions-per-address", "1000", "--max-connections-per-address", "1100"];
    let server = Server::of(folder.path()).with(limits).packed().start()?;
    let url = server.rtsp_url("clip.ts");
    let arguments = |sessions: &'static str| {
        [url.as_str(), sessions, "--ramp=250", "--for=2s", "--sample=0%", "--require=none"]
    };
    Run::of(&arguments("--sessions=10"))?;
    idle(&server)?;
    let before = server.anonymous_kib()?;
    let mut most = before;
    std::thread::scope(|scope| {
        let load = scope.spawn(|| Run::of(&arguments("--sessions=1000")));
        while !load.is_finished() {
            most = most.max(server.anonymous_kib()?);
            std::thread::sleep(Duration::from_millis(50));
        }
        load.join().expect("it does not panic").map(drop)
    })?;
    ensure!(most > before + MUCH_KIB, "{before} KiB before, {most} KiB at most");
    let now = || server.anonymous_kib();
    let as_before = Deadline::seconds(30.0)
        .wait_for("memory as before", || Ok((now()? < before + (most - before) / 2).then_some(())));
    as_before.with_context(|| format!("{before} KiB before, {most} KiB at most, now {:?}", now()))
}

/// A new client is admitted and timely, as soon as a measurement finds time for it: so little is left to
/// sessions here that another program can take it.
fn ensure_served(server: &Server, url: &str) -> Result<()> {
    Deadline::seconds(40.0).wait_for("a timely session", || {
        idle(server)?;
        let run = load(url, 1, "--require=none")?;
        Ok((run.json["sessions"]["timely"] == 1).then_some(()))
    })
}

/// Sessions that come within two seconds and play for four more.
fn load(url: &str, sessions: u64, require: &str) -> Result<Run> {
    let (sessions, ramp) = (format!("--sessions={sessions}"), format!("--ramp={}", sessions.div_ceil(2)));
    Run::of(&[url, &sessions, &ramp, "--for=4s", "--buffer=1s", require])
}

fn refused(json: &Value) -> u64 {
    json["failures"]["SETUP was refused: 453 Not Enough Bandwidth"].as_u64().unwrap_or(0)
}

fn capacity(server: &Server) -> Result<u64> {
    let capacity = &server.status()?["capacity"];
    capacity["sessions"].as_u64().with_context(|| format!("no sessions in {capacity}"))
}

fn idle(server: &Server) -> Result<()> {
    Deadline::seconds(20.0).wait_for("no session", || Ok((server.sessions()? == 0).then_some(())))
}

fn settled(server: &Server) -> Result<(usize, u64)> {
    idle(server)?;
    Ok((server.descriptors()?, server.threads()?))
}
