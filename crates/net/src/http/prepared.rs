//! Responses that are ready to be sent, except for a few fields.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsFd;
use std::sync::Arc;

use http::HeaderMap;
use rustix::fs::{SeekFrom, seek};
use rustix::io::{ReadWriteFlags, preadv2};
use wirepath_http::{PreparedHead, Response};
use wirepath_streams::ObjectPart;
use wirepath_sys::mapping::Mapping;

/// Maximum size of a file body that is sent together with the head. Longer bodies are sent from the page
/// cache, by an additional call.
pub(super) const SMALL_BYTES: u64 = 32 * 1024;

/// Response whose head and small body, a mapped file in the page cache, are sent by one call. The call copies
/// the file's bytes at that time, including changes since the file was mapped.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Head.
    pub head: Arc<PreparedHead>,
    /// Fields to add to the head.
    pub fields: HeaderMap,
    /// Body.
    pub body: Arc<Body>,
}

/// Small mapped file.
#[derive(Debug)]
pub struct Body {
    file: Arc<File>,
    mapping: Mapping,
}

impl Body {
    /// Length in bytes.
    pub fn length(&self) -> usize {
        self.mapping.length()
    }

    /// Mapped file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Sends the bytes of a head followed by the body, except the first `sent` bytes; returns the number of
    /// bytes sent. Never blocks.
    ///
    /// # Errors
    /// Errors of `sendmsg`; `EFAULT` if a page no longer belongs to the file.
    pub(super) fn send_behind(&self, socket: impl AsFd, head: &[u8], sent: usize) -> io::Result<usize> {
        let rest = sent.saturating_sub(head.len())..self.length();
        self.mapping.copy_behind(socket.as_fd(), &head[sent.min(head.len())..], rest)
    }

    /// Fails if the file has become shorter: beyond its end, its last page has zeros, and sending them is no
    /// error. Seeking costs a third of an `fstat`, and the file position is not used otherwise.
    pub(super) fn check_length(&self) -> io::Result<()> {
        match seek(&self.file, SeekFrom::End(0))? >= self.length() as u64 {
            true => Ok(()),
            false => Err(io::Error::other("the file was truncated while it was sent")),
        }
    }
}

impl Prepared {
    /// Prepares a response with this file as its body; `None` if the file is empty, long or not in the page
    /// cache.
    pub fn new(response: &Response, file: &Arc<File>) -> Option<Prepared> {
        let length = response.content_length.filter(|&length| length <= SMALL_BYTES)?;
        if !is_in_memory(file, length) {
            return None;
        }
        let mapping = Mapping::populated(file, usize::try_from(length).ok()?).ok()?;
        let body = Arc::new(Body { file: Arc::clone(file), mapping });
        Some(Prepared { head: Arc::new(PreparedHead::new(response)), fields: HeaderMap::new(), body })
    }

    /// Returns whether the body's file is in the page cache now. Never blocks.
    pub fn is_in_memory(&self) -> bool {
        is_in_memory(&self.body.file, self.body.length() as u64)
    }
}

/// Queries the kernel in one of two ways: `cachestat` is available from Linux 6.5, and not every file system
/// supports reads without waiting.
fn is_in_memory(file: &Arc<File>, length: u64) -> bool {
    let read = || {
        let mut bytes = vec![0; length as usize];
        let read = preadv2(file, &mut [IoSliceMut::new(&mut bytes)], 0, ReadWriteFlags::NOWAIT);
        read == Ok(bytes.len())
    };
    ObjectPart::Extent { file: Arc::clone(file), range: 0..length }.is_in_memory() || read()
}
