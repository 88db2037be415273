//! Starting, stopping and going on elsewhere, by `Range: npt=` (RFC 2326 sections 3.6, 10.5, 10.6 and
//! appendix B).

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::hot::wait_for_path;
use wirepath_tests::playback::{Playback, announced, ensure_bytes};
use wirepath_tests::rtp::Received;
use wirepath_tests::seek::{random_access_point_before, seek_twice};
use wirepath_tests::server::{Server, calibration};
use wirepath_tests::{Deadline, clips, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_seek_begins_at_the_random_access_point_before,
        // Packets as they are stored cannot carry numbers that go on.
        wire_sendfile_seeks_to_the_right_byte => || seek_by("wire_sendfile", "gso_writev"),
        gso_writev_seeks_to_the_right_byte => || seek_by("gso_writev", "gso_writev"),
        sendmmsg_seeks_to_the_right_byte => || seek_by("sendmmsg", "sendmmsg"),
        read_writev_seeks_to_the_right_byte => || seek_by("read_writev", "read_writev"),
        what_a_seek_changes_of_the_path_is_set_up,
        numbers_continue_after_a_seek,
        a_pause_is_silent_and_playing_resumes_where_it_was,
        a_range_with_an_end_ends_there,
        a_range_beyond_the_end_is_refused,
    ]
}

const SECONDS: u32 = 8;

/// Promise: A seek starts at the random access point at or before the time, or exactly there if none is
/// needed.
fn a_seek_begins_at_the_random_access_point_before() -> Result<()> {
    let bed = TestBed::new(&[])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    let answer = playback.play(Some("npt=4.3-"))?;
    let range = answer.header("range").context("no Range in the answer")?;
    let start: f64 = range.trim_start_matches("npt=").split('-').next().unwrap_or_default().parse()?;
    let received = playback.receiver.to_the_end(Deadline::seconds(15.0))?;
    let offset = random_access_point_before(&bed.pictures, 4.3)?;
    bed.ensure_from(&received, &offset)?;
    let expected = *offset.end() as f64 * 8.0 / clips::CONSTANT_RATE;
    ensure!((start - expected).abs() < 0.1, "{range} was announced, {expected:.3} s was played");
    Ok(())
}

/// Promise: A seek sends from the right byte through each data path, before and during playback.
///
/// Stored packets leave one by one here, and those with headers of their own as trains, for which the socket
/// must be set up.
fn what_a_seek_changes_of_the_path_is_set_up() -> Result<()> {
    let home = tempfile::tempdir()?;
    let file = home.path().join("costs.json");
    std::fs::write(&file, calibration(&["sendmmsg", "read_writev", "wire_sendfile", "gso_writev"])?)?;
    let bed = TestBed::new(&["--calibration", file.to_str().context("UTF-8")?])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    seek_twice(&mut playback, &bed.stored, &bed.pictures, |seek| {
        wait_for_path(["sendmmsg", "gso_writev"][seek], || bed.server.status())
    })
}

/// Promise: A seek sends from the right byte through each data path, before and during playback.
///
/// Seeks by one data path, and by `then` in a session that has played.
fn seek_by(path: &str, then: &str) -> Result<()> {
    let bed = TestBed::new(&["--path", path])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    seek_twice(&mut playback, &bed.stored, &bed.pictures, |seek| {
        wait_for_path([path, then][seek], || bed.server.status())
    })
}

/// Promise: After a seek, sequence numbers and timestamps continue without a gap (RFC 2326, appendix B).
fn numbers_continue_after_a_seek() -> Result<()> {
    let bed = TestBed::new(&[])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    playback.play(Some("npt=0-"))?;
    playback
        .receiver
        .wait_for("half a second of media", Deadline::seconds(5.0), |received| received.seconds() > 0.5)?;
    // Without a PAUSE the second PLAY would be queued behind the first (RFC 2326 section 10.5).
    playback.pause()?;
    let (sequence, timestamp) = announced(&playback.play(Some("npt=5.5-"))?)?;
    let received = playback.receiver.to_the_end(Deadline::seconds(15.0))?;
    ensure!(received.gaps().is_empty(), "gaps {:?}", received.gaps());
    let ssrc = received.packets[0].ssrc;
    ensure!(received.packets.iter().all(|packet| packet.ssrc == ssrc), "the SSRC changed");
    let index = received.packets.iter().position(|packet| packet.sequence == sequence);
    let index = index.context("the packet announced after the seek did not come")?;
    let (before, after) = (&received.packets[index - 1], &received.packets[index]);
    ensure!(
        after.timestamp == timestamp,
        "RTP-Info announced timestamp {timestamp}, {} came",
        after.timestamp
    );
    let step = after.timestamp.wrapping_sub(before.timestamp);
    ensure!(step < 90_000, "timestamps jump by {step} ticks");
    let mut rest = received.clone();
    rest.payload = received.payload[after.payload.start..].to_vec();
    bed.ensure_from(&rest, &random_access_point_before(&bed.pictures, 5.5)?)
}

/// Promise: PAUSE stops all packets, and PLAY without a Range resumes.
fn a_pause_is_silent_and_playing_resumes_where_it_was() -> Result<()> {
    let bed = TestBed::new(&[])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    playback.play(None)?;
    playback
        .receiver
        .wait_for("a second of media", Deadline::seconds(5.0), |received| received.seconds() > 1.0)?;
    playback.pause()?;
    ensure!(playback.receiver.falls_silent_within(0.2), "packets came after PAUSE");
    let paused = playback.receiver.received().payload.len();
    ensure!(paused < bed.stored.len() / 2, "half the clip came before PAUSE");
    playback.play(None)?;
    let received = playback.receiver.to_the_end(Deadline::seconds(15.0))?;
    ensure_bytes(&received, &bed.stored)
}

/// Promise: `Range: npt=` plays from, up to and between times and from `now`.
fn a_range_with_an_end_ends_there() -> Result<()> {
    let bed = TestBed::new(&[])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    playback.play(Some("npt=0-2"))?;
    let received = playback.receiver.to_the_end(Deadline::seconds(5.0))?;
    let expected = (2.0 * clips::CONSTANT_RATE / 8.0) as usize;
    ensure!(bed.stored.starts_with(&received.payload), "other bytes came");
    ensure!(
        received.payload.len().abs_diff(expected) <= 50_000,
        "{} bytes, not {expected}",
        received.payload.len()
    );
    Ok(())
}

fn a_range_beyond_the_end_is_refused() -> Result<()> {
    let bed = TestBed::new(&[])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    let headers = [("Session", playback.session.clone()), ("Range", "npt=3600-".to_owned())];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let answer = playback.client.request("PLAY", &playback.url, &headers)?;
    ensure!(answer.status == 457, "{answer:?}");
    Ok(())
}

/// A server of one clip of a constant rate.
struct TestBed {
    server: Server,
    stored: Vec<u8>,
    pictures: Vec<clips::Picture>,
    _folder: tempfile::TempDir,
}

impl TestBed {
    fn new(arguments: &[&str]) -> Result<Self> {
        let clip = clips::constant(SECONDS)?;
        let folder = clips::folder(&[("clip.ts", &clip)])?;
        let server = Server::of(folder.path()).with(arguments).packed().start()?;
        let (stored, pictures) = (std::fs::read(&clip)?, clips::pictures(&clip)?);
        Ok(Self { server, stored, pictures, _folder: folder })
    }

    /// Ensures that the received bytes are the rest of the file from one of these offsets.
    fn ensure_from(&self, received: &Received, offsets: &std::ops::RangeInclusive<u64>) -> Result<()> {
        let came = received.payload.len();
        let start = self.stored.len().checked_sub(came).context("more came than is stored")? as u64;
        ensure!(
            offsets.contains(&start) && start.is_multiple_of(188),
            "began at byte {start}, not in {offsets:?}"
        );
        ensure!(self.stored.ends_with(&received.payload), "the bytes differ");
        Ok(())
    }
}
