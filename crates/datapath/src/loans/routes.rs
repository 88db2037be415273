//! Memory of the routes on which the kernel copies lent pages, shared by many sockets: a new connection does not
//! have to find out again.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use wirepath_sys::device::{Addresses, DeviceName};
use wirepath_sys::socket::namespace;

use super::{ASK_AGAIN, TRIALS};

/// Most remembered routes. Beyond it, the oldest is forgotten.
const MOST_ROUTES: usize = 64;

/// Experience with routes: of the whole process, or of some sinks only.
///
/// A route is a network namespace and the device with the local address, or "this machine" if the peer's address
/// is one of this machine. One device may lead to peers to which the kernel copies and to others: so a socket
/// with experience of its own is not affected. After 1,024 copies each of the others lends once again, until a
/// notification tells what became of it. Loans by rings neither affect a route nor are affected.
#[derive(Clone, Debug, Default)]
pub struct LoanRoutes(Arc<Mutex<Vec<Known>>>);

/// A remembered route.
type Known = (Key, Arc<LoanRoute>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Key {
    ThisMachine,
    Device { namespace: u64, name: DeviceName },
}

/// Results of the loans of all sockets of one route.
#[derive(Debug, Default)]
pub(crate) struct LoanRoute {
    /// Consecutive notifications of copied loans, up to now.
    copied_in_a_row: AtomicU64,
    /// Copies since the route was found to copy, or the last test found so again. A loan whose socket is dropped
    /// before its notification has no effect.
    since_last: AtomicU64,
}

/// Ends of a connected socket: the device of its local address, and where its peer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// `None` if no device is known to have the local address.
    device: Option<DeviceName>,
    /// `None` without a peer, or if it is unknown where the peer is.
    peer: Option<Peer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    ThisMachine,
    OtherMachine,
}

impl Ends {
    /// Ends of a socket with these addresses. IPv4 addresses in the form of IPv6 (`::ffff:192.0.2.1`), as sockets
    /// for both protocols have, are those of IPv4. Reads the addresses of all devices once.
    pub(crate) fn of(local: IpAddr, peer: Option<SocketAddr>) -> Ends {
        let addresses = Addresses::read().ok();
        let device = |address: IpAddr| addresses.as_ref()?.device(address);
        let peer = peer.map(|peer| peer.ip().to_canonical()).and_then(|peer| match peer.is_loopback() {
            true => Some(Peer::ThisMachine),
            false => match addresses.as_ref()?.device(peer) {
                Some(_) => Some(Peer::ThisMachine),
                None => Some(Peer::OtherMachine),
            },
        });
        Ends { device: device(local.to_canonical()).cloned(), peer }
    }

    /// Device of the local address.
    pub(crate) fn device(&self) -> Option<&DeviceName> {
        self.device.as_ref()
    }
}

static OF_PROCESS: LazyLock<LoanRoutes> = LazyLock::new(LoanRoutes::default);

impl LoanRoutes {
    /// The experience that all sinks share that were not given another.
    pub fn of_process() -> LoanRoutes {
        OF_PROCESS.clone()
    }

    /// Route of a socket with these ends. `None` if its device is unknown, or its namespace, before Linux 5.14;
    /// then each socket judges for itself.
    pub(crate) fn route(&self, socket: BorrowedFd<'_>, ends: &Ends) -> Option<Arc<LoanRoute>> {
        let key = Key::of(socket, ends)?;
        let mut routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, route)) = routes.iter().find(|(known, _)| *known == key) {
            return Some(Arc::clone(route));
        }
        if routes.len() >= MOST_ROUTES {
            routes.remove(0);
        }
        let route = Arc::<LoanRoute>::default();
        routes.push((key, Arc::clone(&route)));
        Some(route)
    }
}

impl Key {
    fn of(socket: BorrowedFd<'_>, ends: &Ends) -> Option<Key> {
        match ends.peer? {
            Peer::ThisMachine => Some(Key::ThisMachine),
            Peer::OtherMachine => {
                Some(Key::Device { namespace: namespace(socket).ok()?, name: ends.device.clone()? })
            }
        }
    }
}

impl LoanRoute {
    /// Counts a copy, if the route is one that copies: others only read this memory.
    pub(crate) fn copied(&self) {
        if self.copies() {
            self.since_last.fetch_add(1, Relaxed);
        }
    }

    /// Counts a notification, which may report several loans.
    pub(crate) fn returned(&self, copied: bool) {
        if copied {
            let is_verdict = self.copied_in_a_row.fetch_add(1, Relaxed) + 1 == TRIALS;
            // Other notifications, as of sockets that lend in any case, do not put the next test off.
            if is_verdict || self.since_last() >= ASK_AGAIN {
                self.since_last.store(0, Relaxed);
            }
        } else {
            self.copied_in_a_row.store(0, Relaxed);
        }
    }

    /// Returns whether the kernel currently copies what is lent on this route.
    pub(crate) fn copies(&self) -> bool {
        self.copied_in_a_row.load(Relaxed) >= TRIALS
    }

    pub(crate) fn since_last(&self) -> u64 {
        self.since_last.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn route(routes: &LoanRoutes, local: &str, peer: &str) -> Option<Arc<LoanRoute>> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        routes.route(socket.as_fd(), &Ends::of(local.parse().unwrap(), peer.parse().ok()))
    }

    #[test]
    fn addresses_in_the_form_of_ipv6_have_the_device_of_the_ipv4_address() {
        let ends = |local: &str, peer: &str| Ends::of(local.parse().unwrap(), peer.parse().ok());
        let plain = ends("127.0.0.1", "127.0.0.1:1");
        assert_eq!(plain.device(), Some(&DeviceName::new(c"lo")));
        assert_eq!(ends("::ffff:127.0.0.1", "[::ffff:127.0.0.1]:1"), plain);
        assert_eq!(ends("::ffff:203.0.113.9", "[::ffff:203.0.113.1]:1").device(), None);
    }

    #[test]
    fn a_route_is_a_device_unless_the_peer_is_this_machine() {
        let routes = LoanRoutes::default();
        let lo = route(&routes, "127.0.0.1", "127.0.0.1:1").unwrap();
        for peer in ["127.0.0.1:2", "127.9.9.9:3", "[::1]:4", "[::ffff:127.0.0.1]:5"] {
            assert!(Arc::ptr_eq(&lo, &route(&routes, "127.0.0.1", peer).unwrap()), "{peer}");
        }
        let device = route(&routes, "127.0.0.1", "203.0.113.1:1").unwrap();
        assert!(!Arc::ptr_eq(&device, &lo), "another machine is reached by another route");
        for (local, peer) in [("127.0.0.1", "203.0.113.2:1"), ("::ffff:127.0.0.1", "[::ffff:203.0.113.2]:1")]
        {
            assert!(Arc::ptr_eq(&device, &route(&routes, local, peer).unwrap()), "{local} to {peer}");
        }
        assert!(route(&routes, "203.0.113.9", "203.0.113.1:1").is_none(), "no device has this address");
        assert!(route(&routes, "127.0.0.1", "not connected").is_none());
        let of_others = route(&LoanRoutes::default(), "127.0.0.1", "127.0.0.1:1").unwrap();
        assert!(!Arc::ptr_eq(&of_others, &lo), "others have their own experience");
    }

    #[test]
    fn a_route_copies_after_three_notifications_and_then_counts_copies() {
        let route = LoanRoute::default();
        for _ in 0..2 {
            route.returned(true);
        }
        route.copied();
        assert_eq!((route.copies(), route.since_last()), (false, 0));
        route.returned(true);
        route.copied();
        assert_eq!((route.copies(), route.since_last()), (true, 1));
        route.returned(true);
        assert_eq!((route.copies(), route.since_last()), (true, 1), "it was no test");
        (1..ASK_AGAIN).for_each(|_| route.copied());
        route.returned(true);
        assert_eq!((route.copies(), route.since_last()), (true, 0), "a test was answered");
        route.returned(false);
        assert!(!route.copies());
    }

    #[test]
    fn the_memory_of_routes_is_bounded() {
        let routes = LoanRoutes::default();
        let key = |number: u64| Key::Device { namespace: number, name: DeviceName::new(c"eth0") };
        routes.0.lock().unwrap().extend((1..=64).map(|number| (key(number), Arc::default())));
        route(&routes, "127.0.0.1", "127.0.0.1:1").unwrap();
        let kept = routes.0.lock().unwrap();
        assert_eq!((kept.len(), &kept[0].0, &kept[63].0), (64, &key(2), &Key::ThisMachine));
    }
}
