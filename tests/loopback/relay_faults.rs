//! `wirepath relay` when what it reads from, writes to or lives on fails: what it took is delivered, or said
//! to be lost, to the byte.

pub(crate) mod rig;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::net::sockopt;
use rustix::process::Signal;
use serde_json::Value;
use wirepath_testkit::SmallDisk;
use wirepath_tests::ports::free_port;
use wirepath_tests::process::{Process, find};
use wirepath_tests::{Deadline, require, trials};

use crate::relay::random_bytes;
use rig::{RECORD, Rig, ended, number_before, numbers, output, record, records};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_receiver_killed_costs_a_mirror_only_itself,
        a_source_that_resets_ends_it_and_what_came_is_delivered,
        a_receiver_that_stops_is_waited_for,
        records_are_dropped_for_a_receiver_that_stops_and_counted,
        a_receiver_that_stops_is_detached_and_its_loss_reported,
        a_full_disk_leaves_what_was_written_and_costs_a_mirror_only_its_file,
        every_byte_arrives_through_buffers_with_hardly_any_room,
        vanished_receivers_of_datagrams_are_counted_and_affect_no_other,
        a_signal_in_the_middle_ends_it_with_every_byte_accounted_for,
    ]
}

/// Promise: A mirror continues if a receiver is killed or a disk is full, and reports the loss.
/// Promise: A lost output or missing shares give exit code 3; requested drops do not.
fn a_receiver_killed_costs_a_mirror_only_itself() -> Result<()> {
    require!(find("socat").is_some(), "socat is not installed");
    let mut rig = Rig::new()?;
    let source = records(6000);
    let address = free_address()?;
    let (victim_file, good) = (rig.path("victim"), rig.at("file", "good"));
    let mut socat = Command::new("socat");
    socat.args(["-u", &format!("TCP4:{address},retry=1000,interval=0.05")]);
    let victim = Process::start(socat.arg(format!("CREATE:{}", victim_file.display())), true)?;
    let outlet = format!("tcp://{address}?listen");
    let mut feed = rig.start_with_inlet(&["--out", &outlet, "--out", &good, "--framing", "fixed:1000"])?;
    let (first, rest) = source.split_at(100 * RECORD);
    feed.write_all(first)?;
    Deadline::seconds(20.0).wait_for("what the victim writes", || {
        Ok((std::fs::metadata(&victim_file).is_ok_and(|file| file.len() > 0)).then_some(()))
    })?;
    victim.signal(Signal::KILL)?;
    drop(victim);
    feed.write_all(rest)?;
    drop(feed);
    let (report, words) = rig.end(3)?;
    ensure!(std::fs::read(rig.path("good"))? == source, "the other receiver has other bytes");
    let written = std::fs::read(victim_file)?;
    ensure!(source.starts_with(&written), "the victim got other bytes");
    ensure!(report["error"].is_null() && report["bytes_in"] == source.len(), "{report}");
    ensure!(output(&report, "good")?["bytes"] == source.len(), "{report}");
    // Bytes in the victim's receive buffer are lost with it.
    let ended = ended(&report, &outlet)?;
    ensure!(ended["bytes"].as_u64().is_some_and(|bytes| bytes >= written.len() as u64), "{report}");
    ensure!(ended["why"].as_str().is_some_and(|why| why.starts_with(&outlet)), "{report}");
    ensure!(words.contains(&format!("an output failed: {outlet}: ")), "{words}");
    ensure!(words.contains(" not delivered to it"), "{words}");
    Ok(())
}

/// Promise: If a source resets or a signal ends a relay, every byte is accounted for.
fn a_source_that_resets_ends_it_and_what_came_is_delivered() -> Result<()> {
    for framing in ["whole", "fixed:1000"] {
        let mut rig = Rig::new()?;
        let source = records(500);
        let inlet = format!("tcp://{}?listen", free_address()?);
        let target = rig.at("file", "target");
        rig.start(&["--in", &inlet, "--out", &target, "--framing", framing])?;
        let mut feed = connected(&inlet)?;
        feed.write_all(&source)?;
        Deadline::seconds(20.0).wait_for("all that was sent", || {
            Ok((std::fs::read(rig.path("target")).is_ok_and(|there| there == source)).then_some(()))
        })?;
        reset(feed)?;
        let (report, words) = rig.end(1)?;
        ensure!(words.contains(&inlet) && words.contains("Connection reset by peer"), "{words}");
        ensure!(report["error"].as_str().is_some_and(|error| error.contains("reset")), "{report}");
        ensure!(report["bytes_in"] == source.len() && report["bytes_out"] == source.len(), "{report}");
        ensure!(std::fs::read(rig.path("target"))? == source, "other bytes came");
    }
    Ok(())
}

/// A mirror with a receiver that reads and one that does not.
struct Pair {
    rig: Rig,
    feed: UnixStream,
    fast: UnixStream,
    slow: UnixStream,
}

impl Pair {
    fn start(when_full: &str) -> Result<Pair> {
        let mut rig = Rig::new()?;
        let ((fast, fast_listener), (slow, slow_listener)) = (rig.outlet("fast")?, rig.outlet("slow")?);
        let outs = ["--out", &fast, "--out", &slow, "--framing", "fixed:1000", "--when-full", when_full];
        let feed = rig.start_with_inlet(&outs)?;
        let (fast, slow) = (fast_listener.accept()?.0, slow_listener.accept()?.0);
        for stream in [&fast, &slow] {
            stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        }
        Ok(Pair { rig, feed, fast, slow })
    }

    /// Sends all, and no faster than the one that reads has it: for that one nothing is ever too much.
    fn send_in_step(&mut self, source: &[u8]) -> Result<()> {
        let mut part = vec![0; 100 * RECORD];
        for sent in source.chunks(part.len()) {
            self.feed.write_all(sent)?;
            self.fast.read_exact(&mut part[..sent.len()])?;
            ensure!(&part[..sent.len()] == sent, "the one that reads got other bytes");
        }
        self.feed.shutdown(std::net::Shutdown::Write)?;
        Ok(())
    }
}

/// Promise: If a receiver stops, the relay waits, drops records or detaches it, as `--when-full` says.
fn a_receiver_that_stops_is_waited_for() -> Result<()> {
    let source = records(3000);
    let Pair { mut rig, mut feed, mut fast, mut slow } = Pair::start("block")?;
    let sent = source.clone();
    let feed = thread::spawn(move || feed.write_all(&sent));
    let mut received = vec![0; 100 * RECORD];
    fast.read_exact(&mut received)?;
    // Far more is to come than the one that stops and all buffers before it can hold.
    let fast = collect(fast);
    let mut slowly = Vec::new();
    slow.read_to_end(&mut slowly)?;
    received.extend(join(fast)??);
    join(feed)??;
    let (report, _) = rig.end(0)?;
    ensure!(received == source && slowly == source, "other bytes came");
    for name in ["fast", "slow"] {
        let output = output(&report, name)?;
        ensure!(output["bytes"] == source.len() && output["dropped_records"] == 0, "{report}");
    }
    Ok(())
}

/// Promise: If a receiver stops, the relay waits, drops records or detaches it, as `--when-full` says.
fn records_are_dropped_for_a_receiver_that_stops_and_counted() -> Result<()> {
    let source = records(3000);
    for when_full in ["drop-newest", "drop-oldest"] {
        let mut pair = Pair::start(when_full)?;
        pair.send_in_step(&source)?;
        let mut slowly = Vec::new();
        pair.slow.read_to_end(&mut slowly)?;
        let (report, words) = pair.rig.end(0)?;
        let numbers = numbers(&slowly)?;
        ensure!(numbers.is_sorted_by(|one, next| one < next), "{when_full}: records are out of order");
        let (missing, slow) = (3000 - numbers.len(), output(&report, "slow")?);
        ensure!(missing > 0, "{when_full}: nothing was dropped, and nobody read");
        ensure!(slow["dropped_records"] == missing, "{missing} are missing: {report}");
        ensure!(slow["dropped_bytes"] == missing * RECORD && slow["bytes"] == slowly.len(), "{report}");
        ensure!(output(&report, "fast")?["dropped_records"] == 0, "{report}");
        ensure!(words.contains(" dropped"), "{words}");
        let has_the_last = numbers.last() == Some(&2999);
        ensure!(
            has_the_last == (when_full == "drop-oldest"),
            "{when_full}: the last is {:?}",
            numbers.last()
        );
    }
    Ok(())
}

/// Promise: If a receiver stops, the relay waits, drops records or detaches it, as `--when-full` says.
fn a_receiver_that_stops_is_detached_and_its_loss_reported() -> Result<()> {
    let source = records(3000);
    let mut pair = Pair::start("disconnect")?;
    pair.send_in_step(&source)?;
    let mut slowly = Vec::new();
    pair.slow.read_to_end(&mut slowly)?;
    let (report, words) = pair.rig.end(0)?;
    ensure!(source.starts_with(&slowly) && slowly.len() < source.len(), "{} bytes came", slowly.len());
    ensure!(words.contains("it fell behind; "), "{words}");
    let ended = ended(&report, "slow")?;
    let undelivered = ended["dropped_bytes"].as_u64().context("dropped_bytes")? as usize;
    ensure!((slowly.len() + undelivered).is_multiple_of(RECORD), "{} came; {report}", slowly.len());
    let records = number_before(&words, " records (")?;
    ensure!(words.contains(" not delivered to it") && ended["dropped_records"] == records, "{words}");
    ensure!(ended["bytes"] == slowly.len(), "{report}");
    ensure!(ended["why"] == "it did not keep up", "{report}");
    ensure!(output(&report, "fast")?["bytes"] == source.len(), "{report}");
    Ok(())
}

/// Promise: A mirror continues if a receiver is killed or a disk is full, and reports the loss.
fn a_full_disk_leaves_what_was_written_and_costs_a_mirror_only_its_file() -> Result<()> {
    let disk = SmallDisk::new(1 << 20);
    require!(disk.is_ok(), "a small disk cannot be made: {:?}", disk.err());
    let disk = disk?;
    let source = records(3000);
    for (number, framing) in ["whole", "fixed:1000"].into_iter().enumerate() {
        let mut rig = Rig::new()?;
        std::fs::write(rig.path("source"), &source)?;
        let file = disk.path().join(format!("file-{number}"));
        let (from, full) = (rig.at("file", "source"), format!("file:{}", file.display()));
        let arguments = ["--in", &from, "--out", &full, "--framing", framing];

        rig.start(&arguments)?;
        let (report, words) = rig.end(1)?;
        let written = std::fs::read(&file)?;
        ensure!(!written.is_empty() && source.starts_with(&written), "{} bytes, others", written.len());
        ensure!(report["bytes_out"] == written.len(), "{} were written: {report}", written.len());
        ensure!(words.contains(&full) && words.contains("No space left on device"), "{words}");
        std::fs::remove_file(&file)?;

        let good = rig.at("file", "good");
        rig.start(&[&arguments[..], &["--out", &good]].concat())?;
        let (report, words) = rig.end(3)?;
        let written = std::fs::read(&file)?;
        ensure!(!written.is_empty() && source.starts_with(&written), "{} bytes, others", written.len());
        ensure!(std::fs::read(rig.path("good"))? == source, "the other file has other bytes");
        ensure!(report["bytes_out"] == source.len() + written.len(), "{report}");
        let ended = ended(&report, &full)?;
        ensure!(ended["bytes"] == written.len(), "{} were written: {report}", written.len());
        ensure!(words.contains("an output failed") && words.contains("No space left on device"), "{words}");
        std::fs::remove_file(&file)?;
    }
    Ok(())
}

/// Promise: Every byte arrives even with the smallest socket buffers.
fn every_byte_arrives_through_buffers_with_hardly_any_room() -> Result<()> {
    for framing in ["whole", "line"] {
        let mut rig = Rig::new()?;
        let source = random_bytes(200_000);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        sockopt::set_socket_recv_buffer_size(&listener, 1)?;
        let outlet = format!("tcp://{}", listener.local_addr()?);
        let mut feed = rig.start_with_inlet(&["--out", &outlet, "--out", "-", "--framing", framing])?;
        let sent = source.clone();
        let feed = thread::spawn(move || {
            let mut chunks = sent.chunks(37);
            chunks.try_for_each(|chunk| feed.write_all(chunk))
        });
        let connection = collect_in_bits(listener.accept()?.0);
        ensure!(join(connection)?? == source, "other bytes came");
        join(feed)??;
        let (report, _) = rig.end(0)?;
        ensure!(report["bytes_out"] == 2 * source.len(), "{report}");
    }
    Ok(())
}

/// Promise: Unreachable receivers of datagrams are counted and affect no other datagram.
fn vanished_receivers_of_datagrams_are_counted_and_affect_no_other() -> Result<()> {
    let mut rig = Rig::new()?;
    // Nobody else may get the port of the one that leaves.
    let (stays, leaves) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind((own_address(), 0))?);
    stays.set_read_timeout(Some(Duration::from_secs(60)))?;
    let inlet = free_port()?;
    let [from, to, gone] = [inlet, stays.local_addr()?, leaves.local_addr()?].map(|at| format!("udp://{at}"));
    rig.start(&["--in", &from, "--out", &to, "--out", &gone])?;
    let source = UdpSocket::bind("127.0.0.1:0")?;
    source.connect(inlet)?;
    let mut buffer = [0; 2000];
    leaves.set_read_timeout(Some(Duration::from_millis(50)))?;
    Deadline::seconds(20.0).wait_for("the first datagram", || {
        drop(source.send(b"hello")); // until the relay listens, the system says that nobody does
        Ok(leaves.recv(&mut buffer).is_ok().then_some(()))
    })?;
    drop(leaves);
    let mut received = 0;
    for number in 0..200u64 {
        let datagram = record(number);
        source.send(&datagram)?;
        loop {
            let length = stays.recv(&mut buffer)?;
            received += length;
            if &buffer[..length] != b"hello" {
                ensure!(buffer[..length] == datagram, "{length} bytes instead of datagram {number}");
                break;
            }
        }
    }
    rig.process()?.signal(Signal::TERM)?;
    let (report, words) = rig.end(143)?;
    let number = |value: &Value| value.as_u64().context(report.to_string());
    let (stays, gone) = (output(&report, &to)?, output(&report, &gone)?);
    ensure!(number(&report["bytes_in"])? == received as u64, "{received} came: {report}");
    ensure!(number(&stays["bytes"])? == received as u64 && stays["lost_bytes"] == 0, "{report}");
    // An error for a datagram must not cost the next one.
    ensure!(number(&gone["bytes"])? == received as u64 && gone["lost_bytes"] == 0, "{report}");
    ensure!(
        number(&gone["icmp_errors"])? > 0 && words.contains(" ICMP errors (destination unreachable)"),
        "{report} {words}"
    );
    Ok(())
}

/// Promise: If a source resets or a signal ends a relay, every byte is accounted for.
fn a_signal_in_the_middle_ends_it_with_every_byte_accounted_for() -> Result<()> {
    for framing in ["whole", "fixed:1000"] {
        let mut rig = Rig::new()?;
        let source = records(3000);
        let (outlet, listener) = rig.outlet("outlet")?;
        let mut feed = rig.start_with_inlet(&["--out", &outlet, "--framing", framing])?;
        let mut sink = listener.accept()?.0;
        let sent = source.clone();
        let feed = thread::spawn(move || feed.write_all(&sent));
        let mut received = vec![0; 50 * RECORD];
        sink.read_exact(&mut received)?;
        // More than all buffers hold is still to come, so this is the middle.
        rig.process()?.signal(Signal::TERM)?;
        let (report, words) = rig.end(143)?;
        let cut = join(feed)?.err().context("more was taken than there is room for")?;
        ensure!(matches!(cut.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{cut}");
        sink.read_to_end(&mut received)?;
        ensure!(source.starts_with(&received), "other bytes came");
        let number = |value: &Value| value.as_u64().context(report.to_string());
        let output = output(&report, "outlet")?;
        ensure!(number(&output["bytes"])? == received.len() as u64, "{} came: {report}", received.len());
        let kept = number(&output["waiting_bytes"])? + number(&report["bytes_pending"])?;
        ensure!(number(&report["bytes_in"])? == received.len() as u64 + kept, "{report}");
        ensure!(report["error"] == "the stream was stopped", "{report}");
        ensure!(kept == 0 || words.contains(" waiting"), "{words}");
    }
    Ok(())
}

fn collect(mut stream: UnixStream) -> JoinHandle<std::io::Result<Vec<u8>>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).map(|_| bytes)
    })
}

/// Reads a few bytes at a time, so that there is hardly ever room.
fn collect_in_bits(mut stream: TcpStream) -> JoinHandle<std::io::Result<Vec<u8>>> {
    thread::spawn(move || {
        let (mut bytes, mut bit) = (Vec::new(), [0; 13]);
        loop {
            match stream.read(&mut bit)? {
                0 => return Ok(bytes),
                length => bytes.extend(&bit[..length]),
            }
        }
    })
}

fn join<T>(thread: JoinHandle<T>) -> Result<T> {
    thread.join().map_err(|_| anyhow::anyhow!("a thread of the test panicked"))
}

/// An address for TCP that nobody has now, of this process alone: nobody else is given its ports meanwhile.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((own_address(), 0))?.local_addr()?)
}

/// An address of the loopback device that other processes of tests do not use.
fn own_address() -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 128 | high, low, 1)
}

/// A connection to where the relay will listen.
fn connected(inlet: &str) -> Result<TcpStream> {
    let address = inlet.trim_start_matches("tcp://").trim_end_matches("?listen");
    Deadline::seconds(20.0).wait_for("a relay that listens", || Ok(TcpStream::connect(address).ok()))
}

fn reset(connection: TcpStream) -> Result<()> {
    sockopt::set_socket_linger(&connection, Some(Duration::ZERO))?;
    drop(connection);
    Ok(())
}
