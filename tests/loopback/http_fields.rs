//! Fields of HTTP responses that the operator asks for: CORS, `Cache-Control` by folder, downloads.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use wirepath_tests::http::{self, Response};
use wirepath_tests::process::{find, open_folder};
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        pages_of_allowed_origins_read_responses,
        pages_of_all_origins_read_responses,
        files_are_cached_as_their_folder_says,
        options_for_nothing_are_told,
        an_origin_may_have_its_default_port,
        curl_stores_a_download_under_its_name,
        curl_stores_files_of_a_folder_under_their_names,
        prepared_responses_have_the_disposition_of_their_folder,
        prepared_responses_are_like_others,
    ]
}

/// Bytes of the files: sent with the head, by an HTTP thread, and by the engine.
const SIZES: [usize; 3] = [1000, 100_000, 3_000_000];

/// Serves `small`, `medium` and `large`, and `live/small`.
fn serve(options: &[&str]) -> Result<(Server, TempDir)> {
    let folder = tempfile::tempdir()?;
    for (name, size) in ["small", "medium", "large"].into_iter().zip(SIZES) {
        std::fs::write(folder.path().join(name), vec![b'x'; size])?;
    }
    std::fs::create_dir(folder.path().join("live"))?;
    std::fs::write(folder.path().join("live/small"), "x")?;
    let server = Server::of(folder.path()).with(options).start()?;
    Ok((server, folder))
}

fn asks(server: &Server, method: &str, path: &str, origin: &str, more: &[(&str, &str)]) -> Result<Response> {
    http::request(server.http, method, path, &[&[("Origin", origin)], more].concat())
}

/// Promise: With --cors only pages of the listed origins can read responses of every kind.
fn pages_of_allowed_origins_read_responses() -> Result<()> {
    let (server, _folder) = serve(&["--cors", "https://a.example", "--cors", "http://localhost:3000"])?;
    let range = [("Range", "bytes=5-9")];
    let beyond = [("Range", "bytes=9999999-")];
    for path in ["/small", "/medium", "/large"] {
        for (more, status) in [(&[][..], 200), (&range, 206), (&beyond, 416)] {
            // Twice: the second time small files are open already.
            for origin in ["https://a.example", "http://localhost:3000"] {
                let response = asks(&server, "GET", path, origin, more)?;
                ensure!(response.status == status, "{path}: {}", response.status);
                ensure!(response.header("access-control-allow-origin") == Some(origin), "{path} {status}");
                ensure!(response.header("vary") == Some("Origin"));
                let exposed = response.header("access-control-expose-headers").context("exposed fields")?;
                ensure!(exposed.contains("Content-Range") && exposed.contains("Content-Length"), "{exposed}");
            }
        }
    }
    let missing = asks(&server, "GET", "/nothing", "https://a.example", &[])?;
    ensure!(missing.status == 404 && missing.header("access-control-allow-origin").is_some());
    let preflight = [("Access-Control-Request-Method", "GET"), ("Access-Control-Request-Headers", "range")];
    let answer = asks(&server, "OPTIONS", "/large", "https://a.example", &preflight)?;
    ensure!(answer.status == 204 && answer.header("access-control-allow-methods") == Some("GET, HEAD"));
    ensure!(answer.header("access-control-allow-headers").is_some_and(|names| names.contains("Range")));
    for other in ["https://b.example", "https://a.example.org", "null"] {
        let response = asks(&server, "GET", "/small", other, &[])?;
        ensure!(
            response.status == 200 && response.header("access-control-allow-origin").is_none(),
            "{other}"
        );
        ensure!(response.header("vary") == Some("Origin"), "caches must tell origins apart");
    }
    Ok(())
}

/// Promise: `--cors '*'` lets pages of all origins read files but no status; without --cors, other origins
/// read nothing.
fn pages_of_all_origins_read_responses() -> Result<()> {
    let (server, _folder) = serve(&["--cors", "*"])?;
    let response = asks(&server, "GET", "/small", "https://b.example", &[])?;
    ensure!(response.header("access-control-allow-origin") == Some("*"));
    ensure!(response.header("vary").is_none());
    for path in ["/api/status", "/metrics", "/status"] {
        let response = asks(&server, "GET", path, "https://b.example", &[])?;
        ensure!(response.status == 200 && response.header("access-control-allow-origin").is_none(), "{path}");
    }
    let (server, _folder) = serve(&[])?;
    let response = asks(&server, "GET", "/small", "https://b.example", &[])?;
    ensure!(response.status == 200 && response.header("access-control-allow-origin").is_none());
    Ok(())
}

/// Promise: `Cache-Control` is that of the innermost folder, for whole files, ranges and conditional
/// requests.
fn files_are_cached_as_their_folder_says() -> Result<()> {
    let rules = ["--folder-cache-control", "=max-age=3600", "--folder-cache-control", "live=no-store"];
    let (server, _folder) = serve(&rules)?;
    for (path, expected) in
        [("/small", "max-age=3600"), ("/large", "max-age=3600"), ("/live/small", "no-store")]
    {
        let whole = http::get(server.http, path)?;
        ensure!(whole.header("cache-control") == Some(expected), "{path}: {whole:?}");
        let tag = whole.header("etag").context("a tag")?.to_owned();
        for (field, value, status) in [("Range", "bytes=0-0", 206), ("If-None-Match", tag.as_str(), 304)] {
            let response = http::request(server.http, "GET", path, &[(field, value)])?;
            ensure!(
                response.status == status && response.header("cache-control") == Some(expected),
                "{path}"
            );
        }
    }
    ensure!(http::get(server.http, "/nothing")?.header("cache-control").is_none());
    Ok(())
}

/// Promise: Prepared responses have the same header fields as others: CORS, `Cache-Control`, tag, date,
/// connection.
fn prepared_responses_are_like_others() -> Result<()> {
    let options = ["--cors", "https://a.example", "--folder-cache-control", "live=no-store"];
    let (server, folder) = serve(&options)?;
    Deadline::seconds(10.0).wait_for("timestamps that show the next change", || {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let changed_s = std::fs::metadata(folder.path().join("live/small"))?.ctime();
        Ok((changed_s + 3 <= now_s as i64).then_some(()))
    })?;
    let mut connection = http::connect(server.http)?;
    let mut buffer = Vec::new();
    let mut ask = |method: &str, fields: &str| {
        write!(connection, "{method} /live/small HTTP/1.1\r\nHost: h\r\n{fields}\r\n")?;
        let mut response = http::read_response(&mut connection, &mut buffer, method == "HEAD")?;
        response.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("date"));
        anyhow::Ok(response)
    };
    ask("GET", "")?;
    let others =
        ["", "Origin: https://a.example\r\n", "Origin: https://b.example\r\n", "Connection: close\r\n"];
    for fields in others {
        let others_close = fields.starts_with("Connection");
        let made = if others_close { ask("HEAD", "")? } else { ask("HEAD", fields)? };
        let mut prepared = ask("GET", fields)?;
        ensure!(prepared.status == 200 && prepared.body == b"x", "{prepared:?}");
        if others_close {
            ensure!(prepared.header("connection") == Some("close"));
            prepared.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("connection"));
        }
        ensure!(made.headers == prepared.headers, "{made:?} and {prepared:?}");
    }
    ensure!(http::get(server.http, "/live/small")?.header("cache-control") == Some("no-store"));
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", server.process.pid()))?;
    ensure!(maps.contains("live/small"), "no response was prepared");
    Ok(())
}

/// Promise: `?download` makes clients save a file under its name, whatever characters the name has.
fn curl_stores_a_download_under_its_name() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let (server, folder) = serve(&[])?;
    std::fs::write(folder.path().join("Fu\u{df}ball 1.ts"), "goal")?;
    let url = server.http_url("Fu%C3%9Fball%201.ts?download");
    let stored = open_folder()?;
    let mut curl = Command::new("curl");
    curl.args(["-sSfOJ", "--max-time", "20", "--output-dir"]).arg(stored.path()).arg(&url);
    let output = curl.output().context("curl")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // curl takes the name in ASCII.
    ensure!(std::fs::read(stored.path().join("Fu_ball 1.ts"))? == b"goal");
    let response = http::get(server.http, "/Fu%C3%9Fball%201.ts?download=1")?;
    let expected = "attachment; filename=\"Fu_ball 1.ts\"; filename*=UTF-8''Fu%C3%9Fball%201.ts";
    ensure!(response.header("content-disposition") == Some(expected), "{response:?}");
    ensure!(http::get(server.http, "/small")?.header("content-disposition").is_none());
    ensure!(http::get(server.http, "/nothing?download")?.header("content-disposition").is_none());
    Ok(())
}

/// Promise: `--folder-content-disposition` makes clients store a folder's files under their names; the innermost
/// folder decides.
fn curl_stores_files_of_a_folder_under_their_names() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let rules =
        ["--folder-content-disposition=live=attachment", "--folder-content-disposition=live/web=inline"];
    let (server, folder) = serve(&rules)?;
    let live = folder.path().join("live");
    std::fs::create_dir(live.join("web"))?;
    std::fs::write(live.join("web/page"), "page")?;
    // URL, name that curl stores, and the field.
    let attachments = [
        ("goal 1.ts", "goal 1.ts", "attachment; filename=\"goal 1.ts\""),
        (
            "Fu\u{df}ball.ts",
            "Fu_ball.ts",
            "attachment; filename=\"Fu_ball.ts\"; filename*=UTF-8''Fu%C3%9Fball.ts",
        ),
        (
            "a\"; filename=\"b\r\nX: y",
            "a_; filename=_b__X: y",
            "attachment; filename=\"a_; filename=_b__X: y\"; \
             filename*=UTF-8''a%22%3B%20filename%3D%22b%0D%0AX%3A%20y",
        ),
    ];
    for (name, stored_as, field) in attachments {
        std::fs::write(live.join(name), name)?;
        let path = format!("live/{}", encoded(name));
        let response = http::get(server.http, &format!("/{path}"))?;
        ensure!(response.header("content-disposition") == Some(field), "{response:?}");
        ensure!(response.header("x").is_none(), "{response:?}");
        let stored = open_folder()?;
        let mut curl = Command::new("curl");
        curl.args(["-sSfOJ", "--max-time", "20", "--output-dir"]).arg(stored.path());
        let output = curl.arg(server.http_url(&path)).output().context("curl")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let names: Vec<_> = std::fs::read_dir(stored.path())?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<Result<_, _>>()?;
        ensure!(names == [stored_as], "{name:?} is stored as {names:?}");
        ensure!(std::fs::read(stored.path().join(stored_as))? == name.as_bytes());
    }
    for (path, status, expected) in [
        ("/small", 200, None),
        ("/live/", 200, None),
        ("/live/missing", 404, None),
        ("/live/web/page", 200, Some("inline")),
        ("/live/web/page?download", 200, Some("attachment; filename=\"page\"")),
    ] {
        let response = http::get(server.http, path)?;
        ensure!(response.status == status, "{path}: {}", response.status);
        ensure!(response.header("content-disposition") == expected, "{path}: {response:?}");
    }
    let part = http::request(server.http, "GET", "/live/small", &[("Range", "bytes=0-0")])?;
    let expected = Some("attachment; filename=\"small\"");
    ensure!(part.status == 206 && part.header("content-disposition") == expected, "{part:?}");
    Ok(())
}

/// A name in a URL.
fn encoded(name: &str) -> String {
    name.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn prepared_responses_have_the_disposition_of_their_folder() -> Result<()> {
    let (server, folder) = serve(&["--folder-content-disposition=live=attachment"])?;
    Deadline::seconds(10.0).wait_for("timestamps that show the next change", || {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let changed_s = std::fs::metadata(folder.path().join("live/small"))?.ctime();
        Ok((changed_s + 3 <= now_s as i64).then_some(()))
    })?;
    for _ in 0..3 {
        let response = http::get(server.http, "/live/small")?;
        let disposition = response.header("content-disposition");
        ensure!(disposition == Some("attachment; filename=\"small\""), "{response:?}");
    }
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", server.process.pid()))?;
    ensure!(maps.contains("live/small"), "no response was prepared");
    Ok(())
}

/// Promise: The log warns at the start if a rule for folders, as `--folder-cache-control`, names a path that is not
/// served.
fn options_for_nothing_are_told() -> Result<()> {
    let fields = ["=max-age=60", "live/small=no-store", "life=no-store"];
    let dispositions =
        ["--folder-content-disposition=live=inline", "--folder-content-disposition=none=inline"];
    let bursts = ["=50ms", "live=20ms", "large.ts=20ms"];
    let fields = fields.map(|field| format!("--folder-cache-control={field}"));
    let bursts = bursts.map(|burst| format!("--folder-burst-max={burst}"));
    let options = fields.iter().chain(&bursts).map(String::as_str);
    let options: Vec<&str> = options.chain(dispositions).collect();
    let (server, _folder) = serve(&options)?;
    let log = server.process.log();
    let told: Vec<&str> =
        log.lines().filter(|line| line.contains("names a path that is not served")).collect();
    let expected = [
        ("--folder-cache-control", "life"),
        ("--folder-content-disposition", "none"),
        ("--folder-burst-max", "large.ts"),
    ];
    ensure!(told.len() == 3, "{log}");
    for (line, (option, path)) in told.iter().zip(expected) {
        ensure!(line.contains(option) && line.contains(path), "{line}");
    }
    Ok(())
}

/// Promise: An origin of --cors may have the default port of its scheme, which browsers leave out.
fn an_origin_may_have_its_default_port() -> Result<()> {
    let (server, _folder) = serve(&["--cors=https://a.example:443"])?;
    let response = asks(&server, "GET", "/small", "https://a.example", &[])?;
    let allowed = response.header("access-control-allow-origin");
    ensure!(allowed == Some("https://a.example"), "{allowed:?}");
    Ok(())
}
