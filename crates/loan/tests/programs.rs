//! Unchanged programs under the library. A runner of its own: what cannot run here, or is not installed, is
//! skipped and counted.
//!
//!   127.0.0.1 ----- lo, a token bucket of 800 Mbit/s ----- 127.0.0.1
//!
//! The queue keeps lent pages for a while, so what is written meanwhile would be sent. Loopback then copies, as
//! the library is told, so each program is made to lend from 4 KiB on, and as often as it can.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wirepath_testkit::trial::{self, Skip};
use wirepath_testkit::trials;

fn main() -> std::process::ExitCode {
    let network = thread::spawn(slow_loopback).join().map_err(|_| "no network namespace".to_owned());
    let missing = network.and_then(|made| made.map_err(|error| format!("{error:#}"))).err();
    let missing = missing.or_else(|| {
        let lender = wirepath_sys::lender::Lender::new();
        lender.err().map(|error| error.to_string())
    });
    let tests = trials![
        netcat_sends_every_byte,
        python_sends_every_byte,
        random_writes_after_sends_do_not_reach_the_receiver,
        memory_of_a_memfd_is_copied,
        iperf_sends_every_byte,
        datagrams_are_lent_from_the_least_size_only,
        sockets_are_judged_by_their_own_loans,
        nginx_sends_every_byte,
        a_closed_connection_raises_the_signal,
        a_program_may_close_descriptors_that_it_did_not_open,
        children_have_no_rings_of_their_parents,
        a_signal_ends_a_send_that_waits,
        arguments_that_are_wrong_have_the_errors_of_the_c_library,
    ];
    trial::run_needing(missing, tests)
}

/// Puts this thread, and the programs that it starts, into a network namespace whose packets wait.
fn slow_loopback() -> Result<()> {
    wirepath_sys::namespace::leave_network()?;
    for command in ["ip link set lo up", "tc qdisc add dev lo root tbf rate 800mbit burst 128k latency 10s"] {
        let status = Command::new("sh").args(["-c", command]).status()?;
        ensure!(status.success(), "{command}: {status}");
    }
    Ok(())
}

/// A folder of a test, and the programs in it.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Result<Bench> {
        slow_loopback()?;
        Ok(Bench { folder: tempfile::tempdir()? })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file of bytes that are nowhere the same as a little later.
    fn file(&self, length: usize) -> Result<(PathBuf, Vec<u8>)> {
        let bytes: Vec<u8> = (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
        fs::write(self.path("sent"), &bytes)?;
        Ok((self.path("sent"), bytes))
    }

    /// A program under the library.
    fn command(&self, program: &str) -> Result<Command> {
        if !is_installed(program) {
            bail!(Skip(format!("{program} is not installed")));
        }
        let test = std::env::current_exe()?;
        let library = test.with_file_name("libwirepath_loan.so");
        ensure!(library.exists(), "{} is missing", library.display());
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", library);
        command.env("WIREPATH_LOAN_MIN_BYTES", "4096");
        command.env("WIREPATH_LOAN_REPORT", self.path("report"));
        Ok(command)
    }

    /// Sum of a count in the reports of all processes that have ended.
    fn count(&self, name: &str) -> Result<u64> {
        let report = fs::read_to_string(self.path("report")).context("no report")?;
        let name = format!("\"{name}\":");
        let values = report.split(&name).skip(1).map(|rest| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u64>()
        });
        Ok(values.sum::<Result<u64, _>>()?)
    }

    fn ensure_lent(&self) -> Result<()> {
        let lent = self.count("lent")?;
        ensure!(lent > 0, "nothing was lent: {}", fs::read_to_string(self.path("report"))?);
        Ok(())
    }
}

fn is_installed(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

/// A program that is killed at the end of a test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

fn ensure_equal(received: &[u8], sent: &[u8]) -> Result<()> {
    let first = received.iter().zip(sent).position(|(one, other)| one != other);
    ensure!(first.is_none(), "byte {first:?} is another");
    ensure!(received.len() == sent.len(), "{} of {} bytes", received.len(), sent.len());
    Ok(())
}

fn ensure_success(mut program: Running, name: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = program.0.try_wait()? {
            ensure!(status.success(), "{name}: {status}");
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{name} does not end");
        thread::sleep(Duration::from_millis(5)); // between two looks
    }
}

/// Promise: With `libwirepath-loan.so`, netcat, Python, iperf3 and nginx send every byte unchanged.
fn netcat_sends_every_byte() -> Result<()> {
    let bench = Bench::new()?;
    let (path, sent) = bench.file(16 << 20)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut command = bench.command("nc")?;
    let port = listener.local_addr()?.port().to_string();
    command.args(["-q", "0", "127.0.0.1", &port]).stdin(fs::File::open(path)?);
    let program = Running(command.spawn()?);
    let mut received = Vec::new();
    accept(&listener)?.read_to_end(&mut received)?;
    ensure_equal(&received, &sent)?;
    ensure_success(program, "nc")?;
    // Its buffer is on its stack, which is not lent.
    ensure!(bench.count("refused")? > 0, "it never came to the rule");
    Ok(())
}

/// Sends datagrams from memory that is written at once.
const DATAGRAMS: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("127.0.0.1", int(sys.argv[1])))
for i in range(2): # for which a receive buffer has room
    buffer = bytearray([i]) * 40000
    assert s.send(buffer) == len(buffer)
    buffer[:] = b"\xff" * len(buffer)
"#;

/// Promise: `libwirepath-loan.so` lends no datagram by default, and datagrams from a lower least size on.
fn datagrams_are_lent_from_the_least_size_only() -> Result<()> {
    for (least, lends) in [(None, false), (Some("32768"), true)] {
        let bench = Bench::new()?;
        let receiver = UdpSocket::bind("127.0.0.1:0")?;
        receiver.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut command = bench.command("python3")?;
        command.env_remove("WIREPATH_LOAN_MIN_BYTES");
        command.envs(least.map(|least| ("WIREPATH_LOAN_MIN_BYTES", least)));
        command.args(["-c", DATAGRAMS, &receiver.local_addr()?.port().to_string()]);
        let program = Running(command.spawn()?);
        let mut room = vec![0; 1 << 16];
        for number in 0..2 {
            let length = receiver.recv(&mut room)?;
            ensure_equal(&room[..length], &[number; 40_000])?;
        }
        ensure_success(program, "python3")?;
        let lent = bench.count("lent")?;
        ensure!((lent > 0) == lends, "least size {least:?}: {lent} lent");
    }
    Ok(())
}

/// Sends in turns to loopback, which copies, and to a device that drops all without a copy.
const TWO_ROUTES: &str = r#"
import socket, sys
def connected(address):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(address)
    return s
copied, lent = connected(("127.0.0.1", int(sys.argv[1]))), connected(("10.88.0.2", 9))
# No other memory is in its pages: a write there would be a fault, and many faults end lending.
buffer = memoryview(bytearray(1 << 17))[1 << 14:][:40000]
for i in range(300):
    copied.send(buffer)
    lent.send(buffer)
"#;

/// Promise: With `libwirepath-loan.so`, a socket that the kernel copies for stops lending, whatever others do.
fn sockets_are_judged_by_their_own_loans() -> Result<()> {
    let bench = Bench::new()?;
    for command in [
        "ip link add sink type ifb",
        "ip link set sink mtu 65000 up", // datagrams in fragments are copied
        "ip addr add 10.88.0.1/24 dev sink",
        "ip neigh add 10.88.0.2 lladdr 02:00:00:00:00:02 dev sink nud permanent",
    ] {
        let status = Command::new("sh").args(["-c", command]).status()?;
        if !status.success() {
            bail!(Skip(format!("`{command}` failed")));
        }
    }
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let mut command = bench.command("python3")?;
    command.args(["-c", TWO_ROUTES, &receiver.local_addr()?.port().to_string()]);
    ensure_success(Running(command.spawn()?), "python3")?;
    let (lent, copied) = (bench.count("lent")?, bench.count("copied_although_lent")?);
    // The queue of loopback holds some when the 16th is heard of.
    ensure!(lent >= 316 && (16..100).contains(&copied), "{lent} lent, {copied} copied");
    Ok(())
}

/// Sends of all kinds, from memory that is written at once, by threads and forked processes, to sockets that
/// wait and to others, whose readiness shows no error.
const PYTHON: &str = r#"
import os, select, socket, sys, threading

def connection(number):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    s.sendall(bytes([number]))
    return s

def waiting(number):
    s = connection(number)
    for i in range(40):
        buffer = bytearray([i]) * 300000
        s.sendall(buffer)
        buffer[:] = b"\xff" * len(buffer)
    s.close()

def ready(number):
    s = connection(number)
    s.setblocking(False)
    poll = select.poll()
    poll.register(s, select.POLLOUT)
    for i in range(40):
        buffer = bytearray([i]) * 300000
        view = memoryview(buffer)
        while view:
            for fd, event in poll.poll():
                assert event == select.POLLOUT, event
            try:
                view = view[s.send(view):]
            except BlockingIOError:
                pass
        buffer[:] = b"\xff" * len(buffer)
    s.close()

def vectors(number):
    s = connection(number)
    for i in range(40):
        buffers = [bytearray([i]) * 100000 for _ in range(3)]
        sent = s.sendmsg(buffers)
        assert sent == 300000, sent
        for buffer in buffers:
            buffer[:] = b"\xff" * len(buffer)
    s.close()

def written(number):
    s = connection(number)
    for i in range(40):
        buffer = bytearray([i]) * 300000
        view = memoryview(buffer)
        while view:
            view = view[os.write(s.fileno(), view):]
        buffer[:] = b"\xff" * len(buffer)
    s.close()

# This thread lends before it forks, and after.
waiting(0)
threads = [threading.Thread(target=kind, args=(1 + n,)) for n, kind in enumerate([waiting, ready, vectors, written])]
for thread in threads: thread.start()
for thread in threads: thread.join()
child = os.fork()
if child == 0:
    waiting(5)
    sys.exit(0)
waiting(6)
assert os.waitpid(child, 0)[1] == 0
"#;

fn python_sends_every_byte() -> Result<()> {
    const CONNECTIONS: usize = 7;
    let bench = Bench::new()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    fs::write(bench.path("sends.py"), PYTHON)?;
    let mut command = bench.command("python3")?;
    command.arg(bench.path("sends.py")).arg(listener.local_addr()?.port().to_string());
    let program = Running(command.spawn()?);
    let readers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = accept(&listener)?;
            Ok(thread::spawn(move || {
                let mut received = Vec::new();
                stream.read_to_end(&mut received).map(|_| received)
            }))
        })
        .collect::<Result<_>>()?;
    let expected: Vec<u8> = (0..40).flat_map(|value| std::iter::repeat_n(value, 300_000)).collect();
    for reader in readers {
        let received = reader.join().expect("it only reads")?;
        ensure_equal(&received[1..], &expected).with_context(|| format!("connection {}", received[0]))?;
    }
    ensure_success(program, "python3")?;
    bench.ensure_lent()?;
    let report = fs::read_to_string(bench.path("report"))?;
    let lent = report.lines().filter(|line| !line.contains("\"lent\":0,")).count();
    ensure!(lent == 2, "not both processes lent: {report}");
    Ok(())
}

/// Blocks, each behind the CRC-32 of its bytes at the time of the send, from one buffer that is written at random
/// places after each send: over TCP, and as datagrams.
const RANDOM_WRITES: &str = r#"
import random, socket, sys, zlib
random.seed(19)
def write(buffer):
    for _ in range(500):
        buffer[random.randrange(len(buffer))] = random.randrange(256)
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
buffer = bytearray(300000)
for i in range(60):
    s.sendall(zlib.crc32(buffer).to_bytes(4, "little"))
    s.sendall(buffer)
    write(buffer)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.setsockopt(socket.SOL_SOCKET, 32, 1 << 25) # SO_SNDBUFFORCE
u.connect(("127.0.0.1", int(sys.argv[2])))
datagram = bytearray(40000)
for i in range(200):
    datagram[:4] = zlib.crc32(memoryview(datagram)[4:]).to_bytes(4, "little")
    assert u.send(datagram) == len(datagram)
    write(datagram)
"#;

/// Promise: With `libwirepath-loan.so`, writes at random places after a send never reach the receiver.
fn random_writes_after_sends_do_not_reach_the_receiver() -> Result<()> {
    let bench = Bench::new()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    receiver.set_read_timeout(Some(Duration::from_secs(60)))?;
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&receiver, 1 << 25)?;
    let mut command = bench.command("python3")?;
    let port = |address: std::net::SocketAddr| address.port().to_string();
    command.args(["-c", RANDOM_WRITES, &port(listener.local_addr()?), &port(receiver.local_addr()?)]);
    let program = Running(command.spawn()?);
    let mut stream = accept(&listener)?;
    let (mut sum, mut block) = ([0; 4], vec![0; 300_000]);
    for number in 0..60 {
        stream.read_exact(&mut sum)?;
        stream.read_exact(&mut block)?;
        ensure!(crc_32(&block) == u32::from_le_bytes(sum), "block {number} differs");
    }
    let mut datagram = vec![0; 1 << 16];
    for number in 0..200 {
        let length = receiver.recv(&mut datagram)?;
        let sum = u32::from_le_bytes(datagram[..4].try_into()?);
        ensure!(length == 40_000 && crc_32(&datagram[4..length]) == sum, "datagram {number} differs");
    }
    ensure_success(program, "python3")?;
    let (lent, faults) = (bench.count("lent")?, bench.count("write_faults")?);
    // It lends to each socket until it has noticed that loopback copies.
    ensure!(lent >= 20 && faults > 0, "{lent} lent, {faults} writes waited for a copy");
    Ok(())
}

/// CRC-32 as zlib computes it.
fn crc_32(bytes: &[u8]) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|byte| {
        (0..8).fold(byte as u32, |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    });
    !bytes.iter().fold(u32::MAX, |crc, byte| crc >> 8 ^ table[usize::from(crc as u8 ^ byte)])
}

/// Sends of a shared mapping, which is written to at once.
const MEMFD: &str = r#"
import mmap, os, socket, sys
fd = os.memfd_create("sent")
os.ftruncate(fd, 300000)
memory = mmap.mmap(fd, 300000)
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for i in range(40):
    memory[:] = bytes([i]) * 300000
    s.sendall(memory)
"#;

/// Promise: Shared memory, as of a memfd, is never lent by a guarded send: the caller copies it.
fn memory_of_a_memfd_is_copied() -> Result<()> {
    let bench = Bench::new()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut command = bench.command("python3")?;
    command.args(["-c", MEMFD, &listener.local_addr()?.port().to_string()]);
    let program = Running(command.spawn()?);
    let mut received = Vec::new();
    accept(&listener)?.read_to_end(&mut received)?;
    let expected: Vec<u8> = (0..40).flat_map(|value| std::iter::repeat_n(value, 300_000)).collect();
    ensure_equal(&received, &expected)?;
    ensure_success(program, "python3")?;
    let (lent, refused) = (bench.count("lent")?, bench.count("refused")?);
    ensure!(lent == 0 && refused > 0, "{lent} lent, {refused} refused");
    Ok(())
}

fn iperf_sends_every_byte() -> Result<()> {
    let bench = Bench::new()?;
    let (path, sent) = bench.file(16 << 20)?;
    let received = bench.path("received");
    if !is_installed("iperf3") {
        bail!(Skip("iperf3 is not installed".into()));
    }
    let server =
        Command::new("iperf3").args(["-s", "-1", "-F"]).arg(&received).stdout(Stdio::null()).spawn()?;
    let server = Running(server);
    wait_for_listener(5201)?;
    let mut command = bench.command("iperf3")?;
    // Without the library, too, iperf3 sends wrong bytes of larger blocks, of which a socket takes parts.
    command.args(["-c", "127.0.0.1", "-n", "16M", "-l", "16K", "-F"]).arg(path).stdout(Stdio::null());
    ensure_success(Running(command.spawn()?), "iperf3")?;
    ensure_success(server, "the server")?;
    // The server ends when the time of the test is over, and not when all has come.
    let received = fs::read(received)?;
    ensure!(received.len() > 1 << 20, "only {} bytes came", received.len());
    ensure_equal(&received, &sent[..received.len()])?;
    // Its buffer is a file's mapping, which is not lent.
    ensure!(bench.count("refused")? > 0, "it never came to the rule");
    Ok(())
}

/// Waits until somebody listens, without connecting.
fn wait_for_listener(port: u16) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    let text = format!(":{port:04X} ");
    loop {
        // Of this thread's namespace. State 0A is LISTEN.
        let listens = ["tcp", "tcp6"].iter().any(|kind| {
            let sockets = fs::read_to_string(format!("/proc/thread-self/net/{kind}")).unwrap_or_default();
            sockets.lines().any(|line| line.contains(&text) && line.contains(" 0A "))
        });
        if listens {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "nobody listens on {port}");
        thread::sleep(Duration::from_millis(5)); // between two looks
    }
}

fn nginx_sends_every_byte() -> Result<()> {
    let bench = Bench::new()?;
    let (_, sent) = bench.file(16 << 20)?;
    let folder = bench.folder.path().display();
    fs::write(
        bench.path("nginx.conf"),
        format!(
            "daemon off; master_process on; worker_processes 2; user root; pid {folder}/pid; error_log {folder}/error.log; env WIREPATH_LOAN_REPORT;
             events {{ worker_connections 64; }}
             http {{
                 access_log off; sendfile off; output_buffers 2 512k;
                 client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
                 fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
                 server {{ listen 127.0.0.1:8080; root {folder}; }}
             }}\n"
        ),
    )?;
    let mut command = bench.command("nginx")?;
    command.arg("-c").arg(bench.path("nginx.conf")).arg("-e").arg(bench.path("error.log"));
    let mut server = Running(command.spawn()?);
    wait_for_listener(8080)?;
    let fetched = thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(fetch)).collect();
        clients.into_iter().map(|client| client.join().expect("it only reads")).collect::<Result<Vec<_>>>()
    });
    // Workers report when they end.
    let stopped = Command::new("kill").args(["-QUIT", &server.0.id().to_string()]).status()?;
    ensure!(stopped.success() && server.0.wait()?.success(), "nginx did not end as it should");
    for received in fetched? {
        ensure_equal(&received, &sent)?;
    }
    bench.ensure_lent()
}

fn fetch() -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect("127.0.0.1:8080")?;
    stream.write_all(b"GET /sent HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").context("no head")?;
    Ok(answer.split_off(head + 4))
}

fn a_closed_connection_raises_the_signal() -> Result<()> {
    let bench = Bench::new()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    fs::write(
        bench.path("closed.py"),
        "import signal, socket, sys\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\n\
         s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\ns.recv(1)\n\
         while True:\n  try: s.sendall(bytes(1000000))\n  except ConnectionResetError: pass\n",
    )?;
    let mut command = bench.command("python3")?;
    command.arg(bench.path("closed.py")).arg(listener.local_addr()?.port().to_string());
    let mut program = Running(command.spawn()?);
    let mut stream = accept(&listener)?;
    stream.write_all(b"x")?;
    drop(stream);
    let status = program.0.wait()?;
    ensure!(status.signal() == Some(libc::SIGPIPE), "{status}");
    Ok(())
}

/// Python that lends, closes all descriptors but its connection's, and opens others at the same numbers.
const CLOSES: &str = r#"
import os, socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
data = bytearray(b'a' * 1000000)
def guards():
    names = []
    for task in os.listdir('/proc/self/task'):
        try: names.append(open(f'/proc/self/task/{task}/comm').read())
        except OSError: pass # it has ended
    return names.count('write-guard\n')
s.sendall(data)
# It names itself when it runs.
while not guards():
    pass
os.closerange(3, s.fileno())
os.closerange(s.fileno() + 1, 1024)
pipes = [os.pipe() for _ in range(20)]
for _, end in pipes:
    os.write(end, b'x' * 64)
# A write to lent memory wakes the guard, which may have ended by itself already.
data[:] = b'b' * len(data)
while guards():
    data[:] = b'b' * len(data)
for start, _ in pipes:
    os.set_blocking(start, False)
    assert os.read(start, 100) == b'x' * 64
s.sendall(data)
"#;

fn a_program_may_close_descriptors_that_it_did_not_open() -> Result<()> {
    let bench = Bench::new()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    fs::write(bench.path("closes.py"), CLOSES)?;
    let mut command = bench.command("python3")?;
    command.arg(bench.path("closes.py")).arg(listener.local_addr()?.port().to_string());
    let program = Running(command.spawn()?);
    let mut stream = accept(&listener)?;
    let reader = thread::spawn(move || {
        let mut received = Vec::new();
        stream.read_to_end(&mut received).map(|_| received)
    });
    ensure_success(program, "python3")?;
    let received = reader.join().expect("it only reads")?;
    ensure!(received.len() == 2_000_000, "{} bytes", received.len());
    ensure_equal(&received[1_000_000..], &[b'b'; 1_000_000])
}

/// The next connection, unless its program ends or hangs before it connects.
fn accept(listener: &TcpListener) -> Result<TcpStream> {
    const LIMIT: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };
    let connected = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&LIMIT))?;
    ensure!(connected == 1, "no connection within {} s", LIMIT.tv_sec);
    Ok(listener.accept()?.0)
}

/// Threads that have lent fork and run programs; neither has a ring of theirs, and a child lends with one of its own.
const FORKS: &str = r#"
import os, socket, subprocess, sys, threading
def rings():
    names = []
    for name in os.listdir('/proc/self/fd'):
        try: names.append(os.readlink('/proc/self/fd/' + name))
        except OSError: pass
    return sum('io_uring' in name for name in names)
def lend(): socket.create_connection(('127.0.0.1', int(sys.argv[1]))).sendall(b'a' * 2000000)
sent, end = threading.Barrier(3), threading.Event()
def work():
    lend()
    sent.wait()
    end.wait()
threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
# First from this thread alone, since a send copies while another thread starts the guard.
lend()
for thread in threads: thread.start()
sent.wait()
assert rings() == 3, rings()
child = os.fork()
if child == 0:
    inherited = rings()
    lend()
    os._exit(0 if (inherited, rings()) == (0, 1) else 1)
assert os.waitpid(child, 0)[1] == 0
assert rings() == 3, rings()
listed = subprocess.run(['ls', '-l', '/proc/self/fd'], capture_output=True, text=True, check=True, close_fds=False)
assert 'io_uring' not in listed.stdout, listed.stdout
end.set()
"#;

/// Promise: A child of a program under `libwirepath-loan.so` has no ring of its parent's threads, by `fork` or `exec`.
fn children_have_no_rings_of_their_parents() -> Result<()> {
    let bench = Bench::new()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    fs::write(bench.path("forks.py"), FORKS)?;
    let mut command = bench.command("python3")?;
    command.arg(bench.path("forks.py")).arg(listener.local_addr()?.port().to_string());
    let program = Running(command.spawn()?);
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = accept(&listener)?;
            Ok(thread::spawn(move || stream.read_to_end(&mut Vec::new())))
        })
        .collect::<Result<_>>()?;
    ensure_success(program, "python3")?;
    for reader in readers {
        ensure!(reader.join().expect("it only reads")? == 2_000_000);
    }
    bench.ensure_lent()
}

/// Promise: With `libwirepath-loan.so`, a signal ends a waiting send, which returns the number of bytes sent.
fn a_signal_ends_a_send_that_waits() -> Result<()> {
    let bench = Bench::new()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    fs::write(
        bench.path("waits.py"),
        "import signal, socket, sys\nsignal.signal(signal.SIGUSR1, lambda *_: None)\n\
         s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n\
         assert 0 < s.send(bytes(30000000)) < 30000000\n",
    )?;
    let mut command = bench.command("python3")?;
    command.env("WIREPATH_LOAN_MIN_BYTES", "20000000"); // more than a loan, so all is copied
    command.arg(bench.path("waits.py")).arg(listener.local_addr()?.port().to_string());
    let program = Running(command.spawn()?);
    let _unread = accept(&listener)?;
    let (id, deadline) = (program.0.id(), Instant::now() + Duration::from_secs(60));
    // Where a process waits for room in a socket.
    while !["wait_woken", "sk_stream_wait_memory"]
        .contains(&fs::read_to_string(format!("/proc/{id}/wchan"))?.as_str())
    {
        ensure!(Instant::now() < deadline, "it does not wait");
        thread::sleep(Duration::from_millis(5)); // between two looks
    }
    let sent = Command::new("kill").args(["-USR1", &id.to_string()]).status()?;
    ensure!(sent.success(), "kill: {sent}");
    ensure_success(program, "python3")
}

fn arguments_that_are_wrong_have_the_errors_of_the_c_library() -> Result<()> {
    let bench = Bench::new()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    fs::write(
        bench.path("wrong.py"),
        "import ctypes, errno, os\nc = ctypes.CDLL(None, use_errno=True)\n\
         assert c.writev(1, None, 0) == 0\n\
         assert c.send(-1, bytes(300000), ctypes.c_size_t(300000), 0) == -1\n\
         assert ctypes.get_errno() == errno.EBADF\n",
    )?;
    let mut command = bench.command("python3")?;
    let input = TcpStream::connect(listener.local_addr()?)?;
    command.arg(bench.path("wrong.py")).stdin(Stdio::from(std::os::fd::OwnedFd::from(input)));
    ensure_success(Running(command.spawn()?), "python3")
}
