//! `wirepath send` on a host whose addresses and interfaces change.
//!
//! ```text
//!   client                              server
//!   10.77.0.2/24 veth ---------- veth 10.77.0.1/24, later 10.77.0.9/24
//! ```

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::namespace::{CLIENT, Link};
use wirepath_tests::process::Process;
use wirepath_tests::rtp::Receiver;
use wirepath_tests::{Deadline, clips, server, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![another_address_of_the_host_ends_no_channel]
}

/// Promise: A sender follows a change of its host's address.
///
/// A connected socket keeps the address that it began with, and so would lose packets from then on.
fn another_address_of_the_host_ends_no_channel() -> Result<()> {
    let link = Link::new()?;
    let receiver = link.client.enter(|| Receiver::bind(Ipv4Addr::UNSPECIFIED.into()))?;
    let cache = tempfile::tempdir()?;
    let mut command = link.server.command(server::binary()?);
    command.args(["send", "--threads", "1", "--loop", "--cache"]).arg(cache.path());
    command.arg(clips::constant(4)?).args(["--to", &format!("rtp://{CLIENT}:{}", receiver.port()?)]);
    let mut process = Process::start(&command, false)?;
    let mut line = String::new();
    BufReader::new(process.take_stdout()?).read_line(&mut line)?;
    ensure!(line.starts_with("ready "), "{line:?}: {}", process.log());
    let more = |than: usize| {
        receiver.wait_for("more packets", Deadline::seconds(20.0), move |received| {
            received.packets.len() > than + 100
        })
    };
    more(0)?;
    link.server.ip("addr del 10.77.0.1/24 dev veth")?;
    Deadline::seconds(20.0)
        .wait_for("the loss in the log", || Ok(process.log().contains("packets are lost").then_some(())))?;
    let during = receiver.received().packets.len();
    link.server.ip("addr add 10.77.0.9/24 dev veth")?;
    let received = more(during)?;
    Deadline::seconds(20.0).wait_for("the end of the loss", || {
        Ok(process.log().contains("packets leave again").then_some(()))
    })?;
    let ssrc = received.packets[0].ssrc;
    ensure!(received.packets.iter().all(|packet| packet.ssrc == ssrc), "another source");
    ensure!(process.is_running()?, "{}", process.log());
    Ok(())
}
