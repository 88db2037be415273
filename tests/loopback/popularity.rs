//! Plays count after a restart.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use wirepath_tests::playback::Playback;
use wirepath_tests::process;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![plays_are_counted_over_restarts]
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

fn plays_of(server: &Server) -> Result<Option<u64>> {
    let status = server.status()?;
    let assets = status["assets"].as_array().with_context(|| format!("no assets in {status}"))?;
    let clip = assets.iter().find(|asset| asset["name"] == "clip.ts");
    Ok(clip.and_then(|asset| asset["plays"].as_u64()))
}
