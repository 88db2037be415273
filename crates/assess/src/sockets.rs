//! Sockets of receivers, sinks and sources.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};
use wirepath_sys::socket::set_receive_offload;

use crate::error::Error;

/// Connects. If BBR is the default, its pacing timers would dominate the measurement; a connection that began
/// with BBR keeps them, so the algorithm is set before.
pub(crate) fn connect(address: SocketAddr, timeout: Option<Duration>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_congestion(b"reno")?;
    match timeout {
        Some(timeout) => socket.connect_timeout(&address.into(), timeout)?,
        None => socket.connect(&address.into())?,
    }
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

/// Accepts a connection, and makes it non-blocking.
pub(crate) fn accept(listener: &TcpListener, timeout: Duration) -> io::Result<(TcpStream, SocketAddr)> {
    if !is_readable(listener, timeout)? {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let (connection, from) = listener.accept()?;
    connection.set_nonblocking(true)?;
    Ok((connection, from))
}

/// Waits until there is data to read; returns whether there is.
pub(crate) fn is_readable(file: impl AsFd, timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    Ok(poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&timeout))? > 0)
}

/// Makes a socket non-blocking, with a receive buffer of this size.
pub(crate) fn prepare_to_receive(socket: &UdpSocket, buffer: usize) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    if sockopt::set_socket_recv_buffer_size_force(socket, buffer).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, buffer)?; // without privileges, up to net.core.rmem_max
    }
    // An older kernel delivers single datagrams, at a cost to the receiver only, which is not measured.
    set_receive_offload(socket.as_fd(), true).ok();
    Ok(())
}

/// Joins a thread at the other end, and returns its result.
pub(crate) fn join<T>(thread: JoinHandle<io::Result<T>>, who: &str) -> Result<T, Error> {
    let result = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    result.map_err(|error| Error::Faulty(format!("{who}: {error}")))
}
