//! Pipes of `wirepath relay`, observed from outside.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use wirepath_tests::process::is_root;
use wirepath_tests::{require, trials};

use crate::relay::random_bytes;
use crate::relay_faults::rig::Rig;

pub(crate) fn trials() -> Vec<Trial> {
    trials![an_output_whose_pipe_is_short_gets_every_byte, a_mirror_of_many_keeps_its_pipes_at_a_pause]
}

/// Room of the pipes that bytes are moved through.
const ROOM: usize = 1 << 20;

/// A mirror, who feeds it and who gets what it is fed.
struct Mirror {
    rig: Rig,
    feed: UnixStream,
    peers: Vec<UnixStream>,
}

impl Mirror {
    fn start(outputs: usize) -> Result<Mirror> {
        let mut rig = Rig::new()?;
        let listeners =
            (0..outputs).map(|number| rig.outlet(&format!("out-{number}"))).collect::<Result<Vec<_>>>()?;
        let arguments: Vec<&str> = listeners.iter().flat_map(|(address, _)| ["--out", address]).collect();
        let feed = rig.start_with_inlet(&arguments)?;
        let accept = |(_, listener): &(String, std::os::unix::net::UnixListener)| -> Result<UnixStream> {
            let peer = listener.accept()?.0;
            peer.set_read_timeout(Some(Duration::from_secs(60)))?;
            Ok(peer)
        };
        let peers = listeners.iter().map(accept).collect::<Result<Vec<_>>>()?;
        Ok(Mirror { rig, feed, peers })
    }

    /// Sends so much and waits until all have it.
    fn pass(&mut self, bytes: usize) -> Result<()> {
        let sent = random_bytes(bytes);
        self.feed.write_all(&sent)?;
        let mut received = vec![0; bytes];
        for (number, peer) in self.peers.iter_mut().enumerate() {
            peer.read_exact(&mut received).with_context(|| format!("output {number}"))?;
            ensure!(received == sent, "output {number} got other bytes");
        }
        Ok(())
    }

    /// The pipes that bytes are moved through: what tells one from others, and where it can be opened.
    fn pipes(&mut self) -> Result<Vec<(String, PathBuf)>> {
        let folder = format!("/proc/{}/fd", self.rig.process()?.pid());
        let mut pipes = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            // One that was closed meanwhile is none.
            let Ok(name) = std::fs::read_link(&path) else { continue };
            let name = name.display().to_string();
            if name.starts_with("pipe:")
                && let Ok(pipe) = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())
                && fcntl_getpipe_size(pipe)? == ROOM
            {
                pipes.push((name, path));
            }
        }
        Ok(pipes)
    }

    fn names(&mut self) -> Result<BTreeSet<String>> {
        Ok(self.pipes()?.into_iter().map(|(name, _)| name).collect())
    }
}

/// Promise: An output whose pipe has too little room gets the remaining bytes by a copy.
///
/// `tee` gives no more than there is room for. What it does not is neither lost nor a reason to lose the
/// output.
fn an_output_whose_pipe_is_short_gets_every_byte() -> Result<()> {
    let mut mirror = Mirror::start(2)?;
    mirror.pass(20_000)?;
    let pipes = mirror.pipes()?;
    require!(!pipes.is_empty(), "this user's pipes have less than a mebibyte of room");
    fcntl_setpipe_size(
        rustix::fs::open(&pipes[0].1, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?,
        4096,
    )?;
    // The outputs change pipes at each pause: it is the short one's turn in some of these, and what comes in
    // pieces may fit even there.
    const PASSES: u64 = 20;
    for _ in 0..PASSES {
        mirror.pass(20_000)?;
    }
    let Mirror { mut rig, feed, peers } = mirror;
    drop(feed);
    let (report, _) = rig.end(0)?;
    drop(peers);
    let bytes = 20_000 * (1 + PASSES);
    ensure!(report["bytes_in"] == bytes && report["bytes_out"] == 2 * bytes, "{report}");
    ensure!(
        report["bytes_zero_copy"].as_u64().is_some_and(|unseen| unseen < bytes),
        "nothing was short: {report}"
    );
    ensure!(report["gone_outputs"]["failed"] == 0, "{report}");
    Ok(())
}

/// Promise: A mirror of many outputs keeps its pipes during pauses.
///
/// To open and close pipes costs more than what goes through them in small pieces.
fn a_mirror_of_many_keeps_its_pipes_at_a_pause() -> Result<()> {
    const OUTPUTS: usize = 40;
    require!(is_root(), "other users may have some 64 pipes of a mebibyte, all their processes together");
    let mut mirror = Mirror::start(OUTPUTS)?;
    mirror.pass(1000)?;
    let before = mirror.names()?;
    ensure!(before.len() == OUTPUTS, "{} pipes for {OUTPUTS} outputs", before.len());
    for _ in 0..10 {
        mirror.pass(1000)?;
        ensure!(mirror.names()? == before, "pipes were closed and opened");
    }
    let Mirror { mut rig, feed, peers } = mirror;
    drop(feed);
    let (report, _) = rig.end(0)?;
    drop(peers);
    ensure!(report["bytes_zero_copy"] == 11_000, "{report}");
    Ok(())
}
