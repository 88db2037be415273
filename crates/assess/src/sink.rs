//! Receiver: takes data, ignores its content, and reports how much arrived.
//!
//! The receiver runs as a separate process (`wirepath assess sink`), so that its processor time is not
//! charged to the sender: on another host, or started by the assessment behind a pair of veth devices or on
//! loopback. A control connection announces the data ([`protocol`]). On this connection the receiver reports
//! the received amount, by which the sender paces itself: UDP would lose data that does not fit into the
//! receiver's buffer.
//!
//! A client of the control port can only make the receiver count datagrams. The receiver sends only on
//! connections made to it, accepts data only from the address of the control connection, stores no data, and
//! has a limit and a timeout for everything.

mod count;
pub mod protocol;
mod remote;

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::net::sockopt;

use crate::result::Transport;
use crate::sockets;
use count::{Source, count};
use protocol::{Answer, Request};

pub use remote::{Account, Remote};

/// Limit of concurrent control connections. An assessment has one, and two for each path of the server while
/// it measures the server's paths.
const MOST_CONNECTIONS: u32 = 32;

/// Timeout for a request on a control connection.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);

/// Requested size of the receive buffer in bytes.
const BUFFER: usize = 16 << 20;

/// Maximum number of bytes that the kernel charges to the buffer for a packet in addition to its payload.
const CHARGE: u64 = 2304;

static CONNECTIONS: AtomicU32 = AtomicU32::new(0);

/// Serves control connections; errors of connections go to `log`.
///
/// # Errors
/// If the listening socket fails.
pub fn serve(listener: &TcpListener, log: fn(&str)) -> io::Result<()> {
    loop {
        let (control, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            // The client closed the connection before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(error),
        };
        if CONNECTIONS.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
            CONNECTIONS.fetch_sub(1, Ordering::Relaxed);
            log(&format!("{peer}: refused, {MOST_CONNECTIONS} connections are open"));
            continue;
        }
        std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            if let Err(error) = one_run(control)
                && !has_left(&error)
            {
                log(&format!("{peer}: {error}"));
            }
            CONNECTIONS.fetch_sub(1, Ordering::Relaxed);
        })?;
    }
}

/// Serves one control connection, which is one run.
fn one_run(mut control: TcpStream) -> io::Result<()> {
    control.set_read_timeout(Some(REQUEST_WITHIN))?;
    control.set_write_timeout(Some(REQUEST_WITHIN))?;
    control.set_nodelay(true)?;
    let (here, peer) = (control.local_addr()?.ip(), control.peer_addr()?.ip());
    let mut bytes = [0; Request::LENGTH];
    control.read_exact(&mut bytes)?;
    let request =
        Request::read(&bytes).ok_or_else(|| invalid("invalid request: expected one of `wirepath assess`"))?;
    match request.transport {
        Transport::Udp => {
            let (socket, window) = udp(here, SocketAddr::new(peer, request.port), request.packet)?;
            control.write_all(&Answer { port: socket.local_addr()?.port(), window }.write())?;
            count(&control, &Source::Datagrams { socket: &socket, packet: request.packet.into() }, window)
        }
        Transport::Tcp => {
            let listener = TcpListener::bind((here, 0))?;
            control.write_all(&Answer { port: listener.local_addr()?.port(), window: u64::MAX }.write())?;
            count(&control, &Source::Stream(&accept(&listener, peer)?), u64::MAX)
        }
    }
}

/// Returns whether the sender closed the connection, which ends a run. A client that only checks for a sink
/// sends no request, and a sender over TCP does not wait for data in flight.
fn has_left(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe)
}

/// Opens a socket for datagrams of one sender; returns it with the number of bytes that may be in flight.
fn udp(here: IpAddr, sender: SocketAddr, packet: u16) -> io::Result<(UdpSocket, u64)> {
    let socket = UdpSocket::bind((here, 0))?;
    socket.connect(sender)?;
    sockets::prepare_to_receive(&socket, BUFFER)?;
    let packet = u64::from(packet);
    let window = sockopt::socket_recv_buffer_size(&socket)? as u64 / 2 * packet / (packet + CHARGE);
    Ok((socket, window.max(1)))
}

/// Accepts the data connection, only from the address of the control connection.
fn accept(listener: &TcpListener, peer: IpAddr) -> io::Result<TcpStream> {
    loop {
        let (stream, from) = sockets::accept(listener, REQUEST_WITHIN)?;
        if from.ip() == peer {
            return Ok(stream);
        }
    }
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests;
