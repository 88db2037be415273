//! Measured side: a separate process that moves data from sources to sinks and does nothing else.
//!
//! Protocol: one line of JSON in ([`Task`]), the port out, connections are made, “ready” out, “go” in.
//! Everything before “go” is excluded from the figures. Other programs are started through this process, too,
//! so that they end with the process that started them.

mod copy;
mod datagrams;
mod fan;
mod function;
mod handlers;
mod judged;
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

/// Backlog of the listening socket.
const BACKLOG: i32 = 4096;

/// Connections of a forwarder.
pub(crate) struct Ends {
    /// Connections that data comes from.
    pub(crate) inputs: Vec<TcpStream>,
    /// Connections that data goes to.
    pub(crate) outputs: Vec<TcpStream>,
    /// Socket that datagrams come to.
    pub(crate) datagrams: Option<UdpSocket>,
}

/// Prepared work of a forwarder: moves all data until its end.
pub(crate) type Prepared = Box<dyn FnOnce() -> io::Result<()>>;

/// Runs `wirepath assess forwarder`: executes the given program, or does the task on standard input. The
/// process is killed when the thread that started it ends.
///
/// # Errors
/// If the program cannot be started, standard input has no task, or the task fails.
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
    // Connections stay open until the parent process has read all results and closes this process's input.
    next().map_or(Ok(()), |_| Err(io::Error::new(io::ErrorKind::InvalidData, "unexpected line after `go`")))
}

fn prepare(task: &Task, ends: Ends) -> io::Result<Prepared> {
    if let Some(judged) = &task.judged {
        return judged::prepare(task, judged, ends);
    }
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
        (Method::Trains, Shape::Datagrams(receivers)) => {
            datagrams::prepare_trains(receivers, task.touch, ends)
        }
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

/// Listener with a backlog for all connections that an experiment makes at once.
pub(crate) fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // If BBR is the default, its pacing timers would dominate the measurement. Accepted sockets inherit this
    // setting.
    socket.set_tcp_congestion(b"reno")?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Raises the limit of open descriptors to the hard limit, or to `enough` if privileges allow more than the
/// hard limit. Returns the new limit.
pub(crate) fn allow_descriptors(enough: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(enough).max(enough);
    for most in [Some(wanted), limit.maximum] {
        // Raising the hard limit needs privileges; raising the soft limit up to it does not.
        if setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).is_ok() {
            break;
        }
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Descriptors of the largest crowd: a connection for each idle stream, two and a pipe for each busy stream,
/// and some spare.
pub(crate) const DESCRIPTORS: u64 = 1 << 14;

fn write_line(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}
