//! `wirepath relay` with an eBPF handler whose stream goes on in user space: the kernel drops in front of the socket
//! what user space would drop. Topology: that of `kernel_handler`.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::Value;
use wirepath_datapath::socket::set_segment;
use wirepath_tests::namespace::{CLIENT, Link, Namespace, SERVER};
use wirepath_tests::process::Process;
use wirepath_tests::{Deadline, bpf, http, require, server, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        the_kernel_drops_what_user_space_would_drop,
        a_handler_that_is_removed_drops_nothing_more,
        early_drops_are_those_of_the_current_handler,
        a_tap_is_left_to_user_space,
        a_mirror_with_a_rate_has_early_drops
    ]
}

const PORT: u16 = 5004;
const PAGE: u16 = 9100;

/// Records that are sent before their bytes are awaited: fewer than a socket's buffer takes.
const AT_ONCE: usize = 40;

/// A relay that writes RTP to a file.
struct Selection {
    link: Link,
    relay: Process,
    sender: UdpSocket,
    file: PathBuf,
    expected: Vec<u8>,
    dropped: u64,
    folder: tempfile::TempDir,
}

impl Selection {
    fn start() -> Result<Selection> {
        let folder = tempfile::tempdir()?;
        let object = bpf::handler("rtp", folder.path())?;
        let link = Link::new()?;
        let sender = link.client.enter(|| {
            let socket = UdpSocket::bind((CLIENT, 0))?;
            socket.connect((SERVER, PORT))?;
            Ok(socket)
        })?;
        let file = folder.path().join("records");
        let mut command = link.server.command(server::binary()?);
        command.args(["relay", "--in", &format!("udp://@{SERVER}:{PORT}"), "--remote-control"]);
        command
            .args(["--metrics", &format!("{SERVER}:{PAGE}"), "--out"])
            .arg(format!("file:{}", file.display()));
        command.arg("--handler").arg(format!("bpf:{}", object.display())).args(["--handler", "meter"]);
        command.arg("--handler-folder").arg(folder.path());
        let relay = Process::start(&command, true)?;
        let mut selection = Selection { link, relay, sender, file, expected: Vec::new(), dropped: 0, folder };
        let log = Deadline::seconds(30.0).wait_for("the place of the handler", || {
            ensure!(selection.relay.is_running()?, "{}", selection.relay.log());
            let log = selection.relay.log();
            Ok(log.contains("the handler runs in").then_some(log))
        })?;
        let refused = log.contains("Operation not permitted") || log.contains("Permission denied");
        require!(!refused, "loading eBPF programs is not permitted here");
        ensure!(log.contains("other handlers beside it; the kernel drops records for it"), "{log}");
        Ok(selection)
    }

    /// Sends a record that comes to the file if it is RTP.
    fn send(&mut self, record: &[u8]) -> Result<()> {
        self.sender.send(record)?;
        self.expect(record);
        Ok(())
    }

    fn expect(&mut self, record: &[u8]) {
        if is_rtp(record) {
            self.expected.extend(record);
        } else {
            self.dropped += 1;
        }
    }

    /// Waits until all that was sent is in the file.
    fn check(&self) -> Result<()> {
        let expected = self.expected.len();
        let written = Deadline::seconds(30.0).wait_for("the records in the file", || {
            let written = std::fs::read(&self.file)?;
            Ok((written.len() >= expected).then_some(written))
        })?;
        ensure!(written == self.expected, "{} bytes in the file, {expected} expected", written.len());
        Ok(())
    }

    /// Counts of the handler: passed, dropped, and of those in the kernel.
    fn reports(&self) -> Result<Option<[u64; 3]>> {
        let reports = self.status()?["reports"].as_array().context("no reports")?.clone();
        let of = |what: &str| {
            let report = reports.iter().find(|report| report["handler"] == "bpf" && report["what"] == what);
            report?["value"].as_u64()
        };
        Ok((|| Some([of("passed")?, of("dropped")?, of("in_kernel")?]))())
    }

    /// Status of the stream.
    fn status(&self) -> Result<Value> {
        let answer = self.link.server.enter(|| http::get((SERVER, PAGE).into(), "/api/status"))?;
        let status: Value = serde_json::from_slice(&answer.body)?;
        Ok(status["streams"][0].clone())
    }

    /// Changes the handlers by a request.
    fn change(&self, method: &str, path: &str, body: &str) -> Result<()> {
        let answer = self.link.server.enter(|| {
            let mut connection = http::connect(SocketAddr::from((SERVER, PAGE)))?;
            let head = format!("{method} /api/streams/command%20line/{path} HTTP/1.1\r\nHost: relay");
            write!(connection, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
            http::read_response(&mut connection, &mut Vec::new(), false)
        })?;
        ensure!(answer.status / 100 == 2, "{} {:?}", answer.status, String::from_utf8_lossy(&answer.body));
        Ok(())
    }

    /// Waits until the status says that the handler runs in this place; none without a handler.
    fn wait_for_place(&self, place: Option<&str>) -> Result<()> {
        Deadline::seconds(30.0).wait_for(&format!("the place {place:?}"), || {
            Ok((self.status()?["handler_place"]["place"].as_str() == place).then_some(()))
        })
    }

    /// Sends records that the handler drops until the kernel drops some.
    fn drop_in_kernel(&mut self) -> Result<()> {
        let before = self.reports()?.map_or(0, |reports| reports[2]);
        Deadline::seconds(30.0).wait_for("drops in the kernel", || {
            self.send(&[7; 300])?;
            Ok(self.reports()?.filter(|reports| reports[2] > before).map(drop))
        })?;
        self.check()
    }

    /// Sends records of which all pass, and checks that they come to the file.
    fn pass_all(&mut self) -> Result<()> {
        for number in 0..AT_ONCE as u8 {
            self.sender.send(&[number; 300])?;
            self.expected.extend([number; 300]);
        }
        self.check()
    }
}

/// Decision of `kernel/bpf/rtp.bpf.c`.
fn is_rtp(record: &[u8]) -> bool {
    record.len() >= 12 && record[0] >> 6 == 2 && !(64..=95).contains(&(record[1] & 0x7f))
}

/// Numbers at random from a seed (a linear congruence).
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// A record at random, of which some are RTP.
fn record(state: &mut u64, length: usize) -> Vec<u8> {
    let mut record: Vec<u8> = (0..length).map(|_| random(state) as u8).collect();
    for (at, first) in [[0x80, 33], [0x81, 0xe0], [0xbf, 72], [0x7f, 33], [0xc0, 33]][random(state) % 5]
        .into_iter()
        .enumerate()
    {
        record.get_mut(at).into_iter().for_each(|byte| *byte = first);
    }
    record
}

/// Promise: Records that an eBPF handler drops in the kernel, before the socket, are those that user space
/// would drop.
fn the_kernel_drops_what_user_space_would_drop() -> Result<()> {
    let mut selection = Selection::start()?;
    let mut state = 17;
    let mut records = 0;
    for round in 0..15 {
        for _ in 0..AT_ONCE {
            let length = [0, 1, 11, 12, 13, 127, 128, 129, 1_472][random(&mut state) % 9];
            let length = if length == 1_472 { random(&mut state) % 1_473 } else { length };
            selection.send(&record(&mut state, length))?;
            records += 1;
        }
        // Of a train that a sender hands over at once each record is judged.
        set_segment(selection.sender.as_fd(), 200)?;
        let train: Vec<Vec<u8>> = (0..8).map(|_| record(&mut state, 200)).collect();
        selection.sender.send(&train.concat())?;
        set_segment(selection.sender.as_fd(), 0)?;
        train.iter().for_each(|record| selection.expect(record));
        records += train.len() as u64;
        selection.check().with_context(|| format!("round {round}"))?;
    }
    // Datagrams in fragments come to user space, passed and dropped.
    let in_kernel = selection.dropped;
    let mut long = record(&mut state, 5_000);
    for version in [0x80, 0x00, 0x80] {
        (long[0], long[1]) = (version, 33);
        selection.send(&long)?;
    }
    selection.check()?;
    let expected = [records + 3 - selection.dropped, selection.dropped, in_kernel];
    ensure!(in_kernel > 200, "{in_kernel} of {records} records are to be dropped");
    let reports = Deadline::seconds(20.0).wait_for("the counts of all records", || {
        Ok(selection.reports()?.filter(|reports| reports[0] >= expected[0] && reports[1] >= expected[1]))
    })?;
    ensure!(reports == expected, "passed, dropped, in the kernel: {reports:?}, expected {expected:?}");
    Ok(())
}

/// Promise: A handler that is removed while it drops records in the kernel drops no further records.
fn a_handler_that_is_removed_drops_nothing_more() -> Result<()> {
    let mut selection = Selection::start()?;
    selection.send(&[7; 300])?;
    selection.send(&[&[0x80, 33][..], &[1; 100]].concat())?;
    selection.check()?;
    selection.change("DELETE", "handlers/0", "")?;
    selection.sender.send(&[7; 300])?;
    selection.expected.extend([7; 300]);
    selection.check()?;
    ensure!(selection.folder.path().exists(), "the file's folder is gone");
    Ok(())
}

/// Promise: Early drops in the kernel follow the handlers that are set over HTTP; the program stays attached to the
/// device.
fn early_drops_are_those_of_the_current_handler() -> Result<()> {
    let mut selection = Selection::start()?;
    bpf::handler("pass", selection.folder.path())?;
    selection.drop_in_kernel()?;
    selection.change("PUT", "handlers/0", "bpf:pass.bpf.o")?;
    selection.pass_all()?;
    selection.wait_for_place(Some("kernel_drops"))?;
    selection.pass_all()?;
    selection.change("PUT", "handlers/0", "bpf:rtp.bpf.o")?;
    selection.drop_in_kernel()?;
    // The other handler: the stream writes to a file, so the kernel does not mirror it.
    selection.change("DELETE", "handlers/1", "")?;
    selection.drop_in_kernel()?;
    selection.wait_for_place(Some("kernel_drops"))?;
    selection.change("DELETE", "handlers/0", "")?;
    selection.pass_all()?;
    selection.wait_for_place(None)?;
    let devices = selection.link.server.run("ip -details link show dev veth")?;
    ensure!(devices.contains("xdp"), "the program was detached: {devices}");
    selection.change("POST", "handlers", "bpf:rtp.bpf.o")?;
    selection.wait_for_place(Some("kernel_drops"))?;
    selection.drop_in_kernel()?;
    selection.send(&[&[0x80, 33][..], &[1; 100]].concat())?;
    selection.check()
}

/// Starts a relay in a network namespace and returns what it says of the place of its handler.
fn said_place(namespace: &Namespace, address: Ipv4Addr, more: &[&str]) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let object = bpf::handler("rtp", folder.path())?;
    let mut command = namespace.command(server::binary()?);
    command.args(["relay", "--in", &format!("udp://@{address}:{PORT}")]).args(more);
    command.arg("--handler").arg(format!("bpf:{}", object.display()));
    let mut relay = Process::start(&command, true)?;
    let log = Deadline::seconds(30.0).wait_for("the place of the handler", || {
        ensure!(relay.is_running()?, "{}", relay.log());
        let log = relay.log();
        Ok(log.contains("the handler runs in").then_some(log))
    })?;
    let refused = log.contains("Operation not permitted") || log.contains("Permission denied");
    require!(!refused, "loading eBPF programs is not permitted here");
    Ok(log)
}

/// Promise: The kernel drops no records early on TUN and TAP devices, as it would judge a train by its first
/// record.
fn a_tap_is_left_to_user_space() -> Result<()> {
    let namespace = Namespace::new()?;
    require!(Path::new("/dev/net/tun").exists(), "this kernel has no TUN and TAP devices");
    namespace.ip("tuntap add dev tap0 mode tap")?;
    namespace.ip(&format!("address add {SERVER}/24 dev tap0"))?;
    let log = said_place(&namespace, SERVER, &["--out", "udp://127.0.0.1:5006", "--pattern", "stripe"])?;
    ensure!(log.contains("tap0 is a TUN or TAP device"), "{log}");
    Ok(())
}

/// Promise: A mirror with a limited rate runs in user space, while the kernel drops records early for it.
fn a_mirror_with_a_rate_has_early_drops() -> Result<()> {
    let link = Link::new()?;
    let out = format!("udp://{CLIENT}:{PORT}");
    let log = said_place(&link.server, SERVER, &["--out", &out, "--rate", "10Mbit/s"])?;
    ensure!(log.contains("a rate limits the stream; the kernel drops records for it"), "{log}");
    Ok(())
}
