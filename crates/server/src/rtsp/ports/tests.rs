use super::*;
use std::net::Ipv4Addr;

const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn of(range: RangeInclusive<u16>) -> Ports {
    Ports::new(&range, Arc::default())
}

/// Ports of a separate client for each number.
fn client(number: u16) -> PortPair {
    PortPair { rtp: 40_000 + 2 * number, rtcp: 40_001 + 2 * number }
}

#[test]
fn pairs_are_even_and_odd_and_inside_the_range() {
    for (range, first, pairs) in [
        (5000..=5001, 5000, 1),
        (5001..=5004, 5002, 1),
        (5001..=5005, 5002, 2),
        (0..=3, 2, 1),
        (65_534..=65_535, 65_534, 1),
        (65_535..=65_535, 0, 0),
        (5001..=5001, 5002, 0),
    ] {
        assert_eq!(port_pairs(&range), pairs, "{range:?}");
        assert!(pairs == 0 || span(&range).0 == first, "{range:?}");
    }
}

/// Promise: Sessions share pairs of UDP ports; one pair in --rtp-ports suffices for all.
#[tokio::test]
async fn one_pair_suffices_for_all_sessions() {
    let ports = of(20_310..=20_311);
    let sessions: Vec<SessionPorts> =
        (0..200).map(|number| ports.open(LOCAL, LOCAL, client(number)).expect("shared")).collect();
    for (session, number) in sessions.iter().zip(0..) {
        assert_eq!(session.ports, PortPair { rtp: 20_310, rtcp: 20_311 });
        assert_eq!(session.rtp.local_addr().expect("bound").port(), 20_310);
        assert_eq!(session.rtp.peer_addr().expect("connected").port(), client(number).rtp);
    }
}

#[tokio::test]
async fn another_pair_is_opened_when_one_has_many_sessions() {
    let ports = of(20_320..=20_329);
    let open = |number| ports.open(LOCAL, LOCAL, client(number)).expect("shared");
    let mut sessions: Vec<SessionPorts> = (0..SESSIONS_PER_PAIR as u16).map(open).collect();
    assert!(sessions.iter().all(|session| session.ports.rtp == 20_320));
    sessions.push(open(1000));
    assert_eq!(sessions[SESSIONS_PER_PAIR].ports.rtp, 20_322);
    sessions.remove(0);
    sessions.remove(0);
    sessions.push(open(1001));
    assert_eq!(sessions.last().expect("pushed").ports.rtp, 20_322, "the one with the fewest");
}

/// The programs that have the ports are this test.
#[tokio::test]
async fn ports_of_other_programs_are_passed_over_and_no_port_at_all_is_an_error() {
    let ports = of(20_330..=20_335);
    let others = [20_330, 20_333].map(|port| UdpSocket::bind(("127.0.0.1", port)).expect("free"));
    let session = ports.open(LOCAL, LOCAL, client(0)).expect("the last pair is free");
    assert_eq!(session.ports.rtp, 20_334);
    drop((session, ports));
    let none = of(20_330..=20_333);
    let error = none.open(LOCAL, LOCAL, client(0)).map(drop).expect_err("both are taken");
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    drop(others);
}

#[tokio::test]
async fn pairs_of_addresses_without_sessions_are_closed() {
    let ports = of(20_340..=20_341);
    let at = |number: u8| SocketAddr::new(Ipv4Addr::new(127, 0, 9, number).into(), 0);
    let kept = ports.open(at(1), LOCAL, client(0)).expect("free");
    for number in 2..=40 {
        drop(ports.open(at(number), LOCAL, client(0)).expect("free"));
    }
    assert!(ports.open.lock().len() <= IDLE_ADDRESSES + 1);
    assert!(ports.open.lock().contains_key(&at(1)));
    drop(kept);
}
