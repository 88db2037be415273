//! `wirepath relay` as people use it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;
use wirepath_tests::process::{Process, find};
use wirepath_tests::proxy::silence_left;
use wirepath_tests::{Deadline, clips, require, server, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        lines_go_from_standard_input_to_standard_output,
        a_file_goes_over_a_socket_to_files_without_a_copy,
        datagrams_are_reflected_to_every_receiver,
        stripes_over_sockets_are_put_together_again,
        what_is_sealed_is_opened_behind_another_relay,
        a_programme_is_taken_out_of_a_multiplex,
        a_programme_that_is_not_there_is_a_failure_that_names_those_that_are,
        ffmpeg_sends_through_a_relay,
        wrong_addresses_and_words_are_named,
        a_file_that_exists_is_left_as_it_is,
        a_file_that_nothing_was_written_to_is_not_left,
        files_of_a_shell_keep_their_place,
        a_signal_ends_it_whatever_it_waits_for,
        connections_are_waited_for_and_said_so,
        who_connects_and_resets_has_come,
        peers_that_say_nothing_are_asked_for,
        hostile_datagrams_end_nothing_and_are_counted,
        what_a_peer_did_not_get_is_no_success,
        outputs_that_are_gone_stay_in_the_report,
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
    child.stdin.take().context("a pipe")?.write_all(input)?;
    Ok(child.wait_with_output()?)
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

fn lines_go_from_standard_input_to_standard_output() -> Result<()> {
    let arguments =
        ["--in", "-", "--out", "-", "--framing", "line", "--handler", "match:wire", "--handler", "crc32c"];
    let output = run(&arguments, b"a wire\nnothing\nlast wire")?;
    ensure!(output.status.success() && output.stdout == b"a wire\nlast wire", "{output:?}");
    let said = String::from_utf8(output.stderr)?;
    ensure!(said.contains("24 B in, 16 B out") && said.contains("crc32c: crc32c "), "{said}");
    Ok(())
}

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
    ensure!(report["bytes_in"] == 3_000_000 && report["bytes_unseen"] == 3_000_000, "{report}");
    ensure!(!folder.path().join("inlet").exists(), "the socket's name is left");
    Ok(())
}

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
    damaged[100] ^= 1;
    let opened = run(&opening, &damaged)?;
    ensure!(opened.stdout == bytes[4096..], "a record that was changed came through");
    ensure!(String::from_utf8(opened.stderr)?.contains("open: refused 1"));
    Ok(())
}

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

/// A real sender: what ffmpeg sends over TCP arrives as what it writes to a file.
fn ffmpeg_sends_through_a_relay() -> Result<()> {
    require!(find("ffmpeg").is_some(), "ffmpeg is not installed");
    let folder = tempfile::tempdir()?;
    let clip = clips::constant(2)?;
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
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

/// Anybody may send a datagram: what is no transport stream is dropped, whoever divides it, and the rest goes on.
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
        ensure!(reflecting.log().contains("what follows like it is only counted"), "{}", reflecting.log());
    }
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

fn wrong_addresses_and_words_are_named() -> Result<()> {
    for (arguments, code, said) in [
        (&["--in", "-"][..], 2, "--out <ADDRESS>"),
        (&["--in", "video.ts", "--out", "-"], 2, "'--in <ADDRESS>': this is no address; there are tcp://"),
        (&["--in", "-", "--out", "-", "--framing", "fixed"], 2, "fixed needs a size, as fixed:64KiB"),
        (&["--in", "-", "--out", "-", "--handler", "rot13"], 2, "rot13 is no handler; there are crc32c"),
        (&["--in", "file:/does/not/exist", "--out", "-"], 1, "file:/does/not/exist: opening: No such file"),
        (&["--in", "file:/", "--out", "-"], 1, "file:/: opening: is a directory"),
        (
            &["--in", "-", "--out", "unix:/does/not/exist"],
            1,
            "unix:/does/not/exist: connecting: No such file",
        ),
        (
            &["--in", "-", "--out", "udp://239.1.1.1:9?iface=nope"],
            1,
            "looking for the interface: No such device",
        ),
        (&["--in", "udp://@[ff02::1234]:9", "--out", "-"], 1, "say which one with ?iface=NAME"),
        (
            &["--in", "-", "--out", "-", "--pattern", "shares:2"],
            1,
            "takes at least 2 outputs, and there are 1",
        ),
        (
            &["--in", "-", "--out", "-", "--order", "shares"],
            1,
            "-: shares over a stream of bytes need --framing fixed:BYTES",
        ),
        (&["--in", "-", "--out", "udp://@127.0.0.1:9"], 2, "with @ datagrams are received"),
        (&["--in", "-", "--out", "-", "--metrics", "foo"], 2, "such as 127.0.0.1:9100"),
        (
            &["--in", "-", "--out", "-", "--handler", "seal:/dev/null"],
            1,
            "32 random bytes, and this one has 0",
        ),
        (&["--in", "-", "--framing", "ts", "--out", "-"], 1, "begins with 0x47, this one with 0x78"),
        (&["--in", "-", "--framing", "length32", "--out", "-"], 1, "a record of 2021161084 bytes or more"),
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

fn a_file_that_exists_is_left_as_it_is() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path: PathBuf = folder.path().join("target");
    std::fs::write(&path, "before ")?;
    let to = |option: &str| {
        run(&["--in", "-", "--out", &at(folder.path(), "file", &format!("target{option}"))], b"after")
    };
    let refused = to("")?;
    ensure!(refused.status.code() == Some(1), "{refused:?}");
    ensure!(String::from_utf8(refused.stderr)?.contains("it exists; add ?append or ?overwrite"));
    ensure!(std::fs::read(&path)? == b"before ");
    ensure!(to("?append")?.status.success() && std::fs::read(&path)? == b"before after");
    ensure!(to("?overwrite")?.status.success() && std::fs::read(&path)? == b"after");
    let target = at(folder.path(), "file", "target?overwrite");
    let missing = run(&["--in", "file:/does/not/exist", "--out", &target], b"")?;
    ensure!(!missing.status.success() && std::fs::read(&path)? == b"after", "overwritten for nothing");
    // A file is opened behind a connection, wherever it stands.
    let nowhere = at(folder.path(), "unix", "nowhere");
    let missing = run(&["--in", "-", "--out", &target, "--out", &nowhere], b"")?;
    ensure!(!missing.status.success() && std::fs::read(&path)? == b"after", "overwritten for nothing");
    let itself = run(&["--in", &at(folder.path(), "file", "target"), "--out", &target], b"")?;
    ensure!(
        String::from_utf8(itself.stderr)?.contains("is the same file as")
            && std::fs::read(&path)? == b"after"
    );
    Ok(())
}

/// The next start would be refused for it.
fn a_file_that_nothing_was_written_to_is_not_left() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("target");
    let (inlet, target) = (at(folder.path(), "unix", "inlet?listen"), at(folder.path(), "file", "target"));
    let nothing = || run(&["--in", "-", "--out", &target], b"");

    // Nobody connects, or somebody does and sends nothing. The file is there meanwhile.
    for connects in [false, true] {
        let mut waiting = Process::start(&relay(&["--in", &inlet, "--out", &target])?, true)?;
        Deadline::seconds(10.0).wait_for("a line that says where it waits", || {
            Ok(waiting.log().contains("waiting for a connection").then_some(()))
        })?;
        ensure!(path.exists(), "no file: {}", waiting.log());
        let _client = connects.then(|| UnixStream::connect(folder.path().join("inlet"))).transpose()?;
        waiting.signal(Signal::INT)?;
        let status = waiting.wait(Deadline::seconds(10.0))?;
        ensure!(status.code() == Some(130) && !path.exists(), "{status}: {}", waiting.log());
    }

    // Another output, or the beginning of the stream, fails.
    let taken = at(folder.path(), "file", "taken");
    std::fs::write(folder.path().join("taken"), "")?;
    let missing = at(folder.path(), "unix", "missing");
    for more in [["--out", &taken], ["--out", &missing], ["--framing", "ts"]] {
        let failed = run(&[&["--in", "-", "--out", &target], &more[..]].concat(), &[0x78; 1000])?;
        ensure!(failed.status.code() == Some(1) && !path.exists(), "{more:?}: {failed:?}");
    }
    ensure!(std::fs::read(folder.path().join("taken"))?.is_empty(), "what was there stays");

    // An input that ends well with no bytes is a file with no bytes.
    ensure!(nothing()?.status.success() && std::fs::read(&path)?.is_empty());
    ensure!(nothing()?.status.code() == Some(1) && path.exists(), "the file of before");
    Ok(())
}

/// As `{ echo first; read line; relay; echo last; } < source > target`: each goes on where the one before it was.
fn files_of_a_shell_keep_their_place() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let bytes = random_bytes(3_000_000);
    std::fs::write(folder.path().join("source"), &bytes)?;
    for framing in ["whole", "fixed:1000"] {
        let mut source = File::open(folder.path().join("source"))?;
        let mut target = File::create(folder.path().join("target"))?;
        source.seek(SeekFrom::Start(1000))?;
        target.write_all(b"first")?;
        let arguments = ["--in", "-", "--out", "-", "--framing", framing];
        let output = relay(&arguments)?.stdin(source.try_clone()?).stdout(target.try_clone()?).output()?;
        ensure!(output.status.success(), "{output:?}");
        target.write_all(b"last")?;
        ensure!(source.stream_position()? == 3_000_000, "{framing}");
        let written = std::fs::read(folder.path().join("target"))?;
        ensure!(
            written == [b"first", &bytes[1000..], b"last"].concat(),
            "{framing}: {} bytes",
            written.len()
        );
    }
    Ok(())
}

fn a_signal_ends_it_whatever_it_waits_for() -> Result<()> {
    let folder = tempfile::tempdir()?;
    // For somebody to connect.
    let inlet = at(folder.path(), "unix", "inlet?listen");
    let mut waiting = Process::start(&relay(&["--in", &inlet, "--out", "-"])?, true)?;
    wait_for(&folder.path().join("inlet"))?;
    waiting.signal(Signal::TERM)?;
    let status = waiting.wait(Deadline::seconds(10.0))?;
    ensure!(status.code() == Some(143), "{status}: {}", waiting.log());
    ensure!(waiting.log().contains("nobody connected to"), "{}", waiting.log());
    // What a process that was killed leaves.
    let left = folder.path().join("left");
    drop(UnixListener::bind(&left)?);
    let output = relay(&["--in", &at(folder.path(), "unix", "left?listen"), "--out", "-"])?.output()?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(
        output.status.code() == Some(1) && said.contains("nobody listens there any more: remove it"),
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
    refused("film?listen", "the name is taken: a file or folder has it")?;
    let used = at(folder.path(), "unix", "used?listen");
    let mut waiting = Process::start(&relay(&["--in", &used, "--out", "-"])?, true)?;
    wait_for(&folder.path().join("used"))?;
    refused("used?listen", "the name is taken: it is in use")?;
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

fn bound() -> Result<UdpSocket> {
    Ok(UdpSocket::bind("127.0.0.1:0")?)
}

/// A port that nobody has now.
pub(crate) fn free_port() -> Result<SocketAddr> {
    Ok(bound()?.local_addr()?)
}

/// Waits until a relay says that it waits there.
fn wait_until_said(relay: &Process, address: &str) -> Result<()> {
    let line = format!("wirepath: waiting for a connection at {address}\n");
    Deadline::seconds(20.0).wait_for(&line, || Ok(relay.log().contains(&line).then_some(())))
}

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

/// Whether it connects or is connected to.
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

fn who_connects_and_resets_has_come() -> Result<()> {
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
