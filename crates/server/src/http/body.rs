//! What the door asks of the engine: send these parts to this connection.

use std::any::Any;
use std::fs::File;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A piece of what is sent.
#[derive(Debug)]
pub enum BodyPart {
    /// These bytes.
    Bytes(Vec<u8>),
    /// An extent of a file.
    Extent {
        /// The file.
        file: Arc<File>,
        /// First byte and the one after the last.
        range: Range<u64>,
    },
}

/// How sending ended.
#[derive(Debug)]
pub struct BodyEnd {
    /// Bytes that the connection took.
    pub sent: u64,
    /// Why it ended early, if it did.
    pub error: Option<String>,
}

/// Called once, on any thread.
pub type OnEnd = Box<dyn FnOnce(BodyEnd) + Send>;

/// Sends bodies without blocking whoever asks.
pub trait BodySender: Send + Sync + 'static {
    /// Sends `parts` to `socket`, a non-blocking connected stream socket, one after the other, and calls `on_end`
    /// once. Dropping the answer ends it early. Nobody else writes to the connection meanwhile. A connection that
    /// takes nothing for too long is the sender's to end.
    fn send(&self, socket: OwnedFd, parts: Vec<BodyPart>, on_end: OnEnd) -> Box<dyn Any + Send>;
}
