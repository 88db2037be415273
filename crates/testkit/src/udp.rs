//! UDP sockets of tests.

use std::net::UdpSocket;

/// Port of the discard service (RFC 863), from which nothing comes.
const DISCARD: u16 = 9;

/// Makes a socket's port answer like a closed one. A port that is really closed may be taken by another test
/// at once, which then receives what was sent to it.
///
/// # Panics
///
/// The socket cannot be connected.
pub fn close_port(socket: &UdpSocket) {
    // A connected socket is found for datagrams of its peer only (Linux: `udp4_lib_lookup`).
    let mut peer = socket.local_addr().expect("a bound socket has an address");
    peer.set_port(DISCARD);
    socket.connect(peer).expect("a peer on the same host can be reached");
}
