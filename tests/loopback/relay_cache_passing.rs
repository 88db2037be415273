//! `wirepath relay --cache`: what passes through passes as it came.

use std::io::Write;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::http;
use wirepath_tests::origin::Origin;
use wirepath_tests::trials;

use super::relay_cache_rules::cache_of;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_connection_option_does_not_take_the_length_of_a_body_away,
        what_is_to_go_no_further_is_answered_here,
    ]
}

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
    ensure!(shown.starts_with("TRACE /a HTTP/1.1\r\n") && shown.contains("max-forwards: 0"), "{shown}");
    ensure!(ask("OPTIONS", "0")?.status == 204 && ask("OPTIONS", "some")?.status == 400);
    ensure!(origin.asked().is_empty(), "{:?}", origin.asked());
    for method in ["TRACE", "OPTIONS"] {
        ensure!(ask(method, "3")?.body == b"2", "{method} goes on with one hop less");
    }
    let report = cache.end()?;
    ensure!(report["hits"] == 2 && report["failed"] == 1 && report["passed"] == 2, "{report}");
    Ok(())
}
