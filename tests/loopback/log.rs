//! The log on standard error, and whoever reads it.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::fs::OFlags;
use rustix::process::Signal;
use wirepath_tests::playback::Playback;
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, http, process, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_log_that_nobody_reads_stops_nothing,
        what_was_lost_of_the_log_is_told,
        the_log_is_whole_at_the_end,
        refusals_make_a_small_log,
        a_level_that_is_misspelled_is_told,
        http_requests_are_logged_as_json,
        queries_are_not_logged,
    ]
}

/// More lines than may wait to be written, with what a pipe holds.
const LINES: usize = 6000;

/// Requests sent before their answers are read.
const PIPELINED: usize = 50;

/// Promise: The log never blocks the server; lost lines are counted, and pending lines are written at the
/// end.
fn a_log_that_nobody_reads_stops_nothing() -> Result<()> {
    let bed = TestBed::new()?;
    let mut server = bed.server()?;
    make_lines(server.http, LINES)?;
    let answer = Client::connect(server.rtsp)?.request("DESCRIBE", &server.rtsp_url("no.ts"), &[])?;
    ensure!(answer.status == 404, "{answer:?}");
    let mut playback = Playback::set_up(server.rtsp, "clip.ts")?;
    playback.play(None)?;
    playback.receiver.to_the_end(Deadline::seconds(10.0))?;
    ensure!(playback.ask("TEARDOWN")?.status == 200 && server.sessions()? == 0);
    server.process.signal(Signal::TERM)?;
    ensure!(server.process.wait(Deadline::seconds(5.0))?.success(), "{}", server.process.log());
    ensure!(server.further_lines().is_empty(), "more than one line on standard output");
    Ok(())
}

/// Promise: The log never blocks the server; lost lines are counted, and pending lines are written at the
/// end.
fn what_was_lost_of_the_log_is_told() -> Result<()> {
    let mut bed = TestBed::new()?;
    let mut server = bed.server()?;
    make_lines(server.http, LINES)?;
    let mut log = String::new();
    Deadline::seconds(15.0).wait_for("a line about lost lines", || {
        bed.read_some(&mut log)?;
        Ok(log.contains("log lines were lost").then_some(()))
    })?;
    ensure!(log.contains("data path chosen"), "the first lines waited and came: {log}");
    server.process.signal(Signal::TERM)?;
    ensure!(server.process.wait(Deadline::seconds(5.0))?.success());
    bed.read_some(&mut log)?;
    ensure!(log.contains("draining"), "the last line came");
    Ok(())
}

/// Promise: The log never blocks the server; lost lines are counted, and pending lines are written at the
/// end.
///
/// Many lines wait when the process ends, and whoever reads them is slow.
fn the_log_is_whole_at_the_end() -> Result<()> {
    const FEWER: usize = 3000;
    let mut bed = TestBed::new()?;
    let mut server = bed.server()?;
    make_lines(server.http, FEWER)?;
    server.process.signal(Signal::TERM)?;
    let mut log = String::new();
    Deadline::seconds(5.0).wait_for("its end", || {
        bed.read_some(&mut log)?;
        Ok((!server.process.is_running()?).then_some(()))
    })?;
    bed.read_some(&mut log)?;
    let answers = log.lines().filter(|line| line.contains(" response ")).count();
    ensure!(answers == FEWER, "{answers} lines about {FEWER} answers");
    ensure!(log.contains("draining") && !log.contains("log lines were lost"), "the end is missing");
    Ok(())
}

/// Promise: At most 20 refused requests a second are logged, and then the number of the others.
///
/// One client sends what is refused, as fast as it can.
fn refusals_make_a_small_log() -> Result<()> {
    let folder = process::open_folder()?;
    let server = Server::of(folder.path()).start()?;
    let url = server.rtsp_url(&"no".repeat(1500));
    let mut client = Client::connect(server.rtsp)?;
    let start = Instant::now();
    for _ in 0..LINES / PIPELINED {
        (0..PIPELINED).try_for_each(|_| client.send("DESCRIBE", &url, &[]))?;
        for _ in 0..PIPELINED {
            ensure!(client.response()?.status == 404);
        }
    }
    // Twenty in a second, and those left out are told of with the next that is not.
    Deadline::seconds(5.0).wait_for("what was left out", || {
        client.request("DESCRIBE", &url, &[])?;
        Ok(server.process.log().contains("further refusals were not logged").then_some(()))
    })?;
    let (seconds, log) = (start.elapsed().as_secs() as usize, server.process.log());
    let lines = log.lines().count();
    ensure!(lines <= 40 + 25 * seconds, "{lines} lines in {seconds} s");
    ensure!(log.len() <= lines * 500, "{} bytes in {lines} lines", log.len());
    Ok(())
}

/// Promise: An invalid `RUST_LOG` is reported once, and the log level is the default.
///
/// It would be taken for a module, and nothing of any other be in the log.
fn a_level_that_is_misspelled_is_told() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("file"), "content")?;
    for (asked, said) in
        [("debgu", "unknown level debgu: expected error"), ("wirepath=debgu", "wirepath=debgu: ")]
    {
        let level = format!("RUST_LOG={asked}");
        let mut server = Server::of(folder.path()).under(["env", &level]).start()?;
        server.process.signal(Signal::TERM)?;
        ensure!(server.process.wait(Deadline::seconds(11.0))?.success(), "{}", server.process.log());
        let log = server.process.log();
        ensure!(log.matches(&format!("invalid RUST_LOG; using info: {said}")).count() == 1, "{log}");
        ensure!(log.contains(" INFO "), "the log is not as it is without: {log}");
    }
    Ok(())
}

/// Promise: `--access-log` logs method, path, status, bytes, time and agent of each HTTP request, as JSON by
/// option.
fn http_requests_are_logged_as_json() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("a file"), "content")?;
    let mut server = Server::of(folder.path()).with(["--access-log", "json"]).start()?;
    let answer = http::request(server.http, "GET", "/a%20file", &[("User-Agent", "test \"1\"")])?;
    ensure!(answer.status == 200, "{answer:?}");
    server.process.signal(Signal::TERM)?;
    ensure!(server.process.wait(Deadline::seconds(11.0))?.success(), "{}", server.process.log());
    let log = server.process.log();
    let line = log.lines().find(|line| line.starts_with('{')).with_context(|| log.clone())?;
    let line: serde_json::Value = serde_json::from_str(line)?;
    ensure!(
        line["method"] == "GET" && line["path"] == "/a%20file" && line["agent"] == "test \"1\"",
        "{line}"
    );
    ensure!(line["status"] == 200 && line["bytes"] == 7 && line["is_complete"] == true, "{line}");
    ensure!(line["seconds"].as_f64().is_some() && line["time"].as_f64() > Some(1.6e9), "{line}");
    Ok(())
}

/// Promise: The access log of `wirepath serve` has no queries, which may have secrets.
fn queries_are_not_logged() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("a file"), "content")?;
    for form in ["text", "json"] {
        let mut server = Server::of(folder.path()).with(["--access-log", form]).start()?;
        ensure!(http::get(server.http, "/a%20file?token=secret")?.status == 200);
        server.process.signal(Signal::TERM)?;
        ensure!(server.process.wait(Deadline::seconds(11.0))?.success(), "{}", server.process.log());
        let log = server.process.log();
        ensure!(log.contains("/a%20file") && !log.contains("secret"), "{form}: {log}");
    }
    Ok(())
}

/// A served folder, and a pipe for the log that is full and that nobody reads.
struct TestBed {
    folder: tempfile::TempDir,
    pipe: File,
}

impl TestBed {
    fn new() -> Result<TestBed> {
        let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
        let name = folder.path().join(".log");
        process::run("mkfifo", [&name], 5.0)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
        let mut pipe = options.open(&name).context("opening the pipe")?;
        for length in [4096, 1] {
            while pipe.write(&vec![b'\n'; length]).is_ok() {}
        }
        Ok(TestBed { folder, pipe })
    }

    /// A server that logs to the pipe, a line for each HTTP request, too.
    fn server(&self) -> Result<Server> {
        let pipe = self.folder.path().join(".log");
        let pipe = pipe.to_str().context("UTF-8")?;
        let redirected = ["env", "RUST_LOG=debug", "sh", "-c", "exec \"$@\" 2> \"$0\"", pipe];
        Server::of(self.folder.path()).under(redirected).start()
    }

    /// Reads what is in the pipe.
    fn read_some(&mut self, log: &mut String) -> Result<()> {
        let mut bytes = [0; 65536];
        loop {
            match self.pipe.read(&mut bytes) {
                Ok(length) => log.push_str(&String::from_utf8_lossy(&bytes[..length])),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("reading the log"),
            }
        }
    }
}

/// Makes requests that are logged, a line each.
fn make_lines(address: SocketAddr, lines: usize) -> Result<()> {
    let mut connection = http::connect(address)?;
    let requests = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(PIPELINED);
    let mut buffer = Vec::new();
    for _ in 0..lines / PIPELINED {
        connection.write_all(requests.as_bytes())?;
        for _ in 0..PIPELINED {
            ensure!(http::read_response(&mut connection, &mut buffer, true)?.status == 200);
        }
    }
    Ok(())
}
