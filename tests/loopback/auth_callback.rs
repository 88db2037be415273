//! The authentication callback: services that allow, refuse, hang, fail and are not there.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use tempfile::TempDir;
use wirepath_tests::http::{self, Response};
use wirepath_tests::movie::Movie;
use wirepath_tests::origin::{self, Asked, Origin};
use wirepath_tests::process::{find, open_folder};
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::{Server, binary};
use wirepath_tests::tls::Certificate;
use wirepath_tests::{Deadline, clients, clips, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        the_service_decides_for_both_protocols,
        a_thousand_range_requests_ask_once,
        failures_of_the_service_are_told_apart,
        a_service_that_hangs_disturbs_nobody_else,
        credentials_go_to_the_service_over_tls_only,
        guesses_through_the_service_are_slowed,
        users_of_the_file_are_not_asked_about,
        services_over_tls_need_a_trusted_certificate,
        wrong_options_are_refused,
    ]
}

/// A folder with clips, and its server, which asks a service.
struct TestBed {
    server: Server,
    _folder: TempDir,
}

impl TestBed {
    fn with(service: &str, arguments: &[&str]) -> Result<TestBed> {
        TestBed::under(&[], service, arguments)
    }

    fn under(command: &[&str], service: &str, arguments: &[&str]) -> Result<TestBed> {
        let folder = clips::folder(&[("clip.ts", &clips::constant(2)?), ("film.mp4", &clips::mp4(4)?)])?;
        std::fs::create_dir(folder.path().join("open"))?;
        std::fs::copy(folder.path().join("clip.ts"), folder.path().join("open/clip.ts"))?;
        let service = format!("--auth-url={service}");
        let fixed = [service.as_str(), "--status-users=-", "--folder-users=open=-"];
        let server = Server::of(folder.path()).under(command).with(fixed).with(arguments).start()?;
        Ok(TestBed { server, _folder: folder })
    }

    fn get(&self, path: &str) -> Result<Response> {
        http::get(self.server.http, path)
    }

    /// Counters of authentication.
    fn counters(&self) -> Result<Value> {
        Ok(self.server.status()?["counters"]["auth"].clone())
    }
}

fn url(service: &Origin) -> String {
    // By its name: a confined server still finds it.
    format!("http://localhost:{}/auth?secret=s", service.address.port())
}

/// A service that answers with the status that the query of a request asks for.
fn obedient() -> Result<Origin> {
    Origin::start(|asked, connection| {
        let question: Value = serde_json::from_slice(&asked.body)?;
        let query = question["query"].as_str().context("no query")?;
        let status = query.strip_prefix("answer=").unwrap_or("401 Unauthorized").replace('+', " ");
        origin::answer(connection, &status, "", b"why")
    })
}

fn question(asked: &Asked) -> Result<Value> {
    Ok(serde_json::from_slice(&asked.body)?)
}

/// Promise: The callback, with the fields of MediaMTX's `authHTTPAddress`, allows by 2xx and refuses by 401
/// and 403.
fn the_service_decides_for_both_protocols() -> Result<()> {
    let service = obedient()?;
    let bed = TestBed::with(&url(&service), &[])?;
    let clip = std::fs::read(clips::constant(2)?)?;
    ensure!(bed.get("/clip.ts?answer=200")?.body == clip && bed.get("/clip.ts?answer=204")?.body == clip);
    ensure!(bed.get("/none.ts?answer=200")?.status == 404);
    for path in ["/clip.ts", "/clip.ts?answer=401", "/clip.ts?answer=403", "/none.ts", "/"] {
        let response = bed.get(path)?;
        ensure!(response.status == 403 && response.header("www-authenticate").is_none(), "{response:?}");
    }
    ensure!(bed.get("/open/clip.ts")?.body == clip, "a folder for everyone");
    let request = service.asked()[0].clone();
    ensure!(request.line == "POST /auth?secret=s HTTP/1.1", "{}", request.line);
    ensure!(request.header("content-type") == Some("application/json"), "{request:?}");
    let expected = json!({
        "user": "", "password": "", "token": "", "ip": "127.0.0.1", "action": "read", "path": "clip.ts",
        "protocol": "http", "id": null, "query": "answer=200", "userAgent": "",
    });
    ensure!(question(&request)? == expected, "{}", question(&request)?);

    let before = service.asked().len();
    let mut session = Movie::set_up(bed.server.rtsp, "film.mp4?answer=200")?;
    let asked = service.asked();
    // The tracks have no query of their own, and are the same question.
    ensure!(asked.len() == before + 1, "{} questions", asked.len() - before);
    let told = question(&asked[before])?;
    ensure!((&told["path"], &told["protocol"]) == (&json!("film.mp4"), &json!("rtsp")), "{told}");
    session.play(None)?;
    session.to_the_end(Deadline::seconds(30.0))?;
    let mut client = Client::connect(bed.server.rtsp)?;
    for (path, status) in [("clip.ts", 403), ("clip.ts?answer=403", 403), ("open/clip.ts", 200)] {
        ensure!(client.request("DESCRIBE", &bed.server.rtsp_url(path), &[])?.status == status, "{path}");
    }
    let output = open_folder()?;
    let output = output.path().join("out.ts");
    clients::ffmpeg(&bed.server.rtsp_url("clip.ts?answer=200"), &output, 40.0)?;
    clients::gstreamer_over("tcp", &bed.server.rtsp_url("clip.ts?answer=200"), &output, 60.0)?;
    let status = bed.server.status()?;
    let shown = format!("http://localhost:{}/auth", service.address.port());
    ensure!(status["auth"]["callback"] == shown.as_str(), "{}", status["auth"]);
    Ok(())
}

/// Promise: Equal requests of a client ask the callback only once while its answer is cached.
fn a_thousand_range_requests_ask_once() -> Result<()> {
    let service = obedient()?;
    let bed = TestBed::with(&url(&service), &["--auth-keep=1h"])?;
    let mut connection = http::connect(bed.server.http)?;
    let mut buffer = Vec::new();
    for number in 0..1000 {
        let request = format!(
            "GET /clip.ts?answer=200 HTTP/1.1\r\nHost: h\r\nRange: bytes={number}-{}\r\n\r\n",
            number + 9
        );
        connection.write_all(request.as_bytes())?;
        let response = http::read_response(&mut connection, &mut buffer, false)?;
        ensure!((response.status, response.body.len()) == (206, 10), "{response:?}");
    }
    ensure!(service.asked().len() == 1, "{} questions", service.asked().len());
    let counters = bed.counters()?;
    let results = (&counters["callbacks"]["allowed"], &counters["callbacks_saved"]);
    ensure!(results == (&json!(1), &json!(999)), "{counters}");
    Ok(())
}

/// Promise: If the callback is down or its answer is not a decision, clients get 503; failures are counted
/// and logged.
fn failures_of_the_service_are_told_apart() -> Result<()> {
    let answer = Arc::new(Mutex::new("500 Oh"));
    let told = Arc::clone(&answer);
    let service = Origin::start(move |_, connection| match *told.lock().expect("no panic") {
        "garbage" => Ok(connection.write_all(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")?),
        "reset" => bail!("reset"),
        "close" => Ok(()),
        "endless" => {
            connection.write_all(b"HTTP/1.1 200 OK\r\n")?;
            loop {
                connection.write_all(b"X: 0123456789012345678901234567890123456789\r\n")?;
            }
        }
        "long" => {
            connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")?;
            loop {
                connection.write_all(&[b'x'; 4096])?;
            }
        }
        status => origin::answer(connection, status, "Location: /elsewhere\r\n", b""),
    })?;
    let bed = TestBed::with(&url(&service), &[])?;
    for (status, counted) in [
        ("500 Oh", "status"),
        ("404 Not Found", "status"),
        ("302 Found", "status"),
        ("garbage", "error"),
        ("reset", "error"),
        ("close", "error"),
        ("endless", "error"),
    ] {
        *answer.lock().expect("no panic") = status;
        let before = bed.counters()?["callbacks"][counted].as_u64().context("no counter")?;
        let response = bed.get("/clip.ts")?;
        ensure!(response.status == 503 && response.header("retry-after").is_some(), "{status}: {response:?}");
        let counters = bed.counters()?;
        ensure!(counters["callbacks"][counted] == before + 1, "{status}: {counters}");
    }
    // The status decides; a body without end is not read.
    *answer.lock().expect("no panic") = "long";
    ensure!(bed.get("/clip.ts")?.status == 200);
    let log = bed.server.process.log();
    ensure!(log.contains("the authentication callback failed") && !log.contains("secret=s"), "{log}");
    let text = String::from_utf8(bed.get("/metrics")?.body)?;
    ensure!(text.contains("wirepath_auth_callback_seconds_count 8\n"), "{text}");

    let nobody = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let bed = TestBed::with(&format!("http://{nobody}/"), &[])?;
    let mut client = Client::connect(bed.server.rtsp)?;
    let response = client.request("DESCRIBE", &bed.server.rtsp_url("clip.ts"), &[])?;
    ensure!(response.status == 503 && response.header("retry-after").is_some(), "{response:?}");
    ensure!(bed.counters()?["failures"]["callback_failed"] == 1, "{}", bed.counters()?);
    ensure!(bed.server.process.log().contains("Connection refused"), "{}", bed.server.process.log());
    Ok(())
}

/// Address at which connections are taken, and never read.
fn silent() -> Result<(SocketAddr, TcpListener)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    Ok((listener.local_addr()?, listener))
}

/// Promise: While the callback hangs, other clients are served; waiting requests get 503 after
/// `--auth-timeout`.
fn a_service_that_hangs_disturbs_nobody_else() -> Result<()> {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    // Each connection is held until the test ends.
    let service = Origin::start(move |asked, connection| {
        if question(asked)?["path"] == "film.mp4" {
            return origin::answer(connection, "200 OK", "", b"");
        }
        _ = released.lock().expect("no panic").recv();
        Ok(())
    })?;
    let bed = TestBed::with(&url(&service), &["--auth-timeout=1h"])?;
    let mut session = Movie::set_up(bed.server.rtsp, "film.mp4")?;
    let ask = |number: u32| -> Result<TcpStream> {
        let mut connection = http::connect(bed.server.http)?;
        write!(connection, "GET /clip.ts?{number} HTTP/1.1\r\nHost: h\r\n\r\n")?;
        Ok(connection)
    };
    let mut held: Vec<_> = (0..100).map(ask).collect::<Result<_>>()?;
    Deadline::seconds(10.0)
        .wait_for("the service to hang", || Ok((service.asked().len() == 17).then_some(())))?;
    session.play(None)?;
    for _ in 0..10 {
        ensure!(bed.get("/open/clip.ts")?.status == 200 && bed.get("/api/status")?.status == 200);
        Client::connect(bed.server.rtsp)?.succeed("DESCRIBE", &bed.server.rtsp_url("open/clip.ts"), &[])?;
    }
    session.to_the_end(Deadline::seconds(30.0))?;
    // Others wait for those that are asked about, sixteen at once and one before, or were too many of one address.
    Deadline::seconds(10.0).wait_for("requests beyond the limit", || {
        Ok((bed.counters()?["callbacks"]["limit"] == 36).then_some(()))
    })?;
    ensure!(service.asked().len() == 17, "{} questions", service.asked().len());
    drop(release);
    for connection in &mut held {
        let response = http::read_response(connection, &mut Vec::new(), false)?;
        ensure!(response.status == 503, "{response:?}");
    }
    let counters = bed.counters()?;
    let counted = (&counters["callbacks"]["error"], &counters["callbacks"]["limit"]);
    ensure!(counted == (&json!(64), &json!(36)), "{counters}");

    let (address, _listener) = silent()?;
    let bed = TestBed::with(&format!("http://{address}/"), &["--auth-timeout=200ms"])?;
    let response = bed.get("/clip.ts")?;
    ensure!(response.status == 503 && response.header("retry-after").is_some(), "{response:?}");
    ensure!(bed.counters()?["callbacks"]["timeout"] == 1, "{}", bed.counters()?);
    Ok(())
}

/// Promise: The callback gets passwords and tokens only of requests over TLS; there a 401 of the callback
/// offers Basic.
fn credentials_go_to_the_service_over_tls_only() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let service = Origin::start(|asked, connection| {
        let question = question(asked)?;
        let is_anna = (&question["user"], &question["password"]) == (&json!("anna"), &json!("s:cret"));
        let is_right = is_anna || question["token"] == "right";
        origin::answer(connection, if is_right { "200 OK" } else { "401 Unauthorized" }, "", b"")
    })?;
    let certificate = Certificate::new()?;
    let arguments = certificate.arguments();
    let bed = TestBed::with(&url(&service), &arguments.each_ref().map(String::as_str))?;
    let https = format!("https://{}/clip.ts", bed.server.https.context("no https")?);
    let curl = |arguments: &[&str], url: &str| -> Result<(String, String)> {
        let mut command = Command::new("curl");
        command.args(["-s", "--max-time", "20", "-o", "/dev/null", "-D", "-", "-w", "status %{http_code}"]);
        command.args(arguments).arg("--cacert").arg(certificate.file()).arg(url);
        let text = String::from_utf8(command.output()?.stdout)?;
        let status = text.rsplit_once("status ").context("no status")?.1.to_owned();
        Ok((status, text.to_lowercase()))
    };
    let (status, head) = curl(&[], &https)?;
    ensure!(status == "401" && head.contains("www-authenticate: basic realm=\"wirepath\""), "{head}");
    ensure!(curl(&["-u", "anna:s:cret"], &https)?.0 == "200");
    ensure!(curl(&["-u", "anna:wrong"], &https)?.0 == "401");
    ensure!(curl(&["-H", "Authorization: Bearer right"], &https)?.0 == "200");
    let http = bed.server.http_url("clip.ts");
    let (status, head) = curl(&["-u", "anna:s:cret"], &http)?;
    ensure!(status == "403" && !head.contains("www-authenticate"), "{head}");
    ensure!(curl(&["-H", "Authorization: Bearer right"], &http)?.0 == "403");
    let counters = bed.counters()?;
    ensure!(counters["failures"]["wrong_password"] == 1, "{counters}");
    ensure!(!bed.server.process.log().contains("cret"), "a password is in the log");
    Ok(())
}

/// Promise: Wrong passwords and tokens that the callback refuses are slowed and counted as those of Digest are.
fn guesses_through_the_service_are_slowed() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let password = ("401 Unauthorized", "Basic YW5uYTpndWVzcw==", "wrong_password"); // anna:guess
    for (refusal, guess, counter) in [password, ("403 Forbidden", "Bearer guess", "callback")] {
        let service = Origin::start(move |_, connection| origin::answer(connection, refusal, "", b""))?;
        let certificate = Certificate::new()?;
        let arguments = certificate.arguments();
        let bed = TestBed::with(&url(&service), &arguments.each_ref().map(String::as_str))?;
        let https = format!("https://{}/clip.ts", bed.server.https.context("no https")?);
        let guess_at = |path: &str| -> Result<String> {
            let mut command = Command::new("curl");
            // Answers are held back for up to 5 s, while the debt falls: who guesses does not wait for them.
            command.args(["-s", "--max-time", "3", "-o", "/dev/null", "-w", "%{http_code} ", "--parallel"]);
            command
                .args(["--parallel-immediate", "--parallel-max", "40", "--cacert"])
                .arg(certificate.file());
            command.args(["-H", &format!("Authorization: {guess}")]).arg(format!("{https}{path}"));
            Ok(String::from_utf8(command.output()?.stdout)?)
        };
        // Either all are looked at together, and the debt is 40 then, or the later ones are refused already.
        let answers = guess_at("?[1-40]")? + &guess_at("")?;
        ensure!(answers.contains("429 "), "{answers}");
        let failures = bed.counters()?["failures"].clone();
        ensure!(
            failures[counter].as_u64() >= Some(10) && failures["slowed"].as_u64() >= Some(1),
            "{failures}"
        );
    }
    Ok(())
}

/// Promise: With --users, the callback is not asked about users of the file, and its 401 becomes a challenge.
fn users_of_the_file_are_not_asked_about() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let service = obedient()?;
    let users = tempfile::NamedTempFile::new()?;
    std::fs::write(users.path(), wirepath_auth::with_password("", "home", "anna", "secret")?)?;
    let bed = TestBed::with(&url(&service), &[&format!("--users={}", users.path().display())])?;
    let challenged = bed.get("/clip.ts")?;
    ensure!(challenged.status == 401 && challenged.header("www-authenticate").is_some(), "{challenged:?}");
    ensure!(bed.get("/clip.ts?answer=403")?.status == 403 && bed.get("/clip.ts?answer=200")?.status == 200);
    let asked = service.asked().len();
    let mut command = Command::new("curl");
    command.args([
        "-sSf",
        "--max-time",
        "20",
        "--digest",
        "-u",
        "anna:secret",
        &bed.server.http_url("clip.ts"),
    ]);
    let output = command.output()?;
    ensure!(output.stdout == std::fs::read(clips::constant(2)?)?, "{output:?}");
    // The request without the answer to a challenge may be one more question.
    ensure!(service.asked().len() <= asked + 1, "{:?}", service.asked());
    let output = open_folder()?;
    let url = format!("rtsp://anna:secret@{}/clip.ts", bed.server.rtsp);
    clients::ffmpeg(&url, &output.path().join("out.ts"), 20.0)?;
    Ok(())
}

/// Promise: A callback over TLS is asked only if the machine trusts its certificate; otherwise it fails.
fn services_over_tls_need_a_trusted_certificate() -> Result<()> {
    let certificate = Certificate::of_server()?;
    let folder = tempfile::tempdir()?;
    // A server that answers POST with 405: a status that decides nothing, but came through TLS.
    let service = Server::of(folder.path()).with(certificate.arguments()).start()?;
    let url = format!("https://{}/", service.https.context("no https")?);
    let trust = format!("SSL_CERT_FILE={}", certificate.file().display());
    for (command, counted) in [(&["env", trust.as_str()][..], "status"), (&[], "error")] {
        let bed = TestBed::under(command, &url, &[])?;
        ensure!(bed.get("/clip.ts")?.status == 503);
        let counters = bed.counters()?;
        ensure!(counters["callbacks"][counted] == 1, "{counters}: {}", bed.server.process.log());
    }
    Ok(())
}

/// Promise: Contradictory or invalid options of the callback are refused at the start.
fn wrong_options_are_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for (arguments, words) in [
        (&["--auth-url=127.0.0.1:9000"][..], "expected a URL, such as http://127.0.0.1:9000/auth"),
        (&["--auth-url=http://a:b@c/"], "give the service a secret in the query"),
        (&["--auth-timeout=1s"], "add --auth-url URL"),
        (&["--auth-keep=1s"], "add --auth-url URL"),
        (&["--auth-url=http://c/", "--auth-timeout=0s"], "expected a time above 0"),
        (&["--auth-url=http://c/", "--folder-users=a=anna"], "need users: add --users FILE"),
    ] {
        let mut command = Command::new(binary()?);
        command.arg("serve").arg(folder.path()).args(["--rtsp=127.0.0.1:0", "--http=127.0.0.1:0"]);
        let output = command.arg("--cache").arg(folder.path().join("cache")).args(arguments).output()?;
        let log = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && log.contains(words), "{arguments:?}: {log}");
    }
    Ok(())
}
