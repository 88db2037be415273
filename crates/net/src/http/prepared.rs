//! Responses that are ready to be sent but for a few fields.

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

/// Most bytes of a body of a file that are sent together with the head. Longer ones are sent from the page cache, by a
/// call more.
pub(super) const SMALL_BYTES: u64 = 32 * 1024;

/// Response whose head and small body, a mapped file in the page cache, are sent by one call. That call copies the
/// file's bytes of then, also those that were changed since it was mapped.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Head.
    pub head: Arc<PreparedHead>,
    /// Fields to add to it.
    pub fields: HeaderMap,
    /// Body.
    pub body: Arc<Body>,
}

/// Small file that is mapped.
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

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Sends the bytes of a head and the body behind them, but for the first `sent` bytes; returns how many were taken.
    /// Never blocks for room.
    ///
    /// # Errors
    /// Those of `sendmsg`; `EFAULT` if the page of a byte is not the file's any more.
    pub(super) fn send_behind(&self, socket: impl AsFd, head: &[u8], sent: usize) -> io::Result<usize> {
        let rest = sent.saturating_sub(head.len())..self.length();
        self.mapping.copy_behind(socket.as_fd(), &head[sent.min(head.len())..], rest)
    }

    /// Fails if the file has become shorter: behind its end, its last page has zeros, and sending them is no error. To seek
    /// costs a third of an `fstat`, and nobody reads the file from its position.
    pub(super) fn check_length(&self) -> io::Result<()> {
        match seek(&self.file, SeekFrom::End(0))? >= self.length() as u64 {
            true => Ok(()),
            false => Err(io::Error::other("the file was truncated while it was sent")),
        }
    }
}

impl Prepared {
    /// Prepares a response whose body is this file; none if that is empty, long or not in the page cache.
    pub fn new(response: &Response, file: &Arc<File>) -> Option<Prepared> {
        let length = response.content_length.filter(|&length| length <= SMALL_BYTES)?;
        if !is_in_memory(file, length) {
            return None;
        }
        let mapping = Mapping::populated(file, usize::try_from(length).ok()?).ok()?;
        let body = Arc::new(Body { file: Arc::clone(file), mapping });
        Some(Prepared { head: Arc::new(PreparedHead::new(response)), fields: HeaderMap::new(), body })
    }

    /// Returns whether the page cache has the body, which is this file, now. Never blocks.
    pub fn is_in_memory(&self) -> bool {
        is_in_memory(&self.body.file, self.body.length() as u64)
    }
}

/// Asks the kernel in one of two ways: `cachestat` came with Linux 6.5, and not every file system can be read without
/// waiting.
fn is_in_memory(file: &Arc<File>, length: u64) -> bool {
    let read = || {
        let mut bytes = vec![0; length as usize];
        let read = preadv2(file, &mut [IoSliceMut::new(&mut bytes)], 0, ReadWriteFlags::NOWAIT);
        read == Ok(bytes.len())
    };
    ObjectPart::Extent { file: Arc::clone(file), range: 0..length }.is_in_memory() || read()
}
