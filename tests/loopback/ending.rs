//! End of a server: in order, at once, and while storage hangs.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use wirepath_tests::playback::Playback;
use wirepath_tests::process::{Process, find};
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::{self, Server};
use wirepath_tests::{Deadline, clips, http, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        the_first_sigterm_drains,
        the_second_sigterm_ends_at_once,
        draining_ends_after_ten_seconds,
        storage_that_does_not_answer_keeps_nobody_from_leaving,
    ]
}

/// Exit code of a server that did not wait for all it had begun.
const CUT: Option<i32> = Some(3);

/// Promise: SIGTERM drains for at most 10 s: RTCP BYE to every session, responses completed; otherwise exit
/// code 3.
fn the_first_sigterm_drains() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(60)?)])?;
    let mut server = Server::of(folder.path()).start()?;
    let mut playback = Playback::set_up(server.rtsp, "clip.ts")?;
    playback.play(None)?;
    playback.receiver.wait_for("packet", Deadline::seconds(10.0), |received| !received.packets.is_empty())?;
    server.process.signal(Signal::TERM)?;
    playback.receiver.to_the_end(Deadline::seconds(5.0))?;
    ensure!(server.process.wait(Deadline::seconds(11.0))?.success(), "{}", server.process.log());
    ensure!(playback.client.is_closed_within(Duration::from_secs(1))?);
    Ok(())
}

/// Promise: A second SIGTERM ends the server at once.
///
/// A download that nobody reads keeps the server draining; the second signal does not wait for it.
fn the_second_sigterm_ends_at_once() -> Result<()> {
    let mut draining = Draining::new()?;
    draining.server.process.signal(Signal::TERM)?;
    let status = draining.server.process.wait(Deadline::seconds(1.0))?;
    ensure!(status.code() == CUT, "{status}");
    Ok(())
}

/// Promise: SIGTERM drains for at most 10 s: RTCP BYE to every session, responses completed; otherwise exit
/// code 3.
fn draining_ends_after_ten_seconds() -> Result<()> {
    let mut draining = Draining::new()?;
    let status = draining.server.process.wait(Deadline::seconds(13.0))?;
    let took = draining.told.elapsed();
    ensure!(status.code() == CUT, "{status}");
    ensure!(took >= Duration::from_secs(10), "it waited for {took:?} only");
    Ok(())
}

/// Promise: Storage that does not answer blocks neither other requests nor the shutdown of the server.
///
/// An `open` of a file under a lease waits until its holder releases it, or 45 s
/// (`/proc/sys/fs/lease-break-time`): the thread that opens an image does, as it would for storage that
/// hangs.
fn storage_that_does_not_answer_keeps_nobody_from_leaving() -> Result<()> {
    require!(find("perl").is_some(), "perl, which takes a lease, is not installed");
    let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
    let mut server = Server::of(folder.path()).start()?;
    let cache = server.cache.to_str().context("UTF-8")?;
    let clip = folder.path().join("clip.ts");
    let packed = Command::new(server::binary()?).args(["pack", "--cache", cache]).arg(clip).output()?;
    ensure!(packed.status.success(), "{packed:?}");
    let image = std::fs::read_dir(&server.cache)?.next().context("no image")??.path();
    let lease = Lease::take(&image)?;
    let mut waiting = Client::connect(server.rtsp)?;
    waiting.send("DESCRIBE", &server.rtsp_url("clip.ts"), &[])?;
    lease.said("asked")?;
    ensure!(server.sessions()? == 0 && http::get(server.http, "/clip.ts")?.status == 200);
    server.process.signal(Signal::TERM)?;
    wait_for_closed(server.http)?;
    ensure!(server.process.is_running()?, "it did not wait for the answer");
    server.process.signal(Signal::TERM)?;
    let status = server.process.wait(Deadline::seconds(10.0))?; // far below the lease
    ensure!(status.code() == CUT, "{status}");
    Ok(())
}

/// A server that was told to end and cannot: nobody reads a download.
struct Draining {
    server: Server,
    told: Instant,
    _download: TcpStream,
    _folder: tempfile::TempDir,
}

impl Draining {
    fn new() -> Result<Draining> {
        let folder = clips::folder(&[("clip.ts", &clips::constant(60)?)])?;
        let mut server = Server::of(folder.path()).start()?;
        let mut download = http::connect(server.http)?;
        write!(download, "GET /clip.ts HTTP/1.1\r\nHost: a\r\n\r\n")?;
        ensure!(download.peek(&mut [0])? == 1);
        let told = Instant::now();
        server.process.signal(Signal::TERM)?;
        wait_for_closed(server.http)?;
        ensure!(server.process.is_running()?, "it did not wait for the download");
        Ok(Draining { server, told, _download: download, _folder: folder })
    }
}

fn wait_for_closed(address: SocketAddr) -> Result<()> {
    Deadline::seconds(5.0).wait_for("closed listeners", || Ok(http::connect(address).is_err().then_some(())))
}

/// The right to be asked before anybody opens a file, held by a process of its own.
struct Lease(Process);

impl Lease {
    fn take(file: &std::path::Path) -> Result<Lease> {
        // fcntl(2): F_SETLEASE is 1024, F_WRLCK is 1; SIGIO asks for it back.
        const SCRIPT: &str = "$| = 1; $SIG{IO} = sub { print qq(asked\\n) }; open(my $file, '+<', $ARGV[0]) or die; \
                              fcntl($file, 1024, 1) or print qq(refused: $!\\n); print qq(held\\n); sleep 100 while 1";
        let lease = Lease(Process::start(Command::new("perl").args(["-e", SCRIPT]).arg(file), true)?);
        let log = lease.said("held")?;
        require!(!log.contains("refused"), "no lease is to be had here: {log}");
        Ok(lease)
    }

    fn said(&self, word: &str) -> Result<String> {
        let said = || Ok(Some(self.0.log()).filter(|log| log.contains(word)));
        Deadline::seconds(10.0).wait_for(word, said).with_context(|| self.0.log())
    }
}
