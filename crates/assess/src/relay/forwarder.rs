//! The side that is measured: a process of its own that moves data from sources to sinks and does nothing
//! else.
//!
//! Its protocol is a line of JSON in ([`Task`]), the port out, connections made, “ready” out, “go” in. All
//! before “go” is in no figure. Other programs are started through it, too, so that they end with the process
//! that started them.

mod copy;
mod datagrams;
mod fan;
mod links;
mod sendfile;
mod service;
mod splice;
mod uring;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};
use socket2::{Domain, Protocol, Socket, Type};

use super::task::{How, Shape, Task, words};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// Connections of a forwarder.
pub(crate) struct Ends {
    /// Data comes from them.
    pub(crate) inputs: Vec<TcpStream>,
    /// Data goes to them.
    pub(crate) outputs: Vec<TcpStream>,
    /// Datagrams come to it.
    pub(crate) datagrams: Option<UdpSocket>,
}

/// Work of a forwarder that is ready: moves everything, to the end.
pub(crate) type Prepared = Box<dyn FnOnce() -> io::Result<()>>;

/// Runs `wirepath assess forwarder`: becomes the program that is named, or does the task on standard input.
/// Ends with the thread that started it, however that ends.
///
/// # Errors
/// If the program cannot be started, if standard input has no task, or if what it asks for fails.
pub fn serve(program: Option<&mut Command>) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if let Some(program) = program {
        return Err(program.exec());
    }
    allow_descriptors();
    let mut lines = io::stdin().lines();
    let mut next = || lines.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
    let task: Task = serde_json::from_str(&next()?)?;
    let ends = Ends::open(&task)?;
    let prepared = prepare(&task, ends)?;
    say(words::READY)?;
    if next()? != words::GO {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "unexpected line: expected `go`"));
    }
    prepared()?;
    say(words::DONE)?;
    // Connections stay until whoever started this has seen all it wants to see, and closes this end.
    next().map_or(Ok(()), |_| Err(io::Error::new(io::ErrorKind::InvalidData, "unexpected line after `go`")))
}

fn prepare(task: &Task, ends: Ends) -> io::Result<Prepared> {
    match (task.how, &task.shape) {
        (How::Streams, _) => service::prepare(task, ends),
        (How::Sendfile, Shape::FileToSocket(file)) => sendfile::prepare(file, ends),
        (How::Sendfile, _) => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "sendfile sends files to sockets"))
        }
        (How::Splice, Shape::SocketToSocket) => splice::prepare(ends),
        (How::Splice, _) => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "splice moves from sockets to sockets"))
        }
        (How::Uring, Shape::SocketToSocket) => uring::prepare(task, ends),
        (How::Uring, _) => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "io_uring copies from sockets to sockets"))
        }
        (How::ReadWrite, Shape::FileToSocket(_) | Shape::SocketToFile(_) | Shape::SocketToSocket) => {
            copy::prepare(task, ends)
        }
        (How::ReadWrite, Shape::Datagrams(receivers)) => datagrams::prepare(receivers, ends),
        (How::ReadWrite, Shape::Merge | Shape::Stripe | Shape::Random | Shape::Mirror) => {
            fan::prepare(task, ends)
        }
    }
}

impl Ends {
    /// Prints the port, and makes all connections, in order.
    fn open(task: &Task) -> io::Result<Ends> {
        if let Shape::Datagrams(_) = &task.shape {
            let socket = UdpSocket::bind((task.listen, 0))?;
            say(&format!("{}{}", words::LISTENING, socket.local_addr()?.port()))?;
            return Ok(Ends { inputs: Vec::new(), outputs: Vec::new(), datagrams: Some(socket) });
        }
        let listener = listener(SocketAddr::new(task.listen, 0))?;
        say(&format!("{}{}", words::LISTENING, listener.local_addr()?.port()))?;
        let outputs = (0..task.outputs).map(|_| Ok(listener.accept()?.0)).collect::<io::Result<_>>()?;
        let connect = |source: SocketAddr| (0..task.inputs).map(|_| connected(source)).collect();
        let inputs = task.source.map_or_else(|| Ok(Vec::new()), connect)?;
        Ok(Ends { inputs, outputs, datagrams: None })
    }
}

/// A listener whose queue holds whatever an experiment connects at once.
pub(crate) fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // BBR, where that is the default, paces by timers, which would be what is measured; who is accepted has
    // what this has.
    socket.set_tcp_congestion(b"reno")?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A connection.
pub(crate) fn connected(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_congestion(b"reno")?;
    socket.connect(&address.into())?;
    Ok(socket.into())
}

/// Has this process open as many descriptors as may be had; answers how many that is.
pub(crate) fn allow_descriptors() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(DESCRIPTORS).max(DESCRIPTORS);
    for most in [Some(wanted), limit.maximum] {
        // To raise the hard limit takes privileges; up to it everybody may go.
        if setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).is_ok() {
            break;
        }
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Descriptors of the largest crowd: a connection for each idle stream, two and a pipe for each busy one, and
/// some.
pub(crate) const DESCRIPTORS: u64 = 1 << 14;

fn say(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}
