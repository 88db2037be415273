//! `wirepath relay --cache`: what passes through passes as it came.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::caching::Cache;
use wirepath_tests::http;
use wirepath_tests::origin::{Origin, answer};
use wirepath_tests::process::{find, run};
use wirepath_tests::{Deadline, require, trials};

use super::relay_cache_care::read_until;
use super::relay_cache_rules::cache_of;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_connection_option_does_not_take_the_length_of_a_body_away,
        what_is_not_kept_keeps_its_ranges_and_conditions,
        curl_resumes_what_does_not_fit_the_cache,
        an_origin_may_answer_while_it_still_reads,
        curl_gets_back_what_it_still_sends,
        an_early_answer_comes_whatever_becomes_of_the_body,
        a_client_that_breaks_off_leaves_its_place,
        what_is_to_go_no_further_is_answered_here,
    ]
}

/// Promise: `Connection` removes no header field about the length or use of a body.
///
/// Else a client waits for an end that does not come, and takes the next answer for the rest of this one.
fn a_connection_option_does_not_take_the_length_of_a_body_away() -> Result<()> {
    let origin = Origin::start(|asked, connection| {
        let (lines, body) = match asked.target() {
            "/first" => ("Connection: close, Content-Length\r\nCache-Control: no-store\r\n", "first"),
            _ => ("", "second"),
        };
        let length = body.len();
        Ok(write!(connection, "HTTP/1.1 200 OK\r\n{lines}Content-Length: {length}\r\n\r\n{body}")?)
    })?;
    let (cache, _folder) = cache_of(&origin)?;
    let mut connection = http::connect(cache.address)?;
    connection.write_all(
        b"POST /first HTTP/1.1\r\nHost: h\r\nConnection: content-length\r\nContent-Length: 4\r\n\r\nbody\
          GET /first HTTP/1.1\r\nHost: h\r\n\r\nGET /second HTTP/1.1\r\nHost: h\r\n\r\n",
    )?;
    let mut buffer = Vec::new();
    for body in ["first", "first", "second"] {
        let response = http::read_response(&mut connection, &mut buffer, false)?;
        ensure!(response.status == 200 && response.body == body.as_bytes(), "{response:?}");
    }
    let asked = origin.asked();
    ensure!(asked.len() == 3 && asked[0].body == b"body", "{asked:?}");
    Ok(())
}

/// An origin that answers ranges from a number on and one condition.
fn ranging(lines: &'static str, body: Vec<u8>) -> Result<Origin> {
    Origin::start(move |asked, connection| {
        if asked.target() == "/gone" {
            return answer(connection, "404 Not Found", lines, b"gone");
        }
        if asked.header("if-none-match") == Some("\"e\"") {
            return Ok(write!(connection, "HTTP/1.1 304 Not Modified\r\nETag: \"e\"\r\n\r\n")?);
        }
        let lines = format!("{lines}ETag: \"e\"\r\nAccept-Ranges: bytes\r\n");
        let range = asked.header("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-'));
        let Some(range) = range else { return answer(connection, "200 OK", &lines, &body) };
        let (from, end): (usize, _) = (range.parse()?, body.len());
        let lines = format!("{lines}Content-Range: bytes {from}-{}/{end}\r\n", end - 1);
        answer(connection, "206 Partial Content", &lines, &body[from..])
    })
}

/// Promise: An uncacheable response keeps its ranges and conditions, and for a minute later requests pass
/// through at once.
fn what_is_not_kept_keeps_its_ranges_and_conditions() -> Result<()> {
    let origin = ranging("Cache-Control: no-store\r\n", b"0123456789".to_vec())?;
    let (cache, _folder) = cache_of(&origin)?;
    // The first question tells that it is not kept; whatever it was for, the next is the one that was asked.
    for (path, header, value, status, body) in [
        ("/a", "Range", "bytes=4-", 206, &b"456789"[..]),
        ("/a", "Range", "bytes=6-", 206, b"6789"),
        ("/a", "If-None-Match", "\"e\"", 304, b""),
        ("/b", "If-None-Match", "\"e\"", 304, b""),
        ("/gone", "Range", "bytes=4-", 404, b"gone"),
    ] {
        let response = cache.get_with(path, &[(header, value)])?;
        ensure!(response.status == status && response.body == body, "{path} {header}: {response:?}");
    }
    let counts = ["/a", "/b", "/gone"].map(|path| origin.count(path));
    ensure!(counts == [4, 2, 1], "{counts:?}");
    ensure!(cache.get("/a")?.body == b"0123456789");
    let report = cache.end()?;
    ensure!(report["passed"] == 6 && report["requests"] == 6, "{report}");
    Ok(())
}

/// Promise: An uncacheable response keeps its ranges and conditions, and for a minute later requests pass
/// through at once.
fn curl_resumes_what_does_not_fit_the_cache() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let body: Vec<u8> = (0..3_000_000u32).map(|at| (at / 97) as u8).collect();
    let origin = ranging("Cache-Control: max-age=600\r\n", body.clone())?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &["--cache-size", "1MB"])?;
    let downloads = tempfile::tempdir()?;
    let file = downloads.path().join("film.ts");
    std::fs::write(&file, &body[..1_000_000])?;
    let name = file.to_str().context("a name")?;
    run("curl", ["-sS", "-C", "-", "-o", name, &cache.url("/film.ts")], 30.0)?;
    ensure!(std::fs::read(&file)? == body, "other bytes came");
    Ok(())
}

/// Sends back what it gets, as it comes.
fn echo() -> Result<Origin> {
    Origin::of_heads(|asked, connection| {
        write!(connection, "HTTP/1.0 200 OK\r\n\r\n")?;
        let mut left: usize = asked.header("content-length").context("a length")?.parse()?;
        let mut bytes = vec![0; 65536];
        while left > 0 {
            let length = connection.read(&mut bytes)?;
            ensure!(length > 0, "the body ended early");
            connection.write_all(&bytes[..length])?;
            left -= length;
        }
        Ok(())
    })
}

/// Promise: An early response reaches the client while its body is still sent.
fn an_origin_may_answer_while_it_still_reads() -> Result<()> {
    let origin = echo()?;
    let (cache, _folder) = cache_of(&origin)?;
    let mut connection = http::connect(cache.address)?;
    connection.write_all(b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n")?;
    read_until(&mut connection, b"\r\n\r\n")?;
    // Each byte goes when the one before has come back.
    for byte in b"abc" {
        connection.write_all(&[*byte])?;
        read_until(&mut connection, &[*byte])?;
    }
    ensure!(connection.read(&mut [0])? == 0, "it ends in order");
    // One that sends less than it said is cut, and so is its answer, though the origin waits for the rest.
    let mut connection = http::connect(cache.address)?;
    connection.write_all(b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na")?;
    read_until(&mut connection, b"\r\n\r\na")?;
    connection.shutdown(Shutdown::Write)?;
    let end = connection.read(&mut [0]).map_err(|error| error.kind());
    ensure!(end == Err(ErrorKind::ConnectionReset), "{end:?}");
    Ok(())
}

/// Promise: An early response reaches the client while its body is still sent.
fn curl_gets_back_what_it_still_sends() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let origin = echo()?;
    let (cache, _folder) = cache_of(&origin)?;
    let files = tempfile::tempdir()?;
    let [sent, got] = ["sent", "got"].map(|name| files.path().join(name));
    // More than all buffers on the way hold.
    std::fs::write(&sent, (0..40_000_000u32).map(|at| (at / 97) as u8).collect::<Vec<u8>>())?;
    let (body, file) = (format!("@{}", sent.display()), got.to_str().context("a name")?);
    run("curl", ["-sS", "-H", "Expect:", "--data-binary", &body, "-o", file, &cache.url("/a")], 60.0)?;
    ensure!(std::fs::read(&sent)? == std::fs::read(&got)?, "other bytes came");
    Ok(())
}

/// Promise: An early response reaches the client while its body is still sent.
fn an_early_answer_comes_whatever_becomes_of_the_body() -> Result<()> {
    // It waits until the test is over.
    let (over, is_over) = channel::<()>();
    let is_over = Mutex::new(is_over);
    let origin = Origin::of_heads(move |asked, connection| {
        write!(connection, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 8\r\n\r\ntoo long")?;
        if asked.target() == "/waits" {
            let ended = is_over.lock().expect("nothing panics holding it").recv();
            ensure!(ended.is_err(), "nothing is ever sent");
        }
        Ok(()) // what is unread resets the connection
    })?;
    let (cache, _folder) = cache_of(&origin)?;
    for path in ["/waits", "/closes"] {
        let mut connection = http::connect(cache.address)?;
        let mut writer = connection.try_clone()?;
        write!(writer, "PUT {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 40000000\r\n\r\n")?;
        // It is closed in the middle of this.
        let writing = std::thread::spawn(move || writer.write_all(&vec![0; 40_000_000]));
        let response = http::read_response(&mut connection, &mut Vec::new(), false)?;
        ensure!(response.status == 413 && response.body == b"too long", "{path}: {response:?}");
        ensure!(response.header("connection") == Some("close"), "{path}: {response:?}");
        let written = writing.join().map_err(|_| anyhow::anyhow!("writing panicked"))?;
        ensure!(written.is_err(), "{path}: all of it was taken");
    }
    drop(over);
    let report = cache.end()?;
    ensure!(report["passed"] == 2 && report["failed"] == 0, "{report}");
    Ok(())
}

/// Promise: A client that resets while it waits loses its place in the queue; a client that half-closes keeps
/// it.
fn a_client_that_breaks_off_leaves_its_place() -> Result<()> {
    let (over, is_over) = channel::<()>();
    let is_over = Mutex::new(is_over);
    let (tell, left) = channel();
    let tell = Mutex::new(tell);
    let origin = Origin::start(move |asked, connection| {
        if asked.line.starts_with("POST") {
            // It ends when nobody waits for the answer any more.
            let end = connection.read(&mut [0]).unwrap_or(0);
            tell.lock().expect("nothing panics holding it").send(end)?;
        } else if asked.target() != "/b" {
            let ended = is_over.lock().expect("nothing panics holding it").recv();
            ensure!(ended.is_err(), "nothing is ever sent");
        }
        answer(connection, "200 OK", "", b"body")
    })?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &["--max-clients", "2"])?;
    // It sends no more, but waits.
    let mut waiting = http::connect(cache.address)?;
    waiting.write_all(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")?;
    waiting.shutdown(Shutdown::Write)?;
    for (number, method) in ["GET", "POST"].into_iter().enumerate() {
        let deadline = Deadline::seconds(10.0);
        let ask = || -> Result<TcpStream> {
            let mut client = http::connect(cache.address)?;
            // At the limit the connection may be closed already: that is found below.
            drop(write!(client, "{method} /left HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"));
            client.set_nonblocking(true)?;
            Ok(client)
        };
        let mut client = ask()?;
        deadline.wait_for("the request", || {
            // There was no place yet where it was answered.
            if client.peek(&mut [0]).map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |_| true) {
                client = ask()?;
            }
            Ok((origin.count("/left") == number + 1).then_some(()))
        })?;
        socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO))?;
        drop(client);
        // Until it is seen that it is gone there is no place for this one.
        deadline.wait_for("a place", || Ok(cache.get("/b").is_ok_and(|b| b.status == 200).then_some(())))?;
    }
    ensure!(left.recv_timeout(Deadline::seconds(10.0).left())? == 0, "the origin was let go of");
    drop(over);
    let response = http::read_response(&mut waiting, &mut Vec::new(), false)?;
    ensure!(response.status == 200 && response.body == b"body", "{response:?}");
    let report = cache.end()?;
    ensure!(report["failed"] == 2, "{report}");
    Ok(())
}

/// Promise: TRACE and OPTIONS obey `Max-Forwards`.
fn what_is_to_go_no_further_is_answered_here() -> Result<()> {
    let origin = Origin::start(|asked, connection| {
        let hops = asked.header("max-forwards").unwrap_or("none");
        Ok(write!(connection, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{hops}", hops.len())?)
    })?;
    let (cache, _folder) = cache_of(&origin)?;
    let ask = |method, hops| http::request(cache.address, method, "/a", &[("Max-Forwards", hops)]);
    let trace = ask("TRACE", "0")?;
    let shown = String::from_utf8_lossy(&trace.body);
    ensure!(trace.status == 200 && trace.header("content-type") == Some("message/http"), "{trace:?}");
    ensure!(shown.starts_with("TRACE /a HTTP/1.1\r\n") && shown.contains("Max-Forwards: 0"), "{shown}");
    ensure!(ask("OPTIONS", "0")?.status == 204 && ask("OPTIONS", "some")?.status == 400);
    ensure!(origin.asked().is_empty(), "{:?}", origin.asked());
    for method in ["TRACE", "OPTIONS"] {
        ensure!(ask(method, "3")?.body == b"2", "{method} goes on with one hop less");
    }
    let report = cache.end()?;
    ensure!(report["hits"] == 2 && report["failed"] == 1 && report["passed"] == 2, "{report}");
    Ok(())
}
