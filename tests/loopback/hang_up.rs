//! A terminal or an ssh session that is closed: SIGHUP ends what runs as SIGTERM does, unless it was to be
//! ignored.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;
use wirepath_tests::process::Process;
use wirepath_tests::proxy::{Proxy, echo};
use wirepath_tests::server::{self, Server};
use wirepath_tests::{Deadline, trials};

use crate::relay::{relay, wait_for};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_relay_whose_terminal_is_gone_writes_its_report,
        streams_of_a_file_write_their_report,
        a_relay_behind_nohup_goes_on,
        a_proxy_drains_and_takes_it_for_one_wish,
        a_cache_writes_its_report,
        a_server_drains,
    ]
}

/// A relay in a folder, begun by a shell that says how.
fn begun(folder: &Path, how: &str, arguments: &[&str]) -> Result<Process> {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{how} exec \"$0\" relay \"$@\"")]).arg(server::binary()?);
    Process::start(command.args(arguments).current_dir(folder), true)
}

fn json(file: &Path) -> Result<Value> {
    Ok(serde_json::from_slice(&std::fs::read(file)?)?)
}

/// Promise: SIGHUP ends relays, proxies, caches and servers as SIGTERM does, except under `nohup`.
///
/// To write to it fails, as it does to /dev/full.
fn a_relay_whose_terminal_is_gone_writes_its_report() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("socket");
    let inlet = format!("unix:{}?listen", socket.display());
    let arguments = ["--in", &inlet, "--out", "file:target", "--json", "report.json"];
    let mut waiting = begun(folder.path(), "exec 2>/dev/full;", &arguments)?;
    wait_for(&socket)?;
    let mut client = UnixStream::connect(socket)?;
    client.write_all(b"some bytes")?;
    let target = folder.path().join("target");
    Deadline::seconds(10.0).wait_for("what was sent", || {
        Ok(std::fs::read(&target).is_ok_and(|sent| sent == b"some bytes").then_some(()))
    })?;
    waiting.signal(Signal::HUP)?;
    let status = waiting.wait(Deadline::seconds(10.0))?;
    ensure!(status.code() == Some(129), "{status}: {}", waiting.log());
    let report = json(&folder.path().join("report.json"))?;
    ensure!(report["state"] == "stopped" && report["bytes_out"] == 10, "{report}");
    let mut refused =
        begun(folder.path(), "exec 2>/dev/full;", &[&arguments[..4], &["--json", "target"]].concat())?;
    let status = refused.wait(Deadline::seconds(10.0))?;
    ensure!(status.code() == Some(1), "{status}: {}", refused.log());
    Ok(())
}

/// Promise: SIGHUP ends relays, proxies, caches and servers as SIGTERM does, except under `nohup`.
fn streams_of_a_file_write_their_report() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let stream = "[[stream]]\nname = \"a\"\nin = [\"unix:socket?listen\"]\nout = [\"file:target\"]\n";
    std::fs::write(folder.path().join("relay.toml"), stream)?;
    let mut waiting = begun(folder.path(), "", &["--config", "relay.toml", "--json", "report.json"])?;
    Deadline::seconds(10.0).wait_for("a line that says where it waits", || {
        Ok(waiting.log().contains("waiting for a connection").then_some(()))
    })?;
    waiting.signal(Signal::HUP)?;
    let status = waiting.wait(Deadline::seconds(10.0))?;
    ensure!(status.code() == Some(129), "{status}: {}", waiting.log());
    let report = json(&folder.path().join("report.json"))?;
    ensure!(report["streams"][0]["state"] == "stopped", "{report}");
    ensure!(!folder.path().join("socket").exists(), "the socket's name is left");
    Ok(())
}

/// Promise: SIGHUP ends relays, proxies, caches and servers as SIGTERM does, except under `nohup`.
fn a_relay_behind_nohup_goes_on() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("socket");
    let inlet = format!("unix:{}?listen", socket.display());
    let mut waiting = begun(folder.path(), "trap '' HUP;", &["--in", &inlet, "--out", "file:target"])?;
    wait_for(&socket)?;
    waiting.signal(Signal::HUP)?;
    UnixStream::connect(socket)?.write_all(b"behind it")?;
    waiting.succeed(Deadline::seconds(10.0))?;
    ensure!(std::fs::read(folder.path().join("target"))? == b"behind it");
    Ok(())
}

/// Promise: SIGHUP ends relays, proxies, caches and servers as SIGTERM does, except under `nohup`.
///
/// A shell and the kernel may both tell of one terminal.
fn a_proxy_drains_and_takes_it_for_one_wish() -> Result<()> {
    let mut proxy = Proxy::before(&[echo(1)?], &[])?;
    let mut client = proxy.connect()?;
    client.read_exact(&mut [0])?; // the backend's number
    let mut there_and_back = || -> Result<()> {
        let mut buffer = [0; 4];
        client.write_all(b"echo")?;
        client.read_exact(&mut buffer)?;
        ensure!(&buffer == b"echo");
        Ok(())
    };
    there_and_back()?;
    proxy.process.signal(Signal::HUP)?;
    Deadline::seconds(10.0)
        .wait_for("draining", || Ok(proxy.process.log().contains("draining").then_some(())))?;
    proxy.process.signal(Signal::HUP)?;
    there_and_back()?;
    drop(client);
    let (code, report) = proxy.wait()?;
    ensure!(code == 0 && report["connections"]["cut"] == 0, "{code}: {report}");
    Ok(())
}

/// Promise: SIGHUP ends relays, proxies, caches and servers as SIGTERM does, except under `nohup`.
fn a_cache_writes_its_report() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let [kept, report] = ["kept", "report.json"].map(|name| folder.path().join(name).display().to_string());
    // There is no terminal to ask, and nothing asks.
    let arguments =
        ["--listen", "127.0.0.1:0", "--cache", &kept, "--origin", "http://127.0.0.1:9", "--json", &report];
    let mut caching = Process::start(&relay(&arguments)?, true)?;
    Deadline::seconds(10.0).wait_for("ready", || Ok(caching.log().contains("ready ").then_some(())))?;
    caching.signal(Signal::HUP)?;
    caching.succeed(Deadline::seconds(10.0))?;
    let report = json(Path::new(&report))?;
    ensure!(report["schema"] == "wirepath-relay-cache/1" && report["requests"] == 0, "{report}");
    Ok(())
}

/// Promise: SIGHUP ends relays, proxies, caches and servers as SIGTERM does, except under `nohup`.
fn a_server_drains() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("file"), "content")?;
    let mut server = Server::of(folder.path()).start()?;
    server.process.signal(Signal::HUP)?;
    ensure!(server.process.wait(Deadline::seconds(11.0))?.success(), "{}", server.process.log());
    Ok(())
}
