//! `wirepath relay --cache`: clients that pause.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::caching::{Cache, wait_for_entries};
use wirepath_tests::origin::{Asked, Origin};
use wirepath_tests::{Deadline, http, slow, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_client_that_takes_nothing_is_cut_whatever_it_is_sent,
        a_client_that_pauses_is_waited_for_though_the_origin_would_not_be,
        a_client_that_reads_slowly_takes_something,
    ]
}

/// More than the buffers of two connections hold.
const LENGTH: usize = 30_000_000;

/// Size of the buffer of a connection.
const SHORT: usize = 2_000_000;

/// An answer that is kept, or passes through.
fn long_answer(asked: &Asked, connection: &mut TcpStream) -> Result<()> {
    let lines = if asked.target().ends_with("kept") { "max-age=600" } else { "no-store" };
    let length = if asked.target().starts_with("/short") { SHORT } else { LENGTH };
    write!(connection, "HTTP/1.1 200 OK\r\nCache-Control: {lines}\r\nContent-Length: {length}\r\n\r\n")?;
    // If the cache has let go of it, that is what is tested.
    connection.write_all(&vec![7; length]).or_else(|_| Ok(()))
}

/// A client that has asked and read the beginning of an answer.
fn begun(cache: &Cache, path: &str) -> Result<TcpStream> {
    Deadline::seconds(30.0).wait_for("an answer", || {
        let mut client = http::connect(cache.address)?;
        write!(client, "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")?;
        let mut beginning = [0; b"HTTP/1.1 200".len()];
        client.read_exact(&mut beginning)?;
        // On a busy machine the origin may be too late for its limit.
        Ok((&beginning == b"HTTP/1.1 200").then_some(client))
    })
}

/// Promise: A client may stop reading for `--client-timeout`, whatever response it receives.
fn a_client_that_takes_nothing_is_cut_whatever_it_is_sent() -> Result<()> {
    let origin = Origin::start(long_answer)?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &["--client-timeout", "500ms"])?;
    // Fetched, from the cache, and passed through.
    for (path, entries) in [("/kept", 1), ("/kept", 1), ("/passed", 1)] {
        let client = begun(&cache, path)?;
        Deadline::seconds(30.0).wait_for("a reset", || Ok(client.take_error()?))?;
        wait_for_entries(folder.path(), entries)?;
    }
    Ok(())
}

/// Promise: A client may stop reading for `--client-timeout`, whatever response it receives.
fn a_client_that_pauses_is_waited_for_though_the_origin_would_not_be() -> Result<()> {
    let origin = Origin::start(long_answer)?;
    let folder = tempfile::tempdir()?;
    let arguments = ["--origin-timeout", "2s", "--client-timeout", "1h"];
    let cache = Cache::start(&origin, folder.path(), &arguments)?;
    let mut clients =
        ["/kept", "/passed"].map(|path| begun(&cache, path)).into_iter().collect::<Result<Vec<_>>>()?;
    // The pause is what is tested: longer than the origin may take, by any look at it.
    std::thread::sleep(Duration::from_secs(6));
    for client in &mut clients {
        let mut rest = Vec::new();
        client.read_to_end(&mut rest)?;
        ensure!(rest.ends_with(&[7; 1000]) && rest.len() > LENGTH, "{} bytes", rest.len());
    }
    Ok(())
}

/// Promise: A client may stop reading for `--client-timeout`, whatever response it receives.
///
/// Longer than it may take nothing, while all that is still to come is in the kernel, and nobody sends
/// anything.
fn a_client_that_reads_slowly_takes_something() -> Result<()> {
    let origin = Origin::start(long_answer)?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &["--client-timeout", "1500ms"])?;
    for path in ["/short/kept", "/short/kept", "/short/passed"] {
        let mut client = begun(&cache, path)?;
        slow::read(&mut client, SHORT).context(path)?;
    }
    Ok(())
}
