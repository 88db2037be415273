//! Movies whose tables lie, asked for from a running server while a session plays.

mod files;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::http::Response;
use wirepath_tests::loss::unless_overloaded;
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::process::status_number;
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{clips, trials};

/// Seconds of the clip that plays meanwhile.
const CLIP_SECONDS: u32 = 4;

/// Memory of the server for its packings, and the most that it may take besides.
const PACKING_MIB: u64 = 16;
const OTHER_MIB: u64 = 48;

/// This measures memory.
pub(crate) fn alone() -> Vec<Trial> {
    trials![
        lying_mp4_files_are_refused_or_played => || unless_overloaded(|| ensure_harmless(files::mp4()?)),
        lying_matroska_files_are_refused_or_played => || unless_overloaded(|| ensure_harmless(files::matroska()?)),
    ]
}

/// Promise: MP4 and Matroska files with wrong tables play or get 415, in bounded memory; no other session
/// loses a byte.
fn ensure_harmless(files: Vec<files::Hostile>) -> Result<()> {
    let clip = clips::constant(CLIP_SECONDS)?;
    let stored = std::fs::read(&clip)?;
    let folder = clips::folder(&[("clip.ts", &clip)])?;
    for file in &files {
        std::fs::write(folder.path().join(&file.name), &file.bytes)?;
    }
    let memory = format!("--packing-memory={PACKING_MIB}MiB");
    let server = &Server::of(folder.path()).with([memory.as_str(), "--threads=2"]).start()?;
    let peak_mib = || Ok::<_, anyhow::Error>(status_number(server.process.pid(), "VmHWM")? / 1024);
    let before = peak_mib()?;
    let (witness, refused) = std::thread::scope(|scope| -> Result<_> {
        let seconds = f64::from(CLIP_SECONDS) + 10.0;
        let witness = scope.spawn(move || Playback::whole(server.rtsp, "clip.ts", seconds));
        let refused = files.iter().map(|file| ask_for(server, file)).collect::<Result<Vec<_>>>();
        let witness = witness.join().expect("a witness answers with errors").context("the session beside")?;
        Ok((witness, refused?))
    })?;
    let log = server.process.log();
    ensure!(!log.contains("panicked"), "the server panicked: {log}");
    ensure!(refused.contains(&true) && refused.contains(&false), "all files had one answer: {refused:?}");
    ensure_bytes(&witness, &stored)?;
    let took = peak_mib()?.saturating_sub(before);
    ensure!(took <= PACKING_MIB + OTHER_MIB, "{took} MiB of memory more than before");
    Client::connect(server.rtsp)?.succeed("OPTIONS", "*", &[])?;
    Ok(())
}

/// Asks for a file as a player does, up to the answer to PLAY. Says whether it was refused.
fn ask_for(server: &Server, file: &files::Hostile) -> Result<bool> {
    let mut client = Client::connect(server.rtsp)?;
    let url = server.rtsp_url(&file.name);
    let mut ask = |method: &str, url: &str, headers: &[(&str, &str)]| -> Result<Option<Response>> {
        let answer =
            client.request(method, url, headers).with_context(|| format!("{method} of {}", file.name))?;
        let (status, name) = (answer.status, &file.name);
        ensure!([200, 415].contains(&status), "{method} of {name}: {status}; {}", server.process.log());
        Ok((answer.status == 200).then_some(answer))
    };
    let Some(described) = ask("DESCRIBE", &url, &[])? else { return Ok(true) };
    let description = String::from_utf8(described.body)?;
    let controls: Vec<&str> =
        description.lines().filter_map(|line| line.strip_prefix("a=control:")).collect();
    ensure!(controls.len() > 1, "{}: no track is described: {description}", file.name);
    let mut session = None;
    for (index, control) in controls[1..].iter().enumerate() {
        let transport = format!("RTP/AVP/TCP;unicast;interleaved={}-{}", 2 * index, 2 * index + 1);
        let mut headers = vec![("Transport", transport.as_str())];
        headers.extend(session.as_deref().map(|session| ("Session", session)));
        let Some(answer) = ask("SETUP", &format!("{url}/{control}"), &headers)? else { return Ok(true) };
        let id = answer.header("session").context("no Session")?.split(';').next().unwrap_or_default();
        session = Some(id.to_owned());
    }
    Ok(ask("PLAY", &url, &[("Session", session.as_deref().unwrap_or_default())])?.is_none())
}
