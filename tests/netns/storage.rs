//! A disk that is full. No network is involved, but only root can make so small a disk.
//!
//! ```text
//!   cache: tmpfs of 4 MiB        served: small.ts (1 MB)  large.ts (30 MB)
//! ```

use std::path::Path;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::process::{self, is_root};
use wirepath_tests::rtsp::Refused;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![a_full_disk_while_packing_is_reported]
}

fn a_full_disk_while_packing_is_reported() -> Result<()> {
    let cache = SmallDisk::mount()?;
    let (small, large) = (clips::constant(2)?, clips::constant(60)?);
    let folder = clips::folder(&[("small.ts", &small), ("large.ts", &large)])?;
    let server = Server::of(folder.path()).cache(cache.folder.path()).start()?;
    let mut witness = Playback::set_up(server.rtsp, "small.ts")?;
    witness.play(None)?;
    let refused = play_too_much(&server)?;
    ensure_bytes(&witness.receiver.to_the_end(Deadline::seconds(10.0))?, &std::fs::read(&small)?)
        .context("the other session was disturbed")?;
    ensure!(refused.is_none_or(|status| status >= 400), "{refused:?}");
    Deadline::seconds(5.0).wait_for("the reason in the log", || {
        let log = server.process.log();
        ensure!(!log.contains("panicked"), "{log}");
        Ok((log.contains("large.ts") && log.contains("space")).then_some(()))
    })?;
    ensure_bytes(&Playback::whole(server.rtsp, "small.ts", 10.0)?, &std::fs::read(&small)?)
}

/// Asks for what cannot be packed. It may be refused at any request, or end early once the disk is full.
fn play_too_much(server: &Server) -> Result<Option<u16>> {
    let started = Playback::set_up(server.rtsp, "large.ts").and_then(|mut playback| {
        playback.play(None)?;
        Ok(playback)
    });
    match started {
        Ok(playback) => playback.receiver.to_the_end(Deadline::seconds(20.0)).map(|_| None),
        Err(error) => error.downcast::<Refused>().map(|refused| Some(refused.response.status)),
    }
}

struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Result<Self> {
        require!(is_root(), "mounting needs root");
        let folder = tempfile::tempdir()?;
        let path = folder.path().to_str().context("a folder's name")?;
        let mounted = process::run("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", path], 5.0);
        require!(mounted.is_ok(), "mounting is not permitted here");
        Ok(Self { folder })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The server may still hold it; then it goes when that is killed.
        process::run("umount", [Path::new("-l"), self.path()], 5.0).ok();
    }
}
