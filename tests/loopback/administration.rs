//! Administrators: sessions that they end, from programs and on the status page.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::json;
use tempfile::TempDir;
use wirepath_auth::Challenge;
use wirepath_tests::browser::{Browser, Look};
use wirepath_tests::http::{self, Response};
use wirepath_tests::playback::Playback;
use wirepath_tests::server::{Server, binary};
use wirepath_tests::{Deadline, clips, process, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        an_administrator_ends_a_session,
        others_end_no_session,
        a_server_without_administrators_ends_no_session,
        the_page_ends_a_session,
    ]
}

/// A server that everyone may play from below `open`, of which anna is an administrator and bob is not.
struct TestBed {
    server: Server,
    home: TempDir,
    _folders: (TempDir, TempDir),
}

const ANNA: (&str, &str) = ("anna", "secret");
const BOB: (&str, &str) = ("bob", "hidden");

impl TestBed {
    fn new() -> Result<TestBed> {
        let folder = clips::folder(&[("open/clip.ts", &clips::constant(60)?)])?;
        let secrets = tempfile::tempdir()?;
        let users = secrets.path().join("users");
        for (user, password) in [ANNA, BOB] {
            set_password(&users, user, password)?;
        }
        let users = format!("--users={}", users.display());
        let rules = ["--folder-users=open=-", "--status-users=-", "--admin-users=anna"];
        let server = Server::of(folder.path()).with([users.as_str()]).with(rules).start()?;
        Ok(TestBed { server, home: process::open_folder()?, _folders: (folder, secrets) })
    }

    /// A session that has received something.
    fn playing(&self) -> Result<Playback> {
        let mut playback = Playback::set_up(self.server.rtsp, "open/clip.ts")?;
        playback.play(None)?;
        let some = |received: &wirepath_tests::rtp::Received| !received.packets.is_empty();
        playback.receiver.wait_for("packet", Deadline::seconds(20.0), some)?;
        Ok(playback)
    }

    /// Path of the only session.
    fn session(&self) -> Result<String> {
        let status = self.server.status()?;
        let number = status["sessions"][0]["id"].as_u64().context("no session")?;
        Ok(format!("/api/sessions/{number}"))
    }

    /// The answer to DELETE of a user, with further fields.
    fn delete(&self, path: &str, user: (&str, &str), fields: &[(&str, &str)]) -> Result<Response> {
        let first = http::request(self.server.http, "DELETE", path, &[])?;
        ensure!(first.status == 401, "{path}: {first:?}");
        let challenge = first.headers.iter().rev().find(|(name, _)| name == "www-authenticate");
        let challenge = challenge.and_then(|(_, value)| Challenge::parse(value)).context("no challenge")?;
        let answer = challenge.answer(user, ("DELETE", path), (1, "c")).header();
        let fields = [&[("Authorization", answer.as_str())], fields].concat();
        http::request(self.server.http, "DELETE", path, &fields)
    }

    /// Waits until a session has ended by an administrator: counted, logged, with a BYE and a closed connection.
    fn is_ended(&self, playback: &mut Playback) -> Result<()> {
        let deadline = Deadline::seconds(20.0);
        playback.receiver.wait_for("BYE", deadline, |received| received.bye.is_some())?;
        ensure!(playback.client.is_closed_within(Duration::from_secs(20))?, "the connection stays open");
        deadline.wait_for("the end of the session", || {
            let status = self.server.status()?;
            let ended = &status["counters"]["rtsp"]["sessions_ended"];
            Ok((status["sessions"] == json!([]) && ended["administrator"] == 1).then_some(()))
        })?;
        let log = self.server.process.log();
        ensure!(log.contains("an administrator ends a session") && log.contains("anna"), "{log}");
        ensure!(log.contains("session ends") && log.contains("administrator"), "{log}");
        Ok(())
    }
}

fn set_password(users: &Path, user: &str, password: &str) -> Result<()> {
    let mut command = Command::new(binary()?);
    let mut child = command.arg("passwd").arg(users).arg(user).stdin(Stdio::piped()).spawn()?;
    child.stdin.take().context("piped")?.write_all(password.as_bytes())?;
    ensure!(child.wait()?.success(), "wirepath passwd failed");
    Ok(())
}

/// Promise: An administrator ends a session over HTTP: BYE, closed connection, a counter, and log lines with
/// the user.
fn an_administrator_ends_a_session() -> Result<()> {
    let bed = TestBed::new()?;
    let mut playback = bed.playing()?;
    let session = bed.session()?;
    let unknown = bed.delete("/api/sessions/123456", ANNA, &[])?;
    ensure!(unknown.status == 404, "{unknown:?}");
    let answer = bed.delete(&session, ANNA, &[("Sec-Fetch-Site", "same-origin")])?;
    ensure!(answer.status == 202, "{answer:?}");
    bed.is_ended(&mut playback)?;
    let again = bed.delete(&session, ANNA, &[])?;
    ensure!(again.status == 404, "{again:?}");
    Ok(())
}

/// Promise: Users that are not administrators, and pages of other origins, cannot end sessions.
fn others_end_no_session() -> Result<()> {
    let bed = TestBed::new()?;
    let _playback = bed.playing()?;
    let session = bed.session()?;
    let refused = bed.delete(&session, BOB, &[])?;
    ensure!(refused.status == 403 && !has_challenge(&refused), "{refused:?}");
    let wrong = bed.delete(&session, ("anna", "guess"), &[])?;
    ensure!(wrong.status == 401, "{wrong:?}");
    for foreign in [
        &[("Sec-Fetch-Site", "cross-site")][..],
        &[("Sec-Fetch-Site", "same-site")],
        &[("Origin", "http://other.example")],
        &[("Origin", "null")],
    ] {
        // Refused before it is asked for a password.
        let refused = http::request(bed.server.http, "DELETE", &session, foreign)?;
        ensure!(refused.status == 403 && !has_challenge(&refused), "{foreign:?}: {refused:?}");
    }
    // The preflight of a page of another origin gets no leave.
    let asked = [("Origin", "http://other.example"), ("Access-Control-Request-Method", "DELETE")];
    let preflight = http::request(bed.server.http, "OPTIONS", &session, &asked)?;
    ensure!(preflight.header("access-control-allow-origin").is_none(), "{preflight:?}");
    ensure!(bed.server.sessions()? == 1, "the session has ended");
    Ok(())
}

fn has_challenge(response: &Response) -> bool {
    response.header("www-authenticate").is_some()
}

/// Promise: Without administrators nobody can end a session; the answer says what to configure.
fn a_server_without_administrators_ends_no_session() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
    let server = Server::of(folder.path()).start()?;
    let _playback = Playback::set_up(server.rtsp, "clip.ts")?;
    let status = server.status()?;
    ensure!(status["ends_sessions"] == false, "{status}");
    let number = status["sessions"][0]["id"].as_u64().context("no session")?;
    let refused = http::request(server.http, "DELETE", &format!("/api/sessions/{number}"), &[])?;
    let words = String::from_utf8_lossy(&refused.body);
    ensure!(refused.status == 403 && words.contains("--users FILE and --admin-users NAME"), "{refused:?}");
    let file = http::request(server.http, "DELETE", "/clip.ts", &[])?;
    ensure!(file.status == 405, "{file:?}");
    ensure!(server.sessions()? == 1, "the session has ended");
    let home = process::open_folder()?;
    let mut browser = Browser::start(home.path())?;
    browser.open(&server.http_url("status"))?;
    let rows = "document.querySelectorAll('#sessions tbody tr').length === 1";
    browser.wait_for(rows, Deadline::seconds(30.0))?;
    ensure!(browser.evaluate(BUTTONS)? == 0, "the page offers what is refused");
    Ok(())
}

/// Number of buttons that end a session.
const BUTTONS: &str = "document.querySelectorAll('#sessions tbody button').length";

/// Promise: An administrator ends a session on the status page with the keyboard, by pressing its button
/// twice.
fn the_page_ends_a_session() -> Result<()> {
    let bed = TestBed::new()?;
    let mut playback = bed.playing()?;
    let mut browser = Browser::start(bed.home.path())?;
    let (user, password) = ANNA;
    // The browser keeps the password that this folder takes.
    browser.open(&format!("http://{user}:{password}@{}/", bed.server.http))?;
    browser.wait_for("document.links.length > 0", Deadline::seconds(30.0))?;
    browser.open(&bed.server.http_url("status"))?;
    browser.wait_for(&format!("{BUTTONS} === 1"), Deadline::seconds(30.0))?;
    browser.look(Look { width: 390, height: 844, is_phone: true, is_dark: false })?;
    let overflow = browser.evaluate("document.documentElement.scrollWidth - 390")?;
    ensure!(overflow.as_i64().is_some_and(|pixels| pixels <= 0), "{overflow} pixels too wide");
    let button = "document.querySelector('#sessions tbody button')";
    browser.evaluate(&format!("{button}.focus()"))?;
    browser.press("Enter", 13)?;
    ensure!(browser.evaluate(&format!("{button}.textContent"))? == "Really?");
    ensure!(bed.server.sessions()? == 1, "one press ended it");
    browser.press("Enter", 13)?;
    bed.is_ended(&mut playback)?;
    browser.wait_for(&format!("{BUTTONS} === 0"), Deadline::seconds(30.0))?;
    let told = "document.getElementById('ended').textContent.startsWith('Session ended: 127.0.0.1:')";
    browser.wait_for(told, Deadline::seconds(30.0))?;
    let focus = browser.evaluate("document.activeElement.getAttribute('aria-label')")?;
    ensure!(focus == "sessions", "the focus is on {focus}");
    Ok(())
}
