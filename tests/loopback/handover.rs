//! Handover of the listening sockets to a new server, and sockets that systemd hands in.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use wirepath_tests::interleaved::Interleaved;
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::process::{self, Process, find};
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::{self, Builder, Server};
use wirepath_tests::{Deadline, clips, http, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_handover_loses_neither_sessions_nor_requests,
        a_server_that_handed_over_says_so_and_ends_its_sessions_after_the_drain_time,
        a_new_server_that_cannot_start_changes_nothing,
        a_handover_goes_on_without_the_server_before,
        a_stranger_gets_no_sockets,
        systemd_hears_of_the_new_main_process,
        sockets_of_systemd_are_served,
    ]
}

/// Sessions over UDP, and as many over TCP.
const SESSIONS: usize = 10;

/// A folder with a clip and a small file, and place for the socket and the cache.
struct Home {
    folder: tempfile::TempDir,
    media: tempfile::TempDir,
}

impl Home {
    fn new(clip: &Path) -> Result<Home> {
        let media = clips::folder(&[("clip.ts", clip)])?;
        fs::write(media.path().join("note.txt"), "a note")?;
        Ok(Home { folder: process::open_folder()?, media })
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("handover")
    }

    fn builder(&self) -> Builder<'_> {
        let socket = self.socket();
        let cache = self.folder.path().join("cache");
        Server::of(self.media.path()).cache(cache).with(["--handover", &socket.to_string_lossy()])
    }

    /// Starts a server that takes over from the one that runs.
    fn successor(&self) -> Result<Server> {
        self.builder().with(["--takeover"]).start()
    }

    /// Has a server try to take over with further arguments, which it cannot; returns its log.
    fn fails(&self, mut command: Command, arguments: &[&str]) -> Result<String> {
        command.arg("serve").arg(self.media.path()).arg("--cache").arg(self.folder.path().join("cache"));
        command.arg("--handover").arg(self.socket()).args(arguments);
        let mut process = Process::start(&command, true)?;
        let status = process.wait(Deadline::seconds(20.0))?;
        ensure!(!status.success(), "it started: {}", process.log());
        Ok(process.log())
    }
}

fn program() -> Result<Command> {
    Ok(Command::new(server::binary()?))
}

/// Promise: A handover loses no session, packet or request, also when several follow each other.
///
/// Twenty sessions play from each of three servers, whose successors start while they do, and requests come on
/// connections of their own all the time.
fn a_handover_loses_neither_sessions_nor_requests() -> Result<()> {
    let clip = clips::constant(6)?;
    let (home, stored) = (Home::new(&clip)?, fs::read(&clip)?);
    let mut server = home.builder().start()?;
    let (ends, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    let address = server.http;
    thread::scope(|scope| {
        let asking = scope.spawn(|| ask_until(&ends, &requests, address));
        let handed_over = (0..3).try_for_each(|_| {
            let (udp, tcp) = playing(&server)?;
            let tcp: Vec<_> = tcp
                .into_iter()
                .map(|mut session| {
                    scope.spawn(move || {
                        session.to_the_end(Deadline::seconds(40.0))?;
                        anyhow::Ok(session.received)
                    })
                })
                .collect();
            let successor = home.successor()?;
            ensure!(successor.rtsp == server.rtsp && successor.http == server.http, "other addresses");
            let before = std::mem::replace(&mut server, successor);
            ensure_foreign_session_is_unknown(&server, &udp[0])?;
            for playback in &udp {
                ensure_bytes(&playback.receiver.to_the_end(Deadline::seconds(40.0))?, &stored)?;
            }
            for session in tcp {
                let received = session.join().map_err(|_| anyhow::anyhow!("a session panicked"))??;
                ensure_bytes(&received, &stored)?;
            }
            drop(udp);
            ensure_ends_well(before)
        });
        ends.store(true, Relaxed);
        asking.join().map_err(|_| anyhow::anyhow!("the requests panicked"))??;
        handed_over
    })?;
    ensure!(requests.load(Relaxed) > 10, "only {requests:?} requests were made");
    ensure!(server.sessions()? == 0);
    Ok(())
}

/// Sessions that have received something.
fn playing(server: &Server) -> Result<(Vec<Playback>, Vec<Interleaved>)> {
    let udp = (0..SESSIONS).map(|_| {
        let mut playback = Playback::set_up(server.rtsp, "clip.ts")?;
        playback.play(None)?;
        Ok(playback)
    });
    let udp: Vec<Playback> = udp.collect::<Result<_>>()?;
    let tcp = (0..SESSIONS).map(|_| {
        let mut session = Interleaved::set_up(server.rtsp, "clip.ts", None)?;
        session.play(None)?;
        Ok(session)
    });
    let tcp = tcp.collect::<Result<_>>()?;
    for playback in &udp {
        let has_begun = |received: &wirepath_tests::rtp::Received| !received.packets.is_empty();
        playback.receiver.wait_for("packet", Deadline::seconds(10.0), has_begun)?;
    }
    Ok((udp, tcp))
}

/// Requests a file again and again, each time on a connection of its own.
fn ask_until(ends: &AtomicBool, requests: &AtomicUsize, address: SocketAddr) -> Result<()> {
    while !ends.load(Relaxed) {
        let number = requests.fetch_add(1, Relaxed);
        let answer = http::get(address, "/note.txt").with_context(|| format!("request {number}"))?;
        ensure!(answer.status == 200 && answer.body == b"a note", "{answer:?}");
    }
    Ok(())
}

/// A session belongs to the server that set it up (RFC 2326 section 11.3.6).
fn ensure_foreign_session_is_unknown(server: &Server, playback: &Playback) -> Result<()> {
    let mut client = Client::connect(server.rtsp)?;
    let answer = client.request("PAUSE", &playback.url, &[("Session", &playback.session)])?;
    ensure!(answer.status == 454, "{answer:?}");
    Ok(())
}

fn ensure_ends_well(mut before: Server) -> Result<()> {
    let status = before.process.wait(Deadline::seconds(20.0))?;
    ensure!(status.success(), "{status}: {}", before.process.log());
    Ok(())
}

/// Promise: After a handover the old server reports `draining` in its status, and ends remaining sessions
/// after `--drain`.
fn a_server_that_handed_over_says_so_and_ends_its_sessions_after_the_drain_time() -> Result<()> {
    let home = Home::new(&clips::constant(60)?)?;
    let before = home.builder().with(["--drain", "1s"]).start()?;
    ensure!(before.status()?["draining"] == false);
    let mut playback = Playback::set_up(before.rtsp, "clip.ts")?;
    playback.play(None)?;
    // A connection that is open already stays with the old server, for one more response.
    let (mut kept, mut buffer) = (http::connect(before.http)?, Vec::new());
    write!(kept, "GET /note.txt HTTP/1.1\r\nHost: a\r\n\r\n")?;
    ensure!(http::read_response(&mut kept, &mut buffer, false)?.status == 200);
    let server = home.successor()?;
    let said = || Ok(before.process.log().contains("handed over; serving").then_some(()));
    Deadline::seconds(10.0).wait_for("the end of listening", said)?;
    write!(kept, "GET /api/status HTTP/1.1\r\nHost: a\r\n\r\n")?;
    let answer = http::read_response(&mut kept, &mut buffer, false)?;
    let status: serde_json::Value = serde_json::from_slice(&answer.body)?;
    ensure!(status["draining"] == true && status["sessions"].as_array().map(Vec::len) == Some(1), "{status}");
    ensure!(answer.header("connection") == Some("close"), "{answer:?}");
    playback.receiver.to_the_end(Deadline::seconds(15.0))?;
    ensure_ends_well(before)?;
    ensure!(server.status()?["draining"] == false);
    Ok(())
}

/// Promise: A new server that cannot start says why, and the running server continues.
fn a_new_server_that_cannot_start_changes_nothing() -> Result<()> {
    let home = Home::new(&clips::constant(2)?)?;
    let mut server = home.builder().start()?;
    let missing = home.folder.path().join("missing");
    for (arguments, why) in [
        (&["--takeover", "--rtsp", "127.0.0.1:1"][..], "is not the address of the socket that is handed in"),
        (&["--takeover", &missing.to_string_lossy()], "missing"),
        (&["--takeover", "--multicast", "239.255.42.1:5004"], "two servers would send to the same groups"),
        (&[], "add --takeover to replace it"),
    ] {
        let log = home.fails(program()?, arguments)?;
        ensure!(log.contains(why), "{arguments:?}: {log}");
        ensure!(http::get(server.http, "/note.txt")?.status == 200 && server.process.is_running()?);
        ensure!(server.status()?["draining"] == false, "{arguments:?}");
    }
    // The next one can still take over.
    let successor = home.successor()?;
    ensure_ends_well(server)?;
    ensure!(http::get(successor.http, "/note.txt")?.status == 200);
    Ok(())
}

/// Promise: A new server that has received the sockets starts, also if the old server is killed meanwhile.
///
/// The new server waits for its users, which come through a pipe, between taking the sockets and being ready.
fn a_handover_goes_on_without_the_server_before() -> Result<()> {
    let home = Home::new(&clips::constant(2)?)?;
    let mut before = home.builder().start()?;
    let address = before.http;
    let users = home.folder.path().join("users");
    mknodat(CWD, &users, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    let server = thread::scope(|scope| {
        let killing = scope.spawn(|| {
            let offered = || Ok(before.process.log().contains("offered to a new server").then_some(()));
            Deadline::seconds(15.0).wait_for("an offer", offered)?;
            // Opening it waits for the reader, which has the sockets then.
            let mut pipe = fs::OpenOptions::new().write(true).open(&users)?;
            before.process.signal(Signal::KILL)?;
            before.process.wait(Deadline::seconds(10.0))?;
            let waiting = http::connect(address).context("the queue was lost")?;
            pipe.write_all(b"anna:wirepath:0123456789abcdef0123456789abcdef\n")?;
            anyhow::Ok(waiting)
        });
        // By this thread, with whose end it would be killed.
        let arguments = ["--takeover", "--users", &users.to_string_lossy(), "--folder-users", "/=-"];
        let server = home.builder().with(arguments).start();
        let mut waiting = killing.join().map_err(|_| anyhow::anyhow!("killing panicked"))??;
        write!(waiting, "GET /note.txt HTTP/1.1\r\nHost: a\r\n\r\n")?;
        let answer = http::read_response(&mut waiting, &mut Vec::new(), false)?;
        ensure!(answer.status == 200, "{answer:?}");
        server
    })?;
    ensure!(server.http == address && http::get(address, "/note.txt")?.status == 200);
    let ended = || Ok(server.process.log().contains("the old server has ended").then_some(()));
    Deadline::seconds(10.0).wait_for("a line in the log", ended)
}

/// Promise: Only root and the same user can receive the sockets.
fn a_stranger_gets_no_sockets() -> Result<()> {
    require!(process::is_root(), "only root can be two users");
    let home = Home::new(&clips::constant(2)?)?;
    let mut server = home.builder().start()?;
    let mode = fs::metadata(home.socket())?.permissions().mode();
    ensure!(mode & 0o777 == 0o600, "mode {mode:o}");
    let stranger = home.folder.path().join("stranger");
    fs::create_dir(&stranger)?;
    let program = home.folder.path().join("wirepath");
    // By another process: a child of this one may have a descriptor for writing for a moment, and then it cannot run.
    process::run("cp", [server::binary()?, program.clone()], 20.0)?;
    let ordinary = || process::as_ordinary_user(&program.to_string_lossy(), &stranger);
    let log = home.fails(ordinary(), &["--takeover"])?;
    ensure!(log.contains("Permission denied"), "{log}");
    // Without the help of the mode, too.
    fs::set_permissions(home.socket(), fs::Permissions::from_mode(0o666))?;
    let log = home.fails(ordinary(), &["--takeover"])?;
    ensure!(log.contains("the running server refused"), "{log}");
    let logged = || Ok(server.process.log().contains("not of this one or root").then_some(()));
    Deadline::seconds(10.0).wait_for("a line in the log", logged)?;
    ensure!(server.process.is_running()? && http::get(server.http, "/note.txt")?.status == 200);
    Ok(())
}

/// Promise: After a handover the old server tells systemd the new main process (`MAINPID=`).
fn systemd_hears_of_the_new_main_process() -> Result<()> {
    let home = Home::new(&clips::constant(2)?)?;
    let name = home.folder.path().join("notify");
    let socket = UnixDatagram::bind(&name)?;
    socket.set_read_timeout(Some(Deadline::seconds(10.0).left()))?;
    let variable = format!("NOTIFY_SOCKET={}", name.display());
    let before = home.builder().under(["env", &variable]).start()?;
    let server = home.successor()?; // it is not told of systemd
    ensure_ends_well(before)?;
    let mut told = String::new();
    let expected = format!("MAINPID={}", server.process.pid());
    while !told.contains(&expected) {
        let mut buffer = [0; 1000];
        let length = socket.recv(&mut buffer).with_context(|| format!("{expected} was not said: {told}"))?;
        told += std::str::from_utf8(&buffer[..length])?;
    }
    Ok(())
}

/// Promise: Sockets from systemd are served by their names and can be handed over.
fn sockets_of_systemd_are_served() -> Result<()> {
    require!(find("perl").is_some(), "perl, which hands sockets in, is not installed");
    // Descriptors up to $^F stay open in what is executed; the order is not that of the server's own listeners.
    const LAUNCHER: &str = "BEGIN { $^F = 20 } use IO::Socket::INET; use POSIX; my $file = shift; \
        my @l = map { IO::Socket::INET->new(Listen => 9, LocalAddr => '127.0.0.1:0') or die } 1 .. 2; \
        open(my $out, '>', $file) or die; print $out join(' ', map { $_->sockport } @l); close $out; \
        my @high = map { fcntl($_, F_DUPFD, 10) } @l; POSIX::dup2($high[$_], 3 + $_) for 0 .. 1; \
        POSIX::close($_) for @high; \
        @ENV{qw(LISTEN_PID LISTEN_FDS LISTEN_FDNAMES)} = ($$, 2, $ENV{NAMES}); exec @ARGV or die";
    let home = Home::new(&clips::constant(2)?)?;
    let ports = home.folder.path().join("ports");
    let launcher = |names: &str| {
        let names = format!("NAMES={names}");
        home.builder().under(["env", &names, "perl", "-e", LAUNCHER, &ports.to_string_lossy()])
    };
    let refused = launcher("http:wirepath.socket").start().err().context("an unknown name was taken")?;
    ensure!(format!("{refused:#}").contains("set FileDescriptorName="), "{refused:#}");
    let server = launcher("http:rtsp").start()?;
    let shown = format!("{} {}", server.http.port(), server.rtsp.port());
    ensure!(fs::read_to_string(&ports)? == shown, "it listens on {shown}");
    ensure_bytes(&Playback::whole(server.rtsp, "clip.ts", 15.0)?, &fs::read(clips::constant(2)?)?)?;
    ensure!(http::get(server.http, "/note.txt")?.status == 200);
    let successor = home.successor()?;
    ensure!(successor.http == server.http);
    ensure_ends_well(server)
}
