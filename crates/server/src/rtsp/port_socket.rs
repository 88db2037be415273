//! A pair of UDP ports that sessions share: one socket for all RTCP, and an RTP socket for each session.
//!
//! RTP sockets of sessions are connected, so they may share a port: the kernel gives each datagram to the
//! socket that is connected to its sender. RTCP of all clients arrives at one socket, which is not connected,
//! and is told apart by its sender's address and port. Two sockets own the ports: other programs cannot bind
//! the RTCP port, and datagrams of strangers to the RTP port end in a socket that nobody reads, without an
//! ICMP error.

use super::counters::Counters;
use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket as BlockingUdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use wirepath_media::rtsp::PortPair;

/// Receive buffer of datagrams that nobody reads: clients open their firewalls with a few to the RTP port.
const RTP_RECEIVE_BUFFER: usize = 4096;

/// Room for some hundreds of reports.
const RTCP_RECEIVE_BUFFER: usize = 256 * 1024;

/// Longest datagram that is read; compound packets keep to the path's MTU (RFC 3550 section 6.1).
const DATAGRAM_LIMIT: usize = 1500;

/// Datagrams that are read in a row; then the socket rests. A flood is dropped by the kernel meanwhile, and
/// costs the thread that serves all requests some percent of its time.
const BATCH: usize = 64;
const REST: Duration = Duration::from_millis(2);

/// Session that receives its client's RTCP.
pub(super) trait RtcpReceiver: Send + Sync {
    /// Reads a datagram of the client's.
    fn receive(&self, datagram: &[u8]);
}

/// Sockets of a pair of ports at a local address.
pub(super) struct PortSocket {
    local: SocketAddr,
    ports: PortPair,
    rtcp: Arc<UdpSocket>,
    /// Holds the RTP port and receives what comes from strangers.
    _strays: BlockingUdpSocket,
    sessions: AtomicUsize,
    clients: Arc<Clients>,
    receiver: JoinHandle<()>,
}

/// Sessions by the address and port that their client sends RTCP from.
struct Clients {
    sessions: Mutex<HashMap<(IpAddr, u16), Weak<dyn RtcpReceiver>>>,
    counters: Arc<Counters>,
}

/// Use of a pair by a session, whose client has this address for RTCP.
pub(super) struct PortUse {
    socket: Arc<PortSocket>,
    peer: SocketAddr,
}

impl PortSocket {
    /// Opens a pair of ports.
    ///
    /// # Errors
    /// `AddrInUse` if another program has one of the ports; else those of socket calls.
    pub(super) fn open(
        local: SocketAddr,
        ports: PortPair,
        counters: &Arc<Counters>,
    ) -> io::Result<Arc<PortSocket>> {
        let rtcp: BlockingUdpSocket = bind(local, ports.rtcp, RTCP_RECEIVE_BUFFER, false)?.into();
        let strays = bind(local, ports.rtp, RTP_RECEIVE_BUFFER, false)?;
        strays.set_reuse_port(true)?; // from now on, for the sockets of sessions
        let rtcp = Arc::new(UdpSocket::from_std(rtcp)?);
        let clients = Arc::new(Clients { sessions: Mutex::default(), counters: Arc::clone(counters) });
        let receiver = tokio::spawn(receive(Arc::clone(&rtcp), Arc::clone(&clients)));
        let (sessions, _strays) = (AtomicUsize::new(0), strays.into());
        Ok(Arc::new(PortSocket { local, ports, rtcp, _strays, sessions, clients, receiver }))
    }

    pub(super) fn ports(&self) -> PortPair {
        self.ports
    }

    /// Number of sessions that use the pair.
    pub(super) fn sessions(&self) -> usize {
        self.sessions.load(Relaxed)
    }

    /// Returns whether a session has this client's RTCP port already.
    pub(super) fn serves(&self, peer: SocketAddr) -> bool {
        self.clients.sessions.lock().contains_key(&key(peer))
    }

    /// A socket on the RTP port, connected to a client.
    pub(super) fn connect_rtp(&self, peer: SocketAddr) -> io::Result<BlockingUdpSocket> {
        let socket = bind(self.local, self.ports.rtp, RTP_RECEIVE_BUFFER, true)?;
        socket.connect(&peer.into())?;
        Ok(socket.into())
    }
}

impl Drop for PortSocket {
    fn drop(&mut self) {
        self.receiver.abort();
    }
}

impl PortUse {
    pub(super) fn new(socket: &Arc<PortSocket>, peer: SocketAddr) -> PortUse {
        socket.sessions.fetch_add(1, Relaxed);
        PortUse { socket: Arc::clone(socket), peer }
    }

    /// Has what the client sends given to this session. If another session has the same client port, only
    /// this one gets it from now on.
    pub(super) fn register(&self, session: Weak<dyn RtcpReceiver>) {
        self.socket.clients.sessions.lock().insert(key(self.peer), session);
    }

    /// Sends a datagram to the client, or fails if that would block.
    pub(super) fn send(&self, datagram: &[u8]) -> io::Result<()> {
        self.socket.rtcp.try_send_to(datagram, self.peer).map(drop)
    }
}

impl Drop for PortUse {
    fn drop(&mut self) {
        let mut sessions = self.socket.clients.sessions.lock();
        // A later session may have the same client port.
        if sessions.get(&key(self.peer)).is_some_and(|session| session.strong_count() == 0) {
            sessions.remove(&key(self.peer));
        }
        drop(sessions);
        self.socket.sessions.fetch_sub(1, Relaxed);
    }
}

/// Gives datagrams to the sessions whose clients sent them.
async fn receive(socket: Arc<UdpSocket>, clients: Arc<Clients>) {
    let mut datagram = [0; DATAGRAM_LIMIT];
    loop {
        if socket.readable().await.is_err() {
            return; // the runtime ends
        }
        let mut read = 0;
        while read < BATCH {
            match socket.try_recv_from(&mut datagram) {
                Ok((length, peer)) => clients.deliver(peer, &datagram[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => tracing::debug!(%error, "RTCP was not received"),
            }
            read += 1;
        }
        if read == BATCH {
            tokio::time::sleep(REST).await;
        }
    }
}

impl Clients {
    fn deliver(&self, peer: SocketAddr, datagram: &[u8]) {
        let session = self.sessions.lock().get(&key(peer)).and_then(Weak::upgrade);
        match session {
            Some(session) => session.receive(datagram),
            None => self.counters.rtcp_strays.increment(),
        }
    }
}

fn key(peer: SocketAddr) -> (IpAddr, u16) {
    (peer.ip(), peer.port())
}

fn bind(mut local: SocketAddr, port: u16, receive_buffer: usize, shared: bool) -> io::Result<Socket> {
    local.set_port(port);
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.set_recv_buffer_size(receive_buffer)?;
    socket.set_reuse_port(shared)?;
    socket.bind(&local.into())?;
    Ok(socket)
}
