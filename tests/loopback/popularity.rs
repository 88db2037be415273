//! Plays count after a restart.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value as Json;
use wirepath_tests::playback::Playback;
use wirepath_tests::process;
use wirepath_tests::server::{Builder, Server};
use wirepath_tests::{Deadline, clips, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![plays_are_counted_over_restarts, assets_of_other_folders_are_not_listed]
}

/// Promise: Play counts of assets survive restarts; damaged files in the cache folder are logged and ignored.
fn plays_are_counted_over_restarts() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
    let cache = process::open_folder()?;
    for plays in 1..=2 {
        let mut server = Server::of(folder.path()).cache(cache.path()).start()?;
        Playback::whole(server.rtsp, "clip.ts", 20.0)?;
        ensure!(plays_of(&server)? == Some(plays), "start {plays}: {:?} plays", plays_of(&server)?);
        server.process.signal(Signal::TERM)?;
        server.process.wait(Deadline::seconds(15.0))?;
    }
    std::fs::write(cache.path().join("popularity.json"), "{")?;
    let server = Server::of(folder.path()).cache(cache.path()).start()?;
    Deadline::seconds(10.0).wait_for("a line of the log", || {
        Ok(server.process.log().contains("cannot read the popularity of assets").then_some(()))
    })?;
    ensure!(plays_of(&server)?.is_none(), "{:?} plays", plays_of(&server)?);
    Playback::whole(server.rtsp, "clip.ts", 20.0).map(drop)
}

/// Promise: The status lists assets of the served paths only; a cache folder keeps the play counts of others.
fn assets_of_other_folders_are_not_listed() -> Result<()> {
    let clip = clips::constant(2)?;
    let one = clips::folder(&[("clip.ts", &clip)])?;
    let other = clips::folder(&[("other.ts", &clip), ("new/clip.ts", &clip)])?;
    let configuration = other.path().join("wirepath.toml");
    let serve = |paths: String| std::fs::write(&configuration, format!("paths = [{paths}]\n"));
    let cache = process::open_folder()?;
    let start = |server: Builder<'static>| server.cache(cache.path()).start();
    let stop = |mut server: Server| {
        server.process.signal(Signal::TERM)?;
        server.process.wait(Deadline::seconds(15.0))
    };
    let server = start(Server::of(one.path()))?;
    Playback::whole(server.rtsp, "clip.ts", 20.0)?;
    stop(server)?;

    serve(format!("{:?}", other.path()))?;
    let start_configured = || start(Server::configured(configuration.to_str().context("a temporary name")?));
    let server = start_configured()?;
    Playback::whole(server.rtsp, "other.ts", 20.0)?;
    ensure!(names(&server)? == ["other.ts"], "{:?}", names(&server)?);
    stop(server)?;

    // No file is open after a restart: only the look-up tells which are listed.
    let server = start_configured()?;
    let lists = |name: &str| {
        let what = format!("a status that lists {name} alone");
        Deadline::seconds(10.0).wait_for(&what, || Ok((names(&server)? == [name]).then_some(())))
    };
    lists("other.ts")?;
    // As the only path, this folder is the root of URLs.
    serve(format!("{:?}", other.path().join("new")))?;
    server.process.signal(Signal::HUP)?;
    lists("clip.ts")?;
    stop(server)?;

    let server = start(Server::of(one.path()))?;
    Deadline::seconds(10.0)
        .wait_for("the assets of the first server", || Ok((names(&server)? == ["clip.ts"]).then_some(())))?;
    ensure!(plays_of(&server)? == Some(1), "{:?} plays", plays_of(&server)?);
    Ok(())
}

fn plays_of(server: &Server) -> Result<Option<u64>> {
    let assets = assets(server)?;
    let clip = assets.iter().find(|asset| asset["name"] == "clip.ts");
    Ok(clip.and_then(|asset| asset["plays"].as_u64()))
}

fn names(server: &Server) -> Result<Vec<String>> {
    let names = assets(server)?.into_iter().map(|asset| asset["name"].as_str().map(str::to_owned));
    names.collect::<Option<_>>().context("an asset without a name")
}

fn assets(server: &Server) -> Result<Vec<Json>> {
    let status = server.status()?;
    status["assets"].as_array().cloned().with_context(|| format!("no assets in {status}"))
}
