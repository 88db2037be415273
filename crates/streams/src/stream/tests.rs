//! Tests of single streams, turn by turn.

mod attaching;
mod changing;
mod datagrams;
mod failing;
mod finishing;
mod handlers;
mod leaving;
mod lending;
mod listening;
mod mappings;
mod measured;
mod objects;
mod options;
mod patterns;
mod peeking;
mod shares;
mod slices;
mod storage;
mod trust;
mod turns;
mod urgent;
mod winding_up;
mod zero_copy;

use super::*;
use crate::intake::Order;
use crate::storage::{Job, StorageJob};
use crate::{
    Collected, Dropped, Framing, Handler, OutputOptions, OutputPattern, OutputStatus, StreamEvent, WhenFull,
};
use bytes::Bytes;
use std::io::{Read as _, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use wirepath_engine::{Engine, EngineOptions};

const LIMIT: usize = 1 << 30;

/// Time limit that only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(60);

/// An engine with one thread, and one storage thread.
fn engine() -> Engine {
    Engine::start(EngineOptions::default()).unwrap()
}

fn memory(bytes: &[u8]) -> Object {
    Object::memory("memory", Bytes::copy_from_slice(bytes))
}

fn collects(count: usize) -> (Vec<Object>, Vec<Collected>) {
    (0..count).map(|number| Object::collect(&format!("out {number}"), LIMIT)).unzip()
}

/// A socket, and the input that receives its datagrams.
fn datagrams() -> (UdpSocket, Object) {
    let (near, far) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    near.connect(far.local_addr().unwrap()).unwrap();
    (near, Object::datagrams("udp", far.into(), None, None).unwrap())
}

/// Both ends of a TCP connection with small buffers.
fn narrow_connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&near, 200_000).unwrap();
    (near, listener.accept().unwrap().0)
}

/// Closes a connection so that its peer sees a reset.
fn reset(connection: TcpStream) {
    let linger = Some(Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(&connection, linger).unwrap();
}

fn events(builder: StreamBuilder) -> (StreamBuilder, std::sync::mpsc::Receiver<StreamEvent>) {
    let (tell, told) = channel();
    (builder.on_event(move |event| drop(tell.send(event))), told)
}
