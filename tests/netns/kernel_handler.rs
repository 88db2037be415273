//! `wirepath relay` with an eBPF handler, over a link between two namespaces: what the kernel mirrors is what
//! user space mirrors.
//!
//! ```text
//!   client: the sender and the receivers      server: the relay
//!   10.77.0.2/24 veth ---------------------- veth 10.77.0.1/24
//! ```

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;
use wirepath_tests::namespace::{CLIENT, Link, SERVER};
use wirepath_tests::process::{Process, find};
use wirepath_tests::{Deadline, bpf, http, kernel, require, server, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        the_kernel_mirrors_what_user_space_mirrors,
        a_mirror_in_the_kernel_ends_with_its_stream,
        other_handlers_leave_the_kernel,
        a_mirror_whose_handlers_change_returns_to_the_kernel
    ]
}

/// Port of the relay, and of its page.
const PORT: u16 = 5004;
const PAGE: u16 = 9100;

/// Only a hang takes so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A relay with a handler that passes RTP, to two receivers.
struct Mirror {
    link: Link,
    relay: Process,
    sender: UdpSocket,
    receivers: [UdpSocket; 2],
    _folder: tempfile::TempDir,
}

impl Mirror {
    fn start(more: &[&str]) -> Result<Mirror> {
        let folder = tempfile::tempdir()?;
        let object = bpf::handler("rtp", folder.path())?;
        Mirror::with(Link::new()?, folder, &object, more)
    }

    fn with(link: Link, folder: tempfile::TempDir, object: &Path, more: &[&str]) -> Result<Mirror> {
        let receiver = || {
            let socket = UdpSocket::bind((CLIENT, 0))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            anyhow::Ok(socket)
        };
        let receivers = link.client.enter(|| Ok([receiver()?, receiver()?]))?;
        let sender = link.client.enter(|| {
            let socket = UdpSocket::bind((CLIENT, 0))?;
            socket.connect((SERVER, PORT))?;
            Ok(socket)
        })?;
        let mut command = link.server.command(server::binary()?);
        command.args(["relay", "--in", &format!("udp://@{SERVER}:{PORT}")]);
        for receiver in &receivers {
            command.args(["--out", &format!("udp://{}", receiver.local_addr()?)]);
        }
        command.args(["--metrics", &format!("{SERVER}:{PAGE}")]);
        command.arg("--handler").arg(format!("bpf:{}", object.display())).args(more);
        let relay = Process::start(&command, true)?;
        let mut mirror = Mirror { link, relay, sender, receivers, _folder: folder };
        let place = Deadline::seconds(30.0).wait_for("the place of the handler", || {
            ensure!(mirror.relay.is_running()?, "{}", mirror.relay.log());
            let log = mirror.relay.log();
            Ok(log.contains("the handler runs in").then_some(log))
        })?;
        let refused = place.contains("Operation not permitted") || place.contains("Permission denied");
        require!(!refused, "loading eBPF programs is not permitted here");
        Ok(mirror)
    }

    /// Sends a record and checks that both receivers get it, or that none does.
    fn send(&self, record: &[u8], passes: bool) -> Result<()> {
        self.sender.send(record)?;
        if !passes {
            return Ok(());
        }
        for (number, receiver) in self.receivers.iter().enumerate() {
            let mut came = vec![0; 65_536];
            let length = receiver.recv(&mut came).with_context(|| format!("receiver {number}"))?;
            ensure!(
                came[..length] == *record,
                "receiver {number} got {:?} of {length} bytes in place of {:?} of {}",
                &came[..length.min(20)],
                &record[..record.len().min(20)],
                record.len()
            );
        }
        Ok(())
    }

    /// Reports of the handler: passed, dropped, and of those in the kernel. None before the first sample.
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
        let page = SocketAddr::from((SERVER, PAGE));
        let answer = self.link.server.enter(|| http::get(page, "/api/status"))?;
        let status: Value = serde_json::from_slice(&answer.body)?;
        Ok(status["streams"][0].clone())
    }

    /// Changes the stream by a request, and returns the answer.
    fn change(&self, method: &str, path: &str, body: &str) -> Result<String> {
        let answer = self.link.server.enter(|| {
            let mut connection = http::connect((SERVER, PAGE).into())?;
            let head = format!("{method} /api/streams/command%20line/{path} HTTP/1.1\r\nHost: relay");
            write!(connection, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
            http::read_response(&mut connection, &mut Vec::new(), false)
        })?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        ensure!(answer.status / 100 == 2, "{method} {path} {body}: {} {text}", answer.status);
        Ok(text.trim_end().to_owned())
    }

    /// Waits until the status says that the handler runs in this place; none without a handler. In the kernel,
    /// it must have handled records since then.
    fn wait_for_place(&self, place: Option<&str>) -> Result<()> {
        let mut before = None;
        Deadline::seconds(60.0).wait_for(&format!("the place {place:?}"), || {
            if self.status()?["handler_place"]["place"].as_str() != place {
                return Ok(None);
            }
            let in_kernel = self.reports()?.map_or(0, |reports| reports[2]);
            let runs = in_kernel > 0 && *before.get_or_insert(in_kernel) != in_kernel;
            Ok((runs || place != Some("kernel")).then_some(()))
        })
    }

    /// Sends records until the kernel has mirrored some; returns how many were sent.
    fn send_until_in_kernel(&self) -> Result<u64> {
        let mut sent = 0;
        Deadline::seconds(60.0).wait_for("records in the kernel", || {
            self.send(&rtp(sent as u8, 100), true)?;
            sent += 1;
            Ok(self.reports()?.filter(|reports| reports[2] > 0).map(|_| sent))
        })
    }
}

/// A packet of RTP with a payload of so many bytes.
fn rtp(seed: u8, payload: usize) -> Vec<u8> {
    let mut packet = vec![0x80, 33, 0, seed, 0, 0, 0, 0, 1, 2, 3, 4];
    packet.extend((0..payload).map(|at| (at as u8).wrapping_mul(7) ^ seed));
    packet
}

/// Promise: An eBPF handler gives the same result in the kernel as in user space, record by record and in
/// order.
fn the_kernel_mirrors_what_user_space_mirrors() -> Result<()> {
    require!(find("ethtool").is_some(), "ethtool is not installed");
    // With checksums that the device is to fill in, and with those that the sender has filled in.
    for offload in ["on", "off"] {
        let mirror = Mirror::start(&[])?;
        ensure!(mirror.relay.log().contains("runs in the kernel"), "{}", mirror.relay.log());
        mirror.link.client.run(&format!("ethtool -K veth tx {offload}"))?;
        let mut passed = mirror.send_until_in_kernel()?;
        let mut dropped = 0;
        for number in 0..600_usize {
            // Lengths around what a handler sees, odd ones, and one that fills a packet.
            let payload = [0, 1, 99, 115, 116, 117, 118, 500, 1001, 1460][number % 10];
            let mut record = rtp(number as u8, payload);
            // Some are not RTP of version 2, and some are RTCP.
            record[0] = [0x80, 0x80, 0x81, 0x40, 0xbf, 0x80, 0x00][number % 7];
            record[1] = [33, 0xa1, 72, 96, 95, 63, 200, 0][number % 8];
            let is_rtp = record[0] >> 6 == 2 && !(64..=95).contains(&(record[1] & 0x7f));
            mirror.send(&record, is_rtp)?;
            (passed, dropped) = if is_rtp { (passed + 1, dropped) } else { (passed, dropped + 1) };
        }
        // Shorter than a header of RTP, and longer than a packet: in fragments, by user space.
        mirror.send(&[0x80; 11], false)?;
        mirror.send(&[], false)?;
        mirror.send(&rtp(1, 5_000), true)?;
        mirror.send(&rtp(2, 50), true)?;
        (passed, dropped) = (passed + 2, dropped + 2);
        let [.., in_kernel] = Deadline::seconds(20.0).wait_for("the counts of all records", || {
            let reports = mirror.reports()?.context("no reports")?;
            ensure!(reports[0] <= passed && reports[1] <= dropped, "{reports:?}: sent {passed}, {dropped}");
            Ok((reports[..2] == [passed, dropped]).then_some(reports))
        })?;
        ensure!(in_kernel > 200, "{in_kernel} of {passed} and {dropped} in the kernel");
        for receiver in &mirror.receivers {
            receiver.set_nonblocking(true)?;
            ensure!(receiver.recv(&mut [0; 100]).is_err(), "more came than was sent");
        }
    }
    Ok(())
}

/// Promise: A mirror in the kernel ends with its stream, also if the process is killed.
///
/// Killed only on Linux 6.6 and newer: before, programs outlive a process that does not detach them (decision 22).
fn a_mirror_in_the_kernel_ends_with_its_stream() -> Result<()> {
    let mut mirror = Mirror::start(&[])?;
    mirror.send_until_in_kernel()?;
    mirror.relay.signal(if kernel::release()? >= (6, 6) { Signal::KILL } else { Signal::TERM })?;
    mirror.relay.wait(Deadline::seconds(20.0))?;
    // The port is nobody's: an ICMP error comes back, which the program would have kept from the kernel.
    // It would have been in vain for five seconds: so long the mirror knows its receivers.
    let refused = Deadline::seconds(1.0).wait_for("a port that nobody has", || {
        let sent = mirror.sender.send(&rtp(1, 1));
        Ok(sent.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused).then_some(()))
    });
    refused.context("datagrams still go to the kernel's mirror")
}

/// Promise: A handler that is not the only one runs in user space.
fn other_handlers_leave_the_kernel() -> Result<()> {
    let mirror = Mirror::start(&["--remote-control"])?;
    let sent = mirror.send_until_in_kernel()?;
    mirror.change("POST", "handlers", "begins:\x21")?;
    Deadline::seconds(20.0).wait_for("user space", || {
        Ok(mirror.relay.log().contains("user space: there are other handlers beside it").then_some(()))
    })?;
    // The other handler drops it, and counts it.
    mirror.send(&rtp(1, 10), false)?;
    Deadline::seconds(20.0).wait_for("the count of the record", || {
        Ok(mirror.reports()?.filter(|reports| reports[0] > sent).map(drop))
    })?;
    for receiver in &mirror.receivers {
        receiver.set_nonblocking(true)?;
        ensure!(receiver.recv(&mut [0; 100]).is_err(), "the other handler did not see a record");
    }
    let beside = Mirror::start(&["--handler", "meter"])?;
    ensure!(beside.relay.log().contains("there are other handlers beside it"), "{}", beside.relay.log());
    beside.send(&rtp(3, 10), true)?;
    Deadline::seconds(20.0).wait_for("the count of the record", || {
        Ok(beside.reports()?.filter(|reports| *reports == [1, 0, 0]).map(drop))
    })
}

/// Most records under way that all receivers are to get.
const WINDOW: u32 = 32;

/// Number of the last record.
const LAST: u32 = u32::MAX;

/// Numbered records, sent in bursts: even numbers are RTP, odd ones are not.
#[derive(Default)]
struct Numbered {
    /// Number of the next record.
    next: AtomicU32,
    /// Number behind that of the last even record that each receiver got.
    received: [AtomicU32; 2],
    has_stopped: AtomicBool,
}

impl Numbered {
    fn record(number: u32) -> Vec<u8> {
        let is_rtp = number.is_multiple_of(2) || number == LAST;
        let mut record = rtp(number as u8, number as usize % 300);
        record[0] = if is_rtp { 0x80 } else { 0x40 };
        record[4..8].copy_from_slice(&number.to_be_bytes());
        record
    }

    fn send(&self, mirror: &Mirror) -> Result<()> {
        while !self.has_stopped.load(Ordering::Relaxed) {
            let number = self.next.load(Ordering::Relaxed);
            Deadline::seconds(30.0).wait_for("the records before", || {
                let least = self.received.iter().map(|received| received.load(Ordering::Relaxed)).min();
                let has_stopped = self.has_stopped.load(Ordering::Relaxed);
                Ok((has_stopped || number < least.unwrap_or(0) + 2 * WINDOW).then_some(()))
            })?;
            mirror.sender.send(&Numbered::record(number))?;
            self.next.store(number + 1, Ordering::Relaxed);
            // In bursts, so that records wait in user space.
            if number.is_multiple_of(16) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        mirror.sender.send(&Numbered::record(LAST)).map(drop).context("sending the last record")
    }

    /// Receives until the last record; returns the numbers of the others.
    fn receive(&self, mirror: &Mirror, receiver: usize) -> Result<Vec<u32>> {
        let (mut numbers, mut came) = (Vec::new(), [0; 2_000]);
        loop {
            let length = mirror.receivers[receiver].recv(&mut came).context("a record did not come")?;
            let number = u32::from_be_bytes(came[4..8].try_into()?);
            ensure!(came[..length] == Numbered::record(number), "record {number} has changed");
            if number == LAST {
                return Ok(numbers);
            }
            numbers.push(number);
            if number.is_multiple_of(2) {
                self.received[receiver].store(number + 1, Ordering::Relaxed);
            }
        }
    }
}

/// Numbers of records between two changes, and whether those that are not RTP pass.
type Phase = (std::ops::Range<u32>, bool);

/// Changes of a stream while records are sent: request, place of the handler after it, and whether records pass
/// that are not RTP.
const CHANGES: [([&str; 3], Option<&str>, bool); 8] = [
    (["PUT", "handlers/0", "bpf:pass.bpf.o"], Some("kernel"), true),
    (["POST", "handlers", "meter"], Some("user_space"), true),
    (["DELETE", "handlers/1", ""], Some("kernel"), true),
    (["PUT", "options/rate", "1GB/s"], Some("user_space"), true),
    (["PUT", "options/rate", "none"], Some("kernel"), true),
    (["PUT", "handlers/0", "bpf:rtp.bpf.o"], Some("kernel"), false),
    (["DELETE", "handlers/0", ""], None, true),
    (["POST", "handlers", "bpf:rtp.bpf.o"], Some("kernel"), false),
];

fn make_changes(mirror: &Mirror, records: &Numbered) -> Result<Vec<Phase>> {
    let now = || records.next.load(Ordering::Relaxed);
    mirror.wait_for_place(Some("kernel"))?;
    // Records under way when a request begins may be judged before or after it.
    let mut phases = vec![(0..now().saturating_sub(2 * WINDOW + 2), false)];
    for ([method, path, body], place, all_pass) in CHANGES {
        mirror.change(method, path, body)?;
        let begin = now() + 1;
        mirror.wait_for_place(place)?;
        Deadline::seconds(30.0)
            .wait_for("more records", || Ok((now() > begin + 10 * WINDOW).then_some(())))?;
        phases.push((begin..now() - 2 * WINDOW - 2, all_pass));
    }
    Ok(phases)
}

/// Promise: Handlers of a mirror in the kernel are replaced, removed and added over HTTP; the kernel mirrors again
/// after it.
///
/// No record is lost, doubled or reordered, and each change holds from one record on.
fn a_mirror_whose_handlers_change_returns_to_the_kernel() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let object = bpf::handler("rtp", folder.path())?;
    bpf::handler("pass", folder.path())?;
    let named = folder.path().display().to_string();
    let more = ["--remote-control", "--handler-folder", named.as_str()];
    let mirror = Mirror::with(Link::new()?, folder, &object, &more)?;
    ensure!(mirror.relay.log().contains("runs in the kernel"), "{}", mirror.relay.log());
    let (mirror, records) = (&mirror, &Numbered::default());
    let (phases, sent, received) = std::thread::scope(|scope| {
        let receivers = [0, 1].map(|receiver| scope.spawn(move || records.receive(mirror, receiver)));
        let sender = scope.spawn(|| records.send(mirror));
        let phases = make_changes(mirror, records);
        records.has_stopped.store(true, Ordering::Relaxed);
        let panicked = |_| anyhow::anyhow!("a thread panicked");
        let sent = sender.join().map_err(panicked).flatten();
        (phases, sent, receivers.map(|receiver| receiver.join().map_err(panicked).flatten()))
    });
    sent.with_context(|| mirror.relay.log())?;
    let phases = phases.with_context(|| mirror.relay.log())?;
    let end = records.next.load(Ordering::Relaxed);
    for (receiver, numbers) in received.into_iter().enumerate() {
        let numbers = numbers?;
        let disorder = numbers.windows(2).find(|pair| pair[0] >= pair[1]);
        ensure!(disorder.is_none(), "receiver {receiver} got {disorder:?}");
        let mut came = vec![false; end as usize];
        numbers.iter().for_each(|number| came[*number as usize] = true);
        let lost = came.iter().step_by(2).position(|came| !came);
        ensure!(lost.is_none(), "receiver {receiver} did not get record {:?}", lost.map(|place| 2 * place));
        for (range, all_pass) in &phases {
            let wrong = range.clone().find(|number| number % 2 == 1 && came[*number as usize] != *all_pass);
            ensure!(
                wrong.is_none(),
                "receiver {receiver}, {range:?}: record {wrong:?} passed: {}",
                !all_pass
            );
        }
        let odd: Vec<bool> = came.iter().skip(1).step_by(2).copied().collect();
        let turns = odd.windows(2).filter(|pair| pair[0] != pair[1]).count();
        ensure!(turns == 4, "receiver {receiver}: {turns} changes of what passes");
    }
    Ok(())
}
