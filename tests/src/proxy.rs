//! TCP proxies as processes: `wirepath relay --listen`, and others that people have.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

use crate::ports::free_port;
use crate::process::{Process, find};
use crate::{Deadline, require, server};

/// Time limit of every step.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A running proxy, killed when dropped.
pub struct Proxy {
    /// The process; its standard error is its log.
    pub process: Process,
    /// Address of the first listener, if it is TCP.
    pub address: Option<SocketAddr>,
    folder: TempDir,
}

impl Proxy {
    /// `wirepath relay` with these arguments, and `--json`, when it is ready.
    pub fn start<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> Result<Proxy> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(server::binary()?);
        command.arg("relay").args(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        command.arg("--json").arg(folder.path().join("status.json"));
        let mut process = Process::start(&command, false)?;
        let line = first_line(process.take_stdout()?);
        let line = line.with_context(|| format!("it did not get ready; it printed:\n{}", process.log()))?;
        let listeners: Vec<&str> = line.split(' ').filter_map(|word| word.strip_prefix("listen=")).collect();
        ensure!(line.starts_with("ready ") && !listeners.is_empty(), "it printed {line}");
        let address = listeners[0].strip_prefix("tcp://").map(str::parse).transpose()?;
        Ok(Proxy { process, address, folder })
    }

    /// `wirepath relay` on a free port in front of these backends.
    pub fn before(backends: &[SocketAddr], arguments: &[&str]) -> Result<Proxy> {
        let mut all = vec!["--listen".to_owned(), "127.0.0.1:0".to_owned()];
        backends.iter().for_each(|backend| all.extend(["--to".to_owned(), backend.to_string()]));
        all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        Proxy::start(all)
    }

    /// HAProxy in its TCP mode.
    pub fn haproxy(backend: SocketAddr) -> Result<Proxy> {
        require!(find("haproxy").is_some(), "haproxy is not installed");
        let address = free_port()?;
        let text = format!(
            "defaults\n mode tcp\n timeout connect 20s\n timeout client 60s\n timeout server 60s\n\
             listen proxy\n bind {address}\n server backend {backend}\n"
        );
        Proxy::configured(address, &text, |file| {
            let mut command = Command::new(find("haproxy").unwrap_or_default());
            command.args(["-db", "-f"]).arg(file);
            command
        })
    }

    /// nginx with its stream module.
    pub fn nginx(backend: SocketAddr) -> Result<Proxy> {
        let module = Path::new("/usr/lib/nginx/modules/ngx_stream_module.so");
        require!(find("nginx").is_some() && module.exists(), "nginx or its stream module is not installed");
        let address = free_port()?;
        let text = format!(
            "load_module {};\ndaemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\nevents {{}}\n\
             stream {{ server {{ listen {address}; proxy_pass {backend}; proxy_half_close on; }} }}\n",
            module.display()
        );
        Proxy::configured(address, &text, nginx)
    }

    fn configured(address: SocketAddr, text: &str, command: impl FnOnce(&Path) -> Command) -> Result<Proxy> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("configuration");
        std::fs::write(&file, text)?;
        let mut process = Process::start(&command(&file), true)?;
        // A connection to see whether it listens would come through to the backend: the kernel's table tells
        // as well.
        let listens = || {
            ensure!(process.is_running()?, "it ended");
            Ok(is_listening(address)?.then_some(()))
        };
        let listening = Deadline::seconds(PATIENCE.as_secs_f64()).wait_for("a proxy that listens", listens);
        listening.with_context(|| process.log())?;
        Ok(Proxy { process, address: Some(address), folder })
    }

    /// Connects to its first listener.
    pub fn connect(&self) -> Result<TcpStream> {
        connect(self.address.context("it has no TCP listener")?)
    }

    /// Address of the `--metrics` listener; waits for it.
    pub fn metrics(&mut self) -> Result<SocketAddr> {
        Deadline::seconds(PATIENCE.as_secs_f64()).wait_for("the listener of --metrics", || {
            let log = self.process.log();
            ensure!(self.process.is_running()?, "it ended: {log}");
            let address = log.split("http://").nth(1).and_then(|rest| rest.split("/metrics").next());
            Ok(address.and_then(|address| address.parse().ok()))
        })
    }

    /// Has it end, and answers with which code and what it says that it did.
    pub fn end(mut self) -> Result<(i32, Value)> {
        self.process.signal(rustix::process::Signal::TERM)?;
        self.wait()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> Result<(i32, Value)> {
        let status = self.process.wait(Deadline::seconds(PATIENCE.as_secs_f64()))?;
        let code = status.code().with_context(|| format!("{status}: {}", self.process.log()))?;
        let file = self.folder.path().join("status.json");
        let status = std::fs::read(file).with_context(|| self.process.log())?;
        Ok((code, serde_json::from_slice(&status)?))
    }
}

/// nginx with this configuration, in the folder that it is in.
pub fn nginx(file: &Path) -> Command {
    let mut command = Command::new(find("nginx").unwrap_or_default());
    command.args(["-e", "stderr", "-c"]).arg(file).arg("-p").arg(file.parent().unwrap_or(Path::new("/")));
    command
}

/// Returns whether somebody listens there.
pub fn is_listening(address: SocketAddr) -> Result<bool> {
    Ok(sockets_at(address)?.iter().any(|socket| socket.get(3).is_some_and(|state| state == "0A"))) // TCP_LISTEN
}

/// For how many hundredths of a second a TCP connection of this machine, by both its addresses, goes on
/// without a word before it asks whether its peer is there; None if it does not ask, or does something else
/// just now.
pub fn silence_left(local: SocketAddr, peer: SocketAddr) -> Result<Option<u64>> {
    let peer = in_table(peer)?;
    let socket = sockets_at(local)?.into_iter().find(|socket| socket.get(2) == Some(&peer));
    // "02" is the timer of keepalive (proc(5), tr and tm->when).
    let timer = socket.as_ref().and_then(|socket| socket.get(5)?.strip_prefix("02:"));
    timer.map(|left| u64::from_str_radix(left, 16).context("a timer")).transpose()
}

/// Rows of the table of TCP sockets with this address, split into words.
fn sockets_at(address: SocketAddr) -> Result<Vec<Vec<String>>> {
    let local = in_table(address)?;
    let table = std::fs::read_to_string("/proc/net/tcp").context("/proc/net/tcp")?;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    Ok(table.lines().map(words).filter(|words| words.get(1) == Some(&local)).collect())
}

/// As proc(5) has it: the address in the machine's byte order, the port in plain hexadecimal.
fn in_table(address: SocketAddr) -> Result<String> {
    let SocketAddr::V4(v4) = address else { bail!("only IPv4 is looked for") };
    Ok(format!("{:08X}:{:04X}", u32::from_ne_bytes(v4.ip().octets()), v4.port()))
}

/// Connects; no read or write lasts longer than [`PATIENCE`].
pub fn connect(address: SocketAddr) -> Result<TcpStream> {
    let connection = TcpStream::connect_timeout(&address, PATIENCE);
    patient(connection.with_context(|| format!("connecting to {address}"))?)
}

/// Takes the next connection.
pub fn accept(listener: &TcpListener) -> Result<TcpStream> {
    let limit = Timespec::try_from(PATIENCE).context("patience")?;
    let ready = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&limit)).context("poll")?;
    ensure!(ready == 1, "nobody connected");
    patient(listener.accept()?.0)
}

fn patient(connection: TcpStream) -> Result<TcpStream> {
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    Ok(connection)
}

/// A port of the loopback address that refuses connections as long as this lives.
///
/// A free port does not do for that: another process may get it, and a connection that gets it as its own port is
/// connected to itself.
pub struct ClosedPort {
    address: SocketAddr,
    _bound: Socket,
}

impl ClosedPort {
    /// Binds a port and does not listen.
    pub fn new() -> Result<Self> {
        let bound = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        bound.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
        let address = bound.local_addr()?.as_socket().context("an address of another family")?;
        Ok(Self { address, _bound: bound })
    }

    /// The port's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A backend that says its number on every connection, and then what it hears, until the other side has
/// ended.
pub fn echo(number: u8) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    echo_on(listener, number);
    Ok(address)
}

/// The same on a socket that listens. It ends with this process.
pub fn echo_on(listener: TcpListener, number: u8) {
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                // A check hangs up at once, and a client may: what they miss, their side sees.
                let mut alive = connection.write_all(&[number]).is_ok();
                while alive && let Ok(length @ 1..) = connection.read(&mut buffer) {
                    alive = connection.write_all(&buffer[..length]).is_ok();
                }
            });
        }
    });
}

fn first_line(stdout: impl Read + Send + 'static) -> Result<String> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stdout).lines();
        // Nobody listens any more if it took too long.
        _ = tell.send(lines.next());
        lines.for_each(drop);
    });
    Ok(told.recv_timeout(PATIENCE).context("it says nothing")?.context("it ended")??)
}
