//! Events of a stream.

use crate::outbox::Dropped;
use crate::port::Port;

/// Event of a stream, which goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// An input or output [listens](crate::Object::listening). Sent once by each stream that has it.
    Listening {
        /// The input or output.
        port: Port,
        /// Its name.
        name: String,
        /// Address to connect to: `127.0.0.1:9000`, or a path.
        address: String,
    },
    /// A connection cannot be accepted for want of descriptors or memory; tried again every second. Sent once
    /// by each stream that has the listener.
    ListeningFailed {
        /// The input or output.
        port: Port,
        /// Its name, and what failed.
        error: String,
    },
    /// A connection was accepted by an input or output that listened.
    Connected {
        /// The input or output.
        port: Port,
        /// Its name.
        name: String,
    },
    /// An input has come to its end, or was detached.
    InputGone {
        /// The input.
        port: Port,
        /// Its name.
        name: String,
    },
    /// An input failed and is gone.
    InputFailed {
        /// The input.
        port: Port,
        /// Its name, and what failed.
        error: String,
    },
    /// An output was detached and has sent what waited for it.
    OutputGone {
        /// The output.
        port: Port,
        /// Its name.
        name: String,
    },
    /// An output failed and is gone.
    OutputFailed {
        /// The output.
        port: Port,
        /// Its name, and what failed.
        error: String,
        /// Not sent to it: what waited for it, and what was dropped before.
        dropped: Dropped,
    },
    /// A datagram or record is invalid and dropped, or is too long for an output of datagrams and lost. Sent
    /// for the first that an input, handler or output refuses; all are counted.
    RecordRefused {
        /// The input, handler or output.
        by: String,
        /// The reason.
        error: String,
    },
    /// An output did not keep up and is gone.
    OutputDisconnected {
        /// The output.
        port: Port,
        /// Its name.
        name: String,
        /// Not sent to it.
        dropped: Dropped,
    },
}

impl StreamEvent {
    /// Its kind, for logs and other languages: `input-gone`.
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

    /// The input or output, if it is of one.
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

    /// The name of the input, output or handler, and what failed.
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

/// Receives events, on the thread that runs the stream; must not block.
pub type OnEvent = dyn FnMut(StreamEvent) + Send;
