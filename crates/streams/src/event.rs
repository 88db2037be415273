//! Events of a stream.

use crate::outbox::Dropped;
use crate::port::Port;

/// Event of a stream that continues.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// An input or output [listens](crate::Object::listening). Sent once by each stream that has the
    /// listener.
    Listening {
        /// The input or output.
        port: Port,
        /// Name of the input or output.
        name: String,
        /// Address to connect to: `127.0.0.1:9000`, or the path of a Unix socket.
        address: String,
    },
    /// A connection cannot be accepted because descriptors or memory are missing; accepting is retried every
    /// second. Sent once by each stream that has the listener.
    ListeningFailed {
        /// The input or output.
        port: Port,
        /// Name of the input or output, and the error.
        error: String,
    },
    /// A listening input or output accepted a connection.
    Connected {
        /// The input or output.
        port: Port,
        /// Name of the input or output.
        name: String,
    },
    /// An input has ended or was detached.
    InputGone {
        /// The input.
        port: Port,
        /// Name of the input.
        name: String,
    },
    /// An input failed and was removed.
    InputFailed {
        /// The input.
        port: Port,
        /// Name of the input, and the error.
        error: String,
    },
    /// An output was detached and has sent its waiting bytes.
    OutputGone {
        /// The output.
        port: Port,
        /// Name of the output.
        name: String,
    },
    /// An output failed and was removed.
    OutputFailed {
        /// The output.
        port: Port,
        /// Name of the output, and the error.
        error: String,
        /// Records that the output did not get: those that were waiting and those dropped before.
        dropped: Dropped,
    },
    /// A datagram or record was invalid and dropped, or too long for a datagram output and lost. Sent for the
    /// first one that an input, handler or output refuses; all are counted.
    RecordRefused {
        /// The input, handler or output.
        by: String,
        /// The reason.
        error: String,
    },
    /// An output did not keep up and was removed.
    OutputDisconnected {
        /// The output.
        port: Port,
        /// Name of the output.
        name: String,
        /// Records that the output did not get.
        dropped: Dropped,
    },
}

impl StreamEvent {
    /// Kind of the event, for logs and for other languages: `input-gone`.
    pub fn kind(&self) -> &'static str {
        match self {
            StreamEvent::Listening { .. } => "listening",
            StreamEvent::ListeningFailed { .. } => "listening-failed",
            StreamEvent::Connected { .. } => "connected",
            StreamEvent::InputGone { .. } => "input-gone",
            StreamEvent::InputFailed { .. } => "input-failed",
            StreamEvent::OutputGone { .. } => "output-gone",
            StreamEvent::OutputFailed { .. } => "output-failed",
            StreamEvent::RecordRefused { .. } => "record-refused",
            StreamEvent::OutputDisconnected { .. } => "output-disconnected",
        }
    }

    /// Port of the input or output, if the event belongs to one.
    pub fn port(&self) -> Option<Port> {
        match self {
            StreamEvent::Listening { port, .. }
            | StreamEvent::ListeningFailed { port, .. }
            | StreamEvent::Connected { port, .. }
            | StreamEvent::InputGone { port, .. }
            | StreamEvent::InputFailed { port, .. }
            | StreamEvent::OutputGone { port, .. }
            | StreamEvent::OutputFailed { port, .. }
            | StreamEvent::OutputDisconnected { port, .. } => Some(*port),
            StreamEvent::RecordRefused { .. } => None,
        }
    }

    /// Name of the input, output or handler, and the error.
    pub fn text(&self) -> String {
        match self {
            StreamEvent::Listening { name, address, .. } => format!("{name}: {address}"),
            StreamEvent::RecordRefused { by, error } => format!("{by}: {error}"),
            StreamEvent::ListeningFailed { error, .. }
            | StreamEvent::InputFailed { error, .. }
            | StreamEvent::OutputFailed { error, .. } => error.clone(),
            StreamEvent::Connected { name, .. }
            | StreamEvent::InputGone { name, .. }
            | StreamEvent::OutputGone { name, .. }
            | StreamEvent::OutputDisconnected { name, .. } => name.clone(),
        }
    }
}

/// Receiver of events, called on the thread that runs the stream; must not block.
pub type OnEvent = dyn FnMut(StreamEvent) + Send;
