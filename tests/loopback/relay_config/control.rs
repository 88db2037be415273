//! Control of handlers while their streams run.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::Value;
use wirepath_tests::process::{find, run};
use wirepath_tests::{Deadline, bpf, http, require, trials};

use super::{COPY, Folder, Watched};
use crate::relay::wait_for;

pub(super) fn trials() -> Vec<Trial> {
    trials![
        handlers_are_controlled_replaced_removed_and_added_while_the_stream_runs,
        a_change_that_waits_is_shown,
        what_cannot_be_changed_is_refused_and_changes_nothing,
        handlers_of_files_are_those_of_the_handler_folder,
        a_handler_of_a_file_says_where_it_runs,
        a_handler_folder_that_cannot_be_used_is_refused,
        an_output_that_loses_trust_gets_filtered_records_from_the_next_one_on,
        options_are_listed_and_set_by_key_while_the_stream_runs,
    ]
}

const LINES: &str = "[[stream]]\nname = \"lines\"\nin = [\"unix:inlet?listen\"]\nframing = \"line\"\n\
    handlers = [\"begins:a\"]\noutput-handlers = [\"2:begins:ab\"]\nout = [\"file:one\", \"file:two\"]\n";

/// A relay of lines, and what sends them.
struct Lines {
    folder: Folder,
    relay: Watched,
    source: UnixStream,
    sent: usize,
}

impl Lines {
    fn start() -> Result<Lines> {
        Lines::within(Folder::new(LINES)?)
    }

    fn within(folder: Folder) -> Result<Lines> {
        let relay = Watched::start(&folder, &[])?;
        wait_for(&folder.path("inlet"))?;
        let source = UnixStream::connect(folder.path("inlet"))?;
        Ok(Lines { folder, relay, source, sent: 0 })
    }

    /// Sends lines, and checks all that the files have then.
    fn send(&mut self, lines: &str, one: &str, two: &str) -> Result<()> {
        self.source.write_all(lines.as_bytes())?;
        self.sent += lines.len();
        let files = || ["one", "two"].map(|name| std::fs::read_to_string(self.folder.path(name)));
        self.relay.wait_for("the lines", |streams| streams[0]["bytes_in"] == self.sent)?;
        Deadline::seconds(20.0).wait_for("the files", || {
            let [first, second] = files();
            Ok((first? == one && second? == two).then_some(()))
        })
    }

    fn request(&self, method: &str, path: &str, body: &str, more: &[&str]) -> Result<(u16, String)> {
        request(&self.relay, method, path, body, more)
    }
}

/// Status and body of the answer to a request, by curl.
fn request(relay: &Watched, method: &str, path: &str, body: &str, more: &[&str]) -> Result<(u16, String)> {
    let url = format!("http://{}{path}", relay.http);
    let arguments = ["-sS", "-X", method, "--data-binary", body, "-w", "\n%{http_code}", &url];
    let text = run("curl", arguments.iter().chain(more).copied(), 20.0)?;
    let (body, status) = text.rsplit_once('\n').unwrap_or(("", &text));
    Ok((status.parse()?, body.to_owned()))
}

/// Promise: Handlers of running streams and of single outputs are controlled, replaced, removed and added
/// over HTTP.
fn handlers_are_controlled_replaced_removed_and_added_while_the_stream_runs() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let mut lines = Lines::start()?;
    lines.send("ab1\nac1\nbb1\n", "ab1\nac1\n", "ab1\n")?;
    let status = lines.relay.status()?["streams"][0].clone();
    ensure!(status["handlers"][0]["number"] == 0 && status["handlers"][0]["name"] == "begins", "{status}");
    ensure!(status["outputs"][1]["handlers"][0]["number"] == 1, "{status}");

    let answer = lines.request("POST", "/api/streams/lines/handlers/0", "b", &[])?;
    ensure!(answer == (200, "a".to_owned()), "{answer:?}");
    lines.send("bb2\nab2\n", "ab1\nac1\nbb2\n", "ab1\n")?;

    let answer = lines.request("PUT", "/api/streams/0/handlers/1", "begins:bc", &[])?;
    ensure!(answer.0 == 204, "{answer:?}");
    lines.send("bc3\nbd3\n", "ab1\nac1\nbb2\nbc3\nbd3\n", "ab1\nbc3\n")?;

    let answer = lines.request("DELETE", "/api/streams/lines/handlers/0", "", &[])?;
    ensure!(answer.0 == 204, "{answer:?}");
    lines.send("zz4\n", "ab1\nac1\nbb2\nbc3\nbd3\nzz4\n", "ab1\nbc3\n")?;

    let answer = lines.request("POST", "/api/streams/lines/handlers", "touch:32\n", &[])?;
    ensure!(answer == (201, "2\n".to_owned()), "{answer:?}");
    lines.send("Q\n", "ab1\nac1\nbb2\nbc3\nbd3\nzz4\nq*", "ab1\nbc3\n")?;
    lines.relay.wait_for("its number", |streams| streams[0]["handlers"][0]["number"] == 2)?;
    Ok(())
}

/// Promise: The relay's status shows the changes of a handler that wait for the end of a record, and the handler as it
/// still is.
fn a_change_that_waits_is_shown() -> Result<()> {
    let mut lines = Lines::within(Folder::new(
        "[[stream]]\nname = \"lines\"\nin = [\"unix:inlet?listen\"]\nframing = \"fixed:4\"\n\
         handlers = [\"touch:32\"]\nout = [\"file:one\", \"file:two\"]\n",
    )?)?;
    lines.send("AB", "ab", "ab")?;
    let mut connection = TcpStream::connect(lines.relay.http)?;
    let head = "PUT /api/streams/lines/handlers/0 HTTP/1.1\r\nHost: relay\r\nContent-Length: 5";
    write!(connection, "{head}\r\n\r\nmeter")?;
    let streams =
        lines.relay.wait_for("the change", |streams| streams[0]["handlers"][0]["waiting"][0] == "replace")?;
    ensure!(streams[0]["handlers"][0]["name"] == "touch", "{streams}");
    lines.send("CDEF", "abcdEF", "abcdEF")?;
    let answer = http::read_response(&mut connection, &mut Vec::new(), false)?;
    ensure!(answer.status == 204, "{answer:?}");
    let streams =
        lines.relay.wait_for("the other handler", |streams| streams[0]["handlers"][0]["name"] == "meter")?;
    ensure!(streams[0]["handlers"][0]["waiting"] == Value::Array(Vec::new()), "{streams}");
    Ok(())
}

/// Promise: Handlers of running streams and of single outputs are controlled, replaced, removed and added
/// over HTTP.
///
/// Invalid requests, and those of a page in a browser, are refused with a reason.
fn what_cannot_be_changed_is_refused_and_changes_nothing() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let mut lines = Lines::start()?;
    lines.send("ab1\n", "ab1\n", "ab1\n")?;
    let (handler, long) = ("/api/streams/lines/handlers/0", "x".repeat(70_000));
    for (method, path, body, more, status, words) in [
        ("POST", "/api/streams/lines/handlers/9", "b", &[][..], 404, "no handler 9"),
        ("POST", "/api/streams/none/handlers/0", "b", &[], 404, "no stream none"),
        ("PUT", handler, "rot13", &[], 400, "unknown handler \"rot13\""),
        ("PUT", handler, "seal:key", &[], 403, "handlers with keys are not set by HTTP"),
        ("PUT", handler, "bpf:/dev/zero", &[], 403, "start the relay with --handler-folder"),
        ("POST", handler, "", &[], 422, "expected 1 to 16384"),
        ("POST", handler, "b", &["-H", "Origin: http://elsewhere"], 403, "not controlled by pages"),
        ("POST", handler, &long, &[], 413, "at most 65536 bytes"),
        ("POST", "/api/streams/lines/outputs/3/trust", "5", &[], 404, "no output 3"),
        ("POST", "/api/streams/lines/outputs/0/handlers", "meter", &[], 400, "outputs are counted from 1"),
        (
            "POST",
            "/api/streams/lines/outputs/2/trust",
            "101",
            &[],
            400,
            "invalid trust 101: expected 0 to 100",
        ),
        ("POST", "/api/streams/lines/outputs/2/handlers", "trust<0:meter", &[], 400, "expected 1 to 100"),
        ("POST", "/api/streams/lines/outputs/2/handlers", "seal:key", &[], 403, "handlers with keys"),
        ("PUT", "/api/streams/lines/outputs/2/trust", "5", &[], 405, "read-only"),
        ("PUT", "/api/streams/lines/options/colour", "5", &[], 404, "expected one of rate, burst, deadline"),
        ("PUT", "/api/streams/lines/options/rate", "fast", &[], 400, "expected a number from 1, or none"),
        ("PUT", "/api/streams/lines/options/finish-outputs", "false", &[], 409, "is fixed"),
        ("PUT", "/api/streams/lines/outputs/3/options/trust", "5", &[], 404, "no output 3"),
        ("GET", "/api/streams/lines/options", "", &["-H", "Origin: http://elsewhere"], 403, "by pages"),
        ("PATCH", handler, "b", &[], 405, "read-only"),
        ("POST", "/api/status", "b", &[], 405, "read-only"),
    ] {
        let answer = lines.request(method, path, body, more)?;
        ensure!(answer.0 == status && answer.1.contains(words), "{method} {path}: {answer:?}");
    }
    lines.send("bb2\nab2\n", "ab1\nab2\n", "ab1\nab2\n")
}

/// Promise: Handlers of files are set over HTTP only from a folder that the operator names; no name leaves it.
fn handlers_of_files_are_those_of_the_handler_folder() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let folder = Folder::new(&format!("{LINES}handler-folder = \"objects\"\n"))?;
    std::fs::create_dir_all(folder.path("objects/deeper"))?;
    for file in ["text", "objects/text", "objects/.hidden", "objects/deeper/text"] {
        std::fs::write(folder.path(file), "no object")?;
    }
    for (link, target) in [("out", "../text"), ("far", "/etc/passwd"), ("within", "text")] {
        std::os::unix::fs::symlink(target, folder.path("objects").join(link))?;
    }
    run("mkfifo", [folder.path("objects/fifo")], 5.0)?;
    let mut lines = Lines::within(folder)?;
    lines.send("ab1\n", "ab1\n", "ab1\n")?;
    let wrong = (400, "expected the name of a file in the folder of --handler-folder, without a slash");
    let missing = (404, "in the folder of --handler-folder: no such file");
    let read = (400, "has no handler: it is no object file");
    for (name, (status, words)) in [
        ("../text", wrong),
        ("deeper/text", wrong),
        ("./text", wrong),
        ("text/", wrong),
        ("/etc/passwd", wrong),
        ("..", wrong),
        (".", wrong),
        (".hidden", wrong),
        ("out", missing),
        ("far", missing),
        ("fifo", missing),
        ("deeper", missing),
        ("none", missing),
        ("text", read),
        ("within", read),
    ] {
        for (method, path) in [("PUT", "handlers/0"), ("POST", "handlers"), ("POST", "outputs/2/handlers")] {
            let (path, body) = (format!("/api/streams/lines/{path}"), format!("bpf:{name}"));
            let answer = lines.request(method, &path, &body, &[])?;
            ensure!(answer.0 == status && answer.1.contains(words), "{method} {path} {body}: {answer:?}");
        }
    }
    lines.send("bb2\nab2\n", "ab1\nab2\n", "ab1\nab2\n")
}

/// Promise: The status says where a `bpf` handler runs that was set over HTTP, and why.
fn a_handler_of_a_file_says_where_it_runs() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let folder = Folder::new(&format!("{LINES}handler-folder = \"objects\"\n"))?;
    std::fs::create_dir(folder.path("objects"))?;
    let pass = bpf::handler("pass", &folder.path("objects"))?;
    ensure!(pass.ends_with("objects/pass.bpf.o"), "{}", pass.display());
    let mut lines = Lines::within(folder)?;
    lines.send("ab1\n", "ab1\n", "ab1\n")?;
    ensure!(lines.relay.status()?["streams"][0]["handler_place"].is_null(), "there is no such handler");
    // The first half of a line has come, which no handler has seen.
    let sent = lines.sent as u64 + 2;
    lines.source.write_all(b"ab")?;
    lines.relay.wait_for("half a line", |streams| streams[0]["bytes_in"] == sent)?;
    let body = "bpf:pass.bpf.o";
    let head = format!(
        "PUT /api/streams/lines/handlers/0 HTTP/1.1\r\nHost: relay\r\nContent-Length: {}",
        body.len()
    );
    let mut connection = TcpStream::connect(lines.relay.http)?;
    write!(connection, "{head}\r\n\r\n{body}")?;
    let answer = http::read_response(&mut connection, &mut Vec::new(), false)?;
    ensure!(answer.status == 204, "{answer:?}");
    lines.sent += 2;
    lines.send("2\nbb3\n", "ab1\nab2\nbb3\n", "ab1\nab2\n")?;
    let streams = lines.relay.wait_for("the place of the handler", |streams| {
        streams[0]["handler_place"]["place"] == "user_space" && streams[0]["handlers"][0]["name"] == "bpf"
    })?;
    let reason = streams[0]["handler_place"]["reason"].as_str().unwrap_or_default();
    ensure!(reason.contains("--framing whole"), "{reason}");
    let answer = lines.request("DELETE", "/api/streams/lines/handlers/0", "", &[])?;
    ensure!(answer.0 == 204, "{answer:?}");
    lines.relay.wait_for("no handler", |streams| streams[0]["handler_place"].is_null())?;
    Ok(())
}

/// Promise: A handler folder that does not exist, or that nobody could use, is refused before anything is opened.
fn a_handler_folder_that_cannot_be_used_is_refused() -> Result<()> {
    let folder = Folder::new(&format!("{COPY}handler-folder = \"objects\"\n"))?;
    for (arguments, words) in [
        (&["--metrics", "127.0.0.1:0"][..], "handler-folder: cannot serve "),
        (&[], "handler-folder of copy has no effect without --metrics"),
    ] {
        let output = folder.output(arguments)?;
        let said = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(1) && said.contains(words), "{said}");
    }
    ensure!(!folder.path("target").exists(), "an output was opened");
    Ok(())
}

/// Promise: An output whose peer loses trust gets filtered records from the next record on; others are not
/// affected.
fn an_output_that_loses_trust_gets_filtered_records_from_the_next_one_on() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let [first, second] = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    let folder = Folder::new(&format!(
        "[[stream]]\nname = \"orders\"\nin = [\"unix:inlet?listen\"]\nframing = \"fixed:8\"\n\
         output-handlers = [\"2:trust<50:begins:public\"]\nout = [\"tcp://{}\", \"tcp://{}\"]\n",
        first.local_addr()?,
        second.local_addr()?
    ))?;
    let relay = Watched::start(&folder, &[])?;
    wait_for(&folder.path("inlet"))?;
    let mut source = UnixStream::connect(folder.path("inlet"))?;
    let mut peers = [first.accept()?.0, second.accept()?.0];
    let mut send = |bytes: &str, expected: [&str; 2]| {
        source.write_all(bytes.as_bytes())?;
        for (peer, expected) in peers.iter_mut().zip(expected) {
            peer.set_read_timeout(Some(Duration::from_secs(20)))?;
            let mut came = vec![0; expected.len()];
            peer.read_exact(&mut came)?;
            ensure!(
                came == expected.as_bytes(),
                "{:?} came, not {expected:?}",
                came.escape_ascii().to_string()
            );
        }
        Ok(())
    };
    let post = |relay: &Watched, path: &str, body: &str, expected: u16| {
        let answer = request(relay, "POST", &format!("/api/streams/orders/outputs/2/{path}"), body, &[])?;
        ensure!(answer.0 == expected, "{path} {body}: {answer:?}");
        Ok(())
    };
    let begun = "public01secret02secr";
    send(begun, [begun; 2])?;
    post(&relay, "trust", "49\n", 204)?;
    send("et03secret04public05", ["et03secret04public05", "et03public05"])?;
    post(&relay, "handlers", "trust<20:touch:1", 201)?;
    post(&relay, "trust", "0", 204)?;
    send("public06secret07", ["public06secret07", "qtcmhb17"])?;
    let outputs = |streams: &Value| streams[0]["outputs"].clone();
    relay.wait_for("the trust", |streams| outputs(streams)[1]["trust"] == 0)?;
    post(&relay, "trust", "50", 204)?;
    send("secret08", ["secret08"; 2])?;
    relay.wait_for("the trust", |streams| outputs(streams)[1]["trust"] == 50)?;
    let shown = outputs(&relay.status()?["streams"]);
    ensure!(shown[0]["number"] == 1 && shown[0]["trust"] == 100, "{shown}");
    let handler = |place: usize| &shown[1]["handlers"][place];
    ensure!(handler(0)["trust_below"] == 50 && handler(0)["in_force"] == false, "{shown}");
    ensure!(handler(1)["trust_below"] == 20 && handler(1)["in_force"] == false, "{shown}");
    Ok(())
}

/// Promise: Options of a stream and its outputs are listed and set over HTTP.
fn options_are_listed_and_set_by_key_while_the_stream_runs() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let mut lines = Lines::start()?;
    lines.send("ab1\n", "ab1\n", "ab1\n")?;
    let listed = |lines: &Lines, path: &str, key: &str| {
        let (status, body) = lines.request("GET", path, "", &[])?;
        let options: Value = serde_json::from_str(&body)?;
        let find = |options: &Vec<Value>| options.iter().find(|option| option["key"] == key).cloned();
        let option = options.as_array().and_then(find);
        ensure!(status == 200 && option.is_some(), "{status} {body}");
        Ok(option.unwrap_or_default())
    };
    for (part, key, unit, before, after) in [
        ("", "rate", "bytes/s", "none", "1000000"),
        ("", "stall", "us", "60000000", "5000000"),
        ("/outputs/2", "waiting-bytes", "bytes", "262144", "1000"),
        ("/outputs/2", "when-full", "", "block", "drop-newest"),
        ("/outputs/2", "trust", "", "100", "3"),
    ] {
        let path = format!("/api/streams/lines{part}/options");
        for (value, set) in [(before, Some(after)), (after, None)] {
            let option = listed(&lines, &path, key)?;
            let shown = option["value"] == value && option["unit"] == unit && option["may_change"] == true;
            ensure!(shown, "{path}: {option}, not {value}");
            if let Some(value) = set {
                let answer = lines.request("PUT", &format!("{path}/{key}"), value, &[])?;
                ensure!(answer.0 == 204, "{path}/{key}: {answer:?}");
            }
        }
    }
    lines.send("ab2\n", "ab1\nab2\n", "ab1\nab2\n")
}
