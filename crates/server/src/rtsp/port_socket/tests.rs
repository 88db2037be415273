use super::*;
use std::net::Ipv4Addr;

const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// More datagrams than one periodic read takes.
const MANY: usize = 3 * DATAGRAMS_PER_READ + 1;

/// Session that keeps the datagrams it receives.
#[derive(Default)]
struct Received(Mutex<Vec<Vec<u8>>>);

impl RtcpReceiver for Received {
    fn receive(&self, datagram: &[u8], _received: SystemTime) {
        self.0.lock().push(datagram.to_vec());
    }
}

/// A pair of ports whose socket only the test reads, because the runtime has no thread of its own.
struct Pair {
    socket: Arc<PortSocket>,
    counters: Arc<Counters>,
    client: UdpSocket,
    peer: SocketAddr,
}

fn pair(rtp: u16) -> Pair {
    let counters = Arc::default();
    let ports = PortPair { rtp, rtcp: rtp + 1 };
    let socket = PortSocket::open(LOCAL, ports, &counters, &shared_batch()).expect("free ports");
    let client = UdpSocket::bind(LOCAL).expect("bound");
    let peer = client.local_addr().expect("an address");
    client.connect((Ipv4Addr::LOCALHOST, ports.rtcp)).expect("connected");
    Pair { socket, counters, client, peer }
}

impl Pair {
    /// Sends datagrams that each have a number; all wait in the socket when this returns.
    fn send(&self, numbers: impl IntoIterator<Item = u32>) {
        numbers.into_iter().for_each(|number| _ = self.client.send(&number.to_be_bytes()).expect("sent"));
    }

    fn register(&self) -> (PortUse, Arc<Received>) {
        let (port_use, session) = (PortUse::new(&self.socket, self.peer), Arc::new(Received::default()));
        let receiver: Weak<Received> = Arc::downgrade(&session);
        port_use.register(receiver);
        (port_use, session)
    }
}

/// Promise: When a session ends, all reports that its client sent before are read and counted.
#[tokio::test]
async fn all_datagrams_that_wait_are_read_before_a_session_ends() {
    let pair = pair(20_370);
    let (port_use, session) = pair.register();
    pair.send(0..MANY as u32);
    port_use.read_waiting();
    let expected: Vec<Vec<u8>> = (0..MANY as u32).map(|number| number.to_be_bytes().into()).collect();
    assert_eq!(*session.0.lock(), expected);
    assert_eq!(pair.counters.rtcp_strays.value(), 0);
}

/// Promise: A session receives no RTCP that was sent before it began.
#[tokio::test]
async fn datagrams_from_before_the_first_session_are_discarded() {
    let pair = pair(20_372);
    pair.send(0..MANY as u32);
    let (port_use, session) = pair.register();
    assert_eq!(pair.counters.rtcp_strays.value(), MANY as u64);
    pair.send([7]);
    let (_second, other) = pair.register(); // what waits now is not nobody's
    port_use.read_waiting();
    assert_eq!((session.0.lock().len(), pair.counters.rtcp_strays.value()), (0, MANY as u64));
    assert_eq!(*other.0.lock(), [7u32.to_be_bytes()], "the later session has the client's port");
}

/// Promise: A flood of RTCP does not block the thread that answers requests.
#[tokio::test]
async fn a_read_has_a_bound() {
    let pair = pair(20_374);
    let (_port_use, session) = pair.register();
    pair.send(0..MANY as u32);
    let PortSocket { clients, rtcp, batch, .. } = &*pair.socket;
    let read = clients.read(rtcp, &mut batch.lock(), DATAGRAMS_PER_READ);
    assert_eq!((read, session.0.lock().len()), (DATAGRAMS_PER_READ, DATAGRAMS_PER_READ));
}
