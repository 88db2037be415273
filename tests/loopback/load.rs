//! `wirepath load` against `wirepath serve`, and against servers that serve badly on purpose.

mod scripted;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use scripted::Scripted;
use serde_json::Value;
use wirepath_report::number::{count, significant};
use wirepath_tests::browser::Browser;
use wirepath_tests::process::{self, Process};
use wirepath_tests::server::{self, Server};
use wirepath_tests::{Deadline, clips, trials};

/// Milliseconds between packets of a scripted server.
const STEP_MS: u64 = 5;

/// Buffer of players whose server shares its processors with other tests.
const BUFFER: &str = "--buffer=1s";

/// Time for a script of 1.5 s, with as much to spare as a busy machine takes.
const AFTER_SCRIPT: &str = "--for=5s";

/// Buffer that is not full before the end of such a run.
const LARGE_BUFFER: &str = "--buffer=6s";

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        sessions_of_a_server_are_judged,
        media_of_sessions_outside_the_sample_are_dropped,
        sessions_with_addresses_of_their_own_share_sockets,
        sessions_seek_and_leave_and_vanish,
        media_that_end_begin_again,
        what_a_server_loses_repeats_and_reorders_is_counted,
        silence_is_an_underrun_and_fails_the_criterion,
        sessions_play_over_the_connection_of_a_server,
        interleaved_frames_are_judged_and_requests_of_the_server_answered,
        interleaved_media_outside_the_sample_are_thrown_away,
        sessions_that_fail_say_why,
        sessions_beyond_a_limit_are_told_as_refused,
        sessions_that_never_play_are_not_timely,
        arguments_that_make_no_sense_are_refused,
        the_page_of_a_run_says_what_the_json_says,
        a_storm_of_set_ups_is_made_and_lateness_told_apart,
    ]
}

/// Promise: `wirepath load` plays with many sessions and reports how many were timely.
fn sessions_of_a_server_are_judged() -> Result<()> {
    let (_folder, server) = serving(20)?;
    let run = Run::of(&[
        &server.rtsp_url("clip.ts"),
        "--sessions=8",
        "--ramp=40",
        "--for=3s",
        BUFFER,
        "--require=timely,lossless",
    ])?;
    run.ensure_code(0)?;
    let Run { json, text, .. } = &run;
    ensure!(json["schema"] == 1 && json["partial"] == false, "{json}");
    ensure!(json["sessions"]["started"] == 8 && json["sessions"]["judged"] == 8, "{}", json["sessions"]);
    ensure!(json["sessions"]["timely"] == 8 && json["sessions"]["failed"] == 0, "{}", json["sessions"]);
    let media = &json["media"];
    ensure!(media["lost"] == 0 && media["duplicates"] == 0 && media["underruns"] == 0, "{media}");
    // 4 Mb/s and RTP headers, for three seconds.
    let bytes = number(media, "bytes")? / 8.0;
    ensure!((1_300_000.0..2_600_000.0).contains(&bytes), "{bytes} bytes a session");
    let burst = number(&media["burst_ms"], "p50")?;
    ensure!((15.0..25.0).contains(&burst), "bursts of {burst} ms");
    ensure!(
        json["receiver_reports"].as_u64() > Some(0) && json["first_packet_ms"]["max"].is_number(),
        "{json}"
    );
    ensure!(json["records"].as_array().map(Vec::len) == Some(8), "{json}");
    ensure!(text.contains("8 of 8 judged sessions were timely"), "{text}");
    ensure!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    Ok(())
}

/// Promise: `wirepath load --sample SHARE` judges that share of the sessions; the kernel drops the media of
/// the others.
fn media_of_sessions_outside_the_sample_are_dropped() -> Result<()> {
    let (_folder, server) = serving(20)?;
    let run = Run::of(&[&server.rtsp_url("clip.ts"), "--sessions=6", "--for=2s", BUFFER, "--sample=0%"])?;
    run.ensure_code(0)?;
    let unjudged = &run.json["unjudged"];
    ensure!(run.json["sessions"]["judged"] == 1 && unjudged["sessions"] == 5, "{}", run.json);
    ensure!(unjudged["without_media"] == 0 && unjudged["dropped_buffers"].as_u64() > Some(5), "{unjudged}");
    Ok(())
}

/// Promise: Unsampled sessions with their own source addresses share sockets, and sender reports still reach
/// their session.
fn sessions_with_addresses_of_their_own_share_sockets() -> Result<()> {
    let (_folder, server) = serving(20)?;
    let url = server.rtsp_url("clip.ts");
    let run = Run::of(&[&url, "--sessions=20", "--for=7s", BUFFER, "--sample=0%", "--from=127.1.0.0/28"])?;
    run.ensure_code(0)?;
    let unjudged = &run.json["unjudged"];
    ensure!(unjudged["sessions"] == 19 && unjudged["dropped_buffers"].as_u64() > Some(1_000), "{unjudged}");
    let records = run.json["records"].as_array().context("no records")?;
    let reported = records.iter().filter(|record| record["sender_reports"].as_u64() > Some(0)).count();
    ensure!(reported == 20, "sender reports came for {reported} of 20 sessions");
    Ok(())
}

/// Promise: Sessions of `wirepath load` seek, leave and vanish as configured; new sessions replace them.
fn sessions_seek_and_leave_and_vanish() -> Result<()> {
    let (_folder, server) = serving(20)?;
    let url = server.rtsp_url("clip.ts");
    let run = Run::of(&[
        &url,
        "--sessions=6",
        "--for=4s",
        "--seek-every=400ms",
        "--churn=1500ms",
        "--vanish=50%",
        "--require=none",
    ])?;
    run.ensure_code(0)?;
    let sessions = &run.json["sessions"];
    ensure!(
        sessions["failed"] == 0 && sessions["left"].as_u64() > Some(1),
        "{sessions} {}",
        run.json["failures"]
    );
    ensure!(sessions["seeks"].as_u64() > Some(6) && run.json["seek_ms"]["p50"].is_number(), "{sessions}");
    ensure!(run.json["media"]["lost"] == 0 && run.json["media"]["clock_jumps"] == 0, "{}", run.json["media"]);
    Deadline::seconds(10.0).wait_for("no session", || Ok((server.sessions()? == 0).then_some(())))
}

/// Promise: When the media of a `wirepath load` session ends, a new session follows.
fn media_that_end_begin_again() -> Result<()> {
    let (_folder, server) = serving(2)?;
    let run = Run::of(&[
        &server.rtsp_url("clip.ts"),
        "--sessions=2",
        "--for=5s",
        BUFFER,
        "--require=timely,lossless",
    ])?;
    run.ensure_code(0)?;
    let sessions = &run.json["sessions"];
    ensure!(sessions["media_over"].as_u64() >= Some(2) && sessions["failed"] == 0, "{sessions}");
    Ok(())
}

/// Promise: `wirepath load` counts lost, reordered and repeated packets.
fn what_a_server_loses_repeats_and_reorders_is_counted() -> Result<()> {
    let mut sequences: Vec<u16> =
        (0..300).filter(|index| !(100..105).contains(index) && *index != 200).collect();
    sequences.swap(150, 151);
    sequences.insert(50, 48);
    let server = Scripted::start(in_time(&sequences))?;
    let run = Run::of(&[&server.url(), AFTER_SCRIPT, "--require=lossless"])?;
    run.ensure_code(3)?;
    ensure!(run.text.contains("6 packets were lost: --require lossless is not met"), "{}", run.text);
    let media = &run.json["media"];
    ensure!(media["lost"] == 6 && media["reordered"] == 1 && media["duplicates"] == 1, "{media}");
    ensure!(
        media["packets"] == 294 && run.json["sender_reports"] == 1,
        "{media} {}",
        run.json["sender_reports"]
    );
    Ok(())
}

/// Promise: A session is timely if a player with the requested buffer never ran dry.
/// Promise: `wirepath load` exits with 3 if a criterion of `--require` is not met.
fn silence_is_an_underrun_and_fails_the_criterion() -> Result<()> {
    let sequences: Vec<u16> = (0..300).collect();
    let mut script = in_time(&sequences);
    script.iter_mut().filter(|(_, sequence)| *sequence >= 100).for_each(|(at_ms, _)| *at_ms += 500);
    let server = Scripted::start(script.clone())?;
    let run = Run::of(&[&server.url(), "--for=1700ms", "--buffer=200ms"])?;
    run.ensure_code(3)?;
    let media = &run.json["media"];
    // A scripted server that has to wait for a processor is late more than once.
    ensure!(media["underruns"].as_u64() >= Some(1) && media["lost"] == 0, "{media}");
    let (gap, late) = (number(media, "longest_gap_ms")?, number(&media["lateness_ms"], "max")?);
    ensure!((300.0..1_700.0).contains(&gap) && (300.0..1_700.0).contains(&late), "{media}");
    ensure!(
        run.text.contains(
            "0 of 1 sessions that were judged or failed were timely: --require timely:100%, the default, is not met"
        ),
        "{}",
        run.text
    );
    let server = Scripted::start(script)?;
    Run::of(&[&server.url(), "--for=1500ms", "--buffer=2s"])?.ensure_code(0)
}

/// Promise: `wirepath load --transport tcp` judges RTP that is interleaved with RTSP.
fn sessions_play_over_the_connection_of_a_server() -> Result<()> {
    let (_folder, server) = serving(20)?;
    let url = server.rtsp_url("clip.ts");
    let run = Run::of(&[
        &url,
        "--sessions=6",
        "--for=4s",
        BUFFER,
        "--transport=tcp",
        "--sample=50%",
        "--seek-every=1s",
        "--require=timely,lossless",
    ])?;
    run.ensure_code(0)?;
    let Run { json, .. } = &run;
    ensure!(
        json["sessions"]["failed"] == 0 && json["sessions"]["seeks"].as_u64() > Some(3),
        "{}",
        json["sessions"]
    );
    ensure!(json["media"]["packets"].as_u64() > Some(500) && json["seek_ms"]["p50"].is_number(), "{json}");
    ensure!(json["unjudged"]["without_media"] == 0, "{}", json["unjudged"]);
    Ok(())
}

/// Promise: `wirepath load --transport tcp` judges RTP that is interleaved with RTSP.
fn interleaved_frames_are_judged_and_requests_of_the_server_answered() -> Result<()> {
    let sequences: Vec<u16> = (0..300).filter(|index| *index != 77).collect();
    let server = Scripted::start(in_time(&sequences))?;
    let run = Run::of(&[&server.url(), AFTER_SCRIPT, LARGE_BUFFER, "--transport=tcp"])?;
    run.ensure_code(0)?;
    let media = &run.json["media"];
    ensure!(media["lost"] == 1 && media["packets"] == 299 && run.json["sender_reports"] == 1, "{media}");
    ensure!(server.was_answered(), "the request of the server was not answered");
    Ok(())
}

/// Promise: `wirepath load --sample SHARE` judges that share of the sessions; the kernel drops the media of
/// the others.
fn interleaved_media_outside_the_sample_are_thrown_away() -> Result<()> {
    let sequences: Vec<u16> = (0..300).collect();
    let server = Scripted::start(in_time(&sequences))?;
    let run = Run::of(&[
        &server.url(),
        "--sessions=3",
        AFTER_SCRIPT,
        LARGE_BUFFER,
        "--transport=tcp",
        "--sample=0%",
    ])?;
    run.ensure_code(0)?;
    let unjudged = &run.json["unjudged"];
    ensure!(unjudged["sessions"] == 2 && unjudged["without_media"] == 0, "{unjudged}");
    ensure!(unjudged["discarded_bytes"].as_u64() > Some(2 * 250 * 1_000), "{unjudged}");
    Ok(())
}

fn sessions_that_fail_say_why() -> Result<()> {
    let (_folder, server) = serving(2)?;
    let run = Run::of(&[&server.rtsp_url("missing.ts"), "--sessions=2", "--for=1s"])?;
    run.ensure_code(3)?;
    ensure!(run.json["failures"]["DESCRIBE was refused: 404 Not Found"] == 2, "{}", run.json["failures"]);
    ensure!(run.text.contains("DESCRIBE was refused: 404 Not Found"), "{}", run.text);
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    drop(listener);
    let run = Run::of(&[&format!("rtsp://{address}/a"), "--for=1s"])?;
    run.ensure_code(3)?;
    ensure!(run.text.contains("Connection refused"), "{}", run.text);
    Ok(())
}

/// Promise: `wirepath load` reports sessions beyond the server's limits as refused.
fn sessions_beyond_a_limit_are_told_as_refused() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder = clips::folder(&[("clip.ts", Path::new(&clip))])?;
    let server = Server::of(folder.path()).with(["--max-connections", "2"]).start()?;
    let run = Run::of(&[&server.rtsp_url("clip.ts"), "--sessions=5", "--ramp=100", "--for=1s"])?;
    run.ensure_code(3)?;
    let refused = &run.json["failures"]["OPTIONS was refused: 503 Service Unavailable"];
    ensure!(*refused == 3, "{}", run.json["failures"]);
    Ok(())
}

/// Promise: Sessions of `wirepath load` that have not played by the end of the run are not timely.
fn sessions_that_never_play_are_not_timely() -> Result<()> {
    // It accepts connections, and answers nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let url = format!("rtsp://{}/a", listener.local_addr()?);
    let run = Run::of(&[&url, "--sessions=3", "--ramp=100", "--for=2s", "--sample=0%"])?;
    run.ensure_code(3)?;
    let (sessions, unjudged) = (&run.json["sessions"], &run.json["unjudged"]);
    ensure!(sessions["judged"] == 1 && sessions["timely"] == 0 && sessions["failed"] == 0, "{sessions}");
    ensure!(unjudged["never_played"] == 2, "{unjudged}");
    ensure!(run.text.contains("0 of 3 sessions"), "{}", run.text);
    Ok(())
}

/// Promise: `wirepath load --storm` adds set-ups beside playing sessions, and reports lateness before, during
/// and after.
fn a_storm_of_set_ups_is_made_and_lateness_told_apart() -> Result<()> {
    let (_folder, server) = serving(20)?;
    let url = server.rtsp_url("clip.ts");
    let run = Run::of(&[
        &url,
        "--sessions=4",
        "--for=6s",
        "--settle=1s",
        BUFFER,
        "--storm=200",
        "--storm-for=2s",
        "--require=lossless",
    ])?;
    run.ensure_code(0)?;
    let storm = &run.json["storm"];
    let (requested, set_up) = (number(storm, "requested")?, number(storm, "set_up")?);
    // A busy machine makes fewer, and ends the storm later.
    let most = 200.0 * number(storm, "seconds")? * 1.5 + 200.0;
    ensure!(set_up > 0.0 && set_up <= requested && requested <= most, "{storm}");
    ensure!(storm["failed_connections"] == 0 && storm["refused"] == 0, "{storm}");
    ensure!(storm["setup_ms"]["p99"].is_number(), "{storm}");
    for phase in ["before", "during", "after"] {
        ensure!(number(&storm[phase], "bursts")? > 0.0 && storm[phase]["lost"] == 0, "{phase}: {storm}");
        ensure!(storm[phase]["lateness_ms"]["max"].is_number(), "{phase}: {storm}");
    }
    ensure!(
        run.json["sessions"]["started"] == 4,
        "set-ups of a storm are no sessions: {}",
        run.json["sessions"]
    );
    ensure!(run.text.contains("meanwhile"), "{}", run.text);
    Deadline::seconds(10.0).wait_for("no session", || Ok((server.sessions()? == 0).then_some(())))?;
    let refused = Command::new(server::binary()?).args(["load", &url, "--for=3s", "--storm=10"]).output()?;
    ensure!(refused.status.code() == Some(2), "no time for a storm of 5 s: {refused:?}");
    Ok(())
}

/// Promise: The page of `wirepath load --report` shows the JSON's values, without script, request or browser
/// error.
fn the_page_of_a_run_says_what_the_json_says() -> Result<()> {
    let (_folder, server) = serving(20)?;
    let folder = process::open_folder()?;
    let file = folder.path().join("page.html");
    let report = format!("--report={}", file.display());
    let run =
        Run::of(&[&server.rtsp_url("clip.ts"), "--sessions=8", "--ramp=40", "--for=2s", BUFFER, &report])?;
    run.ensure_code(0)?;
    let page = std::fs::read_to_string(&file)?;
    ensure!(page.starts_with("<!doctype html>") && !page.contains("<script"), "{page}");
    let is_foreign = |attribute: &&str| page.contains(&format!("{attribute}=\"http"));
    ensure!(["src", "href"].iter().all(|attribute| !is_foreign(attribute)), "{page}");
    let words = rows(&page);
    let (sessions, media) = (&run.json["sessions"], &run.json["media"]);
    let grouped = |value: &Value| value.as_u64().map(count).context("no number");
    let lost = media["lost"].as_u64().unwrap_or(0) + media["missing_at_start"].as_u64().unwrap_or(0);
    for row in [
        format!("sessions {} ", grouped(&sessions["started"])?),
        format!("failed {} ", grouped(&sessions["failed"])?),
        format!("judged {} {} timely", grouped(&sessions["judged"])?, grouped(&sessions["timely"])?),
        format!("packets {} ", grouped(&media["packets"])?),
        format!("lost {} ", count(lost)),
        format!("reordered {} {} duplicates", grouped(&media["reordered"])?, grouped(&media["duplicates"])?),
        format!("underruns {} ", grouped(&media["underruns"])?),
        format!("{} of {} judged sessions were timely", sessions["timely"], sessions["judged"]),
        format!(
            "{} sessions, {} a second",
            run.json["asked"]["sessions"],
            number(&run.json["asked"], "ramp")?
        ),
    ] {
        ensure!(words.contains(&row), "no {row:?} in {words}");
    }
    for name in ["setup_ms", "first_packet_ms"] {
        ensure!(words.contains(&significant(number(&run.json[name], "max")?)), "no {name} in {words}");
    }
    let mut browser = Browser::start(folder.path())?;
    browser.open(&format!("file://{}", file.display()))?;
    browser.wait_for("document.readyState === 'complete'", Deadline::seconds(60.0))?;
    let shown = browser.evaluate("document.body.innerText")?;
    let timely = format!("{} of {} judged sessions were timely", sessions["timely"], sessions["judged"]);
    ensure!(shown.as_str().is_some_and(|text| text.contains(&timely)), "{shown}");
    Ok(())
}

/// Text of a page, with a blank where a tag was, and blanks once.
fn rows(page: &str) -> String {
    let texts = page.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text);
    texts.flat_map(str::split_whitespace).map(|word| format!("{word} ")).collect()
}

fn arguments_that_make_no_sense_are_refused() -> Result<()> {
    for (arguments, said) in [
        (&["ftp://127.0.0.1/a"][..], "expected rtsp://HOST"),
        (&["rtsp://127.0.0.1/a", "--sample=5"], "expected a share"),
        (&["rtsp://127.0.0.1/a", "--ramp=1e-300"], "at least 0.001"),
        (&["rtsp://127.0.0.1/a", "--vanish=5%"], "--churn"),
        (&["rtsp://127.0.0.1/a", "--mix=zip"], "zipf:1.1"),
        (&["rtsp://127.0.0.1/a", "--require=all"], "timely:SHARE"),
    ] {
        let output = Command::new(server::binary()?).arg("load").args(arguments).output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(2) && text.contains(said), "{text}");
    }
    Ok(())
}

/// A run of the command that has ended.
pub(crate) struct Run {
    code: Option<i32>,
    pub(crate) text: String,
    pub(crate) json: Value,
}

impl Run {
    pub(crate) fn of(arguments: &[&str]) -> Result<Run> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("result.json");
        let mut command = Command::new(server::binary()?);
        command.arg("load").args(arguments).arg("--json").arg(&file).env("COLUMNS", "80");
        let mut process = Process::start(&command, true)?;
        let code = process.wait(Deadline::seconds(40.0))?.code();
        let text = process.log();
        let json = std::fs::read(&file).with_context(|| text.clone())?;
        Ok(Run { code, text, json: serde_json::from_slice(&json)? })
    }

    pub(crate) fn ensure_code(&self, code: i32) -> Result<()> {
        let Run { text, json, .. } = self;
        ensure!(
            self.code == Some(code),
            "{:?}: {text}\n{} {}",
            self.code,
            json["failures"],
            json.get("http").unwrap_or(&json["media"])
        );
        Ok(())
    }
}

fn serving(seconds: u32) -> Result<(tempfile::TempDir, Server)> {
    let clip = clips::constant(seconds)?;
    let folder = clips::folder(&[("clip.ts", Path::new(&clip))])?;
    let server = Server::of(folder.path()).with(["--burst", "20ms"]).start()?;
    Ok((folder, server))
}

/// Packets at the times of their places.
fn in_time(sequences: &[u16]) -> Vec<(u64, u16)> {
    sequences.iter().map(|sequence| (u64::from(*sequence) * STEP_MS, *sequence)).collect()
}

fn number(value: &Value, key: &str) -> Result<f64> {
    value[key].as_f64().with_context(|| format!("no {key} in {value}"))
}
