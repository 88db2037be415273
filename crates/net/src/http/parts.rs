//! Parts of files that form a body, or the end of a body.

use wirepath_streams::{Handler, ObjectPart};

/// Body, or the end of a body: parts of files, unchanged or processed by handlers.
#[derive(Debug)]
pub struct Parts {
    /// Parts, in order.
    pub parts: Vec<ObjectPart>,
    /// Handlers for all parts as one stream of bytes; empty to send the parts unchanged, without a copy to
    /// user space.
    pub handlers: Vec<Handler>,
    /// Number of bytes to send. A connection that gets fewer is cut.
    pub bytes: u64,
}
