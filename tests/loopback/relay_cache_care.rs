//! `wirepath relay --cache`: what must not be taken for whole, for current, or for fresh, and what is
//! counted.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;
use wirepath_tests::caching::{Cache, names, wait_for_entries};
use wirepath_tests::http;
use wirepath_tests::origin::{Origin, answer};
use wirepath_tests::process::status_number;
use wirepath_tests::{Deadline, trials};

use super::relay_cache_rules::{cache_of, source};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        what_ends_with_the_connection_is_never_taken_for_whole,
        what_is_being_fetched_when_it_changes_is_not_kept,
        an_age_of_any_length_is_served,
        every_request_is_counted_once,
        heads_take_no_more_memory_than_they_are_counted_with,
    ]
}

/// Has a client read the head and what has come of the body.
pub(crate) fn read_until(connection: &mut impl Read, ending: &[u8]) -> Result<()> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(ending) {
        let mut byte = [0];
        connection.read_exact(&mut byte).context("reading an answer")?;
        bytes.push(byte[0]);
    }
    Ok(())
}

/// Promise: A partial body that ends with its connection never looks complete to a client, even if the cache
/// is killed.
fn what_ends_with_the_connection_is_never_taken_for_whole() -> Result<()> {
    // Each waits until the test is over.
    let (over, is_over) = channel::<()>();
    let is_over = Mutex::new(is_over);
    let origin = Origin::start(move |asked, connection| {
        write!(connection, "HTTP/1.0 200 OK\r\n\r\nbegun")?;
        if asked.target() == "/slow" {
            let ended = is_over.lock().expect("nothing panics holding it").recv();
            ensure!(ended.is_err(), "nothing is ever sent");
        }
        Ok(())
    })?;
    for (signals, name) in [(&[Signal::TERM, Signal::TERM][..], "told twice"), (&[Signal::KILL], "killed")] {
        let (mut cache, _folder) = cache_of(&origin)?;
        ensure!(cache.get("/whole")?.body == b"begun", "what is whole ends well");
        let mut client = http::connect(cache.address)?;
        let mut idle = http::connect(cache.address)?;
        client.write_all(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")?;
        read_until(&mut client, b"begun")?;
        for (number, &signal) in signals.iter().enumerate() {
            if number > 0 {
                // The first has arrived when the connection that is idle has ended.
                ensure!(idle.read(&mut [0])? == 0);
            }
            cache.process.signal(signal)?;
        }
        cache.process.wait(Deadline::seconds(20.0))?;
        let end = client.read(&mut [0]).map_err(|error| error.kind());
        ensure!(end == Err(ErrorKind::ConnectionReset), "{name}: {end:?}");
    }
    drop(over);
    Ok(())
}

/// Promise: If a change invalidates a resource during its fetch, the response is not stored and no client
/// joins the fetch.
fn what_is_being_fetched_when_it_changes_is_not_kept() -> Result<()> {
    let (open, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let is_changed = AtomicBool::default();
    let origin = Origin::start(move |asked, connection| {
        if !asked.line.starts_with("GET") {
            is_changed.store(true, Ordering::Release);
            return answer(connection, "201 Created", "", b"");
        }
        let lines = "Cache-Control: max-age=600\r\n";
        if is_changed.load(Ordering::Acquire) {
            return answer(connection, "200 OK", lines, b"new");
        }
        write!(connection, "HTTP/1.1 200 OK\r\n{lines}Content-Length: 8\r\n\r\nold,")?;
        gate.lock().expect("nothing panics holding it").recv()?;
        Ok(connection.write_all(b"rest")?)
    })?;
    let (cache, folder) = cache_of(&origin)?;
    let mut client = http::connect(cache.address)?;
    client.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n")?;
    read_until(&mut client, b"old,")?;
    ensure!(http::request(cache.address, "DELETE", "/a", &[])?.status == 201);
    // A request now gets the new version, which is kept, though the old transfer ends later.
    ensure!(cache.get("/a")?.body == b"new");
    wait_for_entries(folder.path(), 1)?;
    ensure!(!names(folder.path(), ".part")?.is_empty(), "the old one is still being fetched");
    open.send(())?;
    read_until(&mut client, b"rest")?;
    Deadline::seconds(10.0)
        .wait_for("the end of the old one", || Ok(names(folder.path(), ".part")?.is_empty().then_some(())))?;
    let kept = cache.get("/a")?;
    ensure!(kept.body == b"new" && source(&kept).contains("hit"), "{kept:?}");
    ensure!(names(folder.path(), ".body")?.len() == 1 && origin.count("/a") == 3);
    Ok(())
}

/// Promise: An `Age` of any number of digits is accepted, and passed on as at most 2^31 s.
fn an_age_of_any_length_is_served() -> Result<()> {
    let origin = Origin::start(|_, connection| {
        let lines = format!("Cache-Control: max-age=600\r\nETag: \"1\"\r\nAge: {}\r\n", u64::MAX);
        answer(connection, "200 OK", &lines, b"body")
    })?;
    let (cache, folder) = cache_of(&origin)?;
    ensure!(cache.get("/a")?.body == b"body");
    wait_for_entries(folder.path(), 1)?;
    ensure!(cache.get("/a")?.body == b"body");
    cache.end()?;
    let cache = Cache::start(&origin, folder.path(), &[])?;
    let again = cache.get("/a")?;
    ensure!(again.body == b"body" && !source(&again).contains("hit"), "it is too old to be fresh: {again:?}");
    ensure!(origin.count("/a") == 3 && !cache.process.log().contains("panicked"));
    Ok(())
}

/// Promise: Every request is counted once.
fn every_request_is_counted_once() -> Result<()> {
    let origin = Origin::start(|asked, connection| match asked.target() {
        "/kept" => answer(connection, "200 OK", "Cache-Control: max-age=600\r\n", b"body"),
        "/broken" => anyhow::bail!("reset"),
        _ => answer(connection, "200 OK", "", b""),
    })?;
    let (cache, folder) = cache_of(&origin)?;
    let ask = |method, path, headers: &[_]| {
        http::request(cache.address, method, path, headers).map(|answer| answer.status)
    };
    ensure!(ask("GET", "/kept", &[])? == 200);
    wait_for_entries(folder.path(), 1)?;
    for (method, path, headers, status) in [
        ("GET", "/kept", &[][..], 200),
        ("GET", "/useless", &[], 200),
        ("HEAD", "/useless", &[], 200),
        ("POST", "/useless", &[], 200),
        ("POST", "/broken", &[], 502),
        ("GET", "/broken", &[], 502),
        ("GET", "/new", &[("Cache-Control", "only-if-cached")], 504),
    ] {
        ensure!(ask(method, path, headers)? == status, "{method} {path}");
    }
    let report = cache.end()?;
    let of = |name: &str| report[name].as_u64().with_context(|| format!("no {name}: {report}"));
    ensure!((of("hits")?, of("misses")?, of("passed")?, of("failed")?) == (1, 1, 3, 3), "{report}");
    ensure!(of("requests")? == 8 && of("shared")? == 0 && of("stale")? == 0, "{report}");
    Ok(())
}

/// Promise: Response heads count against disk and memory limits; heads that are too long are not stored.
///
/// The guide says what an entry is taken for in memory; what a process holds that has ten thousand of them
/// must be within that.
fn heads_take_no_more_memory_than_they_are_counted_with() -> Result<()> {
    const ENTRIES: u64 = 10_000;
    let lines = "Cache-Control: max-age=600\r\nETag: \"5f2c-61a3b\"\r\nContent-Type: video/mp2t\r\n\
                 Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nAccept-Ranges: bytes\r\nServer: origin\r\n";
    let origin = Origin::start(move |_, connection| answer(connection, "200 OK", lines, b"body"))?;
    let (cache, folder) = cache_of(&origin)?;
    ensure!(cache.get("/films/one/segment-00001.ts")?.body == b"body");
    wait_for_entries(folder.path(), 1)?;
    cache.end()?;
    let idle_bytes = || -> Result<u64> {
        let cache = Cache::start(&origin, folder.path(), &[])?;
        let resident_kib = status_number(cache.process.pid(), "VmRSS")?;
        let kept = names(folder.path(), ".json")?.len();
        ensure!(cache.end()?["entries"] == kept, "not all of {kept} are kept");
        Ok(resident_kib * 1024)
    };
    let one = idle_bytes()?;
    let counted = multiply(folder.path(), ENTRIES)?;
    let each = idle_bytes()?.saturating_sub(one) / ENTRIES;
    ensure!(each > 0 && each <= counted, "{each} bytes for each, counted with {counted}");
    Ok(())
}

/// Has a folder with one entry have so many more of its kind; answers what each is counted with in memory.
fn multiply(folder: &Path, entries: u64) -> Result<u64> {
    let [record] = <[String; 1]>::try_from(names(folder, ".json")?).ok().context("one entry")?;
    let mut record: Value = serde_json::from_slice(&std::fs::read(folder.join(record))?)?;
    let url = record["url"].as_str().context("a URL")?.to_owned();
    for number in 0..entries {
        let key = format!("{number:064x}");
        let body = format!("{key}-{}.body", number + 2);
        std::fs::write(folder.join(&body), b"body")?;
        let known = std::fs::metadata(folder.join(&body))?;
        record["url"] = format!("{url}?{number}").into();
        record["body_modified_ns"] = (known.mtime() * 1_000_000_000 + known.mtime_nsec()).into();
        record["body"] = body.into();
        std::fs::write(folder.join(format!("{key}.json")), serde_json::to_vec(&record)?)?;
    }
    let (text, fields) =
        (serde_json::to_vec(&record)?.len(), record["fields"].as_array().context("fields")?.len());
    Ok((2048 + 256 * fields + 2 * text) as u64)
}
