//! Task of a forwarder: one line of JSON on its standard input.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::subject::{HandlerKind, Method, OrderKind};

/// Mask that the handler XORs each byte with.
pub(crate) const MASK: u8 = 0x20;

/// Bytes of a client's request for a file.
pub(crate) const REQUEST: usize = 16;

/// Timeout of a request, and of an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of each record that the handler `peek` reads.
pub(crate) const PEEKED: usize = 64;

/// Leading bytes of each record that the handler `select` drops.
pub(crate) const LEFT_OUT: usize = 16;

/// Header that the handler `grow` prepends to each record.
pub(crate) const HEADER: [u8; 8] = *b"wirepath";

/// Bytes of a datagram: seven packets of a transport stream.
pub(crate) const DATAGRAM: usize = crate::result::RELAY_DATAGRAM as usize;

/// Task of a forwarder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) method: Method,
    pub(crate) shape: Shape,
    /// True if every byte is touched.
    pub(crate) touch: bool,
    /// Handler other than the dummy, or the same function in a loop.
    pub(crate) handler: Option<HandlerKind>,
    /// Order of inputs, if the case measures orders.
    pub(crate) order: Option<OrderKind>,
    /// Bytes read at a time; in merges and in parts that distribute records, bytes of a record.
    pub(crate) block_bytes: usize,
    /// Listen address for connections or datagrams.
    pub(crate) listen: IpAddr,
    /// Number of connections to accept, which data goes to.
    pub(crate) outputs: usize,
    /// Address of the source to connect to.
    pub(crate) source: Option<SocketAddr>,
    /// Number of connections to the source.
    pub(crate) inputs: usize,
    /// eBPF handler that judges records, if the part has one.
    pub(crate) judged: Option<Judged>,
}

/// eBPF handler of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Judged {
    /// Object file of the handler.
    pub(crate) object: PathBuf,
    /// Device that datagrams come from, if the kernel drops them.
    pub(crate) device: Option<String>,
    /// True if the kernel mirrors datagrams, instead of dropping some.
    pub(crate) mirrors: bool,
}

/// Arrangement of inputs and outputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Shape {
    /// A whole file to each output.
    FileToSocket(PathBuf),
    /// Each input to its own file.
    SocketToFile(Vec<PathBuf>),
    /// Each input to one output.
    SocketToSocket,
    /// Records of all inputs in turn to a single output.
    Merge,
    /// Records of a single input to all outputs in turn.
    Stripe,
    /// Records of a single input, each to a random output.
    Random,
    /// A single input to all outputs.
    Mirror,
    /// A file of this many bytes to each client, for each request.
    Files(PathBuf, u64),
    /// Answers of this many bytes from a server behind the proxy, to each client that sends requests.
    FileProxy(u64),
    /// Each datagram to all receivers.
    Datagrams(Vec<SocketAddr>),
}

/// Messages of a forwarder on its standard output.
pub(crate) mod messages {
    /// Prefix of the port for connections and datagrams.
    pub(crate) const LISTENING: &str = "listening ";
    /// All connections are made.
    pub(crate) const READY: &str = "ready";
    /// All data was moved.
    pub(crate) const DONE: &str = "done";
    /// Message on standard input that a forwarder waits for before it moves data.
    pub(crate) const GO: &str = "go";
}
