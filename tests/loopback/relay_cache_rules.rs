//! `wirepath relay --cache`: what is kept, for how long, and what passes through.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::caching::{Cache, names, wait_for_entries};
use wirepath_tests::http::{self, Response};
use wirepath_tests::origin::{Asked, Origin, answer};
use wirepath_tests::ports::free_port;
use wirepath_tests::process::Process;
use wirepath_tests::{Deadline, require, server, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        what_is_stale_is_asked_for_again_and_a_304_renews_it,
        what_is_not_for_all_passes_through_and_is_not_kept,
        variants_are_told_apart,
        bodies_of_requests_reach_the_origin_and_changes_drop_what_was_kept,
        an_origin_that_fails_is_said_and_bridged_where_it_allows,
        answers_that_cannot_be_passed_on_are_said,
        an_answer_that_drips_is_passed_on,
        provisional_heads_without_end_are_no_answer,
        requests_may_be_pipelined,
        wrong_arguments_are_named,
        an_origin_that_stalls_is_given_up,
        clients_are_limited,
        requests_stay_within_the_path_of_the_origin,
        it_listens_for_both_families_and_says_when_a_port_is_taken,
    ]
}

/// A cache of this origin in a folder of its own.
pub(crate) fn cache_of(origin: &Origin) -> Result<(Cache, tempfile::TempDir)> {
    let folder = tempfile::tempdir()?;
    Ok((Cache::start(origin, folder.path(), &[])?, folder))
}

pub(crate) fn source(response: &Response) -> &str {
    response.header("cache-status").unwrap_or_default()
}

/// Promise: A stale entry is validated, and a 304 renews it.
fn what_is_stale_is_asked_for_again_and_a_304_renews_it() -> Result<()> {
    let is_changed = Arc::<AtomicBool>::default();
    let changed = Arc::clone(&is_changed);
    let origin = Origin::start(move |asked, connection| {
        let version = if changed.load(Ordering::Acquire) { "two" } else { "one" };
        let lines = format!("Cache-Control: no-cache\r\nETag: \"{version}\"\r\n");
        match asked.header("if-none-match") == Some(&format!("\"{version}\"")) {
            true => Ok(write!(connection, "HTTP/1.1 304 Not Modified\r\n{lines}X-Renewed: yes\r\n\r\n")?),
            false => answer(connection, "200 OK", &lines, version.as_bytes()),
        }
    })?;
    let (cache, _folder) = cache_of(&origin)?;
    // It can be renewed when it is kept, which is after its first client has it.
    let renewed = |version: &str| {
        Deadline::seconds(10.0).wait_for("a renewed entry", || {
            let response = cache.get("/a")?;
            ensure!(response.status == 200 && response.body == version.as_bytes(), "{response:?}");
            Ok(source(&response).contains("fwd-status=304").then_some(response))
        })
    };
    ensure!(cache.get("/a")?.body == b"one");
    ensure!(renewed("one")?.header("x-renewed") == Some("yes"));
    ensure!(origin.asked().last().is_some_and(|asked| asked.header("if-none-match") == Some("\"one\"")));
    is_changed.store(true, Ordering::Release);
    // A client's condition is answered here, and the origin is asked with ours.
    let new = cache.get_with("/a", &[("If-None-Match", "\"two\"")])?;
    ensure!(new.status == 304 && source(&new).contains("fwd=miss; stored"), "{new:?}");
    ensure!(origin.asked().last().is_some_and(|asked| asked.header("if-none-match") == Some("\"one\"")));
    renewed("two").map(drop)
}

/// Promise: Responses that RFC 9111 forbids a shared cache to store pass through.
fn what_is_not_for_all_passes_through_and_is_not_kept() -> Result<()> {
    let origin = Origin::start(|asked, connection| {
        let lines = match asked.target() {
            "/no-store" => "Cache-Control: no-store, max-age=600\r\n",
            "/private" => "Cache-Control: private, max-age=600\r\n",
            "/cookie" => "Cache-Control: public, max-age=600\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n",
            "/useless" => "",
            "/endless" => {
                write!(connection, "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n\r\nbody")?;
                return Ok(());
            }
            _ => "Cache-Control: max-age=600\r\n",
        };
        answer(connection, "200 OK", lines, b"body")
    })?;
    let (cache, folder) = cache_of(&origin)?;
    let credentials = [("Authorization", "Basic eDp5")];
    for (path, headers) in [
        ("/no-store", &[][..]),
        ("/private", &[]),
        ("/cookie", &[]),
        ("/useless", &[]),
        ("/endless", &[]),
        ("/credentials", &credentials),
        ("/not-wanted", &[("Cache-Control", "no-store")]),
        ("/for-the-origin", &[("If-Match", "\"x\"")]),
    ] {
        for _ in 0..2 {
            let response = cache.get_with(path, headers)?;
            ensure!(
                response.body == b"body" && !source(&response).contains("stored"),
                "{path}: {response:?}"
            );
            let cookies = response.headers.iter().filter(|(name, _)| name == "set-cookie").count();
            ensure!(cookies == if path == "/cookie" { 2 } else { 0 }, "{path}: {response:?}");
        }
        ensure!(origin.count(path) == 2, "{path} was asked for {} times", origin.count(path));
    }
    ensure!(names(folder.path(), "")? == ["CACHEDIR.TAG"]);
    let only_kept = cache.get_with("/new", &[("Cache-Control", "only-if-cached")])?;
    ensure!(only_kept.status == 504 && origin.count("/new") == 0, "{only_kept:?}");
    let head = http::request(cache.address, "HEAD", "/new", &[])?;
    ensure!(head.status == 200 && head.header("content-length") == Some("4"), "{head:?}");
    ensure!(origin.asked().last().is_some_and(|asked| asked.line.starts_with("HEAD")));
    Ok(())
}

/// Promise: Variants are stored and served separately.
fn variants_are_told_apart() -> Result<()> {
    let origin = Origin::start(|asked, connection| {
        let language = asked.header("accept-language").unwrap_or("none").to_owned();
        answer(
            connection,
            "200 OK",
            "Cache-Control: max-age=600\r\nVary: Accept-Language\r\n",
            language.as_bytes(),
        )
    })?;
    let (cache, folder) = cache_of(&origin)?;
    for (language, asked) in [("de", 1), ("de", 1), ("fr", 2), ("fr", 2), ("de", 3)] {
        let response = cache.get_with("/a", &[("Accept-Language", language)])?;
        ensure!(response.body == language.as_bytes(), "{response:?}");
        ensure!(origin.asked().len() == asked, "{language}: {}", origin.asked().len());
        // The variant that was kept before is there until this one is.
        Deadline::seconds(10.0).wait_for("the variant in the cache", || {
            let [record] = &names(folder.path(), ".json")?[..] else { return Ok(None) };
            let is_kept =
                std::fs::read_to_string(folder.path().join(record))?.contains(&format!("\"{language}\""));
            Ok((is_kept && names(folder.path(), ".body")?.len() == 1).then_some(()))
        })?;
    }
    Ok(())
}

/// Promise: Request bodies reach the origin, and changes drop the stored response.
fn bodies_of_requests_reach_the_origin_and_changes_drop_what_was_kept() -> Result<()> {
    let origin = Origin::start(|asked, connection| match asked.line.starts_with("GET") {
        true => answer(connection, "200 OK", "Cache-Control: max-age=600\r\n", b"kept"),
        false => answer(connection, "201 Created", "", &asked.body),
    })?;
    let (cache, folder) = cache_of(&origin)?;
    ensure!(cache.get("/a")?.body == b"kept");
    wait_for_entries(folder.path(), 1)?;
    let body: Vec<u8> = (0..3_000_000u32).map(|at| (at / 97) as u8).collect();
    let mut connection = http::connect(cache.address)?;
    // Two on one connection, the first in pieces, the second as one.
    write!(
        connection,
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\nExpect: 100-continue\r\n\r\n"
    )?;
    let mut interim = [0; 25];
    connection.read_exact(&mut interim)?;
    ensure!(&interim == b"HTTP/1.1 100 Continue\r\n\r\n", "{:?}", String::from_utf8_lossy(&interim));
    let mut writer = connection.try_clone()?;
    let sent = body.clone();
    let writing = std::thread::spawn(move || writer.write_all(&sent));
    let response = http::read_response(&mut connection, &mut Vec::new(), false)?;
    writing.join().map_err(|_| anyhow::anyhow!("writing panicked"))??;
    ensure!(response.status == 201 && response.body == body && source(&response).contains("fwd=method"));
    write!(connection, "PUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody")?;
    ensure!(http::read_response(&mut connection, &mut Vec::new(), false)?.body == b"body");
    ensure!(names(folder.path(), ".json")?.is_empty(), "a POST may have changed it");
    ensure!(cache.get("/a")?.body == b"kept" && origin.count("/a") == 3);
    let chunked = http::request(cache.address, "POST", "/a", &[("Transfer-Encoding", "chunked")])?;
    ensure!(
        chunked.status == 411 && String::from_utf8_lossy(&chunked.body).contains("Content-Length"),
        "{chunked:?}"
    );
    Ok(())
}

/// Promise: A failed origin is reported, and stale responses are served if it allows that; a stalled origin
/// times out.
fn an_origin_that_fails_is_said_and_bridged_where_it_allows() -> Result<()> {
    let nobody = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::of(&format!("http://{nobody}"), folder.path(), &[])?;
    let failed = cache.get("/a")?;
    let words = String::from_utf8_lossy(&failed.body).into_owned();
    ensure!(
        failed.status == 502 && words.contains(&nobody.to_string()) && words.contains("refused"),
        "{failed:?}"
    );
    // Once, however many ask.
    ensure!(cache.get("/b")?.status == 502);
    let told = || cache.process.log().matches(&nobody.to_string()).count();
    Deadline::seconds(10.0).wait_for("a line of the log", || Ok((told() > 0).then_some(())))?;
    ensure!(told() == 1, "{}", cache.process.log());
    drop(cache);
    let times = AtomicUsize::new(0);
    let origin = Origin::start(move |asked, connection| match times.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => {
            let bridged = if asked.target() == "/bridged" { ", stale-if-error=600" } else { "" };
            answer(
                connection,
                "200 OK",
                &format!("Cache-Control: max-age=0{bridged}\r\nETag: \"1\"\r\n"),
                b"kept",
            )
        }
        number if number % 2 == 0 => answer(connection, "503 Service Unavailable", "", b"down"),
        _ => anyhow::bail!("reset"),
    })?;
    let (cache, folder) = cache_of(&origin)?;
    ensure!(cache.get("/bridged")?.body == b"kept" && cache.get("/strict")?.body == b"kept");
    wait_for_entries(folder.path(), 2)?;
    for _ in 0..2 {
        let bridged = cache.get("/bridged")?;
        ensure!(bridged.body == b"kept" && source(&bridged).contains("stale-if-error"), "{bridged:?}");
    }
    let passed = cache.get("/strict")?;
    ensure!(passed.status == 503 && passed.body == b"down", "{passed:?}");
    ensure!(cache.get("/strict")?.status == 502);
    Ok(())
}

/// Promise: Responses that cannot be forwarded are errors; ambiguous requests are refused.
fn answers_that_cannot_be_passed_on_are_said() -> Result<()> {
    let origin = Origin::start(|asked, connection| {
        let head = match asked.target() {
            "/chunked" => {
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n".to_owned()
            }
            "/twice" => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbody".to_owned(),
            "/long" => format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(100_000)),
            "/noise" => "220 mail.example.org ESMTP\r\n".to_owned(),
            "/unasked" => "HTTP/1.1 304 Not Modified\r\n\r\n".to_owned(),
            "/short" => {
                "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 10\r\n\r\nbody".to_owned()
            }
            "/endless" => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\nbody", u64::MAX),
            _ => String::new(),
        };
        Ok(connection.write_all(head.as_bytes())?)
    })?;
    let (cache, folder) = cache_of(&origin)?;
    for (path, words) in [
        ("/chunked", "chunked"),
        ("/twice", "Content-Length"),
        ("/long", "too long"),
        ("/noise", "invalid response"),
        ("/unasked", "unconditional request"),
        ("/silence", "connection closed before a response"),
    ] {
        let response = cache.get(path)?;
        let said = String::from_utf8_lossy(&response.body).into_owned();
        ensure!(response.status == 502 && said.contains(words), "{path}: {response:?}");
    }
    for path in ["/short", "/endless"] {
        let short = cache.get(path);
        ensure!(short.is_err(), "an answer that is not whole came to a good end: {short:?}");
    }
    ensure!(!cache.process.log().contains("panicked"), "{}", cache.process.log());
    ensure!(names(folder.path(), "")? == ["CACHEDIR.TAG"]);
    Ok(())
}

/// Promise: A response whose head arrives byte by byte is read with few calls and passed on.
///
/// Byte by byte, with what is provisional before it, and with what is no HTTP found before it ends.
fn an_answer_that_drips_is_passed_on() -> Result<()> {
    let origin = Origin::start(|asked, connection| {
        connection.set_nodelay(true)?;
        let mut drip = |text: &str| text.bytes().try_for_each(|byte| connection.write_all(&[byte]));
        if asked.target() == "/noise" {
            drip("HTTX/1.1 200 OK\r\nX: ")?;
            // It stays open: whoever waits for the end of this waits in vain.
            while connection.write_all(b"x").is_ok() {}
            return Ok(());
        }
        drip("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n")?;
        drip(&format!("X-Long: {}\r\nContent-Length: 7\r\n\r\nin full", "x".repeat(2000)))?;
        Ok(())
    })?;
    let (cache, _folder) = cache_of(&origin)?;
    for _ in 0..2 {
        let response = cache.get("/a")?;
        ensure!(response.status == 200 && response.body == b"in full", "{response:?}");
        ensure!(response.header("x-long").is_some_and(|value| value.len() == 2000), "{response:?}");
    }
    ensure!(origin.count("/a") == 1, "it was not kept");
    let response = cache.get("/noise")?;
    let said = String::from_utf8_lossy(&response.body).into_owned();
    ensure!(response.status == 502 && said.contains("invalid response"), "{response:?}");
    Ok(())
}

/// Promise: Responses that cannot be forwarded are errors; ambiguous requests are refused.
fn provisional_heads_without_end_are_no_answer() -> Result<()> {
    let origin = Origin::start(|asked, connection| {
        let head = if asked.target() == "/heads" { "HTTP/1.1 103 Early Hints\r\n\r\n" } else { "\r\n" };
        let heads = head.repeat(100_000 / head.len());
        while connection.write_all(heads.as_bytes()).is_ok() {}
        Ok(())
    })?;
    let (cache, _folder) = cache_of(&origin)?;
    for path in ["/heads", "/empty-lines"] {
        let response = cache.get(path)?;
        let said = String::from_utf8_lossy(&response.body).into_owned();
        ensure!(response.status == 502 && said.contains("too long"), "{path}: {response:?}");
    }
    Ok(())
}

/// Promise: Requests may be pipelined.
fn requests_may_be_pipelined() -> Result<()> {
    let origin = Origin::start(|asked: &Asked, connection| {
        let lines = if asked.target().starts_with("/kept") { "Cache-Control: max-age=600\r\n" } else { "" };
        answer(connection, "200 OK", lines, asked.target().as_bytes())
    })?;
    let (cache, _folder) = cache_of(&origin)?;
    let mut connection = http::connect(cache.address)?;
    let paths = ["/kept/a", "/b", "/kept/a", "/kept/c", "/d", "/kept/a"];
    let requests: String =
        paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")).collect();
    connection.write_all(format!("{requests}GET relative HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes())?;
    let mut buffer = Vec::new();
    for path in paths {
        let response = http::read_response(&mut connection, &mut buffer, false)?;
        ensure!(response.status == 200 && response.body == path.as_bytes(), "{path}: {response:?}");
    }
    let last = http::read_response(&mut connection, &mut buffer, false)?;
    ensure!(last.status == 400 && last.header("connection") == Some("close"), "{last:?}");
    ensure!(connection.read(&mut [0])? == 0, "it is closed then");
    ensure!(origin.count("/kept/a") == 1);
    Ok(())
}

/// Promise: A proxy or cache that would connect to itself is refused; own addresses of a backend's name are
/// skipped.
/// Promise: A folder with other files or in use, an https origin and wrong addresses are refused by name.
/// Promise: The number of a cache's clients is limited.
fn wrong_arguments_are_named() -> Result<()> {
    let foreign = tempfile::tempdir()?;
    std::fs::write(foreign.path().join("thesis.tex"), "text")?;
    let empty = tempfile::tempdir()?;
    let path = |folder: &tempfile::TempDir| folder.path().display().to_string();
    let (foreign_path, empty_path) = (path(&foreign), path(&empty));
    let origin = "http://127.0.0.1:9";
    let own = free_port()?.to_string();
    let file = foreign.path().join("thesis.tex");
    let (file_path, below) = (file.display().to_string(), file.join("kept").display().to_string());
    let itself = format!("http://{own}/films");
    for (arguments, words) in [
        (
            ["--cache", &empty_path, "--origin", &itself, "--listen", &own],
            "the origin is this cache itself; name the server behind it",
        ),
        (["--cache", &empty_path, "--origin", "https://host", "--listen", ":0"], "TLS"),
        (
            ["--cache", &foreign_path, "--origin", origin, "--listen", "127.0.0.1:0"],
            "is not a cache folder of wirepath relay",
        ),
        (
            ["--cache", &file_path, "--origin", origin, "--listen", "127.0.0.1:0"],
            "thesis.tex is not a folder; name a new or an empty folder",
        ),
        (
            ["--cache", &below, "--origin", origin, "--listen", "127.0.0.1:0"],
            "thesis.tex/kept: Not a directory",
        ),
        (
            ["--cache", &empty_path, "--origin", origin, "--listen", "127.0.0.1:99999"],
            "'--listen <ADDRESS>': invalid port 99999",
        ),
        (["--cache", &empty_path, "--origin", origin, "--listen", "unix:/run/a"], "not a Unix socket"),
        (["--cache", &empty_path, "--origin", origin, "--in", "-"], "cannot be used with"),
        (["--cache", &empty_path, "--origin", origin, "--handler", "meter"], "'--handler <HANDLER>'"),
        (["--cache", &empty_path, "--origin", origin, "--idle-timeout", "1m"], "'--idle-timeout <TIME>'"),
    ] {
        let output = Command::new(server::binary()?).arg("relay").args(arguments).output()?;
        let said = String::from_utf8(output.stderr)?;
        ensure!(!output.status.success() && said.contains(words), "{arguments:?}: {said}");
    }
    ensure!(names(foreign.path(), "")? == ["thesis.tex"]);
    for (clients, words) in [("0", "--max-clients"), ("18446744073709551615", "the limit of this process")] {
        let arguments =
            ["--cache", &empty_path, "--origin", origin, "--listen", ":0", "--max-clients", clients];
        let output = Command::new(server::binary()?).arg("relay").args(arguments).output()?;
        let said = String::from_utf8(output.stderr)?;
        ensure!(
            output.status.code().is_some_and(|code| code != 0) && said.contains(words),
            "{clients}: {said}"
        );
        ensure!(!said.contains("panicked"), "{clients}: {said}");
    }
    let nobody = Origin::start(|_, _| Ok(()))?;
    let first = Cache::start(&nobody, empty.path(), &[])?;
    let second = Cache::start(&nobody, empty.path(), &[]).err().context("two have one folder")?;
    ensure!(format!("{second:#}").contains("in use by another"), "{second:#}");
    drop(first);
    Cache::start(&nobody, empty.path(), &[]).map(drop)
}

/// Promise: A failed origin is reported, and stale responses are served if it allows that; a stalled origin
/// times out.
fn an_origin_that_stalls_is_given_up() -> Result<()> {
    // Each waits until the test is over.
    let (over, is_over) = channel::<()>();
    let is_over = Mutex::new(is_over);
    let origin = Origin::start(move |asked, connection| {
        let lines =
            if asked.target() == "/kept" { "Cache-Control: max-age=600" } else { "Cache-Control: no-store" };
        if asked.target() != "/silent" {
            write!(connection, "HTTP/1.1 200 OK\r\n{lines}\r\nContent-Length: 10\r\n\r\nbegin")?;
        }
        let ended = is_over.lock().expect("nothing panics holding it").recv();
        ensure!(ended.is_err(), "nothing is ever sent");
        Ok(())
    })?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &["--origin-timeout", "500ms"])?;
    for path in ["/kept", "/passed"] {
        Deadline::seconds(30.0).wait_for("an answer that is cut", || match cache.get(path) {
            Err(_) => Ok(Some(())),
            // On a busy machine already the head may have come too late.
            Ok(response) if response.status == 504 => Ok(None),
            Ok(response) => {
                anyhow::bail!("{path}: an answer that is not whole came to a good end: {response:?}")
            }
        })?;
    }
    let silent = cache.get("/silent")?;
    ensure!(
        silent.status == 504 && String::from_utf8_lossy(&silent.body).contains("timed out"),
        "{silent:?}"
    );
    Deadline::seconds(10.0)
        .wait_for("an empty cache", || Ok((names(folder.path(), "")? == ["CACHEDIR.TAG"]).then_some(())))?;
    Deadline::seconds(10.0).wait_for("the reason in the log", || {
        Ok(cache.process.log().contains("no data received for 500ms").then_some(()))
    })?;
    drop(over);
    Ok(())
}

/// Promise: The number of a cache's clients is limited.
fn clients_are_limited() -> Result<()> {
    let origin = Origin::start(|_, connection| answer(connection, "200 OK", "", b"body"))?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &["--max-clients", "1"])?;
    let mut first = http::connect(cache.address)?;
    let mut ask = || -> Result<u16> {
        first.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n")?;
        Ok(http::read_response(&mut first, &mut Vec::new(), false)?.status)
    };
    ensure!(ask()? == 200);
    // It may be closed before what was asked is read, and then is reset.
    let second = cache.get("/a").map(|response| response.status);
    ensure!(second.as_ref().map_or(true, |status| *status == 503), "{second:?}");
    ensure!(ask()? == 200 && origin.asked().len() == 2);
    drop(first);
    let report = cache.end()?;
    ensure!(report["refused"] == 1 && report["connections"] == 1, "{report}");
    Ok(())
}

/// Promise: Requests stay below the path of the origin.
fn requests_stay_within_the_path_of_the_origin() -> Result<()> {
    let origin = Origin::start(|_, connection| answer(connection, "200 OK", "", b"body"))?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::of(&format!("http://{}/public/", origin.address), folder.path(), &[])?;
    for path in ["/../secret", "/a/../../secret", "/.%2E/secret", "/..%2fsecret"] {
        let response = cache.get(path)?;
        ensure!(response.status == 400, "{path}: {response:?}");
    }
    ensure!(origin.asked().is_empty(), "{:?}", origin.asked());
    ensure!(cache.get("/a..b?c=../d")?.status == 200 && origin.count("/public/a..b?c=../d") == 1);
    Ok(())
}

/// Promise: A cache listens on IPv4 and IPv6; a port in use is an error.
fn it_listens_for_both_families_and_says_when_a_port_is_taken() -> Result<()> {
    let taken = TcpListener::bind("[::1]:0");
    require!(taken.is_ok(), "this system has no IPv6");
    let taken = taken?;
    let port = taken.local_addr()?.port();
    let origin = Origin::start(|_, connection| answer(connection, "200 OK", "", b"body"))?;
    let folder = tempfile::tempdir()?;
    let address = format!(":{port}");
    // Half of it would be free.
    let error = Cache::start(&origin, folder.path(), &["--listen", &address]).err().context("it listens")?;
    ensure!(format!("{error:#}").contains("cannot listen on"), "{error:#}");
    drop(taken);

    let mut command = Command::new(server::binary()?);
    command.args(["relay", "--origin", &format!("http://{}", origin.address), "--listen", ":0", "--cache"]);
    let mut process = Process::start(command.arg(folder.path()), false)?;
    let mut line = String::new();
    BufReader::new(process.take_stdout()?).read_line(&mut line)?;
    let port: u16 = line
        .trim_end()
        .strip_prefix("ready http=http://[::]:")
        .and_then(|rest| rest.strip_suffix('/'))
        .with_context(|| format!("it printed {line}"))?
        .parse()?;
    for address in [format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        ensure!(http::get(address.parse()?, "/a")?.status == 200, "{address}");
    }
    Ok(())
}
