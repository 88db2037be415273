//! Memory that is registered with a ring: ranges of regions, each held until no send from it is in flight.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use io_uring::IoUring;
use rustix::io::Errno;

use crate::region::Region;

/// The table of a ring's buffers. The ring must be closed before it is dropped.
pub(super) struct Buffers {
    table: Box<[Option<Buffer>]>,
    free: Vec<u16>,
    /// Buffers that wait to be let go of.
    leaving: usize,
    /// One of them, at least, may be let go of now.
    some_idle: bool,
}

/// A range of a region that is registered.
struct Buffer {
    region: Arc<Region>,
    range: Range<usize>,
    /// Sends that the network is not done with.
    in_flight: u32,
    /// To be unregistered as soon as none is in flight.
    leaving: bool,
}

impl Buffers {
    pub(super) fn new(room: u16) -> Buffers {
        let table = (0..room).map(|_| None).collect();
        Buffers { table, free: (0..room).rev().collect(), leaving: 0, some_idle: false }
    }

    /// As [`super::Ring::register`]; answers the place in the table.
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

    /// As [`super::Ring::unregister`].
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

    /// Bytes of a region, if they lie in that buffer and it stays.
    pub(super) fn bytes(&self, index: u16, range: Range<usize>) -> Option<&[u8]> {
        let buffer = self.table.get(usize::from(index))?.as_ref()?;
        let is_inside = !buffer.leaving && contains(&buffer.range, &range);
        is_inside.then(|| &buffer.region.bytes()[range])
    }

    /// A send from it is in flight from now on.
    pub(super) fn sent_from(&mut self, index: u16) {
        if let Some(Some(buffer)) = self.table.get_mut(usize::from(index)) {
            buffer.in_flight += 1;
        }
    }

    /// The network is done with a send from it.
    pub(super) fn over(&mut self, index: u16) {
        if let Some(Some(buffer)) = self.table.get_mut(usize::from(index)) {
            buffer.in_flight -= 1;
            self.some_idle |= buffer.leaving && buffer.in_flight == 0;
        }
    }

    /// Unregisters what is leaving and has nothing in flight any more.
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

    /// Takes an idle buffer out of the table.
    fn release(&mut self, ring: &IoUring, index: u16) {
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: an empty vector refers to nothing; it makes the kernel forget the buffer.
        let result = unsafe { ring.submitter().register_buffers_update(index.into(), &[nothing], None) };
        // Should the kernel not forget it, its pages stay pinned, and its place must not be used again.
        if result.is_ok() {
            self.free.push(index);
        }
        self.table[usize::from(index)] = None;
    }
}

fn contains(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    inner.start < inner.end && inner.start >= outer.start && inner.end <= outer.end
}
