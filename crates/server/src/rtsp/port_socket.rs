//! A pair of UDP ports that sessions share: one socket for all RTCP, and an RTP socket for each session.
//!
//! RTP sockets of sessions are connected, so they may share a port: the kernel gives each datagram to the
//! socket that is connected to its sender. RTCP of all clients arrives at one unconnected socket, and is
//! assigned to sessions by the sender's address and port. Two sockets hold the ports: other programs cannot
//! bind the RTCP port, and datagrams of strangers to the RTP port go to a socket that is never read, without
//! an ICMP error.
//!
//! Nothing waits for RTCP, so it is read at intervals, many datagrams in a call, and the sockets are in no
//! epoll set: in epoll, each datagram received or sent would wake the thread that serves all requests.

use super::counters::Counters;
use super::ticks;
use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use wirepath_datapath::batches::{self, Batch, Datagram};
use wirepath_media::rtsp::PortPair;

/// Receive buffer for datagrams that are never read: clients send a few to the RTP port to open their
/// firewalls.
const RTP_RECEIVE_BUFFER: usize = 4096;

/// Receive buffer for some hundred reports.
const RTCP_RECEIVE_BUFFER: usize = 256 * 1024;

/// Longest datagram that is read; compound packets keep to the path's MTU (RFC 3550 section 6.1).
const DATAGRAM_LIMIT: usize = 1500;

/// Longest and shortest time between two reads of a pair. With the first, sessions spread over 64 pairs cost
/// 500 calls a second; a pair whose read was full is read again after the second, so that its receive buffer,
/// which has room for some hundred datagrams, does not overflow.
const LONGEST_INTERVAL: Duration = Duration::from_millis(128);
const SHORTEST_INTERVAL: Duration = Duration::from_millis(2);

/// Most datagrams of a read; the rest waits for the next read. The kernel drops the excess of a flood, and
/// reading it takes some percent of the time of the thread that serves all requests.
const DATAGRAMS_PER_READ: usize = 2 * batches::MOST;

/// Most datagrams of a read that empties the socket. It exceeds the capacity of a receive buffer, so a flood
/// leaves only datagrams that came during the read.
const MOST_WAITING: usize = 2048;

/// Session that receives its client's RTCP.
pub(super) trait RtcpReceiver: Send + Sync {
    /// Reads a datagram of the client's, which came at `received`.
    fn receive(&self, datagram: &[u8], received: SystemTime);
}

/// Buffers for datagrams, shared by the pairs of a server.
pub(super) type SharedBatch = Mutex<Batch>;

/// Room for datagrams as long as those that are read.
pub(super) fn shared_batch() -> Arc<SharedBatch> {
    Arc::new(Mutex::new(Batch::new(DATAGRAM_LIMIT)))
}

/// Sockets of a pair of ports at a local address.
pub(super) struct PortSocket {
    local: SocketAddr,
    ports: PortPair,
    rtcp: Arc<UdpSocket>,
    /// Holds the RTP port and receives datagrams from strangers.
    _strays: UdpSocket,
    clients: Arc<Clients>,
    batch: Arc<SharedBatch>,
    receiver: JoinHandle<()>,
}

/// Sessions by the address and port from which their client sends RTCP.
struct Clients {
    /// Number of sessions that use the pair.
    uses: AtomicUsize,
    /// Notified when a session begins to use the pair.
    session_added: Notify,
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
        batch: &Arc<SharedBatch>,
    ) -> io::Result<Arc<PortSocket>> {
        let rtcp: UdpSocket = bind(local, ports.rtcp, RTCP_RECEIVE_BUFFER, false)?.into();
        let strays = bind(local, ports.rtp, RTP_RECEIVE_BUFFER, false)?;
        strays.set_reuse_port(true)?; // from now on, for the sockets of sessions
        batches::enable_timestamps(rtcp.as_fd())?; // round trips end when a report comes, not when it is read
        let (rtcp, _strays) = (Arc::new(rtcp), strays.into());
        let clients = Arc::new(Clients::new(Arc::clone(counters)));
        let receiver = tokio::spawn(receive(Arc::clone(&rtcp), Arc::clone(&clients), Arc::clone(batch)));
        let batch = Arc::clone(batch);
        Ok(Arc::new(PortSocket { local, ports, rtcp, _strays, clients, batch, receiver }))
    }

    pub(super) fn ports(&self) -> PortPair {
        self.ports
    }

    /// Number of sessions that use the pair.
    pub(super) fn sessions(&self) -> usize {
        self.clients.uses.load(Relaxed)
    }

    /// Returns whether this client's RTCP port is used by a session already.
    pub(super) fn serves(&self, peer: SocketAddr) -> bool {
        self.clients.sessions.lock().contains_key(&key(peer))
    }

    /// A socket on the RTP port, connected to a client.
    pub(super) fn connect_rtp(&self, peer: SocketAddr) -> io::Result<UdpSocket> {
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
        if socket.clients.uses.fetch_add(1, Relaxed) == 0 {
            // Reports that came while there was no session belong to no session.
            socket.clients.discard(&socket.rtcp, &mut socket.batch.lock());
        }
        socket.clients.session_added.notify_one();
        PortUse { socket: Arc::clone(socket), peer }
    }

    /// Registers a session for the client's datagrams. Another session with the same client port gets none any
    /// more.
    pub(super) fn register(&self, session: Weak<dyn RtcpReceiver>) {
        self.socket.clients.sessions.lock().insert(key(self.peer), session);
    }

    /// Reads all waiting datagrams: the last one of a client whose session is about to end may be behind
    /// those of others.
    pub(super) fn read_waiting(&self) {
        let PortSocket { clients, rtcp, batch, .. } = &*self.socket;
        clients.read(rtcp, &mut batch.lock(), MOST_WAITING);
    }

    /// Sends a datagram to the client, or fails if that would block.
    pub(super) fn send(&self, datagram: &[u8]) -> io::Result<()> {
        self.socket.rtcp.send_to(datagram, self.peer).map(drop)
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
        self.socket.clients.uses.fetch_sub(1, Relaxed);
    }
}

/// Assigns datagrams to the sessions of their senders, as long as the pair has sessions.
async fn receive(socket: Arc<UdpSocket>, clients: Arc<Clients>, batch: Arc<SharedBatch>) {
    let mut interval = LONGEST_INTERVAL;
    loop {
        while clients.uses.load(Relaxed) == 0 {
            clients.session_added.notified().await;
        }
        sleep_until(ticks::after(Instant::now(), interval)).await;
        let read = clients.read(&socket, &mut batch.lock(), DATAGRAMS_PER_READ);
        interval = next_interval(interval, read);
    }
}

/// Time to the next read: the shortest if datagrams were left over, longer if there were few.
fn next_interval(interval: Duration, read: usize) -> Duration {
    let next = match read {
        DATAGRAMS_PER_READ.. => SHORTEST_INTERVAL,
        _ if read < DATAGRAMS_PER_READ / 4 => interval * 2,
        _ => interval,
    };
    next.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL)
}

impl Clients {
    fn new(counters: Arc<Counters>) -> Clients {
        Clients {
            uses: AtomicUsize::new(0),
            session_added: Notify::new(),
            sessions: Mutex::default(),
            counters,
        }
    }

    /// Assigns waiting datagrams to their sessions, until `most` were read or none waits. Returns their
    /// number.
    fn read(&self, socket: &UdpSocket, batch: &mut Batch, most: usize) -> usize {
        self.take_waiting(socket, batch, most, |datagram| {
            let received =
                datagram.since_1970.map_or_else(SystemTime::now, |time| SystemTime::UNIX_EPOCH + time);
            self.deliver(datagram.from, datagram.bytes, received);
        })
    }

    /// Discards the datagrams that wait.
    fn discard(&self, socket: &UdpSocket, batch: &mut Batch) {
        self.take_waiting(socket, batch, MOST_WAITING, |_| self.counters.rtcp_strays.increment());
    }

    /// Reads datagrams, until at least `most` were read or none waits. Returns their number.
    fn take_waiting(
        &self,
        socket: &UdpSocket,
        batch: &mut Batch,
        most: usize,
        mut take: impl FnMut(Datagram<'_>),
    ) -> usize {
        let mut read = 0;
        while read < most {
            self.counters.rtcp_reads.increment();
            let number = batch.receive(socket.as_fd(), &mut take).unwrap_or_else(|error| {
                tracing::debug!(%error, "RTCP was not received");
                0
            });
            read += number;
            if number < batches::MOST {
                break;
            }
        }
        read
    }

    fn deliver(&self, peer: Option<SocketAddr>, datagram: &[u8], received: SystemTime) {
        let session = peer.and_then(|peer| self.sessions.lock().get(&key(peer)).and_then(Weak::upgrade));
        match session {
            Some(session) => session.receive(datagram, received),
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

#[cfg(test)]
mod tests;
