//! Datagrams to many receivers by `recv` and `send`: each datagram, or each train of them, is received once and
//! sent to all receivers, over connected sockets, for which the kernel needs no route lookups.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use bytes::BytesMut;
use rustix::event::{PollFd, PollFlags, poll};
use wirepath_sys::datagrams::{self, MAXIMUM_TRAIN};

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

/// Prepares a loop for trains: the kernel joins datagrams that arrive together (`UDP_GRO`), and cuts what is sent by
/// one call (`UDP_SEGMENT`).
pub(super) fn prepare_trains(receivers: &[SocketAddr], touch: bool, ends: Ends) -> io::Result<Prepared> {
    let socket = ends.datagrams.ok_or(io::ErrorKind::InvalidInput)?;
    datagrams::set_receive_offload(socket.as_fd(), true)?;
    let outputs = connected(receivers)?;
    Ok(Box::new(move || {
        let mut train = BytesMut::with_capacity(MAXIMUM_TRAIN);
        loop {
            train.clear();
            let received = waiting(socket.as_fd(), PollFlags::IN, || {
                datagrams::receive(socket.as_fd(), &mut train, MAXIMUM_TRAIN)
            })?;
            if touch {
                touch_all(&mut train);
            }
            let datagram_bytes = received.datagram_bytes.map(|bytes| bytes as u16);
            for output in &outputs {
                let parts = [IoSlice::new(&train)];
                let send = || datagrams::send(output.as_fd(), &parts, datagram_bytes, None);
                waiting(output.as_fd(), PollFlags::OUT, send)?;
            }
        }
    }))
}

/// Repeats a call that does not block until the socket is ready for it.
fn waiting<T>(
    socket: BorrowedFd<'_>,
    readiness: PollFlags,
    mut call: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll(&mut [PollFd::from_borrowed_fd(socket, readiness)], None)?;
            }
            answer => return answer,
        }
    }
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
