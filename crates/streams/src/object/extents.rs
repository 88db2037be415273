//! A sequence of extents of one file.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use rustix::io::Errno;
use wirepath_datapath::append::{self, append};
use wirepath_datapath::{MAXIMUM_RANGES, Mapping, PageCache, SendError, errno_of, sendfile};

use super::cold::{Cold, TRUST};
use super::outcome::{Awaited, ReadOutcome, ReadResult, SendOutcome, TRUNCATED, Unread};

/// Extents of at least this length leave by reference, one call each. For shorter extents the copy costs less
/// than the call, so up to 1024 of them leave by one call that copies them.
const LONG: u64 = 16 * 1024;

/// Bytes of extents that are checked in the page cache, or read ahead, at a time.
const WINDOW_BYTES: u64 = 1 << 20;

/// Largest gap between two extents that is read together with them.
const GAP: u64 = 16 * 1024;

/// Extents of one file that are read in sequence: rows of a part of a picture, columns of a table. The
/// extents are generated when needed, so any number of them takes little memory.
///
/// To a connection, extents of at least 16 KiB leave by `sendfile`. Runs of shorter extents leave by one call
/// each, which copies them once, from the page cache to the socket. A handler gets the extents without gaps.
pub struct Extents {
    file: Arc<File>,
    /// Mapping of the whole file, for short extents.
    mapping: Option<Mapping>,
    ranges: Box<dyn Iterator<Item = Range<u64>> + Send>,
    /// Rest of an extent that is longer than the window.
    rest: Range<u64>,
    /// The next extents, none of them empty. The window is empty only at the end.
    window: VecDeque<Range<u64>>,
    /// Bytes that remain.
    bytes: u64,
    /// Time at which the page cache had the whole window.
    warm_at: Option<Instant>,
}

impl Extents {
    /// Extents of a file whose total length is `bytes`. If their total differs, the extents are sent as they
    /// are.
    pub fn new<I>(file: Arc<File>, bytes: u64, ranges: I) -> Extents
    where
        I: IntoIterator<Item = Range<u64>, IntoIter: Send + 'static>,
    {
        let ranges = Box::new(ranges.into_iter());
        let window = VecDeque::new();
        let mut extents = Extents { file, mapping: None, ranges, rest: 0..0, window, bytes, warm_at: None };
        extents.fill();
        extents
    }

    /// Bytes that remain.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub(crate) fn is_read(&self) -> bool {
        self.window.is_empty()
    }

    /// Moves the next extents into the window and merges adjacent ones.
    fn fill(&mut self) {
        let mut bytes = 0;
        while bytes < WINDOW_BYTES && self.window.len() < MAXIMUM_RANGES {
            if self.rest.is_empty() {
                let Some(next) = self.ranges.next() else { break };
                self.rest = next;
            }
            let Range { start, end } = self.rest;
            let taken = start..end.min(start.saturating_add(WINDOW_BYTES - bytes));
            self.rest.start = taken.end;
            bytes += taken.end.saturating_sub(taken.start);
            match self.window.back_mut() {
                Some(last) if last.end == taken.start => last.end = taken.end,
                _ if taken.is_empty() => {}
                _ => self.window.push_back(taken),
            }
        }
        self.warm_at = None;
        if self.window.is_empty() {
            // There are no more extents, whatever total was announced.
            self.bytes = 0;
        }
    }

    /// Removes so many bytes from the front of the window after they were read.
    fn advance(&mut self, mut bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        while let Some(front) = self.window.front_mut() {
            let length = front.end - front.start;
            if bytes < length {
                front.start += bytes;
                return;
            }
            bytes -= length;
            self.window.pop_front();
        }
        self.fill();
    }

    /// Ranges of the file that cover the window, including short gaps.
    fn spans(&self) -> Vec<Range<u64>> {
        let mut extents: Vec<Range<u64>> = self.window.iter().cloned().collect();
        extents.sort_unstable_by_key(|extent| extent.start);
        let mut spans: Vec<Range<u64>> = Vec::new();
        for extent in extents {
            match spans.last_mut() {
                Some(last) if extent.start <= last.end.saturating_add(GAP) => {
                    last.end = last.end.max(extent.end)
                }
                _ => spans.push(extent),
            }
        }
        spans
    }

    /// Returns whether there are extents after the window.
    pub(crate) fn has_more(&self) -> bool {
        let in_window: u64 = self.window.iter().map(|extent| extent.end - extent.start).sum();
        in_window < self.bytes
    }

    /// Returns whether the window was found in memory a moment ago. Makes no system call.
    pub(crate) fn is_trusted(&self) -> bool {
        self.warm_at.is_some_and(|found| found.elapsed() < TRUST)
    }

    /// Returns whether the whole window is in the page cache now.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.spans().into_iter().all(|span| PageCache::of(&self.file, span) == PageCache::Warm)
    }

    /// Marks the window as in the page cache.
    pub(crate) fn note_warm(&mut self) {
        self.warm_at = Some(Instant::now());
    }

    /// Pages that have to be read first; None if the window is in memory.
    fn cold(&mut self) -> Option<Cold> {
        if !self.is_trusted() {
            let mut spans = self.spans();
            spans.retain(|span| PageCache::of(&self.file, span.clone()) == PageCache::Cold);
            if !spans.is_empty() {
                return Some(Cold::Spans(Arc::clone(&self.file), spans));
            }
            self.note_warm();
        }
        None
    }

    /// Same as [`Extents::send`], for the part that is in memory.
    pub(crate) fn send_warm(
        &mut self,
        socket: BorrowedFd<'_>,
        is_socket: bool,
        most: u64,
        is_followed: bool,
    ) -> Result<Result<SendOutcome, SendError>, Awaited> {
        match self.cold() {
            Some(cold) => Err(Awaited::Pages(cold)),
            None => Ok(self.send(socket, is_socket, most, is_followed)),
        }
    }

    /// Sends the front: of a long extent at most `most` bytes.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        is_socket: bool,
        most: u64,
        is_followed: bool,
    ) -> Result<SendOutcome, SendError> {
        let Some(front) = self.window.front() else {
            return Ok(SendOutcome { bytes: 0, fills_socket: false });
        };
        let length = front.end - front.start;
        let sent = if length >= LONG || !is_socket {
            sendfile::to_stream(socket, &self.file, front.start, length.min(most) as usize)?
        } else {
            self.send_short(socket, is_followed)?
        };
        self.advance(sent as u64);
        // Fewer bytes may also be due to a truncated file: only the next call can tell.
        Ok(SendOutcome { bytes: sent, fills_socket: false })
    }

    /// Sends the short extents in front by one call; returns the number of bytes.
    fn send_short(&mut self, socket: BorrowedFd<'_>, is_followed: bool) -> Result<usize, SendError> {
        let is_short = |extent: &&Range<u64>| extent.end - extent.start < LONG;
        let short = self.window.iter().take_while(is_short);
        let (count, bytes) =
            short.fold((0, 0), |(count, bytes), at| (count + 1, bytes + (at.end - at.start)));
        let mapping = match self.mapping.take() {
            Some(mapping) => mapping,
            None => map(&self.file)?,
        };
        let ranges = self.window.iter().take(count).map(|extent| extent.start as usize..extent.end as usize);
        let is_followed = is_followed || self.bytes > bytes;
        let sent = mapping.copy_all(socket, ranges, is_followed);
        self.mapping = Some(mapping);
        let sent = sent.map_err(|error| send_error("sendmsg", errno_of(&error)))?;
        // If the file was truncated, its last page has zeros after the end, and copying them is not an error.
        let length = self.file.metadata().map_err(|error| send_error("fstat", errno_of(&error)))?.len();
        let end = self.window.iter().take(count).map(|extent| extent.end).max();
        if end.is_some_and(|end| end > length) {
            return Err(SendError::Storage { call: "sendmsg", errno: Errno::NODATA });
        }
        Ok(sent)
    }

    /// Appends the bytes of the next extents to `buffer`.
    pub(super) fn read_into(&mut self, buffer: &mut BytesMut, room: usize) -> ReadResult {
        if let Some(cold) = self.cold() {
            return Err(Unread::Blocked(Awaited::Pages(cold)));
        }
        if buffer.capacity() - buffer.len() < room && !buffer.try_reclaim(room) {
            buffer.reserve(room);
        }
        let mut total = 0;
        // A new window may not be in memory.
        while total < room && self.warm_at.is_some() {
            let Some(front) = self.window.front() else { break };
            let wanted = (room - total).min((front.end - front.start) as usize);
            let read = append(append::From::File(front.start), self.file.as_fd(), buffer, wanted);
            match read.map_err(|error| Unread::Failed("pread", errno_of(&error)))? {
                0 if total > 0 => break,
                0 => return Err(Unread::Failed(TRUNCATED, Errno::NODATA)),
                read => {
                    self.advance(read as u64);
                    total += read;
                }
            }
        }
        Ok(if total == 0 { ReadOutcome::End } else { ReadOutcome::Bytes(total) })
    }
}

/// Maps a file in its current length.
fn map(file: &File) -> Result<Mapping, SendError> {
    let length = file.metadata().map(|metadata| metadata.len());
    let mapped = length.and_then(|length| Mapping::new(file, usize::try_from(length).unwrap_or(usize::MAX)));
    mapped.map_err(|error| match errno_of(&error) {
        Errno::INVAL => SendError::Storage { call: "mmap", errno: Errno::NODATA }, // an empty file
        errno => SendError::Storage { call: "mmap", errno },
    })
}

/// Converts the error of a call that sends from a mapping: outside of the mapping, or after the end of the
/// file, the file was truncated.
fn send_error(call: &'static str, errno: Errno) -> SendError {
    match errno {
        Errno::AGAIN => SendError::Full { call },
        Errno::FAULT | Errno::INVAL => SendError::Storage { call, errno: Errno::NODATA },
        errno => SendError::Other { call, errno },
    }
}

impl fmt::Debug for Extents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Extents").field("bytes", &self.bytes).field("window", &self.window).finish()
    }
}

#[cfg(test)]
mod tests;
