//! A pair of connected TCP sockets of the loopback device. `socketpair` has none of TCP, and what serves clients sets
//! options of TCP.

use std::io;
use std::net::Ipv4Addr;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Receive buffer of the side that encrypts, which the kernel doubles; about half of that is the window. Larger ones
/// only make a client that is late look timely; smaller ones hold less than two segments of the loopback device.
const RECEIVE_BUFFER_BYTES: u32 = 128 * 1024;

/// Bytes that may wait unsent on the side that serves, for the same reason.
const UNSENT_BYTES: u32 = 128 * 1024;

/// Makes the side that encrypts and the side that serves.
pub(super) async fn connected_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?; // before it connects, when the window's scale is agreed on
    let near = socket.connect(listener.local_addr()?).await?;
    let own = near.local_addr()?;
    loop {
        // Any program of this machine may connect meanwhile.
        let (far, peer) = listener.accept().await?;
        if peer == own {
            near.set_nodelay(true)?;
            far.set_nodelay(true)?;
            SockRef::from(&far).set_tcp_notsent_lowat(UNSENT_BYTES)?;
            return Ok((near, far));
        }
    }
}
