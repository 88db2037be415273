//! `wirepath load` over HTTP: against `wirepath serve`, nginx, and servers that serve badly on purpose.

mod scripted;

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use scripted::{Scripted, send};
use serde_json::Value;
use wirepath_tests::process::{Process, find, is_root};
use wirepath_tests::server::{self, Server};
use wirepath_tests::{Deadline, clips, require, trials};

use crate::load::Run;

/// Buffer of players whose server shares its processors with other tests.
const BUFFER: &str = "--buffer=1s";

/// Four segments of two seconds, the last two of them ranges of one resource.
const PLAYLIST: &str = "#EXTM3U\n#EXT-X-VERSION:4\n#EXT-X-TARGETDURATION:2\n#EXT-X-PLAYLIST-TYPE:VOD\n\
    #EXTINF:2.0,one, two\nclip.ts?1\n#EXTINF:2.0,\n/hls/./clip.ts?2\n#EXTINF:2.0,\n#EXT-X-BYTERANGE:500000@0\n\
    clip.ts\n#EXTINF:2.0,\n#EXT-X-BYTERANGE:400000\nclip.ts\n#EXT-X-ENDLIST\n";

const MASTER: &str = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=100\nmissing.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=4000000\n\
    hls/list.m3u8\n";

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        downloads_of_a_server_are_judged,
        a_player_reads_no_further_ahead_than_players_do,
        segments_of_a_playlist_are_played,
        sessions_over_http_seek_and_leave_and_vanish,
        nginx_is_judged_as_well,
        downloads_of_a_mixed_run_do_not_seek,
        a_slow_server_is_not_timely,
        bytes_that_trickle_do_not_stall,
        sessions_without_media_do_not_begin_again_at_once,
        bodies_of_every_framing_are_read,
        connections_that_end_between_requests_are_opened_again,
        servers_that_break_http_fail_their_sessions,
        playlists_that_cannot_be_played_fail_their_sessions,
        options_without_meaning_over_http_are_refused,
    ]
}

/// Promise: `wirepath load http://HOST/PATH` downloads with many sessions over persistent connections and
/// judges a sample.
fn downloads_of_a_server_are_judged() -> Result<()> {
    let (_folder, server) = serving(2)?;
    let run =
        Run::of(&[&server.http_url("clip.ts"), "--sessions=8", "--ramp=40", "--for=2s", "--sample=0%"])?;
    run.ensure_code(0)?;
    let Run { json, text, .. } = &run;
    ensure!(json.get("media").is_none() && json.get("loss_share").is_none(), "{json}");
    ensure!(json.get("setup_ms").is_none() && json["client"].get("waiting_ms").is_none(), "{json}");
    ensure!(json["asked"]["transport"] == "http" && json["sessions"]["started"] == 8, "{json}");
    let (http, unjudged) = (&json["http"], &json["unjudged"]);
    ensure!(json["sessions"]["judged"] == 1 && json["sessions"]["timely"] == 1, "{}", json["sessions"]);
    ensure!(http["connections"] == 1 && http["responses"].as_u64() > Some(1), "{http}");
    let size = std::fs::metadata(clips::constant(2)?)?.len();
    ensure!(http["bytes"].as_u64() >= http["responses"].as_u64().map(|number| number * size), "{http}");
    for figure in ["connect_ms", "first_byte_ms", "response_ms"] {
        ensure!(number(&http[figure], "max")? > 0.0, "{figure}: {http}");
    }
    ensure!(unjudged["sessions"] == 7 && unjudged["without_media"] == 0, "{unjudged}");
    ensure!(unjudged["discarded_bytes"].as_u64() > Some(7 * size), "{unjudged}");
    ensure!(json["timeline"][0]["responses"].is_number() && json["timeline"][0]["lost"].is_null(), "{json}");
    ensure!(text.contains("1 of 1 judged sessions downloaded without a failure"), "{text}");
    ensure!(text.contains("request to first byte") && !text.contains("burst"), "{text}");
    ensure!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    Ok(())
}

/// Promise: `wirepath load --rate` reads over HTTP like a player, at most 10 s ahead.
fn a_player_reads_no_further_ahead_than_players_do() -> Result<()> {
    let (_folder, server) = serving(20)?;
    let clip = server.http_url("clip.ts");
    let run = Run::of(&[&clip, "--sessions=4", "--ramp=40", "--for=2s", "--rate=4Mb/s", BUFFER])?;
    run.ensure_code(0)?;
    let (sessions, http) = (&run.json["sessions"], &run.json["http"]);
    ensure!(sessions["judged"] == 4 && sessions["timely"] == 4, "{sessions}");
    let seconds = number(http, "bytes")? / 4.0 / 500_000.0;
    ensure!((9.0..14.0).contains(&seconds), "{seconds} s of media were read in 2 s");
    ensure!(run.text.contains("4 of 4 judged sessions were timely"), "{}", run.text);
    Ok(())
}

/// Promise: `wirepath load` plays the segments of an HLS playlist; of a master playlist it plays the best
/// variant.
fn segments_of_a_playlist_are_played() -> Result<()> {
    let (_folder, server) = serving(2)?;
    let (master, media) = (server.http_url("master.m3u8"), server.http_url("hls/list.m3u8"));
    let run = Run::of(&[&master, &media, "--sessions=6", "--ramp=40", "--for=12s", "--sample=50%", BUFFER])?;
    run.ensure_code(0)?;
    let (sessions, http) = (&run.json["sessions"], &run.json["http"]);
    // Eight seconds of media, and one of buffer before them.
    ensure!(sessions["media_over"].as_u64() >= Some(6) && sessions["failed"] == 0, "{sessions}");
    let bytes = 2 * std::fs::metadata(clips::constant(2)?)?.len() + 900_000;
    let first = run.json["records"].as_array().context("no records")?.iter();
    let whole = first.filter(|record| record["ending"] == "media_over" && record["judged"] == true);
    let mut whole = whole.map(|record| &record["http"]).peekable();
    ensure!(whole.peek().is_some(), "{}", run.json);
    ensure!(whole.all(|http| http["bytes"] == bytes && http["responses"] == 4), "{}", run.json["records"]);
    ensure!(http["underruns"] == 0, "{http}");
    Ok(())
}

/// Promise: Sessions of `wirepath load` over HTTP seek, leave and vanish as configured; new sessions replace
/// them.
fn sessions_over_http_seek_and_leave_and_vanish() -> Result<()> {
    let (_folder, server) = serving(20)?;
    for (path, rate) in [("clip.ts", Some("--rate=4Mb/s")), ("hls/list.m3u8", None)] {
        let clip = server.http_url(path);
        let mut arguments = vec![&*clip, "--sessions=6", "--for=4s", "--seek-every=400ms", "--churn=1500ms"];
        arguments.extend(["--vanish=75%", "--require=none"]);
        arguments.extend(rate);
        let run = Run::of(&arguments)?;
        run.ensure_code(0)?;
        let sessions = &run.json["sessions"];
        ensure!(
            sessions["failed"] == 0 && sessions["left"].as_u64() > Some(1),
            "{sessions} {}",
            run.json["failures"]
        );
        let records = run.json["records"].as_array().context("no records")?;
        ensure!(records.iter().any(|record| record["ending"] == "vanished"), "{}", run.json["records"]);
        ensure!(sessions["seeks"].as_u64() > Some(6) && run.json["seek_ms"]["p50"].is_number(), "{sessions}");
    }
    Ok(())
}

/// Promise: `wirepath load` works with nginx.
fn nginx_is_judged_as_well() -> Result<()> {
    require!(find("nginx").is_some(), "nginx is not installed");
    require!(is_root(), "nginx is started as root here");
    let folder = library(20)?;
    let (port, _nginx) = nginx(folder.path())?;
    for (path, rate) in [("clip.ts", None), ("clip.ts", Some("--rate=4Mb/s")), ("master.m3u8", None)] {
        let clip = format!("http://127.0.0.1:{port}/{path}");
        let mut arguments = vec![&*clip, "--sessions=6", "--for=3s", "--sample=50%"];
        arguments.extend(rate.into_iter().flat_map(|rate| [rate, BUFFER]));
        let run = Run::of(&arguments)?;
        run.ensure_code(0)?;
        let (sessions, unjudged) = (&run.json["sessions"], &run.json["unjudged"]);
        ensure!(sessions["failed"] == 0 && unjudged["without_media"] == 0, "{sessions} {unjudged}");
    }
    Ok(())
}

/// Writes bytes, and returns when `time` has passed since the call: the pace of a slow server.
fn write_paced(stream: &mut TcpStream, bytes: &[u8], time: Duration) -> std::io::Result<()> {
    let due = Instant::now() + time;
    stream.write_all(bytes)?;
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
    Ok(())
}

/// Promise: Over HTTP a session is timely if a player with the requested buffer never ran dry.
fn a_slow_server_is_not_timely() -> Result<()> {
    // 40 ms of media at 1 Mb/s in 100 ms; of segments, one second in 2.5.
    let slow = Scripted::start(|stream, path| {
        if path.ends_with(".m3u8") {
            let segments = "#EXTINF:1,\nsegment.ts\n".repeat(5);
            let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n{segments}#EXT-X-ENDLIST\n");
            return send(stream, "200 OK", text.as_bytes());
        }
        let pieces = 25;
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", pieces * 5_000)?;
        for _ in 0..pieces {
            write_paced(stream, &[7; 5_000], Duration::from_millis(100))?;
        }
        Ok(true)
    })?;
    for (path, rate) in [("clip.ts", Some("--rate=1Mb/s")), ("list.m3u8", None)] {
        let clip = slow.url(path);
        let run = Run::of(&[&[&*clip, "--for=7s"][..], rate.as_slice()].concat())?;
        run.ensure_code(3)?;
        let http = &run.json["http"];
        ensure!(http["underruns"].as_u64() >= Some(1) && number(http, "stalled_ms")? > 500.0, "{http}");
        ensure!(run.json["sessions"]["timely"] == 0 && run.json["sessions"]["failed"] == 0, "{}", run.json);
        ensure!(run.text.contains("--require timely:100%, the default, is not met"), "{}", run.text);
    }
    Ok(())
}

/// Promise: Over HTTP a session outside the sample does not fail while bytes arrive, however few.
fn bytes_that_trickle_do_not_stall() -> Result<()> {
    /// Longest time from one write to the next, which is longer than meant when the machine pauses.
    static LONGEST_PAUSE_MS: AtomicU64 = AtomicU64::new(0);
    let server = Scripted::start(|stream, _| {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n")?;
        loop {
            let written = Instant::now();
            write_paced(stream, &[7; 1_000], Duration::from_millis(50))?;
            LONGEST_PAUSE_MS.fetch_max(written.elapsed().as_millis() as u64, Relaxed);
        }
    })?;
    Deadline::seconds(120.0).wait_for("a run in which the server wrote all the time", || {
        LONGEST_PAUSE_MS.store(0, Relaxed);
        let run = Run::of(&[&server.url("a"), "--sessions=3", "--for=8s", "--sample=0%", "--timeout=3s"])?;
        match trickled(&run) {
            Err(_) if LONGEST_PAUSE_MS.load(Relaxed) > 1_000 => Ok(None),
            result => result.map(Some),
        }
    })
}

fn trickled(run: &Run) -> Result<()> {
    run.ensure_code(0)?;
    let unjudged = &run.json["unjudged"];
    ensure!(unjudged["sessions"] == 2 && unjudged["failed"] == 0, "{unjudged} {}", run.json["failures"]);
    ensure!(unjudged["discarded_bytes"].as_u64() > Some(10_000), "{unjudged}");
    Ok(())
}

/// Promise: If media ends at once, each session of `wirepath load` restarts at most once a second.
fn sessions_without_media_do_not_begin_again_at_once() -> Result<()> {
    let server = Scripted::start(|stream, path| match path {
        "/list.m3u8" => {
            let list = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:0.01,\na.ts\n#EXT-X-ENDLIST\n";
            send(stream, "200 OK", list.as_bytes())
        }
        "/empty" => send(stream, "200 OK", b""),
        _ => send(stream, "200 OK", b"media"),
    })?;
    let run = Run::of(&[&server.url("list.m3u8"), "--for=3s", "--buffer=100ms", "--require=none"])?;
    run.ensure_code(0)?;
    let sessions = &run.json["sessions"];
    ensure!(sessions["media_over"].as_u64() >= Some(1), "{sessions}");
    ensure!((2..=4).contains(&sessions["started"].as_u64().unwrap_or(0)), "{sessions}");
    let run = Run::of(&[&server.url("empty"), "--for=2s", "--rate=1Mb/s"])?;
    run.ensure_code(3)?;
    ensure!(run.json["failures"]["no media: empty body"] == 1, "{}", run.json["failures"]);
    Ok(())
}

/// Promise: `--seek-every` affects no downloads, only the other sessions of a run.
fn downloads_of_a_mixed_run_do_not_seek() -> Result<()> {
    let (_folder, server) = serving(2)?;
    let (clip, list) = (server.http_url("clip.ts"), server.http_url("hls/list.m3u8"));
    let run = Run::of(&[&clip, &list, "--sessions=16", "--for=2s", "--seek-every=300ms", "--require=none"])?;
    run.ensure_code(0)?;
    let records = run.json["records"].as_array().context("no records")?;
    let (downloads, players): (Vec<_>, Vec<_>) =
        records.iter().partition(|record| record["url"] == clip.as_str());
    ensure!(downloads.iter().all(|record| record["seeks"] == 0), "{records:?}");
    ensure!(!downloads.is_empty() && players.iter().any(|record| record["seeks"] != 0), "{records:?}");
    Ok(())
}

fn bodies_of_every_framing_are_read() -> Result<()> {
    let server = Scripted::start(|stream, path| match path {
        "/chunked" => {
            let head = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            write!(stream, "{head}3\r\nabc\r\n0004;x=y\r\ndefg\r\n0\r\nTrailer: x\r\n\r\n")?;
            Ok(true)
        }
        "/close" => {
            write!(stream, "HTTP/1.0 200 OK\r\n\r\nabcdefg")?;
            Ok(false)
        }
        _ => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nabcdefg")?;
            Ok(true)
        }
    })?;
    for (path, is_kept) in [("chunked", true), ("close", false), ("announced", false)] {
        let run = Run::of(&[&server.url(path), "--for=500ms"])?;
        run.ensure_code(0)?;
        let http = &run.json["http"];
        let (responses, bytes) = (number(http, "responses")?, number(http, "bytes")?);
        ensure!(responses > 1.0 && (bytes - 7.0 * responses).abs() <= 7.0, "{path}: {http}");
        ensure!((http["connections"] == 1) == is_kept, "{path}: {http}");
    }
    Ok(())
}

fn connections_that_end_between_requests_are_opened_again() -> Result<()> {
    let server = Scripted::start(|stream, _| send(stream, "200 OK", b"body").map(|_| false))?;
    let run = Run::of(&[&server.url("a"), "--for=500ms"])?;
    run.ensure_code(0)?;
    let http = &run.json["http"];
    ensure!(http["responses"].as_u64() > Some(1) && http["connections"] != 1, "{http}");
    Ok(())
}

/// Promise: No HTTP server makes `wirepath load` panic or hang; each failure says what the server did.
fn servers_that_break_http_fail_their_sessions() -> Result<()> {
    let server = Scripted::start(|stream, path| match path {
        "/early" => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")?;
            Ok(false)
        }
        "/chunk" => {
            write!(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")?;
            Ok(true)
        }
        "/cut" => {
            write!(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")?;
            Ok(false)
        }
        "/endless" => loop {
            write!(stream, "HTTP/1.1 200 OK\r\n")?;
            stream.write_all(&b"A: b\r\n".repeat(1_000))?;
        },
        "/long" => loop {
            stream.write_all(&b"HTTP/1.1 200 ".repeat(1_000))?;
        },
        "/hints" => loop {
            write!(stream, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")?;
        },
        "/blank" => loop {
            stream.write_all(&b"\r\n".repeat(1_000))?;
        },
        "/somewhere" => {
            write!(stream, "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n")?;
            Ok(true)
        }
        "/size" => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n")?;
            Ok(true)
        }
        "/garbage" => stream.write_all(b"SSH-2.0-OpenSSH\r\n").map(|()| true),
        "/two" => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")?;
            Ok(true)
        }
        "/moved" => {
            write!(stream, "HTTP/1.1 302 Found\r\nLocation: http://other/\r\nContent-Length: 0\r\n\r\n")?;
            Ok(true)
        }
        "/silent" => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc").map(|()| true),
        "/nothing" => Ok(false),
        _ => send(stream, "404 Not Found", b"no"),
    })?;
    for (path, said) in [
        ("early", "the body is shorter than its Content-Length"),
        ("chunk", "invalid HTTP from the server: invalid chunk size"),
        ("cut", "the body ended before its last chunk"),
        ("endless", "invalid HTTP from the server: head too long"),
        ("long", "invalid HTTP from the server: first line too long"),
        ("hints", "no final response: too many informational responses"),
        ("blank", "no final response: too many informational responses, or too many bytes before it"),
        ("somewhere", "GET was redirected without Location"),
        ("size", "Content-Length is above 9223372036854775807"),
        ("garbage", "invalid HTTP from the server: malformed head"),
        ("two", "invalid HTTP from the server: invalid Content-Length"),
        ("moved", "GET was redirected to http://other/"),
        ("silent", "the body stalled: no data in time"),
        ("nothing", "the server closed the connection"),
        ("missing", "GET was refused: 404 Not Found"),
    ] {
        let run = Run::of(&[&server.url(path), "--sessions=2", "--for=3s", "--sample=0%", "--timeout=1s"])?;
        run.ensure_code(3)?;
        let failures = run.json["failures"].as_object().context("no failures")?;
        let reasons: Vec<&String> = failures.keys().collect();
        ensure!(matches!(&reasons[..], [reason] if reason.starts_with(said)), "{path}: {failures:?}");
        ensure!(failures.values().all(|number| *number == 2), "{path}: {failures:?}");
        ensure!(run.json["sessions"]["timely"] == 0, "{path}: {}", run.json["sessions"]);
    }
    Ok(())
}

/// Promise: No playlist makes `wirepath load` panic or exceed its limits.
fn playlists_that_cannot_be_played_fail_their_sessions() -> Result<()> {
    let server = Scripted::start(|stream, path| {
        let media = |lines: &str| format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n{lines}");
        let text = match path {
            "/live.m3u8" => media("#EXTINF:1,\na.ts\n"),
            "/other.m3u8" => media("#EXTINF:1,\nhttp://192.0.2.1/a.ts\n#EXT-X-ENDLIST\n"),
            "/shift.m3u8" => media("#EXTINF:1,\n#EXT-X-BYTERANGE:5@3\nshift.ts\n#EXT-X-ENDLIST\n"),
            "/shift.ts" => {
                return send(stream, "206 Partial Content\r\nContent-Range: bytes 0-4/10", b"01234");
            }
            "/zero.m3u8" => media("#EXTINF:0,\na.ts\n#EXT-X-ENDLIST\n"),
            "/range.m3u8" => media("#EXTINF:1,\n#EXT-X-BYTERANGE:5@0\na.ts\n#EXT-X-ENDLIST\n"),
            "/nested.m3u8" => "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nnested.m3u8\n".to_owned(),
            "/huge.m3u8" => "#".repeat(2 << 20),
            _ => "body".to_owned(),
        };
        send(stream, "200 OK", text.as_bytes())
    })?;
    for (path, said) in [
        ("live.m3u8", "invalid playlist: live playlists are not supported"),
        ("other.m3u8", "invalid playlist: URL of another server, 192.0.2.1"),
        ("range.m3u8", "GET with Range was answered with 200"),
        ("shift.m3u8", "GET with Range was answered with another range: bytes 0-4/10"),
        ("zero.m3u8", "the playlist has no duration"),
        ("nested.m3u8", "the variant of the master playlist is a master playlist"),
        ("huge.m3u8", "the playlist is longer than 1048576 bytes"),
        ("text.m3u8", "invalid playlist: the first line is not #EXTM3U"),
    ] {
        let run = Run::of(&[&server.url(path), "--for=1s"])?;
        run.ensure_code(3)?;
        ensure!(run.json["failures"].to_string().contains(said), "{path}: {}", run.json["failures"]);
    }
    Ok(())
}

fn options_without_meaning_over_http_are_refused() -> Result<()> {
    for (arguments, said) in [
        (&["https://127.0.0.1/a"][..], "TLS is not supported"),
        (&["http://127.0.0.1/a", "rtsp://127.0.0.1/a"], "cannot be mixed"),
        (&["http://127.0.0.1/a", "--transport=udp"], "--transport is not supported"),
        (&["http://127.0.0.1/a", "--require=lossless"], "--require lossless is not supported"),
        (&["http://127.0.0.1/a", "--seek-every=1s"], "add --rate"),
        (&["http://127.0.0.1/a", "--buffer=1s"], "add --rate"),
        (&["http://127.0.0.1/a", "--settle=1s"], "add --rate"),
        (&["http://127.0.0.1/a.m3u8", "--rate=1Mb/s"], "--rate is not supported for playlists"),
        (&["http://127.0.0.1/a", "--rate=5"], "expected bits such as"),
        (&["rtsp://127.0.0.1/a", "--rate=1Mb/s"], "--rate is not supported for rtsp://"),
    ] {
        let output = Command::new(server::binary()?).arg("load").args(arguments).output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(2) && text.contains(said), "{text}");
    }
    Ok(())
}

/// A folder with a clip of so many seconds, and playlists of another.
fn library(seconds: u32) -> Result<tempfile::TempDir> {
    let (clip, segment) = (clips::constant(seconds)?, clips::constant(2)?);
    let folder = clips::folder(&[("clip.ts", Path::new(&clip)), ("hls/clip.ts", Path::new(&segment))])?;
    std::fs::write(folder.path().join("hls/list.m3u8"), PLAYLIST)?;
    std::fs::write(folder.path().join("master.m3u8"), MASTER)?;
    Ok(folder)
}

fn serving(seconds: u32) -> Result<(tempfile::TempDir, Server)> {
    let folder = library(seconds)?;
    let server = Server::of(folder.path()).start()?;
    Ok((folder, server))
}

/// nginx that serves a folder, and its port.
fn nginx(folder: &Path) -> Result<(u16, Process)> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let place = folder.display();
    let configuration = folder.join("nginx.conf");
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {place}/{kind};\n"))
        .concat();
    let text = format!(
        "daemon off; pid {place}/pid; error_log {place}/error.log; worker_processes 1; user root;\n\
         events {{}}\nhttp {{ access_log off; sendfile on; {temporary}\n\
         server {{ listen 127.0.0.1:{port}; root {place}; }} }}\n"
    );
    std::fs::write(&configuration, text)?;
    let name = configuration.to_str().context("a name")?;
    let mut process = Process::start(Command::new("nginx").args(["-e", "stderr", "-c", name]), true)?;
    Deadline::seconds(10.0).wait_for("nginx", || {
        ensure!(process.is_running()?, "nginx ended: {}", process.log());
        Ok(TcpStream::connect(("127.0.0.1", port)).is_ok().then_some(()))
    })?;
    Ok((port, process))
}

fn number(value: &Value, key: &str) -> Result<f64> {
    value[key].as_f64().with_context(|| format!("no {key} in {value}"))
}
