//! Test bed: the network that packets are sent into.
//!
//! ```text
//!   namespace of the measuring thread               namespace of the receiver
//!   10.80.0.1/16 sink   (drops packets to 10.80.0.0/16)
//!   10.82.0.1/16 tcpsink   (drops TCP to 10.82.0.0/16, and acknowledges it)
//!   10.81.0.1/24 near ------------- veth ----------- far 10.81.0.2/24
//!   127.0.0.1    lo
//! ```
//!
//! Both namespaces are unnamed: they live as long as the thread, its sockets and the receiver's process, and
//! vanish with them and their devices, also when the process is killed. No cleanup is needed. Without
//! privileges there are no namespaces, and packets go over the host's loopback device; packets to another
//! host go over the host's devices.

mod busy;
mod client_bed;
mod device;
mod namespace;
mod pair;
mod processors;
mod receiver;
mod tcp_sink;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Doing, Error};
use crate::header_sizes::udp_payload_limit;
use crate::options::Sink;
use crate::result::TcpPeer;
use crate::sink::Remote;
pub(crate) use client_bed::{ClientBed, MOST_CLIENTS, Traffic, client_addresses, with_client_bed};
pub(crate) use device::{Counted, Device, SlowQueue};
use namespace::{Namespace, ip};
use pair::Pair;
use processors::Processors;
pub use receiver::LISTENING;
use receiver::Receiver;
pub(crate) use tcp_sink::{Acknowledgements, TcpSink};

/// Address of the sender's end of the veth pair.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 81, 0, 1);
/// Address of the receiver's end of the veth pair.
const FAR: Ipv4Addr = Ipv4Addr::new(10, 81, 0, 2);
/// Address on the link of the veth pair that neither end has.
const UNASSIGNED: Ipv4Addr = Ipv4Addr::new(10, 81, 0, 9);
/// Address behind the device that drops packets. Bare loops send there too.
const DROPPED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 80, 1, 0)), 5000);

/// Connect timeout for each of several addresses of a sink.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// Network to send into.
#[derive(Debug)]
pub struct TestBed {
    /// Destination of UDP.
    pub(crate) udp: Target,
    /// Receiver of TCP: for sinks that drop packets it is behind the veth pair.
    tcp_receiver: Remote,
    /// Device that drops and acknowledges TCP, or the reason for its absence, once it is asked for; `None` if the sink
    /// has none.
    tcp_sink: Option<OnceLock<Result<TcpSink, Error>>>,
    /// Veth pair that verified packets go over, or the reason for its absence.
    pair: Result<Pair, Error>,
    /// Processor that the measuring thread is pinned to.
    pub(crate) cpu: u32,
    /// All processors that may be used.
    processors: Option<Processors>,
    /// MTU of the device that UDP packets leave by.
    pub(crate) mtu: u32,
    /// Receiver process, which ends with the test bed.
    _receiver: Option<Receiver>,
}

/// Destination of packets.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Device that drops and counts packets.
    Drops(Device),
    /// Receiver that counts packets.
    Receives(Remote),
}

/// Destination of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TcpTarget<'a> {
    /// Device that drops, acknowledges and counts bytes.
    Acknowledges(&'a TcpSink),
    /// Receiver that counts bytes.
    Receives(&'a Remote),
}

/// Creates a test bed for a sink on a new thread, which is pinned to one processor (by default the last that
/// may be used), and calls `act` there. The test bed is removed when `act` returns.
///
/// # Errors
/// [`Error::Input`] if a sink needs missing privileges or a missing program, or is a host that cannot be
/// reached, or if the processor may not be used; errors of `act`.
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

/// Checks that a sink on another host listens, before minutes are spent on experiments that need no sink.
///
/// # Errors
/// [`Error::Input`] if the host has no address or listens at none.
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

/// Addresses of another host.
fn addresses(name: &str) -> Result<Vec<SocketAddr>, Error> {
    let unknown = |why: String| Error::Input(format!("cannot resolve the sink {name}: {why}"));
    let found: Vec<SocketAddr> =
        name.to_socket_addrs().map_err(|error| unknown(error.to_string()))?.collect();
    if found.is_empty() { Err(unknown("the name has no address".to_owned())) } else { Ok(found) }
}

/// Calls `act` on a new thread that is pinned to one processor, with the number of the processor: for work
/// without a network.
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

    /// Test bed for a sink on another host, without a namespace: packets go over the host's devices.
    fn to_host(address: &str) -> Result<TestBed, Error> {
        let found = addresses(address)?;
        // A name may have addresses that nothing listens at: of IPv6 or IPv4, or of a device that is down.
        let answers = |address: &&SocketAddr| TcpStream::connect_timeout(address, ANSWERS_WITHIN).is_ok();
        let address = if found.len() > 1 { found.iter().find(answers).copied() } else { None };
        let address = address.unwrap_or(found[0]);
        let remote = Remote { address };
        // The pair has to take what the route takes without fragmentation.
        let mtu = remote.path_mtu()?.min(Pair::MOST_MTU);
        TestBed::plain(remote, None, Pair::aside(mtu))
    }

    fn on_loopback(pair: Result<Pair, Error>) -> Result<TestBed, Error> {
        let receiver = Receiver::start(Ipv4Addr::LOCALHOST.into())?;
        TestBed::plain(receiver.remote(), Some(receiver), pair)
    }

    /// Test bed without a measured device of its own.
    fn plain(
        remote: Remote,
        receiver: Option<Receiver>,
        pair: Result<Pair, Error>,
    ) -> Result<TestBed, Error> {
        let mtu = remote.path_mtu()?;
        Ok(TestBed {
            udp: Target::Receives(remote.clone()),
            tcp_receiver: remote,
            tcp_sink: None,
            pair,
            cpu: 0,
            processors: None,
            mtu,
            _receiver: receiver,
        })
    }

    fn with_pair(sink: &Sink, mtu: u32, here: Namespace) -> Result<TestBed, Error> {
        ip(&format!("link set lo up mtu {mtu}"))?;
        let pair = Pair::from(here, mtu)?;
        let receiver = pair.at_far(|| Receiver::start(FAR.into()))?;
        let udp = match sink.drops() {
            true => Target::Drops(Device::that_drops(mtu, *sink == Sink::Drop)?),
            false => Target::Receives(receiver.remote()),
        };
        Ok(TestBed {
            udp,
            tcp_receiver: receiver.remote(),
            // Without checksum offload the kernel would not compute the checksums of what is not sent.
            tcp_sink: (*sink == Sink::Drop).then(OnceLock::new),
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

    /// Destination of connections whose sender is measured. The device that acknowledges is created by the first call,
    /// since programs at a device cost all packets of the machine something.
    pub(crate) fn tcp(&self) -> TcpTarget<'_> {
        match self.acknowledging() {
            Some(Ok(sink)) => TcpTarget::Acknowledges(sink),
            _ => TcpTarget::Receives(&self.tcp_receiver),
        }
    }

    /// Kind of that destination, for the result.
    pub(crate) fn tcp_peer(&self) -> TcpPeer {
        match self.tcp() {
            TcpTarget::Acknowledges(_) => TcpPeer::Device,
            TcpTarget::Receives(_) => TcpPeer::Receiver,
        }
    }

    /// Reason why connections go to a receiver, though the sink drops packets and has checksum offload.
    pub(crate) fn why_tcp_is_received(&self) -> Option<&Error> {
        self.acknowledging()?.as_ref().err()
    }

    fn acknowledging(&self) -> Option<&Result<TcpSink, Error>> {
        Some(self.tcp_sink.as_ref()?.get_or_init(|| TcpSink::create(self.mtu)))
    }

    /// UDP payload that fills a packet of at most `mtu` bytes on the route of UDP packets.
    pub(crate) fn udp_payload_limit(&self, mtu: u32) -> u32 {
        udp_payload_limit(mtu.min(self.mtu), self.udp_address())
    }

    /// Reason for an MTU other than the requested one.
    pub(crate) fn other_mtu(&self) -> String {
        let mtu = self.mtu;
        format!(
            "the route to the sink has {mtu}; only a test bed of our own, which takes root, can have another"
        )
    }

    /// Pairs of a connected socket to send from and the socket that receives, over loopback and, if there is
    /// a veth pair, over the pair.
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

    /// Pairs of connected TCP sockets, like [`TestBed::datagram_pairs`].
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

    /// Calls `act` in the namespace at the other end of the TCP route, with the address of that end.
    pub(crate) fn in_peer_namespace<T>(
        &self,
        act: impl FnOnce(IpAddr) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match &self.pair {
            Ok(pair) if self.tcp_receiver.address.ip() == IpAddr::from(FAR) => {
                pair.at_far(|| act(FAR.into()))
            }
            _ => act(Ipv4Addr::LOCALHOST.into()),
        }
    }

    /// Address of this end of the TCP route.
    pub(crate) fn near_address(&self) -> Result<IpAddr, Error> {
        self.in_peer_namespace(|far| Ok(if far == IpAddr::from(FAR) { NEAR.into() } else { far }))
    }

    /// Device of this end of the TCP route, if that is a veth pair.
    pub(crate) fn near_device(&self) -> Option<&'static str> {
        let is_far = self.tcp_receiver.address.ip() == IpAddr::from(FAR);
        (self.pair.is_ok() && is_far).then_some(pair::NEAR_DEVICE)
    }

    /// Address whose packets the far end of the TCP route sends over the veth pair and the near end drops, as they
    /// are for another machine.
    pub(crate) fn unassigned_address(&self) -> Result<SocketAddr, Error> {
        self.in_peer_namespace(|_| {
            ip(&format!("neigh replace {UNASSIGNED} lladdr 02:00:00:00:00:09 dev far"))
        })?;
        Ok(SocketAddr::new(UNASSIGNED.into(), DROPPED.port()))
    }

    /// Time so far in which the processors that may be used were not idle.
    pub(crate) fn busy(&self) -> Result<Duration, Error> {
        let missing = || Error::Unable("the processors of the test bed are not known".to_owned());
        busy::busy(self.processors.as_ref().ok_or_else(missing)?)
    }

    /// Calls `act` on a new thread with this name, on processors other than the measured one, if there are
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

    /// Reason for the lack of a veth pair: verification then uses loopback only, which has no checksums on
    /// the wire.
    pub(crate) fn why_no_veth(&self) -> Option<&Error> {
        self.pair.as_ref().err()
    }

    /// Selects whether the device or the kernel computes checksums. Checksums of the kernel are checked by a
    /// receiver behind the veth pair; a device that defers checksums hides wrong ones.
    pub(crate) fn compute_checksums(&self, by_device: bool) -> Result<(), Error> {
        self.pair.as_ref().map_or(Ok(()), |pair| pair.compute_checksums(by_device))
    }
}

#[cfg(test)]
mod tests;
