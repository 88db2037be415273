//! Connections of `wirepath relay`: how they come about and how they end.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::net::sockopt::set_socket_linger;
use rustix::process::Signal;
use serde_json::Value;
use wirepath_tests::ports::free_port;
use wirepath_tests::process::{self, Process, find};
use wirepath_tests::proxy::silence_left;
use wirepath_tests::{Deadline, require, trials};

use super::{at, random_bytes, relay, wait_for};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        connections_are_waited_for_and_said_so,
        listeners_are_announced_when_all_are_open,
        peers_that_say_nothing_are_asked_for,
        a_connection_that_resets_at_once_counts_as_accepted,
        what_a_peer_did_not_get_is_no_success,
        an_input_that_breaks_takes_nothing_from_shares_but_its_own,
        a_sender_that_dies_within_a_share_takes_nothing_from_the_others,
        outputs_that_are_gone_stay_in_the_report,
        a_signal_ends_it_whatever_it_waits_for,
        the_peer_of_a_fifo_is_waited_for_and_reported,
        no_socket_path_is_left_by_a_relay_that_waits_for_a_fifo,
        no_socket_path_is_left_if_another_address_fails_to_open,
        no_file_is_left_where_all_inputs_broke_before_anything_came,
    ]
}

/// Promise: A listening address reports where it listens and accepts one connection.
///
/// As an input and as an output, which each take one connection; netcat sends, socat receives.
fn connections_are_waited_for_and_said_so() -> Result<()> {
    require!(find("nc").is_some(), "nc is not installed");
    require!(find("socat").is_some(), "socat is not installed");
    let folder = tempfile::tempdir()?;
    let bytes = random_bytes(1_000_000);
    std::fs::write(folder.path().join("source"), &bytes)?;
    let inlet = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let (from, to) = (format!("tcp://{inlet}?listen"), at(folder.path(), "unix", "outlet?listen"));
    let outlet = folder.path().join("outlet");
    let mut relaying = Process::start(&relay(&["--in", &from, "--out", &to])?, true)?;
    wait_until_said(&relaying, &inlet.to_string())?;
    wait_until_said(&relaying, &outlet.display().to_string())?;

    let target = folder.path().join("target");
    let mut receiving = Command::new("socat");
    receiving.arg("-u").arg(format!("UNIX-CONNECT:{}", outlet.display()));
    receiving.arg(format!("CREATE:{}", target.display()));
    let mut receiving = Process::start(&receiving, true)?;
    let source = File::open(folder.path().join("source"))?;
    let mut sending = Command::new("nc");
    sending.args(["-N", "127.0.0.1", &inlet.port().to_string()]).stdin(source);
    ensure!(sending.status()?.success(), "nc cannot send");
    relaying.succeed(Deadline::seconds(20.0))?;
    receiving.succeed(Deadline::seconds(20.0))?;
    ensure!(std::fs::read(target)? == bytes, "other bytes came");
    ensure!(!outlet.exists(), "the socket's name is left");
    ensure!(TcpStream::connect(inlet).is_err(), "somebody listens still");
    Ok(())
}

/// Promise: Once all listening addresses are open, streams announce them in one line on standard output.
fn listeners_are_announced_when_all_are_open() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let outlet = folder.path().join("outlet");
    let to = at(folder.path(), "unix", "outlet?listen");
    let from = format!("tcp://{}?listen", free_port()?);
    let mut relaying = Process::start(&relay(&["--in", &from, "--out", &to])?, false)?;
    let mut lines = BufReader::new(relaying.take_stdout()?).lines();
    let line = lines.next().context("no line")??;
    let words: Vec<&str> = line.split(' ').collect();
    let unix = format!("listen=unix:{}", outlet.display());
    let inlet = words.iter().find_map(|word| word.strip_prefix("listen=tcp://"));
    ensure!(words.len() == 3 && words[0] == "ready" && words.contains(&&unix[..]), "{line}");
    let mut receiver = UnixStream::connect(&outlet)?;
    TcpStream::connect(inlet.with_context(|| line.clone())?)?.write_all(b"bytes")?;
    let mut received = String::new();
    receiver.read_to_string(&mut received)?;
    relaying.succeed(Deadline::seconds(20.0))?;
    ensure!(received == "bytes" && lines.next().is_none(), "{received}");
    Ok(())
}

/// Promise: An idle TCP peer is probed after a minute.
///
/// Returns whether it connects or is connected to.
fn peers_that_say_nothing_are_asked_for() -> Result<()> {
    let peer = TcpListener::bind("127.0.0.1:0")?;
    let there = peer.local_addr()?;
    let here = free_port()?;
    let (from, to) = (format!("tcp://{there}"), format!("tcp://{here}?listen"));
    let relaying = Process::start(&relay(&["--in", &from, "--out", &to])?, true)?;
    let (_sender, connected_from) = peer.accept()?;
    wait_until_said(&relaying, &here.to_string())?;
    let receiver = TcpStream::connect(here)?;
    for (local, peer) in [(connected_from, there), (here, receiver.local_addr()?)] {
        let left = Deadline::seconds(20.0)
            .wait_for("a connection that asks for its peer", || silence_left(local, peer))?;
        ensure!(left <= 6000, "it asks after {left} hundredths of a second");
    }
    Ok(())
}

/// Promise: A listening address reports where it listens and accepts one connection.
fn a_connection_that_resets_at_once_counts_as_accepted() -> Result<()> {
    let inlet = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let from = format!("tcp://{inlet}?listen");
    let mut relaying = Process::start(&relay(&["--in", &from, "--out", "file:/dev/null"])?, true)?;
    wait_until_said(&relaying, &inlet.to_string())?;
    reset(TcpStream::connect(inlet)?)?;
    let status = relaying.wait(Deadline::seconds(20.0))?;
    let said = relaying.log();
    ensure!(status.code() == Some(1) && said.contains(&from) && said.contains("reset"), "{status}: {said}");
    Ok(())
}

/// A send buffer takes all of a small file long before the peer has it.
fn what_a_peer_did_not_get_is_no_success() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("source"), random_bytes(300_000))?;
    let source = at(folder.path(), "file", "source");
    let (listener, address) = narrow_listener()?;
    let mut sending = Process::start(&relay(&["--in", &source, "--out", &address])?, true)?;
    let (mut connection, _) = listener.accept()?;
    connection.read_exact(&mut [0; 1000])?;
    reset(connection)?;
    let status = sending.wait(Deadline::seconds(20.0))?;
    ensure!(status.code() == Some(1) && sending.log().contains(&address), "{status}: {}", sending.log());
    Ok(())
}

/// Promise: A lost output or missing shares give exit code 3; requested drops do not.
fn outputs_that_are_gone_stay_in_the_report() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let bytes = random_bytes(5_000_000);
    std::fs::write(folder.path().join("source"), &bytes)?;
    let (source, target) = (at(folder.path(), "file", "source"), at(folder.path(), "file", "target"));
    let report = folder.path().join("report.json");
    let (listener, address) = narrow_listener()?;
    let mut arguments =
        relay(&["--in", &source, "--framing", "fixed:1000", "--out", &target, "--out", &address])?;
    arguments.arg("--json").arg(&report);
    let mut mirroring = Process::start(&arguments, true)?;
    let (mut connection, _) = listener.accept()?;
    connection.read_exact(&mut [0; 1000])?;
    reset(connection)?;
    let status = mirroring.wait(Deadline::seconds(20.0))?;
    ensure!(status.code() == Some(3), "{status}: {}", mirroring.log());
    ensure!(std::fs::read(folder.path().join("target"))? == bytes, "the file has other bytes");
    let report: Value = serde_json::from_slice(&std::fs::read(report)?)?;
    let [gone] = &report["ended_outputs"].as_array().context("no list")?[..] else {
        anyhow::bail!("{report}")
    };
    ensure!(
        gone["name"] == *address && gone["why"].as_str().is_some_and(|why| why.contains(&address)),
        "{gone}"
    );
    ensure!(gone["dropped_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{gone}");
    ensure!(report["gone_outputs"]["failed"] == 1 && report["gone_outputs"]["disconnected"] == 0, "{report}");
    ensure!(mirroring.log().contains(&format!("without {address}")), "{}", mirroring.log());
    Ok(())
}

/// Promise: A signal ends a relay, whatever it waits for.
fn a_signal_ends_it_whatever_it_waits_for() -> Result<()> {
    let folder = tempfile::tempdir()?;
    // For somebody to connect.
    let inlet = at(folder.path(), "unix", "inlet?listen");
    let mut waiting = Process::start(&relay(&["--in", &inlet, "--out", "-"])?, true)?;
    // The name is there before the stream is.
    let waits = || Ok(waiting.log().contains("waiting for a connection").then_some(()));
    Deadline::seconds(10.0).wait_for("a line that says where it waits", waits)?;
    waiting.signal(Signal::TERM)?;
    let status = waiting.wait(Deadline::seconds(10.0))?;
    ensure!(status.code() == Some(143), "{status}: {}", waiting.log());
    ensure!(waiting.log().contains("still waiting for a connection at"), "{}", waiting.log());
    // Leftovers of a killed process.
    let left = folder.path().join("left");
    drop(UnixListener::bind(&left)?);
    let output = relay(&["--in", &at(folder.path(), "unix", "left?listen"), "--out", "-"])?.output()?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(
        output.status.code() == Some(1) && said.contains("the socket has no listener; remove it"),
        "{said}"
    );
    // No file is called left, and who listens is not disturbed by the question.
    let refused = |name: &str, why: &str| -> Result<()> {
        let output = relay(&["--in", &at(folder.path(), "unix", name), "--out", "-"])?.output()?;
        let said = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(1) && said.contains(why), "{said}");
        Ok(())
    };
    std::fs::write(folder.path().join("film"), "bytes")?;
    refused("film?listen", "path is taken: a file or folder exists there")?;
    let used = at(folder.path(), "unix", "used?listen");
    let mut waiting = Process::start(&relay(&["--in", &used, "--out", "-"])?, true)?;
    wait_for(&folder.path().join("used"))?;
    refused("used?listen", "path is taken: the socket is in use")?;
    let mut client = UnixStream::connect(folder.path().join("used"))?;
    client.write_all(b"seven")?;
    drop(client);
    let status = waiting.wait(Deadline::seconds(10.0))?;
    ensure!(status.success() && waiting.log().contains("5 B in"), "{status}: {}", waiting.log());
    ensure!(!folder.path().join("inlet").exists(), "the name of a socket that nobody came to is left");

    // For bytes, and for room.
    let listener = UnixListener::bind(folder.path().join("outlet"))?;
    let (from, to) = (at(folder.path(), "unix", "second?listen"), at(folder.path(), "unix", "outlet"));
    let mut running = Process::start(&relay(&["--in", &from, "--out", &to])?, true)?;
    wait_for(&folder.path().join("second"))?;
    let mut source = UnixStream::connect(folder.path().join("second"))?;
    source.write_all(b"some")?;
    let mut received = [0; 4];
    listener.accept()?.0.read_exact(&mut received)?;
    running.signal(Signal::INT)?;
    let status = running.wait(Deadline::seconds(10.0))?;
    ensure!(
        status.code() == Some(130) && running.log().contains("4 B in, 4 B out"),
        "{status}: {}",
        running.log()
    );
    Ok(())
}

/// Promise: A relay that restores shares continues without a failed input if enough shares remain.
///
/// Two of three give a record back. When too few are left, records are lost, and without any that ended in
/// order the end is not known.
fn an_input_that_breaks_takes_nothing_from_shares_but_its_own() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let bytes = random_bytes(50_000);
    std::fs::write(path("source"), &bytes)?;
    let [source, one, two, three] =
        ["source", "one", "two", "three"].map(|name| at(folder.path(), "file", name));
    let sharing = ["--in", &source, "--framing", "fixed:1000", "--pattern", "shares:2"];
    let outputs = ["--out", &one, "--out", &two, "--out", &three];
    Process::start(&relay(&[&sharing[..], &outputs].concat())?, true)?.succeed(Deadline::seconds(20.0))?;
    let shares = ["one", "two", "three"].map(|name| std::fs::read(path(name)));
    for (broken, code, said) in
        [(1, 0, "the other inputs continue"), (2, 3, "for want of shares"), (3, 1, "no input is left")]
    {
        let addresses = [free_port()?, free_port()?, free_port()?];
        let inputs = addresses.map(|address| format!("tcp://{address}?listen"));
        let mut arguments = vec!["--order", "shares:2", "--framing", "fixed:1012"];
        inputs.iter().for_each(|input| arguments.extend(["--in", input]));
        let target = format!("{}?overwrite", at(folder.path(), "file", "target"));
        let mut relaying = Process::start(&relay(&[&arguments[..], &["--out", &target]].concat())?, true)?;
        let all_wait = || Ok((relaying.log().matches("waiting for a connection").count() == 3).then_some(()));
        Deadline::seconds(10.0).wait_for("three that are waited for", all_wait)?;
        let mut connections = Vec::new();
        for address in addresses {
            connections.push(TcpStream::connect(address)?);
        }
        for (place, (mut connection, share)) in connections.into_iter().zip(&shares).enumerate() {
            let share = share.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
            let is_broken = place < broken;
            connection.write_all(&share[..if is_broken { 20_240 } else { share.len() }])?;
            if is_broken {
                set_socket_linger(&connection, Some(Duration::ZERO))?;
            }
        }
        let status = relaying.wait(Deadline::seconds(20.0))?;
        let log = relaying.log();
        ensure!(status.code() == Some(code) && log.contains(said), "{broken} broke: {status}: {log}");
        ensure!(broken > 1 || std::fs::read(path("target"))? == bytes, "other bytes came: {log}");
    }
    Ok(())
}

/// Promise: An input that fails within a share, or brings shares of another stream, does not affect the
/// others.
///
/// Whichever of three it is, its end looks like one in order: the kernel of a sender that was killed sends what
/// it has, and a FIN.
fn a_sender_that_dies_within_a_share_takes_nothing_from_the_others() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let bytes = random_bytes(50_500);
    std::fs::write(path("source"), &bytes)?;
    let [source, one, two, three] =
        ["source", "one", "two", "three"].map(|name| at(folder.path(), "file", name));
    let sharing = ["--in", &source, "--framing", "fixed:1000", "--pattern", "shares:2"];
    let outputs = ["--out", &one, "--out", &two, "--out", &three];
    Process::start(&relay(&[&sharing[..], &outputs].concat())?, true)?.succeed(Deadline::seconds(20.0))?;
    let names = ["one", "two", "three"];
    for (dying, cut) in [(0, 500), (1, 1012 + 7), (2, 20 * 1012 + 500)] {
        for (place, name) in names.iter().enumerate() {
            let shares = std::fs::read(path(name))?;
            std::fs::write(path("came"), &shares[..if place == dying { cut } else { shares.len() }])?;
            std::fs::rename(path("came"), path(&format!("{name}.came")))?;
        }
        let inputs = names.map(|name| at(folder.path(), "file", &format!("{name}.came")));
        let mut arguments = vec!["--order", "shares:2", "--framing", "fixed:1012"];
        inputs.iter().for_each(|input| arguments.extend(["--in", input]));
        let target = format!("{}?overwrite", at(folder.path(), "file", "target"));
        let mut relaying = Process::start(&relay(&[&arguments[..], &["--out", &target]].concat())?, true)?;
        let status = relaying.wait(Deadline::seconds(20.0))?;
        let log = relaying.log();
        ensure!(status.success() && log.contains("1 damaged share dropped"), "{dying}: {status}: {log}");
        ensure!(std::fs::read(path("target"))? == bytes, "{dying}: other bytes came: {log}");
    }
    Ok(())
}

/// Promise: An empty output file that a relay created is removed if the relay is stopped or fails.
///
/// It failed, and whoever starts it again finds what it found.
fn no_file_is_left_where_all_inputs_broke_before_anything_came() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let addresses = [free_port()?, free_port()?];
    let inputs = addresses.map(|address| format!("tcp://{address}?listen"));
    let mut arguments = vec!["--order", "shares:2", "--framing", "fixed:1012"];
    inputs.iter().for_each(|input| arguments.extend(["--in", input]));
    let target = at(folder.path(), "file", "target");
    let mut relaying = Process::start(&relay(&[&arguments[..], &["--out", &target]].concat())?, true)?;
    for address in addresses {
        let connected = || Ok(TcpStream::connect(address).ok());
        let connection = Deadline::seconds(10.0).wait_for("the relay", connected)?;
        set_socket_linger(&connection, Some(Duration::ZERO))?;
    }
    let status = relaying.wait(Deadline::seconds(20.0))?;
    let log = relaying.log();
    ensure!(status.code() == Some(1) && log.contains("no input is left"), "{status}: {log}");
    ensure!(!folder.path().join("target").exists(), "an empty file is left: {log}");
    Ok(())
}

/// Promise: A relay that is stopped while it waits for a FIFO removes its Unix socket.
///
/// The process may end as soon as it hears of the failure.
fn no_socket_path_is_left_if_another_address_fails_to_open() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let [inlet, missing] = [at(folder.path(), "unix", "inlet?listen"), at(folder.path(), "file", "missing")];
    for time in 0..50 {
        let arguments = ["--in", &inlet, "--in", &missing, "--out", "-"];
        let output = relay(&arguments)?.stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1) && said.contains("missing"), "{}: {said}", output.status);
        ensure!(!folder.path().join("inlet").exists(), "a name is left the {time}. time: {said}");
    }
    Ok(())
}

/// Promise: A relay that is stopped while it waits for a FIFO removes its Unix socket.
///
/// The thread that opens a stream is in the kernel when the process ends.
fn no_socket_path_is_left_by_a_relay_that_waits_for_a_fifo() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    process::run("mkfifo", [path("fifo")], 5.0)?;
    let fifo = at(folder.path(), "file", "fifo");
    let [inlet, outlet] = ["inlet?listen", "outlet?listen"].map(|name| at(folder.path(), "unix", name));
    let mut relaying = Process::start(&relay(&["--in", &fifo, "--in", &inlet, "--out", &outlet])?, true)?;
    let waits = || Ok(relaying.log().contains("waiting for a writer of").then_some(()));
    Deadline::seconds(10.0).wait_for("a line that says for whom it waits", waits)?;
    ensure!(path("inlet").exists() && path("outlet").exists(), "it does not listen");
    relaying.signal(Signal::TERM)?;
    let status = relaying.wait(Deadline::seconds(10.0))?;
    ensure!(status.code() == Some(143), "{status}: {}", relaying.log());
    for name in ["inlet", "outlet"] {
        ensure!(!path(name).exists(), "the name {name} is left");
    }
    Ok(())
}

/// Promise: A FIFO without a peer is waited for and reported; a signal ends the wait with a report.
///
/// To open a FIFO blocks until somebody opens its other end.
fn the_peer_of_a_fifo_is_waited_for_and_reported() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let [fifo, source, target] = ["fifo", "source", "target"].map(|name| at(folder.path(), "file", name));
    process::run("mkfifo", [path("fifo")], 5.0)?;
    std::fs::write(path("source"), "content")?;
    let report = path("report.json").display().to_string();
    let to_fifo = format!("{fifo}?append");
    let reading = ["--in", &fifo, "--out", &target, "--json", &report];
    let writing = ["--in", &source, "--out", &target, "--out", &to_fifo, "--json", &report];
    let waiting = |arguments: &[&str], whom: &str| -> Result<Process> {
        let waiting = Process::start(&relay(arguments)?, true)?;
        let line = format!("waiting for {whom} {fifo}");
        let said = Deadline::seconds(10.0).wait_for("a line that says for whom it waits", || {
            Ok(waiting.log().contains(&line).then_some(()))
        });
        said.with_context(|| waiting.log())?;
        Ok(waiting)
    };

    // A signal ends it as it ends others.
    for (arguments, whom) in [(&reading[..], "a writer of"), (&writing, "a reader of")] {
        let mut relaying = waiting(arguments, whom)?;
        relaying.signal(Signal::INT)?;
        let status = relaying.wait(Deadline::seconds(10.0))?;
        let log = relaying.log();
        ensure!(status.code() == Some(130) && log.contains("0 B in, 0 B out in "), "{status}: {log}");
        ensure!(log.contains(&format!(", still waiting for {whom} {fifo}")), "{log}");
        let json: Value = serde_json::from_slice(&std::fs::read(&report)?)?;
        ensure!(json["state"] == "stopped" && json["error"] == "the stream was stopped", "{json}");
        ensure!(!path("target").exists(), "a file was made for nothing");
    }

    let mut relaying = waiting(&reading, "a writer of")?;
    std::fs::write(path("fifo"), "through it")?;
    relaying.succeed(Deadline::seconds(10.0))?;
    ensure!(std::fs::read(path("target"))? == b"through it");
    std::fs::remove_file(path("target"))?;
    let mut relaying = waiting(&writing, "a reader of")?;
    ensure!(std::fs::read(path("fifo"))? == b"content");
    relaying.succeed(Deadline::seconds(10.0))?;
    ensure!(std::fs::read(path("target"))? == b"content");
    Ok(())
}

/// A listener whose connections take little before somebody reads.
fn narrow_listener() -> Result<(TcpListener, String)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096)?;
    let address = format!("tcp://{}", listener.local_addr()?);
    Ok((listener, address))
}

/// Has the peer of this connection see a reset.
fn reset(connection: TcpStream) -> Result<()> {
    rustix::net::sockopt::set_socket_linger(&connection, Some(std::time::Duration::ZERO))?;
    drop(connection);
    Ok(())
}

/// Waits until a relay says that it waits there.
fn wait_until_said(relay: &Process, address: &str) -> Result<()> {
    let line = format!("wirepath: waiting for a connection at {address}\n");
    Deadline::seconds(20.0).wait_for(&line, || Ok(relay.log().contains(&line).then_some(())))
}
