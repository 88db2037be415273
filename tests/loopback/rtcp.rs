//! Reports in both directions (RFC 3550 section 6).

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::playback::Playback;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![sender_reports_come_and_fit_the_packets, a_bye_ends_the_session, receiver_reports_are_counted]
}

/// Promise: A sender report leaves every 5 s, and a BYE at the end.
fn sender_reports_come_and_fit_the_packets() -> Result<()> {
    let (_folder, _server, mut playback) = playing(12)?;
    playback.play(None)?;
    let two = |received: &wirepath_tests::rtp::Received| received.reports.len() >= 2;
    let received = playback.receiver.wait_for("second sender report", Deadline::seconds(12.0), two)?;
    let [first, second] = received.reports[..2] else { unreachable!("there are two") };
    let apart = (second.arrival - first.arrival).as_secs_f64();
    ensure!((4.5..5.5).contains(&apart), "reports {apart:.2} s apart");
    ensure!(first.ssrc == playback.ssrc()?, "another SSRC");
    // Its timestamp is that of the moment of sending: close to that of the packet that came last.
    let packet =
        received.packets.iter().rfind(|packet| packet.arrival <= second.arrival).context("no packet")?;
    let distance = second.timestamp.wrapping_sub(packet.timestamp).cast_signed();
    ensure!(distance.abs() < 9_000, "the report is {distance} ticks off");
    let before = received.packets.iter().filter(|packet| packet.arrival <= second.arrival).count();
    ensure!(
        before.abs_diff(second.packets as usize) <= 96,
        "{} packets reported, {before} came",
        second.packets
    );
    Ok(())
}

/// Promise: A sender report leaves every 5 s, and a BYE at the end.
fn a_bye_ends_the_session() -> Result<()> {
    let (_folder, _server, mut playback) = playing(2)?;
    playback.play(None)?;
    playback.receiver.to_the_end(Deadline::seconds(10.0))?;
    Ok(())
}

/// Promise: Receiver reports are read and counted.
///
/// A report of one block: 25 of 256 packets lost of late, 1,000 in all.
fn receiver_reports_are_counted() -> Result<()> {
    let (_folder, server, mut playback) = playing(12)?;
    playback.play(None)?;
    let some = |received: &wirepath_tests::rtp::Received| !received.packets.is_empty();
    playback.receiver.wait_for("packet", Deadline::seconds(5.0), some)?;
    let mut report = vec![0x81, 201, 0, 7, 0, 0, 0, 1];
    report.extend(playback.ssrc()?.to_be_bytes());
    report.extend([25, 0, 0x03, 0xe8]);
    report.extend([0; 16]);
    let port = playback.server_port(1)?;
    playback.receiver.send_rtcp(&report, (server.rtsp.ip(), port).into())?;
    Deadline::seconds(5.0).wait_for("the loss in /api/status", || {
        let text = server.status()?.to_string();
        Ok(text.contains("1000").then_some(()))
    })
}

fn playing(seconds: u32) -> Result<(tempfile::TempDir, Server, Playback)> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(seconds)?)])?;
    let server = Server::of(folder.path()).start()?;
    let playback = Playback::set_up(server.rtsp, "clip.ts")?;
    Ok((folder, server, playback))
}
