//! A server that may open few files, and clients that take what they can get.
//!
//!     greedy 127.0.0.2, .3, … ──RTSP, HTTP──► server 127.0.0.1, 256 open files ──► others 127.0.0.1

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use socket2::{Domain, Socket, Type};
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::process::{self, Process};
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::{self, Server};
use wirepath_tests::{Deadline, clips, http, trials};

/// Open files that the server may have.
const FEW: &str = "--nofile=256:256";

const CLIP_SECONDS: u32 = 3;

/// Time that a client waits for an answer that may never come.
const PATIENCE: Duration = Duration::from_millis(100);

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        idle_connections_of_one_address_leave_room_for_others,
        unread_downloads_of_one_address_leave_room_for_others,
        without_descriptors_clients_are_refused_and_sessions_go_on,
        the_limit_of_sessions_is_said_at_start,
        more_sessions_than_open_files_allow_are_refused_at_start,
    ]
}

/// Promise: One address cannot take all descriptors with idle connections or unread downloads.
fn idle_connections_of_one_address_leave_room_for_others() -> Result<()> {
    let bed = TestBed::new()?;
    let greedy = (0..300).map(|_| Ok([bed.connect(2, bed.server.rtsp)?, bed.connect(2, bed.server.http)?]));
    let greedy = greedy.collect::<Result<Vec<_>>>()?;
    bed.ensure_served()?;
    let mut refused = greedy.into_iter().flatten().map(answer).collect::<Result<Vec<_>>>()?;
    refused.retain(|answer| !answer.is_empty());
    ensure!(refused.len() >= 400, "{} of 600 were refused", refused.len());
    for protocol in ["RTSP/1.0 503 ", "HTTP/1.1 503 "] {
        ensure!(refused.iter().any(|answer| answer.starts_with(protocol)), "none by {protocol}");
    }
    Ok(())
}

/// Promise: One address cannot take all descriptors with idle connections or unread downloads.
fn unread_downloads_of_one_address_leave_room_for_others() -> Result<()> {
    let bed = TestBed::new()?;
    let request = b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut greedy = Vec::new();
    for _ in 0..300 {
        let mut download = bed.connect(2, bed.server.http)?;
        // A connection that is refused may be closed already.
        download.write_all(request).ok();
        greedy.push(download);
    }
    bed.ensure_served()?;
    drop(greedy);
    Ok(())
}

/// Promise: Without free descriptors SETUP gets 453 and a new connection 503; sessions continue.
fn without_descriptors_clients_are_refused_and_sessions_go_on() -> Result<()> {
    let bed = TestBed::new()?;
    let mut playing = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    playing.play(None)?;
    let mut waiting = Client::connect(bed.server.rtsp)?;
    waiting.succeed("OPTIONS", "*", &[])?;
    let greedy = (2..120).flat_map(|address| (0..20).map(move |_| address));
    let greedy = greedy.map(|address| bed.connect(address, bed.server.http)).collect::<Result<Vec<_>>>()?;
    for (address, protocol) in [(bed.server.rtsp, "RTSP/1.0 503 "), (bed.server.http, "HTTP/1.1 503 ")] {
        let connection = bed.connect(1, address)?;
        // This answer must come.
        connection.set_read_timeout(Some(Duration::from_secs(5)))?;
        let refused = answer(connection)?;
        ensure!(refused.starts_with(protocol), "{refused:?}");
    }
    let transport = ("Transport", "RTP/AVP;unicast;client_port=40000-40001");
    let setup = waiting.request("SETUP", &bed.server.rtsp_url("clip.ts/track1"), &[transport])?;
    ensure!(setup.status == 453, "{setup:?}");
    ensure_bytes(
        &playing.receiver.to_the_end(Deadline::seconds(f64::from(CLIP_SECONDS) + 10.0))?,
        &bed.clip,
    )?;
    ensure!(!bed.server.process.log().contains("accept failed"), "{}", bed.server.process.log());
    drop(greedy);
    Deadline::seconds(10.0).wait_for("room for others", || Ok(bed.ensure_served().ok()))
}

/// Promise: At the start the log says which limit allows how many sessions.
fn the_limit_of_sessions_is_said_at_start() -> Result<()> {
    let bed = TestBed::new()?;
    let log = bed.server.process.log();
    let line = log.lines().find(|line| line.contains("limit of sessions")).with_context(|| log.clone())?;
    ensure!(line.contains("limited_by=\"open files\"") && line.contains("open_files=256"), "{line}");
    let status = bed.server.status()?;
    let sessions = status["rtsp"]["limits"]["sessions"].as_u64().context("no limit in the status")?;
    ensure!((20..120).contains(&sessions) && line.contains(&format!("sessions={sessions} ")), "{line}");
    Ok(())
}

/// Promise: More sessions than open files allow are refused at the start, with the command that raises the
/// limit.
fn more_sessions_than_open_files_allow_are_refused_at_start() -> Result<()> {
    let folder = process::open_folder()?;
    let mut command = Command::new("prlimit");
    command.arg(FEW).arg(server::binary()?).arg("serve").arg(folder.path());
    command.args(["--rtsp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--max-sessions", "1000"]);
    command.arg("--cache").arg(folder.path().join(".images"));
    let mut process = Process::start(&command, true)?;
    let status = process.wait(Deadline::seconds(10.0))?;
    let log = process.log();
    ensure!(!status.success() && log.contains("prlimit --pid $$ --nofile="), "{status}: {log}");
    Ok(())
}

struct TestBed {
    server: Server,
    clip: Vec<u8>,
    _folder: tempfile::TempDir,
}

impl TestBed {
    fn new() -> Result<Self> {
        let clip = clips::constant(CLIP_SECONDS)?;
        let folder = clips::folder(&[("clip.ts", &clip)])?;
        make_large(&folder.path().join("large"))?;
        let server = Server::of(folder.path()).with(["--threads", "1"]).under(["prlimit", FEW]).start()?;
        let bed = Self { server, clip: std::fs::read(clip)?, _folder: folder };
        // Once before others come: then its image is packed.
        bed.ensure_served()?;
        Ok(bed)
    }

    /// Connects from an address of the loopback network.
    fn connect(&self, address: u8, to: SocketAddr) -> Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(Ipv4Addr::new(127, 0, 0, address).into(), 0).into())?;
        socket.connect_timeout(&to.into(), Duration::from_secs(5)).context("connecting")?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket.into())
    }

    /// Another client plays and downloads.
    fn ensure_served(&self) -> Result<()> {
        let seconds = f64::from(CLIP_SECONDS) + 10.0;
        ensure_bytes(&Playback::whole(self.server.rtsp, "clip.ts", seconds)?, &self.clip)?;
        let download = http::get(self.server.http, "/clip.ts")?;
        ensure!(download.status == 200 && download.body == self.clip, "{}", download.status);
        Ok(())
    }
}

/// A file that no socket buffer takes as a whole. It is sparse.
fn make_large(path: &Path) -> Result<()> {
    Ok(std::fs::File::create(path)?.set_len(64 << 20)?)
}

/// Bytes that the server sends, for a moment, to a client that sends nothing.
fn answer(mut connection: TcpStream) -> Result<String> {
    let mut answer = [0; 1000];
    match connection.read(&mut answer) {
        Ok(length) => Ok(String::from_utf8_lossy(&answer[..length]).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(String::new()),
        Err(error) => Err(error).context("reading what the server says"),
    }
}
