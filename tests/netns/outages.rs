//! Links that fail under sessions.
//!
//! ```text
//!   client                              server
//!   10.77.0.2/24 veth ---------- veth   10.77.0.1/24
//!   other
//!   10.79.0.2/24 veth ---------- second 10.79.0.1/24
//! ```

use std::net::Ipv4Addr;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::interleaved::Interleaved;
use wirepath_tests::namespace::{self, Link, Namespace};
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, http, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        an_interface_down_and_up_interrupts_only_its_sessions,
        a_client_that_vanishes_is_forgotten,
        a_client_over_tcp_that_vanishes_is_forgotten,
    ]
}

/// Promise: An interface that goes down and up interrupts only its own sessions.
fn an_interface_down_and_up_interrupts_only_its_sessions() -> Result<()> {
    let bed = TestBed::new(&[])?;
    let witness = bed.playing(&bed.link.client, namespace::SERVER)?;
    let victim = bed.playing(&bed.other, SECOND)?;
    let came = |playback: &Playback| playback.receiver.received().packets.len();
    bed.link.server.ip("link set second down")?;
    let before = came(&witness);
    let second = |received: &wirepath_tests::rtp::Received| received.packets.len() > before + 380;
    witness.receiver.wait_for("second of media", Deadline::seconds(5.0), second)?;
    let during = came(&victim);
    bed.link.server.ip("link set second up")?;
    let more = |received: &wirepath_tests::rtp::Received| received.packets.len() > during;
    victim.receiver.wait_for("packet after the outage", Deadline::seconds(5.0), more)?;
    let received = victim.receiver.to_the_end(Deadline::seconds(20.0))?;
    ensure!(received.gaps().len() == 1, "one outage made the gaps {:?}", received.gaps());
    ensure!(
        bed.stored.ends_with(&received.payload[received.payload.len() - 188..]),
        "it did not play to the end"
    );
    let received = witness.receiver.to_the_end(Deadline::seconds(20.0))?;
    ensure_bytes(&received, &bed.stored).context("the other session was disturbed")
}

/// Promise: A session stops when its client was silent for the session timeout.
///
/// No goodbye, no answer: only the session's timeout notices.
fn a_client_that_vanishes_is_forgotten() -> Result<()> {
    let bed = TestBed::new(&["--session-timeout", "5s"])?;
    let victim = bed.playing(&bed.other, SECOND)?;
    bed.vanishes(victim)
}

/// Promise: A client over TCP that acknowledges nothing for the session timeout is disconnected.
///
/// One that plays has media in flight, one that was only set up is probed.
fn a_client_over_tcp_that_vanishes_is_forgotten() -> Result<()> {
    for plays in [true, false] {
        let bed = TestBed::new(&["--session-timeout", "5s"])?;
        let victim = bed.other.enter(|| {
            let server = (SECOND, bed.server.rtsp.port()).into();
            let mut client = Interleaved::set_up(server, "clip.ts", None)?;
            if plays {
                client.play(None)?;
                while client.received.packets.is_empty() {
                    client.read()?;
                }
            }
            Ok(client)
        })?;
        bed.vanishes(victim)?;
    }
    Ok(())
}

const SECOND: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 1);

struct TestBed {
    link: Link,
    other: Namespace,
    server: Server,
    stored: Vec<u8>,
    _folder: tempfile::TempDir,
}

impl TestBed {
    fn new(arguments: &[&str]) -> Result<Self> {
        let link = Link::new()?;
        let other = Namespace::new()?;
        namespace::join(&other, "veth", Ipv4Addr::new(10, 79, 0, 2), &link.server, "second", SECOND)?;
        let clip = clips::constant(8)?;
        let folder = clips::folder(&[("clip.ts", &clip)])?;
        let server = Server::of(folder.path()).with(arguments).inside(&link.server, "0.0.0.0").start()?;
        Ok(Self { link, other, server, stored: std::fs::read(&clip)?, _folder: folder })
    }

    /// Cuts the link of a client that is there; the server forgets its session.
    fn vanishes<T>(&self, client: T) -> Result<()> {
        ensure!(self.sessions()? == 1);
        self.other.ip("link set veth down")?;
        let wait = Deadline::seconds(15.0);
        wait.wait_for("the session's end", || Ok((self.sessions()? == 0).then_some(())))?;
        drop(client);
        Ok(())
    }

    fn sessions(&self) -> Result<usize> {
        let address = (namespace::SERVER, self.server.http.port()).into();
        let status = self.link.client.enter(|| http::get(address, "/api/status"))?;
        let status: serde_json::Value = serde_json::from_slice(&status.body)?;
        Ok(status["sessions"].as_array().context("no sessions in the status")?.len())
    }

    fn playing(&self, client: &Namespace, server: Ipv4Addr) -> Result<Playback> {
        let mut playback =
            Playback::set_up_inside(client, (server, self.server.rtsp.port()).into(), "clip.ts")?;
        playback.play(None)?;
        playback
            .receiver
            .wait_for("packet", Deadline::seconds(10.0), |received| !received.packets.is_empty())?;
        Ok(playback)
    }
}
