//! `wirepath relay --cache`: one fetch for many, and nothing in the cache that is not whole.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use wirepath_tests::caching::{Cache, names, wait_for_entries};
use wirepath_tests::origin::{Origin, answer};
use wirepath_tests::process::{find, run};
use wirepath_tests::{Deadline, http, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        curl_gets_every_byte_from_the_origin_once_and_then_from_the_cache,
        many_misses_share_one_fetch_and_a_slow_client_delays_no_other,
        bytes_come_while_the_origin_still_sends_and_late_ones_join,
        a_fetch_goes_on_when_its_client_has_left,
        a_fetch_that_breaks_leaves_nothing_and_cuts_its_clients,
        a_cache_that_is_killed_never_gives_out_a_part,
        a_full_cache_lets_the_least_recently_used_go,
        what_does_not_fit_the_cache_passes_through,
        a_signal_lets_answers_end_and_the_report_says_what_was_done,
        a_second_signal_ends_at_once,
    ]
}

const KEPT: &str = "Cache-Control: max-age=600\r\nETag: \"1\"\r\n";

fn bytes(length: usize) -> Vec<u8> {
    let mut dice = wirepath_tests::mutation::Dice::new(length as u64);
    (0..length).map(|_| dice.any() as u8).collect()
}

/// An origin that sends the first half of every body, and the second when it is told to.
struct Gated {
    origin: Origin,
    body: Vec<u8>,
    open: Sender<()>,
}

impl Gated {
    /// The gate opens once for each message, and for good when the sender is gone.
    fn start(length: usize) -> Result<Gated> {
        let body = bytes(length);
        let (open, gate) = channel();
        let (sent, gate) = (body.clone(), Mutex::new(gate));
        let origin = Origin::start(move |_, connection| {
            write!(connection, "HTTP/1.1 200 OK\r\n{KEPT}Content-Length: {length}\r\n\r\n")?;
            connection.write_all(&sent[..length / 2])?;
            let opened = gate.lock().expect("nothing panics holding it").recv();
            opened.ok(); // with the sender gone, the gate stays open
            Ok(connection.write_all(&sent[length / 2..])?)
        })?;
        Ok(Gated { origin, body, open })
    }
}

/// A request whose answer is read piece by piece: its head is read.
fn begin(cache: &Cache, path: &str, headers: &str) -> Result<(TcpStream, String)> {
    let mut connection = http::connect(cache.address)?;
    write!(connection, "GET {path} HTTP/1.1\r\nHost: h\r\n{headers}\r\n")?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        connection.read_exact(&mut byte).context("reading a head")?;
        head.push(byte[0]);
    }
    Ok((connection, String::from_utf8(head)?))
}

fn expect(connection: &mut TcpStream, expected: &[u8]) -> Result<()> {
    let mut received = vec![0; expected.len()];
    connection.read_exact(&mut received).context("reading a body")?;
    ensure!(received == expected, "other bytes came");
    Ok(())
}

/// Promise: A miss is fetched once, byte for byte, and then served from the cache.
fn curl_gets_every_byte_from_the_origin_once_and_then_from_the_cache() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let body = bytes(5_000_000);
    let sent = body.clone();
    let origin = Origin::start(move |_, connection| answer(connection, "200 OK", KEPT, &sent))?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &[])?;
    let (url, file) = (cache.url("/film.ts?a=b"), folder.path().join("got"));
    let got = |arguments: &[&str]| -> Result<(String, Vec<u8>)> {
        let file = file.to_str().context("a name")?;
        let said = run("curl", [&["-sS", "-D", "-", "-o", file], arguments, &[&url]].concat(), 30.0)?;
        Ok((said, std::fs::read(file)?))
    };
    let (head, received) = got(&[])?;
    ensure!(received == body && head.contains("Cache-Status: wirepath; fwd=miss; stored"), "{head}");
    wait_for_entries(folder.path(), 1)?;
    let (head, received) = got(&[])?;
    ensure!(
        received == body && head.contains("Cache-Status: wirepath; hit") && head.contains("Age: "),
        "{head}"
    );
    let (head, received) = got(&["-r", "1000000-1999999"])?;
    ensure!(head.starts_with("HTTP/1.1 206") && received == body[1_000_000..2_000_000], "{head}");
    let (head, received) = got(&["-r", "0-9,4999990-"])?;
    ensure!(
        head.contains("multipart/byteranges") && received.windows(10).any(|ten| ten == &body[..10]),
        "{head}"
    );
    let (head, _) = got(&["-I"])?;
    ensure!(head.contains("Content-Length: 5000000") && head.contains("hit"), "{head}");
    let (head, _) = got(&["-H", "If-None-Match: \"1\""])?;
    ensure!(head.starts_with("HTTP/1.1 304"), "{head}");
    ensure!(origin.asked().len() == 1, "{:?}", origin.asked());
    let asked = &origin.asked()[0];
    let host = origin.address.to_string();
    ensure!(asked.line == "GET /film.ts?a=b HTTP/1.0" && asked.header("host") == Some(&host), "{asked:?}");
    ensure!(asked.header("range").is_none() && asked.header("via") == Some("1.1 wirepath"), "{asked:?}");
    Ok(())
}

/// Promise: Clients that miss share one fetch; a slow client does not delay the others.
fn many_misses_share_one_fetch_and_a_slow_client_delays_no_other() -> Result<()> {
    // More than the buffers of a connection hold.
    let gated = Gated::start(20_000_000)?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&gated.origin, folder.path(), &[])?;
    let (mut slow, _) = begin(&cache, "/a", "")?;
    let connections = (0..20).map(|_| {
        let mut connection = http::connect(cache.address)?;
        connection.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n")?;
        Ok(connection)
    });
    let connections = connections.collect::<Result<Vec<TcpStream>>>()?;
    gated.open.send(())?;
    std::thread::scope(|scope| {
        let readers: Vec<_> = connections
            .into_iter()
            .map(|mut connection| {
                scope.spawn(move || http::read_response(&mut connection, &mut Vec::new(), false))
            })
            .collect();
        for reader in readers {
            let response = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??;
            ensure!(response.status == 200 && response.body == gated.body, "other bytes came");
        }
        Ok(())
    })?;
    expect(&mut slow, &gated.body)?;
    ensure!(gated.origin.asked().len() == 1, "the origin was asked {} times", gated.origin.asked().len());
    drop(slow);
    let report = cache.end()?;
    ensure!(report["misses"] == 1 && report["bytes_from_origin"] == 20_000_000, "{report}");
    let (shared, hits) =
        (report["shared"].as_u64().context("shared")?, report["hits"].as_u64().context("hits")?);
    ensure!(shared + hits == 20, "{report}");
    Ok(())
}

/// Promise: Clients get bytes while the origin still sends; later clients join the fetch, also within a
/// range.
fn bytes_come_while_the_origin_still_sends_and_late_ones_join() -> Result<()> {
    let gated = Gated::start(400_000)?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&gated.origin, folder.path(), &[])?;
    let (mut first, head) = begin(&cache, "/a", "")?;
    ensure!(head.contains("fwd=miss; stored"), "{head}");
    expect(&mut first, &gated.body[..200_000])?;
    let (mut late, head) = begin(&cache, "/a", "Range: bytes=100000-299999\r\n")?;
    ensure!(head.starts_with("HTTP/1.1 206") && head.contains("collapsed"), "{head}");
    expect(&mut late, &gated.body[100_000..200_000])?;
    ensure!(names(folder.path(), ".part")?.len() == 1 && names(folder.path(), ".json")?.is_empty());
    gated.open.send(())?;
    expect(&mut first, &gated.body[200_000..])?;
    expect(&mut late, &gated.body[200_000..300_000])?;
    // The connections stay, and what comes next on them is a hit or follows.
    first.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\nRange: bytes=0-9\r\n\r\n")?;
    let again = http::read_response(&mut first, &mut Vec::new(), false)?;
    ensure!(again.status == 206 && again.body == gated.body[..10], "{}", again.status);
    ensure!(gated.origin.asked().len() == 1);
    Ok(())
}

/// Promise: A fetch continues after its client has left.
fn a_fetch_goes_on_when_its_client_has_left() -> Result<()> {
    let gated = Gated::start(400_000)?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&gated.origin, folder.path(), &[])?;
    drop(begin(&cache, "/a", "")?);
    gated.open.send(())?;
    wait_for_entries(folder.path(), 1)?;
    let response = cache.get("/a")?;
    ensure!(response.body == gated.body && gated.origin.asked().len() == 1, "{:?}", response.headers);
    Ok(())
}

/// Promise: A failed fetch leaves no file, and its clients are reset.
fn a_fetch_that_breaks_leaves_nothing_and_cuts_its_clients() -> Result<()> {
    let body = bytes(300_000);
    let (sent, times) = (body.clone(), AtomicUsize::new(0));
    // Ends early, then is reset, then is whole.
    let origin = Origin::start(move |_, connection| {
        write!(connection, "HTTP/1.1 200 OK\r\n{KEPT}Content-Length: 300000\r\n\r\n")?;
        match times.fetch_add(1, Ordering::Relaxed) {
            0 => connection.write_all(&sent[..200_000])?,
            1 => anyhow::bail!("reset"),
            _ => connection.write_all(&sent)?,
        }
        Ok(())
    })?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &[])?;
    for _ in 0..2 {
        let broken = cache.get("/a");
        ensure!(broken.is_err(), "an answer that is not whole came to a good end: {broken:?}");
        Deadline::seconds(10.0).wait_for("an empty cache", || {
            Ok((names(folder.path(), "")? == ["CACHEDIR.TAG"]).then_some(()))
        })?;
    }
    ensure!(cache.get("/a")?.body == body && origin.asked().len() == 3);
    wait_for_entries(folder.path(), 1)?;
    let report = cache.end()?;
    ensure!(report["broken_fetches"] == 2 && report["entries"] == 1, "{report}");
    Ok(())
}

/// Promise: After a crash no partial body is served, and complete bodies are still served.
fn a_cache_that_is_killed_never_gives_out_a_part() -> Result<()> {
    let gated = Gated::start(400_000)?;
    let folder = tempfile::tempdir()?;
    let mut cache = Cache::start(&gated.origin, folder.path(), &[])?;
    gated.open.send(())?;
    ensure!(cache.get("/whole")?.body == gated.body);
    wait_for_entries(folder.path(), 1)?;
    let (mut client, _) = begin(&cache, "/half", "")?;
    expect(&mut client, &gated.body[..200_000])?;
    cache.process.signal(Signal::KILL)?;
    cache.process.wait(Deadline::seconds(10.0))?;
    ensure!(client.read_to_end(&mut Vec::new()).map_or(true, |rest| rest == 0), "more came");
    ensure!(names(folder.path(), ".part")?.len() == 1, "it was killed in the middle");
    drop(gated.open);
    let again = Cache::start(&gated.origin, folder.path(), &[])?;
    ensure!(names(folder.path(), ".part")?.is_empty(), "it is removed at the start");
    ensure!(again.get("/half")?.body == gated.body && gated.origin.count("/half") == 2);
    let whole = again.get("/whole")?;
    ensure!(whole.body == gated.body && gated.origin.count("/whole") == 1, "{:?}", whole.headers);
    Ok(())
}

/// Promise: The cache keeps to its size and evicts the least recently used first; larger responses pass
/// through.
fn a_full_cache_lets_the_least_recently_used_go() -> Result<()> {
    let body = bytes(100_000);
    let sent = body.clone();
    let origin = Origin::start(move |_, connection| answer(connection, "200 OK", KEPT, &sent))?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &["--cache-size", "250KB"])?;
    let get = |path: &str, entries: usize| -> Result<()> {
        ensure!(cache.get(path)?.body == body, "other bytes came");
        wait_for_entries(folder.path(), entries)
    };
    get("/a", 1)?;
    get("/b", 2)?;
    get("/a", 2)?;
    get("/c", 2)?; // b goes
    get("/a", 2)?;
    get("/b", 2)?;
    let counts = ["/a", "/b", "/c"].map(|path| origin.count(path));
    ensure!(counts == [1, 2, 1], "{counts:?}");
    let report = cache.end()?;
    ensure!(report["evictions"] == 2 && report["entries"] == 2, "{report}");
    ensure!(report["bytes_kept"].as_u64().is_some_and(|bytes| bytes <= 250_000), "{report}");
    Ok(())
}

/// Promise: The cache keeps to its size and evicts the least recently used first; larger responses pass
/// through.
fn what_does_not_fit_the_cache_passes_through() -> Result<()> {
    let body = bytes(3_000_000);
    let sent = body.clone();
    let origin = Origin::start(move |_, connection| answer(connection, "200 OK", KEPT, &sent))?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &["--cache-size", "1MB"])?;
    for _ in 0..2 {
        let response = cache.get("/a")?;
        ensure!(response.body == body && response.header("cache-status") == Some("wirepath; fwd=miss"));
    }
    ensure!(origin.asked().len() == 2 && names(folder.path(), "")? == ["CACHEDIR.TAG"]);
    Ok(())
}

/// Promise: On a signal responses are completed and the report is written; a second signal ends the cache at
/// once.
fn a_signal_lets_answers_end_and_the_report_says_what_was_done() -> Result<()> {
    let gated = Gated::start(400_000)?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&gated.origin, folder.path(), &[])?;
    let (mut client, _) = begin(&cache, "/a", "")?;
    let mut idle = http::connect(cache.address)?;
    expect(&mut client, &gated.body[..200_000])?;
    cache.process.signal(Signal::TERM)?;
    // The connection that is idle ends at once; then the signal has arrived.
    ensure!(idle.read(&mut [0])? == 0);
    gated.open.send(())?;
    expect(&mut client, &gated.body[200_000..])?;
    let report = ended(cache, folder.path())?;
    ensure!(
        report["schema"] == "wirepath-relay-cache/1" && report["bytes_from_cache"] == 400_000,
        "{report}"
    );
    Ok(())
}

/// Promise: On a signal responses are completed and the report is written; a second signal ends the cache at
/// once.
fn a_second_signal_ends_at_once() -> Result<()> {
    let gated = Gated::start(400_000)?;
    let folder = tempfile::tempdir()?;
    let mut cache = Cache::start(&gated.origin, folder.path(), &[])?;
    let (mut client, _) = begin(&cache, "/a", "")?;
    let mut idle = http::connect(cache.address)?;
    expect(&mut client, &gated.body[..200_000])?;
    cache.process.signal(Signal::TERM)?;
    ensure!(idle.read(&mut [0])? == 0);
    cache.process.signal(Signal::TERM)?;
    let status = cache.process.wait(Deadline::seconds(20.0))?;
    ensure!(status.code() == Some(3), "{status}: {}", cache.process.log());
    Ok(())
}

/// The report of a cache that was asked to end. What it had begun to keep is kept whole or not at all.
fn ended(cache: Cache, folder: &Path) -> Result<serde_json::Value> {
    let report = cache.report(Deadline::seconds(20.0))?;
    ensure!(names(folder, ".part")?.is_empty(), "{:?}", names(folder, "")?);
    Ok(report)
}
