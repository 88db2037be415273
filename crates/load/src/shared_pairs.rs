//! Pairs of UDP sockets that sessions outside the sample share, if there are several local addresses. A pair
//! is bound to all local addresses, and each of its sessions uses a different address. Ten thousand sessions
//! thus need forty pairs, and not ten thousand.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::io::Interest;
use wirepath_media::rtcp::read_from_sender;
use wirepath_sys::arrivals;

use crate::sockets::UdpPair;

/// Maximum length of a compound packet that is read.
const REPORT: usize = 2_048;

/// All pairs of a run. They stay open until the end of the run, so that the drops of their sockets can be
/// counted.
#[derive(Debug, Default)]
pub(crate) struct SharedPairs(Mutex<Vec<Arc<SharedPair>>>);

/// Shared pair of sockets.
#[derive(Debug)]
struct SharedPair {
    sockets: UdpPair,
    /// Sessions, keyed by their local addresses.
    members: Mutex<HashMap<Ipv4Addr, Arc<Member>>>,
}

/// Reports received for a session.
#[derive(Debug, Default)]
pub(crate) struct Member {
    pub(crate) sender_reports: AtomicU64,
    /// Middle 32 bits of the NTP time of the last sender report.
    pub(crate) last_report: AtomicU32,
    pub(crate) has_ended: AtomicBool,
}

/// Place of a session in a pair. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Membership {
    pair: Arc<SharedPair>,
    address: Ipv4Addr,
    pub(crate) member: Arc<Member>,
}

impl SharedPairs {
    /// Joins a pair that has no session with this address, or binds a new pair.
    pub(crate) fn join(&self, address: Ipv4Addr) -> io::Result<Membership> {
        let mut pairs = self.0.lock();
        if let Some(membership) = pairs.iter().find_map(|pair| SharedPair::join(pair, address)) {
            return Ok(membership);
        }
        let sockets = UdpPair::bind(IpAddr::V4(Ipv4Addr::UNSPECIFIED), false)?;
        arrivals::enable_destinations(sockets.rtcp.as_fd())?;
        let pair = Arc::new(SharedPair { sockets, members: Mutex::default() });
        tokio::spawn(read_reports(Arc::clone(&pair)));
        let membership = SharedPair::join(&pair, address);
        pairs.push(pair);
        membership.ok_or_else(|| io::ErrorKind::AddrInUse.into())
    }

    /// Number of datagrams and trains dropped by all pairs.
    pub(crate) fn drops(&self) -> u64 {
        // A socket whose drops cannot be read counts as 0.
        let drops = |pair: &Arc<SharedPair>| arrivals::drops(pair.sockets.rtp.as_fd()).unwrap_or(0);
        self.0.lock().iter().map(|pair| u64::from(drops(pair))).sum()
    }
}

impl SharedPair {
    fn join(pair: &Arc<SharedPair>, address: Ipv4Addr) -> Option<Membership> {
        let mut members = pair.members.lock();
        if members.contains_key(&address) {
            return None;
        }
        let member = Arc::<Member>::default();
        members.insert(address, Arc::clone(&member));
        Some(Membership { pair: Arc::clone(pair), address, member })
    }

    fn take(&self, destination: Option<IpAddr>, bytes: &[u8]) {
        let Some(IpAddr::V4(destination)) = destination else { return };
        // Datagrams that are not RTCP, or not for a member, are ignored.
        let (Some(member), Ok(found)) =
            (self.members.lock().get(&destination).cloned(), read_from_sender(bytes))
        else {
            return;
        };
        member.sender_reports.fetch_add(found.reports.into(), Relaxed);
        if let Some(last) = found.last_report {
            member.last_report.store(last, Relaxed);
        }
        if found.bye {
            member.has_ended.store(true, Relaxed);
        }
    }
}

impl Membership {
    /// Port for RTP. RTCP uses the next port.
    pub(crate) fn port(&self) -> io::Result<u16> {
        self.pair.sockets.port()
    }

    /// Sends a report from the local address of the session.
    pub(crate) fn send(&self, report: &[u8], to: SocketAddr) -> io::Result<()> {
        let SocketAddr::V4(to) = to else { return Err(io::ErrorKind::Unsupported.into()) };
        arrivals::send_from(self.pair.sockets.rtcp.as_fd(), report, to, self.address).map(drop)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.pair.members.lock().remove(&self.address);
    }
}

/// Reads reports for the sessions of a pair, as long as the thread that bound the pair runs.
async fn read_reports(pair: Arc<SharedPair>) {
    let socket = &pair.sockets.rtcp;
    let mut buffer = [0; REPORT];
    while socket.readable().await.is_ok() {
        match socket.try_io(Interest::READABLE, || arrivals::receive(socket.as_fd(), &mut buffer)) {
            Ok(arrival) => pair.take(arrival.to, &buffer[..arrival.bytes]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The server's port was already closed when a report reached it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    /// Promise: Unsampled sessions with their own source addresses share sockets, and sender reports still
    /// reach their session.
    #[test]
    fn sessions_with_several_addresses_share_a_pair() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let pairs = SharedPairs::default();
            let join = |last: u8| pairs.join(Ipv4Addr::new(127, 9, 0, last)).unwrap();
            let (first, second, third) = (join(1), join(2), join(1));
            assert_eq!(first.port().unwrap(), second.port().unwrap());
            assert_ne!(first.port().unwrap(), third.port().unwrap());
            drop(first);
            assert_eq!(join(1).port().unwrap(), second.port().unwrap());

            let server = UdpSocket::bind("127.0.0.1:0").unwrap();
            second.send(b"report", server.local_addr().unwrap()).unwrap();
            let (_, from) = server.recv_from(&mut [0; 100]).unwrap();
            assert_eq!(from, (Ipv4Addr::new(127, 9, 0, 2), second.port().unwrap() + 1).into());
            let sender_report = [0x80, 200, 0, 6].into_iter().chain([0; 24]).collect::<Vec<u8>>();
            server.send_to(&sender_report, from).unwrap();
            let came = async {
                while second.member.sender_reports.load(Relaxed) == 0 {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(10), came).await.unwrap();
            assert_eq!(third.member.sender_reports.load(Relaxed), 0);
            server.send_to(&[0; 9], (Ipv4Addr::new(127, 9, 0, 2), second.port().unwrap())).unwrap();
            assert_eq!(pairs.drops(), 1);
        });
    }
}
