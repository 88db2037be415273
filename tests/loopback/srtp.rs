//! SRTP of sessions over TLS, with the decryption of GStreamer (libsrtp) and of ffmpeg.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use tempfile::TempDir;
use wirepath_tests::loss::unless_overloaded;
use wirepath_tests::rtp::Receiver;
use wirepath_tests::rtsp::{Client, parameter};
use wirepath_tests::server::Server;
use wirepath_tests::tls::{Certificate, Tunnel, TunnelListener};
use wirepath_tests::{Deadline, clients, clips, frames, process, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        gstreamer_plays_srtp_over_udp => || unless_overloaded(|| gstreamer_plays("udp", "srtp_gso", &[])),
        gstreamer_plays_srtp_over_udp_packet_by_packet => || unless_overloaded(|| gstreamer_plays("udp", "srtp_send", &["--path=sendmmsg"])),
        gstreamer_plays_srtp_over_tcp => || gstreamer_plays("tcp", "srtp_interleaved", &[]),
        ffmpeg_plays_srtp_over_udp => || unless_overloaded(ffmpeg_plays_over_udp),
        ffmpeg_plays_srtp_over_tcp => || ffmpeg_plays_over_tcp("film.mp4"),
        ffmpeg_plays_a_transport_stream_without_srtp => || ffmpeg_plays_over_tcp("clip.ts"),
        ffmpeg_seeks_with_srtp,
        keys_are_told_once_and_over_tls_only,
        forged_reports_are_dropped,
    ]
}

const SECONDS: u32 = 6;

/// A server of a transport stream and a movie, with SRTP.
struct TestBed {
    certificate: Certificate,
    server: Server,
    clip: PathBuf,
    film: PathBuf,
    _folder: TempDir,
}

impl TestBed {
    fn new(options: &[&str]) -> Result<TestBed> {
        let (clip, film) = (clips::constant(SECONDS)?, clips::film(SECONDS, "libx264", "aac", "mp4")?);
        let certificate = Certificate::new()?;
        let folder = clips::folder(&[("clip.ts", &clip), ("film.mp4", &film)])?;
        let server = Server::of(folder.path()).with(certificate.arguments()).with(options).start()?;
        Ok(TestBed { certificate, server, clip, film, _folder: folder })
    }

    fn address(&self) -> Result<SocketAddr> {
        self.server.rtsps.context("no rtsps")
    }

    fn url(&self, name: &str) -> Result<String> {
        Ok(format!("rtsps://{}/{name}", self.address()?))
    }

    fn client(&self) -> Result<(Client, Tunnel)> {
        let (stream, tunnel) = Tunnel::open(self.address()?, "127.0.0.1", &self.certificate.file())?;
        Ok((Client::over(stream), tunnel))
    }

    fn counter(&self, name: &str) -> Result<u64> {
        let status = self.server.status()?;
        status["counters"]["rtsp"][name].as_u64().with_context(|| format!("no counter {name}"))
    }
}

/// Promise: GStreamer plays SRTP by MIKEY over UDP and over TCP, byte for byte, and its encrypted reports are read.
fn gstreamer_plays(protocol: &str, path: &str, options: &[&str]) -> Result<()> {
    require!(clients::gstreamer_has_tls(), "the TLS module of GLib (glib-networking) is not installed");
    let options = [&["--srtp=mikey"], options].concat();
    let bed = TestBed::new(&options)?;
    let home = process::open_folder()?;
    let output = home.path().join("out.ts");
    let (url, properties) =
        (bed.url("clip.ts")?, [&format!("protocols={protocol}"), "tls-validation-flags=0"]);
    let session = std::thread::scope(|scope| {
        let played = scope.spawn(|| clients::gstreamer_with(&properties, &url, &output, 25.0));
        let session = Deadline::seconds(20.0).wait_for("a session that plays", || {
            let sessions = bed.server.status()?["sessions"].clone();
            let session = sessions[0].clone();
            Ok((session["packets"].as_u64() > Some(0)).then_some(session))
        });
        played.join().expect("no panic")?;
        session
    })?;
    ensure!(session["data_path"] == path && session["srtp"] == "AES_CM_128_HMAC_SHA1_80", "{session}");
    clients::ensure_gstreamer_has(&std::fs::read(&output)?, &std::fs::read(&bed.clip)?)?;
    let (read, dropped) = (bed.counter("reception_reports")?, bed.counter("rtcp_unauthenticated")?);
    ensure!(read > 0 && dropped == 0, "{read} reports were read, {dropped} packets dropped");
    Ok(())
}

/// Promise: ffmpeg plays a movie by SRTP with the key of SDES over UDP, every picture as it is stored.
///
/// ffmpeg has UDP with `rtsp` URLs only, so TLS ends in front of it.
fn ffmpeg_plays_over_udp() -> Result<()> {
    let bed = TestBed::new(&["--srtp=sdes"])?;
    let tunnel = TunnelListener::open(bed.address()?, &bed.certificate.file())?;
    let url = format!("rtsp://{}/film.mp4", tunnel.address);
    ensure_pictures(&bed, &["-rtsp_transport", "udp"], &url, &bed.film)?;
    ensure!(bed.counter("rtcp_reads")? > 0, "it did not play over UDP");
    ensure!(
        bed.counter("rtcp_unauthenticated")? > 0,
        "ffmpeg sends reports in the clear, which count for nothing"
    );
    Ok(())
}

/// Promise: With SRTP ffmpeg plays movies and transport streams over rtsps all the same.
fn ffmpeg_plays_over_tcp(name: &str) -> Result<()> {
    let bed = TestBed::new(&["--srtp=sdes"])?;
    let stored = if name == "film.mp4" { &bed.film } else { &bed.clip };
    ensure_pictures(&bed, &[], &bed.url(name)?, stored)
}

/// Promise: ffmpeg seeks with SRTP: packets after a seek are decrypted as those before.
fn ffmpeg_seeks_with_srtp() -> Result<()> {
    let bed = TestBed::new(&["--srtp=sdes"])?;
    let came = frames::decode(&["-ss", "3"], &bed.url("film.mp4")?, 40.0)?;
    let film = bed.film.to_str().context("a clip's name")?;
    let stored = frames::decode(&["-ignore_editlist", "1"], film, 60.0)?;
    let first = frames::ensure_from(&came[0], &stored[0], 0, 1)?;
    ensure!((50..=80).contains(&first), "playing began at picture {first}");
    Ok(())
}

fn ensure_pictures(bed: &TestBed, options: &[&str], url: &str, stored: &std::path::Path) -> Result<()> {
    let came = frames::decode(options, url, 40.0)?;
    let is_movie = stored == bed.film;
    let listed: &[&str] = if is_movie { &["-ignore_editlist", "1"] } else { &[] };
    let stored = frames::decode(listed, stored.to_str().context("a clip's name")?, 60.0)?;
    // ffmpeg passes a picture of a transport stream on when the next begins, so the last one stays inside.
    frames::ensure_all(&came[0], &stored[0], 1 + usize::from(!is_movie))
}

/// Promise: SRTP keys are told over TLS only, new ones by each DESCRIBE, and no second session has them.
fn keys_are_told_once_and_over_tls_only() -> Result<()> {
    let bed = TestBed::new(&["--srtp=sdes"])?;
    let url = bed.url("film.mp4")?;
    let mut plain = Client::connect(bed.server.rtsp)?;
    let text = |client: &mut Client, url: &str| -> Result<String> {
        Ok(String::from_utf8(client.succeed("DESCRIBE", url, &[])?.body)?)
    };
    let described = text(&mut plain, &bed.server.rtsp_url("film.mp4"))?;
    ensure!(!described.contains("crypto") && !described.contains("SAVP") && !described.contains("mikey"));
    let receiver = Receiver::bind([127, 0, 0, 1].into())?;
    let port = receiver.port()?;
    let transport = format!("RTP/SAVP;unicast;client_port={port}-{}", port + 1);
    let (track, headers) = (format!("{url}/track1"), [("Transport", transport.as_str())]);
    let (mut client, _tunnel) = bed.client()?;
    ensure!(client.request("SETUP", &track, &headers)?.status == 461, "no key was told yet");
    let keys = |text: &str| -> Vec<String> {
        let lines =
            text.lines().filter(|line| line.starts_with("a=crypto:") || line.starts_with("a=key-mgmt:"));
        lines.map(str::to_owned).collect()
    };
    let (first, second) = (keys(&text(&mut client, &url)?), keys(&text(&mut client, &url)?));
    ensure!((first.len(), second.len()) == (4, 4), "{first:?} {second:?}");
    ensure!(first.iter().all(|key| !second.contains(key)) && second[1] != second[3], "a key is told twice");
    let answer = client.succeed("SETUP", &track, &headers)?;
    ensure!(answer.header("transport").is_some_and(|answer| answer.starts_with("RTP/SAVP;")), "{answer:?}");
    ensure!(client.request("SETUP", &track, &headers)?.status == 461, "two sessions have one key");
    text(&mut client, &url)?;
    let other = Receiver::bind([127, 0, 0, 1].into())?;
    let port = other.port()?;
    let transport = format!("RTP/SAVP;unicast;client_port={port}-{}", port + 1);
    client.succeed("SETUP", &track, &[("Transport", &transport)])?;
    let log = bed.server.further_lines().concat();
    ensure!(!log.contains(second[1].rsplit(':').next().context("a key")?), "a key is in the log");
    Ok(())
}

/// Promise: RTCP of an SRTP session that is not authentic is counted and dropped.
fn forged_reports_are_dropped() -> Result<()> {
    let bed = TestBed::new(&["--srtp=mikey"])?;
    let url = bed.url("clip.ts")?;
    let (mut client, _tunnel) = bed.client()?;
    let described = String::from_utf8(client.succeed("DESCRIBE", &url, &[])?.body)?;
    ensure!(described.contains("m=video 0 RTP/SAVP 33") && !described.contains("crypto"), "{described}");
    let receiver = Receiver::bind([127, 0, 0, 1].into())?;
    let port = receiver.port()?;
    let offer = |profile: &str| format!("RTP/{profile};unicast;client_port={port}-{}", port + 1);
    let track = format!("{url}/track1");
    let refused = client.request("SETUP", &track, &[("Transport", &offer("AVP"))])?;
    ensure!(refused.status == 461, "media would be in the clear: {refused:?}");
    let wrong = [("Transport", offer("SAVP")), ("KeyMgmt", "prot=mikey;data=\"AQ==\"".to_owned())];
    let wrong: Vec<(&str, &str)> = wrong.iter().map(|(name, value)| (*name, value.as_str())).collect();
    ensure!(client.request("SETUP", &track, &wrong)?.status == 400);
    let answer = client.succeed("SETUP", &track, &[("Transport", &offer("SAVP"))])?;
    let transport = answer.header("transport").context("no Transport")?;
    let ports = parameter(transport, "server_port").context("no server_port")?;
    let rtcp: u16 = ports.split('-').nth(1).context("one port")?.parse()?;
    receiver.send_rtcp(&[0x80, 201, 0, 1, 0, 0, 0, 7], ([127, 0, 0, 1], rtcp).into())?;
    Deadline::seconds(10.0)
        .wait_for("a dropped report", || Ok((bed.counter("rtcp_unauthenticated")? == 1).then_some(())))?;
    ensure!(bed.counter("reception_reports")? == 0);
    Ok(())
}
