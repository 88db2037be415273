//! Streams of a file side by side: none waits for another, fails with it, or outlives a signal.

use std::process::Command;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;
use wirepath_tests::process::Process;
use wirepath_tests::{Deadline, server, trials};

use super::{COPY, Folder, Watched, endless};

pub(super) fn trials() -> Vec<Trial> {
    trials![
        a_stream_that_fails_leaves_the_others_alone,
        hundreds_of_streams_run_at_once,
        a_signal_stops_streams_that_run_and_those_that_wait,
    ]
}

/// Promise: A configuration file runs many streams; a failed stream is reported and does not affect the
/// others.
fn a_stream_that_fails_leaves_the_others_alone() -> Result<()> {
    let folder = Folder::new(
        "[[stream]]\nname = \"broken\"\nin = [\"file:missing\"]\nout = [\"file:never\"]\n\
         [[stream]]\nname = \"sound\"\nin = [\"file:source\"]\nout = [\"file:copy\", \"file:second\"]\n\
         [[stream]]\nname = \"cut\"\nin = [\"file:source\"]\nframing = \"ts\"\nout = [\"file:third\"]\n",
    )?;
    std::fs::write(folder.path("source"), [7; 300_000])?;
    let report = folder.path("report.json");
    let output = folder.output(&["--json", &report.display().to_string()])?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(1), "{}: {said}", output.status);
    for line in [
        "wirepath: broken: failed: file:/".to_owned(),
        format!("{}: opening: No such file", folder.path("missing").display()),
        "wirepath: sound: started".to_owned(),
        "wirepath: sound: ended: 293.0 KiB in, 585.9 KiB out".to_owned(),
        "wirepath: cut: failed: ".to_owned(),
    ] {
        ensure!(said.contains(&line), "{line} is not in: {said}");
    }
    ensure!(std::fs::read(folder.path("copy"))? == [7; 300_000], "other bytes came");
    ensure!(std::fs::read(folder.path("second"))? == [7; 300_000], "other bytes came");
    ensure!(!folder.path("never").exists(), "a file was made for nothing");
    let report = folder.json("report.json")?;
    ensure!(report["schema"] == "wirepath-relay-streams/1", "{report}");
    let states: Vec<&Value> = (0..3).map(|place| &report["streams"][place]["state"]).collect();
    ensure!(states == ["failed", "ended", "failed"], "{report}");
    let sound = &report["streams"][1];
    ensure!(
        sound["name"] == "sound" && sound["bytes_in"] == 300_000 && sound["bytes_out"] == 600_000,
        "{report}"
    );
    ensure!(
        report["streams"][0]["error"].as_str().is_some_and(|error| error.contains("No such file")),
        "{report}"
    );
    Ok(())
}

/// Promise: A configuration file runs many streams; a failed stream is reported and does not affect the
/// others.
fn hundreds_of_streams_run_at_once() -> Result<()> {
    const STREAMS: usize = 300;
    let streams = (0..STREAMS).map(|number| {
        format!("[[stream]]\nname = \"{number}\"\nin = [\"file:source{number}\"]\nout = [\"unix:out{number}?listen\"]\n")
    });
    let readers = (0..STREAMS).map(|number| {
        format!("[[stream]]\nname = \"from {number}\"\nin = [\"unix:out{number}\"]\nout = [\"file:copy{number}\"]\n")
    });
    let sending = Folder::new(&streams.collect::<String>())?;
    std::fs::write(sending.path("receivers.toml"), readers.collect::<String>())?;
    let content = |number: usize| vec![number as u8; 1000 + 100 * number];
    for number in 0..STREAMS {
        std::fs::write(sending.path(&format!("source{number}")), content(number))?;
    }
    let mut senders = Process::start(&sending.relay(&[])?, true)?;
    Deadline::seconds(60.0).wait_for("all that listen", || {
        let listens = |number: usize| sending.path(&format!("out{number}")).exists();
        Ok((0..STREAMS).all(listens).then_some(()))
    })?;
    let mut receivers = Command::new(server::binary()?);
    receivers.args(["relay", "--config"]).arg(sending.path("receivers.toml"));
    Process::start(&receivers, true)?.succeed(Deadline::seconds(60.0))?;
    senders.succeed(Deadline::seconds(60.0))?;
    for number in 0..STREAMS {
        let copy = std::fs::read(sending.path(&format!("copy{number}")))?;
        ensure!(copy == content(number), "stream {number} has other bytes: {}", copy.len());
    }
    Ok(())
}

/// Promise: A signal ends a relay, whatever it waits for.
fn a_signal_stops_streams_that_run_and_those_that_wait() -> Result<()> {
    let waits = "[[stream]]\nname = \"waits\"\nin = [\"unix:inlet?listen\"]\nout = [\"file:never\"]\n";
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let folder = Folder::new(&format!("{COPY}{waits}{}", endless("endless", "rate = \"1MB/s\"")))?;
        std::fs::write(folder.path("source"), "bytes")?;
        let mut relay = Watched::start(&folder, &[])?;
        relay.wait_for("the copy", |streams| {
            streams[0]["state"] == "ended" && streams[2]["state"] == "running"
        })?;
        relay.process.signal(signal)?;
        let ended = relay.process.wait(Deadline::seconds(20.0))?;
        ensure!(ended.code() == Some(code), "{ended}: {}", relay.process.log());
        ensure!(relay.process.log().contains("wirepath: endless: stopped: "), "{}", relay.process.log());
    }
    Ok(())
}
