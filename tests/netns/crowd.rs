//! Five hundred sessions at once.
//!
//! ```text
//!   client                                   server
//!   10.77.0.2/24 veth --------------- veth 10.77.0.1/24
//!   10.78.0.0/16 local                     10.78.0.0/16 via 10.77.0.2
//!   (session N has an address of its own there)
//! ```
//!
//! Both ends run threaded NAPI with real-time priority: what receiving costs is not charged to the server, as
//! it would not be with another machine at the other end. A `pfifo` pushes back on a full ring, as a NIC
//! does.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::event::epoll;
use wirepath_tests::hot::{counted, require_ring};
use wirepath_tests::loss::{Account, dropped_in};
use wirepath_tests::namespace::{Link, Namespace, SERVER};
use wirepath_tests::playback::describe;
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, http, process, require, rtp, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![five_hundred_sessions_lose_nothing, five_hundred_sessions_share_kernel_calls]
}

const SESSIONS: usize = 500;
const SECONDS: u32 = 20;

/// Promise: With 500 sessions of 4 Mb/s the server loses no packet.
///
/// Lateness is printed and not judged: it is a property of the machine, too, and `make bench` measures it.
fn five_hundred_sessions_lose_nothing() -> Result<()> {
    run(&[])?.account.ensure_whole()
}

/// Promise: From hot memory, trains that are due together leave in one system call, without an allocation.
///
/// From hot memory: trains that are due together leave in one call.
fn five_hundred_sessions_share_kernel_calls() -> Result<()> {
    require_ring()?;
    let crowd = run(&["--hot-memory", "64MiB"])?;
    crowd.account.ensure_whole()?;
    let (trains, batches) = (counted(&crowd.status, "trains")?, counted(&crowd.status, "batches")?);
    println!("{trains} trains, {batches} calls that sent many");
    // The first second is sent from the file, while the image is copied: a call for each train.
    let share = batches > 0 && batches < trains / 4;
    let slips = crowd.account.slips;
    require!(share || slips == 0, "the machine is overloaded: the server stood still {slips} times");
    ensure!(share, "{batches} calls for {trains} trains");
    Ok(())
}

/// Results of a run.
struct Crowd {
    account: Account,
    status: serde_json::Value,
}

fn run(arguments: &[&str]) -> Result<Crowd> {
    let link = link()?;
    let clip = clips::constant(SECONDS)?;
    let folder = clips::folder(&[("clip.ts", &clip)])?;
    let server =
        Server::of(folder.path()).with(arguments).inside(&link.server, &SERVER.to_string()).start()?;
    let packets_each = usize::try_from(std::fs::metadata(&clip)?.len())?.div_ceil(7 * 188);
    let mut members = Vec::new();
    for number in 0..SESSIONS {
        members.push(link.client.enter(|| Member::join(number, server.rtsp))?);
    }
    let start = Instant::now();
    for member in &mut members {
        member.play()?;
    }
    receive(&mut members, packets_each, start, Deadline::seconds(f64::from(SECONDS) + 15.0))?;
    let status = link.client.enter(|| server.status())?;
    // The server's counts, and data left in sockets, if time was short.
    members.iter_mut().for_each(|member| member.read(start));
    let account = Account {
        expected: (packets_each * SESSIONS) as u64,
        sent: counted(&status, "packets")?,
        lost: counted(&status, "packets_lost")?,
        slips: counted(&status, "clock_resyncs")?,
        dropped: dropped_in(&link.client)?,
        read: members.iter().map(|member| member.packets as u64).sum(),
        gaps: members.iter().map(|member| member.gaps as u64).sum(),
    };
    let own = &status["lateness_us"];
    println!("{SESSIONS} sessions: {account:?}");
    println!("lateness by the server's account: p99 {} us, max {} us", own["p99"], own["max"]);
    println!("at the receiver: {}", lateness_seen_by(&members));
    Ok(Crowd { account, status })
}

fn link() -> Result<Link> {
    let link = Link::new()?;
    link.client.ip("route add local 10.78.0.0/16 dev lo")?;
    link.server.ip("route add 10.78.0.0/16 via 10.77.0.2")?;
    for namespace in [&link.client, &link.server] {
        namespace.run("ethtool -K veth gro on rx-udp-gro-forwarding on")?;
        namespace.run("tc qdisc replace dev veth root pfifo limit 10000")?;
        threaded(namespace)?;
    }
    Ok(link)
}

/// Receives on kernel threads of the device's own, before everything else.
fn threaded(namespace: &Namespace) -> Result<()> {
    let mut command = namespace.command("sh");
    let script = "echo 1 > /sys/class/net/veth/threaded && for comm in /proc/[0-9]*/comm; do \
                  case $(cat $comm 2>/dev/null) in napi/veth-*) chrt -f -p 50 $(echo $comm | cut -d/ -f3);; esac; done";
    let mut process = process::Process::start(command.args(["-c", script]), true)?;
    process.succeed(Deadline::seconds(10.0)).map(drop).context("threaded NAPI")
}

/// One session: its connection, its socket, what came.
struct Member {
    client: Client,
    rtp: UdpSocket,
    _rtcp: UdpSocket,
    url: String,
    session: String,
    packets: usize,
    gaps: usize,
    first_timestamp: Option<u32>,
    last: Option<(u16, Instant)>,
    /// Arrival minus timestamp of each packet that begins a burst, in microseconds.
    delays_us: Vec<i64>,
}

impl Member {
    /// Sets a session up from an address of its own, in the calling thread's namespace.
    fn join(number: usize, server: SocketAddr) -> Result<Self> {
        let [.., high, low] = u32::try_from(number + 1)?.to_be_bytes();
        let address = Ipv4Addr::new(10, 78, high, low);
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((address, 0)).into())?;
        socket.connect(&server.into()).context("connecting")?;
        let stream: std::net::TcpStream = socket.into();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(10)))?;
        let mut client = Client::over(stream);
        let (rtp, rtcp) = rtp::pair(address.into())?;
        rtp.set_nonblocking(true)?;
        let port = rtp.local_addr()?.port();
        let url = format!("rtsp://{server}/clip.ts");
        let transport = format!("RTP/AVP;unicast;client_port={port}-{}", port + 1);
        let (_, track) = describe(&mut client, &url)?;
        let answer = client.succeed("SETUP", &track, &[("Transport", &transport)])?;
        let session = answer.header("session").context("no Session")?;
        let session = session.split(';').next().unwrap_or_default().to_owned();
        let (packets, gaps, first_timestamp, last) = (0, 0, None, None);
        Ok(Self {
            client,
            rtp,
            _rtcp: rtcp,
            url,
            session,
            packets,
            gaps,
            first_timestamp,
            last,
            delays_us: Vec::new(),
        })
    }

    fn play(&mut self) -> Result<http::Response> {
        self.client.succeed("PLAY", &self.url, &[("Session", &self.session)])
    }

    /// Reads what is there.
    fn read(&mut self, start: Instant) {
        let mut buffer = [0; 2048];
        while let Ok(length) = self.rtp.recv(&mut buffer) {
            if length < 12 {
                self.gaps += 1;
                continue;
            }
            let arrival = Instant::now();
            let sequence = u16::from_be_bytes([buffer[2], buffer[3]]);
            let timestamp = u32::from_be_bytes([buffer[4], buffer[5], buffer[6], buffer[7]]);
            self.enter(sequence, timestamp, arrival, start);
        }
    }

    fn enter(&mut self, sequence: u16, timestamp: u32, arrival: Instant, start: Instant) {
        let begins_burst = match self.last {
            Some((before, then)) => {
                self.gaps += usize::from(sequence != before.wrapping_add(1));
                (arrival - then).as_micros() > 2_000
            }
            None => true,
        };
        if begins_burst {
            let first = *self.first_timestamp.get_or_insert(timestamp);
            let media_us = i64::from(timestamp.wrapping_sub(first)) * 100 / 9;
            self.delays_us.push((arrival - start).as_micros() as i64 - media_us);
        }
        self.last = Some((sequence, arrival));
        self.packets += 1;
    }
}

/// Reads all sockets on this thread until every member has all of its packets.
fn receive(members: &mut [Member], packets_each: usize, start: Instant, deadline: Deadline) -> Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (index, member) in members.iter().enumerate() {
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&epoll, member.rtp.as_fd(), data, epoll::EventFlags::IN)?;
    }
    let mut events = Vec::with_capacity(members.len());
    let mut complete = 0;
    while complete < members.len() && !deadline.has_passed() {
        events.clear();
        let left = rustix::event::Timespec::try_from(deadline.left())?;
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&left))?;
        for event in &events {
            let member = &mut members[event.data.u64() as usize];
            let before = member.packets;
            member.read(start);
            complete += usize::from(before < packets_each && member.packets >= packets_each);
        }
    }
    Ok(())
}

/// Distance of each session's bursts from its earliest, as text.
fn lateness_seen_by(members: &[Member]) -> String {
    let mut all: Vec<i64> = Vec::new();
    for member in members {
        let earliest = member.delays_us.iter().min().copied().unwrap_or(0);
        all.extend(member.delays_us.iter().map(|delay| delay - earliest));
    }
    all.sort_unstable();
    let at = |share: f64| all.get(((all.len() as f64 * share) as usize).min(all.len().saturating_sub(1)));
    format!("burst delay p50 {:?} us, p99 {:?} us, max {:?} us", at(0.5), at(0.99), at(1.0))
}
