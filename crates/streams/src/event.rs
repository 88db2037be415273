//! What happens to a stream while it goes on.

use crate::outbox::Dropped;
use crate::port::Port;

/// Something that happened to a stream, which goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// An input or output [waits for a connection](crate::Object::listening). Each stream that has it tells
    /// so once.
    Listening {
        /// Which.
        port: Port,
        /// Its name.
        name: String,
        /// Where somebody may connect to: `127.0.0.1:9000`, or a path.
        address: String,
    },
    /// Nobody can be taken in where a connection is waited for, for want of descriptors or memory; that is
    /// tried again every second. Told once by each stream that has it.
    ListeningFailed {
        /// Which input or output.
        port: Port,
        /// Its name, and what failed.
        error: String,
    },
    /// Somebody has connected where that was waited for.
    Connected {
        /// Which input or output.
        port: Port,
        /// Its name.
        name: String,
    },
    /// An input has come to its end, or was detached.
    InputGone {
        /// Which.
        port: Port,
        /// Its name.
        name: String,
    },
    /// An input failed and is gone.
    InputFailed {
        /// Which.
        port: Port,
        /// Its name, and what failed.
        error: String,
    },
    /// An output was detached and has sent what waited for it.
    OutputGone {
        /// Which.
        port: Port,
        /// Its name.
        name: String,
    },
    /// An output failed and is gone.
    OutputFailed {
        /// Which.
        port: Port,
        /// Its name, and what failed.
        error: String,
        /// What it will not get: what waited for it, and what was dropped before.
        dropped: Dropped,
    },
    /// A datagram or record was not what it should be and is dropped, or is too long for an output of
    /// datagrams and is lost. Told of the first that an input, handler or output refuses; all are counted.
    RecordRefused {
        /// The input, handler or output.
        by: String,
        /// What is wrong with it.
        error: String,
    },
    /// An output did not keep up and is gone.
    OutputDisconnected {
        /// Which.
        port: Port,
        /// Its name.
        name: String,
        /// What it will not get.
        dropped: Dropped,
    },
}

/// Hears of events, on the thread that runs the stream; must not block.
pub type OnEvent = dyn FnMut(StreamEvent) + Send;
