//! RTSP through an HTTP tunnel, with players and with raw halves.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, ensure};
use base64::prelude::{BASE64_STANDARD, Engine};
use libtest_mimic::Trial;
use tempfile::TempDir;
use wirepath_tests::http_tunnel::{self, get, half, head, refusal};
use wirepath_tests::interleaved::Interleaved;
use wirepath_tests::playback::ensure_bytes;
use wirepath_tests::process::open_folder;
use wirepath_tests::rtsp::Client;
use wirepath_tests::seek::{ensure_from, random_access_point_before};
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clients, clips, http, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        ffmpeg_plays_and_seeks_through_either_port,
        gstreamer_plays_through_a_tunnel,
        every_byte_comes_through_a_tunnel,
        a_session_pauses_and_seeks_through_a_tunnel,
        a_post_is_followed_by_another,
        a_post_in_chunks_is_read_when_it_may_continue,
        halves_are_in_the_access_log,
        a_post_is_read_to_its_end_before_another,
        halves_that_do_not_fit_are_refused,
        users_are_asked_inside_the_tunnel,
        tunnels_leave_nothing_behind,
        draining_ends_sessions_in_tunnels,
    ]
}

struct TestBed {
    server: Server,
    stored: Vec<u8>,
    _folder: TempDir,
}

impl TestBed {
    fn new(seconds: u32, options: &[&str]) -> Result<TestBed> {
        let clip = clips::constant(seconds)?;
        let folder = clips::folder(&[("clip.ts", &clip)])?;
        let server = Server::of(folder.path()).with(options).start()?;
        Ok(TestBed { server, stored: std::fs::read(&clip)?, _folder: folder })
    }

    /// URL for players, which connect to its port.
    fn url(&self, port: SocketAddr) -> String {
        format!("rtsp://{port}/clip.ts")
    }

    fn session(&self, cookie: &str, bytes_at_a_time: usize) -> Result<Interleaved> {
        let stream = http_tunnel::open(self.server.http, cookie, bytes_at_a_time)?;
        Interleaved::over(stream, self.server.rtsp_url("clip.ts"))
    }

    fn counter(&self, listener: &str, name: &str) -> Result<u64> {
        let status = self.server.status()?;
        status["counters"][listener][name].as_u64().ok_or_else(|| anyhow::anyhow!("no {name} in {status}"))
    }

    /// Waits until no tunnel and no session is left.
    fn is_left_alone(&self) -> Result<()> {
        Deadline::seconds(10.0).wait_for("the end of all tunnels", || {
            let names = ["tunnels", "sessions", "connections"];
            let left = names.iter().map(|name| self.counter("rtsp", name)).sum::<Result<u64>>()?;
            // The connection that asks is one of HTTP.
            Ok((left == 0 && self.counter("http", "connections")? == 1).then_some(()))
        })
    }
}

/// Promise: ffmpeg plays and seeks through an HTTP tunnel (`-rtsp_transport http`), on the HTTP and the RTSP
/// port.
fn ffmpeg_plays_and_seeks_through_either_port() -> Result<()> {
    let bed = TestBed::new(6, &[])?;
    let home = open_folder()?;
    let stored = clips::pictures(&clips::constant(6)?)?.len();
    for (listener, port) in [("http", bed.server.http), ("rtsp", bed.server.rtsp)] {
        let output = home.path().join(format!("{listener}.ts"));
        clients::ffmpeg_with(&["-rtsp_transport", "http"], &bed.url(port), &output, 25.0)?;
        let came = clips::pictures(&output)?.len();
        // ffmpeg passes a picture on when the next begins, so the last one stays inside.
        ensure!(came <= stored && came + 1 >= stored, "{came} pictures of {stored} came by {port}");
        let options = ["-rtsp_transport", "http", "-ss", "3"];
        let sought = home.path().join(format!("{listener}-sought.ts"));
        clients::ffmpeg_with(&options, &bed.url(port), &sought, 25.0)?;
        let came = clips::pictures(&sought)?.len();
        ensure!(came > stored / 4 && came < stored * 3 / 4, "{came} pictures of {stored} came after a seek");
    }
    bed.is_left_alone()
}

/// Promise: GStreamer plays through an HTTP tunnel, byte for byte.
fn gstreamer_plays_through_a_tunnel() -> Result<()> {
    let bed = TestBed::new(4, &[])?;
    let home = open_folder()?;
    let output = home.path().join("out.ts");
    let url = bed.url(bed.server.http).replace("rtsp:", "rtsph:");
    clients::gstreamer_with(&[], &url, &output, 25.0)?;
    clients::ensure_gstreamer_has(&std::fs::read(&output)?, &bed.stored)
}

/// Promise: Through an HTTP tunnel every byte arrives, responses come between frames, however requests are
/// split.
fn every_byte_comes_through_a_tunnel() -> Result<()> {
    let bed = TestBed::new(4, &[])?;
    for bytes_at_a_time in [1, 4096] {
        let mut client = bed.session(&format!("cut-{bytes_at_a_time}"), bytes_at_a_time)?;
        client.play(None)?;
        ensure!(bed.counter("rtsp", "tunnels")? == 1);
        let deadline = Deadline::seconds(20.0);
        while client.received.bye.is_none() {
            ensure!(!deadline.has_passed(), "no BYE");
            client.succeed("GET_PARAMETER", &[])?;
        }
        ensure_bytes(&client.received, &bed.stored)?;
        client.succeed("TEARDOWN", &[])?;
        drop(client);
        bed.is_left_alone()?;
    }
    Ok(())
}

/// Promise: A session through an HTTP tunnel pauses, and a seek begins at the right byte.
fn a_session_pauses_and_seeks_through_a_tunnel() -> Result<()> {
    let bed = TestBed::new(8, &[])?;
    let pictures = clips::pictures(&clips::constant(8)?)?;
    let mut client = bed.session("seek", 4096)?;
    client.play(None)?;
    while client.received.seconds() < 0.5 {
        client.read()?;
    }
    client.succeed("PAUSE", &[])?;
    let paused = client.received.packets.len();
    client.play(Some("npt=5.5-"))?;
    client.to_the_end(Deadline::seconds(20.0))?;
    let sought = &client.received.payload[client.received.packets[paused].payload.start..];
    ensure_from(sought, &bed.stored, &random_access_point_before(&pictures, 5.5)?)?;
    ensure!(bed.stored.ends_with(sought), "it did not play to the end");
    Ok(())
}

fn say(post: &mut TcpStream, request: &str) -> Result<()> {
    Ok(post.write_all(BASE64_STANDARD.encode(request).as_bytes())?)
}

/// Promise: A client may close the POST of a tunnel and continue with another, as QuickTime does.
fn a_post_is_followed_by_another() -> Result<()> {
    let bed = TestBed::new(2, &[])?;
    let mut client = Client::over(get(bed.server.http, "several")?);
    for number in 1..4 {
        let mut post = half(bed.server.http, "POST", "several")?;
        say(&mut post, &format!("OPTIONS * RTSP/1.0\r\nCSeq: {number}\r\n\r\n"))?;
        let response = client.response()?;
        ensure!(
            response.status == 200 && response.header("cseq") == Some(&number.to_string()),
            "{response:?}"
        );
    }
    // Before the first has ended: its requests are not waited for any more.
    let mut posts = [half(bed.server.http, "POST", "several")?, half(bed.server.http, "POST", "several")?];
    say(&mut posts[1], "OPTIONS * RTSP/1.0\r\nCSeq: 9\r\n\r\n")?;
    ensure!(client.response()?.header("cseq") == Some("9"));
    drop((client, posts));
    bed.is_left_alone()
}

/// Promise: The POST of a tunnel may come in chunks, whatever they cut, and its client may wait for `100 Continue`.
fn a_post_in_chunks_is_read_when_it_may_continue() -> Result<()> {
    let bed = TestBed::new(2, &[])?;
    for port in [bed.server.http, bed.server.rtsp] {
        let mut client = Client::over(get(bed.server.http, "chunks")?);
        let mut post = http::connect(port)?;
        let head = "POST /clip.ts HTTP/1.1\r\nHost: h\r\nx-sessioncookie: chunks\r\nExpect: 100-continue\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        post.write_all(head.as_bytes())?;
        let mut said = [0; 25];
        post.read_exact(&mut said)?;
        ensure!(said == *b"HTTP/1.1 100 Continue\r\n\r\n", "{:?}", String::from_utf8_lossy(&said));
        for number in [1, 2] {
            let text = BASE64_STANDARD.encode(format!("OPTIONS * RTSP/1.0\r\nCSeq: {number}\r\n\r\n"));
            for chunk in text.as_bytes().chunks(7) {
                let chunk = [format!("{:x};a=b\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
                chunk.chunks(3).try_for_each(|piece| post.write_all(piece))?;
            }
            ensure!(client.response()?.header("cseq") == Some(number.to_string().as_str()));
        }
        // The end of the body is that of this POST, and not of the tunnel.
        post.write_all(b"0\r\n\r\n")?;
        ensure!(post.read(&mut said)? == 0, "the POST is not closed");
        let mut next = half(bed.server.http, "POST", "chunks")?;
        say(&mut next, "OPTIONS * RTSP/1.0\r\nCSeq: 3\r\n\r\n")?;
        ensure!(client.response()?.header("cseq") == Some("3"));
        let mut wrong = http::connect(port)?;
        let wrong_size = head.replace("Expect: 100-continue\r\n", "") + "size\r\n";
        wrong.write_all(wrong_size.as_bytes())?;
        ensure!(client.is_closed_within(std::time::Duration::from_secs(5))?, "the tunnel goes on");
        bed.is_left_alone()?;
    }
    Ok(())
}

/// Promise: Halves of a tunnel that come to the HTTP port are in the access log when they end, refused ones too.
fn halves_are_in_the_access_log() -> Result<()> {
    let bed = TestBed::new(2, &["--access-log=text"])?;
    let mut client = Client::over(http_tunnel::open(bed.server.http, "logged", 4096)?);
    ensure!(client.request("OPTIONS", "*", &[])?.status == 200);
    drop(client);
    ensure!(refusal(bed.server.http, "POST", "nobody")?.status == 404);
    Deadline::seconds(10.0).wait_for("three lines of the access log", || {
        let log = bed.server.process.log();
        let has = |words: [&str; 2]| log.lines().any(|line| words.iter().all(|word| line.contains(word)));
        let is_logged =
            [["method=GET", "status=200"], ["method=POST", "status=200"], ["method=POST", "status=404"]]
                .into_iter()
                .all(has);
        Ok(is_logged.then_some(()))
    })
}

/// Promise: Requests from a tunnel's earlier POST are answered after a later POST has replaced it.
fn a_post_is_read_to_its_end_before_another() -> Result<()> {
    let bed = TestBed::new(2, &[])?;
    let mut client = Client::over(get(bed.server.http, "changing")?);
    for number in 0..40 {
        for number in [2 * number, 2 * number + 1] {
            let request = BASE64_STANDARD.encode(format!("OPTIONS * RTSP/1.0\r\nCSeq: {number}\r\n\r\n"));
            // With the head in one segment: the server may read the second POST first, and then cannot be ahead of
            // its request.
            let post = head("POST", "changing") + &request;
            http::connect(bed.server.http)?.write_all(post.as_bytes())?;
        }
        let mut answered = Vec::new();
        for _ in 0..2 {
            let response = client.response().with_context(|| format!("answers to {answered:?} only"))?;
            answered.push(response.header("cseq").context("no CSeq")?.parse::<u32>()?);
        }
        answered.sort_unstable();
        ensure!(answered == [2 * number, 2 * number + 1], "{answered:?} were answered");
    }
    drop(client);
    bed.is_left_alone()
}

/// Response to a POST from another address of this machine.
fn of_another_address(server: SocketAddr, cookie: &str) -> Result<http::Response> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into())?;
    socket.connect(&server.into())?;
    let mut stream = TcpStream::from(socket);
    write!(stream, "POST / HTTP/1.0\r\nx-sessioncookie: {cookie}\r\nContent-Length: 9\r\n\r\n")?;
    http::read_response(&mut stream, &mut Vec::new(), false)
}

/// Promise: Mismatched GET and POST of a tunnel are refused with the reason; text that is not Base64 ends the
/// tunnel.
fn halves_that_do_not_fit_are_refused() -> Result<()> {
    let bed = TestBed::new(2, &[])?;
    let ensure_refused = |status: u16, why: &str, response: http::Response| {
        let said = String::from_utf8_lossy(&response.body).into_owned();
        ensure!(response.status == status && said.contains(why), "{status} {why}: {response:?}");
        Ok(())
    };
    for port in [bed.server.http, bed.server.rtsp] {
        ensure_refused(404, "send the GET first", refusal(port, "POST", "nobody")?)?;
        ensure_refused(400, "longer than 128 bytes", refusal(port, "GET", &"c".repeat(129))?)?;
    }
    let first = get(bed.server.http, "one")?;
    ensure_refused(400, "choose another", refusal(bed.server.rtsp, "GET", "one")?)?;
    ensure_refused(404, "from the same address", of_another_address(bed.server.http, "one")?)?;
    let mut post = half(bed.server.rtsp, "POST", "one")?;
    say(&mut post, "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n")?;
    let mut client = Client::over(first);
    ensure!(client.response()?.status == 200);
    post.write_all(b"this is no Base64 !!")?;
    ensure!(client.is_closed_within(std::time::Duration::from_secs(5))?, "the tunnel goes on");
    let page = http::get(bed.server.rtsp, "/")?;
    ensure_refused(404, "RTSP is served here", page)?;
    drop((client, post));
    bed.is_left_alone()
}

/// Promise: Requests in a tunnel need the same password as outside; the tunnel's GET and POST need none.
fn users_are_asked_inside_the_tunnel() -> Result<()> {
    let users = tempfile::NamedTempFile::new()?;
    let hash = wirepath_auth::user_hash(wirepath_auth::Algorithm::Md5, "anna", "wirepath", "secret");
    std::fs::write(users.path(), format!("anna:wirepath:{hash}\n"))?;
    let bed = TestBed::new(3, &[&format!("--users={}", users.path().display())])?;
    let mut client = Client::over(http_tunnel::open(bed.server.http, "users", 4096)?);
    let denied = client.request("DESCRIBE", &bed.server.rtsp_url("clip.ts"), &[])?;
    ensure!(denied.status == 401 && denied.header("www-authenticate").is_some(), "{denied:?}");
    let home = open_folder()?;
    let output = home.path().join("out.ts");
    let url = format!("rtsp://anna:secret@{}/clip.ts", bed.server.http);
    clients::ffmpeg_with(&["-rtsp_transport", "http"], &url, &output, 25.0)?;
    ensure!(!clips::pictures(&output)?.is_empty());
    Ok(())
}

/// Promise: Tunnels whose clients vanish leave no session, connection or descriptor behind.
fn tunnels_leave_nothing_behind() -> Result<()> {
    let bed = TestBed::new(60, &[])?;
    let play = |cookie: &str| -> Result<Interleaved> {
        let mut client = bed.session(cookie, 4096)?;
        client.play(None)?;
        while client.received.packets.len() < 20 {
            client.read()?;
        }
        Ok(client)
    };
    drop(play("warm")?); // what is made once
    bed.is_left_alone()?;
    let before = bed.server.descriptors()?;
    for number in 0..3 {
        let cookie = format!("again-{number}");
        let playing = play(&cookie)?;
        let waiting = get(bed.server.http, "waiting")?;
        let mut client = play("other")?;
        client.succeed("TEARDOWN", &[])?;
        drop((playing, waiting, client));
        bed.is_left_alone()?;
    }
    Deadline::seconds(10.0)
        .wait_for("descriptors as before", || Ok((bed.server.descriptors()? <= before).then_some(())))
}

/// Promise: On SIGTERM sessions in tunnels end with a BYE, and one half of a tunnel, complete or not, delays nothing.
fn draining_ends_sessions_in_tunnels() -> Result<()> {
    let mut bed = TestBed::new(60, &[])?;
    let mut playing = bed.session("playing", 4096)?;
    playing.play(None)?;
    while playing.received.packets.is_empty() {
        playing.read()?;
    }
    let waiting = get(bed.server.http, "waiting")?;
    let mut unread = http::connect(bed.server.rtsp)?;
    unread.write_all(b"GET /clip.ts HTTP/1.0\r\nx-sessioncookie: ")?;
    // Its second half is one connection, which has come to the listener when this is answered.
    ensure!(Client::connect(bed.server.rtsp)?.request("OPTIONS", "*", &[])?.status == 200);
    bed.server.process.signal(rustix::process::Signal::TERM)?;
    playing.to_the_end(Deadline::seconds(5.0))?;
    let status = bed.server.process.wait(Deadline::seconds(5.0))?;
    ensure!(status.success(), "{status}: {}", bed.server.process.log());
    drop((waiting, unread));
    Ok(())
}
