use super::*;
use std::net::Ipv4Addr;

fn started() -> Remote {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || serve(&listener, |_| ()).unwrap());
    Remote { address }
}

#[test]
fn datagrams_are_counted_and_paced() {
    let (socket, mut account) = started().udp(1000).unwrap();
    let mut sent = 0;
    // Many times the receive buffer: without pacing most of it would be lost.
    for _ in 0..40_000 {
        sent += socket.send(&[7; 1000]).unwrap() as u64;
        account.pace(sent).unwrap();
    }
    sent += socket.send(&[7; 10]).unwrap() as u64;
    let report = account.settle(sent).unwrap();
    assert_eq!((report.bytes, report.packets), (40_000_010, 40_001));
}

/// Promise: A run that lost data is an error, not a figure.
#[test]
fn what_is_lost_is_not_reported() {
    let (socket, account) = started().udp(1000).unwrap();
    let sent = socket.send(&[7; 1000]).unwrap() as u64;
    assert_eq!(
        account.settle(sent + 1000).unwrap(),
        protocol::Report { bytes: 1000, packets: 1, last: true }
    );
}

#[test]
fn a_stream_is_counted_to_its_end() {
    let (mut stream, account) = started().tcp().unwrap();
    let block = vec![7; 1 << 20];
    for _ in 0..32 {
        stream.write_all(&block).unwrap();
    }
    drop(stream);
    assert_eq!(account.settle(32 << 20).unwrap().bytes, 32 << 20);
}

/// Promise: Another host receives data for an assessment, and serves nothing to other peers.
#[test]
fn strangers_get_nothing() {
    let Remote { address } = started();
    let mut stranger = TcpStream::connect(address).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    // Closed, perhaps with a reset because of unread data.
    assert!(matches!(stranger.read(&mut [0; 100]), Ok(0) | Err(_)));
    // The next client is served.
    let (_, account) = Remote { address }.udp(1).unwrap();
    assert_eq!(account.settle(0).unwrap().bytes, 0);
}

/// Promise: Another host receives data for an assessment, and serves nothing to other peers.
#[test]
fn datagrams_of_others_do_not_count() {
    let (socket, account) = started().udp(1000).unwrap();
    let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    other.send_to(&[7; 100], socket.peer_addr().unwrap()).unwrap();
    let sent = socket.send(&[7; 1000]).unwrap() as u64;
    assert_eq!(account.settle(sent).unwrap().bytes, 1000);
}

#[test]
fn a_receiver_that_is_not_there_is_an_error() {
    let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let error = Remote { address: gone }.udp(1000).unwrap_err().to_string();
    assert!(error.contains(&gone.to_string()) && error.contains("stopped"), "{error}");
}

#[test]
fn a_silent_client_is_no_fault_and_an_invalid_request_is() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let asked = |words: &[u8]| {
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.write_all(words).unwrap();
        drop(peer);
        one_run(listener.accept().unwrap().0).unwrap_err()
    };
    assert!(has_left(&asked(b"")));
    assert!(!has_left(&asked(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")));
}
