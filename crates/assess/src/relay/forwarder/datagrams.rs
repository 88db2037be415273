//! Datagrams to many receivers by `recv` and `send`: each datagram is received once and sent to all
//! receivers, over connected sockets, for which the kernel needs no route lookups.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use super::function::touch_all;
use super::{Ends, Prepared};

pub(super) fn prepare(receivers: &[SocketAddr], touch: bool, ends: Ends) -> io::Result<Prepared> {
    let socket = ends.datagrams.ok_or(io::ErrorKind::InvalidInput)?;
    let outputs = connected(receivers)?;
    Ok(Box::new(move || {
        let mut datagram = vec![0; 1 << 16];
        loop {
            let length = socket.recv(&mut datagram)?;
            if touch {
                touch_all(&mut datagram[..length]);
            }
            for output in &outputs {
                output.send(&datagram[..length])?;
            }
        }
    }))
}

/// Opens a connected socket for each receiver.
pub(super) fn connected(receivers: &[SocketAddr]) -> io::Result<Vec<UdpSocket>> {
    let connect = |receiver: &SocketAddr| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(receiver)?;
        Ok(socket)
    };
    receivers.iter().map(connect).collect()
}
