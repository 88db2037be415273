//! Test bed: the network that is sent into.
//!
//! ```text
//!   namespace of the measuring thread               namespace of the receiver
//!   10.80.0.1/16 sink   (drops what is sent to 10.80.0.0/16)
//!   10.81.0.1/24 near ------------- veth ----------- far 10.81.0.2/24
//!   127.0.0.1    lo
//! ```
//!
//! Both namespaces have no name: they live as long as the thread, its sockets and the receiver's process, and
//! vanish with them, devices and all, also when the process is killed. There is nothing to clean up. Without
//! privileges there are no namespaces, and packets go over the host's loopback device; to a real host they go
//! over the host's devices.

mod client_bed;
mod device;
mod namespace;
mod pair;
mod processors;
mod receiver;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Doing, Error};
use crate::header_sizes::udp_payload_limit;
use crate::options::Sink;
use crate::sink::Remote;
pub(crate) use client_bed::{ClientBed, MOST_CLIENTS, Traffic, client_addresses, with_client_bed};
pub(crate) use device::{Counted, Device};
use namespace::{Namespace, ip};
use pair::Pair;
use processors::Processors;
pub use receiver::LISTENING;
use receiver::Receiver;

/// The end of the veth pair that is sent from.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 81, 0, 1);
/// The end where the receiver is.
const FAR: Ipv4Addr = Ipv4Addr::new(10, 81, 0, 2);
/// Somewhere behind the device that drops. Bare loops send there too.
const DROPPED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 80, 1, 0)), 5000);

/// Connect timeout for each of several addresses of a sink.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// A network to send into.
#[derive(Debug)]
pub struct TestBed {
    /// Destination of UDP.
    pub(crate) udp: Target,
    /// Destination of TCP: a connection needs a receiver, so with sinks that drop it goes over the veth pair.
    pub(crate) tcp: Target,
    /// The veth pair that what is verified goes over, or why there is none.
    pair: Result<Pair, Error>,
    /// The processor that the measuring thread stays on.
    pub(crate) cpu: u32,
    /// All that may be used.
    processors: Option<Processors>,
    /// MTU of the device that UDP is sent over.
    pub(crate) mtu: u32,
    /// Ends with the test bed.
    _receiver: Option<Receiver>,
}

/// Destination of packets.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Device that drops and counts them.
    Drops(Device),
    /// Receiver that counts them.
    Receives(Remote),
}

/// Sets a test bed for this sink on a thread of its own, which stays on one processor (the last that may be
/// used if none is named), and calls `act` there. When it returns the test bed is gone.
///
/// # Errors
/// [`Error::Input`] if a sink needs privileges or a program that are not there, or is a host that is not, or
/// the processor may not be used; what `act` answers.
pub fn with_test_bed<T: Send>(
    sink: &Sink,
    mtu: u32,
    cpu: Option<u32>,
    act: impl FnOnce(&TestBed) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    on_a_thread(|| {
        let processors = Processors::of_thread(cpu)?;
        processors.pin_to_others()?;
        let test_bed = TestBed {
            cpu: processors.measuring(),
            processors: Some(processors.clone()),
            ..TestBed::set(sink, mtu)?
        };
        processors.pin_to_measuring()?;
        act(&test_bed)
    })
}

/// Checks that the processor may be used.
///
/// # Errors
/// [`Error::Input`] if not.
pub fn check_processor(cpu: Option<u32>) -> Result<(), Error> {
    Processors::of_thread(cpu).map(drop)
}

/// Checks that another host listens as a sink, before minutes are spent on what needs none.
///
/// # Errors
/// [`Error::Input`] if it has no address or does not listen at any.
pub fn check_sink(sink: &Sink) -> Result<(), Error> {
    let Sink::Host(name) = sink else { return Ok(()) };
    let mut refusal = None;
    for address in addresses(name)? {
        match TcpStream::connect_timeout(&address, ANSWERS_WITHIN) {
            Ok(_) => return Ok(()),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    let why = refusal.map_or("the name has no address".to_owned(), |error| error.to_string());
    let port = name.rsplit(':').next().unwrap_or_default();
    Err(Error::Input(format!(
        "no sink answers at {name}: {why}; run there: wirepath assess sink --listen 0.0.0.0:{port} (or [::]:{port})"
    )))
}

/// The addresses of another host.
fn addresses(name: &str) -> Result<Vec<SocketAddr>, Error> {
    let unknown = |why: String| Error::Input(format!("cannot resolve the sink {name}: {why}"));
    let found: Vec<SocketAddr> =
        name.to_socket_addrs().map_err(|error| unknown(error.to_string()))?.collect();
    if found.is_empty() { Err(unknown("the name has no address".to_owned())) } else { Ok(found) }
}

/// Calls `act` on a thread of its own that stays on one processor, with its number: for work without a
/// network.
pub(crate) fn without_network<T: Send>(
    cpu: Option<u32>,
    act: impl FnOnce(u32) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    on_a_thread(|| {
        let processors = Processors::of_thread(cpu)?;
        processors.pin_to_measuring()?;
        act(processors.measuring())
    })
}

fn on_a_thread<T: Send>(act: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("measuring".to_owned());
        let thread = thread.spawn_scoped(scope, act).doing("starting the measuring thread")?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl TestBed {
    fn set(sink: &Sink, mtu: u32) -> Result<TestBed, Error> {
        if let Sink::Host(address) = sink {
            return TestBed::to_host(address);
        }
        match (sink, Namespace::unshare()?) {
            (Sink::Loopback, None) => TestBed::on_loopback(Err(Error::Unable(
                "it takes a network namespace, and so root".to_owned(),
            ))),
            (Sink::Loopback, Some(here)) => {
                ip(&format!("link set lo up mtu {mtu}"))?;
                TestBed::on_loopback(Pair::from(here, mtu))
            }
            (sink, None) => Err(Error::Input(format!(
                "the sink {sink} needs a network namespace, which takes root with CAP_SYS_ADMIN and CAP_NET_ADMIN: run it with sudo (in a container: \
                 --privileged), or with --sink loopback"
            ))),
            (sink, Some(here)) => TestBed::with_pair(sink, mtu, here),
        }
    }

    /// No namespace for what goes to another host: its way leads over the host's devices.
    fn to_host(address: &str) -> Result<TestBed, Error> {
        let found = addresses(address)?;
        // A name may have an address that nobody listens at: IPv6 and IPv4, or of a device that is down.
        let answers = |address: &&SocketAddr| TcpStream::connect_timeout(address, ANSWERS_WITHIN).is_ok();
        let address = if found.len() > 1 { found.iter().find(answers).copied() } else { None };
        let address = address.unwrap_or(found[0]);
        let remote = Remote { address };
        // What the way there takes unfragmented, the pair has to take too.
        let mtu = remote.path_mtu()?.min(Pair::MOST_MTU);
        TestBed::plain(remote, None, Pair::aside(mtu))
    }

    fn on_loopback(pair: Result<Pair, Error>) -> Result<TestBed, Error> {
        let receiver = Receiver::start(Ipv4Addr::LOCALHOST.into())?;
        TestBed::plain(receiver.remote(), Some(receiver), pair)
    }

    /// Test bed without a device of our own that is measured.
    fn plain(
        remote: Remote,
        receiver: Option<Receiver>,
        pair: Result<Pair, Error>,
    ) -> Result<TestBed, Error> {
        let mtu = remote.path_mtu()?;
        let lane = Target::Receives(remote);
        Ok(TestBed { udp: lane.clone(), tcp: lane, pair, cpu: 0, processors: None, mtu, _receiver: receiver })
    }

    fn with_pair(sink: &Sink, mtu: u32, here: Namespace) -> Result<TestBed, Error> {
        ip(&format!("link set lo up mtu {mtu}"))?;
        let pair = Pair::from(here, mtu)?;
        let receiver = pair.at_far(|| Receiver::start(FAR.into()))?;
        let receives = Target::Receives(receiver.remote());
        let udp = match sink.drops() {
            true => Target::Drops(Device::that_drops(mtu, *sink == Sink::Drop)?),
            false => receives.clone(),
        };
        Ok(TestBed {
            udp,
            tcp: receives,
            pair: Ok(pair),
            cpu: 0,
            processors: None,
            mtu,
            _receiver: Some(receiver),
        })
    }

    /// Destination address of UDP packets.
    pub(crate) fn udp_address(&self) -> SocketAddr {
        match &self.udp {
            Target::Drops(_) => DROPPED,
            Target::Receives(remote) => remote.address,
        }
    }

    /// Payload of UDP that fills a packet of at most so many bytes on the way to where UDP goes.
    pub(crate) fn udp_payload_limit(&self, mtu: u32) -> u32 {
        udp_payload_limit(mtu.min(self.mtu), self.udp_address())
    }

    /// Reason for an MTU other than the one asked for.
    pub(crate) fn other_mtu(&self) -> String {
        let mtu = self.mtu;
        format!(
            "the route to the sink has {mtu}; only a test bed of our own, which takes root, can have another"
        )
    }

    /// Pairs of sockets, a connected one to send from and one where that arrives, over loopback and, where
    /// there is one, over the veth pair.
    pub(crate) fn datagram_pairs(&self) -> Result<Vec<(UdpSocket, UdpSocket)>, Error> {
        self.pairs(
            |address| UdpSocket::bind((address, 0)),
            |receiver| {
                let to = receiver.local_addr()?;
                let sender = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
                sender.connect(to)?;
                receiver.connect(sender.local_addr()?)?;
                Ok(sender)
            },
        )
    }

    /// The same for connections.
    pub(crate) fn stream_pairs(&self) -> Result<Vec<(TcpStream, TcpStream)>, Error> {
        let pairs = self.pairs(
            |address| TcpListener::bind((address, 0)),
            |listener| TcpStream::connect(listener.local_addr()?),
        )?;
        let accept = |(sender, listener): (TcpStream, TcpListener)| Ok((sender, listener.accept()?.0));
        pairs.into_iter().map(accept).collect::<std::io::Result<_>>().doing("accepting a connection")
    }

    fn pairs<S: Send, R: Send>(
        &self,
        receiver: impl Fn(Ipv4Addr) -> std::io::Result<R> + Send + Sync,
        sender: impl Fn(&R) -> std::io::Result<S>,
    ) -> Result<Vec<(S, R)>, Error> {
        let receiver = |address| receiver(address).doing("opening a socket to receive");
        let sender = |receiver: &R| sender(receiver).doing("connecting a socket");
        let on_loopback = receiver(Ipv4Addr::LOCALHOST)?;
        let mut pairs = vec![(sender(&on_loopback)?, on_loopback)];
        if let Ok(pair) = &self.pair {
            pairs.push(pair.sockets(receiver, sender)?);
        }
        Ok(pairs)
    }

    /// Calls `act`, with the address of the other end of the way that TCP goes, where that end is.
    pub(crate) fn in_peer_namespace<T>(
        &self,
        act: impl FnOnce(IpAddr) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match (&self.tcp, &self.pair) {
            (Target::Receives(remote), Ok(pair)) if remote.address.ip() == IpAddr::from(FAR) => {
                pair.at_far(|| act(FAR.into()))
            }
            _ => act(Ipv4Addr::LOCALHOST.into()),
        }
    }

    /// The address at this end of it.
    pub(crate) fn near_address(&self) -> Result<IpAddr, Error> {
        self.in_peer_namespace(|far| Ok(if far == IpAddr::from(FAR) { NEAR.into() } else { far }))
    }

    /// Calls `act` on a thread of this name, on other processors than the one that is measured, if there are
    /// any.
    pub(crate) fn spawn_beside<T: Send + 'static>(
        &self,
        name: &str,
        act: impl FnOnce() -> std::io::Result<T> + Send + 'static,
    ) -> Result<JoinHandle<std::io::Result<T>>, Error> {
        let processors = self.processors.clone();
        let act = move || {
            let moved = processors.map_or(Ok(()), |processors| processors.pin_to_others());
            moved.map_err(std::io::Error::other)?;
            act()
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(act).doing("starting a thread")
    }

    /// Reason for the lack of checksums on the wire, if they lack: verification then goes over loopback only,
    /// which has none.
    pub(crate) fn why_no_veth(&self) -> Option<&Error> {
        self.pair.as_ref().err()
    }

    /// Chooses where checksums are computed. If by the kernel, a receiver behind the veth pair checks them; a
    /// device that defers them hides wrong ones.
    pub(crate) fn compute_checksums(&self, by_device: bool) -> Result<(), Error> {
        self.pair.as_ref().map_or(Ok(()), |pair| pair.compute_checksums(by_device))
    }
}

#[cfg(test)]
mod tests;
