//! Downloads, as HTTP clients ask for them.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::http::{self, Response};
use wirepath_tests::process::{Process, as_ordinary_user, find};
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, process, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_file_is_downloaded_whole,
        head_has_the_headers_only,
        ranges_are_cut_out,
        several_ranges_come_in_parts,
        conditions_are_honoured,
        other_methods_and_names_are_refused,
        requests_may_be_pipelined,
        curl_continues_a_download,
        wget_continues_a_download,
        a_folder_is_listed_as_the_client_likes,
        no_asset_hides_metrics_and_status,
        a_browser_seeks_in_an_mp4,
        ffmpeg_reads_over_http,
    ]
}

/// Promise: GET and HEAD answer with a file's bytes by `sendfile`, with keep-alive and pipelining.
fn a_file_is_downloaded_whole() -> Result<()> {
    let bed = TestBed::new()?;
    let answer = bed.get(&[])?;
    ensure!(answer.status == 200 && answer.body == bed.stored, "{} {}", answer.status, answer.body.len());
    ensure!(
        answer.header("accept-ranges") == Some("bytes")
            && answer.header("content-type") == Some("video/mp2t")
    );
    Ok(())
}

/// Promise: GET and HEAD answer with a file's bytes by `sendfile`, with keep-alive and pipelining.
fn head_has_the_headers_only() -> Result<()> {
    let bed = TestBed::new()?;
    let answer = http::request(bed.server.http, "HEAD", "/clip.ts", &[])?;
    let length = bed.stored.len().to_string();
    ensure!(answer.status == 200 && answer.header("content-length") == Some(&length), "{answer:?}");
    Ok(())
}

/// Promise: Ranges are answered with 206, unsatisfiable ranges with 416.
fn ranges_are_cut_out() -> Result<()> {
    let bed = TestBed::new()?;
    let length = bed.stored.len();
    let last = format!("bytes=-{}", length + 5);
    let cases =
        [("bytes=0-0", 0..1), ("bytes=188-375", 188..376), ("bytes=1000-", 1000..length), (&last, 0..length)];
    for (range, expected) in cases {
        let answer = bed.get(&[("Range", range)])?;
        ensure!(
            answer.status == 206 && answer.body == bed.stored[expected.clone()],
            "{range}: {}",
            answer.status
        );
        let place = format!("bytes {}-{}/{length}", expected.start, expected.end - 1);
        ensure!(
            answer.header("content-range") == Some(&place),
            "{range}: {:?}",
            answer.header("content-range")
        );
    }
    let answer = bed.get(&[("Range", &format!("bytes={length}-"))])?;
    ensure!(
        answer.status == 416 && answer.header("content-range") == Some(&format!("bytes */{length}")),
        "{answer:?}"
    );
    // An invalid range is ignored (RFC 9110 section 14.2).
    ensure!(bed.get(&[("Range", "bytes=9-3")])?.status == 200);
    Ok(())
}

/// Promise: Ranges are answered with 206, unsatisfiable ranges with 416.
fn several_ranges_come_in_parts() -> Result<()> {
    let bed = TestBed::new()?;
    let answer = bed.get(&[("Range", "bytes=0-9,1000-1019")])?;
    let kind = answer.header("content-type").unwrap_or_default();
    let boundary = kind.split_once("boundary=").context("no boundary")?.1.trim_matches('"');
    ensure!(answer.status == 206 && kind.starts_with("multipart/byteranges"), "{} {kind}", answer.status);
    let contains = |part: &[u8]| answer.body.windows(part.len()).any(|window| window == part);
    ensure!(contains(&bed.stored[0..10]) && contains(&bed.stored[1000..1020]), "a part is missing");
    ensure!(answer.body.ends_with(format!("--{boundary}--\r\n").as_bytes()), "no closing boundary");
    Ok(())
}

/// Promise: ETag, Last-Modified, If-Range, If-None-Match and If-Modified-Since are honoured.
fn conditions_are_honoured() -> Result<()> {
    let bed = TestBed::new()?;
    let whole = http::request(bed.server.http, "HEAD", "/clip.ts", &[])?;
    let tag = whole.header("etag").context("no ETag")?;
    let date = whole.header("last-modified").context("no Last-Modified")?;
    let cases: [(u16, &[(&str, &str)]); 7] = [
        (304, &[("If-None-Match", tag)]),
        (200, &[("If-None-Match", "\"other\"")]),
        (304, &[("If-Modified-Since", date)]),
        (200, &[("If-Modified-Since", "Thu, 01 Jan 1970 00:00:00 GMT")]),
        (206, &[("If-Range", tag), ("Range", "bytes=0-9")]),
        (200, &[("If-Range", "\"other\""), ("Range", "bytes=0-9")]),
        (412, &[("If-Match", "\"other\"")]),
    ];
    for (expected, headers) in cases {
        let answer = bed.get(headers)?;
        ensure!(answer.status == expected, "{headers:?}: {} instead of {expected}", answer.status);
    }
    Ok(())
}

/// Promise: Files outside the served folders are unreachable, whatever the path or symlink.
fn other_methods_and_names_are_refused() -> Result<()> {
    let bed = TestBed::new()?;
    let answer = http::request(bed.server.http, "DELETE", "/clip.ts", &[])?;
    ensure!(answer.status == 405 && answer.header("allow").is_some(), "{answer:?}");
    std::os::unix::fs::symlink("/etc/passwd", bed.folder.path().join("link.ts"))?;
    for path in
        ["/gone.ts", "/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/link.ts", "/clip.ts/x", "/a%00b"]
    {
        let answer = http::get(bed.server.http, path)?;
        ensure!([400, 403, 404].contains(&answer.status), "{path}: {}", answer.status);
    }
    Ok(())
}

/// Promise: GET and HEAD answer with a file's bytes by `sendfile`, with keep-alive and pipelining.
fn requests_may_be_pipelined() -> Result<()> {
    use std::io::Write;
    let bed = TestBed::new()?;
    let mut stream = http::connect(bed.server.http)?;
    for range in ["0-99", "100-199", "200-299"] {
        write!(stream, "GET /clip.ts HTTP/1.1\r\nHost: a\r\nRange: bytes={range}\r\n\r\n")?;
    }
    let mut buffer = Vec::new();
    for part in 0..3 {
        let answer = http::read_response(&mut stream, &mut buffer, false)?;
        ensure!(answer.body == bed.stored[part * 100..][..100], "answer {part}: {}", answer.status);
    }
    Ok(())
}

/// Promise: `curl -C -` and `wget -c` continue a download.
fn curl_continues_a_download() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let bed = TestBed::new()?;
    let (output, url) = (bed.half("out.ts")?, bed.server.http_url("clip.ts"));
    let mut command = Command::new("curl");
    Process::start(command.args(["-sSf", "-C", "-", "-o"]).arg(&output).arg(url), true)?
        .succeed(Deadline::seconds(20.0))?;
    ensure!(std::fs::read(output)? == bed.stored, "the file differs");
    Ok(())
}

/// Promise: `curl -C -` and `wget -c` continue a download.
fn wget_continues_a_download() -> Result<()> {
    require!(find("wget").is_some(), "wget is not installed");
    let bed = TestBed::new()?;
    let (output, url) = (bed.half("clip.ts")?, bed.server.http_url("clip.ts"));
    let mut command = Command::new("wget");
    command.args(["-nv", "-c", &url]).current_dir(output.parent().context("a folder")?);
    Process::start(&command, true)?.succeed(Deadline::seconds(20.0))?;
    ensure!(std::fs::read(output)? == bed.stored, "the file differs");
    Ok(())
}

/// Promise: A folder is listed as text, HTML or JSON, by the client's Accept field.
fn a_folder_is_listed_as_the_client_likes() -> Result<()> {
    let bed = TestBed::new()?;
    let ask = |accept| http::request(bed.server.http, "GET", "/", &[("Accept", accept)]);
    let (html, json) = (ask("text/html")?, ask("application/json")?);
    ensure!(html.header("content-type").is_some_and(|kind| kind.starts_with("text/html")), "{html:?}");
    ensure!(String::from_utf8_lossy(&html.body).contains("href=\"clip.ts\""), "no link to the clip");
    let listing: serde_json::Value = serde_json::from_slice(&json.body)?;
    ensure!(listing.to_string().contains("clip.ts"), "{listing}");
    Ok(())
}

/// Promise: `/metrics` and `/api/status` respond even if assets have these names.
fn no_asset_hides_metrics_and_status() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder = clips::folder(&[("metrics", &clip), ("api/status", &clip)])?;
    let server = Server::of(folder.path()).start()?;
    ensure!(server.status()?.is_object());
    let metrics = http::get(server.http, "/metrics")?;
    let text = String::from_utf8(metrics.body).context("/metrics is not text")?;
    ensure!(metrics.status == 200 && text.contains("# TYPE wirepath_"), "{text}");
    Ok(())
}

/// Promise: A browser seeks in an MP4 file.
///
/// A page with a video element that jumps to second 5 and reports to a listener of the test's own where it
/// came to.
fn a_browser_seeks_in_an_mp4() -> Result<()> {
    require!(find("chromium").is_some(), "chromium is not installed");
    let folder = clips::folder(&[("clip.mp4", &clips::mp4(8)?)])?;
    let reports = std::net::TcpListener::bind("127.0.0.1:0")?;
    let report = format!("(what) => {{ new Image().src = 'http://{}/' + what }}", reports.local_addr()?);
    let page = format!(
        "<video id=v muted src=clip.mp4></video><script>const report = {report};\
         v.onloadedmetadata = () => {{ v.currentTime = 5 }};\
         v.onseeked = () => report('came-to-' + v.currentTime);\
         v.onerror = () => report('error-' + encodeURIComponent(v.error.message));</script>"
    );
    std::fs::write(folder.path().join("page.html"), page)?;
    let server = Server::of(folder.path()).start()?;
    let home = process::open_folder()?;
    let mut command = as_ordinary_user("chromium", home.path());
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    command.args(["--remote-debugging-port=0", &server.http_url("page.html")]);
    let chromium = Process::start(&command, true)?;
    let request = first_line(&reports, Deadline::seconds(60.0)).with_context(|| chromium.log())?;
    ensure!(request.starts_with("GET /came-to-5 "), "{request}");
    Ok(())
}

/// The first line that the first connection sends.
fn first_line(listener: &std::net::TcpListener, deadline: Deadline) -> Result<String> {
    use std::io::{BufRead, BufReader};
    listener.set_nonblocking(true)?;
    let (stream, _) = deadline.wait_for("a report of the page", || match listener.accept() {
        Ok(connection) => Ok(Some(connection)),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error.into()),
    })?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(std::time::Duration::from_secs(5)))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line)
}

fn ffmpeg_reads_over_http() -> Result<()> {
    require!(find("ffprobe").is_some(), "ffprobe is not installed");
    let folder = clips::folder(&[("clip.mp4", &clips::mp4(8)?)])?;
    let server = Server::of(folder.path()).start()?;
    let url = server.http_url("clip.mp4");
    let select = [
        "-v",
        "error",
        "-count_packets",
        "-select_streams",
        "v:0",
        "-show_entries",
        "stream=nb_read_packets",
    ];
    let arguments = select.iter().chain(&["-of", "csv=p=0"]).copied().chain([url.as_str()]);
    let pictures = process::run("ffprobe", arguments, 20.0)?;
    ensure!(pictures.trim().trim_end_matches(',') == "200", "{pictures} pictures");
    Ok(())
}

struct TestBed {
    server: Server,
    folder: tempfile::TempDir,
    stored: Vec<u8>,
    downloads: tempfile::TempDir,
}

impl TestBed {
    fn new() -> Result<Self> {
        let clip = clips::constant(6)?;
        let folder = clips::folder(&[("clip.ts", &clip)])?;
        let server = Server::of(folder.path()).start()?;
        Ok(Self { server, folder, stored: std::fs::read(&clip)?, downloads: process::open_folder()? })
    }

    fn get(&self, headers: &[(&str, &str)]) -> Result<Response> {
        http::request(self.server.http, "GET", "/clip.ts", headers)
    }

    /// A file with the first half of the clip in it, as a download that was interrupted.
    fn half(&self, name: &str) -> Result<std::path::PathBuf> {
        let file = self.downloads.path().join(name);
        std::fs::write(&file, &self.stored[..self.stored.len() / 2])?;
        Ok(file)
    }
}
