//! Reading the configuration again while the server runs.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use wirepath_tests::http;
use wirepath_tests::interleaved::Interleaved;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        options_of_the_file_change_while_it_serves,
        a_broken_configuration_changes_nothing,
        names_of_hosts_are_not_resolved_again,
        rules_wait_with_the_users_that_they_are_about,
        a_file_that_moved_out_of_reach_needs_a_restart
    ]
}

/// A server with a configuration file, and a folder with a clip.
struct TestBed {
    server: Server,
    file: PathBuf,
    _folders: [TempDir; 2],
}

impl TestBed {
    fn with(configuration: &str) -> Result<TestBed> {
        TestBed::on("127.0.0.1", configuration)
    }

    /// A server that listens on this address.
    fn on(address: &str, configuration: &str) -> Result<TestBed> {
        let media = clips::folder(&[("clip.ts", &clips::constant(6)?)])?;
        let home = tempfile::tempdir()?;
        let file = home.path().join("wirepath.toml");
        std::fs::write(&file, configuration)?;
        let option = file.to_str().context("a file's name")?;
        let server = Server::of(media.path()).listening_on(address).with(["--config", option]).start()?;
        Ok(TestBed { server, file, _folders: [media, home] })
    }

    /// Changes the file, sends SIGHUP and waits for a line of the log that has these words.
    fn reload(&self, configuration: &str, words: &str) -> Result<()> {
        std::fs::write(&self.file, configuration)?;
        let count = || self.server.process.log().matches(words).count();
        let before = count();
        self.server.process.signal(Signal::HUP)?;
        Deadline::seconds(10.0).wait_for(words, || Ok((count() > before).then_some(())))
    }

    /// The fields of a response that the configuration decides about: the origin that may read it, its age in
    /// caches, and its disposition.
    fn fields(&self) -> Result<[Option<String>; 3]> {
        let response =
            http::request(self.server.http, "GET", "/clip.ts", &[("Origin", "https://a.example")])?;
        ensure!(response.status == 200, "{}", response.status);
        let field = |name| response.header(name).map(str::to_owned);
        Ok(["access-control-allow-origin", "cache-control", "content-disposition"].map(field))
    }
}

/// Promise: SIGHUP applies changed folder rules, CORS and caching; sessions continue.
fn options_of_the_file_change_while_it_serves() -> Result<()> {
    let bed = TestBed::with("threads = 1\n")?;
    let mut client = Interleaved::set_up(bed.server.rtsp, "clip.ts", None)?;
    client.play(None)?;
    ensure!(bed.fields()? == [None, None, None]);
    let changed = "threads = 2\nmax-lag = \"1s\"\ncors = [\"https://a.example\"]\n\
                   folder-cache-control = [\"clip.ts=max-age=60\"]\nfolder-burst-max = [\"=5ms\"]\n\
                   folder-content-disposition = [\"=inline\"]\n";
    bed.reload(changed, "these changed options take effect at the next start: threads, max-lag")?;
    let expected = ["https://a.example", "max-age=60", "inline"].map(|field| Some(field.to_owned()));
    ensure!(bed.fields()? == expected, "{:?}", bed.fields()?);
    client.to_the_end(Deadline::seconds(30.0))?;
    let stored = std::fs::read(clips::constant(6)?)?;
    ensure!(
        client.received.payload == stored,
        "{} of {} bytes came",
        client.received.payload.len(),
        stored.len()
    );

    let mut next = Interleaved::set_up(bed.server.rtsp, "clip.ts", None)?;
    next.play(None)?;
    let burst_ms = |status: &Value| {
        let sessions = status["sessions"].as_array()?;
        sessions.iter().filter_map(|session| session["burst_ms"].as_f64()).reduce(f64::min)
    };
    Deadline::seconds(10.0).wait_for("bursts of 5 ms", || {
        Ok(burst_ms(&bed.server.status()?).is_some_and(|ms| ms > 0.0 && ms <= 5.0).then_some(()))
    })?;

    bed.reload("threads = 1\n", "the configuration is read again")?;
    ensure!(bed.fields()? == [None, None, None]);
    Ok(())
}

/// Promise: An invalid configuration changes nothing, and the log names the line.
fn a_broken_configuration_changes_nothing() -> Result<()> {
    let good = "cors = [\"https://a.example\"]\n";
    let bed = TestBed::with(good)?;
    let before = bed.fields()?;
    ensure!(before[0].is_some());
    for (broken, words) in [
        ("cors = []\nthreads = 0\n", "line 2"),
        ("cors = [", "in the configuration file"),
        ("folder-users = [\"a=anna\"]\n", "add --users FILE"),
        ("users = \"/missing\"\n", "users: cannot find /missing"),
        (
            "rtsps = \"127.0.0.1:0\"\ntls-certificate = \"/missing\"\ntls-key = \"key\"\n",
            "tls-certificate: cannot find /missing",
        ),
    ] {
        bed.reload(broken, "the configuration is unchanged")?;
        let log = bed.server.process.log();
        let line = log.lines().rfind(|line| line.contains("the configuration is unchanged"));
        ensure!(line.is_some_and(|line| line.contains(words)), "{words}: {line:?}");
        ensure!(bed.fields()? == before, "{broken}");
    }
    Ok(())
}

/// Promise: A confined server that listens on a host name can reload its configuration.
fn names_of_hosts_are_not_resolved_again() -> Result<()> {
    let bed = TestBed::on("localhost", "")?;
    let changed = "cors = [\"https://a.example\"]\nhttp = \"nobody.invalid:0\"\n";
    bed.reload(changed, "the configuration is read again")?;
    ensure!(bed.fields()?[0].is_some());
    Ok(())
}

/// Promise: Users added or removed by a reload take effect at the next start, as do rules about them.
fn rules_wait_with_the_users_that_they_are_about() -> Result<()> {
    let bed = TestBed::with("")?;
    std::fs::write(bed.file.with_file_name("users"), format!("bob:Wirepath:{}\n", "0".repeat(32)))?;
    let words = "these changed options take effect at the next start: users, folder-users, status-users";
    let rules = "folder-users = [\"clip.ts=bob\"]\nstatus-users = \"bob\"\n";
    bed.reload(&format!("users = \"users\"\n{rules}"), words)?;
    let warning = "until the next start, everything is served without a password";
    Deadline::seconds(10.0)
        .wait_for(warning, || Ok(bed.server.process.log().contains(warning).then_some(())))?;
    bed.fields()?;

    // Without users in the file, a server that has them keeps them and their rules.
    let home = tempfile::tempdir()?;
    let users = home.path().join("users");
    std::fs::write(&users, format!("bob:Wirepath:{}\n", "0".repeat(32)))?;
    let bed = TestBed::with(&format!("users = {users:?}\nfolder-users = [\"clip.ts=-\"]\n"))?;
    bed.fields()?;
    bed.reload("", "these changed options take effect at the next start: users, folder-users")?;
    bed.fields()?;
    let listing = http::request(bed.server.http, "GET", "/", &[])?;
    ensure!(listing.status == 401, "{}", listing.status);
    Ok(())
}

/// Promise: The log warns if a configuration file moved to a folder that a confined server cannot read.
fn a_file_that_moved_out_of_reach_needs_a_restart() -> Result<()> {
    let bed = TestBed::with("cors = [\"https://a.example\"]\n")?;
    let is_confined = bed.server.process.log().contains("to its folders by Landlock");
    require!(is_confined, "this kernel has no Landlock");
    let elsewhere = tempfile::tempdir()?;
    std::fs::write(elsewhere.path().join("wirepath.toml"), "")?;
    std::fs::remove_file(&bed.file)?;
    std::os::unix::fs::symlink(elsewhere.path().join("wirepath.toml"), &bed.file)?;
    bed.server.process.signal(Signal::HUP)?;
    let words = "opens files in the folders of its start only";
    Deadline::seconds(10.0).wait_for(words, || Ok(bed.server.process.log().contains(words).then_some(())))?;
    ensure!(bed.fields()?[0].is_some());
    Ok(())
}
