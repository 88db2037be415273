//! Parts of files that are a body, or the end of one.

use wirepath_streams::{Handler, ObjectPart};

/// Body, or the end of one: parts of files as they are, or what handlers make of them.
#[derive(Debug)]
pub struct Parts {
    /// The parts, in order.
    pub parts: Vec<ObjectPart>,
    /// Handlers that all of them pass as one stream of bytes; none to send them as they are, without a copy to the
    /// program.
    pub handlers: Vec<Handler>,
    /// Bytes that are sent. A connection that does not get as many is cut.
    pub bytes: u64,
}
