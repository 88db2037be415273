//! `wirepath relay` as people use it.

mod connections;
mod files;
mod joining;

use std::io::{ErrorKind, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;
use wirepath_tests::ports::free_port;
use wirepath_tests::process::{Process, find};
use wirepath_tests::{Deadline, clips, require, server, trials};

pub(crate) fn trials() -> Vec<Trial> {
    [moving(), files::trials(), connections::trials(), joining::trials()].into_iter().flatten().collect()
}

fn moving() -> Vec<Trial> {
    trials![
        lines_go_from_standard_input_to_standard_output,
        a_file_goes_over_a_socket_to_files_without_a_copy,
        large_records_behind_their_lengths_go_without_a_copy,
        datagrams_are_reflected_to_every_receiver,
        stripes_over_sockets_are_put_together_again,
        what_is_sealed_is_opened_behind_another_relay,
        what_an_order_missed_is_said,
        what_does_not_open_is_an_error,
        a_programme_is_taken_out_of_a_multiplex,
        a_programme_that_is_not_there_is_a_failure_that_names_those_that_are,
        ffmpeg_sends_through_a_relay,
        wrong_addresses_and_words_are_named,
        hostile_datagrams_end_nothing_and_are_counted,
    ]
}

pub(crate) fn relay(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(server::binary()?);
    command.arg("relay").args(arguments);
    Ok(command)
}

/// Runs it with this on standard input.
fn run(arguments: &[&str], input: &[u8]) -> Result<Output> {
    let mut command = relay(arguments)?;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("a pipe")?;
    let (written, output) = std::thread::scope(|scope| {
        let writer = scope.spawn(move || stdin.write_all(input));
        let output = child.wait_with_output();
        (writer.join().expect("writing does not panic"), output)
    });
    match written {
        // The relay may end before it has read everything; its exit code says whether it should have.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(output?),
    }
}

pub(crate) fn random_bytes(length: usize) -> Vec<u8> {
    let mut dice = wirepath_tests::mutation::Dice::new(length as u64);
    (0..length).map(|_| dice.any() as u8).collect()
}

fn at(folder: &Path, kind: &str, name: &str) -> String {
    format!("{kind}:{}", folder.join(name).display())
}

/// Waits until somebody listens there. A socket has its name a moment before that.
pub(crate) fn wait_for(path: &Path) -> Result<()> {
    let path = path.display().to_string();
    let listens = |line: &str| line.ends_with(&path) && line.split_whitespace().nth(3) == Some("00010000");
    Deadline::seconds(10.0).wait_for("a relay that listens", || {
        Ok(std::fs::read_to_string("/proc/net/unix")?.lines().any(listens).then_some(()))
    })
}

/// Promise: `relay` moves bytes between standard streams, files, TCP and Unix sockets, and reports them.
fn lines_go_from_standard_input_to_standard_output() -> Result<()> {
    let arguments =
        ["--in", "-", "--out", "-", "--framing", "line", "--handler", "match:wire", "--handler", "crc32c"];
    let output = run(&arguments, b"a wire\nnothing\nlast wire")?;
    ensure!(output.status.success() && output.stdout == b"a wire\nlast wire", "{output:?}");
    let said = String::from_utf8(output.stderr)?;
    ensure!(said.contains("24 B in, 16 B out") && said.contains("crc32c: crc32c "), "{said}");
    Ok(())
}

/// Promise: `relay` moves bytes between standard streams, files, TCP and Unix sockets, and reports them.
fn a_file_goes_over_a_socket_to_files_without_a_copy() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let bytes = random_bytes(3_000_000);
    std::fs::write(folder.path().join("source"), &bytes)?;
    let report = folder.path().join("report.json");
    let inlet = at(folder.path(), "unix", "inlet?listen");
    let target = at(folder.path(), "file", "target");
    let receiving = relay(&["--in", &inlet, "--out", &target, "--json", &report.display().to_string()])?;
    let mut receiving = Process::start(&receiving, true)?;
    wait_for(&folder.path().join("inlet"))?;
    let (source, outlet) = (at(folder.path(), "file", "source"), at(folder.path(), "unix", "inlet"));
    let sending = relay(&["--in", &source, "--out", &outlet])?;
    Process::start(&sending, true)?.succeed(Deadline::seconds(20.0))?;
    receiving.succeed(Deadline::seconds(20.0))?;
    ensure!(std::fs::read(folder.path().join("target"))? == bytes, "other bytes came");
    let report: Value = serde_json::from_slice(&std::fs::read(report)?)?;
    ensure!(report["schema"] == "wirepath-relay/1" && report["error"].is_null(), "{report}");
    ensure!(report["bytes_in"] == 3_000_000 && report["bytes_zero_copy"] == 3_000_000, "{report}");
    ensure!(!folder.path().join("inlet").exists(), "the socket's name is left");
    Ok(())
}

/// Promise: With `--framing length32` large records move without a copy, also by the handler `begins`.
///
/// The first two bytes of a length are what the handler decides by.
fn large_records_behind_their_lengths_go_without_a_copy() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let lengths = [70_000, 40_000, 100_000, 300_000, 80_001, 65_536_usize];
    let records = lengths.map(|length| [&(length as u32).to_be_bytes()[..], &random_bytes(length)].concat());
    std::fs::write(folder.path().join("source"), records.concat())?;
    let report = folder.path().join("report.json");
    let report_argument = report.display().to_string();
    let [source, target] = ["source", "target"].map(|name| at(folder.path(), "file", name));
    let arguments = ["--in", &source, "--out", &target, "--framing", "length32", "--json", &report_argument];
    let output = run(&arguments, b"")?;
    ensure!(output.status.success(), "{output:?}");
    ensure!(std::fs::read(folder.path().join("target"))? == records.concat(), "other bytes came");
    let told: Value = serde_json::from_slice(&std::fs::read(&report)?)?;
    let bytes = records.concat().len();
    ensure!(told["bytes_in"] == bytes && told["bytes_zero_copy"] == bytes, "{told}");
    ensure!(told["records_in"] == records.len(), "{told}");

    let configuration = folder.path().join("relay.toml");
    std::fs::write(
        &configuration,
        "[[stream]]\nname = \"some\"\nin = [\"file:source\"]\nout = [\"file:passed\"]\n\
         framing = \"length32\"\nhandlers = [\"begins:\\u0000\\u0001\"]\n",
    )?;
    let configuration = configuration.display().to_string();
    let output = run(&["--config", &configuration, "--json", &report_argument], b"")?;
    ensure!(output.status.success(), "{output:?}");
    let passed = [&records[0][..], &records[2], &records[4], &records[5]].concat();
    ensure!(std::fs::read(folder.path().join("passed"))? == passed, "other records came");
    let told: Value = serde_json::from_slice(&std::fs::read(&report)?)?;
    let told = &told["streams"][0];
    ensure!(told["bytes_in"] == bytes && told["bytes_zero_copy"] == passed.len(), "{told}");
    Ok(())
}

/// Promise: Datagrams are mirrored to many receivers unchanged.
fn datagrams_are_reflected_to_every_receiver() -> Result<()> {
    let receivers = (0..3).map(|_| bound()).collect::<Result<Vec<UdpSocket>>>()?;
    let inlet = free_port()?;
    let address = format!("udp://@127.0.0.1:{}", inlet.port());
    let outlets = receivers.iter().map(|receiver| Ok(format!("udp://{}", receiver.local_addr()?)));
    let outlets = outlets.collect::<Result<Vec<String>>>()?;
    let mut arguments = vec!["--in", &address];
    outlets.iter().for_each(|outlet| arguments.extend(["--out", outlet]));
    let mut reflecting = Process::start(&relay(&arguments)?, true)?;
    let sender = bound()?;
    sender.connect(inlet)?;
    let mut buffer = [0; 2000];
    // Until the relay listens, the system says that nobody does, or nothing at all.
    Deadline::seconds(10.0).wait_for("the first datagram", || {
        drop(sender.send(b"hello"));
        receivers[0].set_read_timeout(Some(std::time::Duration::from_millis(50)))?;
        Ok(receivers[0].recv(&mut buffer).is_ok().then_some(()))
    })?;
    let datagrams: Vec<Vec<u8>> =
        (0..100u8).map(|number| vec![number; 1 + usize::from(number) * 14]).collect();
    for datagram in &datagrams {
        ensure!(sender.send(datagram)? == datagram.len());
    }
    for receiver in &receivers {
        receiver.set_read_timeout(Some(Deadline::seconds(10.0).left()))?;
        let mut expected = datagrams.iter();
        let mut next = expected.next();
        while let Some(datagram) = next {
            let length = receiver.recv(&mut buffer)?;
            if &buffer[..length] != b"hello" {
                ensure!(&buffer[..length] == datagram, "{length} bytes, expected {}", datagram.len());
                next = expected.next();
            }
        }
    }
    reflecting.signal(Signal::INT)?;
    let status = reflecting.wait(Deadline::seconds(10.0))?;
    ensure!(status.code() == Some(130), "{status}: {}", reflecting.log());
    Ok(())
}

/// Promise: A relay restores what another relay stripes or seals; a changed record is rejected.
fn stripes_over_sockets_are_put_together_again() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let bytes = random_bytes(1_234_567);
    std::fs::write(folder.path().join("source"), &bytes)?;
    let [one, two, three] = ["one", "two", "three"].map(|name| at(folder.path(), "unix", name));
    let inlets = [&one, &two, &three].map(|name| format!("{name}?listen"));
    let target = at(folder.path(), "file", "target");
    let merging = relay(&[
        "--in",
        &inlets[0],
        "--in",
        &inlets[1],
        "--in",
        &inlets[2],
        "--order",
        "roundrobin",
        "--framing",
        "fixed:1000",
        "--out",
        &target,
    ])?;
    let mut merging = Process::start(&merging, true)?;
    wait_for(&folder.path().join("three"))?;
    let source = at(folder.path(), "file", "source");
    let striping = relay(&[
        "--in",
        &source,
        "--framing",
        "fixed:1000",
        "--pattern",
        "stripe",
        "--out",
        &one,
        "--out",
        &two,
        "--out",
        &three,
    ])?;
    Process::start(&striping, true)?.succeed(Deadline::seconds(20.0))?;
    merging.succeed(Deadline::seconds(20.0))?;
    ensure!(std::fs::read(folder.path().join("target"))? == bytes, "other bytes came");
    Ok(())
}

/// Promise: A relay restores what another relay stripes or seals; a changed record is rejected.
fn what_is_sealed_is_opened_behind_another_relay() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let key = folder.path().join("key");
    std::fs::write(&key, random_bytes(32))?;
    let [seal, open] = ["seal", "open"].map(|name| format!("{name}:{}", key.display()));
    let bytes = random_bytes(100_000);
    let sealing =
        ["--in", "-", "--framing", "fixed:4096", "--handler", &seal, "--handler", "prefix", "--out", "-"];
    let sealed = run(&sealing, &bytes)?;
    ensure!(
        sealed.status.success() && sealed.stdout.len() == bytes.len() + 25 * (12 + 16 + 4),
        "{:?}",
        sealed.stderr
    );
    let opening =
        ["--in", "-", "--framing", "length32", "--handler", "unprefix", "--handler", &open, "--out", "-"];
    let opened = run(&opening, &sealed.stdout)?;
    ensure!(opened.status.success() && opened.stdout == bytes, "{:?}", String::from_utf8(opened.stderr)?);
    let mut damaged = sealed.stdout;
    damaged[10 * (4 + 12 + 4096 + 16) + 100] ^= 1;
    let opened = run(&opening, &damaged)?;
    ensure!(opened.stdout == bytes[..10 * 4096], "not what is before the record that was changed");
    let said = String::from_utf8(opened.stderr)?;
    ensure!(opened.status.code() == Some(1) && said.contains("decryption failed"), "{said}");
    ensure!(said.contains("opened 10") && said.contains("refused 1"), "{said}");
    Ok(())
}

/// Promise: A record that cannot be decrypted ends a byte stream with an error.
fn what_does_not_open_is_an_error() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for (name, byte) in [("key", 1), ("other", 2)] {
        std::fs::write(folder.path().join(name), [byte; 32])?;
    }
    let key = |kind: &str, name: &str| at(folder.path(), kind, name);
    let (source, sealed, opened) = (key("file", "key"), key("file", "sealed"), key("file", "opened"));
    let sealing =
        ["--in", &source, "--out", &sealed, "--framing", "fixed:16", "--handler", &key("seal", "key")];
    let output = run(&[&sealing[..], &["--handler", "prefix"]].concat(), b"")?;
    ensure!(output.status.success(), "{output:?}");
    let opening = ["--in", &sealed, "--out", &opened, "--framing", "length32", "--handler", "unprefix"];
    let output = run(&[&opening[..], &["--handler", &key("open", "other")]].concat(), b"")?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(1) && said.contains("decryption failed: wrong key"), "{said}");
    ensure!(!folder.path().join("opened").exists(), "an empty file is left");
    let output = run(&[&opening[..], &["--handler", &key("open", "key")]].concat(), b"")?;
    ensure!(output.status.success() && std::fs::read(folder.path().join("opened"))? == [1; 32], "{output:?}");
    Ok(())
}

/// Promise: The last line reports records that were lost, late or untagged.
///
/// An exit code alone tells nobody why.
fn what_an_order_missed_is_said() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("source"), random_bytes(10_000))?;
    let [source, one, two] = ["source", "one", "two"].map(|name| at(folder.path(), "file", name));
    let sharing = ["--framing", "fixed:1000", "--pattern", "shares:2", "--out", &one, "--out", &two];
    let shared = run(&[&["--in", &source], &sharing[..]].concat(), b"")?;
    ensure!(shared.status.success(), "{shared:?}");
    let alone = run(&["--in", &one, "--framing", "fixed:1012", "--order", "shares:2", "--out", "-"], b"")?;
    let said = String::from_utf8(alone.stderr)?;
    ensure!(
        alone.status.code() == Some(3) && said.contains(", 10 records lost for want of shares"),
        "{said}"
    );
    let untagged = run(&["--in", "-", "--framing", "line", "--order", "tag:40:2", "--out", "-"], b"a\nb\n")?;
    let said = String::from_utf8(untagged.stderr)?;
    ensure!(untagged.status.success() && said.contains(", 2 records without a tag"), "{said}");
    Ok(())
}

/// Promise: A programme is extracted from a multiplex; if it is missing, the error lists the others.
fn a_programme_is_taken_out_of_a_multiplex() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let clip = clips::two_programmes(2)?;
    let source = format!("file:{}", clip.display());
    let target = at(folder.path(), "file", "one.ts");
    let taking =
        relay(&["--in", &source, "--framing", "ts", "--handler", "ts:programme=2", "--out", &target])?;
    Process::start(&taking, true)?.succeed(Deadline::seconds(20.0))?;
    let mut inspect = Command::new(server::binary()?);
    inspect.args(["inspect", "--json"]).arg(folder.path().join("one.ts"));
    let inspected: Value = serde_json::from_slice(&inspect.output()?.stdout)?;
    let programmes = inspected["programmes"].as_array().context("no programmes")?;
    ensure!(programmes.len() == 1 && programmes[0]["number"] == 2, "{inspected}");
    Ok(())
}

/// Promise: A programme is extracted from a multiplex; if it is missing, the error lists the others.
///
/// An output without a byte would pass for what was asked for.
fn a_programme_that_is_not_there_is_a_failure_that_names_those_that_are() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = format!("file:{}", clips::two_programmes(2)?.display());
    let target = at(folder.path(), "file", "one.ts");
    let output = relay(&[
        "--in",
        &source,
        "--framing",
        "ts",
        "--handler",
        "ts:programme=9",
        "--out",
        &target,
        "--json",
        "-",
    ])?
    .output()?;
    let said = String::from_utf8(output.stderr)?;
    let why = "handler ts: programme 9 is not in the transport stream, which has programmes 1, 2";
    ensure!(output.status.code() == Some(1) && said.contains(why), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let found = serde_json::json!({"handler": "ts", "what": "found", "value": 0});
    ensure!(report["state"] == "failed" && report["error"] == why, "{report}");
    ensure!(report["reports"].as_array().is_some_and(|reports| reports.contains(&found)), "{report}");
    ensure!(!folder.path().join("one.ts").exists(), "an empty file is left");
    Ok(())
}

/// Promise: `relay` moves bytes between standard streams, files, TCP and Unix sockets, and reports them.
///
/// A real sender: what ffmpeg sends over TCP arrives as what it writes to a file.
fn ffmpeg_sends_through_a_relay() -> Result<()> {
    require!(find("ffmpeg").is_some(), "ffmpeg is not installed");
    let folder = tempfile::tempdir()?;
    let clip = clips::constant(2)?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let [mirror, target] = ["mirror.ts", "target.ts"].map(|name| folder.path().join(name));
    let inlet = format!("tcp://127.0.0.1:{port}?listen");
    let outlets = [&mirror, &target].map(|path| format!("file:{}", path.display()));
    let arguments = ["--in", &inlet, "--framing", "ts", "--out", &outlets[0], "--out", &outlets[1]];
    let mut receiving = Process::start(&relay(&arguments)?, true)?;
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-loglevel", "error", "-i"]).arg(&clip);
    ffmpeg.args(["-c", "copy", "-f", "mpegts"]);
    Deadline::seconds(20.0).wait_for("a relay that listens", || {
        let mut command = Command::new(ffmpeg.get_program());
        command.args(ffmpeg.get_args()).arg(format!("tcp://127.0.0.1:{port}"));
        Ok(command.output()?.status.success().then_some(()))
    })?;
    receiving.succeed(Deadline::seconds(20.0))?;
    let written = folder.path().join("written.ts");
    ensure!(ffmpeg.arg(&written).output()?.status.success(), "ffmpeg writes no file");
    let (written, mirror, target) = (std::fs::read(written)?, std::fs::read(mirror)?, std::fs::read(target)?);
    ensure!(!written.is_empty() && mirror == target && target == written, "other bytes came");
    Ok(())
}

/// Anybody may send a datagram: what is no transport stream is dropped, whoever divides it, and the rest goes
/// on.
fn hostile_datagrams_end_nothing_and_are_counted() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let packet = [&[0x47, 0x01, 0x00, 0x10][..], &[0; 184]].concat();
    for (index, arguments) in [["--framing", "ts"], ["--handler", "ts:pids=256"]].iter().enumerate() {
        let (receiver, sender, inlet) = (bound()?, bound()?, free_port()?);
        let addresses =
            [format!("udp://@127.0.0.1:{}", inlet.port()), format!("udp://{}", receiver.local_addr()?)];
        let report = folder.path().join(format!("{index}.json"));
        let mut reflecting = relay(&["--in", &addresses[0], "--out", &addresses[1]])?;
        reflecting.args(*arguments).arg("--json").arg(&report);
        let mut reflecting = Process::start(&reflecting, true)?;
        sender.connect(inlet)?;
        let mut buffer = [0; 2000];
        receiver.set_read_timeout(Some(std::time::Duration::from_millis(50)))?;
        // The relay may begin to listen between any two; by the second packet it has had what is hostile.
        let mut packets = 0;
        Deadline::seconds(10.0).wait_for("packets behind hostile datagrams", || {
            drop(sender.send(b"hostile"));
            drop(sender.send(&packet[..100]));
            drop(sender.send(&packet));
            let is_packet = receiver.recv(&mut buffer).is_ok_and(|length| buffer[..length] == packet);
            packets += u32::from(is_packet);
            Ok((packets > 1).then_some(()))
        })?;
        reflecting.signal(Signal::INT)?;
        let status = reflecting.wait(Deadline::seconds(10.0))?;
        ensure!(status.code() == Some(130), "{status}: {}", reflecting.log());
        let report: Value = serde_json::from_slice(&std::fs::read(report)?)?;
        let malformed = report["inputs"][0]["malformed_datagrams"].as_u64().context("no count")?;
        let refused =
            report["reports"].as_array().context("no reports")?.iter().find(|what| what["what"] == "refused");
        let refused = refused.and_then(|refused| refused["value"].as_u64()).unwrap_or(0);
        ensure!(malformed + refused >= 2 && (malformed > 0) == (index == 0), "{report}");
        ensure!(reflecting.log().contains("further ones are only counted"), "{}", reflecting.log());
    }
    Ok(())
}

/// Promise: Errors name wrong addresses and words and list the valid ones; an existing file is not
/// overwritten.
/// Promise: Errors of system calls say what to do.
fn wrong_addresses_and_words_are_named() -> Result<()> {
    let long = format!("unix:{}", "n".repeat(120));
    for (arguments, code, said) in [
        (&["--in", "-"][..], 2, "--out <ADDRESS>"),
        (
            &["--in", "video.ts", "--out", "-"],
            2,
            "'--in <ADDRESS>': invalid address; for a file write file:video.ts",
        ),
        (&["--in", "-", "--out", "127.0.0.1:80"], 2, "invalid address; for TCP write tcp://127.0.0.1:80"),
        (&["--in", "-", "--out", "file:/"], 1, "file:/: opening: is a folder; name a file in it"),
        (&["--in", "-", "--out", "file:/no/such/file"], 1, "opening: no folder /no/such; create it first"),
        (&["--in", "unix:/no/such/socket?listen", "--out", "-"], 1, "listening: no folder /no/such"),
        (
            &["--in", "-", "--out", "-", "--json", "/no/such/j"],
            1,
            "cannot write the result to /no/such/j: folder /no/such not found",
        ),
        (&["--in", "-", "--out", &long], 2, "path of 120 bytes is too long for a Unix socket"),
        (
            &["--in", "-", "--framing", "fixed:100KiB", "--out", "udp://127.0.0.1:9"],
            1,
            "udp://127.0.0.1:9: datagrams of 102400 bytes exceed the maximum of 65507; choose shorter records",
        ),
        (
            &["--in", "-", "--pattern", "stripe:64KiB", "--out", "udp://127.0.0.1:9"],
            1,
            "udp://127.0.0.1:9: datagrams of 65536 bytes exceed the maximum of 65507",
        ),
        (
            &["--in", "udp://@:9", "--in", "udp://@:9", "--out", "-"],
            1,
            "udp://@:9 is received twice; only one input gets the datagrams of a port",
        ),
        (&["--in", "-", "--out", "-", "--framing", "fixed"], 2, "fixed needs a size, such as fixed:64KiB"),
        (&["--in", "-", "--out", "-", "--handler", "rot13"], 2, "unknown handler \"rot13\": expected crc32c"),
        (&["--in", "file:/does/not/exist", "--out", "-"], 1, "file:/does/not/exist: opening: No such file"),
        (&["--in", "file:/", "--out", "-"], 1, "file:/: opening: is a directory"),
        (
            &["--in", "-", "--out", "unix:/does/not/exist"],
            1,
            "unix:/does/not/exist: connecting: No such file",
        ),
        (&["--in", "-", "--out", "udp://239.1.1.1:9?iface=nope"], 1, "finding the interface: No such device"),
        (&["--in", "udp://@[ff02::1234]:9", "--out", "-"], 1, "add ?iface=NAME"),
        (&["--in", "-", "--out", "-", "--pattern", "shares:2"], 1, "needs at least 2 outputs: 1 configured"),
        (
            &["--in", "-", "--out", "-", "--order", "shares:2"],
            1,
            "-: shares over a stream of bytes need --framing fixed:BYTES",
        ),
        (
            &["--in", "udp://@:9", "--out", "-", "--order", "join"],
            1,
            "datagrams may be lost, so portions cannot be",
        ),
        (&["--in", "-", "--out", "udp://@127.0.0.1:9"], 2, "udp://@ receives datagrams"),
        (&["--in", "-", "--out", "-", "--metrics", "foo"], 2, "expected ADDRESS:PORT"),
        (&["--in", "-", "--out", "-", "--handler", "seal:/dev/null"], 1, "32 random bytes, found 0"),
        (&["--in", "-", "--framing", "ts", "--out", "-"], 1, "begins with 0x47, this one with 0x78"),
        (&["--in", "-", "--framing", "length32", "--out", "-"], 1, "record of 2021161084 bytes or more"),
    ] {
        let output = run_quietly(arguments)?;
        let error = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(code) && error.contains(said), "{arguments:?}: {error}");
    }
    Ok(())
}

/// With some bytes on standard input, whether they are read or not.
fn run_quietly(arguments: &[&str]) -> Result<Output> {
    let mut file = tempfile::tempfile()?;
    file.write_all(&[0x78; 1000])?;
    std::io::Seek::rewind(&mut file)?;
    Ok(relay(arguments)?.stdin(file).stdout(Stdio::piped()).stderr(Stdio::piped()).output()?)
}

fn bound() -> Result<UdpSocket> {
    Ok(UdpSocket::bind("127.0.0.1:0")?)
}
