//! RTSP and HTTP over TLS, with the clients that people have and with one that looks at every byte.

use std::net::TcpStream;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use tempfile::TempDir;
use wirepath_tests::hot::{counted, require_ring};
use wirepath_tests::interleaved::{Came, Interleaved};
use wirepath_tests::playback::{announced, describe, ensure_bytes};
use wirepath_tests::process::{self, find};
use wirepath_tests::rtsp::Client;
use wirepath_tests::seek::{ensure_from, random_access_point_before};
use wirepath_tests::server::Server;
use wirepath_tests::tls::{Certificate, Tunnel};
use wirepath_tests::{Deadline, clients, clips, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        curl_downloads_over_https,
        passwords_are_sent_over_tls_only,
        ffmpeg_plays_and_seeks_over_rtsps,
        gstreamer_plays_over_rtsps,
        every_byte_comes_over_rtsps_among_responses,
        nothing_is_lent_over_rtsps,
        a_session_pauses_and_seeks_over_rtsps,
        media_do_not_leave_in_the_clear,
        a_new_certificate_disturbs_nobody,
        a_slow_reader_over_tls_skips,
        draining_ends_sessions_over_tls,
        clients_over_tls_leave_nothing_behind,
    ]
}

/// A server with TLS.
pub(crate) struct TestBed {
    pub(crate) certificate: Certificate,
    pub(crate) server: Server,
    pub(crate) stored: Vec<u8>,
    _folder: TempDir,
}

impl TestBed {
    /// Serves a clip of so many seconds as `clip.ts`.
    pub(crate) fn new(seconds: u32, options: &[&str]) -> Result<TestBed> {
        let clip = clips::constant(seconds)?;
        let certificate = Certificate::new()?;
        let folder = clips::folder(&[("clip.ts", &clip)])?;
        let server = Server::of(folder.path()).with(certificate.arguments()).with(options).start()?;
        Ok(TestBed { certificate, server, stored: std::fs::read(&clip)?, _folder: folder })
    }

    fn rtsps_url(&self) -> Result<String> {
        Ok(format!("rtsps://{}/clip.ts", self.server.rtsps.context("no rtsps")?))
    }

    /// A connection to RTSP over TLS from this address.
    pub(crate) fn connect_from(&self, address: &str) -> Result<(TcpStream, Tunnel)> {
        Tunnel::open(self.server.rtsps.context("no rtsps")?, address, &self.certificate.file())
    }

    fn session(&self) -> Result<(Interleaved, Tunnel)> {
        let (stream, tunnel) = self.connect_from("127.0.0.1")?;
        Ok((Interleaved::over(stream, self.rtsps_url()?)?, tunnel))
    }

    /// A counter of TLS by its name in `/metrics`.
    pub(crate) fn count(&self, name: &str) -> Result<u64> {
        let response = wirepath_tests::http::get(self.server.http, "/metrics")?;
        let text = String::from_utf8(response.body)?;
        let prefix = format!("wirepath_tls_{name} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix)).context(prefix.clone())?;
        Ok(line.parse()?)
    }
}

/// Promise: curl downloads over HTTPS, whole and by ranges, byte for byte, and refuses an untrusted server.
fn curl_downloads_over_https() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let folder = tempfile::tempdir()?;
    let content: Vec<u8> =
        (0..100_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(folder.path().join("large"), &content)?;
    let certificate = Certificate::new()?;
    let server = Server::of(folder.path()).with(certificate.arguments()).start()?;
    let url = format!("https://{}/large", server.https.context("no https")?);
    let curl = |arguments: &[&str]| -> Result<std::process::Output> {
        let mut command = Command::new("curl");
        command.args(["-sSf", "--max-time", "60", "--http1.1"]).args(arguments).arg(&url);
        command.output().context("curl")
    };
    let file = certificate.file();
    let trusting = ["--cacert", file.to_str().context("UTF-8")?];
    let whole = curl(&trusting)?;
    ensure!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    ensure!(whole.stdout == content, "{} bytes came that differ", whole.stdout.len());
    for range in [(5, 5), (77_777, 60_000_001), (99_999_990, 99_999_999)] {
        let asked = format!("{}-{}", range.0, range.1);
        let part = curl(&[&trusting[..], &["-r", &asked]].concat())?;
        ensure!(part.status.success() && part.stdout == content[range.0..=range.1], "range {asked}");
    }
    let suspicious = curl(&[])?;
    ensure!(suspicious.status.code() == Some(60), "{suspicious:?}");
    Deadline::seconds(10.0).wait_for("the end of five handshakes", || {
        let counters = &server.status()?["counters"]["tls"];
        let failed = counters["handshakes_failed"]["alert"].as_u64();
        Ok((counters["handshakes"] == 4 && failed == Some(1)).then_some(()))
    })
}

/// Promise: Basic authentication works only over HTTPS and rtsps.
fn passwords_are_sent_over_tls_only() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let users = tempfile::NamedTempFile::new()?;
    std::fs::write(users.path(), wirepath_auth::with_password("", "home", "anna", "secret")?)?;
    let bed = TestBed::new(2, &[&format!("--users={}", users.path().display())])?;
    let status = |url: String, user: &str| -> Result<String> {
        let mut command = Command::new("curl");
        command.args([
            "-s",
            "--max-time",
            "20",
            "--basic",
            "-u",
            user,
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
        ]);
        let output = command.arg("--cacert").arg(bed.certificate.file()).arg(url).output().context("curl")?;
        Ok(String::from_utf8(output.stdout)?)
    };
    let secure = format!("https://{}/clip.ts", bed.server.https.context("no https")?);
    ensure!(status(secure.clone(), "anna:secret")? == "200");
    ensure!(status(secure, "anna:guess")? == "401");
    ensure!(status(bed.server.http_url("clip.ts"), "anna:secret")? == "401");
    let basic = [("Authorization", "Basic YW5uYTpzZWNyZXQ=")];
    let (stream, _tunnel) = bed.connect_from("127.0.0.1")?;
    let mut client = Client::over(stream);
    let denied = client.request("DESCRIBE", &bed.rtsps_url()?, &[])?;
    let challenges: Vec<_> = denied.headers.iter().filter(|(name, _)| name == "www-authenticate").collect();
    ensure!(challenges.len() == 3 && challenges[2].1.starts_with("Basic "), "{challenges:?}");
    client.succeed("DESCRIBE", &bed.rtsps_url()?, &basic)?;
    let mut plain = Client::connect(bed.server.rtsp)?;
    ensure!(plain.request("DESCRIBE", &bed.server.rtsp_url("clip.ts"), &basic)?.status == 401);
    // Clients that know both take Digest.
    let home = process::open_folder()?;
    let output = home.path().join("out.ts");
    let url = bed.rtsps_url()?.replace("rtsps://", "rtsps://anna:secret@");
    clients::ffmpeg_with(&[], &url, &output, 25.0)?;
    ensure!(!clips::pictures(&output)?.is_empty());
    Ok(())
}

/// Promise: ffmpeg plays and seeks over RTSP with TLS.
fn ffmpeg_plays_and_seeks_over_rtsps() -> Result<()> {
    let bed = TestBed::new(8, &[])?;
    let home = process::open_folder()?;
    let output = home.path().join("out.ts");
    let stored = clips::pictures(&clips::constant(8)?)?.len();
    clients::ffmpeg_with(&[], &bed.rtsps_url()?, &output, 25.0)?;
    let came = clips::pictures(&output)?.len();
    // ffmpeg passes a picture on when the next begins, so the last one stays inside.
    ensure!(came <= stored && came + 1 >= stored, "{came} pictures of {stored} came");
    let sought = home.path().join("sought.ts");
    clients::ffmpeg_with(&["-ss", "4"], &bed.rtsps_url()?, &sought, 25.0)?;
    let came = clips::pictures(&sought)?.len();
    ensure!(came > stored / 4 && came < stored * 3 / 4, "{came} pictures of {stored} came after a seek");
    ensure!(bed.count("handshakes_total")? == 2, "it did not play over TLS");
    Ok(())
}

/// Promise: GStreamer plays over RTSP with TLS, byte for byte.
fn gstreamer_plays_over_rtsps() -> Result<()> {
    require!(clients::gstreamer_has_tls(), "the TLS module of GLib (glib-networking) is not installed");
    let bed = TestBed::new(6, &[])?;
    let home = process::open_folder()?;
    let output = home.path().join("out.ts");
    clients::gstreamer_with(&["tls-validation-flags=0"], &bed.rtsps_url()?, &output, 25.0)?;
    let came = std::fs::read(&output)?;
    clients::ensure_gstreamer_has(&came, &bed.stored)?;
    ensure!(bed.count("handshakes_total")? == 1, "it did not play over TLS");
    Ok(())
}

/// Promise: Over TLS every byte arrives, responses come between frames, and the status has the client's own
/// address.
fn every_byte_comes_over_rtsps_among_responses() -> Result<()> {
    let bed = TestBed::new(6, &[])?;
    let (stream, _tunnel) = bed.connect_from("127.0.0.7")?;
    let mut client = Interleaved::over(stream, bed.rtsps_url()?)?;
    let (sequence, timestamp) = announced(&client.play(None)?)?;
    let session = bed.server.status()?["sessions"][0].clone();
    let address = session["client"].as_str().with_context(|| format!("no client in {session}"))?;
    ensure!(address.starts_with("127.0.0.7"), "{session}");
    let deadline = Deadline::seconds(20.0);
    while client.received.bye.is_none() {
        ensure!(!deadline.has_passed(), "no BYE");
        client.succeed("GET_PARAMETER", &[])?;
    }
    ensure_bytes(&client.received, &bed.stored)?;
    let first = client.received.packets.first().context("no packet")?;
    ensure!((first.sequence, first.timestamp) == (sequence, timestamp), "RTP-Info announced another packet");
    client.succeed("TEARDOWN", &[])?;
    ensure!(bed.server.sessions()? == 0);
    Ok(())
}

/// Promise: Sessions over TLS neither use hot memory nor count for it, since the kernel would copy what is lent.
fn nothing_is_lent_over_rtsps() -> Result<()> {
    require_ring()?;
    let clip = clips::constant(6)?;
    let certificate = Certificate::new()?;
    let folder = clips::folder(&[("clip.ts", &clip)])?;
    let server =
        Server::of(folder.path()).with(certificate.arguments()).with(["--hot-memory=64MiB"]).packed();
    let (server, stored) = (server.start()?, std::fs::read(&clip)?);
    let bed = TestBed { certificate, server, stored, _folder: folder };
    let (stream, _tunnel) = bed.connect_from("127.0.0.1")?;
    let mut client = Interleaved::over_in(stream, bed.rtsps_url()?, [0, 1])?;
    client.play(None)?;
    client.to_the_end(Deadline::seconds(20.0))?;
    ensure_bytes(&client.received, &bed.stored)?;
    let status = bed.server.status()?;
    ensure!(counted(&status, "trains")? > 100 && counted(&status, "trains_lent")? == 0, "{status}");
    ensure!(status["hot_memory"]["images"] == serde_json::json!([]), "{}", status["hot_memory"]);
    ensure!(status["sessions"][0]["data_path"] == "interleaved", "{}", status["sessions"]);
    Ok(())
}

/// Promise: A session over TLS pauses, and a seek begins at the right byte.
fn a_session_pauses_and_seeks_over_rtsps() -> Result<()> {
    let bed = TestBed::new(8, &[])?;
    let pictures = clips::pictures(&clips::constant(8)?)?;
    let (mut client, _tunnel) = bed.session()?;
    client.play(Some("npt=1.5-"))?;
    while client.received.seconds() < 0.5 {
        client.read()?;
    }
    client.succeed("PAUSE", &[])?;
    let paused = client.received.packets.len();
    client.play(Some("npt=4.5-"))?;
    ensure!(client.received.packets.len() == paused, "packets came between PAUSE and PLAY");
    client.to_the_end(Deadline::seconds(20.0))?;
    let received = &client.received;
    ensure!(received.gaps().is_empty(), "gaps {:?}", received.gaps());
    let (first, second) = received.payload.split_at(received.packets[paused].payload.start);
    ensure_from(first, &bed.stored, &random_access_point_before(&pictures, 1.5)?)
        .context("the first seek")?;
    ensure_from(second, &bed.stored, &random_access_point_before(&pictures, 4.5)?)
        .context("the second seek")?;
    ensure!(bed.stored.ends_with(second), "it did not play to the end");
    Ok(())
}

/// Promise: Over TLS media never leaves by UDP: a SETUP that offers only UDP gets 461 and the reason.
fn media_do_not_leave_in_the_clear() -> Result<()> {
    let bed = TestBed::new(2, &[])?;
    let (stream, _tunnel) = bed.connect_from("127.0.0.1")?;
    let mut client = Client::over(stream);
    let (_, control) = describe(&mut client, &bed.rtsps_url()?)?;
    let udp = "RTP/AVP;unicast;client_port=5000-5001";
    let refused = client.request("SETUP", &control, &[("Transport", udp)])?;
    ensure!(refused.status == 461, "{refused:?}");
    let why = String::from_utf8_lossy(&refused.body).into_owned();
    ensure!(why.contains("over TLS media go over the connection"), "{why}");
    let both = format!("{udp},RTP/AVP/TCP;unicast;interleaved=0-1");
    let accepted = client.succeed("SETUP", &control, &[("Transport", &both)])?;
    ensure!(accepted.header("transport").is_some_and(|chosen| chosen.starts_with("RTP/AVP/TCP")));
    Ok(())
}

/// Promise: SIGHUP reads the TLS certificate again while sessions play; an invalid certificate leaves the old
/// one in use.
fn a_new_certificate_disturbs_nobody() -> Result<()> {
    let bed = TestBed::new(6, &[])?;
    let (mut playing, _tunnel) = bed.session()?;
    playing.play(None)?;
    let old = tempfile::NamedTempFile::new()?;
    std::fs::copy(bed.certificate.file(), old.path())?;
    bed.certificate.renew()?;
    reload(&bed, "TLS certificate is read again")?;
    let rtsps = bed.server.rtsps.context("no rtsps")?;
    let options = |authority: &std::path::Path| -> Result<u16> {
        let (stream, _tunnel) = Tunnel::open(rtsps, "127.0.0.1", authority)?;
        Ok(Client::over(stream).request("OPTIONS", "*", &[])?.status)
    };
    ensure!(options(&bed.certificate.file())? == 200);
    ensure!(options(old.path()).is_err(), "the old certificate is still in use");
    std::fs::write(bed.certificate.key(), "no key")?;
    reload(&bed, "the TLS certificate is unchanged")?;
    ensure!(options(&bed.certificate.file())? == 200);
    ensure!(bed.count("certificate_reloads_total")? == 1);
    ensure!(bed.count("certificate_reloads_failed_total")? == 1);
    playing.to_the_end(Deadline::seconds(20.0))?;
    ensure_bytes(&playing.received, &bed.stored)
}

fn reload(bed: &TestBed, words: &str) -> Result<()> {
    bed.server.process.signal(Signal::HUP)?;
    Deadline::seconds(10.0).wait_for(words, || Ok(bed.server.process.log().contains(words).then_some(())))
}

/// Promise: A client over TLS that reads too slowly skips forward, like a client without TLS.
fn a_slow_reader_over_tls_skips() -> Result<()> {
    let bed = TestBed::new(30, &["--max-lag", "500ms"])?;
    let (mut client, _tunnel) = bed.session()?;
    client.play(None)?;
    // Nobody reads until the server notices.
    let counter = |name: &str| -> Result<u64> {
        bed.server.status()?["counters"]["playback"][name].as_u64().with_context(|| name.to_owned())
    };
    Deadline::seconds(25.0)
        .wait_for("a full connection", || Ok((counter("sockets_full")? > 0).then_some(())))?;
    let silence = Deadline::seconds(2.0); // four times the lag that it may have
    while !silence.has_passed() {
        client.stream().set_nodelay(true)?;
    }
    let deadline = Deadline::seconds(30.0);
    while counter("forward_skips")? == 0 {
        ensure!(!deadline.has_passed(), "it does not skip");
        ensure!(!matches!(client.read()?, Came::End), "it ended");
    }
    Ok(())
}

/// Promise: On SIGTERM sessions over TLS end with a BYE, and incomplete handshakes do not delay the end.
fn draining_ends_sessions_over_tls() -> Result<()> {
    let mut bed = TestBed::new(60, &[])?;
    let (mut playing, _tunnel) = bed.session()?;
    playing.play(None)?;
    // A session that has sent nothing ends without a BYE.
    while playing.received.packets.is_empty() {
        ensure!(!matches!(playing.read()?, Came::End), "it ended");
    }
    let silent = TcpStream::connect(bed.server.rtsps.context("no rtsps")?)?;
    Deadline::seconds(5.0)
        .wait_for("a handshake", || Ok((bed.count("handshakes_pending")? == 1).then_some(())))?;
    bed.server.process.signal(Signal::TERM)?;
    playing.to_the_end(Deadline::seconds(5.0))?;
    let status = bed.server.process.wait(Deadline::seconds(9.0))?;
    ensure!(status.success(), "{status}: {}", bed.server.process.log());
    drop(silent);
    Ok(())
}

/// Promise: Clients over TLS that leave or vanish leave no session, connection or descriptor behind.
fn clients_over_tls_leave_nothing_behind() -> Result<()> {
    let bed = TestBed::new(60, &[])?;
    let begin = || -> Result<(Interleaved, Tunnel)> {
        let (mut client, tunnel) = bed.session()?;
        client.play(None)?;
        while client.received.packets.len() < 20 {
            ensure!(!matches!(client.read()?, Came::End), "it ended");
        }
        Ok((client, tunnel))
    };
    let gone = || {
        Deadline::seconds(10.0).wait_for("the end of all sessions", || {
            let counters = &bed.server.status()?["counters"];
            let left = [
                &counters["rtsp"]["sessions"],
                &counters["rtsp"]["connections"],
                &counters["tls"]["connections"],
                &counters["playback"]["playbacks"],
            ];
            Ok(left.iter().all(|left| **left == 0).then_some(()))
        })
    };
    drop(begin()?); // what is made once
    gone()?;
    let before = bed.server.descriptors()?;
    for _ in 0..3 {
        let (mut client, tunnel) = begin()?;
        client.succeed("TEARDOWN", &[])?;
        drop((client, tunnel));
        drop(begin()?);
    }
    gone()?;
    Deadline::seconds(10.0)
        .wait_for("descriptors as before", || Ok((bed.server.descriptors()? <= before).then_some(())))
}
