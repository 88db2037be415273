//! Memory registered with a ring: ranges of regions, each held until it has no sends in flight.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use io_uring::IoUring;
use rustix::io::Errno;

use crate::region::Region;

/// Buffer table of a ring. The ring must be closed before the table is dropped.
pub(super) struct Buffers {
    table: Box<[Option<Buffer>]>,
    free: Vec<u16>,
    /// Number of buffers that wait for release.
    leaving: usize,
    /// True if at least one of them may be released now.
    some_idle: bool,
}

/// Registered range of a region.
struct Buffer {
    region: Arc<Region>,
    range: Range<usize>,
    /// Sends that wait for their notification.
    in_flight: u32,
    /// True if the buffer has to be unregistered as soon as it has no sends in flight.
    leaving: bool,
}

impl Buffers {
    pub(super) fn new(room: u16) -> Buffers {
        let table = (0..room).map(|_| None).collect();
        Buffers { table, free: (0..room).rev().collect(), leaving: 0, some_idle: false }
    }

    /// See [`super::Ring::register`]; returns the index in the table.
    pub(super) fn register(
        &mut self,
        ring: &IoUring,
        region: &Arc<Region>,
        range: Range<usize>,
    ) -> io::Result<u16> {
        let bytes = region.bytes().get(range.clone()).filter(|bytes| !bytes.is_empty());
        let bytes = bytes.ok_or(Errno::INVAL)?;
        let index = *self.free.last().ok_or(Errno::NOBUFS)?;
        let vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: the vector lies in the region, of which the table holds a reference until the buffer is
        // unregistered or the ring closed. The kernel wants the pages writable, but sends only read them.
        unsafe { ring.submitter().register_buffers_update(index.into(), &[vector], None)? };
        self.free.pop();
        let buffer = Buffer { region: Arc::clone(region), range, in_flight: 0, leaving: false };
        self.table[usize::from(index)] = Some(buffer);
        Ok(index)
    }

    /// See [`super::Ring::unregister`].
    pub(super) fn unregister(&mut self, ring: &IoUring, index: u16) {
        let Some(Some(buffer)) = self.table.get_mut(usize::from(index)) else { return };
        if buffer.in_flight == 0 {
            self.release(ring, index);
        } else if !buffer.leaving {
            buffer.leaving = true;
            self.leaving += 1;
        }
    }

    pub(super) fn unregistering(&self) -> usize {
        self.leaving
    }

    /// Bytes of a region, if they are in this buffer and it is not being unregistered.
    pub(super) fn bytes(&self, index: u16, range: Range<usize>) -> Option<&[u8]> {
        let buffer = self.table.get(usize::from(index))?.as_ref()?;
        let is_inside = !buffer.leaving && contains(&buffer.range, &range);
        is_inside.then(|| &buffer.region.bytes()[range])
    }

    /// Counts a send from the buffer as in flight.
    pub(super) fn sent_from(&mut self, index: u16) {
        if let Some(Some(buffer)) = self.table.get_mut(usize::from(index)) {
            buffer.in_flight += 1;
        }
    }

    /// Counts a send from the buffer as done.
    pub(super) fn over(&mut self, index: u16) {
        if let Some(Some(buffer)) = self.table.get_mut(usize::from(index)) {
            buffer.in_flight -= 1;
            self.some_idle |= buffer.leaving && buffer.in_flight == 0;
        }
    }

    /// Unregisters buffers that wait for release and have no sends in flight.
    pub(super) fn release_idle(&mut self, ring: &IoUring) {
        if !std::mem::take(&mut self.some_idle) {
            return;
        }
        for index in 0..self.table.len() as u16 {
            let idle = |buffer: &Buffer| buffer.leaving && buffer.in_flight == 0;
            if self.table[usize::from(index)].as_ref().is_some_and(idle) {
                self.leaving -= 1;
                self.release(ring, index);
            }
        }
    }

    /// Removes an idle buffer from the table.
    fn release(&mut self, ring: &IoUring, index: u16) {
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: an empty vector refers to nothing; it makes the kernel forget the buffer.
        let result = unsafe { ring.submitter().register_buffers_update(index.into(), &[nothing], None) };
        // If the kernel does not release the buffer, its pages stay pinned, and its index must not be reused.
        if result.is_ok() {
            self.free.push(index);
        }
        self.table[usize::from(index)] = None;
    }
}

fn contains(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    inner.start < inner.end && inner.start >= outer.start && inner.end <= outer.end
}
