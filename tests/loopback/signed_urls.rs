//! Signed URLs: with the clients that people have, whatever they make of a query, and with raw ones.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use tempfile::TempDir;
use wirepath_auth::UrlKeys;
use wirepath_tests::http::{self, Response};
use wirepath_tests::movie::Movie;
use wirepath_tests::process::{find, open_folder};
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::{Server, binary};
use wirepath_tests::{Deadline, clients, clips, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_signed_url_opens_its_file_for_a_time,
        a_signed_folder_opens_what_is_beneath_it,
        players_play_signed_urls,
        python_signs_alike,
        tracks_are_admitted_in_every_form_of_their_urls,
        a_session_outlives_its_url,
        keys_are_read_again,
        users_and_signed_urls_stand_side_by_side,
        wrong_key_files_are_refused,
    ]
}

const KEY: &str = "0123456789abcdef0123456789abcdef";

/// A folder with clips and a file of keys, and its server.
struct TestBed {
    keys: PathBuf,
    server: Server,
    _folders: [TempDir; 2],
}

impl TestBed {
    fn with(arguments: &[&str]) -> Result<TestBed> {
        let media = clips::folder(&[("clip.ts", &clips::constant(2)?), ("film.mp4", &clips::mp4(4)?)])?;
        std::fs::create_dir(media.path().join("cams"))?;
        std::fs::copy(media.path().join("clip.ts"), media.path().join("cams/lobby 1.ts"))?;
        let home = tempfile::tempdir()?;
        let keys = home.path().join("keys");
        std::fs::write(&keys, format!("{KEY}\n"))?;
        let option = format!("--url-key={}", keys.display());
        let server = Server::of(media.path()).with([option.as_str(), "--status-users=-"]);
        let server = server.with(arguments).start()?;
        Ok(TestBed { keys, server, _folders: [media, home] })
    }

    /// The path or URL with a signature for so long, by `wirepath sign`.
    fn sign(&self, url: &str, lifetime: &str, further: &[&str]) -> Result<String> {
        let mut command = Command::new(binary()?);
        command.args(["sign", url, "--for", lifetime, "--key"]).arg(&self.keys).args(further);
        let output = command.output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
    }

    fn rtsp(&self, path: &str) -> Result<String> {
        self.sign(&self.server.rtsp_url(path), "1h", &[])
    }

    fn get(&self, path: &str) -> Result<Response> {
        http::get(self.server.http, path)
    }

    fn failures(&self, reason: &str) -> Result<u64> {
        let status = self.server.status()?;
        status["counters"]["auth"]["failures"][reason].as_u64().context("no such counter")
    }

    /// Replaces the file of keys, sends SIGHUP and waits for a line of the log.
    fn reload(&self, text: &str, line: &str) -> Result<()> {
        std::fs::write(&self.keys, text)?;
        self.server.process.signal(Signal::HUP)?;
        Deadline::seconds(10.0).wait_for(line, || Ok(self.server.process.log().contains(line).then_some(())))
    }
}

/// A query that expires at this time, by the library.
fn query(path: &str, expires_s: u64, address: Option<IpAddr>) -> Result<String> {
    Ok(UrlKeys::parse(KEY)?.sign((path.as_bytes(), false), expires_s, address).query())
}

fn now_s() -> Result<u64> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs())
}

fn says(response: &Response, words: &str) -> bool {
    response.status == 403 && String::from_utf8_lossy(&response.body).contains(words)
}

/// Promise: A signed URL opens its file for a limited time and for its client; 403 states the error.
fn a_signed_url_opens_its_file_for_a_time() -> Result<()> {
    let bed = TestBed::with(&[])?;
    let signed = bed.sign("/clip.ts", "1h", &[])?;
    ensure!(bed.get(&signed)?.body == std::fs::read(clips::constant(2)?)?);
    ensure!(http::request(bed.server.http, "HEAD", &signed, &[])?.status == 200);
    // Further parameters, and another spelling of the path.
    ensure!(bed.get(&signed.replace("/clip.ts?", "//%63lip.ts?t=5&"))?.status == 200);
    let (past, future) = (now_s()? - 1, now_s()? + 3600);
    let of = |path, expires_s, address: Option<&str>| {
        let address = address.map(str::parse).transpose()?;
        Ok::<_, anyhow::Error>(format!("/clip.ts?{}", query(path, expires_s, address)?))
    };
    for (url, words) in [
        ("/clip.ts".to_owned(), "the URL is not signed"),
        ("/none.ts".to_owned(), "the URL is not signed"),
        ("/clip.ts?expires=5".to_owned(), "malformed"),
        (of("clip.ts", past, None)?, "the URL has expired"),
        (of("other.ts", past, None)?, "the signature of the URL is wrong"),
        (of("clip.ts", future, Some("192.0.2.1"))?, "for another client address"),
    ] {
        let response = bed.get(&url)?;
        ensure!(says(&response, words), "{url}: {response:?}");
        ensure!(response.header("cache-control") == Some("no-store"), "{response:?}");
    }
    ensure!(bed.get(&of("clip.ts", future, Some("127.0.0.1"))?)?.status == 200);
    for (reason, expected) in
        [("unsigned", 2), ("url_malformed", 1), ("url_expired", 1), ("url_wrong", 1), ("url_address", 1)]
    {
        ensure!(bed.failures(reason)? == expected, "{reason}: {}", bed.server.status()?["counters"]["auth"]);
    }
    let status = bed.server.status()?;
    ensure!(status["counters"]["auth"]["url_admissions"] == 4, "{}", status["counters"]["auth"]);
    ensure!(status["auth"]["url_keys"] == 1, "{}", status["auth"]);
    Ok(())
}

/// Promise: The signature of a folder opens its listing and everything below it; links in the listing have no
/// signature.
fn a_signed_folder_opens_what_is_beneath_it() -> Result<()> {
    let bed = TestBed::with(&[])?;
    let signed = bed.sign("/cams/", "1h", &[])?;
    let query = signed.split_once('?').context("a query")?.1;
    let listing = bed.get(&signed)?;
    let text = String::from_utf8_lossy(&listing.body);
    ensure!(listing.status == 200 && text.contains("href=\"lobby%201.ts\""), "{text}");
    ensure!(!text.contains("signature"), "{text}");
    ensure!(bed.get(&format!("/cams/lobby%201.ts?{query}"))?.status == 200);
    for path in ["/", "/clip.ts", "/cams2/"] {
        ensure!(says(&bed.get(&format!("{path}?{query}"))?, "is wrong"), "{path}");
    }
    let moved = bed.get(&format!("/cams?{query}"))?;
    let expected = format!("cams/?{query}");
    ensure!((moved.status, moved.header("location")) == (301, Some(expected.as_str())), "{moved:?}");
    let url = format!("{}?{query}", bed.server.rtsp_url("cams/lobby%201.ts"));
    Client::connect(bed.server.rtsp)?.succeed("DESCRIBE", &url, &[])?;
    Ok(())
}

/// Promise: ffmpeg, GStreamer, VLC and curl use signed URLs, over UDP, TCP and HTTP, of files with one and
/// two tracks.
fn players_play_signed_urls() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let bed = TestBed::with(&[])?;
    let (home, stored) = (open_folder()?, std::fs::read(clips::constant(2)?)?);
    let output = home.path().join("out.ts");
    let (clip, film) = (bed.rtsp("clip.ts")?, bed.rtsp("film.mp4")?);
    for transport in ["udp", "tcp"] {
        clients::ffmpeg_with(&["-rtsp_transport", transport], &clip, &output, 40.0)?;
        clients::ffmpeg_with(&["-rtsp_transport", transport], &film, &output, 40.0)?;
        clients::gstreamer_over(transport, &clip, &output, 60.0)?;
        clients::ensure_gstreamer_has(&std::fs::read(&output)?, &stored)?;
        let [video, audio] = ["video", "audio"].map(|name| home.path().join(name));
        clients::gstreamer_movie(transport, &film, &video, &audio, 60.0)?;
        ensure!(std::fs::metadata(&video)?.len() > 0 && std::fs::metadata(&audio)?.len() > 0);
    }
    let over_http = bed.sign(&bed.server.http_url("clip.ts"), "1h", &[])?;
    clients::ffmpeg_with(&[], &over_http, &output, 40.0)?;
    let curl = Command::new("curl").args(["-sSf", "--max-time", "20", &over_http]).output()?;
    ensure!(curl.stdout == stored, "{}", String::from_utf8_lossy(&curl.stderr));
    let refused =
        clients::ffmpeg(&bed.server.rtsp_url("clip.ts"), &output, 40.0).err().context("it played")?;
    ensure!(format!("{refused:#}").contains("403"), "{refused:#}");
    clients::vlc(&clip, home.path(), &output, 40.0)?;
    let came = std::fs::read(&output)?.len();
    ensure!(came > stored.len() / 4, "VLC stored {came} bytes of {}", stored.len());
    Ok(())
}

/// Promise: The Python example in the reference signs as `wirepath sign` does.
fn python_signs_alike() -> Result<()> {
    require!(find("python3").is_some(), "python3 is not installed");
    let reference = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference.md");
    let reference = std::fs::read_to_string(reference)?;
    let script = reference.split("```python\n").nth(1).and_then(|rest| rest.split("```").next());
    let script = script.context("no Python in the reference")?;
    let setting = format!("key, path, expires = {KEY:?}, '/cams/lobby 1.ts', 4000000000\n");
    let output = Command::new("python3").args(["-c", &(setting + script)]).output()?;
    let url = String::from_utf8(output.stdout)?;
    let expected = format!("/cams/lobby%201.ts?{}", query("cams/lobby 1.ts", 4_000_000_000, None)?);
    ensure!(url.trim_end() == expected, "{url}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Promise: RTSP finds a signature before or after a track's name, or in the URL of the earlier DESCRIBE.
fn tracks_are_admitted_in_every_form_of_their_urls() -> Result<()> {
    let bed = TestBed::with(&[])?;
    let (url, signed) = (bed.server.rtsp_url("film.mp4"), bed.rtsp("film.mp4")?);
    let query = signed.split_once('?').context("a query")?.1;
    let set_up = |client: &mut Client, url: &str| -> Result<u16> {
        Ok(client.request("SETUP", url, &[("Transport", "RTP/AVP/TCP;unicast;interleaved=0-1")])?.status)
    };
    for (form, expected) in [
        (format!("{url}?{query}/track1"), 200),
        (format!("{url}/?{query}/track2"), 200),
        (format!("{url}/track1?{query}"), 200),
        (format!("{url}/track1"), 403),
        (format!("{url}?{query}"), 459),
    ] {
        ensure!(set_up(&mut Client::connect(bed.server.rtsp)?, &form)? == expected, "{form}");
    }
    let mut client = Client::connect(bed.server.rtsp)?;
    ensure!(client.request("DESCRIBE", &url, &[])?.status == 403);
    let described = client.succeed("DESCRIBE", &signed, &[])?;
    let base = described.header("content-base").context("no Content-Base")?;
    ensure!(base == format!("{url}/"), "{base}");
    ensure!(set_up(&mut client, &format!("{base}track1"))? == 200);
    ensure!(client.request("DESCRIBE", &url, &[])?.status == 403, "only SETUP has the query of before");
    // Described was one file, not others.
    ensure!(set_up(&mut client, &bed.server.rtsp_url("clip.ts/track1"))? == 403);
    // Requests about nothing that is open say what they said before.
    ensure!(client.request("PLAY", &signed, &[])?.status == 454);
    Ok(())
}

/// Promise: A session whose URL expires continues: it can set up further tracks, pause and play to the end.
fn a_session_outlives_its_url() -> Result<()> {
    let bed = TestBed::with(&[])?;
    let query = query("film.mp4", now_s()? + 8, None)?;
    let (path, url) = (format!("film.mp4?{query}"), bed.server.rtsp_url(&format!("film.mp4?{query}")));
    let mut session = Movie::set_up(bed.server.rtsp, &path)?;
    let mut client = Client::connect(bed.server.rtsp)?;
    let refused = Deadline::seconds(30.0).wait_for("the URL to expire", || {
        let response = client.request("DESCRIBE", &url, &[])?;
        Ok((response.status != 200).then_some(response))
    })?;
    ensure!(says(&refused, "the URL has expired") || refused.status == 403, "{refused:?}");
    session.play(None)?;
    let received = session.to_the_end(Deadline::seconds(30.0))?;
    ensure!(received.len() == 2 && received.iter().all(|track| !track.packets.is_empty()));
    Ok(())
}

/// Promise: SIGHUP reads the keys again: URLs of a removed key are refused, and an invalid file keeps the old
/// keys.
fn keys_are_read_again() -> Result<()> {
    let bed = TestBed::with(&[])?;
    let old = bed.sign("/clip.ts", "1h", &[])?;
    let other = "fedcba9876543210fedcba9876543210";
    bed.reload(&format!("{other}\n{KEY}\n"), "URL keys are read again")?;
    let new = bed.sign("/clip.ts", "1h", &[])?;
    ensure!(old != new && bed.get(&old)?.status == 200 && bed.get(&new)?.status == 200);
    bed.reload("short\n", "the URL keys are unchanged")?;
    ensure!(bed.server.process.log().contains("line 1: expected a key of 32 to 1024 characters"));
    ensure!(bed.get(&old)?.status == 200);
    std::fs::write(&bed.keys, format!("{other}\n"))?;
    bed.server.process.signal(Signal::HUP)?;
    let refused = Deadline::seconds(10.0).wait_for("the old key to be forgotten", || {
        let response = bed.get(&old)?;
        Ok((response.status != 200).then_some(response))
    })?;
    ensure!(says(&refused, "the signature of the URL is wrong"), "{refused:?}");
    ensure!(bed.get(&new)?.status == 200);
    ensure!(!bed.server.process.log().contains(other), "a key is in the log");
    Ok(())
}

/// Promise: With --users, a signed URL opens its path without a password, and other paths need a user.
fn users_and_signed_urls_stand_side_by_side() -> Result<()> {
    let users = tempfile::NamedTempFile::new()?;
    std::fs::write(users.path(), wirepath_auth::with_password("", "home", "anna", "secret")?)?;
    let option = format!("--users={}", users.path().display());
    let bed = TestBed::with(&[&option, "--folder-users=cams=anna"])?;
    let signed = bed.sign("/cams/lobby%201.ts", "1h", &[])?;
    ensure!(bed.get(&signed)?.status == 200);
    ensure!(bed.get("/cams/lobby%201.ts")?.status == 401 && bed.get("/clip.ts?a=b")?.status == 401);
    ensure!(bed.get(&signed.replace("expires=", "expires=1"))?.status == 403);
    let mut client = Client::connect(bed.server.rtsp)?;
    client.succeed("DESCRIBE", &bed.rtsp("clip.ts")?, &[])?;
    ensure!(client.request("DESCRIBE", &bed.server.rtsp_url("film.mp4"), &[])?.status == 401);
    Ok(())
}

/// Promise: With a key file that is missing, invalid or served, a server does not start and nothing is
/// signed.
fn wrong_key_files_are_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("media"))?;
    std::fs::write(folder.path().join("short"), "secret\n")?;
    std::fs::write(folder.path().join("media/keys"), format!("{KEY}\n"))?;
    let listen = ["serve", "media", "--cache=cache", "--rtsp=127.0.0.1:0", "--http=127.0.0.1:0"];
    let signing = ["sign", "/a", "--for=1h"];
    for (arguments, words) in [
        ([&listen[..], &["--url-key=none"]].concat(), "cannot read the file of URL keys none"),
        (
            [&listen[..], &["--url-key=short"]].concat(),
            "in the file of URL keys short: line 1: expected a key",
        ),
        ([&listen[..], &["--url-key=media/keys"]].concat(), "media/keys lies in media, which is served"),
        (
            [&listen[..], &["--url-key=short", "--folder-users=a=anna"]].concat(),
            "need users: add --users FILE",
        ),
        ([&signing[..], &["--key=none"]].concat(), "cannot read the file of URL keys none"),
        ([&signing[..], &["--key=short"]].concat(), "such as `openssl rand -hex 32` prints"),
    ] {
        let output = Command::new(binary()?).args(&arguments).current_dir(folder.path()).output()?;
        let log = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1) && log.contains(words), "{arguments:?}: {log}");
        ensure!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
    }
    Ok(())
}
