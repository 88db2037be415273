//! RTP over the RTSP connection (RFC 2326 section 10.12), with the clients that people have and with one that
//! looks at every byte.

use std::net::Shutdown;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::Value;
use wirepath_tests::interleaved::{Came, Interleaved};
use wirepath_tests::playback::{announced, ensure_bytes};
use wirepath_tests::process::Process;
use wirepath_tests::seek::{ensure_from, random_access_point_before};
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clients, clips, process, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        ffmpeg_plays_over_tcp,
        ffmpeg_seeks_over_tcp,
        gstreamer_plays_over_tcp,
        gstreamer_seeks_over_tcp,
        vlc_plays_over_tcp,
        every_byte_comes_over_tcp_among_responses,
        a_seek_over_tcp_begins_at_the_right_byte,
        a_slow_reader_skips_to_a_random_access_point,
        clients_that_leave_take_everything_with_them,
    ]
}

/// A server of a clip of so many seconds; also the clip's bytes.
fn serving(seconds: u32, options: &[&str]) -> Result<(tempfile::TempDir, Server, Vec<u8>)> {
    let clip = clips::constant(seconds)?;
    let folder = clips::folder(&[("clip.ts", &clip)])?;
    let server = Server::of(folder.path()).with(options).start()?;
    Ok((folder, server, std::fs::read(&clip)?))
}

fn playback_counter(status: &Value, name: &str) -> Result<u64> {
    status["counters"]["playback"][name].as_u64().with_context(|| format!("no {name} in the status"))
}

/// Promise: ffmpeg and GStreamer play a clip over TCP to the end.
fn ffmpeg_plays_over_tcp() -> Result<()> {
    let (_folder, server, _) = serving(6, &[])?;
    let home = process::open_folder()?;
    let output = home.path().join("out.ts");
    clients::ffmpeg_with(&["-rtsp_transport", "tcp"], &server.rtsp_url("clip.ts"), &output, 25.0)?;
    let (came, stored) = (clips::pictures(&output)?.len(), clips::pictures(&clips::constant(6)?)?.len());
    // ffmpeg passes a picture on when the next begins, so the last one stays inside.
    ensure!(came <= stored && came + 1 >= stored, "{came} pictures of {stored} came");
    let packets = playback_counter(&server.status()?, "packets")?;
    ensure!(packets > 1000, "{packets} packets were sent");
    Ok(())
}

/// Promise: ffmpeg seeks over TCP.
fn ffmpeg_seeks_over_tcp() -> Result<()> {
    let (_folder, server, _) = serving(8, &[])?;
    let home = process::open_folder()?;
    let output = home.path().join("out.ts");
    let options = ["-rtsp_transport", "tcp", "-ss", "4"];
    clients::ffmpeg_with(&options, &server.rtsp_url("clip.ts"), &output, 25.0)?;
    let (came, stored) = (clips::pictures(&output)?.len(), clips::pictures(&clips::constant(8)?)?.len());
    ensure!(came > stored / 3 && came < stored * 3 / 4, "{came} pictures of {stored} came");
    Ok(())
}

/// Promise: ffmpeg and GStreamer play a clip over TCP to the end.
///
/// GStreamer's depayloader passes on what it gets, so the file must come out again.
fn gstreamer_plays_over_tcp() -> Result<()> {
    let (_folder, server, stored) = serving(6, &[])?;
    let home = process::open_folder()?;
    let output = home.path().join("out.ts");
    clients::gstreamer_over("tcp", &server.rtsp_url("clip.ts"), &output, 25.0)?;
    let came = std::fs::read(&output)?;
    clients::ensure_gstreamer_has(&came, &stored)?;
    Ok(())
}

/// Promise: GStreamer seeks over TCP while it plays, and plays to the end.
fn gstreamer_seeks_over_tcp() -> Result<()> {
    const SEEK_S: f64 = 9.5;
    let (_folder, server, stored) = serving(12, &[])?;
    let pictures = clips::pictures(&clips::constant(12)?)?;
    let home = process::open_folder()?;
    let output = home.path().join("out.ts");
    clients::gstreamer_seeking("tcp", &server.rtsp_url("clip.ts"), SEEK_S, &output, 50.0)?;
    let seeks = playback_counter(&server.status()?, "seeks");
    let came = std::fs::read(&output)?;
    // The end of what came: a run of the clip from where the seek went.
    let last = &came[came.len().saturating_sub(20 * 188)..];
    let end = stored.windows(last.len()).rposition(|window| window == last);
    let end = end.context("the end of what came is no part of the clip")? + last.len();
    clients::ensure_gstreamer_has(&stored[..end], &stored)?;
    let mut starts = random_access_point_before(&pictures, SEEK_S)?;
    let is_start = |start: u64| {
        end.checked_sub(start as usize).is_some_and(|_| came.ends_with(&stored[start as usize..end]))
    };
    let start = starts.find(|start| is_start(*start));
    ensure!(start.is_some(), "{} bytes do not end with the clip from {SEEK_S} s: {seeks:?}", came.len());
    ensure!(came.len() < stored.len(), "{} of {} bytes came: nothing was skipped", came.len(), stored.len());
    Ok(())
}

/// VLC built with live555 plays a clip over TCP. VLC of Debian and Ubuntu is built without it, and has UDP alone: no
/// promise.
fn vlc_plays_over_tcp() -> Result<()> {
    require!(process::find("cvlc").is_some(), "cvlc is not installed");
    let home = process::open_folder()?;
    let mut list = process::as_ordinary_user("cvlc", home.path());
    list.arg("--list");
    let plugins = Process::start(&list, true)?.succeed(Deadline::seconds(30.0))?;
    require!(plugins.contains("live555"), "VLC is built without live555 here: it plays over UDP only");
    let (_folder, server, stored) = serving(6, &[])?;
    let output = home.path().join("out.ts");
    clients::vlc_with(&["--rtsp-tcp"], &server.rtsp_url("clip.ts"), home.path(), &output, 40.0)?;
    let came = std::fs::metadata(&output)?.len();
    ensure!(came > stored.len() as u64 / 4, "VLC stored {came} bytes of {}", stored.len());
    Ok(())
}

/// Promise: Responses and reports are sent between frames, never inside a frame.
///
/// Requests go out as fast as they are answered while the clip plays.
fn every_byte_comes_over_tcp_among_responses() -> Result<()> {
    let (_folder, server, stored) = serving(6, &[])?;
    let mut client = Interleaved::set_up(server.rtsp, "clip.ts", None)?;
    let (sequence, timestamp) = announced(&client.play(None)?)?;
    ensure!(client.received.packets.is_empty(), "packets came before the response to PLAY");
    let session = server.status()?["sessions"][0].clone();
    ensure!(session["transport"] == "tcp" && session["data_path"] == "interleaved", "{session}");
    let gauge = &server.status()?["counters"]["rtsp"]["sessions_interleaved"];
    ensure!(gauge == 1, "{gauge} sessions over TCP");
    let deadline = Deadline::seconds(20.0);
    while client.received.bye.is_none() {
        ensure!(!deadline.has_passed(), "no BYE");
        for method in ["OPTIONS", "GET_PARAMETER"] {
            client.succeed(method, &[])?;
        }
    }
    ensure_bytes(&client.received, &stored)?;
    let first = client.received.packets.first().context("no packet")?;
    ensure!((first.sequence, first.timestamp) == (sequence, timestamp), "RTP-Info announced another packet");
    ensure!(client.responses > 100, "only {} responses", client.responses);
    ensure!(!client.received.reports.is_empty(), "no sender report");
    let seconds = client.received.seconds();
    ensure!((5.5..8.0).contains(&seconds), "a clip of 6 s took {seconds:.1} s");
    client.succeed("TEARDOWN", &[])?;
    ensure!(server.sessions()? == 0);
    Ok(())
}

/// Promise: A seek sends from the right byte over TCP, before and after playing.
fn a_seek_over_tcp_begins_at_the_right_byte() -> Result<()> {
    let (_folder, server, stored) = serving(8, &[])?;
    let pictures = clips::pictures(&clips::constant(8)?)?;
    let mut client = Interleaved::set_up(server.rtsp, "clip.ts", None)?;
    client.play(Some("npt=1.5-"))?;
    while client.received.seconds() < 0.5 {
        client.read()?;
    }
    client.succeed("PAUSE", &[])?;
    let paused = client.received.packets.len();
    let (sequence, timestamp) = announced(&client.play(Some("npt=4.5-"))?)?;
    ensure!(client.received.packets.len() == paused, "packets came between PAUSE and PLAY");
    client.to_the_end(Deadline::seconds(20.0))?;
    let received = &client.received;
    ensure!(received.gaps().is_empty(), "gaps {:?}", received.gaps());
    let sought = &received.packets[paused];
    ensure!(
        (sought.sequence, sought.timestamp) == (sequence, timestamp),
        "RTP-Info announced another packet"
    );
    let (first, second) = received.payload.split_at(sought.payload.start);
    ensure_from(first, &stored, &random_access_point_before(&pictures, 1.5)?).context("the first seek")?;
    ensure_from(second, &stored, &random_access_point_before(&pictures, 4.5)?).context("the second seek")?;
    ensure!(stored.ends_with(second), "it did not play to the end");
    Ok(())
}

/// Promise: A client over TCP that reads too slowly skips forward to a random access point, and is counted.
fn a_slow_reader_skips_to_a_random_access_point() -> Result<()> {
    // On a busy machine the stall lasts some seconds more: the clip must have a key picture after it.
    let (_folder, server, stored) = serving(16, &["--max-lag", "500ms"])?;
    let pictures = clips::pictures(&clips::constant(16)?)?;
    let mut client = Interleaved::set_up(server.rtsp, "clip.ts", Some(16 * 1024))?;
    client.play(None)?;
    let position = || -> Result<f64> {
        let status = server.status()?;
        status["sessions"][0]["position_s"].as_f64().context("no position")
    };
    // Nobody reads: the session stands still, and its server does not keep what is due.
    let deadline = Deadline::seconds(10.0);
    let stalled = deadline.wait_for("a full connection", || {
        let full = playback_counter(&server.status()?, "sockets_full")? > 0;
        Ok(full.then_some(()))
    });
    stalled?;
    let stopped_at = position()?;
    let silence = Deadline::seconds(2.0); // four times the lag that it may have
    while !silence.has_passed() {
        ensure!(position()? < stopped_at + 1.0, "it goes on without anybody who reads");
    }
    client.to_the_end(Deadline::seconds(60.0))?;

    let received = &client.received;
    let status = server.status()?;
    let skips = playback_counter(&status, "forward_skips")?;
    ensure!(skips >= 1 && status["sessions"][0]["forward_skips"] == skips, "{skips} skips were counted");
    ensure!(received.gaps().len() as u64 == skips, "{} gaps, {skips} skips", received.gaps().len());
    let (came, second) = (received.payload.len(), stored.len() / 16);
    ensure!(came + second < stored.len(), "{came} bytes came of {}", stored.len());
    // Each part is of the clip, and begins with a key picture and its tables.
    let follows = |pair: &[wirepath_tests::rtp::Packet]| pair[0].sequence.wrapping_add(1) == pair[1].sequence;
    let last = received.packets.windows(2).rposition(|pair| !follows(pair)).context("no gap")?;
    let rest = &received.payload[received.packets[last + 1].payload.start..];
    ensure!(stored.ends_with(rest), "what comes last is not the clip's end");
    let start = (stored.len() - rest.len()) as u64;
    let key =
        pictures.iter().any(|picture| picture.is_key && (start..start + 40 * 188).contains(&picture.offset));
    ensure!(key, "no key picture follows the skip to {start}");
    Ok(())
}

/// Promise: A client over TCP that ends, closes or resets its connection leaves no session or descriptor
/// behind.
fn clients_that_leave_take_everything_with_them() -> Result<()> {
    let (_folder, server, _) = serving(60, &[])?;
    let leave: [fn(&mut Interleaved) -> Result<()>; 5] = [
        |client| client.succeed("TEARDOWN", &[]).map(drop),
        |_| Ok(()),
        |client| client.stream().shutdown(Shutdown::Both).context("shutdown"),
        |client| {
            // Its end is a reset then.
            rustix::net::sockopt::set_socket_linger(client.stream(), Some(Duration::ZERO))
                .context("SO_LINGER")
        },
        |client| {
            std::io::Write::write_all(client.stream(), b"$\x03\x00\x20half a frame")?;
            client.stream().shutdown(Shutdown::Write).context("shutdown")
        },
    ];
    let begin = || -> Result<Interleaved> {
        let mut client = Interleaved::set_up(server.rtsp, "clip.ts", Some(16 * 1024))?;
        client.play(None)?;
        while client.received.packets.len() < 20 {
            ensure!(!matches!(client.read()?, Came::End), "it ended");
        }
        Ok(client)
    };
    drop(begin()?); // what is made once
    let gone = || {
        Deadline::seconds(10.0).wait_for("the end of all sessions", || {
            let counters = &server.status()?["counters"];
            let left = [&counters["rtsp"]["sessions"], &counters["playback"]["playbacks"]];
            Ok(left.iter().all(|left| **left == 0).then_some(()))
        })
    };
    gone()?;
    let before = server.descriptors()?;
    for leave in leave {
        for _ in 0..5 {
            leave(&mut begin()?)?;
        }
        gone()?;
    }
    Deadline::seconds(10.0)
        .wait_for("descriptors as before", || Ok((server.descriptors()? <= before).then_some(())))
}
