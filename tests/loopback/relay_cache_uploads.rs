//! `wirepath relay --cache`: bodies that go to the origin, and what becomes of them and of the answer when
//! one of both ends early.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use libtest_mimic::Trial;
use wirepath_tests::caching::{Cache, wait_for_entries};
use wirepath_tests::origin::{Origin, answer};
use wirepath_tests::process::descriptors;
use wirepath_tests::{Deadline, http, trials};

use super::relay_cache_rules::{cache_of, source};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        an_answer_that_is_cut_ends_so_though_the_upload_was_told_of_it,
        an_early_answer_has_its_end_while_the_body_goes_on,
        an_early_answer_of_an_origin_that_ends_is_whole,
        a_body_that_ends_while_it_is_answered_ends_for_the_origin,
        a_client_that_pauses_within_its_body_is_cut,
        an_origin_that_takes_no_body_is_given_up_at_once,
        a_change_without_a_response_drops_the_entry,
    ]
}

/// More than all buffers on the way hold.
const LONG: usize = 40_000_000;

/// A channel: one end waits until the test sends.
fn gate() -> (Sender<()>, Mutex<Receiver<()>>) {
    let (open, gate) = channel();
    (open, Mutex::new(gate))
}

/// Waits until the test says so, or is over.
fn pass(gate: &Mutex<Receiver<()>>) {
    // Both are all the same.
    let _ = gate.lock().expect("nothing panics holding it").recv();
}

/// Begins to send a long body.
fn upload(cache: &Cache, path: &str) -> Result<(TcpStream, JoinHandle<std::io::Result<()>>)> {
    let client = http::connect(cache.address)?;
    let mut writer = client.try_clone()?;
    write!(writer, "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {LONG}\r\n\r\n")?;
    Ok((client, spawn(move || writer.write_all(&vec![7; LONG]))))
}

fn written(writing: JoinHandle<std::io::Result<()>>) -> Result<Result<(), ErrorKind>> {
    let written = writing.join().map_err(|_| anyhow!("writing panicked"))?;
    Ok(written.map_err(|error| error.kind()))
}

/// Promise: If the origin truncates a response, the client sees it truncated.
///
/// The kernel tells once that a connection was reset, and whoever sends may hear of it when nobody reads.
fn an_answer_that_is_cut_ends_so_though_the_upload_was_told_of_it() -> Result<()> {
    let (go, may_go) = gate();
    let (tell, is_full) = channel();
    let tell = Mutex::new(tell);
    let origin = Origin::of_heads(move |_, connection| {
        write!(connection, "HTTP/1.0 200 OK\r\n\r\n")?;
        connection.set_write_timeout(Some(Duration::from_millis(500)))?;
        // In pieces, for what the kernel takes of one it takes whole.
        let piece = vec![7; LONG / 50];
        let written = (0..100).try_for_each(|_| connection.write_all(&piece));
        tell.lock().expect("nothing panics holding it").send(written.is_err())?;
        pass(&may_go);
        Ok(written?) // it is reset
    })?;
    let (cache, _folder) = cache_of(&origin)?;
    let (mut client, writing) = upload(&cache, "/a")?;
    ensure!(is_full.recv_timeout(Deadline::seconds(30.0).left())?, "all of the answer was taken");
    let busy = descriptors(cache.process.pid())?;
    go.send(())?;
    Deadline::seconds(10.0)
        .wait_for("the end of the upload", || Ok((descriptors(cache.process.pid())? < busy).then_some(())))?;
    let end = client.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
    // Here, too, one of both is told; of what is reset after its end, whoever writes hears another thing.
    let written = written(writing)?;
    let told = [end.map(drop), written].contains(&Err(ErrorKind::ConnectionReset));
    ensure!(told, "{end:?}, {written:?}");
    Ok(())
}

/// Promise: The cache forwards an early response at once and continues to send the request body.
fn an_early_answer_has_its_end_while_the_body_goes_on() -> Result<()> {
    let (go, may_go) = gate();
    let (tell, bytes) = channel();
    let tell = Mutex::new(tell);
    let origin = Origin::of_heads(move |_, connection| {
        answer(connection, "200 OK", "", b"early")?;
        pass(&may_go);
        let mut body = vec![0; LONG];
        connection.read_exact(&mut body)?;
        Ok(tell.lock().expect("nothing panics holding it").send(body.ends_with(&[7; 1000]))?)
    })?;
    let (cache, _folder) = cache_of(&origin)?;
    let (mut client, writing) = upload(&cache, "/a")?;
    let mut got = Vec::new();
    client.read_to_end(&mut got).context("the end of an answer")?;
    ensure!(got.ends_with(b"\r\n\r\nearly"), "{}", String::from_utf8_lossy(&got));
    go.send(())?;
    ensure!(bytes.recv_timeout(Deadline::seconds(30.0).left())?, "other bytes came");
    ensure!(written(writing)? == Ok(()), "all of it was taken");
    Ok(())
}

/// Promise: The cache forwards an early response at once and continues to send the request body.
///
/// Once it has ended, the origin resets whatever still comes: its answer is whole for all that, and nobody
/// wants the rest of the body.
fn an_early_answer_of_an_origin_that_ends_is_whole() -> Result<()> {
    let (over, is_over) = gate();
    let origin = Origin::of_heads(move |asked, connection| {
        write!(connection, "HTTP/1.0 200 OK\r\n\r\nearly")?;
        connection.shutdown(Shutdown::Write)?;
        if asked.target() == "/waits" {
            pass(&is_over);
        }
        Ok(()) // what is unread resets the connection
    })?;
    let (cache, _folder) = cache_of(&origin)?;
    for path in ["/closes", "/waits"] {
        let (mut client, writing) = upload(&cache, path)?;
        let mut got = Vec::new();
        client.read_to_end(&mut got).context(path)?;
        ensure!(got.ends_with(b"\r\n\r\nearly"), "{path}: {}", String::from_utf8_lossy(&got));
        let end = written(writing)?;
        ensure!(matches!(end, Err(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)), "{path}: {end:?}");
    }
    drop(over);
    Ok(())
}

/// Promise: A truncated request body is truncated for the origin, too; pauses in a body have timeouts.
///
/// Whichever comes first, the origin does not wait for what never comes.
fn a_body_that_ends_while_it_is_answered_ends_for_the_origin() -> Result<()> {
    let (tell, rest) = channel();
    let tell = Mutex::new(tell);
    let origin = Origin::of_heads(move |_, connection| {
        connection.read_exact(&mut [0])?;
        write!(connection, "HTTP/1.0 200 OK\r\n\r\nbegun")?;
        let end = connection.read(&mut [0]).map_err(|error| error.kind());
        Ok(tell.lock().expect("nothing panics holding it").send(end)?)
    })?;
    let (cache, _folder) = cache_of(&origin)?;
    for number in 0..200 {
        let mut client = http::connect(cache.address)?;
        client.write_all(b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na")?;
        client.shutdown(Shutdown::Write)?;
        let end = rest.recv_timeout(Deadline::seconds(10.0).left()).with_context(|| format!("{number}"))?;
        ensure!(matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)), "{number}: {end:?}");
    }
    Ok(())
}

/// Promise: A truncated request body is truncated for the origin, too; pauses in a body have timeouts.
fn a_client_that_pauses_within_its_body_is_cut() -> Result<()> {
    let (over, is_over) = gate();
    let origin = Origin::of_heads(move |_, connection| {
        pass(&is_over);
        answer(connection, "200 OK", "", b"late")
    })?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &["--client-timeout", "500ms"])?;
    let mut client = http::connect(cache.address)?;
    client.write_all(b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na")?;
    let end = client.read(&mut [0]).map_err(|error| error.kind());
    ensure!(end == Err(ErrorKind::ConnectionReset), "{end:?}");
    drop(over);
    let report = cache.end()?;
    ensure!(report["failed"] == 1, "{report}");
    Ok(())
}

/// Promise: A truncated request body is truncated for the origin, too; pauses in a body have timeouts.
fn an_origin_that_takes_no_body_is_given_up_at_once() -> Result<()> {
    let (over, is_over) = gate();
    let origin = Origin::of_heads(move |_, _| {
        pass(&is_over);
        Ok(())
    })?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &["--origin-timeout", "500ms"])?;
    let (mut client, _writing) = upload(&cache, "/a")?;
    let response = http::read_response(&mut client, &mut Vec::new(), false)?;
    let said = String::from_utf8_lossy(&response.body);
    ensure!(response.status == 504 && said.contains("does not read"), "{response:?}");
    drop(over);
    Ok(())
}

/// Promise: A change without a response drops the stored response; a refused change does not.
///
/// A client that changes a resource may not wait for the answer, or wait in vain: the change may have taken
/// place all the same.
fn a_change_without_a_response_drops_the_entry() -> Result<()> {
    let (over, is_over) = gate();
    let origin = Origin::of_heads(move |asked, connection| {
        if asked.line.starts_with("GET") {
            return answer(connection, "200 OK", "Cache-Control: max-age=600\r\n", b"kept");
        }
        match asked.target() {
            "/refused" => answer(connection, "403 Forbidden", "", b"no"),
            _ => {
                pass(&is_over);
                Ok(())
            }
        }
    })?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &["--origin-timeout", "2s"])?;
    let keep = |path| -> Result<()> {
        ensure!(cache.get(path)?.body == b"kept");
        wait_for_entries(folder.path(), 1)
    };
    keep("/late")?;
    let late = http::request(cache.address, "DELETE", "/late", &[])?;
    ensure!(late.status == 504, "{late:?}");
    wait_for_entries(folder.path(), 0).context("a change without an answer")?;
    keep("/left")?;
    for (number, body) in ["", "a"].into_iter().enumerate() {
        let mut client = http::connect(cache.address)?;
        write!(client, "PUT /left HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
        let puts = || origin.asked().iter().filter(|asked| asked.line.starts_with("PUT")).count();
        Deadline::seconds(10.0).wait_for("a change", || Ok((puts() > number).then_some(())))?;
        socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO))?;
        drop(client);
        wait_for_entries(folder.path(), 0).context("a change whose client has left")?;
        keep("/left")?;
    }
    ensure!(cache.get("/refused")?.body == b"kept");
    wait_for_entries(folder.path(), 2)?;
    let refused = http::request(cache.address, "DELETE", "/refused", &[])?;
    ensure!(refused.status == 403 && source(&cache.get("/refused")?).contains("hit"), "{refused:?}");
    drop(over);
    Ok(())
}
