//! Images in hot memory, over links: what is sent by reference waits in queues that loopback does not have.
//!
//! ```text
//!   client                              server
//!   10.77.0.2/24 veth ---------- veth 10.77.0.1/24
//!                                  (slower than the stream, or without checksums)
//! ```

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::json;
use wirepath_tests::hot::{counted, require_ring, wait_for_path};
use wirepath_tests::namespace::{Link, SERVER};
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        wire_uring_crosses_a_link,
        a_link_that_is_too_slow_loses_nothing,
        without_checksums_a_copy_is_cheaper,
        what_the_kernel_copies_is_given_up,
    ]
}

/// Promise: Through each data path, a receiver gets every packet in order, and the payloads equal the file.
fn wire_uring_crosses_a_link() -> Result<()> {
    let bed = TestBed::new(&[])?;
    bed.wait_until_hot()?;
    let before = bed.status()?;
    let mut playback = bed.playing()?;
    ensure_bytes(&playback.receiver.to_the_end(Deadline::seconds(15.0))?, &bed.stored)?;
    let after = bed.status()?;
    let more = |name| Ok::<_, anyhow::Error>(counted(&after, name)? - counted(&before, name)?);
    ensure!(more("trains")? == more("batches")?, "{} trains, {} calls", more("trains")?, more("batches")?);
    playback.ask("TEARDOWN").map(drop)
}

/// Promise: A train that a full socket refuses is sent later; no train is lost or sent twice.
///
/// A queue that empties slower than it is filled: sockets are full again and again, trains are handed back
/// and sent later.
fn a_link_that_is_too_slow_loses_nothing() -> Result<()> {
    let bed = TestBed::new(&[])?;
    bed.wait_until_hot()?;
    // Below the clip's 4 Mb/s; the queue is longer than what a socket may have in it.
    bed.link.server.run("tc qdisc add dev veth root tbf rate 3mbit burst 16kb limit 4mb")?;
    let playback = bed.playing()?;
    let received = playback.receiver.to_the_end(Deadline::seconds(30.0))?;
    ensure_bytes(&received, &bed.stored)?;
    let status = bed.status()?;
    ensure!(counted(&status, "sockets_full")? > 0, "no socket was ever full, so this shows nothing");
    ensure!(counted(&status, "packets_lost")? == 0);
    Ok(())
}

fn without_checksums_a_copy_is_cheaper() -> Result<()> {
    let bed = TestBed::new(&["ethtool -K veth tx off"])?;
    let playback = bed.playing()?;
    wait_for_path("gso_writev", || bed.status())?;
    ensure_bytes(&playback.receiver.to_the_end(Deadline::seconds(15.0))?, &bed.stored)
}

/// Promise: Default hot memory is not used for receivers whose trains the kernel copies.
///
/// Receivers at the other end of a veth pair are such. Each of them gets some trains from there, and the rest
/// from the file.
fn what_the_kernel_copies_is_given_up() -> Result<()> {
    let bed = TestBed::with(&["--images", "all"], &[])?;
    let hot = bed.status()?["hot_memory"].clone();
    require!(!hot.is_null(), "no hot memory by itself here: too little memory, or a kernel before Linux 6.2");
    ensure!(hot["automatic"] == true, "{hot}");
    bed.play_whole()?;
    let mut playbacks = (0..SESSIONS).map(|_| bed.session()).collect::<Result<Vec<_>>>()?;
    bed.wait_for_hot_memory()?;
    playbacks.iter_mut().try_for_each(|playback| playback.play(None).map(drop))?;
    for playback in &playbacks {
        ensure_bytes(&playback.receiver.to_the_end(Deadline::seconds(20.0))?, &bed.stored)?;
    }
    let reason = || Ok(bed.status()?["hot_memory"]["given_up"].as_str().map(str::to_owned));
    let reason = Deadline::seconds(10.0).wait_for("the end of hot memory", reason)?;
    ensure!(reason.contains("the kernel copied"), "{reason}");
    let status = bed.status()?;
    ensure!(status["warnings"].as_array().is_some_and(Vec::is_empty), "{}", status["warnings"]);
    ensure!(counted(&status, "trains_copied")? > 0 && status["hot_memory"]["images"] == json!([]));
    let (lent, trains) = (counted(&status, "trains_lent")?, counted(&status, "trains")?);
    ensure!(lent < trains / 2, "{lent} of {trains} trains were lent");
    Ok(())
}

/// Sessions that are enough for hot memory to be used, and judged.
const SESSIONS: usize = 40;

struct TestBed {
    link: Link,
    server: Server,
    stored: Vec<u8>,
    _folder: tempfile::TempDir,
}

impl TestBed {
    /// Two namespaces and a server with hot memory; the commands set up the server's end.
    fn new(commands: &[&str]) -> Result<Self> {
        require_ring()?;
        Self::with(&["--hot-memory", "64MiB"], commands)
    }

    /// The same with a server of these arguments.
    fn with(arguments: &[&str], commands: &[&str]) -> Result<Self> {
        let link = Link::new()?;
        for command in commands {
            link.server.run(command)?;
        }
        let clip = clips::constant(6)?;
        let folder = clips::folder(&[("clip.ts", &clip)])?;
        let server = Server::of(folder.path()).with(arguments);
        let server = server.inside(&link.server, &SERVER.to_string()).start()?;
        Ok(Self { link, server, stored: std::fs::read(&clip)?, _folder: folder })
    }

    fn session(&self) -> Result<Playback> {
        Playback::set_up_inside(&self.link.client, self.server.rtsp, "clip.ts")
    }

    fn playing(&self) -> Result<Playback> {
        let mut playback = self.session()?;
        playback.play(None)?;
        Ok(playback)
    }

    fn status(&self) -> Result<serde_json::Value> {
        self.link.client.enter(|| self.server.status())
    }

    /// Has the image held.
    fn wait_until_hot(&self) -> Result<()> {
        self.play_whole()?;
        let mut playback = self.session()?;
        self.wait_for_hot_memory()?;
        playback.ask("TEARDOWN")?;
        let over = || Ok(self.status()?["sessions"].as_array().is_some_and(Vec::is_empty).then_some(()));
        Deadline::seconds(5.0).wait_for("the end of the session", over)
    }

    /// Plays the clip to its end, after which its image is complete.
    fn play_whole(&self) -> Result<()> {
        let mut playback = self.playing()?;
        playback.receiver.to_the_end(Deadline::seconds(15.0))?;
        playback.ask("TEARDOWN").map(drop)
    }

    fn wait_for_hot_memory(&self) -> Result<()> {
        let is_held = || {
            let images = self.status()?["hot_memory"]["images"].clone();
            Ok(images.as_array().is_some_and(|images| !images.is_empty()).then_some(()))
        };
        Deadline::seconds(30.0).wait_for("the image in hot memory", is_held)
    }
}
