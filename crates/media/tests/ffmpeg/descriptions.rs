//! Compares the SDP of tracks with that of ffmpeg for the same tracks.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_media::payload::TrackDescription;
use wirepath_testkit::trials;

use super::clips::{clip, run};
use super::samples::read;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        h264_is_described_as_by_ffmpeg => || as_ffmpeg("b-frames.mp4", 0),
        aac_is_described_as_by_ffmpeg => || as_ffmpeg("b-frames.mp4", 1),
        h265_is_described_as_by_ffmpeg => || as_ffmpeg("h265.mp4", 0),
        opus_is_described_as_by_ffmpeg => || as_ffmpeg("h265.mp4", 1),
        mpeg_audio_is_described_as_by_ffmpeg => || as_ffmpeg("mp3.mp4", 0),
        ac3_is_described_by_its_channels,
        vp8_is_described_as_by_ffmpeg => || as_ffmpeg("vp8.webm", 0),
        h264_in_matroska_is_described_as_by_ffmpeg => || as_ffmpeg("b-frames.mkv", 0),
        a_law_is_described_as_by_ffmpeg => || as_ffmpeg("a-law.mov", 0),
        mu_law_is_described_as_by_ffmpeg => || as_ffmpeg("mu-law.mov", 0),
        l16_is_described_as_by_ffmpeg => || as_ffmpeg("l16.mov", 0),
        vp9_and_av1_are_described_by_their_profiles,
    ]
}

/// Promise: SDP of H.264, H.265, VP8, AAC, Opus, MPEG audio, G.711 and L16 tracks equals that of ffmpeg.
fn as_ffmpeg(name: &str, index: usize) -> Result<()> {
    let clip = clip(name)?;
    let (movie, _) = read(&std::fs::read(&clip)?)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("sdp");
    let (clip, file) = (clip.to_str().context("a name")?, file.to_str().context("a name")?);
    let (map, payload_type) =
        (format!("0:{index}"), if movie.tracks()[index].picture.is_some() { 96 } else { 97 });
    let output =
        ["-nostdin", "-v", "error", "-i", clip, "-map", &map, "-c", "copy", "-t", "0.1", "-f", "rtp"];
    // Port 9 is the discard service: nobody has to receive the packets.
    run("ffmpeg", &[&output[..], &["-sdp_file", file, "rtp://127.0.0.1:9"]].concat())?;
    let text = std::fs::read_to_string(file)?;
    let line = |prefix| text.lines().find_map(|line| line.strip_prefix(prefix));

    let ours = TrackDescription::of(&movie.tracks()[index], payload_type, None)?;
    let media = format!("{} 9 RTP/AVP {}", if ours.video { "video" } else { "audio" }, ours.payload_type);
    ensure!(line("m=") == Some(media.as_str()), "{media} here: {text}");
    // ffmpeg writes no rtpmap for a static payload type.
    ensure!(line("a=rtpmap:").is_none_or(|map| map == ours.map), "{} here: {text}", ours.map);
    ensure!(line("a=rtpmap:").is_some() || ours.payload_type < 96, "{text}");
    let theirs = line("a=fmtp:").map(parameters).unwrap_or_default();
    let mut ours = ours.parameters.as_deref().map(parameters).unwrap_or_default();
    ours.remove("streamtype=5"); // Required by RFC 3640 section 4.1; ffmpeg omits it.
    ensure!(ours == theirs, "{ours:?} here, {theirs:?} by ffmpeg");
    Ok(())
}

/// Parameters after the payload type.
fn parameters(line: &str) -> BTreeSet<String> {
    let (_, parameters) = line.split_once(' ').unwrap_or((line, ""));
    parameters.split(';').map(|parameter| parameter.trim().to_owned()).collect()
}

/// Promise: SDP of AC-3 tracks has the sample rate and channels (RFC 4184).
fn ac3_is_described_by_its_channels() -> Result<()> {
    let (movie, _) = read(&std::fs::read(clip("ac-3.mp4")?)?)?;
    let ours = TrackDescription::of(&movie.tracks()[0], 97, None)?;
    ensure!(ours.map == "97 ac3/48000/6" && ours.parameters.is_none(), "{ours:?}");
    Ok(())
}

/// Promise: SDP of VP9 and AV1 tracks has the profile and level, if the file states them.
fn vp9_and_av1_are_described_by_their_profiles() -> Result<()> {
    for (name, map, parameters) in [
        ("vp9.mp4", "96 VP9/90000", Some("96 profile-id=0")),
        ("vp9.webm", "96 VP9/90000", Some("96 profile-id=0")),
        ("av1.mp4", "96 AV1/90000", Some("96 profile=0;level-idx=0;tier=0")),
        ("av1.mkv", "96 AV1/90000", Some("96 profile=0;level-idx=0;tier=0")),
    ] {
        let (movie, _) = read(&std::fs::read(clip(name)?)?)?;
        let ours = TrackDescription::of(&movie.tracks()[0], 96, None)?;
        ensure!(ours.map == map && ours.parameters.as_deref() == parameters, "{name}: {ours:?}");
    }
    Ok(())
}
