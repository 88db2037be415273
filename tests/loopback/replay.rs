//! ONVIF replay of archives: header extensions with the wall clock, rate control, intra frames.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use tempfile::TempDir;
use wirepath_tests::interleaved::Interleaved;
use wirepath_tests::loss::unless_overloaded;
use wirepath_tests::movie::Movie;
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::rtp::{Packet, Received};
use wirepath_tests::server::Server;
use wirepath_tests::tls::Certificate;
use wirepath_tests::{Deadline, clients, clips, frames, process, require, trials};

use crate::recordings::{append, parts};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        packets_of_movies_have_the_wall_clock_and_flags,
        packets_of_transport_streams_have_the_wall_clock,
        an_unreadable_recording_ends_a_section,
        a_replay_goes_on_into_recordings_that_are_written => || {
            unless_overloaded(a_replay_goes_on_into_recordings_that_are_written)
        },
        without_rate_control_packets_come_as_fast_as_they_are_read,
        an_immediate_play_replaces_the_active_one,
        intra_frames_alone_are_played,
        what_replay_cannot_do_is_refused,
        gstreamer_replays_with_rate_control => || gstreamer_replays(true),
        gstreamer_replays_without_rate_control => || gstreamer_replays(false),
        gstreamer_replays_srtp_over_udp => || unless_overloaded(|| gstreamer_replays_srtp("udp", "srtp_gso")),
        gstreamer_replays_srtp_over_tcp => || gstreamer_replays_srtp("tcp", "srtp_interleaved"),
    ]
}

const REPLAY: (&str, &str) = ("Require", "onvif-replay");

/// 2026-11-23T10:00:00Z in seconds since 1970.
const TEN_S: f64 = 1_795_428_000.0;

/// Extension of a packet, as the specification has it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Extension {
    /// Seconds since ten o'clock.
    seconds: f64,
    clean: bool,
    end: bool,
    discontinuity: bool,
    terminal: bool,
    cseq: u8,
}

fn extension(packet: &Packet) -> Result<Extension> {
    let (identifier, contents) = packet.extension.as_ref().context("a packet without extension")?;
    ensure!(*identifier == 0xabac && contents.len() == 12, "{identifier:#x} of {} bytes", contents.len());
    let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| contents[at + byte]));
    let ntp_s = f64::from(word(0)) + f64::from(word(4)) / 4_294_967_296.0;
    let flags = contents[8];
    ensure!(flags & 0xf == 0 && contents[10..] == [0, 0], "{contents:?}");
    Ok(Extension {
        seconds: ntp_s - 2_208_988_800.0 - TEN_S,
        clean: flags & 0x80 != 0,
        end: flags & 0x40 != 0,
        discontinuity: flags & 0x20 != 0,
        terminal: flags & 0x10 != 0,
        cseq: contents[9],
    })
}

fn extensions(received: &Received) -> Result<Vec<Extension>> {
    received.packets.iter().map(extension).collect()
}

/// Access units of H.264 by timestamp, in the order of arrival: whether each has a picture that can be
/// decoded alone.
fn pictures(received: &Received) -> Vec<(u32, bool)> {
    let mut pictures: Vec<(u32, bool)> = Vec::new();
    for packet in &received.packets {
        let payload = &received.payload[packet.payload.clone()];
        let has_unit = |unit: u8| unit & 0x1f == 5;
        // RFC 6184: single units, aggregates (24), fragments (28).
        let is_alone = match payload[0] & 0x1f {
            24 => {
                let (mut rest, mut found) = (&payload[1..], false);
                while let [high, low, unit, ..] = rest {
                    found |= has_unit(*unit);
                    rest = rest.get(2 + usize::from(u16::from_be_bytes([*high, *low]))..).unwrap_or_default();
                }
                found
            }
            28 => has_unit(payload[1]),
            _ => has_unit(payload[0]),
        };
        match pictures.last_mut() {
            Some((timestamp, alone)) if *timestamp == packet.timestamp => *alone |= is_alone,
            _ => pictures.push((packet.timestamp, is_alone)),
        }
    }
    pictures
}

fn archive(recordings: &[(&str, PathBuf)]) -> Result<(Server, TempDir)> {
    let named: Vec<_> = recordings.iter().map(|(name, clip)| (format!("cam/{name}"), clip)).collect();
    let named: Vec<_> = named.iter().map(|(name, clip)| (name.as_str(), clip.as_path())).collect();
    let folder = clips::folder(&named)?;
    Ok((Server::of(folder.path()).with(["--archive", "cam"]).start()?, folder))
}

/// Two recordings of two seconds, and one after a gap.
fn movies() -> Result<(Server, TempDir)> {
    let clip = clips::mp4(2)?;
    archive(&[
        ("2026-11-23T10-00-00.mp4", clip.clone()),
        ("2026-11-23T10-00-02.mp4", clip.clone()),
        ("2026-11-23T10-00-09.mp4", clip),
    ])
}

/// The same of transport streams of a second more.
fn streams() -> Result<(Server, TempDir, Vec<u8>)> {
    let clip = clips::constant(3)?;
    let bytes = std::fs::read(&clip)?;
    let (server, folder) = archive(&[
        ("2026-11-23T10-00-00.ts", clip.clone()),
        ("2026-11-23T10-00-03.ts", clip.clone()),
        ("2026-11-23T10-00-09.ts", clip),
    ])?;
    Ok((server, folder, bytes.repeat(3)))
}

/// Promise: Each packet of a replayed movie has the wall clock of its access unit, and flags for gaps, ends
/// and seeks.
fn packets_of_movies_have_the_wall_clock_and_flags() -> Result<()> {
    let (server, _folder) = movies()?;
    let mut plain = Movie::set_up(server.rtsp, "cam")?;
    plain.play(None)?;
    let plain = plain.to_the_end(Deadline::seconds(30.0))?;
    let mut movie = Movie::set_up_with(server.rtsp, "cam", &[REPLAY])?;
    movie.play(Some("clock=20261123T100000Z-"))?;
    let tracks = movie.to_the_end(Deadline::seconds(30.0))?;
    for (index, (received, clock)) in tracks.iter().zip(&movie.clocks).enumerate() {
        ensure!(received.gaps().is_empty() && received.errors.is_empty(), "track {index} has gaps");
        ensure!(received.payload == plain[index].payload, "track {index}: other media came");
        ensure!(plain[index].packets.iter().all(|packet| packet.extension.is_none()), "of another session");
        let extensions = extensions(received)?;
        let first = &received.packets[0];
        for (packet, extension) in received.packets.iter().zip(&extensions) {
            // Gaps are skipped in timestamps, but not on the wall clock.
            let passed_s = f64::from(packet.timestamp.wrapping_sub(first.timestamp)) / clock;
            let gap_s = if extension.seconds > 6.0 { 5.0 } else { 0.0 };
            let expected_s = extensions[0].seconds + passed_s + gap_s;
            ensure!((extension.seconds - expected_s).abs() < 0.06, "{extension:?} {passed_s} s on");
            ensure!(extension.cseq == 4, "{extension:?} is not of the fourth request");
        }
        ensure!((-0.1..0.2).contains(&extensions[0].seconds), "{:?}", extensions[0]);
        let numbers = |has: fn(&Extension) -> bool| -> Vec<f64> {
            extensions.iter().filter(|extension| has(extension)).map(|extension| extension.seconds).collect()
        };
        let seeks = numbers(|extension| extension.discontinuity);
        ensure!(seeks.len() == 2 && (8.9..9.2).contains(&seeks[1]), "D at {seeks:?}");
        let ends = numbers(|extension| extension.end);
        let is_end = |end: &f64| (3.8..4.1).contains(end) || (10.8..11.1).contains(end);
        ensure!(ends.iter().all(is_end), "E at {ends:?}");
        ensure!(ends[0] < 5.0 && ends[ends.len() - 1] > 5.0, "E at {ends:?}");
        let terminals = numbers(|extension| extension.terminal);
        ensure!(!terminals.is_empty() && terminals.iter().all(|end| *end > 5.0), "T at {terminals:?}");
        ensure!(extensions[extensions.len() - 1].end, "the last packet has no E");
    }
    let clean: BTreeMap<u32, bool> = tracks[0]
        .packets
        .iter()
        .map(|packet| Ok((packet.timestamp, extension(packet)?.clean)))
        .collect::<Result<_>>()?;
    let pictures = pictures(&tracks[0]);
    ensure!(pictures.iter().filter(|(_, is_alone)| *is_alone).count() == 6, "a second has one of them");
    for (timestamp, is_alone) in pictures {
        ensure!(clean[&timestamp] == is_alone, "C of the picture of {timestamp}");
    }
    ensure!(extensions(&tracks[1])?.iter().all(|extension| extension.clean), "sound can begin anywhere");
    Ok(())
}

/// Promise: Replay of a transport stream has the same bytes, and the wall clock in each packet.
fn packets_of_transport_streams_have_the_wall_clock() -> Result<()> {
    let (server, _folder, bytes) = streams()?;
    let mut playback = Playback::set_up_with(server.rtsp, "cam", &[REPLAY])?;
    playback.play(None)?;
    let received = playback.receiver.to_the_end(Deadline::seconds(30.0))?;
    ensure_bytes(&received, &bytes)?;
    let extensions = extensions(&received)?;
    ensure!(extensions[0].seconds.abs() < 0.05 && extensions[0].discontinuity, "{:?}", extensions[0]);
    // The bytes of a recording take a little longer than its name says.
    ensure!(extensions.windows(2).all(|pair| pair[0].seconds < pair[1].seconds + 0.3), "times go back");
    let count = |has: fn(&Extension) -> bool| extensions.iter().filter(|extension| has(extension)).count();
    ensure!(count(|extension| extension.discontinuity) == 2, "D only at the beginning and after the gap");
    ensure!(count(|extension| extension.end) >= 2 && count(|extension| extension.terminal) >= 1, "no E");
    let last = extensions[extensions.len() - 1];
    ensure!(last.terminal && (11.7..12.4).contains(&last.seconds), "{last:?}");
    Ok(())
}

/// Promise: A replay goes on into recordings that are written; only the last access units of all are terminal.
fn a_replay_goes_on_into_recordings_that_are_written() -> Result<()> {
    let clip = clips::fragmented(3)?;
    let parts = parts(&std::fs::read(&clip).context("reading the clip")?)?;
    let (server, folder) = archive(&[("2026-11-23T10-00-00.mp4", clip)])?;
    let path = |name: &str| folder.path().join("cam").join(name);
    let (written, next) = (path("2026-11-23T10-00-03.mp4"), path("2026-11-23T10-00-06.mp4"));
    std::fs::write(&written, parts[..2].concat()).context("recording")?;
    let mut movie = Movie::set_up_with(server.rtsp, "cam", &[REPLAY])?;
    movie.play(Some("clock=20261123T100000Z-"))?;
    let most = |received: &Received| pictures(received).len() >= 3 * 25 - 12;
    movie.tracks[0].wait_for("pictures", Deadline::seconds(20.0), most)?;
    for part in &parts[2..4] {
        append(&written, part)?;
    }
    // Two segments of the recording are held until it is known what follows them.
    std::fs::write(&next, parts.concat()).context("recording")?;
    let tracks = movie.to_the_end(Deadline::seconds(40.0))?;
    ensure!(pictures(&tracks[0]).len() == 9 * 25, "{} pictures", pictures(&tracks[0]).len());
    for received in &tracks {
        ensure!(received.gaps().is_empty() && received.errors.is_empty(), "gaps: {:?}", received.gaps());
        let last = received.packets.last().context("no packets")?.timestamp;
        for (packet, extension) in received.packets.iter().zip(extensions(received)?) {
            let is_last = packet.timestamp == last;
            ensure!(extension.terminal == is_last && extension.end == is_last, "{extension:?} of {packet:?}");
        }
    }
    Ok(())
}

/// Promise: The last access unit before a recording that cannot be read is marked as the end of a section.
fn an_unreadable_recording_ends_a_section() -> Result<()> {
    let clip = clips::constant(3)?;
    let folder = clips::folder(&[
        ("cam/2026-11-23T10-00-00.ts", clip.as_path()),
        ("cam/2026-11-23T10-00-06.ts", clip.as_path()),
    ])?;
    let unreadable = folder.path().join("cam/2026-11-23T10-00-03.ts");
    std::fs::write(&unreadable, clips::without_clock(&clip)?)?;
    // It is not being written.
    let written = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    std::fs::File::open(&unreadable)?.set_modified(written)?;
    let server = Server::of(folder.path()).with(["--archive", "cam"]).start()?;
    let mut playback = Playback::set_up_with(server.rtsp, "cam", &[REPLAY])?;
    playback.play(None)?;
    let received = playback.receiver.to_the_end(Deadline::seconds(30.0))?;
    ensure_bytes(&received, &std::fs::read(&clip)?.repeat(2))?;
    let extensions = extensions(&received)?;
    let ends: Vec<f64> =
        extensions.iter().filter(|extension| extension.end).map(|extension| extension.seconds).collect();
    ensure!(ends.iter().any(|end| (2.5..3.1).contains(end)), "E at {ends:?}");
    let seeks: Vec<f64> = extensions
        .iter()
        .filter(|extension| extension.discontinuity)
        .map(|extension| extension.seconds)
        .collect();
    ensure!(seeks.len() == 2 && (5.9..6.2).contains(&seeks[1]), "D at {seeks:?}");
    Ok(())
}

/// Promise: With `Rate-Control: no` over TCP, packets come as fast as the client reads them, and no report
/// has times.
fn without_rate_control_packets_come_as_fast_as_they_are_read() -> Result<()> {
    let (server, _folder, bytes) = streams()?;
    let mut playback = Interleaved::set_up_with(server.rtsp, "cam", &[REPLAY])?;
    let fields = [REPLAY, ("Rate-Control", "no"), ("Range", "clock=20261123T100000Z-")];
    let answer = playback.succeed("PLAY", &fields)?;
    ensure!(answer.header("rate-control") == Some("no") && answer.header("speed").is_none(), "{answer:?}");
    playback.to_the_end(Deadline::seconds(30.0))?;
    ensure_bytes(&playback.received, &bytes)?;
    ensure!(playback.received.seconds() < 5.0, "{} s for nine", playback.received.seconds());
    ensure!(extensions(&playback.received)?.iter().all(|extension| extension.cseq == 101), "another CSeq");
    let reports = &playback.received.reports;
    ensure!(reports.iter().all(|report| (report.ntp, report.timestamp) == (0, 0)), "{reports:?}");
    Ok(())
}

/// Promise: `Immediate: yes` replaces the active PLAY; D marks its first packet, CSeq all of its packets.
fn an_immediate_play_replaces_the_active_one() -> Result<()> {
    let (server, _folder, _) = streams()?;
    let mut playback = Interleaved::set_up_with(server.rtsp, "cam", &[REPLAY])?;
    playback.succeed("PLAY", &[("Range", "clock=20261123T100000Z-20261123T100010Z")])?;
    while playback.received.packets.len() < 100 {
        playback.read()?;
    }
    let fields = [REPLAY, ("Immediate", "yes"), ("Rate-Control", "no"), ("Range", "clock=20261123T100009Z-")];
    let answer = playback.succeed("PLAY", &fields)?;
    ensure!(answer.header("rtp-info").is_some(), "it waits for its turn: {answer:?}");
    playback.to_the_end(Deadline::seconds(20.0))?;
    ensure!(playback.received.gaps().is_empty(), "{:?}", playback.received.gaps());
    let extensions = extensions(&playback.received)?;
    let second = extensions.iter().position(|extension| extension.cseq == 102).context("no second PLAY")?;
    ensure!(extensions[..second].iter().all(|extension| extension.seconds < 8.0), "it did not end");
    ensure!(extensions[second..].iter().all(|extension| extension.cseq == 102), "the first PLAY goes on");
    let first = extensions[second];
    ensure!(first.discontinuity && (8.9..9.1).contains(&first.seconds), "{first:?}");
    Ok(())
}

/// Promise: `Frames: intra` plays only pictures that can be decoded alone, at least the interval apart.
fn intra_frames_alone_are_played() -> Result<()> {
    let (server, _folder) = movies()?;
    for (frames, expected) in [("intra", 6), ("intra/1500", 3)] {
        let mut playback = Interleaved::set_up_with(server.rtsp, "cam", &[REPLAY])?;
        let range = ("Range", "clock=20261123T100000Z-");
        let answer = playback.succeed("PLAY", &[range, ("Rate-Control", "no"), ("Frames", frames)])?;
        ensure!(answer.header("frames") == Some(frames), "{answer:?}");
        playback.to_the_end(Deadline::seconds(30.0))?;
        ensure!(playback.received.gaps().is_empty(), "{:?}", playback.received.gaps());
        ensure!(extensions(&playback.received)?.iter().all(|extension| extension.clean), "no clean point");
        let pictures = pictures(&playback.received);
        ensure!(pictures.iter().all(|(_, is_alone)| *is_alone), "another picture came");
        ensure!(pictures.len() == expected, "{frames}: {} pictures", pictures.len());
    }
    let mut playback = Interleaved::set_up_with(server.rtsp, "cam", &[REPLAY])?;
    let answer = playback.succeed("PLAY", &[("Frames", "predicted"), ("Rate-Control", "no")])?;
    ensure!(answer.header("frames") == Some("all"), "{answer:?}");
    Ok(())
}

/// Promise: Replay refuses other presentations, reverse play, no rate control over UDP, and intra frames of
/// MPEG-TS.
fn what_replay_cannot_do_is_refused() -> Result<()> {
    let (server, _folder, _) = streams()?;
    let mut playback = Playback::set_up(server.rtsp, "cam")?;
    let url = playback.url.clone();
    let session = ("Session", playback.session.clone());
    let session = (session.0, session.1.as_str());
    let late = playback.client.request("PLAY", &url, &[session, REPLAY])?;
    ensure!(late.status == 455, "set up without replay: {late:?}");
    let description = playback.client.request("DESCRIBE", &url, &[REPLAY])?;
    ensure!(description.status == 200, "{description:?}");
    let file = server.rtsp_url("cam/2026-11-23T10-00-00.ts");
    for method in ["DESCRIBE", "SETUP"] {
        let fields = [REPLAY, ("Transport", "RTP/AVP;unicast;client_port=7000-7001")];
        let refused = playback.client.request(method, &file, &fields)?;
        let unsupported = refused.header("unsupported");
        ensure!(refused.status == 551 && unsupported == Some("onvif-replay"), "a file: {refused:?}");
    }
    let mut playback = Playback::set_up_with(server.rtsp, "cam", &[REPLAY])?;
    let (url, session) = (playback.url.clone(), playback.session.clone());
    let mut status = |field: (&str, &str)| -> Result<u16> {
        Ok(playback.client.request("PLAY", &url, &[("Session", &session), REPLAY, field])?.status)
    };
    ensure!(status(("Scale", "-1.0"))? == 501, "reverse play");
    ensure!(status(("Rate-Control", "no"))? == 461, "no rate control over UDP");
    ensure!(status(("Rate-Control", "maybe"))? == 400, "no such rate control");
    ensure!(status(("Frames", "intra"))? == 501, "intra frames of a transport stream");
    ensure!(status(("Frames", "none"))? == 400, "no such frames");
    ensure!(status(("Rate-Control", "yes"))? == 200, "rate control over UDP");
    Ok(())
}

/// Promise: GStreamer replays an archive as an ONVIF client, with and without rate control.
fn gstreamer_replays(has_rate_control: bool) -> Result<()> {
    let clip = clips::mp4(2)?;
    let (server, _folder) =
        archive(&[("2026-11-23T10-00-00.mp4", clip.clone()), ("2026-11-23T10-00-02.mp4", clip.clone())])?;
    ensure_gstreamer_replays(&server.rtsp_url("cam"), ("tcp", has_rate_control), &clip)
}

/// Promise: GStreamer replays an archive by SRTP as an ONVIF client.
fn gstreamer_replays_srtp(protocol: &str, path: &str) -> Result<()> {
    require!(clients::gstreamer_has_tls(), "the TLS module of GLib (glib-networking) is not installed");
    let (clip, certificate) = (clips::mp4(2)?, Certificate::new()?);
    let names = ["00", "02"].map(|second| format!("cam/2026-11-23T10-00-{second}.mp4"));
    let folder = clips::folder(&[(&names[0], &clip), (&names[1], &clip)])?;
    let server = Server::of(folder.path())
        .with(["--archive", "cam", "--srtp=mikey"])
        .with(certificate.arguments())
        .start()?;
    let url = format!("rtsps://{}/cam", server.rtsps.context("no rtsps")?);
    let session = std::thread::scope(|scope| {
        let played = scope.spawn(|| ensure_gstreamer_replays(&url, (protocol, true), &clip));
        let session = Deadline::seconds(20.0).wait_for("a session that plays", || {
            let session = server.status()?["sessions"][0].clone();
            Ok((session["packets"].as_u64() > Some(0) || played.is_finished()).then_some(session))
        });
        played.join().expect("no panic")?;
        session
    })?;
    ensure!(!session.is_null(), "GStreamer has played before the status was read");
    ensure!(session["data_path"] == path && session["srtp"] == "AES_CM_128_HMAC_SHA1_80", "{session}");
    Ok(())
}

/// Ensures that GStreamer replays an archive of two recordings that are this clip.
fn ensure_gstreamer_replays(
    url: &str,
    (protocol, has_rate_control): (&str, bool),
    clip: &Path,
) -> Result<()> {
    let home = process::open_folder()?;
    let (video, audio) = (home.path().join("video.h264"), home.path().join("audio.aac"));
    clients::gstreamer_replay(url, protocol, has_rate_control, (&video, &audio), 60.0)?;
    let stored = frames::decode(&[], clip.to_str().context("a clip's name")?, 60.0)?;
    let decoded = |file: &PathBuf| {
        let mut streams = frames::decode(&[], file.to_str().context("a file's name")?, 60.0)?;
        Ok::<_, anyhow::Error>(streams.swap_remove(0))
    };
    let (pictures, sound) = (decoded(&video)?, decoded(&audio)?);
    // In this mode GStreamer 1.22 drops a first packet that has no time of arrival yet, and with it the
    // pictures up to the next random access point.
    let second = stored[0].get(25..49).context("a clip of two seconds")?;
    let begin = pictures.iter().position(|picture| picture.hash == second[0].hash).context("no picture")?;
    let came = pictures.get(begin..begin + second.len()).context("few pictures")?;
    frames::ensure_all(came, second, 0)?;
    ensure!(pictures.len() > stored[0].len(), "{} pictures of two recordings", pictures.len());
    ensure!(sound.len() > stored[1].len(), "{} frames of sound of two recordings", sound.len());
    Ok(())
}
