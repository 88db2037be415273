//! Playing to the end, with the clients that people have and with one that looks at every byte.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::hot::wait_for_path;
use wirepath_tests::loss::unless_overloaded;
use wirepath_tests::playback::{Playback, announced, ensure_bytes};
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clients, clips, frames, process, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_minute_takes_a_minute,
        ffmpeg_plays_to_the_end => || unless_overloaded(ffmpeg_plays_to_the_end),
        gstreamer_plays_to_the_end => || unless_overloaded(gstreamer_plays_to_the_end),
        vlc_plays_to_the_end => || unless_overloaded(vlc_plays_to_the_end),
        a_session_has_the_name_of_its_asset,
        every_byte_comes_over_ipv6,
        ffmpeg_plays_over_ipv6 => || unless_overloaded(ffmpeg_plays_over_ipv6),
        wire_sendfile_sends_every_byte => || every_byte_through("wire_sendfile"),
        gso_writev_sends_every_byte => || every_byte_through("gso_writev"),
        sendmmsg_sends_every_byte => || every_byte_through("sendmmsg"),
        read_writev_sends_every_byte => || every_byte_through("read_writev"),
        gso_zerocopy_sends_every_byte => || every_byte_through("gso_zerocopy"),
        mmap_writev_sends_every_byte => || every_byte_through("mmap_writev"),
        read_send_rtp_sends_every_byte => || every_byte_through("read_send_rtp"),
        mmap_send_rtp_sends_every_byte => || every_byte_through("mmap_send_rtp"),
        rtp_sendfile_sends_every_byte => || every_byte_through("rtp_sendfile"),
        a_session_begins_while_its_asset_is_packed,
        a_playback_moves_to_the_image_that_is_made,
        an_asset_plays_without_an_image,
        a_second_start_uses_the_image_of_the_first,
        a_changed_asset_is_packed_again,
    ]
}

/// Promise: ffmpeg plays a clip over RTSP and UDP to the end.
fn ffmpeg_plays_to_the_end() -> Result<()> {
    let clip = clips::constant(6)?;
    let (_folder, server) = serving(&clip)?;
    let home = process::open_folder()?;
    let output = home.path().join("out.ts");
    clients::ffmpeg(&server.rtsp_url("clip.ts"), &output, 25.0)?;
    // ffmpeg passes a picture on when the next begins, so the last one stays inside.
    ensure_pictures(&output, &clip, 1)
}

/// Promise: Sessions over UDP and IPv6 play every byte, and ffmpeg plays movies over IPv6.
fn every_byte_comes_over_ipv6() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder = clips::folder(&[("clip.ts", &clip)])?;
    let server = Server::of(folder.path()).listening_on("[::1]").start()?;
    ensure!(server.rtsp.is_ipv6(), "it listens on {}", server.rtsp);
    ensure_bytes(&Playback::whole(server.rtsp, "clip.ts", 15.0)?, &std::fs::read(&clip)?)
}

/// Promise: Sessions over UDP and IPv6 play every byte, and ffmpeg plays movies over IPv6.
fn ffmpeg_plays_over_ipv6() -> Result<()> {
    let clip = clips::film(6, "libx264", "aac", "mp4")?;
    let folder = clips::folder(&[("film.mp4", &clip)])?;
    let server = Server::of(folder.path()).listening_on("[::1]").start()?;
    let came = frames::decode(&["-rtsp_transport", "udp"], &server.rtsp_url("film.mp4"), 40.0)?;
    let stored = frames::decode(&["-ignore_editlist", "1"], clip.to_str().context("a clip's name")?, 60.0)?;
    ensure!(came.len() == 2, "{} tracks came", came.len());
    frames::ensure_all(&came[0], &stored[0], 1)?;
    frames::ensure_from(&came[1], &stored[1], 1, 1).map(drop)
}

/// Promise: GStreamer plays a clip to the end.
///
/// GStreamer's depayloader passes on what it gets, so the file must come out again.
fn gstreamer_plays_to_the_end() -> Result<()> {
    let clip = clips::constant(6)?;
    let (_folder, server) = serving(&clip)?;
    let home = process::open_folder()?;
    let output = home.path().join("out.ts");
    clients::gstreamer(&server.rtsp_url("clip.ts"), &output, 25.0)?;
    clients::ensure_gstreamer_has(&std::fs::read(&output)?, &std::fs::read(&clip)?)
}

/// Promise: VLC plays a clip to the end, also if its name has capitals and umlauts.
///
/// Debian's VLC changes the letters A to Z of a path into small ones.
fn vlc_plays_to_the_end() -> Result<()> {
    let clip = clips::constant(6)?;
    let folder = clips::folder(&[("Filme/Große Ängste 1.TS", &clip)])?;
    let server = Server::of(folder.path()).start()?;
    let home = process::open_folder()?;
    let output = home.path().join("out.ts");
    let url = server.rtsp_url("Filme/Gro%C3%9Fe%20%C3%84ngste%201.TS");
    clients::vlc(&url, home.path(), &output, 40.0)?;
    // VLC's own output chain leaves out some pictures at its start, from any source.
    ensure_pictures(&output, &clip, 15)
}

/// Promise: The status names the asset of a session as its file is spelled, however the client spells it.
fn a_session_has_the_name_of_its_asset() -> Result<()> {
    let clip = clips::constant(6)?;
    let folder = clips::folder(&[("Filme/Clip.TS", &clip)])?;
    let server = Server::of(folder.path()).start()?;
    let mut playback = Playback::set_up(server.rtsp, "filme/clip.ts")?;
    playback.play(None)?;
    let status = server.status()?;
    let names = [&status["sessions"][0]["asset"], &status["assets"][0]["name"]];
    ensure!(names.iter().all(|name| **name == "Filme/Clip.TS"), "{names:?}");
    Ok(())
}

/// Promise: A transport stream is sent as RTP by RFC 2250: payload type 33, 90 kHz, whole transport packets.
/// Promise: All data paths send the same bytes, with stored, separate and generated headers.
fn every_byte_through(path: &str) -> Result<()> {
    let clip = clips::constant(6)?;
    let folder = clips::folder(&[("clip.ts", &clip)])?;
    let server = Server::of(folder.path()).with(["--path", path]).packed().start()?;
    let mut playback = Playback::set_up(server.rtsp, "clip.ts")?;
    let (sequence, timestamp) = announced(&playback.play(None)?)?;
    let received = playback.receiver.to_the_end(Deadline::seconds(15.0))?;
    ensure_bytes(&received, &std::fs::read(&clip)?)?;
    let first = received.packets.first().context("no packet")?;
    ensure!((first.sequence, first.timestamp) == (sequence, timestamp), "RTP-Info announced another packet");
    let ssrc = playback.ssrc()?;
    ensure!(received.packets.iter().all(|packet| packet.ssrc == ssrc && packet.payload_type == 33));
    let (last, others) = received.packets.split_last().context("no packet")?;
    ensure!(others.iter().all(|packet| packet.payload.len() == 7 * 188), "not 7 transport packets in each");
    ensure!(last.payload.len() % 188 == 0 && last.payload.len() <= 7 * 188);
    Ok(())
}

/// Promise: A clip of 60 s plays in 60 s, within 0.2 s.
fn a_minute_takes_a_minute() -> Result<()> {
    let clip = clips::constant(60)?;
    let folder = clips::folder(&[("clip.ts", &clip)])?;
    // The raw client is silent while it receives, for as long as a session may be by default.
    let server = Server::of(folder.path()).with(["--session-timeout=90s"]).start()?;
    let received = Playback::whole(server.rtsp, "clip.ts", 75.0)?;
    let stored = std::fs::read(&clip)?;
    ensure_bytes(&received, &stored)?;
    // The clip's own length is that of its bytes at its constant rate: 60 s and what the codecs delay.
    let expected = (stored.len() - 7 * 188) as f64 * 8.0 / clips::CONSTANT_RATE;
    let seconds = received.seconds();
    let resyncs = server.status()?["counters"]["playback"]["clock_resyncs"]
        .as_u64()
        .context("no clock_resyncs in the status")?;
    require!(
        resyncs == 0,
        "the machine stood still for a quarter of a second {resyncs} times: {seconds:.3} s"
    );
    ensure!((seconds - expected).abs() <= 0.2, "{seconds:.3} s instead of {expected:.3} s");
    let ends = received.packets.first().zip(received.packets.last()).context("no packet")?;
    let ticks = f64::from(ends.1.timestamp.wrapping_sub(ends.0.timestamp)) / 90_000.0;
    ensure!((ticks - expected).abs() <= 0.2, "timestamps advance by {ticks:.3} s instead of {expected:.3} s");
    Ok(())
}

/// Promise: A session starts while its asset is still being packed.
///
/// The clip is so long that the first packet comes long before it is packed.
fn a_session_begins_while_its_asset_is_packed() -> Result<()> {
    let clip = clips::constant(60)?;
    let folder = process::open_folder()?;
    let long = folder.path().join("long.ts");
    repeat(&clip, 20, &long)?;
    let server = Server::of(folder.path()).start()?;
    let mut playback = Playback::set_up(server.rtsp, "long.ts")?;
    playback.play(None)?;
    let first = |received: &wirepath_tests::rtp::Received| !received.packets.is_empty();
    playback.receiver.wait_for("packet", Deadline::seconds(10.0), first)?;
    let asset = &server.status()?["assets"][0];
    ensure!(asset["state"] == "packing", "{asset}");
    let received = playback.receiver.wait_for("second of media", Deadline::seconds(10.0), |received| {
        received.payload.len() > clips::CONSTANT_RATE as usize / 8
    })?;
    let stored = std::fs::read(&clip)?;
    ensure_bytes(&received, &stored[..received.payload.len()])
}

/// Promise: Playbacks move from the asset to its image between two trains, and packets stay the same.
fn a_playback_moves_to_the_image_that_is_made() -> Result<()> {
    let clip = clips::constant(6)?;
    let folder = clips::folder(&[("clip.ts", &clip)])?;
    let server = Server::of(folder.path()).with(["--images", "all"]).start()?;
    let mut playback = Playback::set_up(server.rtsp, "clip.ts")?;
    playback.play(None)?;
    wait_for_path("gso_writev", || server.status())?;
    wait_for_path("wire_sendfile", || server.status())?;
    let received = playback.receiver.to_the_end(Deadline::seconds(15.0))?;
    ensure!(received.gaps().is_empty(), "gaps {:?}", received.gaps());
    ensure_bytes(&received, &std::fs::read(&clip)?)?;
    let status = server.status()?;
    let counted = &status["counters"]["images"];
    ensure!(counted["indexed"] == 1 && counted["packed"] == 1, "{counted}");
    ensure!(status["assets"][0]["sent_from"] == "image", "{}", status["assets"]);
    Ok(())
}

/// Promise: An asset without a wire image plays from its own bytes, with the same packets as from an image.
fn an_asset_plays_without_an_image() -> Result<()> {
    let clip = clips::variable(3)?;
    let folder = clips::folder(&[("clip.ts", &clip)])?;
    let server = Server::of(folder.path()).with(["--images", "none"]).start()?;
    for path in ["wire_sendfile", "sendmmsg", "read_writev"] {
        let server = Server::of(folder.path()).with(["--images", "none", "--path", path]).start()?;
        let received = Playback::whole(server.rtsp, "clip.ts", 10.0)?;
        ensure_bytes(&received, &std::fs::read(&clip)?).with_context(|| format!("with {path}"))?;
    }
    ensure_bytes(&Playback::whole(server.rtsp, "clip.ts", 10.0)?, &std::fs::read(&clip)?)?;
    let status = server.status()?;
    ensure!(status["assets"][0]["sent_from"] == "asset", "{}", status["assets"]);
    for entry in std::fs::read_dir(&server.cache)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        ensure!(name.ends_with(".index.wpi"), "{name} is in the cache");
    }
    Ok(())
}

fn a_second_start_uses_the_image_of_the_first() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder = clips::folder(&[("clip.ts", &clip)])?;
    let cache = tempfile::tempdir()?;
    let play = || {
        let server = Server::of(folder.path()).cache(cache.path()).start()?;
        Playback::whole(server.rtsp, "clip.ts", 10.0)
    };
    let (first, second) = (play()?, play()?);
    ensure_bytes(&second, &std::fs::read(&clip)?)?;
    // Both are random and chosen when the image is packed.
    let numbers = |received: &wirepath_tests::rtp::Received| {
        received.packets.first().map(|packet| (packet.ssrc, packet.sequence, packet.timestamp))
    };
    ensure!(numbers(&first) == numbers(&second), "the asset was packed again");
    Ok(())
}

/// Promise: A wire image whose asset changed (size, mtime, inode) is not used.
fn a_changed_asset_is_packed_again() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
    let server = Server::of(folder.path()).start()?;
    Playback::whole(server.rtsp, "clip.ts", 10.0)?;
    let other = std::fs::read(clips::variable(3)?)?;
    std::fs::write(folder.path().join("new"), &other)?;
    std::fs::rename(folder.path().join("new"), folder.path().join("clip.ts"))?;
    ensure_bytes(&Playback::whole(server.rtsp, "clip.ts", 10.0)?, &other)
}

/// A server of a folder with this clip in it.
fn serving(clip: &Path) -> Result<(tempfile::TempDir, Server)> {
    let folder = clips::folder(&[("clip.ts", clip)])?;
    let server = Server::of(folder.path()).start()?;
    Ok((folder, server))
}

/// Ensures that `output` has as many pictures as `clip`, but for `missing`.
fn ensure_pictures(output: &Path, clip: &Path, missing: usize) -> Result<()> {
    let (came, stored) = (clips::pictures(output)?.len(), clips::pictures(clip)?.len());
    ensure!(came <= stored && came + missing >= stored, "{came} pictures of {stored} came");
    Ok(())
}

/// Writes a file of the same clip many times over: a long transport stream with discontinuities.
pub(crate) fn repeat(clip: &Path, times: usize, output: &Path) -> Result<()> {
    use std::io::Write;
    let bytes = std::fs::read(clip)?;
    let mut file = std::fs::File::create(output)?;
    for _ in 0..times {
        file.write_all(&bytes)?;
    }
    Ok(())
}
