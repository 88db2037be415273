//! `wirepath assess relay` on the loopback device: without privileges, with wrong input, and interrupted.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;
use wirepath_tests::process::{self, Process};
use wirepath_tests::{Deadline, server, trials};

use crate::assess::children_of;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_user_without_privileges_measures_relaying,
        handlers_requests_and_orders_are_verified_and_measured,
        parts_and_sinks_that_make_no_sense_are_refused,
        an_interrupted_relay_keeps_what_was_measured,
        a_killed_assessment_leaves_no_process,
    ]
}

/// Promise: Streams are measured beside plain loops and other programs; the data of each is first verified at
/// every sink.
fn a_user_without_privileges_measures_relaying() -> Result<()> {
    let folder = process::open_folder()?;
    let program = server::binary()?;
    let mut command = process::as_ordinary_user(
        program.to_str().context("the program's path is not UTF-8")?,
        folder.path(),
    );
    let parts = ["file-to-socket", "socket-to-file", "socket-to-socket", "mirror", "udp-mirror"];
    command.args(["assess", "relay", "--json", "-", "--volume", "1MiB", "--runs", "1", "--scratch"]);
    command.arg(folder.path()).args(parts.iter().flat_map(|part| ["--only", part]));
    let output = command.output().context("running it")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let result: Value =
        serde_json::from_slice(&output.stdout).with_context(|| format!("no JSON alone: {errors}"))?;
    ensure!(
        output.status.success(),
        "{:#}
{errors}",
        result["left_out"]
    );
    ensure!(
        result["settings"]["sink"] == "loopback" && result["partial"] == false,
        "{:#}",
        result["settings"]
    );
    let costs = result["relay"].as_array().context("nothing was measured")?;
    for part in parts {
        for way in ["read_write", "streams"] {
            let is_it = |one: &&Value| one["part"] == part && one["way"] == way;
            let found = costs.iter().find(is_it).with_context(|| format!("no {part} by {way}"))?;
            ensure!(found["verified"] == true && found["runs"][0]["bytes"].as_u64() > Some(0), "{found:#}");
        }
    }
    let asked_for = |one: &Value| one["part"].as_str().is_some_and(|part| parts.contains(&part));
    ensure!(costs.iter().all(asked_for), "more was measured than was asked for: {costs:#?}");
    Ok(())
}

/// Promise: Handlers, HTTP responses and input orders are verified at every sink before they are measured.
fn handlers_requests_and_orders_are_verified_and_measured() -> Result<()> {
    let folder = process::open_folder()?;
    let mut options = vec!["--json", "-", "--volume", "1MiB", "--runs", "1", "--handlers"];
    options.extend(["merge", "files", "file-proxy", "orders"].iter().flat_map(|part| ["--only", part]));
    let output = relay(folder.path(), &options)?.output().context("running it")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let result: Value =
        serde_json::from_slice(&output.stdout).with_context(|| format!("no JSON alone: {errors}"))?;
    ensure!(output.status.success(), "{:#} {errors}", result["left_out"]);
    let costs = result["relay"].as_array().context("nothing was measured")?;
    let handlers = ["read", "select", "grow", "peek"].map(|handler| ("handler", handler));
    let orders = ["round-robin", "random", "arrival", "tag"].map(|order| ("order", order));
    let requests = [("part", "files"), ("part", "file-proxy")];
    for (field, value) in handlers.into_iter().chain(orders).chain(requests) {
        let is_it = |one: &&Value| one["way"] == "streams" && one[field] == value;
        let found = costs.iter().find(is_it).with_context(|| format!("no {field} {value}"))?;
        let delivered = found["runs"][0]["delivered"].as_u64();
        ensure!(found["verified"] == true && delivered > Some(0), "{found:#}");
    }
    Ok(())
}

/// Promise: Wrong parts and sinks of `assess relay` are refused; a killed run leaves no process.
fn parts_and_sinks_that_make_no_sense_are_refused() -> Result<()> {
    let folder = process::open_folder()?;
    for (options, code, why) in [
        (&["--only", "gold"][..], 2, "udp-mirror"),
        (&["--sink", "127.0.0.1:9"], 1, "veth or loopback"),
        (&["--volume", "0"], 2, "invalid volume 0: expected at least 1 B"),
    ] {
        let output = relay(folder.path(), options)?.output().context("running it")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(code) && errors.contains(why), "{options:?}: {errors}");
    }
    Ok(())
}

/// Promise: Wrong parts and sinks of `assess relay` are refused; a killed run leaves no process.
fn an_interrupted_relay_keeps_what_was_measured() -> Result<()> {
    let folder = process::open_folder()?;
    let json = folder.path().join("result.json");
    let mut command = relay(folder.path(), &LONG)?;
    command.arg("--json").arg(&json);
    let mut process = Process::start(&command, true)?;
    until_it_measures(&process)?;
    process.signal(Signal::INT)?;
    let status = process.wait(Deadline::seconds(60.0))?;
    ensure!(status.code() == Some(130), "{status}: {}", process.log());
    let result: Value = serde_json::from_slice(&fs::read(&json)?)?;
    ensure!(result["partial"] == true && result["left_out"].to_string().contains("stopped"), "{result:#}");
    ensure!(result["relay"].as_array().is_some_and(|all| !all.is_empty()), "{result:#}");
    Ok(())
}

/// Promise: Wrong parts and sinks of `assess relay` are refused; a killed run leaves no process.
fn a_killed_assessment_leaves_no_process() -> Result<()> {
    let folder = process::open_folder()?;
    let mut process = Process::start(&relay(folder.path(), &LONG)?, true)?;
    until_it_measures(&process)?;
    // A mover lives for one run: one is caught between two looks.
    let moving = Deadline::seconds(60.0).wait_for("somebody who moves", || {
        let children = children_of(process.pid())?;
        Ok((children.len() >= 2).then_some(children))
    })?;
    process.signal(Signal::KILL)?;
    process.wait(Deadline::seconds(5.0))?;
    Deadline::seconds(10.0).wait_for("their end", || {
        let gone = |pid: &u32| process::status_number(*pid, "VmSize").is_err();
        Ok(moving.iter().all(gone).then_some(()))
    })
}

/// So much that it does not end by itself while a test waits.
const LONG: [&str; 6] = ["--volume", "1MiB", "--runs", "200", "--only", "file-to-socket"];

fn relay(scratch: &Path, options: &[&str]) -> Result<Command> {
    let mut command = Command::new(server::binary()?);
    command.args(["assess", "relay"]);
    if !options.contains(&"--sink") {
        command.args(["--sink", "loopback"]);
    }
    command.args(options).arg("--scratch").arg(scratch);
    command.arg("--calibration").arg(scratch.join("calibration.json"));
    // Leftovers of a killed one are removed with the rest.
    command.env("TMPDIR", scratch);
    Ok(command)
}

/// Waits until the first rounds are over: a tenth is for what comes before them.
fn until_it_measures(process: &Process) -> Result<()> {
    Deadline::seconds(100.0)
        .wait_for("the first rounds", || Ok(process.log().contains("relay: 20 %").then_some(())))
        .with_context(|| process.log())
}
