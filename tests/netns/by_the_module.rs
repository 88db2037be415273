//! The papers' enhanced calls, by the kernel module: what they cost in kernel calls and copies, and fifty
//! sessions played by them.
//!
//! Without the module they are skipped. `make test-vm` has guests in which it is loaded, and beside it
//! `kernel/copies`, by which copies are counted.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::Value;
use wirepath_datapath::calibration::Host;
use wirepath_datapath::{SendContext, release};
use wirepath_tests::clips::{self, Picture};
use wirepath_tests::namespace::{Link, SERVER};
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::process::{is_root, open_folder};
use wirepath_tests::seek::seek_twice;
use wirepath_tests::server::{self, Server};
use wirepath_tests::{Deadline, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![calls_and_copies_are_those_of_the_tables, fifty_sessions_play_by_krtpsendfile]
}

/// Cost of sending n packets: path, transport, kernel calls, copies of each payload, copies of each header.
type Expected = (&'static str, &'static str, Calls, u64, u64);

#[derive(Clone, Copy)]
enum Calls {
    /// So many for each packet.
    Each(u64),
    /// So many in all.
    InAll(u64),
    /// One for so many packets: as many as a datagram has bytes for.
    OneFor(u64),
}

use Calls::{Each, InAll, OneFor};

/// Kernels that send pages by reference: Linux 6.5 and newer.
const BY_REFERENCE: [Expected; 18] = [
    ("read_write", "udp", Each(2), 2, 0),
    ("mmap_send", "udp", Each(1), 1, 0),
    ("sendfile", "udp", Each(1), 0, 0),
    ("sendfile", "tcp", InAll(1), 0, 0),
    ("mmap_msend", "udp", Each(1), 0, 0),
    ("kmsend", "udp", InAll(1), 0, 0),
    ("ksendfile", "udp", InAll(1), 0, 0),
    ("read_send_rtp", "udp", Each(2), 2, 1),
    ("read_writev", "udp", Each(2), 2, 1),
    ("mmap_send_rtp", "udp", Each(2), 1, 1),
    ("mmap_writev", "udp", Each(1), 1, 1),
    ("rtp_sendfile", "udp", Each(2), 0, 1),
    ("mmap_rtpmsend", "udp", Each(1), 0, 1),
    ("mmap_send_msend", "udp", Each(2), 0, 1),
    ("rtpsendfile", "udp", Each(1), 0, 1),
    ("krtpsendfile", "udp", InAll(1), 0, 0),
    ("krtpmsend", "udp", InAll(1), 0, 0),
    ("sendfilew", "udp", OneFor(44), 0, 1),
];

/// Linux 6.1 copies pages that it is given by reference over UDP, and so headers that the module has put into
/// pages.
fn expected() -> impl Iterator<Item = Expected> {
    let references = release(&Host::this().kernel).is_none_or(|release| release >= (6, 5));
    BY_REFERENCE.into_iter().map(move |(path, transport, calls, payloads, headers)| match path {
        _ if references || payloads > 0 || transport == "tcp" => (path, transport, calls, payloads, headers),
        // Their headers, if they have any, are sent from memory.
        "sendfile" | "rtp_sendfile" | "mmap_send_msend" => (path, transport, calls, 1, headers),
        _ => (path, transport, calls, 1, headers + 1),
    })
}

fn require_module() -> Result<()> {
    require!(SendContext::default().open_module().is_ok(), "the kernel module is not loaded");
    Ok(())
}

/// Promise: `wirepath assess count` counts the calls and copies in the papers' tables and explains
/// differences.
fn calls_and_copies_are_those_of_the_tables() -> Result<()> {
    require_module()?;
    require!(is_root(), "probes need root");
    require!(Path::new("/dev/wirepath_copies").exists(), "the module that counts copies is not loaded");
    let folder = open_folder()?;
    let json = folder.path().join("counts.json");
    let mut command = Command::new(server::binary()?);
    command.args(["assess", "count", "--sink", "drop", "--json"]).arg(&json);
    command.arg("--scratch").arg(folder.path()).arg("--calibration").arg(folder.path().join("none.json"));
    let output = command.output().context("running wirepath assess count")?;
    let told = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ensure!(!told.contains("not explained"), "a difference to the papers is not explained:\n{told}");
    let result: Value = serde_json::from_slice(&std::fs::read(&json)?)?;
    let counts = result["counts"].as_array().context("no counts")?;
    ensure!(counts.len() == BY_REFERENCE.len(), "{} lines, not 18: {}", counts.len(), result["left_out"]);
    expected().try_for_each(|expected| ensure_counted(counts, expected))
}

/// Ensures that a path made these calls and copies, to the last byte.
fn ensure_counted(counts: &[Value], (path, transport, calls, payloads, headers): Expected) -> Result<()> {
    let is_it = |one: &&Value| one["path"] == path && one["transport"] == transport;
    let counted = counts.iter().find(is_it).with_context(|| format!("{path} was not counted"))?;
    let number = |name: &str| counted[name].as_u64().with_context(|| format!("no {name}: {counted:#}"));
    let packets = number("packets")?;
    ensure!(packets >= 1000 || transport == "tcp", "only {packets} packets: {counted:#}");
    let calls = match calls {
        Each(calls) => calls * packets,
        InAll(calls) => calls,
        OneFor(several) => packets.div_ceil(several),
    };
    ensure!(number("calls")? == calls, "{calls} calls were expected: {counted:#}");
    let copies = counted["copies"].as_array().context("no copies")?;
    let copied: u64 = copies.iter().filter_map(|copies| copies["bytes"].as_u64()).sum();
    let expected = payloads * number("payload_bytes")? + headers * number("header_bytes")?;
    ensure!(copied == expected, "{expected} bytes were expected to be copied, not {copied}: {counted:#}");
    Ok(())
}

const SESSIONS: usize = 50;

/// Promise: Fifty sessions play by `krtpsendfile`, with seeks, without a wrong byte or a missing sequence
/// number.
///
/// Every other session plays from beginning to end; those between seek twice. Each session has headers of its
/// own, which the kernel makes.
fn fifty_sessions_play_by_krtpsendfile() -> Result<()> {
    require_module()?;
    let link = Link::new()?;
    let clip = clips::constant(6)?;
    let folder = clips::folder(&[("clip.ts", &clip)])?;
    let (stored, pictures) = (std::fs::read(&clip)?, clips::pictures(&clip)?);
    let server = Server::of(folder.path()).with(["--path", "krtpsendfile"]);
    let server = server.inside(&link.server, &SERVER.to_string()).start()?;
    let before = sent_by_the_module()?;
    let set_up = |_| Playback::set_up_inside(&link.client, server.rtsp, "clip.ts");
    let playbacks = (0..SESSIONS).map(set_up).collect::<Result<Vec<_>>>()?;
    let packets = std::thread::scope(|scope| -> Result<u64> {
        let (stored, pictures) = (&stored, &pictures);
        let playing: Vec<_> = playbacks
            .into_iter()
            .enumerate()
            .map(|(number, playback)| scope.spawn(move || play(playback, number, stored, pictures)))
            .collect();
        let paths = paths_in_use(|| link.client.enter(|| server.status()))?;
        ensure!(paths.iter().all(|path| path == "krtpsendfile"), "other paths are in use: {paths:?}");
        let mut packets = 0;
        for (number, session) in playing.into_iter().enumerate() {
            let played = session.join().map_err(|_| anyhow::anyhow!("session {number} panicked"))?;
            packets += played.with_context(|| format!("session {number}"))?;
        }
        Ok(packets)
    })?;
    let by_module = sent_by_the_module()? - before;
    ensure!(by_module >= packets, "{packets} packets came, and the module sent {by_module}");
    Ok(())
}

/// Plays and compares; answers how many packets came.
fn play(mut playback: Playback, number: usize, stored: &[u8], pictures: &[Picture]) -> Result<u64> {
    if number % 2 == 1 {
        seek_twice(&mut playback, stored, pictures, |_| Ok(()))?;
    } else {
        playback.play(None)?;
        ensure_bytes(&playback.receiver.to_the_end(Deadline::seconds(60.0))?, stored)?;
    }
    Ok(playback.receiver.received().packets.len() as u64)
}

/// The paths of all sessions, when each of them has sent something.
fn paths_in_use(mut status: impl FnMut() -> Result<Value>) -> Result<Vec<Value>> {
    Deadline::seconds(30.0).wait_for("packets of every session", || {
        let status = status()?;
        let sessions = status["sessions"].as_array().context("no sessions")?;
        let all = sessions.len() == SESSIONS
            && sessions.iter().all(|session| session["packets"].as_u64() > Some(0));
        Ok(all.then(|| sessions.iter().map(|session| session["data_path"].clone()).collect()))
    })
}

/// Packets that it has sent until now.
fn sent_by_the_module() -> Result<u64> {
    let file = "/sys/class/misc/wirepath/counters/packets";
    let text = std::fs::read_to_string(file).context(file)?;
    text.trim().parse().context(file)
}
