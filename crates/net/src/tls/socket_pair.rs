//! Pair of connected TCP sockets over the loopback device. `socketpair` does not support TCP, and serving
//! code sets TCP options.

use std::io;
use std::net::Ipv4Addr;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Receive buffer of the encrypting side, which the kernel doubles; about half of that is the window. Larger
/// buffers only make a late client look timely; smaller buffers have room for less than two segments of the
/// loopback device.
const RECEIVE_BUFFER_BYTES: u32 = 128 * 1024;

/// Limit of unsent bytes on the serving side, for the same reason.
const UNSENT_BYTES: u32 = 128 * 1024;

/// Creates the encrypting side and the serving side.
pub(super) async fn connected_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?; // before the window scale is negotiated
    let near = socket.connect(listener.local_addr()?).await?;
    let own = near.local_addr()?;
    loop {
        // Any local program may connect meanwhile.
        let (far, peer) = listener.accept().await?;
        if peer == own {
            near.set_nodelay(true)?;
            far.set_nodelay(true)?;
            SockRef::from(&far).set_tcp_notsent_lowat(UNSENT_BYTES)?;
            return Ok((near, far));
        }
    }
}
