//! Floods of half-open connections, of sessions and of garbage, while clients are being served.
//!
//!     attackers 127.0.0.2, .3, … ──RTSP, UDP──► server 127.0.0.1 ──media──► witness 127.0.0.1

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::{Resource, getrlimit};
use socket2::{Domain, Socket, Type};
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, trials};

/// Duration of the clip that plays meanwhile.
const CLIP_SECONDS: u32 = 6;

/// More seconds than the clip has that its playing may take.
const LATE_SECONDS: f64 = 1.0;

/// Half-open connections where the limits of open files allow them.
const HALF_OPEN: u64 = 10_000;

/// Addresses that a flood comes from.
const ATTACKERS: u8 = 8;

/// Most log that a flood of sessions may cause in a second.
const LOG_BYTES_PER_SECOND: usize = 20_000;

/// These load the machine.
pub(crate) fn alone() -> Vec<Trial> {
    trials![
        half_open_connections_are_not_noticed,
        a_storm_of_sessions_is_not_noticed,
        garbage_is_not_noticed,
        endless_frames_are_not_noticed,
    ]
}

/// Promise: 10,000 half-open connections, if open files allow so many, do not disturb served clients.
fn half_open_connections_are_not_noticed() -> Result<()> {
    let bed = TestBed::new()?;
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections = HALF_OPEN.min(files.saturating_sub(1000));
    let witness = bed.begin()?;
    let mut open = Vec::new();
    for number in 0..connections {
        let attacker = 2 + (number % u64::from(ATTACKERS)) as u8;
        let Ok(mut connection) = connect(attacker, bed.server.rtsp) else { continue };
        // One that is refused may be closed already.
        connection.write_all(b"OPTIONS rtsp://a/clip.ts RT").ok();
        open.push(connection);
    }
    println!("floods: {} half-open connections", open.len());
    ensure!(open.len() as u64 > connections / 2, "only {} of {connections} came to be", open.len());
    Client::connect(bed.server.rtsp)?.succeed("OPTIONS", "*", &[])?;
    bed.ensure_undisturbed(witness)
}

/// Promise: A storm of SETUPs disturbs no served client and does not fill the log.
fn a_storm_of_sessions_is_not_noticed() -> Result<()> {
    let bed = TestBed::new()?;
    let witness = bed.begin()?;
    let logged = bed.server.process.log().len();
    let (until, set_up) = (Deadline::seconds(4.0), AtomicU64::new(0));
    std::thread::scope(|scope| -> Result<()> {
        let (bed, set_up) = (&bed, &set_up);
        let storm: Vec<_> =
            (0..ATTACKERS).map(|attacker| scope.spawn(move || bed.storm(attacker, until, set_up))).collect();
        storm.into_iter().try_for_each(|attacker| attacker.join().expect("it answers with errors"))
    })?;
    let log = bed.server.process.log();
    println!("floods: {} sessions in 4 s, {} bytes of log", set_up.load(Relaxed), log.len() - logged);
    ensure!(set_up.load(Relaxed) > 100, "hardly a storm");
    ensure!(log.len() - logged < 5 * LOG_BYTES_PER_SECOND, "{} bytes of log", log.len() - logged);
    ensure!(log.contains("further lines about sessions were not logged"), "{}", &log[logged..]);
    bed.ensure_undisturbed(witness)
}

/// Promise: Garbage on the RTCP and RTP ports disturbs no served client, and is counted.
fn garbage_is_not_noticed() -> Result<()> {
    let bed = TestBed::new()?;
    let witness = bed.begin()?;
    let ports = [witness.server_port(0)?, witness.server_port(1)?];
    let (until, sent) = (Deadline::seconds(4.0), AtomicU64::new(0));
    std::thread::scope(|scope| -> Result<()> {
        let sent = &sent;
        let flood = ports.map(|port| scope.spawn(move || flood(port, until, sent)));
        flood.into_iter().try_for_each(|attacker| attacker.join().expect("it answers with errors"))
    })?;
    println!("floods: {} datagrams of garbage in 4 s", sent.load(Relaxed));
    let strays = bed.server.status()?["counters"]["rtsp"]["rtcp_strays"].as_u64().unwrap_or(0);
    ensure!(strays > 100 && sent.load(Relaxed) > 10_000, "{strays} of {} were read", sent.load(Relaxed));
    bed.ensure_undisturbed(witness)
}

/// Promise: Endless unrequested interleaved frames from one client delay no other client.
fn endless_frames_are_not_noticed() -> Result<()> {
    let bed = TestBed::new()?;
    let witness = bed.begin()?;
    let frames = b"$\0\0\0".repeat(16 << 10);
    let (until, sent) = (Deadline::seconds(4.0), AtomicU64::new(0));
    std::thread::scope(|scope| -> Result<()> {
        let (bed, frames, sent) = (&bed, &frames, &sent);
        let flood = [2, 3].map(|attacker| {
            scope.spawn(move || -> Result<()> {
                let mut connection = connect(attacker, bed.server.rtsp)?;
                while !until.has_passed() {
                    connection.write_all(frames).context("sending frames")?;
                    sent.fetch_add(frames.len() as u64, Relaxed);
                }
                Ok(())
            })
        });
        let mut answers = 0;
        while !until.has_passed() {
            Client::connect(bed.server.rtsp)?.succeed("OPTIONS", "*", &[])?;
            bed.server.status()?;
            answers += 1;
        }
        println!("floods: {} bytes of frames in 4 s, {answers} answers meanwhile", sent.load(Relaxed));
        flood.into_iter().try_for_each(|attacker| attacker.join().expect("it answers with errors"))?;
        ensure!(
            answers > 4 && sent.load(Relaxed) > 10_000_000,
            "{answers} answers, {sent:?} bytes of frames"
        );
        Ok(())
    })?;
    bed.ensure_undisturbed(witness)
}

/// Sends garbage to a port.
fn flood(port: u16, until: Deadline, sent: &AtomicU64) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), 0))?;
    while !until.has_passed() {
        for _ in 0..100 {
            // A full buffer at the receiver is no error of the sender.
            socket.send_to(&[0x5a; 64], ("127.0.0.1", port)).context("sending garbage")?;
        }
        sent.fetch_add(100, Relaxed);
    }
    Ok(())
}

fn connect(attacker: u8, to: SocketAddr) -> Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(Ipv4Addr::new(127, 0, 0, attacker).into(), 0).into())?;
    socket.connect_timeout(&to.into(), Duration::from_secs(5)).context("connecting")?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(socket.into())
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
        let server = Server::of(folder.path()).start()?;
        let bed = Self { server, clip: std::fs::read(clip)?, _folder: folder };
        // Once before the flood: then its image is packed.
        bed.ensure_undisturbed(bed.begin()?)?;
        Ok(bed)
    }

    fn begin(&self) -> Result<Playback> {
        let mut playback = Playback::set_up(self.server.rtsp, "clip.ts")?;
        playback.play(None)?;
        Ok(playback)
    }

    /// Every byte comes, and in time.
    fn ensure_undisturbed(&self, witness: Playback) -> Result<()> {
        let received = witness.receiver.to_the_end(Deadline::seconds(f64::from(CLIP_SECONDS) + 20.0))?;
        ensure_bytes(&received, &self.clip)?;
        let seconds = received.seconds();
        ensure!(seconds < f64::from(CLIP_SECONDS) + LATE_SECONDS, "it took {seconds} s");
        Ok(())
    }

    /// Sets sessions up and tears them down, in lots of some that are sent together.
    fn storm(&self, attacker: u8, until: Deadline, set_up: &AtomicU64) -> Result<()> {
        const LOT: usize = 20;
        let mut connection = connect(2 + attacker, self.server.rtsp)?;
        while !until.has_passed() {
            let url = self.server.rtsp_url("clip.ts/track1");
            let setup = |number: usize| {
                let port = 20_000 + 2 * number;
                format!(
                    "SETUP {url} RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/AVP;unicast;client_port={port}-{}\r\n\r\n",
                    port + 1
                )
            };
            connection.write_all((0..LOT).map(setup).collect::<String>().as_bytes())?;
            let answers = answers(&mut connection, LOT)?;
            let sessions = answers.lines().filter_map(|line| line.strip_prefix("Session: "));
            let sessions: Vec<_> = sessions.filter_map(|session| session.split(';').next()).collect();
            set_up.fetch_add(sessions.len() as u64, Relaxed);
            let tear_down =
                |session: &&str| format!("TEARDOWN {url} RTSP/1.0\r\nCSeq: 2\r\nSession: {session}\r\n\r\n");
            connection.write_all(sessions.iter().map(tear_down).collect::<String>().as_bytes())?;
            self::answers(&mut connection, sessions.len())?;
        }
        Ok(())
    }
}

/// Reads so many answers; the body of the last one, if it has one, comes with the next.
fn answers(connection: &mut TcpStream, count: usize) -> Result<String> {
    let mut text = String::new();
    let is_whole = |text: &str| {
        let last = text.rfind("RTSP/1.0 ").map_or("", |at| &text[at..]);
        text.matches("RTSP/1.0 ").count() == count && last.contains("\r\n\r\n")
    };
    while count > 0 && !is_whole(&text) {
        let mut bytes = [0; 16 << 10];
        let length = connection.read(&mut bytes).with_context(|| format!("after {text}"))?;
        ensure!(length > 0, "the connection ended after {text}");
        text += &String::from_utf8_lossy(&bytes[..length]);
    }
    Ok(text)
}
