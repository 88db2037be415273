//! The side that is measured: a process of its own that moves data from sources to sinks and does nothing
//! else.
//!
//! Its protocol is a line of JSON in ([`Task`]), the port out, connections made, “ready” out, “go” in. All
//! before “go” is in no figure. Other programs are started through it, too, so that they end with the process
//! that started them.

mod copy;
mod datagrams;
mod fan;
mod function;
mod handlers;
mod links;
mod plain;
mod requests;
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

use super::task::{Shape, Task, messages};
use crate::sockets;
use crate::subject::Method;

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
    let mut lines = io::stdin().lines();
    let mut next = || lines.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
    let task: Task = serde_json::from_str(&next()?)?;
    let ends = Ends::open(&task)?;
    let prepared = prepare(&task, ends)?;
    write_line(messages::READY)?;
    if next()? != messages::GO {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "unexpected line: expected `go`"));
    }
    prepared()?;
    write_line(messages::DONE)?;
    // Connections stay until whoever started this has seen all it wants to see, and closes this end.
    next().map_or(Ok(()), |_| Err(io::Error::new(io::ErrorKind::InvalidData, "unexpected line after `go`")))
}

fn prepare(task: &Task, ends: Ends) -> io::Result<Prepared> {
    match (task.method, &task.shape) {
        (_, Shape::Files(file, size)) => requests::prepare(task, Some(file), *size, ends),
        (_, Shape::FileProxy(size)) => requests::prepare(task, None, *size, ends),
        (Method::Streams, _) => service::prepare(task, ends),
        (Method::Sendfile, Shape::FileToSocket(file)) => sendfile::prepare(file, ends),
        (Method::Splice, Shape::SocketToSocket) => splice::prepare(ends),
        (Method::Uring, Shape::SocketToSocket) => uring::prepare(task, ends),
        (Method::ReadWrite, Shape::FileToSocket(_) | Shape::SocketToFile(_) | Shape::SocketToSocket) => {
            copy::prepare(task, ends)
        }
        (Method::Plain, Shape::FileToSocket(_) | Shape::SocketToFile(_) | Shape::SocketToSocket) => {
            plain::prepare(task, ends)
        }
        (Method::ReadWrite, Shape::Datagrams(receivers)) => datagrams::prepare(receivers, task.touch, ends),
        (Method::ReadWrite | Method::Plain, Shape::Merge | Shape::Stripe | Shape::Random | Shape::Mirror) => {
            fan::prepare(task, ends)
        }
        (method, shape) => {
            let why = format!("{method} does not support {shape:?}");
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
    }
}

impl Ends {
    /// Prints the port, and makes all connections, in order.
    fn open(task: &Task) -> io::Result<Ends> {
        if let Shape::Datagrams(_) = &task.shape {
            let socket = UdpSocket::bind((task.listen, 0))?;
            write_line(&format!("{}{}", messages::LISTENING, socket.local_addr()?.port()))?;
            return Ok(Ends { inputs: Vec::new(), outputs: Vec::new(), datagrams: Some(socket) });
        }
        let listener = listener(SocketAddr::new(task.listen, 0))?;
        write_line(&format!("{}{}", messages::LISTENING, listener.local_addr()?.port()))?;
        let outputs = (0..task.outputs).map(|_| Ok(listener.accept()?.0)).collect::<io::Result<_>>()?;
        let connect = |source: SocketAddr| (0..task.inputs).map(|_| sockets::connect(source, None)).collect();
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

/// Has this process open as many descriptors as may be had, `enough` where privileges allow more than the
/// hard limit; answers how many that is.
pub(crate) fn allow_descriptors(enough: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(enough).max(enough);
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

fn write_line(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}
