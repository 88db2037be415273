//! Passwords: players that have them, players that do not, and guessers.

use std::fs::Permissions;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use tempfile::TempDir;
use wirepath_auth::{Algorithm, Challenge, user_hash};
use wirepath_tests::http::{self, Response};
use wirepath_tests::process::{find, open_folder};
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::{Server, binary};
use wirepath_tests::{Deadline, clients, clips, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        ffmpeg_plays_with_a_password_only,
        gstreamer_plays_with_a_password,
        curl_downloads_with_either_hash,
        nobody_learns_whether_a_file_exists,
        replayed_and_expired_nonces_are_stale,
        rules_hold_for_both_protocols,
        vlc_plays_from_an_open_folder,
        users_are_read_again,
        a_users_file_that_all_can_read_is_told,
        wrong_users_files_are_refused,
        rules_for_nothing_are_told,
        guessing_is_slowed_and_takes_no_memory,
    ]
}

/// A folder with a clip and a file of users, and its server.
struct TestBed {
    folder: TempDir,
    users: PathBuf,
    server: Server,
}

impl TestBed {
    fn with(arguments: &[&str]) -> Result<TestBed> {
        let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
        let secrets = tempfile::tempdir()?;
        let users = secrets.keep().join("users");
        set_password(&users, "anna", "secret")?;
        set_password(&users, "bob", "pa ss:w\"ört")?;
        let users_option = format!("--users={}", users.display());
        let server = Server::of(folder.path()).with([users_option.as_str()]).with(arguments).start()?;
        Ok(TestBed { folder, users, server })
    }

    fn clip(&self) -> Result<Vec<u8>> {
        Ok(std::fs::read(self.folder.path().join("clip.ts"))?)
    }

    fn url(&self, user: &str) -> String {
        format!("rtsp://{user}@{}/clip.ts", self.server.rtsp)
    }

    fn failures(&self, reason: &str) -> Result<u64> {
        let path = "/metrics";
        let text = String::from_utf8(self.get(path, ("anna", "secret"))?.body)?;
        let name = format!("wirepath_auth_failures_total{{reason=\"{reason}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name)).context("no such counter")?;
        Ok(line.parse()?)
    }

    fn get(&self, path: &str, user: (&str, &str)) -> Result<Response> {
        get_as(self.server.http, path, user)
    }
}

impl Drop for TestBed {
    fn drop(&mut self) {
        // What is left behind of a temporary folder is no reason for a test to fail.
        _ = self.users.parent().map(std::fs::remove_dir_all);
    }
}

/// The answer to GET of a user, who answers the challenge that comes last.
pub(crate) fn get_as(address: SocketAddr, path: &str, user: (&str, &str)) -> Result<Response> {
    let first = http::get(address, path)?;
    ensure!(first.status == 401, "{path}: {first:?}");
    let challenge = challenges(&first).pop().context("no challenge")?;
    let answer = challenge.answer(user, ("GET", path), (1, "c")).header();
    http::request(address, "GET", path, &[("Authorization", &answer)])
}

fn challenges(response: &Response) -> Vec<Challenge> {
    let lines = response.headers.iter().filter(|(name, _)| name == "www-authenticate");
    lines.filter_map(|(_, value)| Challenge::parse(value)).collect()
}

pub(crate) fn set_password(users: &Path, user: &str, password: &str) -> Result<()> {
    let mut command = Command::new(binary()?);
    let mut child = command.arg("passwd").arg(users).arg(user).stdin(Stdio::piped()).spawn()?;
    child.stdin.take().context("piped")?.write_all(password.as_bytes())?;
    ensure!(child.wait()?.success(), "wirepath passwd failed");
    Ok(())
}

/// Promise: ffmpeg plays over RTSP and HTTP only with a user and a password, also across expired nonces.
fn ffmpeg_plays_with_a_password_only() -> Result<()> {
    let bed = TestBed::with(&["--nonce-lifetime=300ms"])?;
    let home = open_folder()?;
    let output = home.path().join("out.ts");
    clients::ffmpeg(&bed.url("anna:secret"), &output, 20.0)?;
    clients::ffmpeg_with(&["-rtsp_transport", "tcp"], &bed.url("anna:secret"), &output, 20.0)?;
    let http = format!("http://anna:secret@{}/clip.ts", bed.server.http);
    clients::ffmpeg_with(&[], &http, &output, 20.0)?;
    let wrong = clients::ffmpeg(&bed.url("anna:guess"), &output, 20.0).err().context("it played")?;
    ensure!(format!("{wrong:#}").contains("401"), "{wrong:#}");
    ensure!(bed.server.process.log().contains("wrong user name, password or token"), "nothing in the log");
    ensure!(bed.failures("wrong_password")? == 1);
    Ok(())
}

/// Promise: GStreamer plays with a user and a password.
fn gstreamer_plays_with_a_password() -> Result<()> {
    let bed = TestBed::with(&[])?;
    let home = open_folder()?;
    let output = home.path().join("out.ts");
    let url = bed.server.rtsp_url("clip.ts");
    clients::gstreamer_with(&["protocols=udp", "user-id=anna", "user-pw=secret"], &url, &output, 25.0)?;
    ensure!(std::fs::read(&output)? == bed.clip()?, "other bytes came than are stored");
    Ok(())
}

/// Promise: `curl --digest` downloads with SHA-256, and with MD5 if the user has only a line of htdigest.
fn curl_downloads_with_either_hash() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let bed = TestBed::with(&[])?;
    let curl = |user: &str| -> Result<(Vec<u8>, String)> {
        let mut command = Command::new("curl");
        command.args(["-sv", "--max-time", "20", "--digest", "-u", user, &bed.server.http_url("clip.ts")]);
        let output = command.output()?;
        Ok((output.stdout, String::from_utf8_lossy(&output.stderr).into_owned()))
    };
    let (body, log) = curl("bob:pa ss:w\"ört")?;
    ensure!(body == bed.clip()?, "{log}");
    let sent = |log: &str, algorithm: &str| {
        log.lines().any(|line| line.contains("> Authorization") && line.contains(algorithm))
    };
    ensure!(sent(&log, "algorithm=SHA-256"), "{log}");
    let hash = user_hash(Algorithm::Md5, "old", "Wirepath", "secret");
    let all = std::fs::read_to_string(&bed.users)? + &format!("old:Wirepath:{hash}\n");
    std::fs::write(&bed.users, all)?;
    reload(&bed, "users are read again")?;
    let (body, log) = curl("old:secret")?;
    ensure!(body == bed.clip()? && sent(&log, "algorithm=MD5"), "{log}");
    Ok(())
}

/// Sends SIGHUP, and waits for a line of the log.
fn reload(bed: &TestBed, line: &str) -> Result<()> {
    let count = || bed.server.process.log().matches(line).count();
    let before = count();
    bed.server.process.signal(Signal::HUP)?;
    Deadline::seconds(10.0).wait_for("the users to be read", || Ok((count() > before).then_some(())))
}

/// Promise: Without authentication the answer is 401 whether or not a file exists, for RTSP, HTTP and the
/// status.
fn nobody_learns_whether_a_file_exists() -> Result<()> {
    let bed = TestBed::with(&[])?;
    let mut client = Client::connect(bed.server.rtsp)?;
    let mut bodies = Vec::new();
    for path in ["clip.ts", "none.ts", "clip.ts/track1", ""] {
        let url = bed.server.rtsp_url(path);
        for method in ["DESCRIBE", "SETUP", "PLAY", "TEARDOWN", "GET_PARAMETER", "ANNOUNCE", "OTHER"] {
            let answer =
                client.request(method, &url, &[("Transport", "RTP/AVP;unicast;client_port=5000-5001")])?;
            ensure!(answer.status == 401 && challenges(&answer).len() == 2, "{method} {path}: {answer:?}");
            bodies.push(answer.body);
        }
        client.succeed("OPTIONS", &url, &[])?;
    }
    for path in ["/clip.ts", "/none.ts", "/", "/none/", "/status", "/metrics", "/api/status", "/api/events"] {
        let answer = http::get(bed.server.http, path)?;
        let names: Vec<_> = challenges(&answer).iter().map(|challenge| challenge.algorithm.name()).collect();
        ensure!(answer.status == 401 && names == ["SHA-256", "MD5"], "{path}: {answer:?}");
        let head = http::request(bed.server.http, "HEAD", path, &[])?;
        ensure!(head.status == 401, "{path}: {head:?}");
        bodies.push(answer.body);
    }
    // HTTP says the status in its body, too.
    bodies.dedup();
    ensure!(bodies.len() == 2, "{bodies:?}");
    ensure!(bed.get("/metrics", ("bob", "pa ss:w\"ört"))?.status == 200);
    ensure!(bed.get("/none.ts", ("anna", "secret"))?.status == 404);
    Ok(())
}

/// Promise: A replayed request gets `stale=true` over RTSP and HTTP, like a request with an expired nonce.
fn replayed_and_expired_nonces_are_stale() -> Result<()> {
    let bed = TestBed::with(&["--nonce-lifetime=1s"])?;
    let (url, mut client) = (bed.server.rtsp_url("clip.ts"), Client::connect(bed.server.rtsp)?);
    let first = challenges(&client.request("DESCRIBE", &url, &[])?).remove(0);
    let mut ask = |challenge: &Challenge, number| {
        let answer = challenge.answer(("anna", "secret"), ("DESCRIBE", &url), (number, "c")).header();
        client.request("DESCRIBE", &url, &[("Authorization", &answer)])
    };
    let is_stale = |answer: &Response| {
        answer.status == 401 && challenges(answer).iter().all(|challenge| challenge.is_stale)
    };
    let served = ask(&first, 1)?;
    let replayed = ask(&first, 1)?;
    ensure!((served.status, is_stale(&replayed)) == (200, true), "{served:?}, {replayed:?}");
    // Each answer but the last is 200: its count is new.
    let mut number = 1;
    let expired = Deadline::seconds(10.0).wait_for("the nonce to expire", || {
        number += 1;
        let answer = ask(&first, number)?;
        ensure!(answer.status == 200 || is_stale(&answer), "{answer:?}");
        Ok((answer.status == 401).then_some(answer))
    })?;
    let next = challenges(&expired).remove(0);
    ensure!(ask(&next, 1)?.status == 200, "the new challenge");
    // On a slow machine it has expired.
    let old = ask(&Challenge { counts: false, ..next }, 0)?;
    ensure!(old.status == 200 || is_stale(&old), "RFC 2069: {old:?}");
    Ok(())
}

/// Promise: Rules for folders apply over RTSP and HTTP, whatever the case of letters; other users get 403
/// before any look-up.
fn rules_hold_for_both_protocols() -> Result<()> {
    let rules = ["--folder-users=cams=bob", "--folder-users=open=-", "--status-users=-"];
    let bed = TestBed::with(&rules)?;
    for name in ["cams", "open"] {
        std::fs::create_dir(bed.folder.path().join(name))?;
        std::fs::copy(bed.folder.path().join("clip.ts"), bed.folder.path().join(name).join("clip.ts"))?;
    }
    ensure!(http::get(bed.server.http, "/open/clip.ts")?.body == bed.clip()?);
    ensure!(http::get(bed.server.http, "/api/status")?.status == 200);
    let (anna, bob) = (("anna", "secret"), ("bob", "pa ss:w\"ört"));
    ensure!(bed.get("/clip.ts", anna)?.status == 200 && bed.get("/clip.ts", bob)?.status == 200);
    for path in ["/cams/clip.ts", "/cams/none.ts", "/CAMS/", "//./c%61ms/clip.ts"] {
        let answer = bed.get(path, anna)?;
        ensure!(answer.status == 403 && challenges(&answer).is_empty(), "{path}: {answer:?}");
    }
    ensure!(bed.get("/cams/clip.ts", bob)?.status == 200);
    let mut client = Client::connect(bed.server.rtsp)?;
    let mut describe = |path: &str, user| -> Result<u16> {
        let url = bed.server.rtsp_url(path);
        let first = client.request("DESCRIBE", &url, &[])?;
        let Some(challenge) = challenges(&first).pop() else { return Ok(first.status) };
        let answer = challenge.answer(user, ("DESCRIBE", &url), (1, "c")).header();
        Ok(client.request("DESCRIBE", &url, &[("Authorization", &answer)])?.status)
    };
    // RTSP finds names in other case, too.
    ensure!(describe("Cams/clip.ts", anna)? == 403 && describe("Cams/Clip.ts", bob)? == 200);
    ensure!(describe("open/clip.ts", anna)? == 200 && describe("open/none.ts", anna)? == 404);
    Ok(())
}

/// Promise: VLC, which sends no password over RTSP, plays from a folder that is open to everyone.
fn vlc_plays_from_an_open_folder() -> Result<()> {
    let bed = TestBed::with(&["--folder-users=open=-"])?;
    std::fs::create_dir(bed.folder.path().join("open"))?;
    std::fs::copy(bed.folder.path().join("clip.ts"), bed.folder.path().join("open/clip.ts"))?;
    let home = open_folder()?;
    let output = home.path().join("out.ts");
    clients::vlc(&bed.server.rtsp_url("open/clip.ts"), home.path(), &output, 40.0)?;
    // VLC succeeds where it was refused, too; of what it plays it leaves out some pictures at the start.
    let (came, stored) = (std::fs::read(&output)?.len(), bed.clip()?.len());
    ensure!(came > stored / 4, "VLC stored {came} bytes of {stored}");
    Ok(())
}

/// Promise: With --users, SIGHUP reads the users file again; if it is invalid, the users stay and the log
/// names the line.
fn users_are_read_again() -> Result<()> {
    let bed = TestBed::with(&[])?;
    set_password(&bed.users, "anna", "new")?;
    ensure!(bed.get("/clip.ts", ("anna", "secret"))?.status == 200, "nobody has sent SIGHUP");
    reload(&bed, "users are read again")?;
    ensure!(bed.get("/clip.ts", ("anna", "secret"))?.status == 401);
    ensure!(bed.get("/clip.ts", ("anna", "new"))?.status == 200);
    let good = std::fs::read_to_string(&bed.users)?;
    std::fs::write(&bed.users, format!("{good}eve:Wirepath:nohash\n"))?;
    reload(&bed, "the users are unchanged")?;
    ensure!(
        bed.server.process.log().contains("line 5: expected user:realm:HA1"),
        "{}",
        bed.server.process.log()
    );
    ensure!(bed.get("/clip.ts", ("anna", "new"))?.status == 200);
    Ok(())
}

/// Promise: The log warns if every user of the machine can read the users file.
fn a_users_file_that_all_can_read_is_told() -> Result<()> {
    let bed = TestBed::with(&[])?;
    let warning = "all users of this machine can read this file of passwords or keys";
    ensure!(!bed.server.process.log().contains(warning), "`wirepath passwd` made it for its owner");
    std::fs::set_permissions(&bed.users, Permissions::from_mode(0o644))?;
    reload(&bed, warning)
}

/// Promise: A server does not start if its users file is missing, invalid or served, or if rules need a
/// missing users file.
fn wrong_users_files_are_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir_all(folder.path().join("media/sub"))?;
    for name in ["users", "media/sub/users", "media/.users"] {
        std::fs::write(folder.path().join(name), "anna:home:xyz\n")?;
    }
    let hash = user_hash(Algorithm::Md5, "anna", "home", "secret");
    std::fs::write(folder.path().join("good"), format!("anna:home:{hash}\n"))?;
    for (arguments, words) in [
        (&["--users", "none"][..], "cannot read the file of users none"),
        (&["--users", "users"], "in the file of users users: line 1: expected user:realm:HA1"),
        (&["--users", "media/.users"], "in the file of users media/.users: line 1"),
        (&["--users", "media/sub/users"], "media/sub/users lies in media, which is served: move it"),
        (&["--users", "good", "--folder-users", "../cams=bob"], "rule for \"../cams\": the path holds"),
        (&["--folder-users", "cams=bob"], "add --users FILE"),
    ] {
        let mut command = Command::new(binary()?);
        command.args(["serve", "media", "--cache", "cache", "--rtsp=127.0.0.1:0", "--http=127.0.0.1:0"]);
        let output = command.args(arguments).current_dir(folder.path()).output()?;
        let log = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1) && log.contains(words), "{arguments:?}: {log}");
    }
    Ok(())
}

/// Promise: The log warns at the start about a rule of `--folder-users` whose path is not served.
fn rules_for_nothing_are_told() -> Result<()> {
    let bed =
        TestBed::with(&["--folder-users=clips=bob", "--folder-users=CLIP.TS=bob", "--folder-users=/=*"])?;
    let log = bed.server.process.log();
    let told: Vec<&str> =
        log.lines().filter(|line| line.contains("names a path that is not served")).collect();
    ensure!(told.len() == 1 && told[0].contains("clips"), "{log}");
    Ok(())
}

/// Promise: Many wrong passwords take no memory and disturb neither other addresses nor connections logged in
/// before.
fn guessing_is_slowed_and_takes_no_memory() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let bed = TestBed::with(&["--status-users=-"])?;
    let challenge = challenges(&http::get(bed.server.http, "/clip.ts")?).remove(0);
    let (url, mut neighbour) = (bed.server.rtsp_url("clip.ts"), Client::connect(bed.server.rtsp)?);
    let mut describe = |number| {
        let right = challenge.answer(("bob", "pa ss:w\"ört"), ("DESCRIBE", &url), (number, "c")).header();
        neighbour.succeed("DESCRIBE", &url, &[("Authorization", &right)])
    };
    describe(1)?;
    let wrong = challenge.answer(("anna", "guess"), ("GET", "/clip.ts"), (1, "c")).header();
    let request = format!("GET /clip.ts HTTP/1.1\r\nHost: h\r\nAuthorization: {wrong}\r\n\r\n");
    let ask = || -> Result<std::net::TcpStream> {
        let mut connection = http::connect(bed.server.http)?;
        connection.write_all(request.as_bytes())?;
        Ok(connection)
    };
    let counted = |reason: &str| -> Result<u64> {
        let status = bed.server.status()?;
        status["counters"]["auth"]["failures"][reason].as_u64().context("no such counter")
    };
    let (before, begun) = (bed.server.memory_kib()?, Instant::now());
    let guesses = 500;
    let held: Vec<_> = (0..guesses).map(|_| ask()).collect::<Result<_>>()?;
    let refused = Deadline::seconds(20.0).wait_for("all guesses to be counted", || {
        let (looked_at, refused) = (counted("wrong_password")?, counted("slowed")?);
        Ok((looked_at + refused == guesses).then_some(refused))
    })?;
    let most_looked_at = 10 + begun.elapsed().as_secs() + 1;
    ensure!(guesses - refused <= most_looked_at, "{} guesses were looked at", guesses - refused);
    let answer = http::read_response(&mut held.last().context("one")?, &mut Vec::new(), false)?;
    ensure!(answer.status == 429 && answer.header("retry-after").is_some(), "{answer:?}");
    let mut further = Vec::new();
    for number in 2..10 {
        further.push(ask()?); // the debt stays what it can be at most
        describe(number)?;
    }
    let grown = bed.server.memory_kib()?.saturating_sub(before);
    // Most of it are the connections themselves.
    ensure!(grown < 16 * 1024, "{grown} KiB more memory");
    let log = bed.server.process.log();
    let lines = log.matches("authentication failed").count() as u64;
    ensure!(lines <= begun.elapsed().as_secs() + 2, "{lines} lines");
    let mut curl = Command::new("curl");
    curl.args(["-s", "--max-time", "20", "--interface", "127.0.0.2", "--digest", "-u", "anna:secret"]);
    ensure!(curl.arg(bed.server.http_url("clip.ts")).output()?.stdout == bed.clip()?, "another address");
    Ok(())
}
