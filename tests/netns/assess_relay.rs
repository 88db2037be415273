//! `wirepath assess relay` on a test bed of its own: every available path moves what it should, and is
//! measured.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::Value;
use wirepath_tests::process;
use wirepath_tests::{bpf, require, server, trials};

use crate::assess::assessed;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        every_way_to_relay_is_verified_and_measured,
        a_handler_in_the_kernel_is_measured_beside_user_space,
        a_mirror_in_the_kernel_is_measured_beside_user_space
    ]
}

/// A part, a way, how many ends it has on the side that has several, and how many sinks each byte arrives at.
const WAYS: [(&str, &str, u64, u64); 25] = [
    ("file-to-socket", "read_write", 16, 1),
    ("file-to-socket", "sendfile", 16, 1),
    ("file-to-socket", "streams", 16, 1),
    ("socket-to-file", "read_write", 16, 1),
    ("socket-to-file", "streams", 16, 1),
    ("socket-to-socket", "read_write", 16, 1),
    ("socket-to-socket", "uring", 16, 1),
    ("socket-to-socket", "streams", 16, 1),
    ("socket-to-socket", "haproxy", 16, 1),
    ("socket-to-socket", "nginx", 16, 1),
    ("socket-to-socket", "socat", 16, 1),
    ("merge", "read_write", 16, 1),
    ("merge", "streams", 16, 1),
    ("stripe", "read_write", 16, 1),
    ("stripe", "streams", 4, 1),
    ("stripe", "streams", 16, 1),
    ("random", "read_write", 16, 1),
    ("random", "streams", 16, 1),
    ("mirror", "read_write", 16, 16),
    ("mirror", "streams", 1, 1),
    ("mirror", "streams", 16, 16),
    ("udp-mirror", "read_write", 64, 64),
    ("udp-mirror", "streams", 64, 64),
    ("crowd", "streams", 10, 1),
    ("crowd", "streams", 1000, 1),
];

/// Promise: Streams are measured beside plain loops and other programs; the data of each is first verified at
/// every sink.
fn every_way_to_relay_is_verified_and_measured() -> Result<()> {
    let (result, _) = assessed(&["relay"])?;
    ensure!(result["settings"]["experiments"] == serde_json::json!(["relay"]), "{:#}", result["settings"]);
    let costs = result["relay"].as_array().context("nothing was measured")?;
    for (part, way, links, sinks) in WAYS {
        let is_it = |one: &&Value| one["part"] == part && one["way"] == way && one["links"] == links;
        let found: Vec<&Value> = costs.iter().filter(is_it).collect();
        if found.is_empty() {
            ensure!(
                may_be_missing(&result, part, way)?,
                "{part} by {way} with {links}: not measured, no reason"
            );
        }
        found.into_iter().try_for_each(|one| ensure_measured(one, sinks))?;
    }
    // The paper's dummy handler, in the service and in a loop.
    for way in ["read_write", "streams"] {
        let touched = |one: &&Value| one["touch"] == true && one["way"] == way;
        ensure!(costs.iter().filter(touched).count() >= 4, "{way} with every byte touched: {costs:#?}");
    }
    ensure!(result["left_out"].to_string().contains("udp-mirror by socat"), "{:#}", result["left_out"]);
    ensure_shown(&result)
}

/// Methods of the parts with an eBPF handler: the reference, and those that judge records.
const DISCARD: &str = "discard";
const JUDGING: [&str; 3] = ["read_write", "streams", "kernel"];

/// Promise: A handler in the kernel is compared with the same in user space by the time of all that works for it.
fn a_handler_in_the_kernel_is_measured_beside_user_space() -> Result<()> {
    let folder = process::open_folder()?;
    let object = bpf::program("sockmap", folder.path())?;
    let object = object.to_str().context("a folder's name is not UTF-8")?;
    let parts = ["kernel-tcp", "kernel-udp"];
    let arguments = ["relay", "--only", parts[0], "--only", parts[1]];
    let (result, _) = assessed(&[&arguments[..], &["--kernel-handler", object]].concat())?;
    let refused = result["left_out"].to_string();
    require!(
        !refused.contains("not permitted") && !refused.contains("denied"),
        "loading eBPF programs is not permitted here"
    );
    let costs = result["relay"].as_array().context("nothing was measured")?;
    for part in parts {
        let of = |way: &str, passed: Option<u64>| {
            let is_it =
                |one: &&Value| one["part"] == part && one["way"] == way && one["passed"].as_u64() == passed;
            costs.iter().find(is_it).with_context(|| format!("{part} by {way}, {passed:?}: {refused}"))
        };
        ensure_judged(of(DISCARD, None)?, 0)?;
        for passed in [100, 50, 10] {
            JUDGING.iter().try_for_each(|way| ensure_judged(of(way, Some(passed))?, passed))?;
        }
    }
    let markdown = shown(&result, &["--markdown", "-"])?;
    ensure!(markdown.contains("judged by an eBPF handler"), "{markdown}");
    ensure!(markdown.contains("10 % passed: the handler in the kernel"), "{markdown}");
    // Without a handler nothing is measured, which is an error.
    let mut command = Command::new(server::binary()?);
    command.arg("assess").args(arguments).args(["--json", "-", "--scratch"]).arg(folder.path());
    command.arg("--calibration").arg(folder.path().join("calibration.json"));
    let output = command.output().context("running it")?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(output.status.code() == Some(1) && said.contains("--kernel-handler FILE"), "{said}");
    Ok(())
}

/// Promise: A mirror in the kernel is compared with the same in user space by the time of all that works for it.
fn a_mirror_in_the_kernel_is_measured_beside_user_space() -> Result<()> {
    let folder = process::open_folder()?;
    let object = bpf::program("sockmap", folder.path())?;
    let object = object.to_str().context("a folder's name is not UTF-8")?;
    let (result, _) = assessed(&["relay", "--only", "kernel-mirror", "--kernel-handler", object])?;
    let refused = result["left_out"].to_string();
    require!(
        !refused.contains("not permitted") && !refused.contains("denied"),
        "loading eBPF programs is not permitted here"
    );
    let costs = result["relay"].as_array().context("nothing was measured")?;
    let of = |way: &str, receivers: u64| {
        let is_it = |one: &&Value| one["way"] == way && one["links"] == receivers;
        costs.iter().find(is_it).with_context(|| format!("{way}, {receivers} receivers: {refused}"))
    };
    ensure_judged(of(DISCARD, 1)?, 0)?;
    for receivers in [4, 16] {
        for way in JUDGING {
            let one = of(way, receivers)?;
            ensure_judged(one, 100 * receivers)?;
            // The kernel gives user space few records; without a mirror in the kernel, user space takes all.
            for run in one["runs"].as_array().context("no runs")? {
                let [taken, bytes] = ["taken", "bytes"].map(|name| run[name].as_u64().unwrap_or(u64::MAX));
                let is_of_kernel = taken <= bytes / 1024 / 10;
                ensure!(is_of_kernel == (way == "kernel") && taken <= bytes / 1024, "{one:#}");
            }
        }
    }
    let markdown = shown(&result, &["--markdown", "-"])?;
    ensure!(markdown.contains("`kernel, 16 receivers`"), "{markdown}");
    ensure!(markdown.contains("to 4 receivers: the handler in the kernel"), "{markdown}");
    Ok(())
}

/// Two runs in which so many percent of the records arrived, at all sinks together, with the time of all that works for
/// them and of the whole machine.
fn ensure_judged(one: &Value, passed: u64) -> Result<()> {
    let runs = one["runs"].as_array().context("no runs")?;
    ensure!(one["verified"] == true && runs.len() == 2, "{one:#}");
    for run in runs {
        let [bytes, delivered] = ["bytes", "delivered"].map(|name| run[name].as_u64().unwrap_or(0));
        let records = bytes / 1024;
        ensure!(records > 100 && delivered == records * passed / 100 * 1024, "{one:#}");
        let [machine, tasks] = ["machine_s", "tasks_s"].map(|name| run[name].as_f64().unwrap_or(0.0));
        ensure!(machine > 0.0 && tasks > 0.0, "{one:#}");
    }
    Ok(())
}

/// Two runs of all that should arrive, each of which took processor time. What socat's ended processes used
/// is known in ticks of the clock only, and so little data may not take one.
fn ensure_measured(one: &Value, sinks: u64) -> Result<()> {
    let runs = one["runs"].as_array().context("no runs")?;
    ensure!(one["verified"] == true && runs.len() == 2, "{one:#}");
    for run in runs {
        let [bytes, delivered] = ["bytes", "delivered"].map(|name| run[name].as_u64().unwrap_or(0));
        ensure!(bytes > 0 && delivered == bytes * sinks, "{one:#}");
        let [user, system, wall] =
            ["user_s", "system_s", "wall_s"].map(|name| run[name].as_f64().unwrap_or(-1.0));
        let in_ticks = one["way"] == "socat";
        ensure!(user >= 0.0 && system >= 0.0 && (user + system > 0.0 || in_ticks) && wall > 0.0, "{one:#}");
    }
    Ok(())
}

/// Returns whether it says why it has no figure, and that is true: a program is not installed, or descriptors
/// are few.
fn may_be_missing(result: &Value, part: &str, way: &str) -> Result<bool> {
    let lines = result["left_out"].as_array().context("no list of what was left out")?;
    let of_way = |line: &&Value| {
        line["what"].as_str().is_some_and(|what| what.starts_with(&format!("{part} by {way}")))
    };
    let why = lines.iter().find(of_way).and_then(|line| line["why"].as_str()).unwrap_or_default();
    let not_installed = why.contains("not installed") && process::find(way).is_none();
    Ok(not_installed || part == "crowd" && why.contains("descriptors"))
}

/// Text of the report of a result.
fn shown(result: &Value, arguments: &[&str]) -> Result<String> {
    let folder = process::open_folder()?;
    let json = folder.path().join("result.json");
    fs::write(&json, serde_json::to_vec(result)?)?;
    let json = json.to_str().context("a folder's name is not UTF-8")?;
    told(&[&["report", json], arguments].concat())
}

fn told(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(server::binary()?);
    let output = command.arg("assess").args(arguments).output().context("running it")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The report, the rows and the comparison have it.
fn ensure_shown(result: &Value) -> Result<()> {
    let folder = process::open_folder()?;
    let json = folder.path().join("result.json");
    fs::write(&json, serde_json::to_vec(result)?)?;
    let json = json.to_str().context("a folder's name is not UTF-8")?;
    let markdown = shown(result, &["--markdown", "-"])?;
    ensure!(markdown.contains("## From sources to sinks") && markdown.contains("figure 10"), "{markdown}");
    let csv = shown(result, &["--csv", "-"])?;
    ensure!(csv.lines().any(|row| row.starts_with("relay: mirror,")), "{csv}");
    let compared = told(&["compare", json, json])?;
    ensure!(compared.contains("relay: udp-mirror over UDP"), "{compared}");
    Ok(())
}
