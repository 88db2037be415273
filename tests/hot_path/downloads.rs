//! Cost of a small download for the thread that serves HTTP connections: kernel calls, counted in a server that
//! runs as a process.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, http, trials};

use super::{system_calls, thread_called};

/// Requests that are counted.
const REQUESTS: u64 = 200;

/// Calls of a request: to wait, to read it, to look its file's name up, to send, to look at its length.
const CALLS: u64 = 5;

/// Calls in a second for what else the thread does, such as counting the open files of the process.
const BESIDES: f64 = 150.0;

pub(crate) fn trials() -> Vec<Trial> {
    trials![a_small_download_is_five_calls]
}

/// Promise: A repeated request for a small file on a persistent connection costs five system calls.
fn a_small_download_is_five_calls() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("small");
    fs::write(&file, [7_u8; 4096])?;
    let server = Server::of(folder.path()).with(["--threads", "1"]).start()?;
    Deadline::seconds(10.0).wait_for("timestamps that show the next change", || {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        Ok((fs::metadata(&file)?.ctime() + 3 <= now_s as i64).then_some(()))
    })?;
    let mut connection = http::connect(server.http)?;
    let mut buffer = Vec::new();
    let mut get = || -> Result<()> {
        connection.write_all(b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n")?;
        let response = http::read_response(&mut connection, &mut buffer, false)?;
        ensure!(response.status == 200 && response.body == [7_u8; 4096], "{}", response.status);
        Ok(())
    };
    // The first opens the file, the second prepares its response.
    get()?;
    get()?;
    let thread = thread_called(&server.process.pid().to_string(), "http-0")
        .context("the server has no HTTP thread")?;
    let mut calls = system_calls(Some(thread))?;
    let (before, limit) = (calls.read()?, Deadline::seconds(60.0));
    for _ in 0..REQUESTS {
        get()?;
    }
    let (made, seconds) = (calls.read()? - before, 60.0 - limit.left().as_secs_f64());
    println!("{made} kernel calls for {REQUESTS} requests in {seconds:.3} s");
    let besides = (BESIDES * (seconds + 1.0)) as u64;
    ensure!(made <= CALLS * REQUESTS + besides, "{made} kernel calls for {REQUESTS} requests");
    Ok(())
}
