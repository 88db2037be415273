//! Data path that a session gets, and what is said about it.

use std::os::unix::fs::FileTypeExt;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::Value;
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::server::{Server, calibration};
use wirepath_tests::{Deadline, clips, process, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        what_was_measured_decides,
        the_path_in_use_is_shown,
        a_first_start_measures_and_keeps_it,
        what_is_no_calibration_is_left_as_it_is,
    ]
}

/// Promise: The server takes the cheapest measured path that works, unless an option names another.
fn what_was_measured_decides() -> Result<()> {
    for cheapest in ["wire_sendfile", "gso_writev", "sendmmsg", "read_writev"] {
        let others = ["wire_sendfile", "gso_writev", "sendmmsg", "read_writev"].into_iter();
        let order: Vec<&str> =
            [cheapest].into_iter().chain(others.filter(|other| *other != cheapest)).collect();
        let home = tempfile::tempdir()?;
        let file = home.path().join("costs.json");
        std::fs::write(&file, calibration(&order)?)?;
        let clip = clips::constant(2)?;
        let folder = clips::folder(&[("clip.ts", &clip)])?;
        let server = Server::of(folder.path())
            .with(["--calibration", file.to_str().context("UTF-8")?])
            .packed()
            .start()?;
        let mut playback = Playback::set_up(server.rtsp, "clip.ts")?;
        playback.play(None)?;
        // The first trains may leave by io_uring, until the kernel has copied some.
        let mut last = Value::Null;
        let session = Deadline::seconds(5.0).wait_for(cheapest, || {
            last = server.status()?["sessions"][0].clone();
            Ok((last["data_path"] == cheapest).then(|| last.clone()))
        });
        let session = session.with_context(|| format!("{cheapest} is not what {last} uses"))?;
        let reason = session["data_path_reason"].as_str().context("no reason")?;
        ensure!(reason.contains("cheapest per packet in trains of 8: "), "{reason}");
        let received = playback.receiver.to_the_end(Deadline::seconds(10.0))?;
        ensure_bytes(&received, &std::fs::read(&clip)?).with_context(|| {
            format!("by {cheapest}; the server says {}", server.status().unwrap_or_default())
        })?;
    }
    Ok(())
}

/// Promise: The status shows the data path in use and the reason for it.
/// Promise: The server takes the cheapest measured path that works, unless an option names another.
fn the_path_in_use_is_shown() -> Result<()> {
    let server = Server::of(clips::folder(&[("clip.ts", &clips::constant(2)?)])?.path()).start()?;
    let shown = &server.status()?["data_path"];
    ensure!(shown["name"] == "wire_sendfile", "{shown}");
    let reason = shown["reason"].as_str().context("no reason")?;
    ensure!(
        reason.contains("cheapest per packet in trains of 8: wire_sendfile 100 ns, gso_writev 200 ns"),
        "{reason}"
    );
    ensure!(shown["calibrations"][0]["costs"][3]["cpu_ns_per_packet"] == 400.0, "{shown}");
    Ok(())
}

/// Promise: A server without a calibration for its machine measures for two seconds and stores the
/// calibration.
fn a_first_start_measures_and_keeps_it() -> Result<()> {
    let (folder, home) = (clips::folder(&[("clip.ts", &clips::constant(2)?)])?, tempfile::tempdir()?);
    let file = home.path().join("new/costs.json");
    let measuring = ["--calibration", file.to_str().context("UTF-8")?];
    let first = Server::of(folder.path()).with(measuring).start()?;
    let measured = Deadline::seconds(30.0).wait_for("measurement", || {
        Ok(Some(figures(&first)?).filter(|figures| figures["costs"].is_array() && file.exists()))
    })?;
    let costs = measured["costs"].as_array().context("no costs")?;
    for path in ["wire_sendfile", "gso_writev", "sendmmsg", "read_writev"] {
        let of_path = |cost: &&serde_json::Value| cost["path"] == path && cost["packets_per_train"] == 8;
        let cost = costs.iter().find(of_path).with_context(|| format!("no {path} in {measured}"))?;
        ensure!(cost["cpu_ns_per_packet"].as_f64().is_some_and(|ns| ns > 1.0), "{cost}");
    }
    ensure!(measured["device"] == "with_checksums" && measured["mtu"] == 1500, "{measured}");
    ensure!(measured["unix_s"].as_u64() > Some(1_700_000_000), "{measured}");
    drop(first);
    let second = Server::of(folder.path()).with(measuring).start()?;
    ensure!(figures(&second)? == measured, "the second start does not use what the first measured");
    Ok(())
}

fn figures(server: &Server) -> Result<serde_json::Value> {
    Ok(server.status()?["data_path"]["calibrations"][0].clone())
}

/// Promise: A file that is not a calibration is reported by name and not changed.
///
/// Somebody's own file, named by mistake, and what would make a reader wait.
fn what_is_no_calibration_is_left_as_it_is() -> Result<()> {
    let (folder, home) = (clips::folder(&[("clip.ts", &clips::constant(2)?)])?, tempfile::tempdir()?);
    let (text, fifo) = (home.path().join("notes.txt"), home.path().join("fifo"));
    std::fs::write(&text, "{\"version\": 1, \"entr")?;
    process::run("mkfifo", [&fifo], 5.0)?;
    for file in [&text, &fifo] {
        let server =
            Server::of(folder.path()).with(["--calibration", file.to_str().context("UTF-8")?]).start()?;
        for words in ["leaving it unchanged", "cannot store the calibration"] {
            Deadline::seconds(60.0)
                .wait_for("line of the log", || Ok(server.process.log().contains(words).then_some(())))?;
        }
    }
    ensure!(std::fs::read_to_string(&text)? == "{\"version\": 1, \"entr", "the file was changed");
    ensure!(std::fs::symlink_metadata(&fifo)?.file_type().is_fifo(), "the pipe was replaced");
    ensure!(std::fs::read_dir(home.path())?.count() == 2, "something was left beside the files");
    Ok(())
}
