//! Sessions beyond what the processor can send in time.

use std::collections::HashMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use wirepath_tests::playback::{self, Playback};
use wirepath_tests::process::{self, Process};
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::{Server, binary, calibration};
use wirepath_tests::{Deadline, clips, trials};

/// A thread's time for 21 sessions, before the cost of any was measured.
const TIME_OF_21: [&str; 6] = ["--admission", "measured", "--threads", "1", "--reserve", "99.8925%"];

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        sessions_beyond_the_capacity_are_refused_and_the_others_play_on,
        no_time_for_sessions_is_no_session,
        without_admission_by_measurement_nobody_is_refused,
        sessions_beyond_the_rate_are_refused,
        the_first_cost_is_that_of_the_calibration,
        downloads_are_refused_while_sessions_are_late,
        a_session_that_plays_alone_does_not_keep_many_out,
        requests_yield_to_sessions_that_play,
    ]
}

/// Promise: A session is refused if no processor time is left for it; the playing sessions continue.
fn sessions_beyond_the_capacity_are_refused_and_the_others_play_on() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(4)?)])?;
    let server = Server::of(folder.path()).with(TIME_OF_21).start()?;
    let mut first = Playback::set_up(server.rtsp, "clip.ts")?;
    let mut clients = Vec::new();
    for number in 2..=21 {
        let (client, status) = set_up(&server)?;
        ensure!(status == 200, "SETUP of session {number} is answered with {status}");
        clients.push(client);
    }
    let (_, status) = set_up(&server)?;
    ensure!(status == 453, "SETUP of session 22 is answered with {status}");
    first.play(None)?;
    first.receiver.to_the_end(Deadline::seconds(20.0))?;
    let capacity = &server.status()?["capacity"];
    ensure!(capacity["sessions"].as_u64().is_some_and(|sessions| sessions <= 21), "{capacity}");

    drop((first, clients));
    Deadline::seconds(20.0).wait_for("room for another session", || {
        let (_, status) = set_up(&server)?;
        Ok((status == 200).then_some(()))
    })
}

/// Promise: On a busy processor, sessions that play go before RTSP and HTTP requests: their threads are at nice 0 and 5.
fn requests_yield_to_sessions_that_play() -> Result<()> {
    let folder = process::open_folder()?;
    let server = Server::of(folder.path()).with(["--threads", "1"]).start()?;
    let requests = std::fs::read_to_string(format!("/proc/{}/comm", server.process.pid()))?;
    // Threads set their names and niceness themselves, some time after the server says that it is ready.
    Deadline::seconds(10.0).wait_for("requests at 5 above the niceness of sessions", || {
        let nice = niceness_of_threads(server.process.pid())?;
        let Some(sessions) = nice.get("engine-0") else { return Ok(None) };
        let lower = (sessions + 5).min(19);
        let is_lower = |name: &str| nice.get(name) == Some(&lower);
        Ok((is_lower(requests.trim()) && is_lower("http-0")).then_some(()))
    })
}

/// Niceness of a process's threads by their names.
fn niceness_of_threads(pid: u32) -> Result<HashMap<String, i32>> {
    let mut nice = HashMap::new();
    for text in process::of_threads(pid, "stat")? {
        // proc(5): the name is in parentheses; niceness is field 19.
        let (before, after) = text.rsplit_once(") ").context("no name of a thread")?;
        let (_, name) = before.split_once('(').context("no name of a thread")?;
        let value: i32 = after.split(' ').nth(16).context("no niceness")?.parse()?;
        nice.insert(name.to_owned(), value);
    }
    Ok(nice)
}

fn no_time_for_sessions_is_no_session() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
    let server = Server::of(folder.path()).with(["--admission", "measured", "--reserve", "100%"]).start()?;
    let (_, status) = set_up(&server)?;
    ensure!(status == 453, "SETUP is answered with {status}");
    let got = wirepath_tests::http::get(server.http, "/clip.ts")?;
    ensure!(got.status == 200, "a download is answered with {}", got.status);
    Ok(())
}

/// Promise: `--admission off` refuses no session by measurement; together with `--reserve` it is an error.
fn without_admission_by_measurement_nobody_is_refused() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
    let server = Server::of(folder.path()).with(["--admission", "off"]).start()?;
    Playback::whole(server.rtsp, "clip.ts", 20.0)?;
    let arguments =
        ["--admission", "off", "--reserve", "20%", "--rtsp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let refused = Command::new(binary()?).arg("serve").arg(folder.path()).args(arguments).output()?;
    let error = String::from_utf8_lossy(&refused.stderr);
    ensure!(
        !refused.status.success() && error.contains("--reserve belongs to --admission measured"),
        "{error}"
    );
    Ok(())
}

/// Promise: Sessions beyond `--max-rate` less `--reserve` are refused with 453 and counted; others continue.
fn sessions_beyond_the_rate_are_refused() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(4)?)])?;
    // 4.24 Mb/s each with headers.
    let rate = ["--admission", "measured", "--max-rate", "20Mb/s", "--reserve", "50%"];
    let server = Server::of(folder.path()).with(rate).start()?;
    let mut first = Playback::set_up(server.rtsp, "clip.ts")?;
    let (_second, status) = set_up(&server)?;
    ensure!(status == 200, "SETUP of session 2 is answered with {status}");
    let (_, status) = set_up(&server)?;
    ensure!(status == 453, "SETUP of session 3 is answered with {status}");
    let status = server.status()?;
    ensure!(status["capacity"]["max_bits_per_second"] == 10e6, "{}", status["capacity"]);
    ensure!(status["capacity"]["sessions"] == 2, "{}", status["capacity"]);
    ensure!(status["counters"]["rtsp"]["sessions_refused"]["rate"] == 1, "{}", status["counters"]["rtsp"]);
    let log = server.process.log();
    ensure!(log.contains("the link has no room for another session"), "{log}");
    first.play(None)?;
    first.receiver.to_the_end(Deadline::seconds(60.0))?;
    let arguments =
        ["--admission", "off", "--max-rate", "1Gb/s", "--rtsp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let refused = Command::new(binary()?).arg("serve").arg(folder.path()).args(arguments).output()?;
    let error = String::from_utf8_lossy(&refused.stderr);
    ensure!(error.contains("--max-rate belongs to --admission measured"), "{error}");
    Ok(())
}

/// Promise: Before any session plays, `/api/status` and admission use the packet costs of the calibration.
fn the_first_cost_is_that_of_the_calibration() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(4)?)])?;
    let costs = folder.path().join(".calibration.json");
    // 1 ms a packet: 380 packets a second take 0.38 of a thread.
    let dear = calibration(&["wire_sendfile"])?
        .replace("\"cpu_ns_per_packet\":100", "\"cpu_ns_per_packet\":1000000");
    std::fs::write(&costs, dear)?;
    let costs = costs.display().to_string();
    let options = ["--admission", "measured", "--threads", "1", "--reserve", "0%", "--calibration", &costs];
    let server = Server::of(folder.path()).with(options).start()?;
    let capacity = &server.status()?["capacity"];
    ensure!(capacity["is_measured"] == false && capacity["sessions"] == 2, "{capacity}");
    let (_clients, statuses): (Vec<_>, Vec<_>) =
        (0..3).map(|_| set_up(&server)).collect::<Result<Vec<_>>>()?.into_iter().unzip();
    ensure!(statuses == [200, 200, 453], "{statuses:?}");
    Ok(())
}

/// Promise: While sessions are late, downloads get 503 with Retry-After and SETUP gets 453; afterwards both
/// are served.
fn downloads_are_refused_while_sessions_are_late() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(60)?), ("small.txt", &clips::constant(2)?)])?;
    let server =
        Server::of(folder.path()).with(["--admission", "measured", "--max-sessions", "9"]).start()?;
    let mut playback = Playback::set_up(server.rtsp, "clip.ts")?;
    playback.play(None)?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pauses = scope.spawn(|| pause_again_and_again(&server.process, &is_over));
        let refused = ensure_refused(&server);
        is_over.store(true, Relaxed);
        pauses.join().expect("it does not panic").and(refused)
    })?;
    ensure!(server.sessions()? >= 1, "the session in progress has ended");
    // On a machine that is busy, sessions stay late.
    drop(playback);
    Deadline::seconds(60.0).wait_for("a download and a session", || {
        let got = wirepath_tests::http::get(server.http, "/small.txt")?;
        Ok((got.status == 200 && set_up(&server)?.1 == 200).then_some(()))
    })
}

/// Has a server stand still for most of the time, for so long at a time that its sessions are late by that, and so short
/// (less than 250 ms) that they catch up with all that they missed.
fn pause_again_and_again(server: &Process, is_over: &AtomicBool) -> Result<()> {
    while !is_over.load(Relaxed) {
        server.signal(Signal::STOP)?;
        std::thread::sleep(Duration::from_millis(180));
        server.signal(Signal::CONT)?;
        std::thread::sleep(Duration::from_millis(120));
    }
    Ok(())
}

/// Waits until a server whose sessions are late refuses downloads and sessions.
fn ensure_refused(server: &Server) -> Result<()> {
    let (mut is_refused, mut is_busy) = (false, false);
    let deadline = Deadline::seconds(60.0);
    while !(is_refused && is_busy) {
        ensure!(!deadline.has_passed(), "SETUP is refused: {is_refused}, a download: {is_busy}");
        let got = wirepath_tests::http::get(server.http, "/small.txt")?;
        if got.status == 503 {
            let words = String::from_utf8_lossy(&got.body);
            ensure!(got.header("retry-after") == Some("5") && words.contains("late"), "{got:?}");
            is_busy = true;
            let status = wirepath_tests::http::get(server.http, "/api/status")?;
            ensure!(status.status == 200, "the status is for operators: {status:?}");
        }
        is_refused |= set_up(server)?.1 == 453;
    }
    Ok(())
}

/// Promise: A session that plays alone, and costs more than one of many, does not keep many out.
fn a_session_that_plays_alone_does_not_keep_many_out() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(20)?)])?;
    let server = Server::of(folder.path()).with(["--admission", "measured", "--threads", "1"]).start()?;
    let mut playback = Playback::set_up(server.rtsp, "clip.ts")?;
    playback.play(None)?;
    Deadline::seconds(20.0).wait_for("a measurement", || {
        let capacity = &server.status()?["capacity"];
        Ok((capacity["sessions_playing"] == 1 && capacity["is_measured"] == true).then_some(()))
    })?;
    let capacity = server.status()?["capacity"].clone();
    ensure!(capacity["sessions"].as_u64().is_some_and(|sessions| sessions >= 500), "{capacity}");
    Ok(())
}

/// Sets up a session that does not play; returns the status of the response.
fn set_up(server: &Server) -> Result<(Client, u16)> {
    let mut client = Client::connect(server.rtsp)?;
    let (_, url) = playback::describe(&mut client, &server.rtsp_url("clip.ts"))?;
    let transport = [("Transport", "RTP/AVP;unicast;client_port=5000-5001")];
    let status = client.request("SETUP", &url, &transport)?.status;
    Ok((client, status))
}
