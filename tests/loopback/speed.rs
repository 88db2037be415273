//! The `Speed` of PLAY (RFC 2326 section 12.35).

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::http::Response;
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        the_same_packets_come_faster,
        a_speed_out_of_range_is_the_nearest,
        reports_tell_the_speed_of_timestamps,
        a_speed_is_changed_while_playing,
    ]
}

/// Promise: At a Speed of 0.25 to 8, the same packets leave faster or slower by that factor, timestamps
/// unchanged.
fn the_same_packets_come_faster() -> Result<()> {
    let bed = TestBed::new(8)?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    let answer = play_at(&mut playback, "4")?;
    ensure!(answer.header("speed") == Some("4.0"), "{answer:?}");
    let received = playback.receiver.to_the_end(Deadline::seconds(15.0))?;
    ensure_bytes(&received, &bed.stored)?;
    let (first, last) = (&received.packets[0], &received.packets[received.packets.len() - 1]);
    let recorded = f64::from(last.timestamp.wrapping_sub(first.timestamp)) / 90_000.0;
    ensure!((7.5..8.5).contains(&recorded), "{recorded} s by timestamps");
    let took = took(&received.packets)?;
    ensure!((1.7..4.0).contains(&took), "8 s came in {took} s at Speed 4");
    Ok(())
}

/// Promise: A Speed out of range is answered with the nearest supported one, 0.25 to 8.
fn a_speed_out_of_range_is_the_nearest() -> Result<()> {
    let bed = TestBed::new(8)?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    for (asked, granted) in [("0.001", "0.25"), ("100", "8.0"), ("1", "1.0"), ("1.5", "1.5")] {
        let answer = play_at(&mut playback, asked)?;
        ensure!(answer.header("speed") == Some(granted), "{asked}: {answer:?}");
    }
    let status = bed.server.status()?;
    let speed = &status["sessions"][0]["speed"];
    ensure!(*speed == 1.5, "the status has a Speed of {speed}");
    Ok(())
}

/// Promise: At any Speed, sender reports map the current time to the timestamps of packets that leave then.
fn reports_tell_the_speed_of_timestamps() -> Result<()> {
    let bed = TestBed::new(8)?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    play_at(&mut playback, "0.5")?;
    let two = |received: &wirepath_tests::rtp::Received| received.reports.len() >= 2;
    let received = playback.receiver.wait_for("second sender report", Deadline::seconds(12.0), two)?;
    let [first, second] = received.reports[..2] else { unreachable!("there are two") };
    let apart = (second.arrival - first.arrival).as_secs_f64();
    let ticks = f64::from(second.timestamp.wrapping_sub(first.timestamp));
    let rate = ticks / apart / 90_000.0;
    ensure!((0.48..0.52).contains(&rate), "timestamps grow by {rate} s in a second by the reports");
    let packet =
        received.packets.iter().rfind(|packet| packet.arrival <= second.arrival).context("no packet")?;
    let distance = second.timestamp.wrapping_sub(packet.timestamp).cast_signed();
    ensure!(distance.abs() < 9_000, "the report is {distance} ticks off");
    Ok(())
}

/// Promise: A change of Speed during playback loses and repeats no packet.
fn a_speed_is_changed_while_playing() -> Result<()> {
    let bed = TestBed::new(8)?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    playback.play(None)?;
    for (speed, seconds) in [("3", 0.5), ("0.5", 1.0), ("8", 1.5)] {
        let enough = |received: &wirepath_tests::rtp::Received| received.seconds() > seconds;
        playback.receiver.wait_for("media", Deadline::seconds(10.0), enough)?;
        play_at(&mut playback, speed)?;
    }
    let received = playback.receiver.to_the_end(Deadline::seconds(15.0))?;
    ensure_bytes(&received, &bed.stored)
}

/// Asks to play at a Speed.
fn play_at(playback: &mut Playback, speed: &str) -> Result<Response> {
    let headers = [("Session", playback.session.as_str()), ("Speed", speed)];
    playback.client.succeed("PLAY", &playback.url, &headers)
}

/// Time in seconds in which packets came.
fn took(packets: &[wirepath_tests::rtp::Packet]) -> Result<f64> {
    let (first, last) = packets.first().zip(packets.last()).context("nothing came")?;
    Ok((last.arrival - first.arrival).as_secs_f64())
}

/// A server of one clip of a constant rate.
struct TestBed {
    server: Server,
    stored: Vec<u8>,
    _folder: tempfile::TempDir,
}

impl TestBed {
    fn new(seconds: u32) -> Result<Self> {
        let clip = clips::constant(seconds)?;
        let folder = clips::folder(&[("clip.ts", &clip)])?;
        let server = Server::of(folder.path()).packed().start()?;
        Ok(Self { server, stored: std::fs::read(&clip)?, _folder: folder })
    }
}
