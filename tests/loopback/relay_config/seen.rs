//! Views of streams: metrics, reports, log lines and the table.

use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use wirepath_tests::process::{Process, find, run};
use wirepath_tests::{Deadline, http, require, server, trials};

use super::{COPY, Folder, Watched, endless, numbers};
use crate::relay::wait_for;

pub(super) fn trials() -> Vec<Trial> {
    trials![
        what_went_through_is_what_is_counted,
        malformed_datagrams_and_outputs_that_are_gone_are_counted,
        why_the_last_output_is_gone_is_said_once,
        what_could_not_be_shown_or_kept_is_an_error_at_once,
        the_table_is_drawn_on_a_terminal_and_gone_at_the_end,
    ]
}

/// Promise: `/metrics` and `/api/status` show bytes, drops and handler counts of each stream and output.
fn what_went_through_is_what_is_counted() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let folder = Folder::new(
        "[[class]]\nname = \"live\"\n[[class]]\nname = \"idle\"\n\
         [[stream]]\nname = \"lines\"\nin = [\"unix:inlet?listen\"]\nframing = \"line\"\n\
         handlers = [\"match:wire\", \"crc32c\"]\nout = [\"file:one\", \"file:two\"]\n\
         [[stream]]\nname = \"waits\"\nclass = \"idle\"\nin = [\"unix:never?listen\"]\nout = [\"file:three\"]\n",
    )?;
    let mut relay = Watched::start(&folder, &[])?;
    wait_for(&folder.path("inlet"))?;
    let mut source = UnixStream::connect(folder.path("inlet"))?;
    for number in 0..1000u32 {
        writeln!(source, "{} number {number}", if number.is_multiple_of(2) { "wire" } else { "path" })?;
    }
    let (sent, passed): (usize, usize) = (0..1000).fold((0, 0), |(sent, passed), number: u32| {
        let bytes = format!("wire number {number}\n").len();
        (sent + bytes, if number.is_multiple_of(2) { passed + bytes } else { passed })
    });
    relay.wait_for("the lines", |streams| streams[0]["bytes_out"] == 2 * passed)?;

    let scrape = run("curl", ["-sS", "-i", &format!("http://{}/metrics", relay.http)], 20.0)?;
    let (head, text) = scrape.split_once("\r\n\r\n").context("no head")?;
    ensure!(head.to_lowercase().contains("content-type: application/openmetrics-text"), "{head}");
    let numbers = numbers(text)?;
    let (of_lines, of_waits) = ("stream=\"lines\",class=\"live\"", "stream=\"waits\",class=\"idle\"");
    for (name, labels, expected) in [
        ("wirepath_stream_in_bytes_total", of_lines, sent),
        ("wirepath_stream_out_bytes_total", of_lines, 2 * passed),
        ("wirepath_stream_running", of_lines, 1),
        ("wirepath_stream_in_bytes_total", of_waits, 0),
        ("wirepath_stream_running", of_waits, 0),
        ("wirepath_class_in_bytes_total", "class=\"live\"", sent),
        ("wirepath_class_streams", "class=\"live\"", 1),
        ("wirepath_class_out_bytes_total", "class=\"idle\"", 0),
    ] {
        let key = format!("{name}{{{labels}}}");
        ensure!(numbers.get(&key) == Some(&(expected as f64)), "{key} is not {expected} in {text}");
    }
    ensure!(numbers.get("wirepath_relay_streams_opening") == Some(&1.0), "{text}");
    let outputs: Vec<f64> = numbers
        .iter()
        .filter(|(name, _)| name.starts_with(&format!("wirepath_stream_output_out_bytes_total{{{of_lines}")))
        .map(|(_, bytes)| *bytes)
        .collect();
    ensure!(outputs == [passed as f64; 2], "{outputs:?} in {text}");
    ensure!(text.contains("handler=\"crc32c\",what=\"crc32c\""), "{text}");
    let status = relay.status()?;
    ensure!(
        status["schema"] == "wirepath-relay-status/1" && status["streams"][1]["state"] == "opening",
        "{status}"
    );
    ensure!(http::get(relay.http, "/anything")?.status == 404, "there is something else");

    drop(source);
    relay.wait_for("its end", |streams| streams[0]["state"] == "ended")?;
    relay.process.signal(Signal::TERM)?;
    let ended = relay.process.wait(Deadline::seconds(20.0))?;
    ensure!(ended.code() == Some(143), "{ended}: {}", relay.process.log());
    ensure!(relay.process.log().contains("wirepath: lines: ended: "), "{}", relay.process.log());
    let report = folder.json("report.json")?;
    ensure!(
        report["streams"][0]["bytes_in"] == sent && report["streams"][1]["state"] == "stopped",
        "{report}"
    );
    ensure!(std::fs::read(folder.path("one"))?.len() == passed, "other bytes came");
    Ok(())
}

/// Promise: `/metrics` and `/api/status` show bytes, drops and handler counts of each stream and output.
///
/// Metrics that monitoring needs: refused datagrams, and an output without which a mirror goes on.
fn malformed_datagrams_and_outputs_that_are_gone_are_counted() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let inlet = wirepath_tests::ports::free_port()?;
    let folder = Folder::new(&format!(
        "[[stream]]\nname = \"packets\"\nin = [\"udp://@{inlet}\"]\nframing = \"ts\"\nout = [\"file:copy\", \"unix:gone\"]\n"
    ))?;
    let listener = UnixListener::bind(folder.path("gone"))?;
    let mut relay = Watched::start(&folder, &[])?;
    drop(listener.accept()?);
    relay.wait_for("a socket that is bound", |streams| streams[0]["state"] == "running")?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(inlet)?;
    let packet = [&[0x47, 0x01, 0x00, 0x10][..], &[0; 184]].concat();
    for datagram in [b"hostile", &packet[..], &packet[..100], &packet] {
        ensure!(sender.send(datagram)? == datagram.len());
    }
    let read = 7 + 188 + 100 + 188;
    let streams = relay.wait_for("what was sent", |streams| {
        streams[0]["bytes_in"] == read && streams[0]["outputs"][0]["bytes"] == 2 * 188
    })?;
    let gone = &streams[0]["ended_outputs"][0];
    let missed = gone["dropped_bytes"].as_u64().with_context(|| streams.to_string())?;
    ensure!(missed > 0 && streams[0]["gone_outputs"]["failed"] == 1, "{streams}");

    let numbers = numbers(&run("curl", ["-sS", &format!("http://{}/metrics", relay.http)], 20.0)?)?;
    let stream = "stream=\"packets\",class=\"\"";
    let output = format!("{stream},port=\"1\",output=\"unix:{}\"", folder.path("gone").display());
    for (name, labels, expected) in [
        ("stream_malformed_datagrams_total", stream.to_owned(), 2),
        ("stream_malformed_bytes_total", stream.to_owned(), 107),
        ("stream_outputs_failed_total", stream.to_owned(), 1),
        ("stream_outputs_disconnected_total", stream.to_owned(), 0),
        ("stream_output_gone", output.clone(), 1),
        ("stream_output_dropped_bytes_total", output, missed),
    ] {
        let name = format!("wirepath_{name}{{{labels}}}");
        ensure!(numbers.get(&name) == Some(&(expected as f64)), "{name} is not {expected}: {numbers:?}");
    }
    relay.process.signal(Signal::TERM)?;
    let status = relay.process.wait(Deadline::seconds(20.0))?;
    ensure!(status.code() == Some(143), "{status}: {}", relay.process.log());
    Ok(())
}

/// Promise: The reason for the loss of the last output is reported once.
fn why_the_last_output_is_gone_is_said_once() -> Result<()> {
    let folder =
        Folder::new("[[stream]]\nname = \"full\"\nin = [\"file:source\"]\nout = [\"file:/dev/full\"]\n")?;
    std::fs::write(folder.path("source"), [7; 300_000])?;
    let mut alone = Command::new(server::binary()?);
    alone
        .args(["relay", "--out", "file:/dev/full", "--in"])
        .arg(format!("file:{}", folder.path("source").display()));
    for (output, last) in [
        (
            folder.output(&["--json", &folder.path("report.json").display().to_string()])?,
            "full: failed: no output is left; ",
        ),
        (alone.output()?, "wirepath: no output is left\n"),
    ] {
        let said = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(1) && said.contains(last), "{}: {said}", output.status);
        ensure!(said.matches("No space left on device").count() == 1, "{said}");
    }
    let error = &folder.json("report.json")?["streams"][0]["error"];
    ensure!(error.as_str().is_some_and(|error| error.contains("No space left on device")), "{error}");
    Ok(())
}

/// Promise: A listener or report file that cannot be opened is an error at the start.
fn what_could_not_be_shown_or_kept_is_an_error_at_once() -> Result<()> {
    let folder = Folder::new(&COPY.replace("file:target", "file:target?overwrite"))?;
    std::fs::write(folder.path("source"), "bytes")?;
    std::fs::write(folder.path("target"), "older bytes")?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    let output = folder.output(&["--metrics", &address])?;
    let error = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(1), "{error}");
    ensure!(
        error.contains(&format!("cannot listen for metrics on {address}: Address already in use")),
        "{error}"
    );
    ensure!(std::fs::read(folder.path("target"))? == b"older bytes", "the target was opened");
    let output = folder.output(&["--json", "/does/not/exist"])?;
    let error = String::from_utf8(output.stderr)?;
    ensure!(
        output.status.code() == Some(1) && error.contains("cannot write the result to /does/not/exist"),
        "{error}"
    );
    ensure!(std::fs::read(folder.path("target"))? == b"older bytes", "the target was opened");
    Ok(())
}

/// Promise: The table of streams fits the terminal, says what it omits, and is removed at the end.
///
/// A real terminal, of 60 columns and 12 lines.
fn the_table_is_drawn_on_a_terminal_and_gone_at_the_end() -> Result<()> {
    require!(find("script").is_some() && find("stty").is_some(), "script or stty is not installed");
    let many: String = (0..20).map(|number| {
        format!("[[stream]]\nname = \"waits {number}\"\nin = [\"unix:inlet{number}?listen\"]\nout = [\"file:never{number}\"]\n")
    }).collect();
    let folder = Folder::new(&format!("{}{many}", endless("endless", "rate = \"1MB/s\"")))?;
    let relay =
        format!("{} relay --config {}", server::binary()?.display(), folder.path("relay.toml").display());
    let mut terminal = Command::new("script");
    let command = format!("stty cols 60 rows 12; exec {relay}");
    terminal.env("SHELL", "/bin/sh").args([
        "--quiet",
        "--flush",
        "--return",
        "--command",
        &command,
        "/dev/null",
    ]);
    let mut terminal = Process::start(&terminal, true)?;
    // Redrawing goes up by all lines but that of the cursor: none was so long that it wrapped.
    Deadline::seconds(30.0).wait_for("a table", || {
        let log = terminal.log();
        ensure!(terminal.is_running()?, "it ended: {log}");
        Ok((log.contains("endless ")
            && log.contains("and 13 streams more")
            && log.contains("Mbit/s")
            && log.contains("\u{1b}[11A"))
        .then_some(()))
    })?;
    let child = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", terminal.pid()))?;
    let child: i32 = child.split_whitespace().next().context("no child")?.parse()?;
    let child = rustix::process::Pid::from_raw(child).context("no process")?;
    rustix::process::kill_process(child, Signal::INT)?;
    let ended = terminal.wait(Deadline::seconds(20.0))?;
    ensure!(ended.code() == Some(130), "{ended}: {}", terminal.log());
    let log = terminal.log();
    ensure!(log.contains("wirepath: endless: stopped: "), "{log:?}");
    // The last table is cleared, and nothing follows.
    ensure!(log.ends_with("\u{1b}[11A\r\u{1b}[J"), "the table is left: {log:?}");
    Ok(())
}
