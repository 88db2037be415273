//! Task of a forwarder: one line of JSON on its standard input.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::subject::{HandlerKind, Method, OrderKind};

/// Mask that the handler combines each byte with.
pub(crate) const MASK: u8 = 0x20;

/// Bytes of a client's request for a file.
pub(crate) const REQUEST: usize = 16;

/// Timeout of a request, and of an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes that the handler `peek` reads of each record.
pub(crate) const PEEKED: usize = 64;

/// Bytes that the handler `select` leaves out of each record, the first.
pub(crate) const LEFT_OUT: usize = 16;

/// Bytes that the handler `grow` puts in front of each record.
pub(crate) const HEADER: [u8; 8] = *b"wirepath";

/// Bytes of a datagram: seven packets of a transport stream.
pub(crate) const DATAGRAM: usize = crate::result::RELAY_DATAGRAM as usize;

/// Task of a forwarder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) method: Method,
    pub(crate) shape: Shape,
    /// True if every byte is touched on its way.
    pub(crate) touch: bool,
    /// Another handler, or the same function in a loop.
    pub(crate) handler: Option<HandlerKind>,
    /// The order of inputs, if that is what is measured.
    pub(crate) order: Option<OrderKind>,
    /// Bytes that are read at a time; of merges and of what spreads records, the bytes of a record.
    pub(crate) block_bytes: usize,
    /// Listen address for connections or datagrams.
    pub(crate) listen: IpAddr,
    /// Connections to wait for, which data goes to.
    pub(crate) outputs: usize,
    /// Address to connect to, for data.
    pub(crate) source: Option<SocketAddr>,
    /// Connections to it.
    pub(crate) inputs: usize,
}

/// Arrangement of inputs and outputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Shape {
    /// All of a file to each output.
    FileToSocket(PathBuf),
    /// Each input to a file of its own.
    SocketToFile(Vec<PathBuf>),
    /// Each input to one output.
    SocketToSocket,
    /// Records of all inputs in turn to the one output.
    Merge,
    /// Records of the one input to all outputs in turn.
    Stripe,
    /// Records of the one input, each to an output at random.
    Random,
    /// The one input to all outputs.
    Mirror,
    /// A file of so many bytes to each client, each time that it asks.
    Files(PathBuf, u64),
    /// So many bytes of another server's, to each client that asks.
    FileProxy(u64),
    /// Datagrams that come to all receivers.
    Datagrams(Vec<SocketAddr>),
}

/// Lines of a forwarder on its standard output.
pub(crate) mod messages {
    /// Prefix of the port for connections and datagrams.
    pub(crate) const LISTENING: &str = "listening ";
    /// All connections are there.
    pub(crate) const READY: &str = "ready";
    /// Everything was moved.
    pub(crate) const DONE: &str = "done";
    /// Line that it waits for on its standard input before it moves anything.
    pub(crate) const GO: &str = "go";
}
