//! Sequences of requests made wrong at random, on real connections to the running server (after AFLNet).
//!
//!     attackers 127.0.0.2, .3, … ──RTSP, HTTP, RTCP──► server 127.0.0.1 ──media──► witness 127.0.0.1
//!
//! Addresses of their own, so that a port named by chance is never the witness's: only the server could mix
//! them up. `WIREPATH_HOSTILE_SECONDS` and `WIREPATH_HOSTILE_SEED` make other runs than that of `make test`.

mod requests;

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use socket2::{Domain, Socket, Type};
use wirepath_tests::mutation::{Dice, damage, disorder};
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, rtp, trials};

/// Duration in seconds of the clip that plays meanwhile.
const CLIP_SECONDS: u32 = 4;

/// Sources of wrong requests.
pub(crate) const ATTACKERS: u8 = 8;

/// Time an attacker waits for an answer that may never come.
const PATIENCE: Duration = Duration::from_millis(10);

/// Threads for blocking work end when they had none for ten seconds (tokio's default).
const THREADS_END_S: f64 = 20.0;

/// This loads the machine and counts descriptors and threads.
pub(crate) fn alone() -> Vec<Trial> {
    trials![a_hostile_crowd_disturbs_nobody_and_leaves_nothing]
}

/// Promise: Wrong sequences of requests disturb no session and leave no descriptor, thread or session.
fn a_hostile_crowd_disturbs_nobody_and_leaves_nothing() -> Result<()> {
    let clip = clips::constant(CLIP_SECONDS)?;
    let stored = std::fs::read(&clip)?;
    let folder = clips::folder(&[("clip.ts", &clip)])?;
    // Without images: one that is made of a clip that has become popular stays open.
    let server = Server::of(folder.path()).with(["--images", "none"]).start()?;
    // Once before anything is counted: what is opened for good is open then.
    Playback::whole(server.rtsp, "clip.ts", 15.0)?;
    let before = settled(&server)?;
    let seed = setting("WIREPATH_HOSTILE_SEED", 1)?;
    let attack = Deadline::seconds(setting("WIREPATH_HOSTILE_SECONDS", 6)? as f64);
    let seen = std::thread::scope(|scope| -> Result<Seen> {
        let server = &server;
        let attackers: Vec<_> = (0..ATTACKERS)
            .map(|number| scope.spawn(move || Attacker::new(server, seed, number)?.attack(attack)))
            .collect();
        let witness = watch(server, &stored, attack);
        let mut seen = Seen::default();
        for attacker in attackers {
            seen.add(attacker.join().expect("an attacker answers with errors").context("an attacker")?);
        }
        witness.context("the witness").map(|()| seen)
    })
    .with_context(|| format!("seed {seed}; the server's log ends with {}", tail(&server.process.log())))?;
    seen.ensure_depth().with_context(|| format!("seed {seed}"))?;
    let log = server.process.log();
    let panicked = log.find("panicked").map(|at| &log[at..log.floor_char_boundary(at + 500)]);
    ensure!(panicked.is_none(), "seed {seed}: the server {}", panicked.unwrap_or_default());
    Client::connect(server.rtsp)?.succeed("OPTIONS", "*", &[])?;
    settled(&server)?;
    let now = || Ok((server.descriptors()?, server.threads()?));
    let settled = Deadline::seconds(THREADS_END_S).wait_for("descriptors and threads as before", || {
        now().map(|now: (usize, u64)| (now.0 <= before.0 && now.1 <= before.1).then_some(()))
    });
    settled.with_context(|| format!("seed {seed}: before {before:?}, now {:?}", now()))
}

/// Sends wrong requests up to a moment, as attacker `number`; returns how many connections it made. None may
/// be answered with 500.
pub(crate) fn attack(server: &Server, seed: u64, number: u8, until: Deadline) -> Result<u64> {
    let seen = Attacker::new(server, seed, number)?.attack(until).context("an attacker")?;
    ensure!(!seen.statuses.iter().any(|(_, status)| *status == 500), "an internal error: {seen:?}");
    Ok(seen.connections)
}

/// Descriptors and threads of a server that nobody asks for anything.
fn settled(server: &Server) -> Result<(usize, u64)> {
    let wait = Deadline::seconds(5.0);
    wait.wait_for("the session's end", || Ok((server.sessions()? == 0).then_some(())))?;
    Ok((server.descriptors()?, server.threads()?))
}

/// Plays again and again until the attack is over; every byte must come, and the status page must answer.
fn watch(server: &Server, stored: &[u8], attack: Deadline) -> Result<()> {
    while !attack.has_passed() {
        let playback = Playback::whole(server.rtsp, "clip.ts", f64::from(CLIP_SECONDS) + 10.0)?;
        ensure_bytes(&playback, stored)?;
        server.status()?;
    }
    Ok(())
}

/// A number of the environment.
pub(crate) fn setting(name: &str, otherwise: u64) -> Result<u64> {
    match std::env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("{name}={text} is no whole number")),
        Err(_) => Ok(otherwise),
    }
}

/// The end of a log.
pub(crate) fn tail(log: &str) -> &str {
    let from = log.floor_char_boundary(log.len().saturating_sub(3000));
    &log[from..]
}

/// Results of an attack; the test asserts that it reached the server.
#[derive(Debug, Default)]
struct Seen {
    connections: u64,
    statuses: BTreeSet<(Protocol, u16)>,
    sessions: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Protocol {
    Rtsp,
    Http,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.connections += other.connections;
        self.statuses.extend(other.statuses);
        self.sessions += other.sessions;
    }

    fn ensure_depth(&self) -> Result<()> {
        let Self { connections, sessions, statuses } = self;
        println!("hostile: {connections} connections, {sessions} sessions, answers {statuses:?}");
        ensure!(!statuses.iter().any(|(_, status)| *status == 500), "an internal error: {self:?}");
        let rtsp = [200, 400, 404, 454, 461].map(|status| (Protocol::Rtsp, status));
        let http = [200, 206, 400, 404, 416].map(|status| (Protocol::Http, status));
        let missing = rtsp.iter().chain(&http).find(|answer| !statuses.contains(answer));
        ensure!(
            missing.is_none() && *sessions > 10,
            "the attack reached too little: no {missing:?} in {self:?}"
        );
        Ok(())
    }
}

/// One source of wrong requests.
struct Attacker<'a> {
    server: &'a Server,
    address: IpAddr,
    dice: Dice,
    /// Sockets for the sessions' media, which nobody reads.
    sink: (UdpSocket, UdpSocket),
    seen: Seen,
}

impl<'a> Attacker<'a> {
    fn new(server: &'a Server, seed: u64, number: u8) -> Result<Self> {
        let address = Ipv4Addr::new(127, 0, 0, 2 + number).into();
        let dice = Dice::new(seed.wrapping_mul(1000).wrapping_add(u64::from(number)));
        Ok(Self { server, address, dice, sink: rtp::pair(address)?, seen: Seen::default() })
    }

    fn attack(mut self, until: Deadline) -> Result<Seen> {
        while !until.has_passed() {
            let protocol = if self.dice.one_in(3) { Protocol::Http } else { Protocol::Rtsp };
            let mut messages = match protocol {
                Protocol::Rtsp => requests::rtsp(self.server, self.sink.0.local_addr()?.port()),
                Protocol::Http => requests::http(),
            };
            disorder(&mut self.dice, &mut messages);
            let stream = self.connect(protocol).context("the server takes no connections")?;
            self.seen.connections += 1;
            self.converse(protocol, stream, messages)?;
        }
        Ok(self.seen)
    }

    fn connect(&self, protocol: Protocol) -> Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(self.address, 0).into())?;
        let to = if protocol == Protocol::Rtsp { self.server.rtsp } else { self.server.http };
        socket.connect_timeout(&to.into(), Duration::from_secs(5))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        // Once in a while the end is a reset.
        if self.seen.connections.is_multiple_of(4) {
            socket.set_linger(Some(Duration::ZERO))?;
        }
        Ok(socket.into())
    }

    /// Says all messages until the server hangs up, some of them damaged, some in pieces.
    fn converse(&mut self, protocol: Protocol, mut stream: TcpStream, messages: Vec<Vec<u8>>) -> Result<()> {
        let mut session = "none".to_owned();
        for message in messages {
            let mut message = replace(&message, b"{session}", session.as_bytes());
            if self.dice.one_in(4) {
                damage(&mut self.dice, &mut message);
            }
            let (piece, patient) = (1 + self.dice.below(2 * message.len() + 1), !self.dice.one_in(5));
            // The server may have closed, or not read on: its right.
            if message.chunks(piece).any(|piece| stream.write_all(piece).is_err()) {
                break;
            }
            if patient {
                let Some(answer) = listen(&mut stream)? else { break };
                self.note(protocol, &answer, &mut session)?;
            }
        }
        Ok(())
    }

    fn note(&mut self, protocol: Protocol, answer: &[u8], session: &mut String) -> Result<()> {
        let text = String::from_utf8_lossy(answer);
        let version = if protocol == Protocol::Rtsp { "RTSP/1.0 " } else { "HTTP/1." };
        // A read may begin inside a body and end inside a line.
        let whole_lines = text.split_inclusive("\r\n").filter_map(|line| line.strip_suffix("\r\n"));
        for line in whole_lines.filter(|line| line.starts_with(version)) {
            let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
            self.seen
                .statuses
                .insert((protocol, status.with_context(|| format!("`{line}` is no status line"))?));
        }
        if let Some((_, rest)) = text.split_once("\r\nSession: ") {
            let id = rest.split([';', '\r']).next().unwrap_or_default();
            if id != session {
                id.clone_into(session);
                self.seen.sessions += 1;
            }
        }
        self.forge_report(&text)
    }

    /// Damaged RTCP to the ports of a session of its own.
    fn forge_report(&mut self, answer: &str) -> Result<()> {
        let ports = answer.split_once("server_port=").map(|(_, rest)| rest.split(['-', ';', '\r']));
        let Some(port) = ports.and_then(|mut ports| ports.nth(1)?.parse().ok()) else { return Ok(()) };
        let mut report = vec![0x81, 201, 0, 7, 0, 0, 0, 9];
        report.resize(32, self.dice.any() as u8);
        damage(&mut self.dice, &mut report);
        report.truncate(1400);
        match self.sink.1.send_to(&report, (self.server.rtsp.ip(), port)) {
            // A session that has ended since has closed its port.
            Err(error) if error.kind() != ErrorKind::ConnectionRefused => Err(error).context("sending RTCP"),
            _ => Ok(()),
        }
    }
}

/// Waits as long as an attacker does for an answer; none if the server hung up.
fn listen(stream: &mut TcpStream) -> Result<Option<Vec<u8>>> {
    let mut answer = vec![0; 16 << 10];
    match stream.read(&mut answer) {
        Ok(0) => Ok(None),
        Ok(length) => {
            answer.truncate(length);
            Ok(Some(answer))
        }
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(Some(Vec::new())),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Ok(None),
            _ => Err(error).context("reading"),
        },
    }
}

fn replace(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    match text.windows(from.len()).position(|window| window == from) {
        Some(at) => [&text[..at], to, &text[at + from.len()..]].concat(),
        None => text.to_vec(),
    }
}
